"""Kills the server of sessions that stay, again and again, while they print numbered lines."""

import random
import subprocess
import sys
import time
from pathlib import Path

import anyio

from shelltie.environment.child import RUN_MARK
from shelltie.keeper.protocol import LeashWord
from shelltie.keeper.stay_folder import StayFolder
from shelltie.model import Resources
from shelltie.providers.provider import Prepared
from shelltie.providers.staying import StayingProvider
from tests.programs import stay_holder

_PRINT = """
import time
for number in range({lines}):
    print("line", number, flush=True)
    if number % {burst} == 0:
        time.sleep(0.01)
raise SystemExit(7)
"""
_PATH = {"PATH": "/usr/local/bin:/usr/bin:/bin"}


async def start(folder: Path, keeper: str, sessions: int, lines: int, burst: int) -> list[str]:
    """Sessions that stay, which their server leaves at once; their names."""
    provider = StayingProvider(
        StayFolder(folder / "stay"), keeper, lease=60, bound=1024 * 1024, most=100
    )
    names = [f"session-{number}" for number in range(sessions)]
    script = _PRINT.format(lines=lines, burst=burst)
    argv = (sys.executable, "-c", script)
    for name in names:
        words: list[LeashWord] = []
        prepared = Prepared(
            argv, {**_PATH, RUN_MARK: name}, "/", None, None, Resources(), one_output=True
        )
        process = provider.spawn(prepared, words.append)
        with anyio.fail_after(30):
            while not words:
                await anyio.sleep(0.01)
        process.release()
    await provider.close()
    return names


def kill_servers(folder: Path, names: list[str], kills: int, pause: tuple[float, float]) -> int:
    """Start one server after the other, kill each in its turn, and let the last one end; how many
    were killed while something still ran.
    """
    chance = random.Random(19)
    command = [sys.executable, stay_holder.__file__, str(folder), *names]
    killed = 0
    for _ in range(kills):
        with subprocess.Popen(command) as server:
            time.sleep(chance.uniform(*pause))
            killed += server.poll() is None
            server.kill()
    subprocess.run(command, check=True, timeout=120)
    return killed


def check(folder: Path, names: list[str], lines: int) -> None:
    """Every line once and in order, the exit status right, and nothing left."""
    expected = "".join(f"line {number}\n" for number in range(lines))
    for name in names:
        assert (folder / name).read_text(encoding="utf-8") == expected, name
        said = (folder / f"{name}.exit").read_text(encoding="utf-8")
        assert f"wait_status={7 << 8}" in said, said
