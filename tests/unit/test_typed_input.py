"""A line of keys, as each who may read it will have it."""

import anyio
import anyio.lowlevel
import pytest

from shelltie.model import Command
from shelltie.safety.judge import Judge
from shelltie.sessions import typed_input
from shelltie.sessions.line_readings import (
    LINE_MAX,
    Unfinished,
    edits_unseen,
    may_run,
    readings,
)
from shelltie.verdict import Verdict
from tests.unit.test_judge_input import RULES

REMOVES = b"rm -rf x"


@pytest.mark.parametrize(
    "typed",
    [
        b"rm -rf x\n",
        b"rm -rf x\r",
        b"rm -rX\x7ff x\n",
        b"rm -rX\bf x\n",
        b"\x7f\x7frm -rf x\n",
        b"echo\n\x7frm -rf x\n",
        b"echo\x15rm -rf x\n",
        b"echo\x03rm -rf x\n",
        b"rm -rf y\x17x\n",
        b"echo y\x17\x17rm -rf x\n",
        b"rm -rf a-b,\x17\x17x\n",
        b"\x1b[200~rm -rf x\x1b[201~\r",
        b"r\x1b[Cm\x1bOA -rf x\n",
        b"\x1b[2rm -rf x\n",
        b"r\x00m\x01 -rf\x05 x\n",
        b"rm -rX\x7ff x\x03\n",
        b"r\x03mX\x7f -rf x\n",
        b"rmX\x7f -rf x\n#" + b"\x16\x7f" * 60,
        b"\x16rm -rf x\n",
        b"rm\x16\n\x7f -rf x\n",
        b"rm\x16\r\x7f -rf x\r",
        b"echo\x16\n\x15rm -rf x\n",
        b"rm -rf y\x16\nz\x17\x17x\n",
        b"\x1b[200~rm\n\x1b[201~\x7f -rf x\n",
    ],
)
def test_what_keys_may_leave_of_a_line_is_among_its_readings(typed: bytes) -> None:
    found = readings((typed,))

    assert any(REMOVES in reading.splitlines() for reading in found)
    assert found[0] == typed.replace(b"\r", b"\n")


@pytest.mark.parametrize(
    "typed",
    [
        b"rm -rf x #\x15echo hi\n",
        b"rm -rf x #" + b"\b" * 60 + b"echo hi\n",
        b"rm -rf x #" + b"\x7f" * 60 + b"echo hi\n",
        b"rm -rf x #\x03echo hi\n",
        b"rmX\x7f -rf x #" + b"\b" * 60 + b"echo hi\n",
        b"rmX\x7f -rf x #" + b"\x16\x7f" * 60 + b"echo hi\n",
    ],
)
def test_what_keys_erase_is_there_for_who_does_not_obey_them(typed: bytes) -> None:
    assert any(reading.startswith(b"rm -rf x #") for reading in readings((typed,)))


@pytest.mark.parametrize("erased", [b"", b"X\x7f"])
def test_an_escape_may_leave_the_quote_behind_it(erased: bytes) -> None:
    found = readings((b"echo '\x1b' ; rm" + erased + b" -rf x #'\n",))

    assert b"echo '' ; rm -rf x #'\n" in found


def test_a_plain_line_has_one_reading() -> None:
    assert readings((b"echo \xc3\xa9 \xff\t.\n",)) == [b"echo \xc3\xa9 \xff\t.\n"]


def test_a_piece_may_have_been_for_another_program() -> None:
    assert readings((b"q", b"rm -rf x\n")) == [b"qrm -rf x\n", b"q\nrm -rf x\n"]


def _after(*inputs: bytes, terminal: bool = True) -> Unfinished:
    left = Unfinished()
    for data in inputs:
        left = left.after(data, terminal=terminal)
    return left


@pytest.mark.parametrize(
    "key", [bytes([code]) for code in (*range(32), 0x7F) if code not in b"\r\n"]
)
def test_no_key_but_enter_finishes_a_line(key: bytes) -> None:
    assert _after(b"a", b"r" + key) == Unfinished((b"a", b"r" + key))


@pytest.mark.parametrize(
    ("data", "terminal", "left"),
    [
        (b"m\n", True, Unfinished()),
        (b"m\r", True, Unfinished()),
        (b"m\nls", True, Unfinished((b"ls",))),
        (b"m\r", False, Unfinished((b"r", b"m\r"))),
        (b"m\n\r", False, Unfinished((b"\r",))),
        (b"m \\\n", True, Unfinished((), (b"rm \\\n",))),
        (b"m \\\r", True, Unfinished((), (b"rm \\\r",))),
        (b"m\n \\\n-", True, Unfinished((b"-",), (b"rm\n \\\n",))),
        (b"", True, Unfinished((b"r",))),
    ],
)
def test_enter_finishes_a_line(data: bytes, terminal: bool, left: Unfinished) -> None:
    assert _after(b"r", data, terminal=terminal) == left


def test_a_backslash_may_stand_in_an_input_of_its_own() -> None:
    left = _after(b"rm ", b"\\", b"\n")

    assert left == Unfinished((), (b"rm \\\n",))
    assert left.texts(b"-rf") == [(b"rm \\\n", b"-rf"), (b"-rf",)]
    assert left.after(b"-rf x\n", terminal=True) == Unfinished()


@pytest.mark.parametrize(
    "lines",
    [
        b"rm\x16\n",
        b"rm\x16\r",
        b"\x1b[200~rm\n",
        b"\x1b[200~a\x1b[201~\x1b[200~rm\n",
        b"echo rm |\n",
        b"echo rm |x\x7f\n",
        b"a &&\n",
        b"{ a\n",
        b"echo 'a\n",
        b"cat <<X\na\n",
        b"if a\n",
        b"a )\necho rm |\n",
        b"os.system('rm '\n",
        b"x = 'y\nos.system(\"rm \"\n#'\n",
        b'x = """a\n',
    ],
)
def test_lines_that_may_be_held_open_are_kept_until_they_are_not(lines: bytes) -> None:
    assert _after(lines).beginnings == (lines,)


@pytest.mark.parametrize(
    "lines",
    [
        b"ls\n",
        b"echo 'a' \"b\" `c` $(d)\n",
        b"cat <<X\nit's\nX\n",
        b"if a; then b; fi\n",
        b"a )\n",
        b"ls\x1b[A\x1b[D\x1bOP\n",
        b"print('a', [1], {2: 3})\n",
        b"for i in range(3):\n",
        b"if x:\n  print(1)\n",
        b"\x1b[200~rm\n\x1b[201~\r",
        b"select * from t where a > 5;\n",
    ],
)
def test_lines_that_are_run_are_not_kept(lines: bytes) -> None:
    assert _after(lines) == Unfinished()


def test_whoever_reads_may_have_begun_at_each_line_that_is_open() -> None:
    left = _after(b"echo '\n", b"ls\n", b"echo rm |\n")

    assert left.beginnings == (b"echo '\nls\necho rm |\n", b"echo rm |\n")
    assert left.after(b"sh #'\n", terminal=True).beginnings == ()


def test_more_that_is_open_than_is_followed_is_said_and_then_let_go() -> None:
    many = _after(*[b"(\n"] * 20)
    long = _after(b"echo '\n", b"x" * 33_000 + b"\n")

    assert many.is_too_much
    assert len(many.beginnings) == 17
    assert long.is_too_much
    assert long.after(b"y\n", terminal=True) == Unfinished()
    assert not _after(*[b"(\n"] * 16).is_too_much


def test_a_line_without_end_keeps_its_beginning_and_its_end() -> None:
    left = _after(b"rm ", b" " * 2 * LINE_MAX + b"-rf x").line

    assert sum(map(len, left)) == LINE_MAX
    assert left[0].startswith(b"rm ")
    assert left[-1].endswith(b"-rf x")


@pytest.mark.parametrize(
    ("line", "unseen"),
    [
        (b"rm foo\x1b\x7f-rf x", True),
        (b"r  \x1b\\m", True),
        (b"\x1b3x", True),
        (b"\x1b.", True),
        (b"mr\x14", True),
        (b"\x19", True),
        (b"a\x1f", True),
        (b"\x18e", True),
        (b"\x11\n", True),
        ("é\x7f".encode(), True),
        ("éa b\x17".encode(), True),
        (b"\xff\b", True),
        (b"RM\x01\x1bl", True),
        (b"a b\x1b[D\x1bd", True),
        (b"\x1bd\x1bu", False),
        (b"\x7f\x15\x17\x03a", False),
        ("x\x7fé\n".encode(), False),
        (b"\x1b[A\x1bOB\x1b[D\x1b[H\x1bb\x1bf\t\x12\x10\x01\x05", False),
        (b"\x1b[200~a\x1b[201~\x1b:wq\x18\x05", False),
    ],
)
def test_keys_that_no_reading_follows_are_told_from_others(line: bytes, unseen: bool) -> None:
    assert edits_unseen(line) is unseen


async def test_the_loop_goes_on_between_the_readings_of_a_line() -> None:
    judge, turns = _CountingJudge(), [0]
    line = b"echo a\x7f\x17\x1b[Aq\x15w\x1bOPe\x03r\x08\x16\x01t\x17u.v\x17;z\n"
    command = Command("bash", stdin=line)

    async def take_turns() -> None:
        while True:
            await anyio.lowlevel.checkpoint()
            turns[0] += 1

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(take_turns)
        await typed_input.rate(judge, command, Unfinished(), line)
        tasks.cancel_scope.cancel()

    assert judge.looks > len(readings((line,))) > 10
    assert turns[0] >= judge.looks - 2


class _CountingJudge:
    """The judge, and how often it looks."""

    def __init__(self) -> None:
        self._judge = Judge(RULES)
        self.looks = 0

    async def look(self, command: Command) -> Verdict:
        self.looks += 1
        return await self._judge.look(command)

    async def confirm(self, command: Command, verdict: Verdict) -> Verdict:
        return await self._judge.confirm(command, verdict)

    async def judge(self, command: Command) -> Verdict:
        return await self._judge.judge(command)

    async def judge_elsewhere(self, command: Command) -> Verdict:
        return await self._judge.judge_elsewhere(command)

    async def close(self) -> None:
        await self._judge.close()


@pytest.mark.parametrize(
    ("data", "may"),
    [(b"ls", False), (b"\x7f\t\x1b[A\x03", False)]
    + [(b"ls" + key, True) for key in (b"\n", b"\r", b"\x04", b"\x0f", b"\x18\x05")],
)
def test_a_line_is_judged_when_a_key_may_run_it(data: bytes, may: bool) -> None:
    assert may_run(data) is may
