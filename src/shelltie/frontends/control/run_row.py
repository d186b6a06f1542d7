"""JSON of a run in `ps`, encoded and decoded at both ends of the control socket."""

from collections.abc import Mapping
from typing import Any

from shelltie.basics.frozen import frozen
from shelltie.errors import InvalidParameters
from shelltie.model import ExitStatus, State

CHUNK = 128 * 1024  # bytes of output in one answer
INPUT_MAX = 32 * 1024  # bytes of input in one request
WAIT_MAX = 3.0  # seconds that an answer may take: a client gives up after five


@frozen
class Listed:
    """A run, and the session it belongs to, if any; `idle` is the time since its last byte.

    `left`: it has ended, but not everybody of it.
    """

    run: str
    session: str | None
    command: str
    cwd: str
    pid: int | None
    state: State
    exit: ExitStatus
    elapsed: float
    idle: float
    output: int
    pty: bool
    waits: bool = False
    password: bool = False
    left: bool = False

    @property
    def ended(self) -> bool:
        """It has its outcome."""
        return self.state not in (State.CREATED, State.RUNNING)


def to_json(one: Listed) -> dict[str, object]:
    """For programs."""
    return {
        "id": one.session or one.run,
        "runId": one.run,
        "sessionId": one.session,
        "command": one.command,
        "cwd": one.cwd,
        "pid": one.pid,
        "state": one.state,
        "exitCode": one.exit.number,
        "signal": one.exit.signal_name,
        "elapsedSeconds": round(one.elapsed, 3),
        "idleSeconds": round(one.idle, 3),
        "outputBytes": one.output,
        "pty": one.pty,
        "waitingForInput": one.waits,
        "password": one.password,
        "left": one.left,
    }


def from_json(said: Mapping[str, Any]) -> Listed:
    """The same again at the other end.

    Raises: KeyError, TypeError, ValueError if this is none.
    """
    session, pid = said["sessionId"], said["pid"]
    return Listed(
        run=str(said["runId"]),
        session=None if session is None else str(session),
        command=str(said["command"]),
        cwd=str(said["cwd"]),
        pid=None if pid is None else int(pid),
        state=State(said["state"]),
        exit=exit_from_json(said),
        elapsed=float(said["elapsedSeconds"]),
        idle=float(said["idleSeconds"]),
        output=int(said["outputBytes"]),
        pty=bool(said["pty"]),
        waits=bool(said["waitingForInput"]),
        password=bool(said["password"]),
        left=bool(said["left"]),
    )


def exit_from_json(said: Mapping[str, Any]) -> ExitStatus:
    """An exit code, or the signal that is in it.

    Raises: KeyError, TypeError, ValueError.
    """
    code = said["exitCode"]
    if code is None:
        return ExitStatus()
    return ExitStatus(signal=int(code) - 128) if said["signal"] else ExitStatus(code=int(code))


def wait_of(given: Mapping[str, object]) -> float:
    """How many seconds whoever asks waits for news.

    Raises: InvalidParameters.
    """
    match given.get("wait", 0):
        case int() | float() as value if not isinstance(value, bool) and value >= 0:
            return min(value, WAIT_MAX)
        case other:
            raise InvalidParameters(f"wait must be a number of seconds, not {other!r}")
