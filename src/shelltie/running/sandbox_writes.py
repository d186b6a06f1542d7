"""Writes of a one-shot command in a sandbox: kept apart on an overlay, applied when it has ended.

Flow at a glance:
1. `SandboxWrites.open` makes a directory in the store of trials, and enters the living sandbox.
2. The run has an `OverlaidRun` as its provider. When nobody of it is left, it has that settle.
3. A thread reads what was changed and applies it, but for what is guarded or was changed by others
   meanwhile. Of that a trial is left, and the answer says so.
"""

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable, Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import Protocol

import anyio.to_thread

from shelltie.basics.frozen import frozen, replace
from shelltie.basics.visible_text import inline
from shelltie.errors import CannotStart, ChangesConflict
from shelltie.events import Publish, TrialChanged
from shelltie.keeper.protocol import Noted
from shelltie.model import Command, RunId
from shelltie.providers.provider import Provider
from shelltie.running.on_trial import OverlaidRun
from shelltie.trials.apply import apply_changes
from shelltie.trials.change_set import ChangeSet
from shelltie.trials.guarded_changes import guarded_paths
from shelltie.trials.overlay_upper import read_change_set
from shelltie.trials.tree_copy import remove_tree
from shelltie.trials.trial_store import EXITED, INTERRUPTED, Trial, TrialStatus, TrialStore
from shelltie.trials.undo import recover

_NAMED = 5  # paths in a message
_REMOVED_AFTER = 0.5  # seconds without a further command
_GONE_MAX = 64
_TRIES = 3  # to apply, while others change more of it
_GUARDED = (
    "{} is guarded, as other programs obey it, and was not written. It is kept as trial {}:"
    " shelltie changes {} shows it, shelltie apply {} writes it"
)
_MEANWHILE = (
    "{} was changed by others while it ran, and stays as they left it. What it wrote there is kept"
    " as trial {}: shelltie changes {} shows it"
)
_CUT_SHORT = (
    "it was ended, so nothing of what it changed was written ({}). It is kept as trial {}: shelltie"
    " apply {} writes it"
)
_NOT_WRITTEN = (
    "what it changed was not written: {}. It is kept as trial {}: shelltie apply {} tries it again"
)


class EnteredSandbox(Provider, Protocol):
    """A place for one command, which alone sees an overlay of its workspace there."""

    guarded: frozenset[str]

    def dismiss(self) -> Callable[[], bool]:
        """Let its keeper go; what is returned waits for it, and tells whether nobody is left."""
        ...

    def leave(self, *, survivors: bool) -> None:
        """It is over; who is left of it is ended with the sandbox."""
        ...


EnterOverlay = Callable[[str, Path], Awaitable[EnteredSandbox]]


@frozen
class _Settled:
    """What became of the writes of a command: what to tell, the trial that is left, if any, and
    the directory of one that is gone.
    """

    notes: tuple[Noted, ...] = ()
    left: Trial | None = None
    summary: str = ""
    survivors: bool = False
    gone: Path | None = None


class SandboxWrites:
    """What sandboxed commands of a supervisor write, each apart from the others."""

    def __init__(self, store: TrialStore, enter: EnterOverlay, publish: Publish) -> None:
        self._store = store
        self._enter = enter
        self._publish = publish
        self._pruned = False
        self._gone: list[Path] = []  # what is to be removed when nothing else is to be done
        self._until_removed: asyncio.TimerHandle | None = None
        self._removing = set[asyncio.Future[None]]()

    async def close(self) -> None:
        """Wait until nothing is left of commands that have ended."""
        self._remove_all()
        while self._removing:
            await asyncio.wait(self._removing)

    async def open(self, run: RunId, command: Command, workspace: str) -> OverlaidRun:
        """The place for one command; it is ready.

        Raises: CannotStart, which says why there is none.
        """
        trial, held = await anyio.to_thread.run_sync(
            partial(self._new, workspace, command.text, run)
        )
        with contextlib.ExitStack() as undoing:
            undoing.callback(self._store.delete, trial)
            undoing.push(held)
            place = await self._enter(workspace, Path(trial.folder))
            undoing.pop_all()
        return OverlaidRun(
            place,
            settle=partial(self._settle, place, trial, held),
            abandon=partial(self._abandon, place, trial, held),
        )

    def _new(self, workspace: str, text: str, run: str) -> tuple[Trial, contextlib.ExitStack]:
        if not self._pruned:
            self._store.prune()
            self._pruned = True
        self._store.settle_killed(recover)
        trial, held = self._store.new(workspace, text, run), contextlib.ExitStack()
        try:
            held.enter_context(self._store.locked(trial))
            return self._store.begin(trial), held
        except CannotStart:
            held.close()
            self._store.delete(trial)
            raise

    async def _abandon(
        self, place: EnteredSandbox, trial: Trial, held: contextlib.ExitStack
    ) -> None:
        await place.close()
        place.leave(survivors=False)
        held.close()
        self._store.delete(trial)

    def _settle(
        self,
        place: EnteredSandbox,
        trial: Trial,
        held: contextlib.ExitStack,
        exit_code: int | None,
        then: Callable[[Sequence[Noted]], None],
    ) -> None:
        """Apply what was written, in a thread; `then` is given what there is to tell."""
        work = partial(self._conclude, trial, place.guarded, place.dismiss(), exit_code)

        def done(future: "asyncio.Future[_Settled]") -> None:
            held.close()
            settled = future.result()  # whatever went wrong is in it: a run must end
            place.leave(survivors=settled.survivors)
            if settled.gone is not None:
                self._remove(settled.gone)
            if settled.left is not None:
                self._tell(settled.left, settled.summary)
            then(settled.notes)

        asyncio.get_running_loop().run_in_executor(None, work).add_done_callback(done)

    def _remove(self, gone: Path) -> None:
        """Later: a thread that removes is in the way of the next command, as Python runs one."""
        self._gone.append(gone)
        if self._until_removed is not None:
            self._until_removed.cancel()
        if len(self._gone) >= _GONE_MAX:
            self._remove_all()
        else:
            loop = asyncio.get_running_loop()
            self._until_removed = loop.call_later(_REMOVED_AFTER, self._remove_all)

    def _remove_all(self) -> None:
        if self._until_removed is not None:
            self._until_removed.cancel()
        gone, self._gone, self._until_removed = self._gone, [], None
        if gone:
            removing = asyncio.get_running_loop().run_in_executor(None, _remove_if_there, gone)
            self._removing.add(removing)
            removing.add_done_callback(self._removing.discard)

    def _conclude(
        self,
        trial: Trial,
        guarded: frozenset[str],
        is_over: Callable[[], bool],
        exit_code: int | None,
    ) -> _Settled:
        if not is_over():
            told = "something of it may still be running"
            return replace(self._keep(trial, told, _NOT_WRITTEN), survivors=True)
        ended = INTERRUPTED if exit_code is None else f"{EXITED}{exit_code}"
        trial = replace(trial, status=TrialStatus.OPEN, outcome=ended)
        try:
            changes = read_change_set(
                Path(trial.workspace), trial.upper, started_ns=trial.started_ns
            )
            if not changes.changes:
                return _Settled(gone=self._store.put_away(trial))
            if exit_code is None:
                return self._keep(trial, changes.summary(), _CUT_SHORT)
            return self._written(trial, changes, guarded_paths(changes, guarded))
        except Exception as error:  # noqa: BLE001  a fault of ours must not hold the run for ever
            return self._keep(trial, str(error), _NOT_WRITTEN)

    def _written(self, trial: Trial, changes: ChangeSet, guarded: list[str]) -> _Settled:
        """Apply all that may be; what remains stays in its trial. Raises: TrialError, OSError."""
        trial.undo_dir.mkdir(mode=0o700, exist_ok=True)
        meanwhile = [*changes.conflicts()]
        applied = None
        for _ in range(_TRIES):
            besides = (*guarded, *meanwhile)
            if not changes.without(besides).changes:
                break
            try:
                applied = apply_changes(
                    changes, undo_dir=trial.undo_dir, undo_max=None, besides=besides
                )
                break
            except ChangesConflict as conflict:
                meanwhile += conflict.paths
        notes = [Noted(note) for note in (applied.notes if applied else ())][:_NAMED]
        if not guarded and not meanwhile:
            return _Settled(tuple(notes), gone=self._store.put_away(trial))
        remove_tree(trial.undo_dir)
        self._store.save(trial)
        self._store.keep_changes(trial)
        self._store.prune()
        if guarded:
            notes.append(
                Noted(_told(_GUARDED, _listed(guarded), trial), undone=True, unwritten=True)
            )
        if meanwhile:
            notes.append(Noted(_told(_MEANWHILE, _listed(meanwhile), trial), unwritten=True))
        left = changes.select((*guarded, *meanwhile))
        return _Settled(tuple(notes), trial, left.summary())

    def _keep(self, trial: Trial, why: str, message: str) -> _Settled:
        trial = replace(trial, status=TrialStatus.OPEN, outcome=trial.outcome or INTERRUPTED)
        with contextlib.suppress(OSError):  # a full disk: then it counts as interrupted
            self._store.save(trial)
        return _Settled((Noted(_told(message, why, trial), unwritten=True),), trial, why)

    def _tell(self, trial: Trial, summary: str) -> None:
        run, status = RunId(trial.run), str(trial.status)
        self._publish(
            TrialChanged(run, time.time(), trial.id, status, summary, trial.workspace, "sandbox")
        )


def _remove_if_there(gone: Sequence[Path]) -> None:
    for place in gone:
        with contextlib.suppress(OSError):  # the next server that looks tries it again
            remove_tree(place)


def _told(message: str, what: str, trial: Trial) -> str:
    return message.format(what, *[trial.id] * (message.count("{}") - 1))


def _listed(paths: Iterable[str]) -> str:
    shown = [*dict.fromkeys(paths)]
    more = f" and {len(shown) - _NAMED} more" if len(shown) > _NAMED else ""
    return ", ".join(map(inline, shown[:_NAMED])) + more
