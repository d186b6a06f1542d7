"""Commands that came to nothing: which are tried again, and when nothing is tried any more."""

import json
import os
import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import anyio
import anyio.abc
import anyio.to_thread
import pytest

from shelltie import CannotStart, ConfigWrong, InvalidParameters, Terminal, load
from shelltie.events import Event, RunEnded
from tests.conftest import Open


@contextmanager
def no_descriptors() -> Iterator[None]:
    """This process can open nothing, as a busy server at its limit."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    probe = os.dup(0)
    os.close(probe)
    resource.setrlimit(resource.RLIMIT_NOFILE, (probe, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)


@pytest.mark.proves("T3-26", "C-86", "S3-68")
async def test_what_is_proved_to_change_nothing_gets_twice_the_time(
    terminal: Terminal, tmp_path: Path
) -> None:
    fifo = tmp_path / "fifo"  # it can be read to its end once the first attempt is over
    os.mkfifo(fifo)
    ends: list[Event] = []
    async with anyio.create_task_group() as tasks:

        def hear(event: Event) -> None:
            if isinstance(event, RunEnded) and not ends:
                ends.append(event)
                tasks.start_soon(anyio.to_thread.run_sync, fifo.write_bytes, b"now")

        unsubscribe = terminal.subscribe(hear)
        result = await terminal.run(f"cat {fifo}", timeout=5, silence=0, retry=1)
        unsubscribe()

    assert (result.status, result.stdout) == ("success", "now")
    assert [one.status for one in result.attempts] == ["timeout", "success"]
    assert [one.exec_sec for one in result.attempts] == [5.0, 10.0]
    assert result.attempts[1].run_id == result.run_id != result.attempts[0].run_id
    assert result.limits.source.endswith("; doubled for another attempt")


@pytest.mark.proves("T3-26", "C-86")
async def test_what_may_change_something_is_not_run_again(
    open_terminal: Open, tmp_path: Path
) -> None:
    async with open_terminal(retry_attempts=2) as terminal:
        result = await terminal.run("echo x >> ran; sleep 60", timeout=5, silence=0, cwd=tmp_path)

    assert (result.status, result.attempts) == ("timeout", ())
    assert (tmp_path / "ran").read_text(encoding="utf-8") == "x\n"
    assert any(
        "not run again after its timeout: it is not proved" in one for one in result.warnings
    )


@pytest.mark.proves("C-86")
async def test_nothing_is_run_again_unless_somebody_asks(terminal: Terminal) -> None:
    result = await terminal.run("sleep 30", timeout=0.3, silence=0)

    assert (result.status, result.attempts) == ("timeout", ())
    assert not any("not run again" in one for one in result.warnings)


@pytest.mark.proves("T3-26", "C-86")
async def test_another_attempt_gets_no_more_than_the_policy_allows(
    open_terminal: Open, tmp_path: Path
) -> None:
    policy = tmp_path / "policy.json"
    policy.write_text(
        json.dumps(
            {
                "categories": {"medium": {"exec_timeout_sec": 2, "no_output_timeout_sec": None}},
                "command_patterns": {},
                "default_category": "medium",
                "max_exec_timeout_sec": 2.5,
            }
        ),
        encoding="utf-8",
    )

    async with open_terminal(policy_path=str(policy)) as terminal:
        result = await terminal.run("sleep 60", retry=2)

    assert [one.exec_sec for one in result.attempts] == [2, 2.5]  # a third would get no more


async def test_a_failure_is_not_run_again(terminal: Terminal) -> None:
    for command in ("cat /no/such/file", "no-such-program"):
        result = await terminal.run(command, retry=2)

        assert (result.status, result.attempts) == ("error", ())


@pytest.mark.proves("S4-58")
async def test_what_could_not_be_started_for_now_is_tried_again(
    open_terminal: Open, tmp_path: Path
) -> None:
    async with open_terminal(retry_attempts=2) as terminal, anyio.create_task_group() as tasks:
        await terminal.run("touch before", cwd=tmp_path)  # what is read once has been read
        with no_descriptors():
            failed = await terminal.run("touch made", cwd=tmp_path, retry=0)
        assert (failed.status, failed.exit_code) == ("error", 126)

        failing = anyio.Event()

        def hear(event: Event) -> None:
            if isinstance(event, RunEnded):
                failing.set()

        async def soon_better(*, task_status: anyio.abc.TaskStatus[None]) -> None:
            terminal.subscribe(hear)
            with no_descriptors():
                task_status.started()
                await failing.wait()

        await tasks.start(soon_better)
        result = await terminal.run("touch made", cwd=tmp_path)

    assert result.status == "success"
    assert [one.status for one in result.attempts] == ["error", "success"]
    assert (tmp_path / "made").exists()


@pytest.mark.proves("S4-58", "C-89")
async def test_after_three_starts_that_failed_nothing_is_tried_for_a_while(
    open_terminal: Open,
) -> None:
    async with open_terminal(breaker_failures=3, breaker_pause=8.0) as terminal:
        for _ in range(5):
            await terminal.run("exit 1")
        with no_descriptors():
            for _ in range(3):
                await terminal.run("true")
        with pytest.raises(CannotStart, match="could not be started: nothing is tried"):
            await terminal.run("true")
        with anyio.fail_after(50):
            while True:
                await anyio.sleep(0.1)
                try:
                    result = await terminal.run("true")
                except CannotStart:
                    continue
                break

    assert result.status == "success"


@pytest.mark.parametrize("wrong", [-1, 3, True, "1", None, 1.5])
async def test_a_number_of_attempts_that_is_none_starts_nothing(
    terminal: Terminal, wrong: object
) -> None:
    with pytest.raises(InvalidParameters, match="retry must be"):
        await terminal.run("true", retry=wrong)  # type: ignore[arg-type]  # that is the point


@pytest.mark.parametrize("value", ["3", "-1", "x", ""])
def test_a_setting_that_is_none_is_refused(tmp_path: Path, value: str) -> None:
    with pytest.raises(ConfigWrong, match=r"retry\.attempts"):
        load(tmp_path, {"retry.attempts": value})
