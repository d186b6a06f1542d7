"""Streams the output of our terminals to the editor as `session/update` of tool calls."""

from contextlib import suppress

from anyio.abc import TaskGroup

from shelltie.frontends.acp.display_formats import (
    DisplayedTerminal,
    DisplayFormat,
    DisplayMode,
    MetaFormat,
    TextFormat,
    Update,
    V2Format,
)
from shelltie.frontends.acp.jsonrpc import LineWriter
from shelltie.frontends.acp.output_follower import TerminalFollower
from shelltie.frontends.acp.terminal import HostedTerminal
from shelltie.frontends.acp.terminal_host import TerminalHost

_REMEMBERED = 200  # tool calls, and terminals in them
_TOLD = ("title", "kind", "status")


class Display:
    """Rewrites what an agent says about tool calls, and tells the editor how terminals go on."""

    def __init__(self, host: TerminalHost, editor: LineWriter, tasks: TaskGroup) -> None:
        self.mode = DisplayMode.TEXT
        self._host = host
        self._editor = editor
        self._tasks = tasks
        self._looks: dict[DisplayMode, DisplayFormat] = {
            DisplayMode.META: MetaFormat(),
            DisplayMode.TEXT: TextFormat(self._named),
            DisplayMode.V2: V2Format(),
        }
        self._calls: dict[tuple[str, str], Update] = {}
        self._followed: dict[tuple[str, str, str], TerminalFollower] = {}
        self._between_turns: set[str] = set()

    @property
    def is_live(self) -> bool:
        """Whether the editor draws what it is told as a terminal does."""
        return self.mode is not DisplayMode.TEXT

    def rewrite(self, session: object, update: object) -> Update | None:
        """The update as the editor shall get it; `None` if it may stay as it is."""
        if not isinstance(session, str) or not isinstance(update, dict):
            return None
        call = update.get("toolCallId")
        if not isinstance(call, str):
            return None
        content = update.get("content")
        named = map(self._named, content if isinstance(content, list) else ())
        terminals = [terminal for terminal in named if terminal is not None]
        self._remember(session, call, update, embeds=bool(terminals))
        every = [
            DisplayedTerminal(session, call, terminal, lambda: self._calls.get((session, call), {}))
            for terminal in terminals
        ]
        rewritten = self._look_of(every[0]).embedded(every[0], update) if every else None
        for shown in every:
            self._begin_to_follow(shown)
        return rewritten

    def _named(self, item: object) -> HostedTerminal | None:
        """The terminal that an item of a tool call shows; a released one still is one."""
        match item:
            case {"type": "terminal", "terminalId": str(name)}:
                followed = (follower.shown.terminal for follower in self._followed.values())
                released = (terminal for terminal in followed if terminal.id == name)
                return self._host.find(name) or next(released, None)
            case _:
                return None

    def _look_of(self, shown: DisplayedTerminal) -> DisplayFormat:
        """Secrets are found in whole texts only, not in pieces of a stream."""
        return self._looks[DisplayMode.TEXT if shown.terminal.redact else self.mode]

    def _remember(self, session: str, call: str, update: Update, *, embeds: bool) -> None:
        """A tool call is told in pieces; some editors want all of it in the one with a terminal."""
        known = self._calls.pop((session, call), {})
        fresh = {name: update[name] for name in _TOLD if update.get(name) is not None}
        if update.get("content") is not None:
            fresh["content"] = update["content"] if embeds else []
        self._calls[session, call] = {**known, **fresh}
        if len(self._calls) > _REMEMBERED:
            del self._calls[next(iter(self._calls))]

    # How it goes on

    def _begin_to_follow(self, shown: DisplayedTerminal) -> None:
        key = shown.session, shown.call, shown.terminal.id
        if key in self._followed or not self._make_room():
            return
        held = shown.session in self._between_turns
        follower = TerminalFollower(shown, self._look_of(shown), self._tell, held=held)
        self._followed[key] = follower
        self._tasks.start_soon(self._follow, follower)

    def _make_room(self) -> bool:
        """Forget one that is over; whether there is room for another."""
        if len(self._followed) < _REMEMBERED:
            return True
        over = next((key for key, one in self._followed.items() if one.over), None)
        if over is not None:
            del self._followed[over]
        return over is not None

    async def _follow(self, follower: TerminalFollower) -> None:
        with suppress(OSError):  # the editor has left, and with it everybody who looks
            await follower.follow()

    async def _tell(self, session: str, update: Update) -> None:
        params = {"sessionId": session, "update": update}
        await self._editor.write_message(
            {"jsonrpc": "2.0", "method": "session/update", "params": params}
        )

    # Turns

    def begin_turn(self, session: str) -> None:
        """The editor has sent a prompt: what still runs may be told of again."""
        self._between_turns.discard(session)
        for follower in self._of_session(session):
            follower.resume()

    async def end_turn(self, session: str) -> None:
        """Tell the rest before the answer to the prompt, and nothing after it.

        Raises: OSError.
        """
        self._between_turns.add(session)
        for follower in self._of_session(session):
            await follower.hold()

    async def end_call(self, session: object, update: object) -> None:
        """Tell the rest of a tool call before the agent says that it has ended.

        Raises: OSError.
        """
        match update:
            case {"toolCallId": str(call), "status": "completed" | "failed"}:
                for follower in self._of_session(session):
                    if follower.shown.call == call:
                        await follower.catch_up()
            case _:
                pass

    async def end_terminal(self, terminal_id: object) -> None:
        """Tell the rest of a terminal before its release is answered."""
        with suppress(OSError):
            for follower in tuple(self._followed.values()):
                if follower.shown.terminal.id == terminal_id:
                    await follower.catch_up()

    def _of_session(self, session: object) -> list[TerminalFollower]:
        return [one for one in self._followed.values() if one.shown.session == session]
