"""`shelltie check`: dry run. Verdict, decision and limits of a command, without running it."""

import json
import shlex
import sys
from argparse import Namespace
from collections.abc import Iterator
from pathlib import Path

from shelltie.basics import visible_text
from shelltie.basics.times import human_duration
from shelltie.basics.worker_threads import CallersThread, without_loop
from shelltie.errors import InvalidParameters
from shelltie.frontends.cli.console import Style, columns, print_json, stdin_bytes, wrap
from shelltie.frontends.cli.main import NOT_DONE, REFUSED
from shelltie.frontends.dry_run import DryRun, DryRunAnswer
from shelltie.frontends.reports.verdict_report import UsualReport, reasons_report, words_of
from shelltie.model import Limits
from shelltie.settings.layers import load
from shelltie.verdict import Decision, Rating, Verdict

_COLOURS = {Rating.SAFE: "green", Rating.UNKNOWN: "yellow", Rating.DANGEROUS: "red"}
_MEANS = {
    Decision.ALLOW: "it runs",
    Decision.TRIAL: "it runs on trial",
    Decision.ASK: "a person must say yes first",
    Decision.DENY: "it is refused",
}
_DECIDED = {
    Decision.ALLOW: "green",
    Decision.TRIAL: "green",
    Decision.ASK: "yellow",
    Decision.DENY: "red",
}
_CODES = {
    Decision.ALLOW: 0,
    Decision.TRIAL: 0,
    Decision.ASK: NOT_DONE,
    Decision.DENY: REFUSED,
}
_LABEL = 10
_ELSEWHERE = "the silence limit comes from "  # how a note begins when the sources differ


def main(args: Namespace) -> int:
    """One command from the command line, or many from stdin."""
    place = Path.cwd()
    checks = DryRun(load(place), place, args.profile, CallersThread())
    if args.jsonl:
        if args.words:
            raise InvalidParameters("check --jsonl reads its commands from stdin, an object a line")
        _many(checks)
        return 0
    text = args.words[0] if len(args.words) == 1 else shlex.join(args.words)
    answer = without_loop(checks.one(text))
    if args.json:
        print_json(answer.to_json())
    else:
        _show(answer, Style(sys.stdout, args.color), args.profile)
    return _CODES[answer.decision] if args.exit_code else 0


def _many(checks: DryRun) -> None:
    """An object a line in, an object a line out."""
    for line in stdin_bytes():
        try:
            answer = without_loop(checks.one(_command_in(line))).to_json()
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


def _show(answer: DryRunAnswer, ink: Style, profile: str) -> None:
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
