"""A Ray cluster of two nodes on this machine's loopback: a head without CPUs, and one with four.

`RAY_PYTHON` names a Python that has Ray (scripts/test-places makes an environment for it). Nothing
of another cluster is touched: `ray stop`, which kills by name, is never called.
"""

import os
import re
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import psutil

HEAD, NODE = "127.0.0.2", "127.0.0.3"
CPUS = 4
_STARTS_WITHIN = 180.0  # seconds, a node on a machine that has much to do
_ENDS_WITHIN = 60.0
_WORDS = (
    *("--min-worker-port=0", "--max-worker-port=0", "--object-store-memory=80000000"),
    "--disable-usage-stats",
)


def ray_python() -> str | None:
    """The Python that has Ray, if one is named."""
    return os.environ.get("RAY_PYTHON")


@dataclass
class RayCluster:
    """One that runs."""

    python: str
    folder: Path
    port: int = 0
    nodes: dict[str, "subprocess.Popen[bytes]"] = field(default_factory=dict)

    @property
    def address(self) -> str:
        """As settings have it."""
        return f"{HEAD}:{self.port}"

    @property
    def place(self) -> Path:
        """Where keepers lie on its nodes."""
        return self.folder / f"shelltie-{os.geteuid()}"

    def start_node(self, ip: str, *words: str) -> None:
        """Have a node run, and wait for that."""
        log = self.folder / f"{ip}.log"
        command = [self.python, "-m", "ray.scripts.scripts", "start", "--block"]
        with log.open("wb") as file:
            self.nodes[ip] = subprocess.Popen(
                [*command, f"--node-ip-address={ip}", *_WORDS, *words],
                stdout=file, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL,
                env=_environment(self.folder),
            )  # fmt: skip
        deadline = time.monotonic() + _STARTS_WITHIN
        while "--block" not in (said := log.read_text(encoding="utf-8", errors="replace")):
            assert self.nodes[ip].poll() is None, said
            assert time.monotonic() < deadline, said
            time.sleep(0.1)
        if found := re.search(rf"--address='{re.escape(HEAD)}:(\d+)'", said):
            self.port = int(found[1])

    def start_worker(self) -> None:
        """The node on which actors run."""
        self.start_node(NODE, f"--address={self.address}", f"--num-cpus={CPUS}")

    def kill_raylet(self, ip: str) -> None:
        """As if the machine had lost it: what it started is left to itself."""
        process = psutil.Process(self.nodes[ip].pid)
        raylets = [one for one in process.children() if one.name() == "raylet"]
        assert len(raylets) == 1
        raylets[0].kill()
        self.stop_node(ip)

    def stop_node(self, ip: str) -> None:
        """End it, as its owner would."""
        process = self.nodes.pop(ip)
        with suppress(psutil.NoSuchProcess):
            children = psutil.Process(process.pid).children(recursive=True)
            process.send_signal(signal.SIGTERM)
            _, left = psutil.wait_procs([psutil.Process(process.pid), *children], _ENDS_WITHIN)
            for one in left:
                one.kill()
        process.wait(_ENDS_WITHIN)

    def actors(self) -> list[psutil.Process]:
        """The processes of our actors."""
        return [
            one
            for one in psutil.process_iter(["cmdline"])
            if one.info["cmdline"] and one.info["cmdline"][0].startswith("ray::KeeperActor")
            and _belongs_to(one, self.folder)
        ]  # fmt: skip

    def keepers(self) -> list[str]:
        """The directories of keepers on its nodes."""
        if not self.place.is_dir():
            return []
        return sorted(one.name for one in self.place.iterdir() if one.is_dir())


@contextmanager
def ray_cluster(python: str) -> Iterator[RayCluster]:
    """One of our own, whose nodes are ended whatever happens."""
    with tempfile.TemporaryDirectory(prefix="ray-", ignore_cleanup_errors=True) as name:
        cluster = RayCluster(python, Path(name))
        try:
            cluster.start_node(
                HEAD,
                "--head",
                "--port=0",
                "--num-cpus=0",
                "--include-dashboard=false",
                f"--temp-dir={name}/ray",
            )
            cluster.start_worker()
            yield cluster
        finally:
            for ip in reversed(list(cluster.nodes)):
                cluster.stop_node(ip)


def _environment(folder: Path) -> Mapping[str, str]:
    """Directories of keepers, too, are below the cluster's own."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("RAY_")}
    return {**kept, "TMPDIR": str(folder), "RAY_AUTH_MODE": "disabled"}


def _belongs_to(process: psutil.Process, folder: Path) -> bool:
    try:
        return process.environ().get("TMPDIR") == str(folder)
    except psutil.Error:
        return False
