"""Finds, adopts and ends runs that outlived their server (session persistence)."""

import time
from collections.abc import Callable, Mapping
from contextlib import suppress

import anyio

from shelltie.errors import UnknownRun
from shelltie.keeper.protocol import LeashWord
from shelltie.keeper.stream_link import HeldRow
from shelltie.model import Outcome, Resources, RunId, Stream, Surroundings
from shelltie.output.store import Store
from shelltie.providers.provider import Prepared
from shelltie.providers.staying import StayingProvider
from shelltie.running.run import Run
from shelltie.running.staying_note import StayingNote
from shelltie.running.staying_run import StayingRun
from shelltie.running.supervisor import Supervisor

_LETS_GO_WITHIN = 5.0  # seconds, a server that has heard that another one holds it
_TICK = 0.02


class StayingRuns:
    """What stays of this user, for a program that may hold it."""

    def __init__(self, supervisor: Supervisor) -> None:
        staying = supervisor.placement.staying
        assert staying is not None  # else nobody assembled it
        assert isinstance(staying.made, StayingProvider)
        self._staying, self._provider = staying, staying.made
        self._supervisor = supervisor

    def ids(self) -> list[str]:
        """Those that have a keeper, the oldest first; what killed keepers left is removed."""
        self._provider.folder.sweep()
        living = self._provider.folder.living()
        return [name for name in self._provider.folder.names() if name in living]

    def notes(self) -> list[StayingNote]:
        """What was left beside each of them, held or not."""
        found = (self.note(name) for name in self.ids())
        return [note for note in found if note is not None]

    def note(self, run: str) -> StayingNote | None:
        """`None` if it begins or ends just now, or its program was killed as it began."""
        with suppress(OSError, ValueError):
            return StayingNote.of_bytes(self._provider.folder.about(run))
        return None

    async def adopt(self, run: str, client: str, *, take: bool = False) -> Run:
        """Hold it, with all that it printed; with `take` whoever else holds it has to let go. The
        end of a session is left for its client until `mark_read`.

        Raises: UnknownRun; CannotStart if another program holds it, or it has just ended.
        """
        if (ours := self._supervisor.runs.get(RunId(run))) is not None:
            return ours
        note = self.note(run) if run in self.ids() else None
        if note is None:
            raise UnknownRun(f"nothing stays as {run!r}: `staying()` and `shelltie doctor` list it")
        held = await self._hold(note, client, take=take)
        await self._supervisor.flush_record()
        return held

    async def end(self, run: str, client: str) -> Outcome | None:
        """End it, whoever holds it, and wait until it is gone; `None` if nothing is known of it.

        Raises: as `adopt`; SignalFailed or KillFailed when some are left.
        """
        if run in self.ids() and self.note(run) is None:
            await self._provider.end(run)
            return None
        held = await self.adopt(run, client, take=True)
        outcome = await held.kill(f"{client} ended it")
        if isinstance(held, StayingRun):
            held.mark_read()
        return outcome

    async def _end_on_record(self, note: StayingNote) -> bool:
        record = self._supervisor.record
        if not note.ended or record is None:
            return False
        past = await record.past_session(note.session, note.client)
        return past is not None and past.ended is not None

    async def _hold(self, note: StayingNote, client: str, *, take: bool) -> StayingRun:
        on_record = await self._end_on_record(note)
        words: list[LeashWord] = []
        hear: Callable[[LeashWord], None] = words.append

        def pass_on(word: LeashWord) -> None:
            hear(word)

        link, held, row = await self._provider.reach(note.run, pass_on, take=take)
        surroundings = Surroundings(note.shell, note.path_source, note.cwd)
        run = self._supervisor.hold(
            RunId(note.run), note.to_command(), note.to_limits(), surroundings, self._staying
        )
        assert isinstance(run, StayingRun)
        try:
            ends = await _resume_output(run.output, note, row)
        except BaseException:
            held.let_go()
            link.close()
            self._supervisor.runs.pop(run.id, None)
            raise
        prepared = Prepared(
            ("-",),
            {},
            note.cwd,
            None,
            note.size,
            Resources(),
            stays_open=True,
            one_output=note.one_output,
        )
        starts = {1: ends[Stream.STDOUT], 2: ends[Stream.STDERR]}
        process = self._provider.attach(link, held, prepared, row, starts)
        run.resume(process, prepared, note, client, ends, end_on_record=on_record)
        for word in words:  # what was said while nobody could listen
            run.hear(word)
        hear = run.hear
        return run


async def _resume_output(output: Store, note: StayingNote, row: HeldRow) -> Mapping[Stream, int]:
    """Take back what is on record of its output; how far that goes in each stream."""
    age, ends = max(0.0, time.time() - note.began), None
    with anyio.move_on_after(_LETS_GO_WITHIN):
        while ends is None:
            try:
                ends = output.resume(age)
            except BlockingIOError:  # a server that was killed has not quite ended
                await anyio.sleep(_TICK)
    if ends is None:
        assert output.spool is not None
        output.spool.part()
        ends = output.resume(age)
    # More than there is nobody can ask for, whatever a file says.
    return {stream: min(ends[stream], end) for stream, end in zip(Stream, row.end, strict=True)}
