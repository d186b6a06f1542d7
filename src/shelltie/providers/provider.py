"""Provider protocol: a place to run turns a Prepared command into a Process."""

from collections.abc import Callable, Mapping
from posixpath import normpath
from typing import Protocol, runtime_checkable

from shelltie.basics.frozen import frozen
from shelltie.environment.child import Sifted
from shelltie.keeper.protocol import LeashWord
from shelltie.model import Bar, Directory, ForwardedPort, Isolation, Resources, TerminalSize

OTHER_DIRECTORY = (
    "is not the directory any more that was asked about: nothing was run. Call again, and let it be"
    " approved again"
)


# What a command that is rated safe needs beyond reading files. A view can have a `network`, a port
# of this machine's loopback (`network:loopback:8500`) or a container engine to read from
# (`socket:docker`); to see `processes` of others, or for `everything`, a command runs outside.
Needs = frozenset[str]
LOOPBACK, DOCKER = "network:loopback:", "socket:docker"
# So begins what is said where a sandbox is less than usual; whoever asked for one has to read it.
OLDER_BWRAP = "this bwrap does not know"
WRITES_LIVE = "sandboxed commands write to the workspace itself here"
STAYING = "staying"  # the name of who has what outlives us


@frozen
class Prepared:
    """A command with everything decided: what a provider starts, to the letter.

    `workspace` is the directory in which a place that isolates lets it write. With `one_output`
    stderr is the same pipe, or terminal, as stdout; a terminal is then for output alone. If
    `directory` is given, `cwd` must lead to that one. `commands` is a descriptor that a shell on a
    terminal is given in place of stderr, `stdin_from` one that is the command's input.
    """

    argv: tuple[str, ...]
    env: Mapping[str, str]
    cwd: str
    stdin: bytes | None
    pty: TerminalSize | None
    resources: Resources
    stays_open: bool = False
    workspace: str = ""
    one_output: bool = False
    directory: Directory | None = None
    commands: int | None = None
    stdin_from: int | None = None


class Process(Protocol):
    """A started command: the descriptors to read it by, and the leash that holds it."""

    @property
    def stdout(self) -> int:
        """To read; for a terminal also to write."""
        ...

    @property
    def stderr(self) -> int | None:
        """To read; a terminal has none."""
        ...

    @property
    def stdin(self) -> int | None:
        """To write, where the input stays open and is no terminal."""
        ...

    def resize(self, size: TerminalSize) -> None:
        """Give its terminal another size."""
        ...

    def signal(self, number: int) -> None:
        """Send a signal to everybody; SIGKILL goes on until nobody is left. Never raises."""
        ...

    def shoot(self) -> None:
        """End a leash that does not answer, and everybody it held."""
        ...

    def poll(self) -> None:
        """Hear what has already been said, without waiting."""
        ...


@runtime_checkable
class OutlivingProcess(Protocol):
    """A process that goes on when its server leaves, on a keeper that stays."""

    @property
    def terminal(self) -> int | None:
        """Its terminal, to look at; `None` where there is none, or none was passed yet."""
        ...

    def limit(self, total: float) -> None:
        """Have its keeper end it in so many seconds, whoever holds it then; 0: never."""
        ...

    def note(self, about: bytes) -> None:
        """Keep this for whoever holds it next. Never raises."""
        ...

    def forget(self) -> None:
        """It has ended, and all that it printed was taken: its keeper may leave."""
        ...

    def release(self) -> None:
        """Let go of it: it goes on, and nothing more is heard."""
        ...


@frozen
class FarSurroundings:
    """What a command on another machine finds: its shell, its directory, its variables."""

    shell: tuple[str, ...]
    directory: str
    base: Sifted

    def resolve(self, cwd: str) -> str:
        """A directory there; what is relative begins at the place's own."""
        return normpath(cwd if cwd.startswith("/") else f"{self.directory}/{cwd}")


@runtime_checkable
class FarProvider(Protocol):
    """A provider whose commands run on another machine."""

    async def look_there(self) -> FarSurroundings:
        """What commands find there.

        Raises: CannotStart.
        """
        ...


@runtime_checkable
class FarProcess(Protocol):
    """A process on another machine, whose connection may be lost while it goes on."""

    @property
    def ends_at(self) -> float:
        """By the wall clock, when what is out of reach has ended there at the latest."""
        ...

    def limit(self, total: float) -> None:
        """Have its keeper end it in so many seconds, whether we can be heard then or not."""
        ...

    def abandon(self) -> None:
        """Wait for it no longer; the last word is Lost."""
        ...


class PortWatch(Protocol):
    """Forwards what a command listens on, in a place that has a network of its own."""

    def watch(self) -> None:
        """Forward what it listens on from now on, until it ends."""
        ...

    def look(self) -> tuple[ForwardedPort, ...]:
        """What it listens on now."""
        ...


@runtime_checkable
class ForwardingProcess(Protocol):
    """A process whose ports can be reached: by `ports`, or by themselves if that is `None`."""

    @property
    def ports(self) -> PortWatch | None:
        """How they are forwarded."""
        ...


class Provider(Protocol):
    """A place to run commands. `shelltie.providers.contract` tries whether one keeps its word."""

    @property
    def name(self) -> str:
        """What it is called in settings, calls and results."""
        ...

    @property
    def isolation(self) -> Isolation:
        """What it really gives, never more."""
        ...

    @property
    def bars(self) -> frozenset[Bar]:
        """What it keeps commands from, to explain why one failed."""
        ...

    async def ready(self, workspace: str) -> None:
        """Find out whether commands can be run here, in this directory; a spawn may follow soon.

        Raises: CannotStart, which says why not and what to do.
        """
        ...

    def spawn(self, prepared: Prepared, listen: Callable[[LeashWord], None]) -> Process:
        """Start it, without waiting; `listen` hears how it goes.

        Raises: CannotStart, and then nothing was started.
        """
        ...

    async def close(self) -> None:
        """End everything that was started here and prove it."""
        ...


class Views(Protocol):
    """Where what is rated safe runs, so that it is: nothing can be changed there."""

    async def enter(self, needs: Needs, cwd: str) -> Provider | None:
        """The view for these needs, ready; `None` where no view can meet them.

        Raises: CannotStart, which says why there is none.
        """
        ...

    async def close(self) -> None:
        """End everything that was started there, and prove it."""
        ...
