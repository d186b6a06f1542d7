"""JSON of a run in `ps`, encoded and decoded at both ends of the control socket."""

from collections.abc import Mapping
from typing import Any

from shelltie.basics.frozen import frozen
from shelltie.model import ExitStatus, State

CHUNK = 128 * 1024  # bytes of output in one answer
INPUT_MAX = 32 * 1024  # bytes of input in one request
WAIT_MAX = 3.0  # seconds that an answer may take: a client gives up after five


@frozen
class RunRow:
    """A run, and the session it belongs to, if any; it is idle since its last byte.

    `left`: it has ended, but not everybody of it.
    """

    run_id: str
    session_id: str | None
    command: str
    cwd: str
    pid: int | None
    state: State
    exit_code: int | None
    signal: str | None
    elapsed_seconds: float
    idle_seconds: float
    output_bytes: int
    pty: bool
    waiting_for_input: bool
    password: bool
    left: bool
    ports: tuple[str, ...]  # that an isolated session listens on, and where each is reached
    stays: bool  # it outlives its server

    @property
    def id(self) -> str:
        """What people call it."""
        return self.session_id or self.run_id

    @property
    def ended(self) -> bool:
        """It has its outcome."""
        return self.state not in (State.CREATED, State.RUNNING)


def exit_from_json(said: Mapping[str, Any]) -> ExitStatus:
    """An exit code, or the signal that is in it.

    Raises: KeyError, TypeError, ValueError.
    """
    code = said["exitCode"]
    if code is None:
        return ExitStatus()
    return ExitStatus(signal=int(code) - 128) if said["signal"] else ExitStatus(code=int(code))
