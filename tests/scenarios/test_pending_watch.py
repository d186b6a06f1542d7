"""A person watches what is pending, and answers with single keys."""

import os
import pty
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager

import anyio
import pytest

from tests.asking import ROOT, SHELLTIE, Asking, asking, not_on_a_leash

_AT_TERMINAL = [SHELLTIE[0], "-m", "tests.programs.at_terminal"]


class Watcher:
    """Somebody at a terminal of their own."""

    def __init__(self, master: int) -> None:
        self._master = master
        self.shown = ""

    async def reads(self, text: str) -> None:
        """Until this is on the screen, from where it was last looked at."""
        seen = len(self.shown)
        with anyio.fail_after(60):
            while text not in self.shown[seen:]:
                await anyio.wait_readable(self._master)
                self.shown += os.read(self._master, 65536).decode("utf-8", "replace")

    def presses(self, key: str) -> None:
        os.write(self._master, key.encode())


@contextmanager
def watching() -> Iterator[tuple[Watcher, subprocess.Popen[bytes]]]:
    master, slave = pty.openpty()
    command = [*_AT_TERMINAL, *SHELLTIE, "pending", "--watch"]
    with subprocess.Popen(
        command, stdin=slave, stdout=slave, stderr=slave, cwd=ROOT, start_new_session=True
    ) as process:
        os.close(slave)
        try:
            yield Watcher(master), process
        finally:
            process.kill()
            os.close(master)


async def answered(server: Asking, watcher: Watcher, command: str, key: str) -> dict[str, object]:
    await server.send(command)
    assert "asked" in await server.says()
    await watcher.reads("[N] no")
    watcher.presses(key)
    return await server.says()


@not_on_a_leash
@pytest.mark.proves("D13", "D14")
async def test_single_keys_answer_each_question_as_it_comes() -> None:
    async with asking() as server:
        with watching() as (watcher, process):
            await watcher.reads("Watching.")
            once = await answered(server, watcher, "rm -rf one", "y")
            no = await answered(server, watcher, "rm -rf two", "n")
            always = await answered(server, watcher, "rm -rf three", "a")
            await server.send("rm -rf three")
            again = await server.says()
            watcher.presses("q")
            with anyio.fail_after(60):
                while process.poll() is None:
                    await anyio.sleep(0.05)

    assert (once["allowed"], no["allowed"], always["allowed"]) == (True, False, True)
    assert str(again["by"]).endswith("approved.toml")
    assert process.returncode == 0
    assert watcher.shown.count("\a") == 3  # a bell for each
    assert watcher.shown.index("rm -rf one") < watcher.shown.index("deletes whole trees")


@not_on_a_leash
async def test_what_was_typed_before_a_question_is_no_answer_to_it() -> None:
    async with asking() as server:
        with watching() as (watcher, _):
            await watcher.reads("Watching.")
            watcher.presses("yyy")
            result = await answered(server, watcher, "rm -rf one", "n")

    assert result["allowed"] is False
