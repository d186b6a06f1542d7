"""A container engine of our own, with an image that is made of programs of this machine."""

import contextlib
import io
import shutil
import signal
import socket
import subprocess
import tarfile
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import httpx2

IMAGE = "localhost/shelltie-test:latest"
TOOLS = ("podman", "runc", "conmon")
_PROGRAMS = (
    *("sh", "bash", "cat", "cp", "env", "grep", "head", "id", "ls", "mkdir", "mv", "printf", "pwd"),
    *("readlink", "rm", "setsid", "sleep", "stty", "touch", "tr", "true", "unshare"),
)
_LINKS = {"bin": "usr/bin", "sbin": "usr/sbin", "lib": "usr/lib", "lib64": "usr/lib64"}
# What also works where root may not raise limits, and with cgroups of both versions mounted.
_SETTINGS = """\
[containers]
default_ulimits = ["nofile=1024:1024", "nproc=4096:4096"]
[engine]
runtime = "runc"
cgroup_manager = "cgroupfs"
events_logger = "none"
"""


@dataclass(slots=True)
class OwnEngine:
    """Podman, as a service at a socket; it can be stopped and started again."""

    place: Path
    process: "subprocess.Popen[bytes] | None" = None

    @property
    def address(self) -> Path:
        return self.place / "podman.sock"

    def start(self) -> None:
        """Start it, and wait until it answers."""
        complaints = self.place / "complaints"
        with complaints.open("ab") as stderr:
            self.process = subprocess.Popen(
                self.podman("system", "service", "--time=0", f"unix://{self.address}"),
                stdout=subprocess.DEVNULL,
                stderr=stderr,
                cwd="/",  # of another, conmon would say that it is gone when a test is over
                start_new_session=True,
            )
        deadline = time.monotonic() + 50
        while not self._listens():
            assert self.process.poll() is None, complaints.read_text()
            assert time.monotonic() < deadline, complaints.read_text()
            time.sleep(0.05)

    def _listens(self) -> bool:
        with socket.socket(socket.AF_UNIX) as caller:
            return caller.connect_ex(str(self.address)) == 0

    def stop(self) -> None:
        """End it at once; its containers stay."""
        assert self.process is not None
        self.process.send_signal(signal.SIGKILL)
        self.process.wait(20)
        self.address.unlink(missing_ok=True)

    def ask(self, method: str, path: str, content: bytes | None = None) -> object:
        """What it answers; a wrong answer is an error."""
        transport = httpx2.HTTPTransport(uds=str(self.address), verify=False)
        with httpx2.Client(transport=transport, timeout=50) as client:
            kind = "application/json" if (content or b"{").startswith(b"{") else "application/x-tar"
            headers = {"Content-Type": kind}
            answer = client.request(
                method, f"http://engine{path}", content=content, headers=headers
            )
            assert answer.status_code < 400, answer.text
            return answer.json() if answer.text.startswith(("[", "{")) else answer.text

    def containers(self) -> list[dict[str, object]]:
        """All of them, whoever made them."""
        deadline = time.monotonic() + 20
        while True:
            try:
                found = self.ask("GET", "/containers/json?all=true")
            except AssertionError:  # Podman cannot tell while one is being removed
                assert time.monotonic() < deadline
                time.sleep(0.05)
            else:
                assert isinstance(found, list)
                return found

    def podman(self, *words: str) -> list[str]:
        """A command line that means this engine."""
        settings = f"CONTAINERS_CONF={self.place / 'containers.conf'}"
        place = ["--root", str(self.place / "root"), "--runroot", str(self.place / "run")]
        return ["env", settings, "podman", *place, "--storage-driver", "vfs", *words]


@contextlib.contextmanager
def run_engine() -> Iterator[OwnEngine]:
    """One that is gone afterwards, with all it had."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as name:
        made = OwnEngine(Path(name))
        (made.place / "containers.conf").write_text(_SETTINGS)
        made.start()
        try:
            repository, _, tag = IMAGE.rpartition(":")
            path = f"/images/create?fromSrc=-&repo={repository}&tag={tag}"
            made.ask("POST", path, _filesystem())
            yield made
        finally:
            made.stop()


def _filesystem() -> bytes:
    """As small as can be: these programs, and the libraries that they load."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as archive:
        files = _files()
        inner = {str(parent) for inside in files for parent in Path(inside).parents} - {"."}
        for name in sorted({*inner, "etc", "tmp", "proc", "sys", "dev"}):
            archive.addfile(_entry(name, tarfile.DIRTYPE))
        for name, target in _LINKS.items():
            archive.addfile(_entry(name, tarfile.SYMTYPE, target))
        for inside, file in sorted(files.items()):
            content = file.read_bytes()
            entry = _entry(inside, tarfile.REGTYPE)
            entry.size = len(content)
            archive.addfile(entry, io.BytesIO(content))
    return packed.getvalue()


def _files() -> dict[str, Path]:
    # What a thread that ends loads by itself.
    found = {str(one)[1:]: one for one in Path("/usr/lib").glob("*/libgcc_s.so.1")}
    for name in _PROGRAMS:
        program = shutil.which(name)
        assert program is not None
        found[f"usr/bin/{name}"] = Path(program).resolve()
        told = subprocess.run(["ldd", program], capture_output=True, text=True, check=False).stdout
        for word in told.split():
            if word.startswith("/"):
                found[f"usr/{word.removeprefix('/usr').strip('/')}"] = Path(word).resolve()
    return found


def _entry(name: str, kind: bytes, target: str = "") -> tarfile.TarInfo:
    entry = tarfile.TarInfo(name)
    entry.type, entry.mode, entry.linkname = kind, 0o1777 if name == "tmp" else 0o755, target
    return entry
