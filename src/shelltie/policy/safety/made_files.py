"""Files that a text writes and then runs: what is known of their content. Pure."""

import posixpath
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise

from shelltie.policy.safety.args import HOLE, Arg, literal
from shelltie.policy.safety.case import Case, base_name
from shelltie.policy.safety.sources import Source, origin_of_command, output_text
from shelltie.shell.script import Simple
from shelltie.verdict import Code

_WRITES = frozenset((">", ">>", ">|", "&>", "&>>"))
_NAMED_BY = frozenset(
    ("-o", "-O", "--output", "--output-document", "-qO", "-fsSLo", "-sSLo", "-Lo")
)
_NAMED_BY_ADDRESS = frozenset(("-O", "--remote-name", "-OL", "-LO", "-sO", "-fsSLO", "-sSLO"))
_FETCHED = f"{HOLE}fetched"  # in place of a content that only the network knows


def rate_run_file(case: Case, arg: Arg) -> None:
    """A file that is run: dangerous if the same text has fetched it, or written harm into it."""
    values = case.where.values
    if values.files is None:
        values.files = _made(case)
    for value in arg.values:
        content = values.files.get(posixpath.normpath(value))
        if content is None:
            continue
        if content.shape == _FETCHED:
            both = replace(arg, span=arg.span.with_all([content.span]))
            case.dangerous(Code.REMOTE_CODE, f"runs {arg.text}, which comes from the network", both)
        else:
            case.again.danger_in_text(content.guesses[0], case, value, content.span)


def _made(case: Case) -> Mapping[str, Arg]:
    """Each file with its content, as far as the text tells; all of it, if it is written twice."""
    made: dict[str, list[Arg]] = {}
    for name, content in _written(case):
        made.setdefault(posixpath.normpath(name), []).append(content)
    return {name: _together(contents) for name, contents in made.items()}


def _written(case: Case) -> Iterator[tuple[str, Arg]]:
    for place, simple in enumerate(case.where.script.commands):
        fetched = origin_of_command(case, simple) is Source.FETCHED
        unseen = literal(_FETCHED, simple.span)
        for redirect in simple.redirects:
            if redirect.operator in _WRITES and redirect.target is not None:
                content = unseen if fetched else _content(case, place)
                if redirect.target.value is not None and content is not None:
                    yield redirect.target.value, content
        if fetched:
            yield from ((name, unseen) for name in _saved(simple))


def _together(contents: Sequence[Arg]) -> Arg:
    if len(contents) == 1:
        return contents[0]
    span = contents[0].span.with_all(content.span for content in contents)
    texts = dict.fromkeys(content.guesses[0] for content in contents)
    return literal(_FETCHED if _FETCHED in texts else "\n".join(texts), span)


def _content(case: Case, place: int) -> Arg | None:
    bodies = [it.body for it in case.where.script.commands[place].redirects if it.body is not None]
    if bodies:
        return next(iter(case.where.values.of(bodies[-1])), None)
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
