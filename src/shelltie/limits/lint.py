"""Lint of a timeout policy: patterns that do not mean what they say, with a proof each. Pure."""

import re
from collections.abc import Iterator

from shelltie.basics.lazy_regex import lazy
from shelltie.limits.policy import Category, CategoryPattern, MatchStrategy, TimeoutPolicy

# Longer names that really exist; for others a letter is appended.
_LONGER = {
    "ls": "lsof -i",
    "dir": "dirname x",
    "cat": "catkin build",
    "echo": "echoserver",
    "type": "typeset -p",
    "date": "datetime",
    "make": "makepkg",
    "go": "gofmt -l .",
    "git diff": "git difftool",
    "npm install": "npm install-test",
}
_VERSIONED = {"python": "python3", "pip": "pip3"}
_LOOK_AHEAD = lazy(r"\(\?!(\.\*[^()|]*)\|([^()]*)\)")
_INNERMOST = lazy(r"\((?:\?:)?([^()]*)\)")
_EXAMPLES_MAX = 60


def lint(policy: TimeoutPolicy) -> tuple[str, ...]:
    """What the policy probably does not mean. Every command named was really tried."""
    return tuple(
        message
        for messages in (
            *(_about_category(policy, category) for category in policy.categories.values()),
            *(_about_pattern(policy, entry) for entry in policy.patterns),
        )
        for message in messages
    )


def _about_category(policy: TimeoutPolicy, category: Category) -> Iterator[str]:
    used = {policy.default_category, *(entry.category for entry in policy.patterns)}
    if category.name not in used:
        yield f"category {category.name} has no patterns, so nothing belongs to it"
    total, silence = category.total, category.silence
    if total is not None and silence is not None and silence >= total:
        limits = f"{silence:g} s of silence in {total:g} s"
        yield f"category {category.name} allows {limits}, so silence never ends a command"


def _about_pattern(policy: TimeoutPolicy, entry: CategoryPattern) -> Iterator[str]:
    where = f"{entry.category}: {entry.pattern.text}"
    if entry.pattern.found_in(""):
        yield f"{where}: matches every command, even `anything at all`"
        return
    examples = [text for text in _examples(entry.pattern.text) if entry.pattern.found_in(text)]
    for check in (_open_end, _loose_look_ahead, _unanchored, _versioned, _shadowed):
        for message in check(policy, entry, examples):
            yield f"{where}: {message}"


def _open_end(_: TimeoutPolicy, entry: CategoryPattern, examples: list[str]) -> Iterator[str]:
    caught = []
    for text in examples:
        longer = _LONGER.get(text, "" if " " in text else f"{text}x")
        if longer and entry.pattern.found_in(longer):
            caught.append(f"`{longer}`")
    if caught:
        names = ", ".join(caught[:3])
        yield f"also catches {names}: nothing ends the word; write (?=\\s|$) after it"


def _loose_look_ahead(
    _: TimeoutPolicy, entry: CategoryPattern, examples: list[str]
) -> Iterator[str]:
    for found in _LOOK_AHEAD.finditer(entry.pattern.text):
        for word in found[2].split("|"):
            still = [f"{text} {word}" for text in examples[:1]]
            if still and entry.pattern.found_in(still[0]):
                meant = f"(?!.*(?:{found[1].removeprefix('.*')}|{found[2]}))"
                yield f"still catches `{still[0]}`: only the first word has .*; write {meant}"
                return


def _unanchored(_: TimeoutPolicy, entry: CategoryPattern, examples: list[str]) -> Iterator[str]:
    for text in examples[:1]:
        elsewhere = f"grep '{text}' log"
        if entry.pattern.found_in(elsewhere) and not entry.pattern.found_in("grep '' log"):
            yield f"also catches `{elsewhere}`: it may stand anywhere; start it with ^"


def _versioned(policy: TimeoutPolicy, entry: CategoryPattern, examples: list[str]) -> Iterator[str]:
    for text in examples:
        program, _, rest = text.partition(" ")
        other = f"{_VERSIONED[program]} {rest}".strip() if program in _VERSIONED else ""
        same = (one for one in policy.patterns if one.category == entry.category)
        if other and not any(one.pattern.found_in(other) for one in same):
            yield f"catches `{text}` but not `{other}`"
            return


def _shadowed(policy: TimeoutPolicy, entry: CategoryPattern, examples: list[str]) -> Iterator[str]:
    if policy.match_strategy is not MatchStrategy.FIRST or not examples:
        return
    earlier = policy.patterns[: policy.patterns.index(entry)]
    for one in earlier:
        if one.category != entry.category and all(map(one.pattern.found_in, examples)):
            yield f"`{examples[0]}` is already caught by {one.category}: {one.pattern.text}"
            return


def _examples(pattern: str) -> list[str]:
    """Commands that a simple pattern is meant for; none for one that is not simple."""
    text = re.sub(r"\(\?<?[=!][^()]*(?:\([^()]*\)[^()]*)*\)|[\^$]|\\[bBAZ]", "", pattern)
    text = re.sub(
        r"(?:\\[sS]|\.|\\w|\[[^\]]*\])[*+]?[?+]?",
        lambda atom: " " if atom[0].startswith(r"\s") else "x",
        text.replace(r"\.", "\0"),
    )
    text = re.sub(r"(\([^()]*\)|.)(?:[?*]|\{0,)", "", text)
    texts = [text]
    while group := _INNERMOST.search(texts[0]):
        texts = [_INNERMOST.sub(lambda _: "\1", text, count=1) for text in texts]
        texts = [text.replace("\1", branch) for text in texts for branch in group[1].split("|")]
        texts = texts[:_EXAMPLES_MAX]
    plain = (re.sub(r"\\(.)", r"\1", text.replace("\0", ".")) for text in texts)
    return [text for text in plain if text.strip()]
