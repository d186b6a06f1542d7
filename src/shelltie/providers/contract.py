"""Provider contract: a test suite that any implementation of Provider can be run against.

    @pytest.mark.parametrize("check", contract.CHECKS, ids=contract.name_of)
    async def test_my_provider_keeps_the_contract(check, tmp_path):
        await check(MyProvider(), tmp_path)

Each check wants a fresh provider and a directory in which its commands may write; it closes the
provider. It fails with AssertionError or TimeoutError. There must be a POSIX shell, `sleep`, `cat`
and `env` in /usr/bin or /bin.
"""

import os
import signal
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

import anyio

from shelltie.basics.pulse import Pulse
from shelltie.errors import CannotStart
from shelltie.keeper.protocol import Exited, Failed, Gone, LeashWord, Lost, Signalled, Started
from shelltie.model import Isolation, Resources, TerminalSize
from shelltie.providers.provider import Prepared, Process, Provider

ContractCheck = Callable[[Provider, Path], Awaitable[None]]

_ANSWER_TIMEOUT = 20.0
_PATH = {"PATH": "/usr/local/bin:/usr/bin:/bin"}
# It hides in sessions of its own, ignores what it can and has lost its parent.
_HIDES = "(trap '' TERM HUP INT; setsid sh -c 'sleep 300 & sleep 300' & ) ; echo ready; sleep 300"


class ObservedCommand:
    """A started command, what it printed and every word about it."""

    def __init__(self, provider: Provider, prepared: Prepared) -> None:
        self.words: list[LeashWord] = []
        self._more = Pulse()
        self.process: Process = provider.spawn(prepared, self._hear)

    def _hear(self, word: LeashWord) -> None:
        self.words.append(word)
        self._more.beat()

    async def over(self) -> Gone | Lost:
        """The last word; no other may follow."""
        with anyio.fail_after(_ANSWER_TIMEOUT):
            while not self.words or not isinstance(self.words[-1], Gone | Lost):
                await self._more.wait()
        last = self.words[-1]
        assert isinstance(last, Gone | Lost)
        return last

    async def heard(self, kind: type[LeashWord]) -> None:
        """Wait for a word of that kind."""
        with anyio.fail_after(_ANSWER_TIMEOUT):
            while not any(isinstance(word, kind) for word in self.words):
                await self._more.wait()

    async def exit_code(self) -> int:
        """How it ended, when nobody is left: negative for a signal."""
        assert isinstance(await self.over(), Gone), "it must be proved that nobody is left"
        exited = [word for word in self.words if isinstance(word, Exited)]
        assert len(exited) == 1, "a command that started says once how it ended"
        return os.waitstatus_to_exitcode(exited[0].wait_status)

    async def read(self, fd: int, until: bytes | None = None) -> bytes:
        """What comes, to its end or until that was there."""
        printed = b""
        with anyio.fail_after(_ANSWER_TIMEOUT):
            while until is None or until not in printed:
                await anyio.wait_readable(fd)
                try:
                    chunk = os.read(fd, 65536)
                except OSError:  # EIO is how a terminal ends
                    break
                if not chunk:
                    break
                printed += chunk
        return printed

    def close(self) -> None:
        """Give the streams back."""
        process = self.process
        for fd in {process.stdout, process.stderr, process.stdin} - {None}:
            os.close(fd)  # type: ignore[arg-type]  # None is not among them


@asynccontextmanager
async def _started(
    provider: Provider,
    workspace: Path,
    *argv: str,
    env: Mapping[str, str] = _PATH,
    stdin: bytes | None = None,
    pty: TerminalSize | None = None,
    stays_open: bool = False,
    one_output: bool = False,
    resources: Resources = Resources(),  # noqa: B008  frozen
) -> AsyncIterator[ObservedCommand]:
    cwd = str(workspace)
    prepared = Prepared(argv, env, cwd, stdin, pty, resources, stays_open, cwd, one_output)
    told: ObservedCommand | None = None
    try:
        await provider.ready(str(workspace))
        told = ObservedCommand(provider, prepared)
        yield told
    finally:
        with anyio.CancelScope(shield=True):
            await provider.close()
        if told is not None:
            told.close()


def _real(path: Path) -> str:
    return os.path.realpath(path)


async def it_has_a_name_and_a_level(provider: Provider, _: Path) -> None:
    """And says which truthfully."""
    assert provider.name
    assert provider.isolation in tuple(Isolation)
    await provider.close()


async def a_command_starts_ends_and_leaves_nobody(provider: Provider, workspace: Path) -> None:
    """In this order, each said once."""
    async with _started(provider, workspace, "sh", "-c", "exit 3") as told:
        assert await told.exit_code() == 3
        kinds = [type(word) for word in told.words]
        assert kinds == [Started, Exited, Gone]


async def a_death_by_signal_is_told(provider: Provider, workspace: Path) -> None:
    """As one, not as a code."""
    async with _started(provider, workspace, "sh", "-c", "kill -SEGV $$") as told:
        assert await told.exit_code() == -signal.SIGSEGV


async def the_streams_stay_apart(provider: Provider, workspace: Path) -> None:
    """And every byte arrives."""
    script = "cat; printf '\\377\\000err' >&2"
    async with _started(provider, workspace, "sh", "-c", script, stdin=b"a\0b\xff") as told:
        assert told.process.stderr is not None
        assert await told.read(told.process.stdout) == b"a\0b\xff"
        assert await told.read(told.process.stderr) == b"\xff\0err"
        assert await told.exit_code() == 0


async def one_output_keeps_the_order(provider: Provider, workspace: Path) -> None:
    """Where both streams are wanted as one, there is one."""
    script = "echo 1 >&2; echo 2; echo 3 >&2; echo 4"
    async with _started(provider, workspace, "sh", "-c", script, one_output=True) as told:
        assert told.process.stderr is None
        assert await told.read(told.process.stdout) == b"1\n2\n3\n4\n"
        assert await told.exit_code() == 0


async def one_output_may_be_a_terminal(provider: Provider, workspace: Path) -> None:
    """To which both streams go, and from which nothing is read."""
    here = "test -t 1 && test -t 2 && ! test -t 0 && cat"
    script = f"{here} && ! (: </dev/tty) 2>/dev/null && stty size <&1"
    size = TerminalSize(10, 33)
    async with _started(provider, workspace, "sh", "-c", script, pty=size, one_output=True) as told:
        assert await told.read(told.process.stdout, b"\n") == b"10 33\r\n"
        assert await told.exit_code() == 0


async def without_input_there_is_an_end(provider: Provider, workspace: Path) -> None:
    """Nobody waits for ever."""
    async with _started(provider, workspace, "cat") as told:
        assert await told.exit_code() == 0


async def input_that_stays_open_can_be_written(provider: Provider, workspace: Path) -> None:
    """And ended."""
    async with _started(provider, workspace, "cat", stays_open=True) as told:
        assert told.process.stdin is not None
        os.write(told.process.stdin, b"one\n")
        assert await told.read(told.process.stdout, b"one\n") == b"one\n"
        assert not any(isinstance(word, Exited) for word in told.words)


async def much_output_arrives_whole(provider: Provider, workspace: Path) -> None:
    """More than a pipe holds."""
    script = "i=0; while [ $i -lt 2000 ]; do printf '%01000d' 0; i=$((i+1)); done"
    async with _started(provider, workspace, "sh", "-c", script) as told:
        printed = await told.read(told.process.stdout)
        assert printed.count(b"0" * 1000) >= 2000
        assert await told.exit_code() == 0


async def arguments_arrive_to_the_letter(provider: Provider, workspace: Path) -> None:
    """Whatever is in them."""
    words = ("", " ", "a b", "$HOME", "'\"\\", "é\n", "\udcff", "--")
    async with _started(provider, workspace, "printf", "%s|", *words) as told:
        expected = b"".join(word.encode("utf-8", "surrogateescape") + b"|" for word in words)
        assert await told.read(told.process.stdout) == expected


async def the_environment_is_what_was_given(provider: Provider, workspace: Path) -> None:
    """Nothing of ours, and nothing lost."""
    env = {**_PATH, "A": "1", "EMPTY": "", "LINES": "x\ny"}
    async with _started(provider, workspace, "env", "-0", env=env) as told:
        printed = await told.read(told.process.stdout)
        found = {*printed.decode().split("\0")} - {""}
        assert found == {f"{name}={value}" for name, value in env.items()}


async def the_directory_is_the_one_asked_for(provider: Provider, workspace: Path) -> None:
    """And what is written there is there."""
    script = "pwd -P; echo kept > written"
    async with _started(provider, workspace, "sh", "-c", script) as told:
        assert await told.read(told.process.stdout) == os.fsencode(_real(workspace)) + b"\n"
        assert await told.exit_code() == 0
        assert (workspace / "written").read_text(encoding="utf-8") == "kept\n"


async def what_is_not_there_fails_at_the_step_exec(provider: Provider, workspace: Path) -> None:
    """And nobody is left of it."""
    async with _started(provider, workspace, "no-such-program") as told:
        assert isinstance(await told.over(), Gone)
        failed = [word for word in told.words if isinstance(word, Failed)]
        assert [word.step for word in failed] == ["exec"]


async def a_nul_byte_starts_nothing(provider: Provider, workspace: Path) -> None:
    """It could smuggle arguments in."""
    try:
        async with _started(provider, workspace, "echo", "a\0b"):
            raise AssertionError("a NUL byte must be refused")
    except CannotStart:
        await provider.close()


async def a_terminal_is_one(provider: Provider, workspace: Path) -> None:
    """With its size, a new size, and ^C."""
    prepares = "[ -t 0 ] && stty size && trap 'stty size; exit 7' INT && echo ready"
    script = f"{prepares}; while :; do sleep 0.1; done"
    size = TerminalSize(31, 91)
    async with _started(provider, workspace, "sh", "-c", script, pty=size) as told:
        assert b"31 91" in await told.read(told.process.stdout, b"ready")
        told.process.resize(TerminalSize(41, 99))
        os.write(told.process.stdout, b"\x03")
        assert b"41 99" in await told.read(told.process.stdout, b"41 99")
        assert await told.exit_code() == 7


async def a_signal_reaches_everybody(provider: Provider, workspace: Path) -> None:
    """Also who made a session of its own."""
    script = "setsid sh -c 'trap \"echo gone; exit\" TERM; echo ready; sleep 300 & wait' & wait"
    async with _started(provider, workspace, "sh", "-c", script) as told:
        await told.read(told.process.stdout, b"ready")
        told.process.signal(signal.SIGTERM)
        assert b"gone" in await told.read(told.process.stdout, b"gone")
        told.process.signal(signal.SIGKILL)  # for whoever was forked at that moment
        assert isinstance(await told.over(), Gone)
        assert any(isinstance(word, Signalled) for word in told.words)


async def nobody_survives_a_kill(provider: Provider, workspace: Path) -> None:
    """Whoever hides, ignores and has lost its parent: the kernel says so."""
    async with _started(provider, workspace, "sh", "-c", _HIDES) as told:
        await told.read(told.process.stdout, b"ready")
        told.process.signal(signal.SIGKILL)
        assert isinstance(await told.over(), Gone)
        assert await told.read(told.process.stdout) == b""  # nobody holds it any more


async def who_is_left_behind_is_counted_and_held(provider: Provider, workspace: Path) -> None:
    """A command that ends does not end its background."""
    script = "(setsid sleep 300 & ); exit 0"
    async with _started(provider, workspace, "sh", "-c", script) as told:
        await told.heard(Exited)
        exited = next(word for word in told.words if isinstance(word, Exited))
        assert exited.left >= 1
        assert not isinstance(told.words[-1], Gone | Lost)
        told.process.signal(signal.SIGKILL)
        assert isinstance(await told.over(), Gone)


async def a_leash_that_is_shot_leaves_nobody(provider: Provider, workspace: Path) -> None:
    """It may have been stopped by its command."""
    async with _started(provider, workspace, "sh", "-c", _HIDES) as told:
        await told.read(told.process.stdout, b"ready")
        told.process.shoot()
        assert isinstance(await told.over(), Gone)
        assert await told.read(told.process.stdout) == b""


async def closing_ends_everything(provider: Provider, workspace: Path) -> None:
    """And waits for it."""
    async with _started(provider, workspace, "sh", "-c", _HIDES) as told:
        await told.read(told.process.stdout, b"ready")
        await provider.close()
        assert isinstance(told.words[-1], Gone)


async def many_run_side_by_side(provider: Provider, workspace: Path) -> None:
    """And the end of one is not the end of another."""
    async with _started(provider, workspace, "sleep", "300") as long:
        prepared = Prepared(
            ("sh", "-c", "echo $$"), _PATH, str(workspace), None, None, Resources(),
            workspace=str(workspace),
        )  # fmt: skip
        others = []
        for _ in range(10):
            await provider.ready(str(workspace))
            others.append(ObservedCommand(provider, prepared))
        for other in others:
            assert await other.exit_code() == 0
            other.close()
        assert not any(isinstance(word, Exited) for word in long.words)


async def limits_hold(provider: Provider, workspace: Path) -> None:
    """Soft and hard alike."""
    limits = Resources(open_files=33, core=0)
    argv = ("sh", "-c", "ulimit -Sn; ulimit -Hn; ulimit -c")
    async with _started(provider, workspace, *argv, resources=limits) as told:
        assert (await told.read(told.process.stdout)).split() == [b"33", b"33", b"0"]


CHECKS: tuple[ContractCheck, ...] = (
    it_has_a_name_and_a_level,
    a_command_starts_ends_and_leaves_nobody,
    a_death_by_signal_is_told,
    the_streams_stay_apart,
    one_output_keeps_the_order,
    one_output_may_be_a_terminal,
    without_input_there_is_an_end,
    input_that_stays_open_can_be_written,
    much_output_arrives_whole,
    arguments_arrive_to_the_letter,
    the_environment_is_what_was_given,
    the_directory_is_the_one_asked_for,
    what_is_not_there_fails_at_the_step_exec,
    a_nul_byte_starts_nothing,
    a_terminal_is_one,
    a_signal_reaches_everybody,
    nobody_survives_a_kill,
    who_is_left_behind_is_counted_and_held,
    a_leash_that_is_shot_leaves_nobody,
    closing_ends_everything,
    many_run_side_by_side,
    limits_hold,
)


def name_of(check: ContractCheck) -> str:
    """For a test's name."""
    return getattr(check, "__name__", "check")
