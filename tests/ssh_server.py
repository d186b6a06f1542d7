"""Debian's sshd behind a socket of the test's: each connection has a process of its own (sshd -i).

So there is no port to choose, a connection can be killed alone, and nothing of it stays.
"""

import getpass
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import psutil

from shelltie.settings.places import SshPlace

_CONFIG = """
HostKey {0}/host_key
AuthorizedKeysFile {0}/authorized
StrictModes no
UsePAM no
PidFile none
PermitRootLogin yes
PasswordAuthentication no
KbdInteractiveAuthentication no
MaxSessions 2
SetEnv TMPDIR={0} BASH_ENV={0}/rc
"""


class SshServer:
    """Where a test logs in as whoever runs it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.connections = 0
        self._refuses = False
        self._sshd = shutil.which("sshd", path=f"{os.environ['PATH']}:/usr/sbin") or "sshd"
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._processes: list[subprocess.Popen[bytes]] = []
        for name in ("host_key", "key", "other_key"):
            words = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(folder / name)]
            subprocess.run(words, check=True)
        shutil.copy(folder / "key.pub", folder / "authorized")
        (folder / "rc").write_text("echo welcome; export FROM_RC=1\n", encoding="utf-8")
        self.configure("")
        key = (folder / "host_key.pub").read_text(encoding="ascii")
        known = f"[127.0.0.1]:{self.port} {key}"
        (folder / "known_hosts").write_text(known, encoding="ascii")
        if os.geteuid() == 0:
            Path("/run/sshd").mkdir(exist_ok=True, mode=0o755)
        threading.Thread(target=self._serve, daemon=True).start()

    @property
    def port(self) -> int:
        port: int = self._listener.getsockname()[1]
        return port

    def configure(self, more: str) -> None:
        """For connections that come from now on."""
        text = more + _CONFIG.format(self.folder)
        (self.folder / "sshd_config").write_text(text, encoding="utf-8")

    def place(self, **settings: object) -> SshPlace:
        own: dict[str, object] = {
            "host": "127.0.0.1",
            "port": settings.get("port") or self.port,
            "user": getpass.getuser(),
            "identity": str(self.folder / "key"),
            "known_hosts": str(self.folder / "known_hosts"),
            "config": os.devnull,
        }
        return SshPlace(**{**own, **settings})  # type: ignore[arg-type]

    def refuse(self) -> None:
        """Who connects from now on is hung up on."""
        self._refuses = True

    def accept(self) -> None:
        """As before."""
        self._refuses = False

    def kill_connections(self) -> None:
        """SIGKILL for every sshd, as when somebody restarts it the hard way."""
        for process in self._processes:
            with suppress(psutil.NoSuchProcess):
                whole = psutil.Process(process.pid)
                for child in [*whole.children(), whole]:
                    if "sshd" in child.name():
                        child.send_signal(signal.SIGKILL)

    def close(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self.kill_connections()
        for process in self._processes:
            process.wait(30)

    def _serve(self) -> None:
        with suppress(OSError):
            while True:
                connection, _ = self._listener.accept()
                if self._refuses:
                    connection.close()
                    continue
                with connection, (self.folder / "log").open("ab") as log:
                    self.connections += 1
                    end = connection.fileno()
                    words = [self._sshd, "-i", "-e", "-f", str(self.folder / "sshd_config")]
                    self._processes.append(
                        subprocess.Popen(words, stdin=end, stdout=end, stderr=log)
                    )


@contextmanager
def ssh_server() -> Iterator[SshServer]:
    """A server, for tests that need sshd; in a short path, as sockets have no long ones."""
    with tempfile.TemporaryDirectory(prefix="sshd-", dir="/tmp") as name:
        server = SshServer(Path(name))
        try:
            yield server
        finally:
            server.close()


class FarSshd:
    """A host of its own: an sshd in a network namespace, whose link can be cut."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._number = int.from_bytes(os.urandom(2), "big")
        self.name = f"far{self._number:x}"
        self.address = f"10.{200 + self._number % 50}.{self._number // 256}.2"
        self._keys = SshServer(folder)
        self._keys.close()
        key = (folder / "host_key.pub").read_text(encoding="ascii")
        (folder / "known_hosts").write_text(f"[{self.address}]:2222 {key}", encoding="ascii")
        near = f"{self.address[:-1]}1/30"
        self._ip("netns", "add", self.name)
        try:
            self._ip("link", "add", f"n{self.name}", "type", "veth", "peer", "name", self.name)
            self._ip("link", "set", self.name, "netns", self.name)
            self._ip("addr", "add", near, "dev", f"n{self.name}")
            self._ip("link", "set", f"n{self.name}", "up")
            self._there("addr", "add", f"{self.address}/30", "dev", self.name)
            self._there("link", "set", "lo", "up")
            self.heal()
            words = ["ip", "netns", "exec", self.name, shutil.which("sshd") or "/usr/sbin/sshd"]
            words += ["-D", "-e", "-f", str(folder / "sshd_config"), "-p", "2222"]
            self.sshd = subprocess.Popen(words, stderr=subprocess.DEVNULL)
        except BaseException:
            self._ip("netns", "del", self.name)
            raise

    def place(self, **settings: object) -> SshPlace:
        return self._keys.place(host=self.address, port=2222, **settings)

    def cut(self) -> None:
        """Nothing passes, and nobody is told."""
        self._there("link", "set", self.name, "down")

    def heal(self) -> None:
        self._there("link", "set", self.name, "up")

    def kill_sessions(self) -> None:
        """SIGKILL for what sshd has forked, not for what was started there."""
        for child in psutil.Process(self.sshd.pid).children(recursive=True):
            with suppress(psutil.NoSuchProcess):
                if "sshd" in child.name():
                    child.kill()

    def close(self) -> None:
        self.kill_sessions()
        self.sshd.kill()
        self.sshd.wait(30)
        self._ip("netns", "del", self.name)

    def _ip(self, *words: str) -> None:
        subprocess.run(["ip", *words], check=True, timeout=60)

    def _there(self, *words: str) -> None:
        self._ip("netns", "exec", self.name, "ip", *words)


@contextmanager
def far_sshd() -> Iterator[FarSshd]:
    """One, for root."""
    with tempfile.TemporaryDirectory(prefix="sshd-", dir="/tmp") as name:
        far = FarSshd(Path(name))
        try:
            yield far
        finally:
            far.close()
