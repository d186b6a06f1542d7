"""Resolve the timeouts of one command, each with its source. Pure."""

from collections.abc import Iterator, Sequence

from shelltie.basics.frozen import frozen, replace
from shelltie.basics.lazy_regex import lazy
from shelltie.basics.memo import memoized
from shelltie.basics.times import seconds
from shelltie.limits.policy import CategoryPattern, SilenceMode, TimeoutPolicy, or_endless
from shelltie.model import LimitNames, Limits
from shelltie.shell.split import segments, strip_prefixes

# What is longer is not looked at, so that no text can keep the event loop busy.
_TEXT_MAX = 32 * 1024
_SEGMENTS_MAX = 200
_ASKED_MAX = 24 * 3600.0
_MATCHED_MAX = 4000
_LONG_BLANKS = lazy(r"\s{33,}")  # `\s+\s+` takes the longer for each of them
# `.venv/bin/pytest` is pytest; `bin/test` and `./test` are the project's own.
_BIN = lazy(r"(?!\./bin/)\S*/\.?s?bin/(?=\S)")


@frozen
class AskedLimits:
    """What the caller gave, by these `names`; `None` leaves it to the policy, `silence_off` is no
    silence limit.
    """

    total: float | None = None
    silence: float | None = None
    silence_off: bool = False
    names: LimitNames = LimitNames()


@frozen
class _Found:
    """What the policy says about one simple command."""

    total: float | None
    silence: float | None
    source: str
    category: str | None
    matched: bool = True  # by name or pattern, not by default
    pattern: str | None = None


def calculate_timeouts(
    policy: TimeoutPolicy,
    command: str,
    timeout_sec: object = None,
    no_output_timeout_sec: object = None,
) -> Limits:
    """The limits of a call as it arrives: 0 and `None` leave the total limit to the policy.

    A silence limit of 0 is none. Raises: ValueError, with a message for the caller.
    """
    total = seconds(timeout_sec, "timeout_sec")
    silence = seconds(no_output_timeout_sec, "no_output_timeout_sec")
    off = no_output_timeout_sec is not None and silence is None
    return resolve(policy, command, AskedLimits(total, silence, off))


def resolve(
    policy: TimeoutPolicy, text: str, asked: AskedLimits, *, session: AskedLimits | None = None
) -> Limits:
    """The limits of a command: the call decides, else its session, else the policy.

    In the policy a program's own limit comes before its category, and that before the default.
    Of several commands in one text the longest limits hold. A total limit of the call never makes
    the silence limit shorter than the policy's own, or than itself.
    """
    return _resolved(text, policy, asked, session)


@memoized
def _resolved(
    text: str, policy: TimeoutPolicy, asked: AskedLimits, session: AskedLimits | None
) -> Limits:
    found = _look_up(text, policy)
    limits = replace(_total(policy, found, asked, session), names=asked.names)
    limits = _silence(limits, asked, session)
    if limits.literal and or_endless(limits.silence) >= or_endless(limits.total):
        limits = _noted(limits, "silence cannot end it before its total limit does")
    if len(text) > _TEXT_MAX:
        limits = _noted(limits, f"only the first {_TEXT_MAX} characters were looked at")
    return limits


def _total(
    policy: TimeoutPolicy, found: Sequence[_Found], asked: AskedLimits, session: AskedLimits | None
) -> Limits:
    """The total limit, with the silence limit that belongs to it."""
    if asked.total is not None:
        return _asked_for(policy, found, asked.total, asked.names.total)
    if session and session.total is not None:
        return _explicit(policy, found, session.total, "session policy")
    return _clamped(policy, _longest(found))


def _asked_for(policy: TimeoutPolicy, found: Sequence[_Found], total: float, source: str) -> Limits:
    """A call gets what it asks for, up to a day where the policy does not say how much."""
    given = min(total, _ASKED_MAX) if policy.max_total is None else total
    limits = _explicit(policy, found, given, source)
    if given == total:
        return limits
    note = "a call may ask for 24 h at most, unless max_exec_timeout_sec of the policy allows more"
    return _noted(replace(limits, clamped=True), note)


def _explicit(policy: TimeoutPolicy, found: Sequence[_Found], total: float, source: str) -> Limits:
    matched = [one for one in found if one.matched]
    category = _longest(matched).category if matched else None
    limits = _clamped(policy, Limits(total, None, source, category))
    assert limits.total is not None
    silence, rule = policy.explicit_silence.of(limits.total), policy.explicit_silence
    if rule.mode is SilenceMode.PATIENT:
        # Who gives a command more time does not want it to end sooner than the policy would.
        own = _longest(found)
        if silence < or_endless(own.silence) < limits.total:
            return limits.with_silence(own.silence, own.source)
        silence = max(silence, min(or_endless(own.silence), limits.total))
    return replace(limits, silence=silence)


def _longest(found: Sequence[_Found]) -> Limits:
    most = max(found, key=lambda one: (or_endless(one.total), or_endless(one.silence)))
    quietest = max(found, key=lambda one: or_endless(one.silence))
    limits = Limits(most.total, quietest.silence, most.source, most.category, pattern=most.pattern)
    if quietest.silence != most.silence:
        limits = _noted(limits, f"the silence limit comes from {quietest.source}")
    return limits


def _clamped(policy: TimeoutPolicy, limits: Limits) -> Limits:
    most = policy.max_total
    if most is None or or_endless(limits.total) <= most:
        return limits
    note = f"max_exec_timeout_sec of the policy allows {most:g} s at most"
    return _noted(replace(limits, total=most, clamped=True), note)


def _silence(limits: Limits, asked: AskedLimits, session: AskedLimits | None) -> Limits:
    for given, whose in ((asked, asked.names.silence), (session, "session policy")):
        if given and given.silence_off:
            return limits.with_silence(None, f"none, by {whose}")
        if given and given.silence is not None:
            return replace(limits.with_silence(given.silence, whose), literal=True)
    return limits


def _noted(limits: Limits, note: str) -> Limits:
    return replace(limits, notes=(*limits.notes, note))


@memoized
def _look_up(text: str, policy: TimeoutPolicy) -> tuple[_Found, ...]:
    """What the policy says about each command of the text; never empty."""
    text = text[:_TEXT_MAX]
    whole = _matchable(text.strip())
    stripped = filter(None, map(strip_prefixes, segments(text)[:_SEGMENTS_MAX]))
    commands = list(dict.fromkeys(map(_matchable, stripped)))
    found = [_look_up_one(policy, command) for command in commands]
    if commands != [whole]:
        found.extend(_spanning(policy, whole, commands))
    return tuple(found) or (_default(policy),)


def _matchable(text: str) -> str:
    return _LONG_BLANKS.sub(" " * 32, text[:_MATCHED_MAX])


def _spanning(policy: TimeoutPolicy, whole: str, commands: list[str]) -> Iterator[_Found]:
    """A pattern may be about the whole text, such as one with `&&` in it."""
    for entry in policy.ranked:
        if entry.pattern.found_in(whole) and not any(map(entry.pattern.found_in, commands)):
            yield _in_category(policy, entry)
            return


def _look_up_one(policy: TimeoutPolicy, command: str) -> _Found:
    program = command.split(maxsplit=1)[0].rpartition("/")[2].lower()
    entry = _first_match(policy, command)
    by_category = _default(policy) if entry is None else _in_category(policy, entry)
    if program not in policy.command_timeouts:
        return by_category
    total, source = policy.command_timeouts[program], f"command_timeouts.{program}"
    category = by_category.category if by_category.matched else None
    if total is None:
        return _Found(None, None, source, category)
    return _Found(total, _explicit(policy, [by_category], total, source).silence, source, category)


def _first_match(policy: TimeoutPolicy, command: str) -> CategoryPattern | None:
    shown = _BIN.match(command)
    names = (command, command[shown.end() :]) if shown else (command,)
    for entry in policy.ranked:
        if any(map(entry.pattern.found_in, names)):
            return entry
    return None


def _in_category(policy: TimeoutPolicy, entry: CategoryPattern) -> _Found:
    category = policy.categories[entry.category]
    source, pattern = f"category {category.name}", entry.pattern.text
    return _Found(category.total, category.silence, source, category.name, pattern=pattern)


def _default(policy: TimeoutPolicy) -> _Found:
    category = policy.categories[policy.default_category]
    source = f"default category {category.name}"
    if policy.fallback_reason:
        source = f"built-in fallback ({policy.fallback_reason})"
    return _Found(category.total, category.silence, source, category.name, matched=False)
