"""Compares our parse with shfmt's JSON syntax tree: a second parser must agree. Pure.

Agreed is only what both see alike: every word of every command with its place and its literal
value, every redirection with its target, every assignment, every loop and test.
"""

import json
import re
from collections.abc import Callable, Iterator, Mapping
from itertools import accumulate
from typing import Any

from shelltie.basics.lazy_regex import lazy
from shelltie.shell.lexer import decoded
from shelltie.shell.script import Doubt, Redirect, Script, Simple, Word
from shelltie.verdict import Code, Span

SHFMT_ARGS = ("--to-json", "-ln=bash", "--filename=command")

_NODES_MAX = 20_000
_DECLARES = ("declare", "export", "local", "nameref", "readonly", "typeset")
_PLACED = (">", ">>", "<", "<>", ">|", "&>", "&>>", ">&", "<&", "<<<")
_BARE_ESCAPE = lazy(r"\\(?:(\n)|(.?))", re.DOTALL)
_QUOTED_ESCAPE = lazy(r"\\(\n|[$`\"\\])")
_Node = Mapping[str, Any]
_Thing = tuple[object, ...]


def agree(script: Script, tree: bytes) -> Doubt | None:
    """`None` if both saw the same, else what to say about it."""
    try:
        theirs = sorted(_theirs(json.loads(tree)), key=repr)
    except (ValueError, RecursionError, KeyError, TypeError, _TooMuch):
        return _problem(script, "the second parser could not read it")
    ours = sorted(_ours(script), key=repr)
    return None if ours == theirs else _problem(script, "two parsers read it differently")


def _problem(script: Script, message: str) -> Doubt:
    return Doubt(Code.PARSER_DISAGREEMENT, message, Span(0, len(script.text)))


class _TooMuch(Exception):
    """A tree that nobody wants to compare."""


def _word(start: int, end: int, value: str | None) -> tuple[int, int | str]:
    """Where they let a literal word end depends on the line break that may follow."""
    return start, end if value is None else value


# What we saw


def _ours(script: Script) -> Iterator[_Thing]:
    byte = _byte_places(script.text)
    for command in script.commands:
        yield from _command(command, byte)
        for redirect in command.redirects:
            yield _redirect(redirect, byte)
        for assignment in command.assignments:
            yield "assignment", assignment.name.partition("[")[0], byte(assignment.span.start)


def _command(command: Simple, byte: Callable[[int], int]) -> Iterator[_Thing]:
    first = command.words[0] if command.words else None
    if command.loop is not None:
        yield "loop", *(_span(word, byte) for word in command.words)
    elif first is not None and first.text in ("[[", "(("):
        yield (first.text,)
    elif first is not None and first.text in _DECLARES:
        yield "declaration", *(_span(word, byte) for word in command.words)
    elif first is not None:
        yield "command", *(_word(*_span(word, byte), word.value) for word in command.words)


def _redirect(redirect: Redirect, byte: Callable[[int], int]) -> _Thing:
    word = redirect.target or redirect.body
    if redirect.operator in _PLACED and word is not None:
        return "redirect", redirect.operator, *_word(*_span(word, byte), word.value)
    return "redirect", redirect.operator


def _span(word: Word, byte: Callable[[int], int]) -> tuple[int, int]:
    return byte(word.span.start), byte(word.span.end)


def _byte_places(text: str) -> Callable[[int], int]:
    """From code points, which we count, to bytes, which they do."""
    if text.isascii():
        return int
    sizes = [0, *accumulate(len(char.encode("utf-8", "surrogatepass")) for char in text)]
    return sizes.__getitem__


# What they saw


def _theirs(tree: _Node) -> Iterator[_Thing]:
    waiting: list[Any] = [tree]
    for _ in range(_NODES_MAX):
        if not waiting:
            return
        node = waiting.pop()
        if isinstance(node, dict):
            yield from _seen(node)
            waiting.extend(node.values())
        elif isinstance(node, list):
            waiting.extend(node)
    raise _TooMuch


def _seen(node: _Node) -> Iterator[_Thing]:
    for redirect in node.get("Redirs", ()):
        yield _their_redirect(redirect)
    match node.get("Type"):
        case "CallExpr":
            yield from _call(node)
        case "DeclClause":
            words = (node["Variant"], *node.get("Args", ()))
            yield "declaration", *(_place(word) for word in words)
        case "TestClause":
            yield ("[[",)
        case "ArithmCmd" | "CStyleLoop":
            yield ("((",)
        case "WordIter":
            yield "loop", *(_place(word) for word in node.get("Items", ()))
        case "CaseClause":
            patterns = [word for item in node.get("Items", ()) for word in item["Patterns"]]
            yield "loop", *(_place(word) for word in (node["Word"], *patterns))
        case _:
            pass


def _call(node: _Node) -> Iterator[_Thing]:
    if words := node.get("Args"):
        yield "command", *(_word(*_place(word), _value(word)) for word in words)
    for assignment in node.get("Assigns", ()):
        yield "assignment", assignment["Name"]["Value"], assignment["Pos"]["Offset"]


def _their_redirect(node: _Node) -> _Thing:
    if node["Op"] in _PLACED:
        word = node["Word"]
        return "redirect", node["Op"], *_word(*_place(word), _value(word))
    return "redirect", node["Op"]


def _place(node: _Node) -> tuple[int, int]:
    return node["Pos"]["Offset"], node["End"]["Offset"]


def _value(word: _Node) -> str | None:
    """The literal value; `None` if some of it is known only at run time."""
    pieces = [_piece(part) for part in word["Parts"]]
    literal = [piece for piece in pieces if piece is not None]
    return "".join(literal) if len(literal) == len(pieces) else None


def _piece(part: _Node) -> str | None:
    match part["Type"]:
        case "Lit":
            return _BARE_ESCAPE.sub(lambda escape: escape[2] or "", part["Value"])
        case "SglQuoted":
            value = str(part.get("Value", ""))
            return decoded(value) if part.get("Dollar") else value
        case "DblQuoted":
            return _quoted(part)
        case _:
            return None


def _quoted(part: _Node) -> str | None:
    parts = part.get("Parts", ())
    if any(inner["Type"] != "Lit" for inner in parts):
        return None
    text = "".join(inner["Value"] for inner in parts)
    return _QUOTED_ESCAPE.sub(lambda escape: escape[1].replace("\n", ""), text)
