"""Wire formats of a displayed terminal: `_meta`, plain text, or the ACP v2 draft."""

import base64
import shlex
from collections.abc import Callable, Iterator
from enum import StrEnum
from typing import Any, Protocol

from shelltie.basics.frozen import frozen
from shelltie.frontends.acp.permission import fenced
from shelltie.frontends.acp.terminal import HostedTerminal
from shelltie.output.text import clean

BEHIND = 256 * 1024  # bytes; what is more is left out: no editor needs a flood
_TEXT = 4096  # characters of output in a text

Update = dict[str, Any]


class DisplayMode(StrEnum):
    """How an editor wants to see a terminal.

    `META`: in `_meta`, as Zed does; `TEXT`: as any text; `V2`: as the draft of ACP v2.
    """

    META = "meta"
    TEXT = "text"
    V2 = "v2"


@frozen
class DisplayedTerminal:
    """A terminal in a tool call; `told` is all that the agent has said about that call."""

    session: str
    call: str
    terminal: HostedTerminal
    told: Callable[[], Update]

    def update(self, **fields: object) -> Update:
        """Something about the tool call."""
        return {"sessionUpdate": "tool_call_update", "toolCallId": self.call, **fields}


@frozen
class OutputDelta:
    """What was printed since, after `skipped` bytes that are left out."""

    data: bytes
    skipped: int
    decode: Callable[[bytes], str]

    @property
    def gap(self) -> str:
        """What stands for the bytes that are left out."""
        return f"\n⟨{self.skipped} bytes are not shown⟩\n" if self.skipped else ""


class DisplayFormat(Protocol):
    """One way to show a terminal: `most` bytes at once, and `pause` seconds between two updates."""

    pause: float
    most: int

    def embedded(self, shown: DisplayedTerminal, update: Update) -> Update | None:
        """The agent's own update, as the editor shall get it; `None` leaves it."""
        ...

    def begun(self, shown: DisplayedTerminal) -> Iterator[Update]:
        """What is told before any output."""
        ...

    def grown(self, shown: DisplayedTerminal, grown: OutputDelta) -> Iterator[Update]:
        """What is told when there is more."""
        ...

    def ended(self, shown: DisplayedTerminal) -> Iterator[Update]:
        """What is told at the end."""
        ...


class MetaFormat:
    """Beside the tool call, in `_meta`: the editor has a terminal that only displays."""

    pause = 0.1
    most = 64 * 1024

    def embedded(self, shown: DisplayedTerminal, update: Update) -> Update:
        """See `DisplayFormat`. Only a whole `tool_call` makes such a terminal."""
        terminal = shown.terminal
        info = {"terminal_id": terminal.id, "cwd": terminal.run.surroundings.cwd}
        meta = update.get("_meta")
        return {
            "title": typed(terminal),
            **shown.told(),
            **{name: value for name, value in update.items() if value is not None},
            "sessionUpdate": "tool_call",
            "_meta": {**(meta if isinstance(meta, dict) else {}), "terminal_info": info},
        }

    def begun(self, _: DisplayedTerminal) -> Iterator[Update]:
        """See `DisplayFormat`."""
        return iter(())

    def grown(self, shown: DisplayedTerminal, grown: OutputDelta) -> Iterator[Update]:
        """See `DisplayFormat`."""
        yield self._output(shown, grown.gap + grown.decode(grown.data))

    def ended(self, shown: DisplayedTerminal) -> Iterator[Update]:
        """See `DisplayFormat`."""
        if note := shown.terminal.note():
            yield self._output(shown, note)
        code, name = _exit(shown.terminal)
        said = {"terminal_id": shown.terminal.id, "exit_code": code, "signal": name}
        yield shown.update(_meta={"terminal_exit": said})

    def _output(self, shown: DisplayedTerminal, data: str) -> Update:
        said = {"terminal_id": shown.terminal.id, "data": data}
        return shown.update(_meta={"terminal_output": said})


class V2Format:
    """As updates of its own. Experimental: the draft of ACP v2 changes."""

    pause = 0.1
    most = 64 * 1024

    def embedded(self, _: DisplayedTerminal, __: Update) -> None:
        """See `DisplayFormat`."""

    def begun(self, shown: DisplayedTerminal) -> Iterator[Update]:
        """See `DisplayFormat`."""
        terminal = shown.terminal
        yield _v2(terminal, command=typed(terminal), cwd=terminal.run.surroundings.cwd)

    def grown(self, shown: DisplayedTerminal, grown: OutputDelta) -> Iterator[Update]:
        """See `DisplayFormat`."""
        yield _v2_output(shown.terminal, grown.gap.encode() + grown.data)

    def ended(self, shown: DisplayedTerminal) -> Iterator[Update]:
        """See `DisplayFormat`."""
        if note := shown.terminal.note():
            yield _v2_output(shown.terminal, note.encode())
        code, name = _exit(shown.terminal)
        yield _v2(shown.terminal, exitStatus={"exitCode": code, "signal": name})


class TextFormat:
    """As a text in the tool call, which every editor can show."""

    pause = 1.0
    most = BEHIND  # the text has the end in any case

    def __init__(self, find: Callable[[object], HostedTerminal | None]) -> None:
        self._find = find

    def embedded(self, _: DisplayedTerminal, update: Update) -> Update:
        """See `DisplayFormat`."""
        return {**update, "content": self._as_text(update["content"])}

    def begun(self, _: DisplayedTerminal) -> Iterator[Update]:
        """See `DisplayFormat`."""
        return iter(())

    def grown(self, shown: DisplayedTerminal, _: OutputDelta) -> Iterator[Update]:
        """See `DisplayFormat`. What has ended is told once, with its end."""
        return self.ended(shown) if shown.terminal.run.outcome is None else iter(())

    def ended(self, shown: DisplayedTerminal) -> Iterator[Update]:
        """See `DisplayFormat`. Unless the agent has put something else there."""
        content = shown.told().get("content", [])
        if any(self._find(item) is shown.terminal for item in content):
            yield shown.update(content=self._as_text(content))

    def _as_text(self, content: list[Any]) -> list[Any]:
        named = ((item, self._find(item)) for item in content)
        return [item if found is None else _text_of(found) for item, found in named]


def typed(terminal: HostedTerminal) -> str:
    """The command, as one would type it."""
    command = terminal.run.command
    return command.text if command.argv is None else shlex.join(command.argv)


def _v2(terminal: HostedTerminal, **fields: object) -> Update:
    return {"sessionUpdate": "terminal_update", "terminalId": terminal.id, **fields}


def _v2_output(terminal: HostedTerminal, data: bytes) -> Update:
    encoded = base64.b64encode(data).decode("ascii")
    return _v2(terminal, sessionUpdate="terminal_output_chunk", data=encoded)


def _exit(terminal: HostedTerminal) -> tuple[int | None, str | None]:
    outcome = terminal.run.outcome
    assert outcome is not None
    return outcome.exit.code, outcome.exit.signal_name


def _text_of(terminal: HostedTerminal) -> dict[str, object]:
    # A secret that is cut in two is not found: what is redacted is read whole.
    seen = terminal.output() if terminal.redact else terminal.output(4 * _TEXT)
    body = clean(seen.output[-_TEXT:].encode()).rstrip("\n")
    cut = "⟨…⟩\n" if seen.truncated or len(seen.output) > _TEXT else ""
    code, name = (None, None) if terminal.run.outcome is None else _exit(terminal)
    end = "" if terminal.run.outcome is None else f"\n⟨{name or code}⟩"
    told = f"$ {typed(terminal)}\n{cut}{body}{end}"
    return {"type": "content", "content": {"type": "text", "text": fenced(told)}}
