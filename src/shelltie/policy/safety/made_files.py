"""Files that a text writes and then runs: what is known of their content. Pure."""

import posixpath
from collections.abc import Iterator, Mapping
from itertools import pairwise

from shelltie.policy.safety.args import Arg
from shelltie.policy.safety.case import Case, base_name
from shelltie.policy.safety.sources import Source, body_text, origin_of_command, output_text
from shelltie.shell.script import Simple
from shelltie.verdict import Code

_WRITES = frozenset((">", ">>", ">|", "&>", "&>>"))
_NAMED_BY = frozenset(
    ("-o", "-O", "--output", "--output-document", "-qO", "-fsSLo", "-sSLo", "-Lo")
)
_NAMED_BY_ADDRESS = frozenset(("-O", "--remote-name", "-OL", "-LO", "-sO", "-fsSLO", "-sSLO"))
_FETCHED = ""  # in place of a content that only the network knows


def rate_run_file(case: Case, arg: Arg) -> None:
    """A file that is run: dangerous if the same text has fetched it, or written harm into it."""
    for value in arg.values:
        content = _made(case).get(posixpath.normpath(value))
        if content == _FETCHED:
            case.dangerous(Code.REMOTE_CODE, f"runs {arg.text}, which comes from the network", arg)
        elif content is not None:
            case.again.danger_in_text(content, case, value, arg.span)


def _made(case: Case) -> Mapping[str, str]:
    """Each file with its content, as far as the text tells."""
    made: dict[str, str] = {}
    for place, simple in enumerate(case.where.script.commands):
        fetched = origin_of_command(case, simple) is Source.FETCHED
        for redirect in simple.redirects:
            if redirect.operator in _WRITES and redirect.target is not None:
                content = _FETCHED if fetched else _content(case, place)
                if redirect.target.value is not None and content is not None:
                    made[posixpath.normpath(redirect.target.value)] = content
        if fetched:
            made.update((posixpath.normpath(name), _FETCHED) for name in _saved(simple))
    return made


def _content(case: Case, place: int) -> str | None:
    simple = case.where.script.commands[place]
    bodies = [redirect for redirect in simple.redirects if redirect.body is not None]
    if bodies:
        return body_text(case, bodies[-1])
    return output_text(case, place)


def _saved(simple: Simple) -> Iterator[str]:
    """The files a program that fetches writes by itself."""
    words = [word.value or "" for word in simple.words]
    for before, word in pairwise(words):
        if before in _NAMED_BY and not word.startswith("-"):
            yield word
    yield from (word.partition("=")[2] for word in words if word.startswith("--output"))
    if words[:1] == ["wget"] or not _NAMED_BY_ADDRESS.isdisjoint(words):
        yield from (base_name(word) for word in words[1:] if "/" in word and base_name(word))
