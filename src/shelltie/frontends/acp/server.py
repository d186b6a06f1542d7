"""ACP server: `shelltie acp -- AGENT…` starts the agent and the proxy in front of it."""

import logging
import signal
import tempfile
from collections.abc import AsyncIterable, Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

import anyio

from shelltie.assemble import assemble
from shelltie.assemble_parts import keeper_of, policy_file
from shelltie.basics.frozen import frozen
from shelltie.environment import child
from shelltie.errors import ConfigWrong, TerminalError
from shelltie.frontends.about import version
from shelltie.frontends.acp.agent_process import AgentProcess
from shelltie.frontends.acp.display_formats import DisplayMode
from shelltie.frontends.acp.jsonrpc import LineWriter
from shelltie.frontends.acp.own_commands import SHELL_PREFIX, mcp_server, shell_prefix, summary
from shelltie.frontends.acp.protocol import OUTPUT_LIMIT
from shelltie.frontends.acp.proxy import Proxy, Serve
from shelltie.frontends.acp.terminal_host import HostSettings, TerminalHost
from shelltie.frontends.acp.timeouts import TerminalPolicy, command_timeouts
from shelltie.frontends.control.runs import steerable
from shelltie.frontends.fd_io import read
from shelltie.frontends.jsonl import Lines, own_wire
from shelltie.record.queries import count_by_client
from shelltie.sessions.id_counter import session_numbers
from shelltie.sessions.registry import Sessions
from shelltie.settings.config import Config

LINE_MAX = 64 * 1024 * 1024  # a prompt may carry pictures
_DRAIN = 0.5  # without a word: then nothing more comes from an agent that has ended
_LAST_WORDS = 10.0  # for an editor to read them
_DIALOGUE = 600.0  # a person in front of an editor may think for so long

_log = logging.getLogger(__name__)


@frozen
class Choices:
    """What the command line says."""

    serve: Serve = Serve.ALWAYS
    display: DisplayMode | None = None
    total: float | None = None
    mcp: bool = False
    wrap: bool = False


async def serve(config: Config, agent: Sequence[str], choices: Choices) -> int:
    """Serve until the editor or the agent leaves; the agent's exit code. Nothing is left then.

    Raises: ConfigWrong; CannotStart if there is no such agent.
    """
    logging.basicConfig(format="shelltie: %(message)s", level=logging.WARNING)
    _log.setLevel(logging.INFO)
    manners = manners_of(config, choices)
    # What is shown of a flood is its end, whole.
    tail = max(config.output.kept_tail, OUTPUT_LIMIT)
    config = config.changed("output.kept_tail", tail)
    about = {"version": version(), "serves": "acp"}
    inherited, keeper = child.inherited(), keeper_of(config)
    async with assemble(config, policy_file(config, Path()), serves=True) as supervisor:
        timeouts = config.safety.approval_timeouts.unless_set(_DIALOGUE)
        supervisor.admission.approval_timeouts = timeouts
        sessions = Sessions(supervisor, numbers=await session_numbers(config))
        async with (
            steerable(supervisor, sessions, inherited, about),
            TerminalHost(supervisor, manners, offered=False) as host,
        ):
            with _agent_environment(config, choices, inherited) as env:
                process = AgentProcess(agent, env, keeper, grace=config.acp.agent_grace)
                async with process:
                    with own_wire() as (source, sink):
                        conversation = _Conversation(host, process, source, sink)
                        code = await conversation.last(choices, config)
            if host.sessions_opened:
                _log.info(summary(host.terminals_made, _count_recorded(config, process.mark)))
            return code


@contextmanager
def _agent_environment(
    config: Config, choices: Choices, inherited: dict[str, str]
) -> Iterator[dict[str, str]]:
    """The environment of the agent, with what makes it run its commands through us."""
    if not (choices.wrap or config.acp.wrap_shell):
        yield inherited
    elif SHELL_PREFIX in inherited:
        _log.warning("%s is set already, so it stays: it is not ours", SHELL_PREFIX)
        yield inherited
    else:
        Path(config.state.dir).mkdir(mode=0o700, parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix="acp-", dir=config.state.dir) as directory:
            yield {**inherited, **shell_prefix(Path(directory))}


def _count_recorded(config: Config, mark: str) -> dict[str, int] | None:
    try:
        return count_by_client(config.journal, mark) if config.audit.enabled else None
    except TerminalError:
        return None


def manners_of(config: Config, choices: Choices) -> HostSettings:
    """How terminals behave, by the settings and the command line.

    Raises: ConfigWrong.
    """
    try:
        commands = command_timeouts(config.acp.command_timeouts)
    except ValueError as error:
        raise ConfigWrong(f"acp.command_timeouts: {error}") from error
    total = config.acp.timeout if choices.total is None else choices.total
    return HostSettings(TerminalPolicy(total or None, commands), redact=config.output.redact)


class _Conversation:
    """Both directions, from the first word to the last."""

    def __init__(self, host: TerminalHost, agent: AgentProcess, source: int, sink: int) -> None:
        self._host = host
        self._agent = agent
        self._source = source
        self._sink = sink
        self._to_agent = LineWriter(agent.stdin)
        self._over = anyio.Event()  # one of the two has left
        self._nobody_reads = False
        self._spoken = anyio.Event()
        self._complained = anyio.Event()
        self._handing_on = False

    async def last(self, choices: Choices, config: Config) -> int:
        """Carry messages until one side leaves; the agent's exit code."""
        server = None
        if choices.mcp or config.acp.add_mcp:
            server = mcp_server(child.inherited(), self._agent.mark)
        signals = anyio.open_signal_receiver(signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
        with signals as arriving:
            async with anyio.create_task_group() as tasks:
                proxy = Proxy(
                    self._host,
                    LineWriter(self._sink),
                    self._to_agent,
                    tasks,
                    serve=choices.serve,
                    wanted=choices.display,
                    pty="never" if config.output.redact else config.acp.pty,
                    mcp=server,
                    null_result=config.acp.empty_result == "null",
                )
                tasks.start_soon(self._obey, arriving)
                tasks.start_soon(self._from_editor, proxy)
                tasks.start_soon(self._from_agent, proxy)
                tasks.start_soon(self._copy_errors)
                tasks.start_soon(self._part, tasks.cancel_scope)
                await self._agent.ended.wait()
                await self._hear_out()
                tasks.cancel_scope.cancel()
        return self._agent.status.number or 0

    async def _hear_out(self) -> None:
        """Its last words; not for ever, because somebody it started may hold its pipes."""
        with anyio.move_on_after(_DRAIN):
            await self._complained.wait()
        with anyio.move_on_after(_LAST_WORDS):
            while not self._spoken.is_set():
                with anyio.move_on_after(_DRAIN):
                    await self._spoken.wait()
                if not self._handing_on or self._nobody_reads:
                    return

    async def _part(self, over: anyio.CancelScope) -> None:
        await self._over.wait()
        self._to_agent.close()
        await self._agent.say_goodbye()
        if not self._agent.ended.is_set():
            over.cancel()

    async def _obey(self, arriving: AsyncIterable[signal.Signals]) -> None:
        async for _ in arriving:
            self._editor_left()

    async def _from_editor(self, proxy: Proxy) -> None:
        await _carry(self._source, proxy.from_editor)
        self._editor_left()

    def _editor_left(self) -> None:
        self._nobody_reads = True
        self._over.set()

    async def _from_agent(self, proxy: Proxy) -> None:
        async def hand_on(line: bytes | None) -> None:
            self._handing_on = True
            await proxy.from_agent(line)
            self._handing_on = False

        await _carry(self._agent.stdout, hand_on)
        self._spoken.set()
        self._over.set()  # it says nothing any more, or nobody reads it

    async def _copy_errors(self) -> None:
        await self._agent.copy_errors()
        self._complained.set()


async def _carry(source: int, hand_on: Callable[[bytes | None], Awaitable[None]]) -> None:
    """Every line from one side to the other, until one of them leaves."""
    lines = Lines(LINE_MAX)
    with suppress(OSError):
        while chunk := await read(source):
            await _each(lines.feed(chunk), hand_on)
        await _each(lines.feed(b"\n"), hand_on)  # the last line may lack it


async def _each(
    lines: Iterator[bytes | None], hand_on: Callable[[bytes | None], Awaitable[None]]
) -> None:
    for line in lines:
        if line is None or line.strip():
            await hand_on(line)
