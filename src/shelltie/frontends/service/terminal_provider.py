"""TerminalProvider protocol of TerminalService: its options, results and methods."""

from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import Protocol, runtime_checkable

from shelltie.basics.frozen import frozen


@frozen
class ExecuteCommandOptions:
    """`None` in `env` unsets a name; a `timeout_seconds` of `None` is the service's own."""

    timeout_seconds: float | None = None
    working_directory: str | None = None
    env: Mapping[str, str | None] = field(default_factory=dict)
    input: str | None = None


@frozen
class ExecuteCommandResult:
    """`ok`: it ran to its end and said 0. `error` says why not, if that was not its own doing."""

    ok: bool
    output: str
    exit_code: int
    stdout: str
    stderr: str
    error: str | None = None


@frozen
class InteractiveSessionOptions:
    """What to start and where; with `pty` false it gets plain pipes."""

    command: str
    working_directory: str | None = None
    env: Mapping[str, str | None] = field(default_factory=dict)
    input: str | None = None
    pty: bool = True


@frozen
class OutputWaitOptions:
    """Seconds; a `max_interval` of 0 answers at once, `None` has no cap."""

    min_interval: float = 1.0
    settle_interval: float = 2.0
    max_interval: float | None = 30.0


@frozen
class InteractiveTerminalOutput:
    """Output from the asked position to `new_position`; `skipped` characters of it are lost."""

    output: str
    new_position: int
    is_complete: bool
    exit_code: int | None = None
    skipped: int = 0


@frozen
class SessionStatus:
    """How a session is doing."""

    id: str
    running: bool
    start_time: float
    output_length: int
    exit_code: int | None = None


@runtime_checkable
class TerminalProvider(Protocol):
    """A place to run commands: these two methods are enough."""

    async def execute_command(
        self, command: str, args: Sequence[str], options: ExecuteCommandOptions
    ) -> ExecuteCommandResult:
        """Run a program to its end, without a shell."""
        ...

    async def run_script(self, script: str, options: ExecuteCommandOptions) -> ExecuteCommandResult:
        """Run a shell text to its end."""
        ...


@runtime_checkable
class SessionProvider(TerminalProvider, Protocol):
    """A place that also has sessions."""

    async def start_interactive_session(self, options: InteractiveSessionOptions) -> str:
        """Start one; its id."""
        ...

    async def send_input(self, session_id: str, text: str) -> None:
        """Type a line."""
        ...

    async def collect_output(
        self, session_id: str, from_position: int, wait: OutputWaitOptions
    ) -> InteractiveTerminalOutput:
        """What it printed from a position on."""
        ...

    async def terminate_session(self, session_id: str) -> None:
        """End its whole tree and forget it."""
        ...

    def get_session_status(self, session_id: str) -> SessionStatus | None:
        """How it is doing; `None` if there is no such session."""
        ...

    def get_isolation_level(self) -> str:
        """`none`, `sandbox` or `container`."""
        ...
