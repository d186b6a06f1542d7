"""What stays outlives its server, and whoever holds it next gets every byte once."""

import os
import signal
from collections.abc import Callable
from pathlib import Path

import anyio
import anyio.to_thread
import pytest

from shelltie.errors import CannotStart
from shelltie.keeper.protocol import Exited, Gone, LeashWord, Lost
from shelltie.keeper.stay_folder import StayFolder
from shelltie.model import Resources, TerminalSize
from shelltie.providers.provider import Prepared
from shelltie.providers.staying import StayingProvider
from tests import server_kills
from tests.tree import new_tag, nobody_left, tagged, until

_PATH = {"PATH": "/usr/local/bin:/usr/bin:/bin"}


def provider_in(folder: Path, most: int = 10) -> StayingProvider:
    return StayingProvider(StayFolder(folder), lease=60, bound=1024 * 1024, most=most)


def prepared(*argv: str, name: str = "one", pty: bool = True) -> Prepared:
    env = {**_PATH, "SHELLTIE_RUN": name}
    size = TerminalSize() if pty else None
    return Prepared(argv, env, "/", None, size, Resources(), stays_open=True)


async def read_until(fd: int, text: bytes) -> bytes:
    printed = b""
    with anyio.fail_after(40):
        while text not in printed:
            await anyio.wait_readable(fd)
            printed += os.read(fd, 65536)
    return printed


@pytest.mark.parametrize("keeper", ["c", "python"])
@pytest.mark.timeout(120)
async def test_a_server_that_is_killed_again_and_again_loses_no_line(
    tmp_path: Path, keeper: str
) -> None:
    lines, kills = 4000, 4
    names = await server_kills.start(tmp_path, keeper, sessions=3, lines=lines, burst=10)

    work: Callable[[], int] = lambda: server_kills.kill_servers(  # noqa: E731
        tmp_path, names, kills, (0.4, 0.8)
    )
    killed = await anyio.to_thread.run_sync(work)

    assert killed
    server_kills.check(tmp_path, names, lines)
    await until(lambda: not StayFolder(tmp_path / "stay").names())


async def test_the_next_server_types_and_looks_where_the_last_one_did(tmp_path: Path) -> None:
    words: list[LeashWord] = []
    first = provider_in(tmp_path / "stay")
    script = "read a; echo got $a; stty -echo; echo quiet; read b; echo got $b; exit 5"
    process = first.spawn(prepared("sh", "-c", script), words.append)
    os.write(process.stdout, b"one\n")
    await read_until(process.stdout, b"quiet")
    process.release()
    os.close(process.stdout)
    await first.close()

    again: list[LeashWord] = []
    second = provider_in(tmp_path / "stay")
    link, held, row = await second.reach("one", again.append, take=False)
    assert held.terminal is not None
    process = second.attach(link, held, prepared("-"), row)
    printed = await read_until(process.stdout, b"quiet")
    os.write(process.stdout, b"two\n")
    printed += await read_until(process.stdout, b"got two")
    await until(lambda: bool(again) and isinstance(again[-1], Gone))

    assert printed.count(b"got one") == 1
    assert any(isinstance(word, Exited) and word.wait_status == 5 << 8 for word in again)
    assert not any(isinstance(word, Gone | Lost) for word in words)
    process.forget()
    os.close(process.stdout)
    await until(lambda: not second.folder.names())
    await second.close()


async def test_what_a_living_server_holds_is_not_taken_unasked(tmp_path: Path) -> None:
    first, second = provider_in(tmp_path / "stay"), provider_in(tmp_path / "stay")
    words: list[LeashWord] = []
    process = first.spawn(prepared("sleep", "300"), words.append)
    await until(lambda: bool(words))

    with pytest.raises(CannotStart, match="another server holds"):
        await second.reach("one", words.append, take=False)
    with pytest.raises(CannotStart, match="nothing stays as two"):
        await second.reach("two", words.append, take=False)

    await first.close()
    os.close(process.stdout)
    await second.close()
    assert isinstance(words[-1], Gone)


async def test_more_than_may_stay_are_refused(tmp_path: Path) -> None:
    provider = provider_in(tmp_path / "stay", most=1)
    words: list[LeashWord] = []
    process = provider.spawn(prepared("sleep", "300"), words.append)

    with pytest.raises(CannotStart, match="stay already"):
        provider.spawn(prepared("sleep", "300", name="two"), words.append)

    assert provider.folder.names() == ["one"]
    await provider.close()
    os.close(process.stdout)


async def test_what_was_left_of_a_killed_keeper_is_swept_and_told(tmp_path: Path) -> None:
    tag, words = new_tag(), list[LeashWord]()
    provider = provider_in(tmp_path / "stay")
    process = provider.spawn(prepared("sleep", f"300.{tag}"), words.append)
    await until(lambda: bool(tagged(tag)) and bool(words))

    (link,) = provider._links
    os.kill(link.keeper_pid, signal.SIGKILL)

    await until(lambda: isinstance(words[-1], Lost))
    await nobody_left(tag)
    assert provider.folder.sweep() == ["one"]
    await provider.close()
    os.close(process.stdout)
