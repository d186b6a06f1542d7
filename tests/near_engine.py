"""An engine whose far side is this machine, with a connection that can be cut as a network can."""

import secrets
import shutil
import socket
import subprocess
import tempfile
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import anyio.to_thread

from shelltie.errors import CannotStart, KeeperGone
from shelltie.providers.places import payload
from shelltie.providers.places.engine import FarKeeper

_READ = 64 * 1024


class NearEngine:
    """Launches real keepers by the scripts that engines use; `cut` is a link without a word."""

    kind = "near"

    def __init__(self, keeper: str = "c", *, shared: bool = True) -> None:
        self.shared = shared
        self.cut = False
        self.refuses = ""  # why nothing can be launched
        self.streams = 0
        self._wanted = keeper
        self._top = Path(tempfile.mkdtemp(prefix="near-", dir="/tmp"))
        self._pumps: list[_Pump] = []

    async def launch(self, name: str, lease: float) -> FarKeeper:
        if self.refuses or self.cut:
            raise CannotStart(self.refuses or "no route to host")
        machine = payload.read_machine(await self._sh(payload.look_script()))
        program = payload.payload_for("Linux x86_64", machine.python, self._wanted)
        if program.name not in machine.payloads:
            await self._sh(payload.put_script(program, machine.place), program.content)
        token = secrets.token_hex(24)
        script = payload.launch_script(program, machine.place, name, lease)
        assert list(payload.told(await self._sh(script, token.encode()), "stays"))
        return FarKeeper(name, token, f"near {name}")

    async def open_stream(self, keeper: FarKeeper) -> socket.socket:
        if self.cut:
            raise OSError("no route to host")
        channel = socket.socket(socket.AF_UNIX)
        try:
            channel.connect(str(self.directory(keeper.name) / "socket"))
        except OSError as error:
            channel.close()
            raise KeeperGone(str(error)) from error
        ours, theirs = socket.socketpair()
        self.streams += 1
        self._pumps.append(_Pump(theirs, channel, lambda: self.cut))
        return ours

    def hang_up(self) -> None:
        """Every connection ends, as when a server is killed."""
        for pump in self._pumps:
            pump.close()
        self._pumps.clear()

    def directory(self, name: str) -> Path:
        return next(self._top.glob("shelltie-*")) / name

    async def destroy(self, keeper: FarKeeper) -> None:
        if not self.cut:
            place = str(self.directory(keeper.name).parent)
            await self._sh(payload.remove_script(place, keeper.name))

    async def list(self) -> list[str]:
        machine = payload.read_machine(await self._sh(payload.look_script()))
        return sorted(machine.keepers)

    async def close(self) -> None:
        self.hang_up()
        shutil.rmtree(self._top, ignore_errors=True)

    async def _sh(self, script: str, given: bytes = b"") -> str:
        env = {"PATH": "/usr/local/bin:/usr/bin:/bin", "HOME": "/", "TMPDIR": str(self._top)}

        def run() -> bytes:
            done = subprocess.run(
                ["sh", "-c", script],
                input=given,
                stdout=subprocess.PIPE,
                env=env,
                timeout=100,
                check=False,
            )
            return done.stdout

        return (await anyio.to_thread.run_sync(run)).decode()


class _Pump:
    """Carries bytes both ways, unless it is cut: then it takes them and says nothing."""

    def __init__(
        self, one: socket.socket, other: socket.socket, is_cut: Callable[[], bool]
    ) -> None:
        self._is_cut, self._ends = is_cut, (one, other)
        self._left = [one, other]
        self._lock = threading.Lock()
        for source, target in ((one, other), (other, one)):
            source.setblocking(True)
            threading.Thread(target=self._carry, args=(source, target), daemon=True).start()

    def _carry(self, source: socket.socket, target: socket.socket) -> None:
        lost = False  # what was on its way is gone, and no later byte may follow
        with suppress(OSError):
            while data := source.recv(_READ):
                lost = lost or self._is_cut()
                if not lost:
                    target.sendall(data)
        self.close()
        with self._lock:
            self._left.remove(source)
            if not self._left:
                for end in self._ends:
                    end.close()

    def close(self) -> None:
        with self._lock, suppress(OSError):
            for end in self._ends:
                end.shutdown(socket.SHUT_RDWR)
