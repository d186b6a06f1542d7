"""A gigabyte of output through a run: how fast, and how much memory it takes."""

import asyncio
import shlex
import shutil
import subprocess
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks.measuring import Samples, fresh_terminal, memory, take_turns
from benchmarks.rows import Goal, Of, Row

_SIZE = 2**30
_FLOOD = """
#include <unistd.h>
int main(void) {
    static char block[65536];
    for (unsigned at = 0; at < sizeof block; at++) block[at] = at % 80 == 79 ? '\\n' : 'x';
    for (long left = 1L << 30; left > 0; ) {
        ssize_t taken = write(1, block, left < sizeof block ? left : sizeof block);
        if (taken < 0) return 1;
        left -= taken;
    }
}
"""


def measure() -> list[Row]:
    """The speed against `cat`, best of the rounds, and the most the server grew by."""
    with TemporaryDirectory() as directory:
        source = _source(Path(directory))
        cat, run, grown = asyncio.run(_measure(source))
    speed = Row(
        f"1 GiB of output through a run ({Path(source[0]).name}), best",
        "GB/s",
        ours=_SIZE / min(run.walls) / 1e9,
        floor=_SIZE / min(cat.walls) / 1e9,
        goal=Goal(Of.RATIO, 0.5, at_least=True),
    )
    growth = Row("its growth of the server, at its peak", "MB", grown / 1e6, goal=Goal(Of.OURS, 16))
    return [speed, growth]


def _source(directory: Path) -> list[str]:
    """What floods: a program that does nothing but write, or else `head`, which also reads."""
    if shutil.which("cc") is None:
        return ["head", "-c", str(_SIZE), "/dev/zero"]
    program = directory / "flood"
    code = _FLOOD.encode()
    subprocess.run(["cc", "-O2", "-w", "-x", "c", "-o", program, "-"], input=code, check=True)
    return [str(program)]


async def _measure(source: list[str]) -> tuple[Samples, Samples, int]:
    async def cat() -> None:
        text = f"{shlex.join(source)} | cat > /dev/null"
        process = await asyncio.create_subprocess_shell(text)
        assert await process.wait() == 0

    async with fresh_terminal() as terminal:

        async def run() -> None:
            result = await terminal.run(source)
            assert result.stdout_bytes == _SIZE

        await terminal.run(["true"])
        before = memory("self", "VmRSS")
        cats, runs = await take_turns(cat, run, rounds=6, calls=1)
        return cats, runs, memory("self", "VmHWM") - before
