"""Which tests an ordinary user runs once more, with the distribution's own Python.

Of a file that asks who runs it, or needs a sandbox, these are all tests, or, where single tests
ask, those and the first one. Of the other unit and property tests it is the first case of each:
the further ones take the same way through Python. `scripts/test-as-user` loads this as a plugin.
"""

import re
from dataclasses import dataclass
from pathlib import Path

import pytest

TESTS = Path(__file__).resolve().parent
_ASKS = re.compile(r"\bgete?uid\(|\bneeds\([^)]*\"bwrap\"|\"unshare\"|\btests\.sandboxes\b")
_TEST = re.compile(r"^(?:async )?def (test_\w+)", re.MULTILINE)
# What a user may do, or has: a unit test that touches it is run with all its cases.
_OF_A_USER = re.compile(
    r"\.ch(mod|own)\(|\.umask\(|\bos\.kill|\bsubprocess\.|\.home\(|\.expanduser\(|\.setrlimit\("
)


@dataclass(frozen=True)
class Choice:
    """What is run of a file: all, or these tests with all their cases and others with one."""

    whole: bool
    asking: frozenset[str] = frozenset()
    first_of: str = ""  # "file" or "test": of which the first case is run as well

    @property
    def is_empty(self) -> bool:
        return not (self.whole or self.asking or self.first_of)


def choose(file: Path) -> Choice:
    text, folder = file.read_text(encoding="utf-8"), file.relative_to(TESTS).parts[0]
    # The formatter leaves two empty lines between what is at the top level, and nowhere else.
    asks = [_TEST.search(block) for block in text.split("\n\n\n") if _ASKS.search(block)]
    of_a_user = folder in ("unit", "property") and _OF_A_USER.search(text)
    if of_a_user or None in asks or (asks and folder == "providers"):
        return Choice(whole=True)
    asking = frozenset(found[1] for found in asks if found)
    if folder in ("unit", "property"):
        return Choice(whole=False, asking=asking, first_of="test")
    return Choice(whole=False, asking=asking, first_of="file" if asking else "")


def pytest_ignore_collect(collection_path: Path) -> bool | None:
    """What is left out is not even imported."""
    if collection_path.match("test_*.py") and choose(collection_path).is_empty:
        return True
    return None


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    choices = {file: choose(file) for file in {item.path for item in items}}
    seen: set[str] = set()
    taken: list[pytest.Item] = []
    left: list[pytest.Item] = []
    for item in items:
        choice, (file, _, rest) = choices[item.path], item.nodeid.partition("::")
        name = rest.partition("[")[0]
        first_of = file if choice.first_of == "file" else f"{file}::{name}"
        is_taken = choice.whole or name in choice.asking or first_of not in seen
        seen.add(first_of)
        (taken if is_taken else left).append(item)
    config.hook.pytest_deselected(items=left)
    items[:] = taken
