"""A server that holds every command that stays, and may be killed at any moment.

`python stay_holder.py FOLDER NAME…` appends what NAME printed to FOLDER/NAME, from the byte on at
which the one before it was killed, and writes how it ended to FOLDER/NAME.exit.
"""

import os
import sys
from functools import partial
from pathlib import Path

import anyio

from shelltie.errors import CannotStart
from shelltie.keeper.protocol import Exited, LeashWord, Lost
from shelltie.keeper.stay_folder import StayFolder
from shelltie.model import Resources
from shelltie.providers.provider import Prepared
from shelltie.providers.staying import StayingProvider

HELD = Prepared(("-",), {}, "/", None, None, Resources(), one_output=True)


async def hold(provider: StayingProvider, folder: Path, name: str) -> None:
    """To its end, unless somebody is quicker with us."""
    file, end = folder / name, folder / f"{name}.exit"
    words: list[LeashWord] = []
    while not end.exists():
        try:
            link, held, row = await provider.reach(name, words.append, take=True)
        except CannotStart:  # the one before us was killed when it had forgotten it
            await anyio.sleep(0.05)
            continue
        start = file.stat().st_size if file.exists() else 0
        process = provider.attach(link, held, HELD, row, {1: start})
        with file.open("ab", buffering=0) as output:
            while chunk := await _read(process.stdout):
                output.write(chunk)
        os.close(process.stdout)
        while not any(isinstance(word, Exited | Lost) for word in words):
            await anyio.sleep(0.01)
        end.write_text(str(words), encoding="utf-8")
        process.forget()


async def _read(fd: int) -> bytes:
    await anyio.wait_readable(fd)
    return os.read(fd, 65536)


async def main(folder: Path, names: list[str]) -> None:
    """All at once."""
    provider = StayingProvider(StayFolder(folder / "stay"), lease=60, bound=1024 * 1024)
    async with anyio.create_task_group() as tasks:
        for name in names:
            tasks.start_soon(partial(hold, provider, folder, name))
    await provider.close()


if __name__ == "__main__":
    anyio.run(main, Path(sys.argv[1]), sys.argv[2:])
