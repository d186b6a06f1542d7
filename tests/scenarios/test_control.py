"""The socket of a server: who may talk to it, what it makes of garbage, and where it lives."""

import asyncio
import json
import os
import resource
import socket
import stat
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from pathlib import Path

import anyio
import anyio.lowlevel
import anyio.to_thread
import pytest
from anyio.streams.buffered import BufferedByteReceiveStream

from shelltie.errors import NoServerAnswer, TerminalError
from shelltie.frontends.control import client
from shelltie.frontends.control.line_format import REQUEST_MAX, MessageFields
from shelltie.frontends.control.peer import Peer
from shelltie.frontends.control.server import Control
from shelltie.frontends.control.socket_dirs import sweep
from shelltie.settings import paths as own_paths

ROOT = os.geteuid() == 0
OTHER_USER = ["setpriv", "--reuid", "65534", "--clear-groups"]


async def _echo(peer: Peer, given: MessageFields) -> MessageFields:
    return {"pid": peer.pid, "uid": peer.uid, "word": given.get("word")}


async def _fail(_: Peer, __: MessageFields) -> MessageFields:
    raise TerminalError("this cannot be done")


async def _break(_: Peer, __: MessageFields) -> MessageFields:
    raise RuntimeError


COMMANDS = {"echo": _echo, "fail": _fail, "break": _break}


@pytest.fixture
def tmp_path(public_path: Path) -> Path:
    """A short one: the path of a socket has 107 bytes at most."""
    return public_path


@pytest.fixture(autouse=True)
def own_places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The servers of whoever runs the tests are none of our business."""
    monkeypatch.setattr(own_paths, "RUNTIME", tmp_path / "run-user")
    monkeypatch.setattr(own_paths, "SHARED", tmp_path / "shared")


@pytest.fixture
def environ(tmp_path: Path) -> dict[str, str]:
    runtime = tmp_path / "runtime"
    runtime.mkdir(mode=0o700)
    return {"XDG_RUNTIME_DIR": str(runtime), "XDG_STATE_HOME": str(tmp_path / "state")}


@pytest.fixture
async def control(environ: dict[str, str]) -> AsyncIterator[Control]:
    async with Control(COMMANDS, environ) as control:
        yield control


def at(control: Control) -> Path:
    assert control.path is not None
    return control.path


async def ask(path: Path, do: str, **fields: object) -> dict[str, object]:
    return await anyio.to_thread.run_sync(lambda: client.ask(path, do, **fields))


async def say(path: Path, line: bytes) -> dict[str, object]:
    """The answer to any bytes."""
    async with await anyio.connect_unix(path) as stream:
        await stream.send(line)
        return await answer_on(BufferedByteReceiveStream(stream))


async def answer_on(stream: BufferedByteReceiveStream) -> dict[str, object]:
    """The next answer."""
    with anyio.fail_after(50):
        return dict(json.loads(await stream.receive_until(b"\n", 1 << 16)))


@contextmanager
def silent_socket(path: Path) -> Iterator[None]:
    """Somebody who has a name, but does not listen."""
    with socket.socket(socket.AF_UNIX) as bound:
        bound.bind(str(path))
        yield


# Talking


async def test_a_server_is_found_and_introduces_itself(
    control: Control, environ: dict[str, str]
) -> None:
    control.client = "a client"

    found = await anyio.to_thread.run_sync(client.servers, environ)

    assert [(one.path, one.pid, one.client) for one in found] == [
        (control.path, os.getpid(), "a client")
    ]


async def test_it_knows_who_asks(control: Control) -> None:
    said = await ask(at(control), "echo", word="höre")

    assert (said["pid"], said["uid"], said["word"]) == (os.getpid(), os.geteuid(), "höre")


async def test_many_talk_at_once(control: Control) -> None:
    said: list[object] = []

    async def one(number: int) -> None:
        said.append((await ask(at(control), "echo", word=number))["word"])

    async with anyio.create_task_group() as tasks:
        for number in range(30):
            tasks.start_soon(one, number)

    assert sorted(map(str, said)) == sorted(map(str, range(30)))


async def test_several_requests_may_use_one_connection(control: Control) -> None:
    line = b'{"shelltie": 1, "do": "hello"}\n'
    async with await anyio.connect_unix(at(control)) as stream:
        answers = BufferedByteReceiveStream(stream)
        for _ in range(3):
            await stream.send(line)
            assert (await answer_on(answers))["ok"] is True


@pytest.mark.parametrize(
    ("line", "code", "said"),
    [
        (b"\n", "MALFORMED", "JSON object"),
        (b"hello\n", "MALFORMED", "JSON object"),
        (b"\xff\xfe\x00\n", "MALFORMED", "JSON object"),
        (b"[]\n", "MALFORMED", "JSON object"),
        (b"[" * 60_000 + b"\n", "MALFORMED", "JSON object"),
        (b"{}\n", "MALFORMED", "version 1"),
        (b'{"shelltie": 2, "do": "hello"}\n', "MALFORMED", "version 1"),
        (b'{"shelltie": 1}\n', "UNKNOWN", "it can: hello, echo"),
        (b'{"shelltie": 1, "do": "dance"}\n', "UNKNOWN", "'dance'"),
        (b'{"shelltie": 1, "do": ["hello"]}\n', "UNKNOWN", "it can"),
        (b'{"shelltie": 1, "do": "fail"}\n', "EXECUTION_ERROR", "this cannot be done"),
        (b'{"shelltie": 1, "do": "break"}\n', "INTERNAL", "report it"),
        (b"x" * (REQUEST_MAX + 10), "MALFORMED", "64 KiB"),
    ],
)
async def test_garbage_gets_a_clear_answer_and_harms_nobody(
    control: Control, line: bytes, code: str, said: str
) -> None:
    answer = await say(at(control), line)

    assert (answer["ok"], answer["code"]) == (False, code)
    assert said in str(answer["message"])
    assert (await ask(at(control), "hello"))["ok"] is True


async def test_who_leaves_in_the_middle_harms_nobody(control: Control) -> None:
    for line in (b"", b'{"shell', b'{"shelltie": 1, "do": "hello"}\n'):
        stream = await anyio.connect_unix(at(control))
        await stream.send(line or b"x")
        await stream.aclose()

    assert (await ask(at(control), "hello"))["ok"] is True


async def test_more_clients_than_it_serves_are_told_so(control: Control) -> None:
    streams = [await anyio.connect_unix(at(control)) for _ in range(70)]
    try:
        answer = await answer_on(BufferedByteReceiveStream(streams[-1]))
    finally:
        for stream in streams:
            await stream.aclose()

    assert answer["code"] == "BUSY"


async def test_without_descriptors_it_answers_later(control: Control) -> None:
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    with socket.socket(socket.AF_UNIX) as caller:
        caller.setblocking(False)
        free = os.dup(0)
        os.close(free)
        resource.setrlimit(resource.RLIMIT_NOFILE, (free, limits[1]))
        try:
            caller.connect(str(control.path))
            caller.send(b'{"shelltie": 1, "do": "hello"}\n')
            await anyio.sleep(0.05)
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, limits)
        with anyio.fail_after(50):
            await anyio.wait_readable(caller)
        said = json.loads(caller.recv(4096))

    assert said["ok"] is True


@pytest.mark.needs("setpriv", "perl")
@pytest.mark.skipif(not ROOT, reason="only root can be somebody else")
async def test_another_user_is_refused(public_path: Path) -> None:
    runtime = public_path / "runtime"
    runtime.mkdir(mode=0o700)
    talk = (
        'my $s = IO::Socket::UNIX->new(Peer => $ARGV[0]) or die "connect: $!";'
        'print $s "{\\"shelltie\\": 1, \\"do\\": \\"hello\\"}\\n"; $s->flush; print scalar <$s>;'
    )
    async with Control(COMMANDS, {"XDG_RUNTIME_DIR": str(runtime)}) as control:
        command = [*OTHER_USER, "perl", "-MIO::Socket::UNIX", "-e", talk, str(control.path)]
        closed = await anyio.run_process(command, check=False)
        for path in (runtime, runtime / "shelltie", at(control)):
            path.chmod(0o777)  # as if nothing but the kernel's word protected it
        opened = await anyio.run_process(command, check=False)

    assert b"connect: Permission denied" in closed.stderr
    assert json.loads(opened.stdout)["code"] == "REFUSED"


# Where it lives


async def test_the_socket_is_for_its_owner_and_goes_with_the_server(
    environ: dict[str, str],
) -> None:
    async with Control(COMMANDS, environ) as control:
        path = at(control)
        modes = [stat.S_IMODE(one.stat().st_mode) for one in (path.parent, path)]

    assert modes == [0o700, 0o600]
    assert not path.exists()


async def test_it_goes_when_its_server_fails_and_the_error_stays_as_it_was(
    environ: dict[str, str],
) -> None:
    paths: list[Path] = []

    async def fail() -> None:
        async with Control(COMMANDS, environ) as control:
            paths.append(at(control))
            raise KeyError

    with pytest.raises(KeyError):
        await fail()
    assert not paths[0].exists()


async def test_it_goes_when_its_server_is_cancelled(environ: dict[str, str]) -> None:
    with anyio.CancelScope() as scope:
        async with Control(COMMANDS, environ) as control:
            path = at(control)
            scope.cancel()
            await anyio.sleep_forever()

    assert scope.cancelled_caught
    assert not path.exists()


async def test_the_socket_of_a_dead_server_is_swept(environ: dict[str, str]) -> None:
    dead = await anyio.open_process([sys.executable, "-c", ""])
    await dead.wait()
    async with Control(COMMANDS, environ) as control:
        place = at(control).parent
        left, starting = place / f"{dead.pid}-aa.sock", place / f"{os.getpid()}-bb.sock"
        with silent_socket(left), silent_socket(starting):
            pass
        (place / "999999999999-cc.sock").write_text("no socket", encoding="utf-8")

        found = await anyio.to_thread.run_sync(client.servers, environ)

        assert [one.path for one in found] == [control.path]
        assert not left.exists()
        assert starting.exists()
        os.utime(starting, (0, 0))
        sweep(place)
        assert not starting.exists()


def test_who_does_not_answer_is_given_up(environ: dict[str, str], tmp_path: Path) -> None:
    with pytest.raises(NoServerAnswer, match="does not answer"):
        client.ask(tmp_path / "nobody.sock", "hello")

    assert client.servers(environ) == []


def _a_link(path: Path) -> None:
    path.with_name("elsewhere").mkdir(mode=0o700)
    path.symlink_to(path.with_name("elsewhere"))


def _open_to_others(path: Path) -> None:
    path.mkdir()
    path.chmod(0o755)


def _a_file(path: Path) -> None:
    path.write_text("", encoding="utf-8")


def _somebody_elses(path: Path) -> None:
    path.mkdir(mode=0o700)
    os.chown(path, 65534, 65534)


def _below_a_directory_of_everybody(path: Path) -> None:
    path.mkdir(mode=0o700)
    path.parent.chmod(0o777)


@pytest.mark.parametrize(
    "prepare",
    [
        _a_link,
        _open_to_others,
        _a_file,
        pytest.param(_somebody_elses, marks=pytest.mark.skipif(not ROOT, reason="needs root")),
        _below_a_directory_of_everybody,
    ],
)
async def test_a_place_that_others_could_reach_is_not_used(
    prepare: object, tmp_path: Path, environ: dict[str, str]
) -> None:
    assert callable(prepare)
    prepare(Path(environ["XDG_RUNTIME_DIR"]) / "shelltie")

    async with Control(COMMANDS, environ) as control:
        assert at(control).parent == tmp_path / "state" / "shelltie" / "run"
        found = await anyio.to_thread.run_sync(client.servers, environ)

    assert [one.path for one in found] == [control.path]


async def test_the_shared_directory_is_used_only_where_its_owner_is_sure(
    tmp_path: Path, environ: dict[str, str]
) -> None:
    shared = tmp_path / "shared"
    shared.mkdir()
    shared.chmod(0o1777)
    environ["XDG_RUNTIME_DIR"] = str(tmp_path / "missing")
    own = shared / f"shelltie-{os.geteuid()}"

    async with Control(COMMANDS, environ) as first:
        assert at(first).parent == own
    own.rmdir()
    own.symlink_to(tmp_path)
    async with Control(COMMANDS, environ) as second:
        assert at(second).parent == tmp_path / "state" / "shelltie" / "run"


async def test_a_server_does_without_where_there_is_no_place(tmp_path: Path) -> None:
    environ = {"XDG_RUNTIME_DIR": "relative", "XDG_STATE_HOME": str(tmp_path / ("d" * 120))}

    async with Control(COMMANDS, environ) as control:
        assert control.path is None


async def test_who_connects_while_a_server_leaves_makes_no_noise(environ: dict[str, str]) -> None:
    noise: list[object] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: noise.append(context))
    with socket.socket(socket.AF_UNIX) as known, socket.socket(socket.AF_UNIX) as late:
        async with Control(COMMANDS, environ) as control:
            known.connect(str(control.path))
            await anyio.wait_all_tasks_blocked()
            known.send(b"{")
            late.connect(str(control.path))
            await anyio.lowlevel.checkpoint()  # the loop has seen both, and tells us first

    assert noise == []
