"""A person at a terminal is asked there, and only their own yes is one."""

import os
import sys

import pytest

from shelltie.keeper.binaries import choose
from shelltie.keeper.link import Link
from tests.asking import ROOT, SHELLTIE, asking, not_on_a_leash, shelltie, typed
from tests.leashes import read, start

ASKS = (sys.executable, "-m", "tests.programs.asks_here")


@not_on_a_leash
@pytest.mark.proves("C-60")
@pytest.mark.parametrize(
    ("said", "allowed"),
    [
        ("y\n", True),
        ("YES\n", True),
        ("a\n", True),
        ("s\n", False),  # one run has no session
        ("\n", False),
        ("n\n", False),
        ("ye\n", False),
        ("\x04", False),
    ],
)
async def test_only_an_explicit_yes_is_one(said: str, allowed: bool) -> None:
    code, shown = await typed(*ASKS, answer=said)

    assert code == 0
    assert "can_ask=True" in shown
    assert "│ rm -rf build" in shown
    assert f"allowed={allowed} by=the person at the terminal" in shown


@not_on_a_leash
async def test_without_a_terminal_nobody_is_asked() -> None:
    code, shown = await typed("setsid", "--wait", *ASKS, answer="y\n")

    assert code == 0
    assert "can_ask=False" in shown
    assert "allowed=False by=nobody" in shown


@not_on_a_leash
async def test_in_the_background_nobody_is_asked() -> None:
    job = f"set -m; {' '.join(ASKS)} & wait"

    _, shown = await typed("bash", "-c", job, answer="y\n")

    assert "can_ask=False" in shown


async def test_a_command_with_a_terminal_of_its_own_cannot_say_yes_there() -> None:
    link = Link(*choose(None))
    master, slave = os.openpty()
    try:
        told = start(
            link, *ASKS, env=dict(os.environ), cwd=str(ROOT), stdio=(slave, slave, slave), tty=True
        )
        os.close(slave)
        shown = b""
        while b"\n" not in shown.partition(b"allowed=")[2]:
            shown += await read(master)
        await told.last()
    finally:
        os.close(master)
        await link.close()

    assert b"can_ask=False" in shown
    assert b"allowed=False by=nobody" in shown


@not_on_a_leash
async def test_who_approves_at_a_terminal_has_seen_it_before() -> None:
    async with asking() as server:
        name = await server.ask("rm -rf build")

        no = await typed(*SHELLTIE, "approve", name, answer="\n")
        yes = await typed(*SHELLTIE, "approve", name, "--session", answer="y\n")
        answer = await server.says()

    assert no[0] == 1
    assert "Left as it was." in no[1]
    assert yes[1].index("│ rm -rf build") < yes[1].index("[y/N] ") < yes[1].index("allowed")
    assert (yes[0], answer["allowed"]) == (0, True)


@not_on_a_leash
async def test_a_list_fits_a_terminal_and_hides_nothing_without_saying_so() -> None:
    async with asking() as server:
        await server.ask("ls" + " " * 500 + "; rm -rf ~ " + "x" * 500)

        _, shown = await typed(*SHELLTIE, "pending", answer="")
        _, piped, _ = await shelltie("pending")

    for text in (shown.replace("\r\n", "\n"), piped):
        row = next(line for line in text.splitlines() if "dangerous" in line)
        assert "ls⟨500 spaces⟩" in row
        assert row.endswith("…")
        assert len(row) <= 80
