"""What bare Ray costs, for a Python that has Ray: a program that measures and prints JSON.

python ray_calls.py ADDRESS COUNT    joins, makes actors, calls them, and lets them run commands
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

import ray

SIZE = 100_000_000
CALLS = 30


class Commands:
    """Runs commands on whichever node it is."""

    def run(self) -> int:
        """A command."""
        return subprocess.run(["/bin/true"], check=False).returncode

    def echo(self, data: bytes) -> bytes:
        """Bytes, there and back."""
        return data

    def flood(self) -> Iterator[bytes]:
        """What a command prints, in pieces."""
        argv = ["head", "-c", str(SIZE), "/dev/zero"]
        with subprocess.Popen(argv, stdout=subprocess.PIPE) as process:
            assert process.stdout is not None
            while data := process.stdout.read(65536):
                yield data


def main() -> None:
    """Print milliseconds, and seconds for what is long."""
    bare: Any = ray.remote(num_cpus=0.01)(Commands)
    figures = {}
    begun = time.perf_counter()
    ray.init(address=sys.argv[1], configure_logging=False, log_to_driver=False)
    actor = bare.remote()
    ray.get(actor.run.remote())
    figures["first"] = [(time.perf_counter() - begun) * 1000]
    figures["next"] = _times(lambda: ray.get(actor.run.remote()))
    figures["echo"] = _times(lambda: ray.get(actor.echo.remote(b"x")))
    begun = time.perf_counter()
    stream = actor.flood.options(num_returns="streaming").remote()
    assert sum(len(ray.get(piece)) for piece in stream) == SIZE
    figures["flood"] = [time.perf_counter() - begun]
    begun = time.perf_counter()
    actors = [bare.remote() for _ in range(int(sys.argv[2]))]
    ray.get([one.run.remote() for one in actors])
    figures["many"] = [time.perf_counter() - begun]
    print(json.dumps(figures))


def _times(call: Callable[[], object]) -> list[float]:
    walls = []
    for _ in range(CALLS):
        begun = time.perf_counter()
        call()
        walls.append((time.perf_counter() - begun) * 1000)
    return walls


if __name__ == "__main__":
    main()
