"""Who has killed what held it looks like a person: then only an older terminal is believed."""

import json
import os
import shlex
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import pytest

from shelltie.approval.ancestry import LookUp, ProcessView, why_not_a_person
from tests.asking import ROOT, SHELLTIE, not_on_a_leash, shelltie
from tests.served import Person, Served, person_with, served
from tests.tree import until

NEEDED = ("XDG_RUNTIME_DIR", "XDG_STATE_HOME", "XDG_CONFIG_HOME", "PATH")
ASKS = {
    "SHELLTIE_SAFETY_PROFILES_RUN_DANGEROUS": "ask",
    # The question is open until several programs were started, a minute on a busy machine.
    "SHELLTIE_MCP_PATIENCE": "0",
    "SHELLTIE_SAFETY_UNDELIVERED_TIMEOUT": "600",
}
ATTACK = """\
import os, signal, subprocess, sys, time
said, question, root, *shelltie = sys.argv[1:]
command, leash = os.getpid(), os.getppid()
keeper = int(open(f"/proc/{leash}/stat").read().rpartition(")")[2].split()[1])
assert b"keeper" in open(f"/proc/{keeper}/cmdline", "rb").read()
if os.fork():
    signal.pause()
os.setsid()
if os.fork():
    os._exit(0)
for pid in (keeper, leash):
    os.kill(pid, signal.SIGKILL)
while f"PPid:\\t{leash}\\n" in open(f"/proc/{command}/status").read():
    time.sleep(0.01)
approve = [*shelltie, "approve", question, "--yes"]
done = subprocess.run(approve, cwd=root, capture_output=True, text=True)
with open(said + ".new", "w") as file:
    file.write(done.stdout + done.stderr)
os.rename(said + ".new", said)
os.kill(command, signal.SIGKILL)
"""


def attack(tmp_path: Path, question: str, said: Path) -> str:
    """The command that tries it, without the mark of its run in its environment."""
    script = tmp_path / "attack.py"
    script.write_text(ATTACK, encoding="utf-8")
    env = [f"{name}={os.environ[name]}" for name in NEEDED]
    argv = [sys.executable, str(script), str(said), question, str(ROOT), *SHELLTIE]
    return "exec " + shlex.join(["env", "-i", *env, *argv])


@asynccontextmanager
async def asked_about(server: Served, victim: Path) -> AsyncIterator[str]:
    """A question that waits in the server; its id."""
    victim.mkdir()
    await server.send("run", command=f"rm -rf {victim}")
    with anyio.fail_after(50):
        while not (found := json.loads((await shelltie("pending", "--json"))[1])):
            await anyio.sleep(0.05)
    yield str(found[0]["id"])


async def escaped(server: Served, tmp_path: Path, question: str) -> str:
    """What the orphan was told when it tried to say yes."""
    said = tmp_path / "said"
    await server.send("run", command=attack(tmp_path, question, said))
    await until(said.exists)
    return said.read_text(encoding="utf-8")


@not_on_a_leash
async def test_who_killed_leash_and_keeper_cannot_approve(tmp_path: Path, keeper: str) -> None:
    victim = tmp_path / "victim"

    async with (
        served(**ASKS, SHELLTIE_KEEPER=keeper) as server,
        asked_about(server, victim) as question,
    ):
        told = await escaped(server, tmp_path, question)
        code, _, refused = await shelltie("approve", question, "--yes")
        _, pending, problem = await shelltie("pending")

    assert "got rid of what held it" in told
    assert "restart the server" in told
    assert code == 126
    assert "got rid of what held it" in refused
    assert question in pending
    assert "terminals that were open before" in problem
    assert victim.exists()


@not_on_a_leash
async def test_a_terminal_that_was_there_before_the_server_still_counts(tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    async with person_with(["bash", "--norc"]) as older:
        await older.sees("bash-")  # the kernel's clock of starts has ticks: it began before
        async with (
            served(**ASKS) as server,
            asked_about(server, victim) as question,
            person_with(["bash", "--norc"]) as newer,
        ):
            await escaped(server, tmp_path, question)

            await _approve(newer, question, "got rid of what held it")
            still_there = victim.exists()
            await _approve(older, question, "allowed")

            assert still_there
            await until(lambda: not victim.exists())


async def _approve(person: Person, question: str, sees: str) -> None:
    person.types(f"cd {ROOT}; {shlex.join(SHELLTIE)} approve {question} --yes\n")
    await person.sees(sees)


# Processes that are only told of


SERVER = 50


def view(*processes: ProcessView) -> LookUp:
    return {one.pid: one for one in processes}.get


def told_of(*more: ProcessView) -> LookUp:
    init = ProcessView(1, 0, 0, leashed=False)
    server = ProcessView(SERVER, 1, 100, leashed=False, session=SERVER)
    return view(init, server, *more)


def person(session: int, terminal: int = 5) -> ProcessView:
    return ProcessView(90, 1, 900, leashed=False, session=session, terminal=terminal)


@pytest.mark.parametrize(
    ("one", "leader", "believed"),
    [
        (person(40), ProcessView(40, 1, 99, leashed=False, session=40, terminal=5), True),
        (person(40), ProcessView(40, 1, 100, leashed=False, session=40, terminal=5), False),
        (person(60), ProcessView(60, 1, 200, leashed=False, session=60, terminal=5), False),
        (person(40, terminal=0), ProcessView(40, 1, 99, leashed=False, session=40), False),
        (person(40), ProcessView(41, 1, 99, leashed=False, session=41, terminal=5), False),
    ],
)
def test_only_a_session_that_is_older_than_the_server_is_believed(
    one: ProcessView, leader: ProcessView, *, believed: bool
) -> None:
    look = told_of(one, leader)

    held = why_not_a_person(one.pid, SERVER, view=lambda: look)
    unheld = why_not_a_person(one.pid, SERVER, unheld=True, view=lambda: look)

    assert held is None
    assert (unheld is None) == believed


def test_who_has_ancestors_that_cannot_be_seen_is_no_person() -> None:
    look = view(ProcessView(90, 80, 900, leashed=False))

    assert why_not_a_person(90, SERVER, view=lambda: look) == "not all of its ancestors can be seen"


def test_a_parent_that_is_younger_than_its_child_is_a_stranger() -> None:
    look = told_of(ProcessView(90, 80, 900, leashed=False), ProcessView(80, 1, 901, leashed=False))

    why = why_not_a_person(90, SERVER, view=lambda: look)

    assert why == "its ancestors change while they are looked at"
