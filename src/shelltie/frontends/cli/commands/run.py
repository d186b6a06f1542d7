"""`shelltie run`: one command with live output, limits, and its end explained."""

import asyncio
import os
import shlex
import signal
import sys
from argparse import Namespace
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import anyio

from shelltie.basics.lazy_module import import_now
from shelltie.basics.times import human_duration, human_size
from shelltie.environment import child
from shelltie.errors import (
    CannotStart,
    CommandDenied,
    InvalidParameters,
    ProcessError,
    TerminalError,
)
from shelltie.events import Event, LimitNear, SilentButWorking, Unusual
from shelltie.frontends.api import Options, Terminal
from shelltie.frontends.cli import main as exits
from shelltie.frontends.cli.console import (
    Style,
    cut,
    forget_stdout,
    marked,
    print_error,
    print_json,
    stdin_bytes,
)
from shelltie.frontends.cli.detached_run import run_detached
from shelltie.frontends.cli.pass_through import OutputForwarder
from shelltie.frontends.cli.tty_prompt import TerminalChannel
from shelltie.frontends.reports.run_report import (
    Result,
    next_steps,
    outside_lines,
    refusal_report,
    report,
)
from shelltie.model import (
    OUTSIDE,
    Caller,
    Ended,
    EscalationStep,
    Limit,
    LimitNames,
    Outcome,
    State,
    Stream,
    TerminalSize,
    signal_name,
)
from shelltie.providers.provider import OLDER_BWRAP, WRITES_LIVE
from shelltie.record.journal import UNANCHORED, UNRECORDED
from shelltie.running.run import Run

# Seconds after which a command counts as one that may outlive the files of our Python.
IMPORTS_ALL_AFTER = 1.0
_SOURCE_MAX = 60  # patterns can be long
_KILL = EscalationStep(signal.SIGKILL, 2.0)
_OF_THE_RECORD = (UNRECORDED, UNANCHORED)
_LESS_ISOLATED = (OLDER_BWRAP, WRITES_LIVE)
_LEAVE_ON = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_FIRST_FIELDS = (
    *("status", "stdout", "stderr", "exitCode", "timeoutReason", "terminationMode", "durationMs"),
    *("signal", "limits", "truncated", "survivors", "leaked", "provider", "isolation"),
    *("verdict", "warnings", "hint", "runId"),
)
_TRIALS = {
    "open": "nothing is applied yet",
    "applied": "applied",
    "discarded": "nothing to apply",
    "undone": "undone",
}
_LIMIT_NAMES = LimitNames("--total", "--silence", "{name} {seconds}s")


def main(args: Namespace) -> int:
    """Run the command; its exit code, or ours."""
    try:
        command = args.words[0] if len(args.words) == 1 else args.words
        if not command:
            raise InvalidParameters("missing command: shelltie run [OPTIONS] -- CMD…")
        if args.detach:
            return run_detached(args, command, _options(args), _LIMIT_NAMES)
        return anyio.run(Leashed(args).run, command, _options(args))
    except TerminalError as error:
        if args.json:
            print_json(_refusal(error))
        raise


class Leashed:
    """One run, with a person or a script in front of it."""

    def __init__(self, args: Namespace) -> None:
        self.client = "shelltie run"
        self._json = args.json
        self._isolation, self._provider = args.isolation, args.provider
        self._outside = outside_command(args)
        self._ink = Style(sys.stderr, args.color)
        self._run: Run | None = None
        self._starting: anyio.CancelScope | None = None
        self._tap = OutputForwarder(
            self._keep_waiting, lambda: self._leave("nobody reads its output")
        )
        self._signal: int | None = None
        self._why = ""
        self._leaving = anyio.Event()

    async def run(self, command: str | list[str], options: Options) -> int:
        """To the end, whoever brings it about."""
        self._starting = anyio.CancelScope()
        self._listen_to_signals()
        asyncio.get_running_loop().call_later(IMPORTS_ALL_AFTER, import_now)
        inside = child.inherited().get(child.RUN_MARK, "")
        caller = Caller(client=self.client, agent=inside)
        async with Terminal(
            publish=self._publish, caller=caller, limit_names=_LIMIT_NAMES
        ) as terminal:
            terminal.supervisor.admission.broker.add(TerminalChannel())
            # To get a place, or somebody's yes, may take a while: a signal ends that, too.
            with self._starting:
                self._run = await self.start(terminal, command, options)
            run = self._run
            if run is None:
                raise CannotStart(f"{self._why}, and nothing was run", 128 + (self._signal or 0))
            if not self._json:
                run.on_output.append(self._tap.write)
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(self._end_early, run, tasks.cancel_scope)
                await run.wait()
                await terminal.supervisor.finish_trial(run)
                tasks.cancel_scope.cancel()
        return self._conclude(run)

    async def start(self, terminal: Terminal, command: str | list[str], options: Options) -> Run:
        """Start it, when it may run.

        Raises: TerminalError.
        """
        return await terminal.start(command, **options)

    def _keep_waiting(self) -> bool:
        """Whether to go on waiting for somebody who does not read."""
        if self._run is None or self._signal is not None:
            return False
        total = self._run.rules.limits.total
        return total is None or self._run.elapsed < total

    # An end before the command's own

    def _listen_to_signals(self) -> None:
        # Not the loop's own handlers: they have to be heard while the tap waits for a reader.
        loop = asyncio.get_running_loop()

        def heard(number: int, _: object) -> None:
            self._signal = self._signal or number
            loop.call_soon_threadsafe(self._leave, f"shelltie got {signal_name(number)}")

        for number in _LEAVE_ON:
            if signal.getsignal(number) != signal.SIG_IGN:  # nohup means it
                signal.signal(number, heard)

    def _leave(self, why: str) -> None:
        if self._leaving.is_set() and self._run is not None:
            self._run.stop(why, (_KILL,))  # asked twice
        self._why = self._why or why
        self._leaving.set()
        if self._run is None and self._starting is not None:
            self._starting.cancel()

    async def _end_early(self, run: Run, scope: anyio.CancelScope) -> None:
        await self._leaving.wait()
        with suppress(ProcessError):  # the end of the terminal tries once more
            await run.kill(self._why)
        scope.cancel()

    # What is said

    def _publish(self, event: Event) -> None:
        if not self._json and isinstance(event, LimitNear | SilentButWorking | Unusual):
            mark = "⚠" if isinstance(event, LimitNear) else "…"
            self._say(mark, event.message)

    def _say(self, mark: str, text: str) -> None:
        line = marked(self._ink, mark, text, before="shelltie: ") + "\n"
        if not self._tap.at_line_start and sys.stderr is not None and sys.stderr.isatty():
            line = "\n" + line
        self._write(line)

    def _write(self, line: str) -> None:
        self._tap.write(Stream.STDERR, memoryview(line.encode("utf-8", "replace")))

    def _conclude(self, run: Run) -> int:
        if self._tap.problem is not None:
            return self._give_up(self._tap.problem)
        if run.outcome is None:
            mark = f"{child.RUN_MARK}={run.id}"
            print_error(f"not all of it could be ended: look for {mark} in environments")
            return exits.SHELLTIE_FAILED if self._signal is None else 128 + self._signal
        result = report(run)
        if self._json:
            print_json(in_order(result))
        else:
            told = (
                *self._place(result),
                *explain(run.outcome, result),
                *explain_trial(result),
                *(("→", line) for line in outside_lines(result, "")),
            )
            for mark, text in told:
                self._say(mark, text)
            if result.outside == "ask":
                self._write(f"    {self._outside}\n")  # not folded, so that it can be copied
        if self._tap.lost:
            print_error(
                f"{human_size(self._tap.lost)} of its output were dropped: nobody read them"
            )
        if self._signal is not None:
            return self.code_after_signal(run.outcome, self._signal)
        return _code(run.outcome)

    def code_after_signal(self, outcome: Outcome, number: int) -> int:  # noqa: ARG002
        """The exit code when a signal to us ended the run."""
        return 128 + number

    def _place(self, result: Result) -> Iterator[tuple[str, str]]:
        """Where it ran, unless that is as usual or exactly what was asked for."""
        usual = "none" if self._isolation in (None, OUTSIDE) else self._isolation
        if result.trial is not None or result.at is not None:
            return
        if self._provider is None and result.isolation != usual:
            yield "·", f"ran in {result.provider}, isolation {result.isolation}"

    def _give_up(self, problem: OSError) -> int:
        if isinstance(problem, BrokenPipeError):
            forget_stdout()
            return exits.NOBODY_READS
        print_error(f"its output could not be written: {problem.strerror}")
        return exits.SHELLTIE_FAILED


def explain(outcome: Outcome, result: Result) -> Iterator[tuple[str, str]]:
    """What is worth saying about an end, in a few lines; about a usual one, nothing."""
    if outcome.state is State.TIMED_OUT:
        yield from _timed_out(outcome, result)
    elif outcome.state is State.SPAWN_FAILED:
        yield "✗", str(outcome.error)
    elif outcome.state is State.KILLED:
        yield "✗", f"stopped: {outcome.stop_reason}"
        yield "·", _tree_ended(outcome)
    elif outcome.exit.signal is not None:
        yield "✗", str(result.hint)
    if result.blocked and outcome.state is State.FINISHED:
        yield "→", str(result.hint)
    if outcome.state is State.FINISHED and outcome.survivors:
        count = "1 process" if outcome.survivors == 1 else f"{outcome.survivors} processes"
        yield "⚠", f"ended what it left in the background: {count}"
    yield from (("⚠", text) for text in outcome.warnings if text.startswith(_OF_THE_RECORD))
    yield from (("⚠", text) for text in result.warnings if text.startswith(_LESS_ISOLATED))
    yield from (("⚠", text) for text in outcome.unwritten if text != result.hint)


def explain_trial(result: Result) -> Iterator[tuple[str, str]]:
    """What it changed on trial, and what can be done with that."""
    trial = result.trial
    if trial is None:
        return
    yield "·", f"on trial {trial.id}: {trial.summary}; {_TRIALS[trial.status]}"
    yield from (("·", f"  {line}") for line in trial.changes)
    yield from (("⚠", f"look at it first: {why}") for why in trial.objections)
    steps = next_steps(trial, lambda action: f"shelltie {action} {trial.id}")
    if steps:
        yield "→", steps


def outside_command(args: Namespace) -> str:
    """The command line that has the same command run outside; values of secrets are left out."""
    words = [] if args.cwd is None else ["--cwd", args.cwd]
    given = dict(args.env or ())
    secrets = child.sift(given).secrets
    for name, value in given.items():
        words += ["--env", f"{name}={'…' if name in secrets else value}"]
    words += [] if args.stdin is None else ["--stdin", args.stdin]
    words += ["--pty"] if args.pty else []
    line = shlex.join(["shelltie", "run", *words, "--isolation", OUTSIDE, "--", *args.words])
    return line if line.isprintable() else f"shelltie run --isolation {OUTSIDE} -- …"


def _timed_out(outcome: Outcome, result: Result) -> Iterator[tuple[str, str]]:
    total, _, silence = result.limits.source.partition("; silence: ")
    if outcome.limit is Limit.SILENCE:
        limit, source = result.limits.silence_sec, silence or total
        reason = f"no output for {human_duration(limit or 0)}"
    else:
        limit, source = result.limits.exec_sec, total
        reason = f"it ran for {human_duration(limit or 0)}"
    yield "✗", f"timeout ({outcome.limit}): {reason}; limit from {cut(source, _SOURCE_MAX)}"
    yield "·", f"{_tree_ended(outcome)} · exit {exits.TIMED_OUT}"
    if result.hint:
        yield "→", result.hint


def _tree_ended(outcome: Outcome) -> str:
    how = "SIGKILL was needed" if outcome.ended is Ended.HARD else "SIGTERM was enough"
    seen = outcome.sighting.processes if outcome.sighting else 0
    tree = f"tree of {seen}" if seen > 1 else "tree"
    if outcome.leaked:
        pids = ", ".join(map(str, outcome.leaked_pids)) or "somebody"
        return f"{tree} not ended: {pids} left"
    return f"{tree} ended, 0 left · {how} · ran {human_duration(outcome.duration)}"


def in_order(result: Result) -> dict[str, object]:
    """The object of `--json`: what the contract names comes first."""
    whole = result.to_json()
    return {name: whole[name] for name in _FIRST_FIELDS} | whole


def _refusal(error: TerminalError) -> dict[str, object]:
    """Nothing was run, and still the seven fields are there."""
    values = ("error", "", f"shelltie: {error}\n", exits.of_error(error), None, None, 0)
    seven = dict(zip(_FIRST_FIELDS, values, strict=False))
    verdict = refusal_report(error) if isinstance(error, CommandDenied) else {}
    return {**seven, "error": str(error), "errorCode": error.code, **verdict}


def _code(outcome: Outcome) -> int:
    if outcome.state is State.TIMED_OUT:
        return exits.TIMED_OUT
    return exits.SHELLTIE_FAILED if outcome.exit.number is None else outcome.exit.number


def _options(args: Namespace) -> Options:
    options = Options(
        timeout=args.total,
        silence=args.silence,
        cwd=args.cwd,
        env=dict(args.env or ()),
        stdin=_input(args.stdin),
        pty=_terminal_size() if args.pty else False,
        isolation=args.isolation,
        provider=args.provider,
        at=args.at,
        trial=args.trial,
    )
    if args.grace is not None:
        options["escalation"] = (EscalationStep(signal.SIGTERM, args.grace), _KILL)
    return options


def _input(source: str | None) -> bytes | None:
    if source is None:
        return None
    try:
        return stdin_bytes().read() if source == "-" else Path(source).read_bytes()
    except (OSError, ValueError) as error:
        raise InvalidParameters(f"--stdin {source}: cannot be read: {error}") from error


def _terminal_size() -> TerminalSize:
    with suppress(OSError):
        size = os.get_terminal_size(1)
        return TerminalSize(size.lines, size.columns)
    return TerminalSize()
