"""The Ray actor of one keeper that stays: runs scripts on its node, carries the keeper's stream.

Sent to the node by driver.py, whole: it needs nothing there but Python and Ray. Ray leaves
processes behind when an actor dies, so it is the keeper's lease that ends them; and an actor whose
keeper has ended leaves by itself, so that it takes no room in the cluster any more.
"""

from __future__ import annotations

import asyncio
import os
import platform
import socket
import sys
import threading
import time
from typing import Any

_CHUNK = 64 * 1024  # Ray sends up to 100 KiB without its object store
_LOOKS_EVERY = 2.0  # seconds, whether the keeper is there
_KEPT = ("PATH", "HOME", "USER", "LOGNAME", "TMPDIR", "LANG", "LD_LIBRARY_PATH")


class KeeperActor:
    """Streams have names, given by whoever opens them. `idle`: seconds it waits for a keeper."""

    def __init__(self, idle: float) -> None:
        self._until = time.monotonic() + idle
        self._directory = ""
        self._streams: dict[str, tuple[Any, Any]] = {}
        threading.Thread(target=self._leave_with_keeper, daemon=True).start()

    async def describe(self) -> dict[str, str]:
        """Where it runs."""
        import ray.util

        return {
            "host": platform.node(),
            "node": ray.util.get_node_ip_address(),
            "machine": f"{platform.system()} {platform.machine()}",
            "python": sys.executable,
        }

    async def extend(self, idle: float) -> None:
        """Wait so much longer for a keeper."""
        self._until = time.monotonic() + idle

    async def shell(self, script: str, data: bytes) -> str:
        """What `sh` prints of a script that reads the data. Its environment is bare: what Ray gives
        its workers is no business of the commands'.
        """
        process = await asyncio.create_subprocess_exec(
            "/bin/sh", "-c", script,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
            env={name: os.environ[name] for name in _KEPT if name in os.environ},
            start_new_session=True,
        )  # fmt: skip
        printed, _ = await process.communicate(data)
        return printed.decode("utf-8", "replace")

    async def open(self, stream: str, directory: str) -> str:
        """Connect to the keeper there; what is wrong, or nothing."""
        self._directory = directory
        try:
            self._streams[stream] = await asyncio.open_unix_connection(f"{directory}/socket")
        except OSError as error:
            return f"no keeper in {directory} on {platform.node()}: {error.strerror}"
        return ""

    async def write(self, stream: str, data: bytes) -> None:
        """Bytes for the keeper."""
        _, writer = self._streams[stream]
        writer.write(data)
        await writer.drain()

    async def read(self, stream: str) -> bytes:
        """Bytes of the keeper's, as soon as there are some; none at the end."""
        reader, _ = self._streams[stream]
        data: bytes = await reader.read(_CHUNK)
        return data

    async def close(self, stream: str) -> None:
        """Nobody reads it any more."""
        _, writer = self._streams.pop(stream, (None, None))
        if writer is not None:
            writer.close()

    def _leave_with_keeper(self) -> None:
        """Have Ray end this actor when its keeper is gone, or nobody connects to one in time."""
        import ray

        while self._is_needed():
            time.sleep(_LOOKS_EVERY)  # what ends is no child of ours, and has no descriptor here
        ray.kill(ray.get_runtime_context().current_actor)

    def _is_needed(self) -> bool:
        if not self._directory:
            return time.monotonic() < self._until
        with socket.socket(socket.AF_UNIX) as channel:
            channel.settimeout(_LOOKS_EVERY)
            try:
                channel.connect(f"{self._directory}/socket")
            except (FileNotFoundError, ConnectionRefusedError):
                return False
            except OSError:  # it has more to do than it can
                return True
        return True
