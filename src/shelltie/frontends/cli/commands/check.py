"""`shelltie check`: dry run. Verdict, decision and limits of a command, without running it."""

import json
import shlex
import sys
from argparse import Namespace
from collections.abc import Iterator
from pathlib import Path

import anyio

from shelltie.approval.irreversible import decide
from shelltie.assemble import judge_of, policy_file, profiles
from shelltie.basics import visible_text
from shelltie.basics.frozen import frozen
from shelltie.basics.json_codec import as_json
from shelltie.basics.times import human_duration
from shelltie.errors import InvalidParameters
from shelltie.frontends.cli.main import NOT_DONE, REFUSED
from shelltie.frontends.cli.run_details import words_of
from shelltie.frontends.cli.terminal import Style, columns, print_json, stdin_bytes, wrap
from shelltie.frontends.reports.run import (
    UsualReport,
    limits_report,
    reasons_report,
    usual_report,
)
from shelltie.limits.experience import Experience, proposed
from shelltie.limits.policy import TimeoutPolicy
from shelltie.limits.resolve import AskedLimits, resolve
from shelltie.model import Adaptive, Command, Limits
from shelltie.record.history import History
from shelltie.running.interfaces import CommandJudge
from shelltie.running.options import check_command
from shelltie.settings.config import Config
from shelltie.settings.layers import load
from shelltie.settings.sections import SafetyProfile
from shelltie.shell.shape import shape
from shelltie.verdict import Decision, Rating, Verdict

_COLOURS = {Rating.SAFE: "green", Rating.UNKNOWN: "yellow", Rating.DANGEROUS: "red"}
_MEANS = {
    Decision.ALLOW: "it runs",
    Decision.ASK: "a person must say yes first",
    Decision.DENY: "it is refused",
}
_DECIDED = {Decision.ALLOW: "green", Decision.ASK: "yellow", Decision.DENY: "red"}
_CODES = {Decision.ALLOW: 0, Decision.ASK: NOT_DONE, Decision.DENY: REFUSED}
_LABEL = 10
_ELSEWHERE = "the silence limit comes from "  # how a note begins when the sources differ


@frozen
class _Answer:
    command: str
    verdict: Verdict
    decision: Decision
    key: str  # of the profile, that decided
    limits: Limits
    usual: UsualReport | None


def main(args: Namespace) -> int:
    """One command from the command line, or many from stdin."""
    config = load(Path.cwd())
    checks = _Checks(
        judge_of(config, Path.cwd()),
        profiles(config)[args.profile],
        config.sandbox.workspace or str(Path.cwd()),
        policy_file(config, Path.cwd()).current(),
        _Learned(config),
    )
    if args.jsonl:
        if args.words:
            raise InvalidParameters("check --jsonl reads its commands from stdin, an object a line")
        anyio.run(checks.many)
        return 0
    text = args.words[0] if len(args.words) == 1 else shlex.join(args.words)
    answer = anyio.run(checks.one, text)
    if args.json:
        print_json(_wire(answer))
    else:
        _show(answer, Style(sys.stdout, args.color), args.profile)
    return _CODES[answer.decision] if args.exit_code else 0


class _Learned:
    """What earlier runs say, as a server would use it."""

    def __init__(self, config: Config) -> None:
        self._mode = Adaptive(config.adaptive.mode)
        self._least = config.adaptive.min_samples
        self._history = History(config.journal if config.audit.enabled else None)

    async def limits(
        self, text: str, limits: Limits, most: float | None
    ) -> tuple[Limits, UsualReport | None]:
        """The limits that would hold, and what is usual for such a command, if that is known."""
        kind = "" if self._mode is Adaptive.OFF else shape(text)
        if not kind:
            return limits, None
        project, samples = await self._history.recall(kind, str(Path.cwd()))
        known = Experience(kind, project, samples, self._least).usual
        if known is None:
            return limits, None
        better = proposed(limits, known, most)
        held = better if self._mode is Adaptive.APPLY else limits
        return held, usual_report(known, held, better)


class _Checks:
    """Everything that decides about a command, and nothing that runs one."""

    def __init__(
        self,
        judge: CommandJudge,
        profile: SafetyProfile,
        workspace: str,
        policy: TimeoutPolicy,
        learned: _Learned,
    ) -> None:
        self._judge = judge
        self._profile = profile
        self._workspace = workspace
        self._policy = policy
        self._learned = learned

    async def one(self, text: str) -> _Answer:
        """What would happen to it.

        Raises: InvalidParameters.
        """
        command = Command(text)
        check_command(command)
        verdict = await self._judge.judge(command)
        limits = resolve(self._policy, text, AskedLimits())
        limits, usual = await self._learned.limits(text, limits, self._policy.max_total)
        decision = decide(self._profile, text, verdict, str(Path.cwd()), self._workspace)
        stricter = decision is not self._profile.for_rating(verdict.rating)
        key = "irreversible" if stricter else str(verdict.rating)
        return _Answer(text, verdict, decision, key, limits, usual)

    async def many(self) -> None:
        """An object a line in, an object a line out."""
        for line in stdin_bytes():
            try:
                answer = _wire(await self.one(_command_in(line)))
            except InvalidParameters as error:
                answer = {"error": str(error), "errorCode": error.code}
            print(json.dumps(answer), flush=True)


def _command_in(line: bytes) -> str:
    try:
        given = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise InvalidParameters(f"not JSON: {error}") from error
    if not isinstance(given, dict) or not isinstance(given.get("command"), str):
        raise InvalidParameters('each line must be an object such as {"command": "ls -la"}')
    return str(given["command"])


def _wire(answer: _Answer) -> dict[str, object]:
    usual = {} if answer.usual is None else {"usual": as_json(answer.usual)}
    return {
        "command": answer.command,
        "verdict": str(answer.verdict.rating),
        "decision": str(answer.decision),
        "reasons": [as_json(reason) for reason in reasons_report(answer.verdict)],
        "limits": as_json(limits_report(answer.limits)),
        **usual,
    }


def _show(answer: _Answer, ink: Style, profile: str) -> None:
    limits, rating = answer.limits, answer.verdict.rating
    decision = str(answer.decision)
    setting = "" if rating is Rating.SAFE else f" (safety.profiles.{profile}.{answer.key})"
    print(ink("bold", visible_text.brief(answer.command, 3 * columns())))
    _print_row("verdict", rating, ink(_COLOURS[rating], rating))
    for reason in _reasons(answer.verdict) or [_because(answer.verdict)]:
        _print_row("", reason)
    means = f"{decision}: {_MEANS[answer.decision]}{setting}"
    _print_row("decision", means, ink(_DECIDED[answer.decision], decision), decision)
    _print_row("limits", _limits(limits))
    for label, text in _experience(answer.usual):
        _print_row(label, text)
    for note in limits.notes:
        if not note.startswith(_ELSEWHERE):
            _print_row("note", note)


def _print_row(label: str, text: str, inked: str = "", plain: str = "") -> None:
    """A label and a text in as many lines as it needs; `inked` takes the place of `plain`."""
    lines = wrap(text, f"  {label:<{_LABEL}}", " " * (_LABEL + 2))
    head, rest = lines[: _LABEL + 2], lines[_LABEL + 2 :]
    print(head + (rest.replace(plain or text, inked, 1) if inked else rest))


def _limits(limits: Limits) -> str:
    elsewhere = [note for note in limits.notes if note.startswith(_ELSEWHERE)]
    total = words_of(limits.source) + (", clamped" if limits.clamped else "")
    silence = words_of(elsewhere[0].removeprefix(_ELSEWHERE)) if elsewhere else total
    spans = f"total {_span(limits.total)}", f"silence {_span(limits.silence)}"
    if silence == total:
        return f"{', '.join(spans)} ({total})"
    return f"{spans[0]} ({total}), {spans[1]} ({silence})"


def _experience(usual: UsualReport | None) -> Iterator[tuple[str, str]]:
    if usual is None:
        return
    p50, p95 = human_duration(usual.p50_sec), human_duration(usual.p95_sec)
    told = f"of the last {usual.runs} runs of {usual.shape!r}"
    yield "usual", f"{p50} or less in half {told}; 95 % took {p95} or less"
    if usual.suggested_exec_sec is not None or usual.suggested_silence_sec is not None:
        total, silence = map(_span, (usual.suggested_exec_sec, usual.suggested_silence_sec))
        use = 'would fit better: adaptive.mode = "apply" would use them'
        yield "learned", f"total {total}, silence {silence} {use}"


def _because(verdict: Verdict) -> str:
    if reasons := _reasons(verdict):
        return reasons[0]
    listed = dict.fromkeys(it.argv[0] or "…" for it in verdict.commands if it.listed)
    if not listed:
        return "every command in it is known to be read-only"
    names = ", ".join(listed)
    rest = "" if all(it.listed for it in verdict.commands) else "; the rest is read-only"
    return f"trusted because listed, not known to be read-only: {names}{rest}"


def _reasons(verdict: Verdict) -> list[str]:
    """The strictest ones, each once."""
    told = [r for r in reasons_report(verdict) if r.rating == verdict.rating]
    return list(dict.fromkeys(f"{r.message} [{r.code}]" for r in told))


def _span(limit: float | None) -> str:
    return "none" if limit is None else human_duration(limit)
