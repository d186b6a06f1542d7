"""The watchdog by itself, on processes that somebody else started."""

import asyncio
import inspect
import signal
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import datetime, timedelta

import anyio
import pytest

from shelltie.agents.timeout_watchdog import (
    Callbacks,
    PartialResults,
    ProgressUpdate,
    TimeoutError,  # noqa: A004  the name of the design
    TimeoutReasonName,
    TimeoutWarning,
    TimeoutWatchdog,
)
from shelltie.errors import AlreadyAborted
from shelltie.running.activity import alive
from tests.tree import until


@asynccontextmanager
async def child(program: str) -> AsyncIterator[asyncio.subprocess.Process]:
    """A Python program in a session of its own, ended afterwards whatever happens."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-uc", program, stdout=asyncio.subprocess.PIPE, start_new_session=True
    )
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()
        process._transport.close()  # type: ignore[attr-defined]  # asyncio leaves its pipe open


async def feed(process: asyncio.subprocess.Process, record: Callable[[bytes], None]) -> None:
    assert process.stdout is not None
    while chunk := await process.stdout.read(65536):
        record(chunk)


@pytest.mark.proves("T3-1", "S3-23", "S3-30", "S3-38", "S3-39", "C-2", "C-24", "C-26", "S3-43")
async def test_a_silent_child_is_aborted_for_inactivity() -> None:
    async with child("import time; time.sleep(60)") as process:
        watchdog = TimeoutWatchdog(process.pid, idle_timeout_ms=300, hard_timeout_ms=60_000)

        await until(lambda: watchdog.aborted is not None)

        error = watchdog.aborted
        assert error is not None
        assert (error.code, error.kind, error.errno) == ("EIDLE", "inactivity", "ETIMEDOUT")
        assert error.idle_ms >= 300
        assert error.wall_clock_ms >= 300
        assert error.started_at == error.last_activity_at  # nothing was ever heard
        assert (error.pid, error.killed, error.signal) == (process.pid, True, "SIGTERM")
        assert error.message.endswith("allowed inactivity window (300ms).")
        await process.wait()
        assert process.returncode == -signal.SIGTERM


@pytest.mark.proves("T3-2", "S3-43", "S3-30", "S3-39", "C-24")
async def test_a_chatty_child_is_aborted_at_the_deadline() -> None:
    program = "import time\nwhile True: print('x'); time.sleep(0.05)"
    async with child(program) as process, anyio.create_task_group() as group:
        assert process.stdout is not None
        await process.stdout.readline()
        watchdog = TimeoutWatchdog(process.pid, idle_timeout_ms=7000, hard_timeout_ms=8000)
        group.start_soon(feed, process, watchdog.record_stdout)

        await until(lambda: watchdog.aborted is not None)

        error = watchdog.aborted
        assert error is not None
        assert (error.code, error.kind, error.errno) == ("ETIMEDOUT", "deadline", "ETIMEDOUT")
        assert error.wall_clock_ms >= 8000
        assert "maximum allowed wall-clock time (8s)" in error.message


@pytest.mark.proves("T3-7", "S3-7", "S3-39", "S3-29")
async def test_it_is_told_of_a_timeout_before_the_first_signal() -> None:
    story: list[str] = []

    def told(error: TimeoutError, partial: PartialResults) -> None:
        story.append(f"timeout {error.kind} {partial.events_count}")

    async with child("import time; time.sleep(60)") as process:
        TimeoutWatchdog(
            process.pid,
            idle_timeout_ms=5_000,
            warn_lead_ms=4_900,
            hard_timeout_ms=60_000,
            kill_grace_ms=200,
            callbacks=Callbacks(
                on_warning=lambda warning: story.append(warning.level), on_timeout=told
            ),
            kill=lambda number: story.append(f"signal {number}"),
        )

        await until(lambda: "signal 9" in story)

    assert story == ["warning", "timeout inactivity 0", "signal 15", "signal 9"]


@pytest.mark.proves("T3-5", "S3-29", "S3-16", "C-28")
async def test_a_warning_says_how_much_time_is_left() -> None:
    warnings: list[TimeoutWarning] = []
    watchdog = TimeoutWatchdog(
        None, idle_timeout_ms=5_000, callbacks=Callbacks(on_warning=warnings.append), task_id="t-1"
    )

    await until(lambda: bool(warnings))
    watchdog.stop()

    data = warnings[0].data
    assert warnings[0].logger == "codex-timeout-watchdog"
    assert isinstance(data["idleMs"], int)
    assert isinstance(data["willAbortInMs"], int)
    assert 4_990 <= data["idleMs"] + data["willAbortInMs"] <= 5_010
    assert data["taskId"] == "t-1"
    assert str(data["message"]).endswith("unless output resumes.")


@pytest.mark.proves("T3-8", "S3-37", "S3-38", "C-18", "C-25", "S3-39", "S3-43")
async def test_a_second_abort_is_an_error_and_stop_may_be_called_twice() -> None:
    signals: list[int] = []
    async with child("import time; time.sleep(60)") as process:
        watchdog = TimeoutWatchdog(process.pid, kill=signals.append)

        error = watchdog.abort("manual")

        assert error is not None
        assert (error.code, error.kind, error.reason) == ("ETIMEDOUT", "deadline", "manual")
        with pytest.raises(AlreadyAborted, match="Watchdog already aborted"):
            watchdog.abort("manual")
        watchdog.stop()
        watchdog.stop()
        assert signals == [signal.SIGTERM]


@pytest.mark.proves("T3-8", "S3-60", "T3-21", "S3-42", "C-44")
async def test_a_child_that_has_ended_is_not_signalled() -> None:
    signals: list[int] = []
    async with child("pass") as process:
        await process.wait()
        after_exit = TimeoutWatchdog(process.pid, idle_timeout_ms=50, kill=signals.append)
        await until(lambda: after_exit.aborted is not None)
        stopped = TimeoutWatchdog(process.pid, kill=signals.append)
        stopped.stop()

        assert stopped.abort("manual") is None
        assert after_exit.aborted is not None
        assert after_exit.aborted.killed is False
        assert signals == []


@pytest.mark.proves("T3-9", "S3-33", "S3-34", "S3-31", "S3-36")
async def test_bytes_after_the_abort_are_kept_but_are_no_activity() -> None:
    activity: list[bool] = []
    watchdog = TimeoutWatchdog(None, callbacks=Callbacks(on_activity=lambda: activity.append(True)))
    watchdog.record_stdout(b"before ")
    watchdog.abort("manual")
    at_abort = watchdog.get_partial_results().last_activity_at

    watchdog.record_stdout(b"after")

    partial = watchdog.get_partial_results()
    assert partial.stdout_tail == "before after"
    assert (partial.last_activity_at, len(activity)) == (at_abort, 1)


@pytest.mark.proves("T3-10", "S3-31", "S3-32", "S3-55", "S3-34", "C-49")
@pytest.mark.parametrize("size", [1, 1000, 10**6])
async def test_the_tails_are_bounded_and_cut_on_a_character(size: int) -> None:
    watchdog = TimeoutWatchdog(None)
    text = ("\N{EURO SIGN}" * 340_000).encode()[: 10**6]
    data = text[: len(text) - len(text) % 3] if size > 1 else text[: 3 * 66_000]

    for start in range(0, len(data), size):
        watchdog.record_stderr(data[start : start + size])
    watchdog.stop()

    tail = watchdog.get_partial_results().stderr_tail
    assert set(tail) == {"\N{EURO SIGN}"}
    assert 65_536 - 3 < len(tail.encode()) <= 65_536


@pytest.mark.proves("T3-11", "S3-35", "C-27", "S3-31", "S3-32", "S3-55")
async def test_the_last_50_of_127_events_are_kept() -> None:
    activity: list[bool] = []
    watchdog = TimeoutWatchdog(None, callbacks=Callbacks(on_activity=lambda: activity.append(True)))

    for number in range(127):
        watchdog.record_event({"type": "step", "n": number})
    watchdog.stop()

    partial = watchdog.get_partial_results()
    assert partial.last_events == tuple({"type": "step", "n": n} for n in range(77, 127))
    assert (partial.events_count, partial.events_dropped, len(activity)) == (127, 77, 127)
    assert datetime.fromisoformat(partial.last_activity_at).utcoffset() == timedelta(0)


@pytest.mark.proves("S3-41", "S3-10", "S3-37")
async def test_progress_grows_and_stops() -> None:
    progress: list[int] = []
    watchdog = TimeoutWatchdog(
        None,
        progress_interval_ms=50,
        callbacks=Callbacks(on_progress=lambda update: progress.append(update.progress)),
    )

    await until(lambda: len(progress) >= 4)
    watchdog.stop()
    so_far = len(progress)
    await anyio.sleep(0.2)

    assert progress == sorted(set(progress))
    assert len(progress) == so_far


@pytest.mark.proves("S3-28")
async def test_an_update_has_the_token_the_time_the_limit_and_the_last_activity() -> None:
    updates: list[ProgressUpdate] = []
    watchdog = TimeoutWatchdog(
        None,
        hard_timeout_ms=60_000,
        progress_interval_ms=50,
        progress_token="a token",
        callbacks=Callbacks(on_progress=updates.append),
    )

    await until(lambda: bool(updates))
    watchdog.stop()

    first = updates[0]
    assert (first.progress_token, first.total) == ("a token", 60_000)
    assert first.progress == first.elapsed_ms > 0
    assert first.last_activity == watchdog.get_partial_results().last_activity_at


@pytest.mark.proves("S3-37", "T3-14", "S3-57")
async def test_a_watchdog_that_was_stopped_tells_nothing_and_aborts_nothing() -> None:
    told: list[object] = []
    callbacks = Callbacks(on_progress=told.append, on_timeout=lambda *news: told.append(news))
    stopped = TimeoutWatchdog(
        None,
        idle_timeout_ms=50,
        hard_timeout_ms=60,
        progress_interval_ms=50,
        callbacks=callbacks,
    )

    stopped.stop()
    later = TimeoutWatchdog(None, idle_timeout_ms=200)
    await until(lambda: later.aborted is not None)

    assert (stopped.aborted, told) == (None, [])


@pytest.mark.proves("S3-38", "S3-39", "S3-43", "C-28")
@pytest.mark.parametrize(
    ("reason", "code", "kind", "message"),
    [
        (
            "inactivity",
            "EIDLE",
            "inactivity",
            "produced no output within the allowed inactivity window (5m).",
        ),
        (
            "deadline",
            "ETIMEDOUT",
            "deadline",
            "exceeded the maximum allowed wall-clock time (20m).",
        ),
        ("manual", "ETIMEDOUT", "deadline", "execution was manually aborted."),
    ],
)
async def test_whoever_aborts_says_why(
    reason: TimeoutReasonName, code: str, kind: str, message: str
) -> None:
    error = TimeoutWatchdog(None).abort(reason)
    named = TimeoutWatchdog(None, subject="Codex CLI").abort(reason)

    assert error is not None
    assert named is not None
    assert (error.code, error.kind, error.reason) == (code, kind, reason)
    assert (error.message, named.message) == (f"Command {message}", f"Codex CLI {message}")


@pytest.mark.proves("S3-42", "T3-20", "S3-61", "C-40")
async def test_the_whole_group_is_signalled_and_killed_after_the_grace() -> None:
    program = (
        "import os, signal, time\n"
        "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
        # One write each: two prints can be mixed up, newline and all.
        "os.write(1, b'%d\\n' % (os.fork() or os.getpid()))\n"
        "time.sleep(60)"
    )
    async with child(program) as process:
        assert process.stdout is not None
        pids = {int(await process.stdout.readline()) for _ in range(2)}
        watchdog = TimeoutWatchdog(process.pid, kill_grace_ms=200)

        watchdog.abort("manual")

        await until(lambda: not any(alive(pid) for pid in {*pids, process.pid}))
        assert watchdog.aborted is not None
        assert watchdog.aborted.signal == "SIGKILL"


@pytest.mark.proves("C-85", "T3-19")
async def test_a_callback_that_raises_disturbs_nothing() -> None:
    def broken(*_: object) -> None:
        raise RuntimeError("nobody listens")

    async with child("import time; time.sleep(60)") as process:
        watchdog = TimeoutWatchdog(
            process.pid, idle_timeout_ms=200, callbacks=Callbacks(broken, broken, broken, broken)
        )
        watchdog.record_activity()

        await until(lambda: not alive(process.pid))

        assert watchdog.aborted is not None


@pytest.mark.proves("S3-27", "S3-48", "S3-4", "S3-5", "S3-6", "S3-54", "C-41")
def test_what_is_not_said_is_as_the_design_has_it() -> None:
    usual = {
        name: parameter.default
        for name, parameter in inspect.signature(TimeoutWatchdog).parameters.items()
    }

    assert (usual["idle_timeout_ms"], usual["hard_timeout_ms"]) == (300_000, 1_200_000)
    assert (usual["warn_lead_ms"], usual["kill_grace_ms"]) == (30_000, 5_000)
    assert usual["progress_interval_ms"] == 30_000
    assert Callbacks() == Callbacks(None, None, None, None)
