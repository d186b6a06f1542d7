"""What both keepers promise when somebody stops (SIGSTOP) a keeper or a leash."""

import os
import signal

import psutil

from shelltie.keeper.link import Link
from shelltie.keeper.protocol import Exited, Failed, Gone, Noted, Signalled, Started
from tests.leashes import start
from tests.providers.conftest import process_of
from tests.tree import new_tag, nobody_left, tagged, until


async def test_a_keeper_that_was_stopped_starts_the_next_command(any_link: Link) -> None:
    await start(any_link, "true").last()
    process_of(any_link).send_signal(signal.SIGSTOP)
    await until(lambda: is_stopped(process_of(any_link).pid))

    told = start(any_link, "sh", "-c", "exit 3")
    await told.last()

    assert Exited(3 << 8, 0) in told.words


async def test_a_keeper_that_is_stopped_before_it_has_answered_is_continued(any_link: Link) -> None:
    await start(any_link, "true").last()
    any_link._watch._keeper = stopped = StoppedAgain(any_link, times=2)
    process_of(any_link).send_signal(signal.SIGSTOP)

    told = start(any_link, "sh", "-c", "exit 3")
    await told.last()

    assert Exited(3 << 8, 0) in told.words
    assert stopped.times == 0
    (noted,) = (word for word in told.words if isinstance(word, Noted))
    assert "its keeper had been stopped" in noted.message


async def test_a_keeper_that_was_stopped_sweeps_after_a_leash_that_dies(link: Link) -> None:
    tag = new_tag()
    told = start(link, "sh", "-c", f"setsid sleep 300.{tag} & exec sleep 300.{tag}")
    started = await told.word(Started)
    await until(lambda: len(tagged(tag, "sleep")) == 2)
    process_of(link).send_signal(signal.SIGSTOP)
    await until(lambda: is_stopped(process_of(link).pid))

    os.kill(started.leash, signal.SIGKILL)

    assert isinstance(await told.last(), Gone)
    assert tagged(tag) == []


async def test_a_keeper_that_was_stopped_shoots_whom_it_is_told_to(link: Link) -> None:
    tag = new_tag()
    told = start(link, "sleep", f"300.{tag}")
    started = await told.word(Started)
    process_of(link).send_signal(signal.SIGSTOP)
    await until(lambda: is_stopped(process_of(link).pid))
    os.kill(started.leash, signal.SIGSTOP)

    told.leash.shoot()

    assert isinstance(await told.last(), Gone)
    assert tagged(tag) == []


async def test_a_keeper_that_is_stopped_for_good_is_ended_and_who_answers_goes_on(
    link: Link,
) -> None:
    tag, orphan, unborn = new_tag(), new_tag(), new_tag()
    held = start(link, "sh", "-c", f"setsid sleep 300.{tag} & exec sleep 300.{tag}")
    swept = start(link, "sh", "-c", f"setsid sleep 300.{orphan} & exec sleep 300.{orphan}")
    await held.word(Started)
    leash = (await swept.word(Started)).leash
    await until(lambda: len(tagged(tag, "sleep") + tagged(orphan, "sleep")) == 4)
    link._watch._keeper = StoppedAgain(link)

    process_of(link).send_signal(signal.SIGSTOP)
    os.kill(leash, signal.SIGKILL)
    told = start(link, "sleep", f"300.{unborn}")
    await told.last()

    assert [type(word) for word in told.words] == [Noted, Failed, Gone]
    (failed,) = (word for word in told.words if isinstance(word, Failed))
    assert "keeper" in failed.reason
    assert isinstance(await swept.last(), Gone)
    assert tagged(orphan) == tagged(unborn) == []
    assert not link.alive
    held.leash.signal(signal.SIGTERM)
    assert (await held.word(Signalled)).sent == 2
    assert isinstance(await held.last(), Gone)
    await nobody_left(tag)


async def test_even_without_subreapers_a_keeper_that_is_stopped_for_good_starts_nothing(
    any_link: Link,
) -> None:
    tag = new_tag()
    await start(any_link, "true").last()
    any_link._watch._keeper = StoppedAgain(any_link)
    process_of(any_link).send_signal(signal.SIGSTOP)

    told = start(any_link, "sleep", f"300.{tag}")
    await told.last()

    assert [type(word) for word in told.words] == [Noted, Failed, Gone]
    assert tagged(tag) == []
    assert process_of(any_link).wait(5) == -signal.SIGKILL


async def test_a_leash_that_was_stopped_is_continued_and_tells_the_end(any_link: Link) -> None:
    told = start(any_link, "sh", "-c", "kill -STOP $PPID; exit 3")

    await told.last()

    assert [type(word) for word in told.words] == [Started, Exited, Gone]
    assert Exited(3 << 8, 0) in told.words


async def test_every_leash_that_was_stopped_is_continued(link: Link) -> None:
    commands = [start(link, "sleep", "300") for _ in range(5)]
    leashes = [(await told.word(Started)).leash for told in commands]
    process_of(link).send_signal(signal.SIGSTOP)  # so that it finds them all at once
    for leash in leashes:
        os.kill(leash, signal.SIGSTOP)
    await until(lambda: all(map(is_stopped, leashes)))

    process_of(link).send_signal(signal.SIGCONT)

    await until(lambda: not any(map(is_stopped, leashes)))
    for told in commands:
        told.leash.signal(signal.SIGTERM)
        assert isinstance(await told.last(), Gone)


async def test_who_stops_its_leash_again_and_again_holds_up_nobody_else(link: Link) -> None:
    tag = new_tag()
    hostile = start(link, "sh", "-c", f"while kill -STOP $PPID; do :; done # {tag}")
    await until(lambda: bool(tagged(tag)))

    for _ in range(20):
        assert isinstance(await start(link, "true").last(), Gone)

    hostile.leash.shoot()
    assert isinstance(await hostile.last(), Gone)
    await nobody_left(tag)


async def test_a_keeper_that_is_stopped_does_not_keep_its_link_from_closing(any_link: Link) -> None:
    tag = new_tag()
    told = start(any_link, "sleep", f"300.{tag}")
    await told.word(Started)
    process_of(any_link).send_signal(signal.SIGSTOP)
    await until(lambda: is_stopped(process_of(any_link).pid))

    await any_link.close()

    assert isinstance(told.words[-1], Gone)
    assert process_of(any_link).returncode == 0  # it has ended everything itself
    assert tagged(tag) == []


class StoppedAgain:
    """A keeper that is stopped again before it gets to do anything: as if it were not continued."""

    def __init__(self, link: Link, times: int = -1) -> None:
        self._process = process_of(link)
        self.pid = self._process.pid
        self.times = times  # before they give up

    def send_signal(self, number: int, /) -> None:
        if self.times == 0:
            self._process.send_signal(number)
        self.times -= self.times > 0


def is_stopped(pid: int) -> bool:
    return bool(psutil.Process(pid).status() == psutil.STATUS_STOPPED)
