"""TerminalService: Python facade over several providers, for programs that hold many agents."""

from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import field, replace
from pathlib import Path
from typing import Any, Self

from shelltie.approval.broker import Callback, CallbackChannel
from shelltie.assemble import assemble
from shelltie.assemble_parts import policy_file
from shelltie.basics.frozen import mutable
from shelltie.environment import child
from shelltie.errors import ConfigWrong, InvalidParameters, Misuse
from shelltie.events import Publish
from shelltie.frontends.control.presence import Presence
from shelltie.frontends.service.local_terminal import LocalTerminal
from shelltie.frontends.service.settings import AgentSettings, service_config
from shelltie.frontends.service.terminal_provider import (
    ExecuteCommandOptions,
    ExecuteCommandResult,
    InteractiveSessionOptions,
    SessionProvider,
    TerminalProvider,
)
from shelltie.model import Caller, Command
from shelltie.running.options import Requester, new_run_id
from shelltie.running.supervisor import Supervisor
from shelltie.sessions.id_counter import session_numbers
from shelltie.sessions.registry import Sessions
from shelltie.settings.config import Config
from shelltie.settings.layers import load
from shelltie.shell.parse import parse_compound_command

_LOCAL = "local"
_TYPES = {_LOCAL: None, "bubblewrap": "bubblewrap"}  # and the engine's name for it


@mutable
class SessionPlace:
    """A session that an agent started through a tool, and how far it has read there."""

    command: str
    since: float
    position: int = 0


@mutable
class TerminalState:
    """What a service remembers about one agent; its live sessions are the provider's."""

    settings: AgentSettings
    provider_name: str | None
    local: LocalTerminal = field(repr=False)
    sessions: dict[str, SessionPlace] = field(default_factory=dict)

    def reset(self, what: Sequence[str]) -> None:  # noqa: ARG002  part of the interface
        """Settings and provider survive a reset of any kind; the service ends the sessions."""
        self.sessions.clear()

    def serialize(self) -> dict[str, object]:
        """As plain data."""
        waiting = self.settings.waiting
        return {
            "providerName": self.provider_name,
            "bash": {
                "cropOutput": self.settings.crop_output,
                "timeoutSeconds": self.settings.timeout,
            },
            "persistent": {
                "minInterval": waiting.least,
                "settleInterval": waiting.settle,
                "maxInterval": waiting.most,
            },
        }

    def deserialize(self, data: Mapping[str, Any]) -> None:
        """As it was when it was serialised.

        Raises: ConfigWrong.
        """
        rest = {key: value for key, value in data.items() if key != "providerName"}
        self.settings = self.settings.overridden(rest, "state")
        self.provider_name = data.get("providerName")

    def show(self) -> list[str]:
        """Lines for a person."""
        sessions = self.local.list_sessions()
        return [
            f"Provider: {self.provider_name or 'none'}",
            f"Bash: {self.settings.timeout:g} s, {self.settings.crop_output} characters shown",
            f"Active sessions: {len(sessions)}",
            *(f"  {one.id}: {one.run.command.text}" for one in sessions),
        ]


class TerminalService:
    """Commands and sessions for many agents, through providers that can be added."""

    name = "TerminalService"
    description = "Runs shell commands with limits, safety and sessions."

    def __init__(
        self,
        terminal: Mapping[str, object],
        config: Config | None = None,
        root: Path | None = None,
        publish: Publish | None = None,
        approve: Callback | None = None,
    ) -> None:
        """`approve` is asked about commands that need a yes; without it they are refused."""
        self._publish = publish
        self._approve = approve
        self._given = service_config(terminal)
        self._root = root or Path.cwd()
        loaded = config or load(self._root)
        safe = (*loaded.safety.safe_commands, *self._given.safe_commands)
        dangerous = (*loaded.safety.dangerous_commands, *self._given.dangerous_commands)
        safety = replace(loaded.safety, safe_commands=safe, dangerous_commands=dangerous)
        self._config = replace(loaded, safety=safety)
        self.default_provider = self._given.defaults.provider
        self.terminal_provider_registry: dict[str, TerminalProvider | None] = {}
        self._places: dict[str, str | None] = {}
        for name, options in self._given.providers.items():
            self._add_configured(name, options)
        self._states: dict[str, TerminalState] = {}
        self._stack = AsyncExitStack()
        self._supervisor: Supervisor | None = None
        self._sessions: Sessions | None = None

    def _add_configured(self, name: str, options: Mapping[str, object]) -> None:
        kind = str(options.get("type", name))
        if kind not in _TYPES:
            raise ConfigWrong(
                f"terminal.providers.{name}.type must be one of {', '.join(_TYPES)};"
                " register any other with register_terminal_provider"
            )
        self.terminal_provider_registry[name] = None  # each agent has its own
        self._places[name] = _TYPES[kind]

    async def __aenter__(self) -> Self:
        await self.run()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    async def run(self) -> None:
        """Get ready.

        Raises: Misuse if the default provider is not there.
        """
        self.require_terminal_provider_by_name(self.default_provider)
        policy = policy_file(self._config, self._root)
        supervisor = assemble(self._config, policy, self._publish)
        if self._approve is not None:
            supervisor.admission.broker.add(CallbackChannel(self._approve))
        sessions = Sessions(supervisor, numbers=await session_numbers(self._config))
        # Entered first, so it is left last: what runs can be seen until it has ended.
        await self._stack.enter_async_context(
            Presence(supervisor, child.inherited(), "", sessions.all)
        )
        self._supervisor = await self._stack.enter_async_context(supervisor)
        self._sessions = sessions

    async def stop(self) -> None:
        """End everything that was started."""
        await self._stack.aclose()

    # Agents

    def attach(self, agent: str, given: Mapping[str, object] | None = None) -> TerminalState:
        """Let an agent in, with its own settings over the defaults.

        Raises: ConfigWrong, Misuse.
        """
        chosen = self._given.defaults.overridden(given or {})
        self.require_terminal_provider_by_name(chosen.provider)
        supervisor, sessions = self._running()
        local = LocalTerminal(supervisor, sessions, agent, self._root)
        self._states[agent] = TerminalState(chosen, chosen.provider, local)
        return self._states[agent]

    def state(self, agent: str) -> TerminalState:
        """What is remembered about an agent.

        Raises: Misuse.
        """
        if agent not in self._states:
            raise Misuse(f"agent {agent!r} is not attached: call attach(agent) first")
        return self._states[agent]

    async def reset(self, agent: str, what: Sequence[str] = ("chat",)) -> None:
        """End the agent's sessions; its settings stay."""
        state = self.state(agent)
        await state.local.terminate_all(f"the agent was reset ({', '.join(what)})")
        state.reset(what)

    # Providers

    def register_terminal_provider(self, name: str, provider: TerminalProvider) -> None:
        """Add a place to run commands.

        Raises: InvalidParameters if it lacks one of the two methods that every provider has.
        """
        if not isinstance(provider, TerminalProvider):
            raise InvalidParameters("a provider needs execute_command and run_script")
        self.terminal_provider_registry[name] = provider

    def require_terminal_provider_by_name(self, name: str) -> TerminalProvider | None:
        """The provider of that name; the local one is each agent's own, and `None` here.

        Raises: Misuse.
        """
        if name not in self.terminal_provider_registry:
            known = ", ".join(self.terminal_provider_registry) or "none"
            raise Misuse(f"there is no terminal provider {name!r}; registered: {known}")
        return self.terminal_provider_registry[name]

    def set_active_terminal(self, name: str, agent: str) -> None:
        """Let an agent use another provider.

        Raises: Misuse.
        """
        self.require_terminal_provider_by_name(name)
        self.state(agent).provider_name = name

    def require_active_terminal(self, agent: str) -> TerminalProvider:
        """The provider an agent uses.

        Raises: Misuse.
        """
        state = self.state(agent)
        if state.provider_name is None:
            raise Misuse(f"agent {agent!r} has no active terminal: call set_active_terminal")
        registered = self.require_terminal_provider_by_name(state.provider_name)
        if registered is not None:
            return registered
        place = self._places.get(state.provider_name)
        return state.local if place is None else state.local.placed(place)

    def require_sessions(self, agent: str) -> SessionProvider:
        """The same, when it has sessions.

        Raises: Misuse.
        """
        provider = self.require_active_terminal(agent)
        if not isinstance(provider, SessionProvider):
            name = self.state(agent).provider_name
            raise Misuse(f"sessions are not supported by this provider ({name})")
        return provider

    # Commands

    async def execute_command(
        self,
        command: str,
        args: Sequence[str],
        options: ExecuteCommandOptions,
        agent: str,
    ) -> ExecuteCommandResult:
        """Run a program without a shell, where the agent's commands run."""
        return await self.require_active_terminal(agent).execute_command(command, args, options)

    async def run_script(
        self, script: str, options: ExecuteCommandOptions, agent: str
    ) -> ExecuteCommandResult:
        """Run a shell text, where the agent's commands run."""
        return await self.require_active_terminal(agent).run_script(script, options)

    async def run_approved(
        self, script: str, options: ExecuteCommandOptions, agent: str
    ) -> ExecuteCommandResult:
        """Run a shell text that is safe, or that somebody says yes to.

        Raises: CommandDenied.
        """
        provider = self.require_active_terminal(agent)
        await self._admit(script, agent, "bash")
        if isinstance(provider, LocalTerminal):
            return await provider.run_script(script, options, None)
        return await provider.run_script(script, options)

    async def start_approved(self, options: InteractiveSessionOptions, agent: str) -> str:
        """The same for a session; its id.

        Raises: CommandDenied, Misuse.
        """
        provider = self.require_sessions(agent)
        if not isinstance(provider, LocalTerminal):  # which judges by itself
            await self._admit(options.command, agent, "session")
        return await provider.start_interactive_session(options)

    async def _admit(self, text: str, agent: str, profile: str) -> None:
        supervisor, _ = self._running()
        command = Command(text, cwd=str(self._root))
        requester = Requester(Caller(agent=agent))
        await supervisor.admission.admit_into(
            new_run_id(), command, requester, live_shell=False, profile=profile
        )

    async def get_command_safety_level(self, text: str) -> str:
        """`safe`, `unknown` or `dangerous`."""
        supervisor, _ = self._running()
        return str((await supervisor.admission.judge.judge(Command(text))).rating)

    def parse_compound_command(self, text: str) -> list[str]:
        """The names of the commands in a text."""
        return parse_compound_command(text)

    def _running(self) -> tuple[Supervisor, Sessions]:
        if self._supervisor is None or self._sessions is None:
            raise Misuse("the service is not running: async with TerminalService(…) as service")
        return self._supervisor, self._sessions
