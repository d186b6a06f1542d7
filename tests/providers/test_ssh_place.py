"""A host reached by ssh, against Debian's sshd: commands, connections that die, bad input."""

import getpass
import os
import shutil
import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import pytest

from shelltie.errors import CannotStart
from shelltie.keeper.protocol import Gone, Lost
from shelltie.providers import contract
from shelltie.providers.places.provider import PlaceProvider
from shelltie.providers.places.ssh import SshEngine
from tests.place_commands import Seen
from tests.ssh_server import SshServer, ssh_server
from tests.tree import new_tag, nobody_left

pytestmark = pytest.mark.needs("sshd")


@pytest.fixture
def server() -> Iterator[SshServer]:
    with ssh_server() as server:
        yield server


def provider_at(server: SshServer, **settings: object) -> PlaceProvider:
    place = server.place(**settings)
    return PlaceProvider("web1", place, SshEngine("web1", place))


@asynccontextmanager
async def place(server: SshServer, **settings: object) -> AsyncIterator[PlaceProvider]:
    provider = provider_at(server, **settings)
    try:
        await provider.ready("/")
        yield provider
    finally:
        with anyio.CancelScope(shield=True):
            await provider.close()


def left_there(server: SshServer) -> list[str]:
    """What lies in our directory there beside the keeper programs."""
    ours = server.folder / f"shelltie-{os.getuid()}"
    return [one.name for one in ours.glob("*") if not one.name.startswith("keeper-")]


@pytest.mark.usefixtures("current_binary")
@pytest.mark.parametrize("check", contract.CHECKS, ids=contract.name_of)
async def test_a_host_keeps_the_contract(
    check: contract.ContractCheck, server: SshServer, public_path: Path
) -> None:
    await check(provider_at(server, keeper="c"), public_path)

    assert not left_there(server)


@pytest.mark.parametrize("keeper", ["c", "python"])
async def test_the_keeper_is_copied_once_and_a_start_up_file_is_read_by_no_command(
    server: SshServer, keeper: str
) -> None:
    printed, user = [], ""
    for _ in range(2):
        async with place(server, keeper=keeper) as provider:
            seen = Seen(provider, "bash", "-c", "echo [$FROM_RC] $HOME $SHELLTIE_X; pwd")
            await seen.over()
            printed.append(seen.printed)
            user = (await provider.look_there()).base.kept["USER"]
        put = next((server.folder / f"shelltie-{os.getuid()}").glob("keeper-*")).stat().st_mtime_ns
        printed.append(str(put).encode())

    assert printed[0] == printed[2] == b"[]\n/\n"
    assert printed[1] == printed[3]
    assert user == getpass.getuser()
    assert not left_there(server)


async def test_many_commands_at_once_need_one_connection_and_two_of_its_sessions(
    server: SshServer,
) -> None:
    async with place(server) as provider:
        many = [Seen(provider, "sh", "-c", f"echo {number}; sleep 0.5") for number in range(40)]
        for seen in many:
            await seen.over()

    assert [seen.printed for seen in many] == [f"{number}\n".encode() for number in range(40)]
    assert server.connections == 1


async def test_where_sockets_are_not_forwarded_a_session_is_the_bridge(server: SshServer) -> None:
    server.configure("AllowStreamLocalForwarding no\nAllowTcpForwarding no\n")

    async with place(server) as provider:
        seen = Seen(provider, "sh", "-c", "seq 1 50000; exit 3")
        await seen.until(lambda: len(seen.printed) > 1000)
        server.kill_connections()
        await seen.over()
        await provider.ready("/")
        lost = Seen(provider, "sh", "-c", "echo on; sleep 300")
        await lost.until(lambda: b"on" in lost.printed)
        os.kill(lost.process._far.link.keeper_pid, 9)
        await lost.over()

    assert seen.printed == b"".join(b"%d\n" % number for number in range(1, 50001))
    assert seen.said(Gone)
    assert lost.said(Lost)


async def test_sshd_that_is_killed_again_and_again_loses_nothing(server: SshServer) -> None:
    tag = new_tag()
    script = f"i=0; while [ $i -lt 20000 ]; do echo $i; i=$((i+1)); done; sleep 0.{tag} & exit 5"

    async with place(server) as provider:
        seen = Seen(provider, "sh", "-c", script)
        for size in range(5000, 100000, 20000):
            await seen.until(lambda size=size: len(seen.printed) > size or seen.said(Gone))  # type: ignore[misc]
            server.kill_connections()
        await seen.over()

    assert seen.printed == b"".join(b"%d\n" % number for number in range(20000))
    assert seen.exit_code == 5
    await nobody_left(tag)
    assert not left_there(server)


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"known_hosts": os.devnull}, "add it to known"),
        ({"identity": "other_key"}, "does not let you in"),
        ({"identity": "no_such_key"}, "no_such_key"),
        ({"host": "no-such-host.invalid"}, "no-such-host.invalid"),
        ({"user": "nobody-of-that-name"}, "does not let you in"),
        ({"port": 1}, "cannot be reached"),
    ],
)
async def test_a_host_that_cannot_be_used_is_an_error_that_says_why(
    server: SshServer, settings: dict[str, object], says: str
) -> None:
    if "identity" in settings:
        settings = {"identity": str(server.folder / str(settings["identity"]))}
    provider = provider_at(server, **settings)

    with pytest.raises(CannotStart, match=says) as told:
        await provider.ready("/")
    await provider.close()

    assert "host " in str(told.value)
    assert not (server.folder / f"shelltie-{os.getuid()}").exists()


async def test_another_key_of_the_host_is_refused(server: SshServer) -> None:
    shutil.copy(server.folder / "other_key", server.folder / "host_key")
    provider = provider_at(server)

    with pytest.raises(CannotStart, match="the known one"):
        await provider.ready("/")
    await provider.close()


async def test_what_is_no_ssh_server_is_told_within_seconds(server: SshServer) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        provider = provider_at(server, port=listener.getsockname()[1])

        async def answer() -> None:
            await anyio.wait_readable(listener)
            connection, _ = listener.accept()
            with connection:
                connection.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(answer)
            with pytest.raises(CannotStart, match="host 127"):
                await provider.ready("/")
        await provider.close()
