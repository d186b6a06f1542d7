"""The error tree is all in one place, and drawn there."""

import ast
from collections.abc import Iterator
from pathlib import Path

import shelltie
from shelltie import errors
from shelltie.errors import TerminalError

SOURCES = Path(shelltie.__file__).parent


def drawn(error: type[TerminalError], depth: int = 0) -> Iterator[str]:
    """The lines of the picture, an error and then those below it."""
    yield "    " * depth + error.__name__
    for below in error.__subclasses__():
        if below.__module__ == errors.__name__:
            yield from drawn(below, depth + 1)


def test_the_tree_of_errors_is_drawn_as_it_is() -> None:
    assert errors.__doc__ is not None

    picture = errors.__doc__.split("\n\n", 1)[1].strip()

    assert picture.splitlines() == list(drawn(TerminalError))


def test_no_error_of_ours_is_made_elsewhere() -> None:
    ours = {name for name, value in vars(errors).items() if isinstance(value, type)}
    strays = [
        f"{path.relative_to(SOURCES)}: {node.name}"
        for path in SOURCES.rglob("*.py")
        if path.name != "errors.py"
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.ClassDef)
        and any(isinstance(base, ast.Name) and base.id in ours for base in node.bases)
    ]

    assert strays == []
