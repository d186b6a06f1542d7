"""Trial runs: a command on a copy-on-write view of its workspace, and what becomes of its changes.

Flow at a glance:
1. `Trials.open` makes a directory in the store and has a sandbox opened on overlays.
2. The run has the `TrialRun` as its provider, and ends as any other does.
3. `Trials.finish` reads the change set. By rule it is applied, or a person is asked with the diff;
   or it stays open, until somebody says `apply` or `discard`.
"""

import contextlib
import hashlib
import time
from collections.abc import Awaitable, Callable, Collection
from dataclasses import dataclass
from pathlib import Path

import anyio
import anyio.to_thread

from shelltie.basics.frozen import frozen, replace
from shelltie.basics.visible_text import brief, inline
from shelltie.errors import (
    ChangesUnreadable,
    NoSuchTrial,
    TerminalError,
    TrialBusy,
    TrialOver,
)
from shelltie.events import Publish, TrialChanged
from shelltie.model import Command, Outcome, RunId, State
from shelltie.providers.provider import Provider
from shelltie.running.on_trial import AskPerson, TrialReport, TrialRun
from shelltie.running.options import Requester
from shelltie.running.sandbox_writes import SandboxWrites
from shelltie.trials.apply import Applied, apply_changes
from shelltie.trials.change_set import ChangeSet
from shelltie.trials.effect_rules import Ask, decide
from shelltie.trials.overlay_upper import read_change_set
from shelltie.trials.transaction import restored_in
from shelltie.trials.trial_store import EXITED, INTERRUPTED, Trial, TrialStatus, TrialStore
from shelltie.trials.undo import recover, undo
from shelltie.trials.unified_diff import NOT_ALL
from shelltie.verdict import Code, Rating, Reason, Span, Verdict

_LINES = 30  # of a report
_DIFF_SHOWN = 24_000  # characters of a diff in a question
_COMMAND_SHOWN = 200  # characters: the diff is what is asked about
_BY_RULE = "rule"

OpenPlace = Callable[[str, Path], Awaitable[Provider]]


@frozen
class TrialEnd:
    """What a trial has changed, what became of it, and what a rule had to say against it."""

    trial: Trial
    changes: ChangeSet
    objections: tuple[str, ...] = ()

    def report(self) -> TrialReport:
        """What is told of it."""
        is_open = self.trial.status is TrialStatus.OPEN
        return TrialReport(
            id=self.trial.id,
            status=str(self.trial.status),
            summary=self.changes.summary(),
            changes=tuple(self.changes.lines(_LINES)),
            objections=self.objections if is_open else (),
            folder=self.trial.folder,
            tried=self.trial.tried,
        )


@dataclass(slots=True)
class _Living:
    """A trial of this process whose changes nobody has read yet."""

    made: TrialRun
    trial: Trial
    outcome: Outcome | None = None


class Trials:
    """All trials of a supervisor, and those that others have left in the store."""

    def __init__(
        self,
        store: TrialStore,
        open_place: OpenPlace,
        publish: Publish,
        ask: AskPerson,
        deletions: int,
        writes: SandboxWrites,
    ) -> None:
        self.writes = writes
        self._ask = ask
        self._deletions = deletions  # from which on a person is asked
        self._store = store
        self._open_place = open_place
        self._publish = publish
        self._living: dict[str, _Living] = {}

    async def open(
        self, run: RunId, command: Command, workspace: str, requester: Requester, *, by_rule: bool
    ) -> TrialRun:
        """A place on trial for one command; it is ready.

        Raises: CannotStart.
        """
        await anyio.to_thread.run_sync(self._store.prune)
        await anyio.to_thread.run_sync(self._store.settle_killed, recover)
        trial = self._store.new(workspace, command.text, run)
        with contextlib.ExitStack() as undoing:
            undoing.callback(self._store.delete, trial)
            held = contextlib.ExitStack()
            held.enter_context(self._store.locked(trial))
            undoing.push(held)
            trial = self._store.begin(trial)
            place = await self._open_place(workspace, Path(trial.folder))
            undoing.pop_all()
        made = TrialRun(trial.id, place, requester, by_rule=by_rule)
        made.held = held
        self._living[trial.id] = _Living(made, trial)
        return made

    def note_end(self, made: TrialRun, outcome: Outcome) -> None:
        """Its command has ended; what it changed can be read by `finish`."""
        if made.id in self._living:
            self._living[made.id].outcome = outcome

    def settle(self, made: TrialRun) -> None:
        """Nothing of it runs any more: from now on any process may look at it."""
        living = self._living.get(made.id)
        if living is not None and living.outcome is not None:
            ended = _told(living.outcome)
            living.trial = replace(
                living.trial, status=TrialStatus.OPEN, outcome=ended, tried=made.tried
            )
            self._save_if_room(living.trial)
            made.held.close()

    def _save_if_room(self, trial: Trial) -> None:
        """On a full disk it counts as interrupted: it can be looked at, and no rule applies it."""
        with contextlib.suppress(OSError):
            self._store.save(trial)

    async def abandon(self, made: TrialRun) -> None:
        """Nothing was started there after all."""
        await made.close()
        living = self._living.pop(made.id)
        made.held.close()
        self._store.delete(living.trial)

    async def finish(self, made: TrialRun, outcome: Outcome) -> None:
        """Read what it changed, once; by rule, apply it or ask. Its report says what it came to."""
        async with made.finishing:
            if made.report is not None:
                return
            with anyio.CancelScope(shield=True):
                end = await self._conclude(made, outcome)
                made.report = end.report()
            if made.by_rule and end.trial.status is TrialStatus.OPEN:
                made.report = (await self._by_rule(made, end)).report()

    async def _conclude(self, made: TrialRun, outcome: Outcome) -> TrialEnd:
        await made.close()
        living = self._living[made.id]
        trial = replace(
            living.trial, status=TrialStatus.OPEN, outcome=_told(outcome), tried=made.tried
        )
        end = await anyio.to_thread.run_sync(self._read, trial)
        forget = self._store.keep_changes
        if not end.changes:
            trial = replace(trial, status=TrialStatus.DISCARDED, why="it changed nothing")
            forget = self._store.forget_contents
        await anyio.to_thread.run_sync(forget, trial)
        self._save_if_room(trial)
        made.held.close()
        self._living.pop(trial.id, None)
        self._tell(trial, end.changes.summary(), made.requester.caller.client)
        return replace(end, trial=trial)

    async def _by_rule(self, made: TrialRun, end: TrialEnd) -> TrialEnd:
        try:
            trial = await self.apply(made.id, None, made.requester)
        except TerminalError as refusal:
            return replace(end, objections=(*end.objections, str(refusal)))
        return replace(end, trial=trial)

    # What is done with one that is over

    def list(self) -> list[Trial]:
        """All that are kept, the oldest first."""
        self._store.settle_killed(recover)
        return [self._store.find(trial.id) for trial in self._store.all()]

    def is_of(self, trial_id: str, workspace: str) -> bool:
        """Whether there is one of that name, and it is about this directory."""
        try:
            return Path(self._store.find(trial_id).workspace) == Path(workspace).resolve()
        except NoSuchTrial:
            return False

    async def look(self, trial_id: str) -> TrialEnd:
        """What a trial has changed.

        Raises: NoSuchTrial, TrialBusy, TrialError.
        """
        return await anyio.to_thread.run_sync(self._read, await self._open_one(trial_id))

    async def apply(
        self, trial_id: str, paths: Collection[str] | None, requester: Requester | None
    ) -> Trial:
        """Make its changes real: where the rules say so, or a person does. Without a requester it
        is a person who wants it.

        Raises: CommandDenied, NoSuchTrial, TrialBusy, TrialOver, TrialError.
        """
        end = await self.look(trial_id)
        chosen, by = end.changes.select(paths), "a person"
        if requester is not None:
            by = await self._allowed(end.trial, chosen, requester)
        with self._store.locked(end.trial):
            applied = await anyio.to_thread.run_sync(self._apply, end, paths)
            left = len(end.changes.changes) - len(chosen.changes)
            told = ", ".join(applied.merged)
            why = f"merged with what others changed: {told}" if told else ""
            if left:
                why = "; ".join(filter(None, (why, f"{left} other changes are discarded")))
            trial = replace(end.trial, status=TrialStatus.APPLIED, why=why)
            self._store.save(trial)
        await anyio.to_thread.run_sync(self._store.forget_contents, trial)
        self._tell(trial, chosen.summary(), by, tuple(paths or ()))
        return trial

    def _apply(self, end: TrialEnd, paths: Collection[str] | None) -> Applied:
        undo_dir = end.trial.undo_dir
        undo_dir.mkdir(mode=0o700, exist_ok=True)
        return apply_changes(end.changes, paths, undo_dir=undo_dir)

    async def _allowed(self, trial: Trial, chosen: ChangeSet, requester: Requester) -> str:
        objections = self._objections(chosen)
        if not trial.outcome.startswith(EXITED):
            objections = (f"its command did not come to its end: {trial.outcome}", *objections)
        if not objections:
            return _BY_RULE
        command = await anyio.to_thread.run_sync(_question, trial, chosen)
        verdict = _verdict(command.text, objections)
        await self._ask(RunId(trial.run), command, verdict, requester)
        return "a person"

    async def discard(self, trial_id: str, by: str = "") -> Trial:
        """Forget what it changed.

        Raises: NoSuchTrial, TrialBusy, TrialOver.
        """
        trial = self._store.find(trial_id)
        if trial.status is TrialStatus.DAMAGED:
            self._store.delete(trial)
            return replace(trial, status=TrialStatus.DISCARDED)
        trial = await self._open_one(trial_id)
        with self._store.locked(trial):
            trial = replace(trial, status=TrialStatus.DISCARDED)
            # Its contents go first, as on a full disk nothing could be saved: at once by a rename,
            # so that no half of them is ever applied.
            with contextlib.suppress(FileNotFoundError):
                trial.upper.rename(Path(trial.folder) / "discarded")
            await anyio.to_thread.run_sync(self._store.forget_contents, trial)
            self._store.save(trial)
        self._tell(trial, "", by)
        return trial

    async def _open_one(self, trial_id: str) -> Trial:
        """One that nobody has decided about. Raises: NoSuchTrial, TrialBusy, TrialOver."""
        living = self._living.get(trial_id)
        if living is not None and living.outcome is not None:
            await self.finish(living.made, living.outcome)
        trial = self._found(trial_id)
        if trial.status is TrialStatus.RUNNING:
            raise TrialBusy(f"{trial.id} is still running: wait for its end")
        if trial.status is not TrialStatus.OPEN:
            raise TrialOver(_over(trial))
        await anyio.to_thread.run_sync(_settle, trial)
        return trial

    def _found(self, trial_id: str) -> Trial:
        """The trial of that name; that it is applied or undone is told, if nobody lived to do so.

        Raises: NoSuchTrial.
        """
        trial = self._store.find(trial_id)
        if trial.status in (TrialStatus.APPLIED, TrialStatus.UNDONE):
            with contextlib.suppress(TrialBusy), self._store.locked(trial):
                if self._store.catch_up(trial):
                    self._tell(trial, "", "")
        return trial

    async def undo(self, trial_id: str, by: str = "") -> Trial:
        """Have the workspace as it was before its changes were applied.

        Raises: NoSuchTrial, TrialBusy, TrialOver, TrialError.
        """
        trial = self._found(trial_id)
        if trial.status is not TrialStatus.APPLIED:
            raise TrialOver(f"{trial.id} is {trial.status}: only what was applied can be undone")
        with self._store.locked(trial):
            await anyio.to_thread.run_sync(_settle, trial)
            if self._store.find(trial_id).status is TrialStatus.APPLIED:
                await anyio.to_thread.run_sync(undo, trial.undo_dir)
            trial = replace(trial, status=TrialStatus.UNDONE)
            self._store.save(trial)
        await anyio.to_thread.run_sync(self._store.forget_contents, trial)
        self._tell(trial, "", by)
        return trial

    async def close(self) -> None:
        """Write down what has ended and nobody has asked about; the places are closed already."""
        for one in self._living.values():
            ended = INTERRUPTED if one.outcome is None else _told(one.outcome)
            self._save_if_room(replace(one.trial, status=TrialStatus.OPEN, outcome=ended))
            one.made.held.close()
        self._living.clear()
        await self.writes.close()

    def _read(self, trial: Trial) -> TrialEnd:
        changes = read_change_set(
            Path(trial.workspace),
            trial.upper,
            started_ns=trial.started_ns,
            bases=trial.bases,
            restored=restored_in(trial.undo_dir),
        )
        if trial.workspace_id not in ("", "{}:{}".format(*changes.workspace_id)):
            raise ChangesUnreadable(
                f"{trial.workspace} is another directory than the one of {trial.id}: it was moved"
                f" or made again. Move it back, or `shelltie discard {trial.id}`"
            )
        return TrialEnd(trial, changes, self._objections(changes))

    def _objections(self, changes: ChangeSet) -> tuple[str, ...]:
        """Why a person should look at it first; nothing where it may be applied unasked."""
        decision = decide(changes, self._deletions)
        return decision.reasons if isinstance(decision, Ask) else ()

    def _tell(self, trial: Trial, summary: str, by: str, paths: tuple[str, ...] = ()) -> None:
        status, now = str(trial.status), time.time()
        self._publish(
            TrialChanged(
                RunId(trial.run), now, trial.id, status, summary, trial.workspace, by, paths
            )
        )


def _settle(trial: Trial) -> None:
    """Roll back an apply or undo that was killed, before anything is read or forgotten."""
    if trial.undo_dir.is_dir():
        recover(trial.undo_dir)


def _told(outcome: Outcome) -> str:
    if outcome.state is State.FINISHED:
        return f"{EXITED}{outcome.exit.number}"
    return INTERRUPTED if outcome.state is State.KILLED else str(outcome.state).replace("_", " ")


def _over(trial: Trial) -> str:
    why = f" ({trial.why})" if trial.why else ""
    then = {
        TrialStatus.APPLIED: f"; `shelltie undo {trial.id}` takes it back",
        TrialStatus.DAMAGED: f"; `shelltie discard {trial.id}` removes all of it",
    }.get(trial.status, "")
    return f"{trial.id} is {trial.status}{why}{then}"


def _question(trial: Trial, chosen: ChangeSet) -> Command:
    """What a person reads: the changes, not the text that made them. It is bound to all of them."""
    digest = hashlib.sha256(repr(chosen.changes).encode()).hexdigest()
    text = "\n".join(
        (
            f"shelltie apply {trial.id}",
            f"# {chosen.summary()}",
            *(f"# {line}" for line in chosen.lines()),
            f"# by: {brief(trial.command, _COMMAND_SHOWN)}",
            *([f"# {inline(trial.tried)}"] if trial.tried else []),
            f"# sha256 of all changes: {digest}",
            f"# all of it: shelltie changes {trial.id} --diff",
            chosen.diff(limit=_DIFF_SHOWN),
        )
    )
    return Command(text, cwd=trial.workspace)


def _verdict(text: str, objections: tuple[str, ...]) -> Verdict:
    # All of it has to be shown; where the diff is cut, nobody has seen all of it.
    span = Span(0, len(text) + text.endswith(NOT_ALL))
    reasons = (Reason(Code.TRIAL_CHANGES, Rating.DANGEROUS, why, span) for why in objections)
    return Verdict(Rating.DANGEROUS, reasons=tuple(reasons))
