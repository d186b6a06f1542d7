"""SSH engine (asyncssh): one keeper on a host for all commands, reached over one connection.

Its socket is reached by a channel of the kind direct-streamlocal, which counts in no MaxSessions;
where the server forbids that, by a session that runs `--bridge`. What we run there ourselves goes
through the account's shell, as with any client: but no command of the user's does, and no more than
`exec /bin/sh` is left to that shell.
"""

import asyncio
import shlex
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import anyio
import asyncssh

from shelltie.errors import CannotStart, KeeperGone
from shelltie.providers.places import payload
from shelltie.providers.places.engine import FarKeeper
from shelltie.settings.places import SshPlace

_CONNECTS_WITHIN = 10.0
_RUNS_WITHIN = 20.0  # seconds, of what we run there; the start-up files of an account may be slow
_UPLOADS_WITHIN = 60.0
_OPENS_WITHIN = 5.0
_SLOT_TRIES, _SLOT_PAUSE = 20, 0.2
# A connection that answers no keepalive for so many seconds is closed, and the next one tried.
_KEEPALIVE, _KEEPALIVES = 1, 3
_READ_SIZE = 64 * 1024
_HELD_MAX = 256 * 1024  # bytes that wait for one side before the other is not read any more
_NO_KEEPER = 4  # what the bridge exits with where nobody listens
# Never a password: nobody is there to type it.
_WAYS_IN = ("gssapi-keyex", "gssapi-with-mic", "hostbased", "publickey")


class SshEngine:
    """Launches keepers on a host. `name` is the place's, for messages."""

    kind = "ssh"
    shared = True

    def __init__(self, name: str, place: SshPlace) -> None:
        self._name, self._place = name, place
        self._connection: asyncssh.SSHClientConnection | None = None
        self._connecting = anyio.Lock()
        self._running = anyio.Lock()
        self._machine: payload.FarMachine | None = None
        self._gone: set[str] = set()  # keepers that a bridge has not found

    async def launch(self, name: str, lease: float) -> FarKeeper:
        """See `PlaceEngine`."""
        machine, program = await self._look()
        if program.name not in machine.payloads:
            await self._told(payload.put_script(program, machine.place), "put", program.content)
        token = payload.new_token()
        script = payload.launch_script(program, machine.place, name, lease)
        await self._told(script, "stays", token.encode())
        return FarKeeper(name, token, f"host {self._place.host}")

    async def open_stream(self, keeper: FarKeeper) -> socket.socket:
        """See `PlaceEngine`."""
        if keeper.name in self._gone:
            raise KeeperGone(f"host {self._place.host} has no keeper {keeper.name} any more")
        machine, program = await self._look()
        directory = f"{machine.place}/{keeper.name}"
        ours, theirs = socket.socketpair()
        for end in (ours, theirs):
            end.setblocking(False)
        carrier = _Carrier(theirs)
        try:
            if await self._forward(carrier, directory):
                return ours
            words = [*program.argv(machine.place), payload.BRIDGE, directory]
            carrier.on_no_keeper = lambda: self._gone.add(keeper.name)
            connection = await self._connected()
            with _in_words(self._place.host), anyio.fail_after(_OPENS_WITHIN):
                await connection.create_session(
                    lambda: carrier, f"exec {shlex.join(words)}", encoding=None
                )
        except BaseException:
            ours.close()
            carrier.close()
            raise
        return ours

    async def _forward(self, carrier: "_Carrier", directory: str) -> bool:
        """A channel to the keeper's socket; False where there is none to be had.

        Raises: OSError, CannotStart.
        """
        connection = await self._connected()
        made: Any = lambda: carrier  # noqa: E731  sessions of both kinds are alike
        try:
            with anyio.fail_after(_OPENS_WITHIN):
                await connection.create_unix_connection(made, f"{directory}/socket")
        except asyncssh.ChannelOpenError:  # nobody listens, or nothing is forwarded
            return False
        except TimeoutError:  # the connection is dead, and has not noticed
            connection.abort()
            raise
        except asyncssh.Error as error:
            raise OSError(f"host {self._place.host}: {error.reason}") from error
        return True

    async def destroy(self, keeper: FarKeeper) -> None:
        """See `PlaceEngine`."""
        with suppress(OSError, CannotStart):
            machine, _ = await self._look()
            await self._run(payload.remove_script(machine.place, keeper.name))

    async def list(self) -> list[str]:
        """See `PlaceEngine`."""
        self._machine = None
        machine, _ = await self._look()
        return sorted(machine.keepers)

    async def close(self) -> None:
        """See `PlaceEngine`."""
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()
            with anyio.move_on_after(_OPENS_WITHIN, shield=True), suppress(OSError, asyncssh.Error):
                await connection.wait_closed()

    async def _connected(self) -> asyncssh.SSHClientConnection:
        """The connection, made anew where it was lost. Raises: CannotStart."""
        async with self._connecting:
            if self._connection is None or self._connection.is_closed():
                with _in_words(self._place.host):
                    self._connection = await self._connect()
            return self._connection

    async def _connect(self) -> asyncssh.SSHClientConnection:
        place = self._place
        return await asyncssh.connect(
            place.host,
            place.port or (),
            username=place.user or (),
            client_keys=_path(place.identity),
            known_hosts=_path(place.known_hosts),
            config=_path(place.config),
            preferred_auth=_WAYS_IN,
            agent_forwarding=False,
            x11_forwarding=False,
            send_env=None,
            request_pty=False,
            keepalive_interval=_KEEPALIVE,
            keepalive_count_max=_KEEPALIVES,
            connect_timeout=_CONNECTS_WITHIN,
            login_timeout=_CONNECTS_WITHIN,
        )

    async def _look(self) -> tuple[payload.FarMachine, payload.Payload]:
        if self._machine is None:
            self._machine = payload.read_machine(await self._run(payload.look_script()))
        found = self._machine
        uname = f"{found.system} {found.machine}"
        try:
            return found, payload.payload_for(uname, found.python, self._place.keeper)
        except CannotStart as error:
            raise CannotStart(f"host {self._place.host}: {error}") from error

    async def _told(self, script: str, word: str, given: bytes) -> None:
        """Run a script that is to say this. Raises: CannotStart."""
        printed = await self._run(script, given)
        try:
            said = next(payload.told(printed, word), None)
        except CannotStart as error:
            self._machine = None  # it may be another by now: look again
            raise CannotStart(f"host {self._place.host}: {error}") from error
        if said is None:
            self._machine = None
            raise CannotStart(
                f"host {self._place.host} does not do as it should: {printed[-200:]!r}"
            )

    async def _run(self, script: str, given: bytes = b"") -> str:
        """What a script of ours prints there.

        Whatever shell the account has, it understands this line; the script itself is on stdin.
        """
        text = script.encode()
        line = f"exec /bin/sh -c 'eval \"$(dd bs=1 count={len(text)} 2>/dev/null)\"'"
        limit = _UPLOADS_WITHIN if len(given) > _READ_SIZE else _RUNS_WITHIN
        # One at a time: a server may allow few sessions on a connection (MaxSessions).
        async with self._running:
            connection = await self._connected()
            return await self._run_line(connection, line, text + given, limit)

    async def _once_there_is_a_slot(
        self, connection: asyncssh.SSHClientConnection, line: str, given: bytes
    ) -> asyncssh.SSHCompletedProcess:
        """A session that has ended counts for a moment longer."""
        for _ in range(_SLOT_TRIES):
            with suppress(asyncssh.ChannelOpenError):
                return await connection.run(line, input=given, encoding=None)
            await anyio.sleep(_SLOT_PAUSE)
        return await connection.run(line, input=given, encoding=None)

    async def _run_line(
        self, connection: asyncssh.SSHClientConnection, line: str, given: bytes, limit: float
    ) -> str:
        """Raises: CannotStart."""
        with _in_words(self._place.host):
            try:
                with anyio.fail_after(limit):
                    done = await self._once_there_is_a_slot(connection, line, given)
            except TimeoutError as error:
                raise CannotStart(
                    f"host {self._place.host} has not answered for {limit:.0f} s: look whether the"
                    " start-up files of that account's shell hang"
                ) from error
        said = done.stdout or b""
        return said.decode("utf-8", "replace") if isinstance(said, bytes) else str(said)


def _path(setting: str) -> str | tuple[()]:
    """What asyncssh takes: an empty tuple leaves it to the user's SSH configuration."""
    return str(Path(setting).expanduser()) if setting else ()


@contextmanager
def _in_words(host: str) -> Iterator[None]:
    """Says what asyncssh raises so that the user knows what to do. Raises: CannotStart."""
    try:
        yield
    except (asyncssh.Error, OSError, ValueError) as error:
        raise CannotStart(f"host {host} {_explained(host, error)}") from error


def _explained(host: str, error: Exception) -> str:
    match error:
        case asyncssh.HostKeyNotVerifiable():
            return (
                "shows a key that is not the known one, or none is known: check it, and add it to"
                f" known_hosts (`ssh {host}` asks once)"
            )
        case asyncssh.PermissionDenied():
            return (
                "does not let you in: it wants a key that it knows (`ssh -o BatchMode=yes"
                f" {host} true` must work); no password is ever sent"
            )
        case asyncssh.Error():
            return f"cannot be used: {error.reason}"
        case socket.gaierror():
            return f"is not known: {error.strerror}"
        case TimeoutError():
            return f"has not answered within {_CONNECTS_WITHIN:.0f} s"
        case OSError():
            file = f": {error.filename}" if error.filename else ""
            return f"cannot be reached: {error.strerror or error}{file}"
        case _:
            return f"has wrong settings here or in your SSH configuration: {error}"


class _Carrier(asyncssh.SSHClientSession[bytes]):
    """Carries bytes between a channel and a socket of ours, with backpressure both ways."""

    def __init__(self, local: socket.socket) -> None:
        self._loop = asyncio.get_running_loop()
        self._local = local
        self._channel: asyncssh.SSHClientChannel[bytes] | None = None
        self._held = bytearray()  # for our side
        self._reading = False
        self._ends = False  # as soon as our side has had what is held
        self._over = False
        self.on_no_keeper: Callable[[], None] | None = None

    def connection_made(self, chan: "asyncssh.SSHClientChannel[bytes]") -> None:
        self._channel = chan

    def session_started(self) -> None:
        self.resume_writing()

    def data_received(self, data: bytes, datatype: int | None) -> None:
        if datatype is not None or self._over:  # what the bridge says on stderr
            return
        self._held += data
        self._write()
        if len(self._held) > _HELD_MAX and self._channel is not None:
            self._channel.pause_reading()

    def _write(self) -> None:
        try:
            while self._held:
                del self._held[: self._local.send(self._held)]
        except BlockingIOError:
            self._loop.add_writer(self._local, self._write)
            return
        except OSError:
            self.close()
            return
        self._loop.remove_writer(self._local)
        if self._ends:
            self.close()
        elif self._channel is not None:
            self._channel.resume_reading()

    def pause_writing(self) -> None:
        if self._reading:
            self._loop.remove_reader(self._local)
        self._reading = False

    def resume_writing(self) -> None:
        if not self._reading and not self._ends and not self._over:
            self._loop.add_reader(self._local, self._read)
            self._reading = True

    def _read(self) -> None:
        try:
            data = self._local.recv(_READ_SIZE)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if data and self._channel is not None:
            self._channel.write(data)
        else:
            self.close()

    def exit_status_received(self, status: int) -> None:
        if status == _NO_KEEPER and self.on_no_keeper is not None:
            self.on_no_keeper()

    def eof_received(self) -> bool:
        self._end()
        return False

    def connection_lost(self, _: Exception | None) -> None:
        self._end()

    def _end(self) -> None:
        self._ends = True
        self.pause_writing()
        if not self._held:
            self.close()

    def close(self) -> None:
        if self._over:
            return
        self._over = True
        self.pause_writing()
        self._loop.remove_writer(self._local)
        self._local.close()
        if self._channel is not None:
            self._channel.close()
