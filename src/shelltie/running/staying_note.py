"""Note of a run that outlives its server (session state): what its next holder must know."""

import json

from shelltie.basics.frozen import frozen
from shelltie.basics.json_codec import as_json, from_json
from shelltie.model import Command, Limits, TerminalSize


@frozen
class StayingNote:
    """What whoever holds a run next must know of it; it lies beside its keeper."""

    run: str
    command: str
    cwd: str
    client: str
    agent: str
    shell: str | None
    path_source: str
    rows: int
    columns: int
    terminal: bool
    one_output: bool
    began: float
    total: float | None
    silence: float | None
    source: str
    started: bool
    """That it runs is on record; its server may be gone before it heard so."""
    holder: str
    """Who has held it last."""
    session: str
    """The id of its session, if it is one; `owner` is whose, and `place` the directory of the
    server that started it. Its usual reader has had so many characters (`position`).
    """
    owner: str
    place: str
    position: int
    ended: float
    """When it ended, if its client has not been told; else 0. It may be on record, or its server
    was killed before that.
    """

    def to_bytes(self) -> bytes:
        """As it is written."""
        return json.dumps(as_json(self)).encode()

    @classmethod
    def of_bytes(cls, data: bytes) -> "StayingNote":
        """Raises: ValueError if it is none."""
        try:
            return from_json(cls, {**_SINCE, **json.loads(data)})
        except (KeyError, TypeError) as error:
            raise ValueError(f"this is no note of a session: {error}") from error

    @property
    def size(self) -> TerminalSize | None:
        """Of its terminal, at the start."""
        return TerminalSize(self.rows, self.columns) if self.terminal else None

    def to_command(self) -> Command:
        """What was asked, as far as it matters while it runs."""
        return Command(self.command, cwd=self.cwd, stays_open=True, pty=self.size)

    def to_limits(self) -> Limits:
        """How long it may take."""
        return Limits(self.total, self.silence, self.source)


# What notes of older versions do not have.
_SINCE: dict[str, object] = {
    **dict.fromkeys(("holder", "session", "owner", "place"), ""),
    **dict.fromkeys(("position", "ended"), 0),
}
