"""The screen of full-screen programs, as a person would see it."""

import random
from pathlib import Path

import anyio
import pytest

from shelltie import Terminal, TerminalSize
from shelltie.model import Command, Limits, Stream
from shelltie.output.screen import Screen, ScreenText
from shelltie.output.store import Store
from shelltie.running.options import RunOptions
from shelltie.sessions.registry import Sessions
from shelltie.sessions.session import Session
from shelltie.settings.all_settings import Waiting

pytest.importorskip("pyte")

SIZE = TerminalSize(24, 80)


async def drawn(*pieces: bytes, size: TerminalSize = SIZE) -> ScreenText:
    store, screen, shown = Store(), Screen(size), ScreenText((), 0, 0)
    for piece in pieces:
        store.add(Stream.STDOUT, memoryview(piece))
        shown = await screen.show(store, size)
    return shown


class Watcher:
    """Looks at a session until its screen has something."""

    def __init__(self, session: Session) -> None:
        self.session = session
        self._screen = Screen(SIZE)

    async def until(self, word: str) -> ScreenText:
        with anyio.fail_after(50):
            while True:
                assert self.session.size is not None
                shown = await self._screen.show(self.session.run.output, self.session.size)
                if word in shown.text:
                    return shown
                await anyio.sleep(0.05)


async def watch(terminal: Terminal, text: str) -> Watcher:
    command = Command(text, stays_open=True, pty=SIZE)
    wish = RunOptions(None, Limits(None, None, "no limit"))
    return Watcher(await Sessions(terminal.supervisor).open(command, wish, "me", Waiting()))


@pytest.mark.needs("top")
async def test_top_shows_its_table(terminal: Terminal) -> None:
    watcher = await watch(terminal, "exec top -d 1")

    shown = await watcher.until("PID")

    assert shown.rows[0].startswith("top - ")
    header = next(row for row in shown.rows if "PID" in row)
    assert header.split()[-1].startswith("COMMAND")
    assert len(shown.rows) == 24


@pytest.mark.needs("less")
async def test_less_shows_the_page_it_is_on(terminal: Terminal, tmp_path: Path) -> None:
    file = tmp_path / "numbers"
    file.write_text("".join(f"line {n}\n" for n in range(1, 201)), encoding="utf-8")
    watcher = await watch(terminal, f"echo before; less {file}; echo after; sleep 60")

    first = await watcher.until("line 23")
    watcher.session.send(b" ")
    second = await watcher.until("line 46")
    watcher.session.send(b"q")
    left = await watcher.until("after")

    assert first.rows[:2] == ("line 1", "line 2")
    assert second.rows[0] == "line 24"
    assert left.rows[:2] == ("before", "after")


@pytest.mark.needs("vi")
async def test_an_editor_shows_its_text_and_cursor_also_in_another_size(
    terminal: Terminal, tmp_path: Path
) -> None:
    watcher = await watch(terminal, f"cd {tmp_path}; exec vi -u NONE note")
    await watcher.until("~")

    watcher.session.send(b"ihello\rworld")
    typed = await watcher.until("world")
    watcher.session.resize(TerminalSize(40, 132))
    watcher.session.send(b"\x1bozz\x1b")
    await watcher.until("zz")
    with anyio.fail_after(50):
        while len((wide := await watcher.until("zz")).rows) != 40 or wide.rows[37] != "~":
            await anyio.sleep(0.05)

    assert typed.rows[:3] == ("hello", "world", "~")
    assert (typed.cursor_row, typed.cursor_column) == (1, 5)
    assert wide.rows[:3] == ("hello", "world", "zz")


async def test_output_is_drawn_where_it_belongs_however_it_is_cut() -> None:
    data = "\x1b[2J\x1b[5;3Hgrößer €\x1b[1;1Htop\x1b[K".encode()

    whole = await drawn(data)
    pieces = await drawn(*(data[n : n + 1] for n in range(len(data))))

    assert whole == pieces
    assert (whole.rows[0], whole.rows[4]) == ("top", "  größer €")
    assert (whole.cursor_row, whole.cursor_column) == (0, 3)


async def test_a_character_without_width_hides_nothing_of_what_follows() -> None:
    shown = await drawn("a \u202e b \u200b c e\u0301 d\r\nnext".encode())

    assert shown.rows[:2] == ("a  b  c é d", "next")


@pytest.mark.parametrize(
    "broken",
    [
        b"\x1b[" + b"9" * 6000 + b"C",
        b"\x1b[>4;2m",
        b"\x1b[?1m",
        b"\x1b[?6n",
        b"\x1b[999999999L",
        b"\x1b[-1;xH",
        b"\x1b]0;never closed",
        b"\x1b[38;2m\x1b[38;5m\x1b[48;2;1m",
        b"\xff\xfe\x1b[\xff",
        b"\x1b[?1049l\x1b[?1049h\x1b[?1049h",
        b"\x1b[1;2;3;4;5;6;7;8r",
    ],
)
async def test_a_broken_sequence_is_no_error_and_what_follows_is_drawn(broken: bytes) -> None:
    shown = await drawn(broken, b"\x07\x18", b"\x1b[3;1Hfollowing")

    assert shown.rows[2].endswith("following")


@pytest.mark.parametrize("seed", range(10))
async def test_no_bytes_are_an_error(seed: int) -> None:
    chance = random.Random(seed)
    alphabet = [
        b"\x1b[",
        b"\x1b]",
        b"\x1b",
        b"?",
        b";",
        b"5",
        b"1049",
        b"h",
        b"l",
        b"m",
        b"H",
        b"r",
    ]
    alphabet += [
        b"J",
        b"K",
        b"P",
        b"@",
        b"L",
        b"M",
        b"x",
        b"\xe4",
        b"\n",
        b"\x9b",
        b"(",
        b"0",
        b"%G",
    ]
    data = b"".join(chance.choice(alphabet) for _ in range(3000))

    shown = await drawn(data, b"\x18\x1bc", size=TerminalSize(5, 20))

    assert len(shown.rows) == 5


async def test_a_screen_after_megabytes_is_that_of_their_end() -> None:
    shown = await drawn(b"old line\r\n" * 200_000, b"\x1b[2J\x1b[Hnew")

    assert shown.rows[0] == "new"
    assert "old" not in shown.text
