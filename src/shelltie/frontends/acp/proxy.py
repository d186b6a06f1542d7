"""ACP proxy between editor and agent: forwards messages, and answers `terminal/*` itself."""

import logging
import secrets
from collections import deque
from collections.abc import Mapping
from contextlib import suppress
from enum import StrEnum
from functools import partial
from typing import Any

import anyio
from anyio.abc import TaskGroup

from shelltie.approval.broker import UNREACHED, Later
from shelltie.approval.question import Answer, Question
from shelltie.environment import child
from shelltie.frontends.acp.display import Display
from shelltie.frontends.acp.display_formats import DisplayMode
from shelltie.frontends.acp.jsonrpc import (
    INVALID_REQUEST,
    PARSE_ERROR,
    AmbiguousMessage,
    LineWriter,
    as_line,
    error_line,
    one_line,
    parse_or_none,
    parse_strict,
)
from shelltie.frontends.acp.methods import CANCELLED, DECIDE_TRIAL, INTERNAL_ERROR, Rpc
from shelltie.frontends.acp.own_commands import with_server
from shelltie.frontends.acp.permission import permission_answer, request_for
from shelltie.frontends.acp.terminal_host import TerminalHost
from shelltie.model import TerminalSize

_IN_FLIGHT = 1000  # requests for terminals that have no answer yet
_PENDING = 10_000  # requests of the editor whose answer tells us of a session
_WITHDRAWN = 1000  # questions of ours that were taken back
_TAKE_BACK = 1.0
_CANCEL = "$/cancel_request"
_PROMPT = "session/prompt"
_OPENS = ("session/new", "session/load", "session/resume", "session/fork")
_CLOSES = ("session/close", "session/delete")

_log = logging.getLogger(__name__)

JsonMessage = dict[str, Any]


class Serve(StrEnum):
    """Whose terminals an agent gets: ours `ALWAYS`, or only where the editor has none."""

    ALWAYS = "always"
    MISSING = "missing"


class Proxy:
    """One conversation. `wanted` is how terminals are displayed; `None` looks at the editor.

    `pty` is whether they are real ones; `mcp` is a server that every session gets.
    """

    def __init__(
        self,
        host: TerminalHost,
        editor: LineWriter,
        agent: LineWriter,
        tasks: TaskGroup,
        *,
        serve: Serve = Serve.ALWAYS,
        wanted: DisplayMode | None = None,
        pty: str = "auto",
        mcp: JsonMessage | None = None,
        null_result: bool = False,
    ) -> None:
        self._host = host
        self._editor = editor
        self._agent = agent
        self._tasks = tasks
        self._serve = serve
        self._wanted = wanted
        self._pty = pty
        self._mcp = mcp
        self._serving = True  # who asks before the two have shaken hands is refused by the host
        self._display = Display(host, editor, tasks)
        self._rpc = Rpc(host, asking=partial(_EditorChannel, self), null_result=null_result)
        self._flights: dict[str, anyio.CancelScope] = {}
        self._questions: dict[str, _OpenRequest] = {}
        # A question that was taken back is answered all the same, as JSON-RPC wants it.
        self._withdrawn: deque[str] = deque(maxlen=_WITHDRAWN)
        self._noted: dict[str, JsonMessage] = {}

    # From the editor

    async def from_editor(self, line: bytes | None) -> None:
        """Hand a line on to the agent.

        Raises: OSError when the agent does not read any more.
        """
        if line is None:
            await self._editor.write_line(error_line(None, INVALID_REQUEST, "the line is too long"))
            return
        message = parse_or_none(line)
        if message is not None and self._is_ours(message):
            return
        changed = None if message is None else self._note(message)
        await self._agent.write_line(line + b"\n" if changed is None else as_line(changed))

    def _is_ours(self, message: JsonMessage) -> bool:
        """An answer to what we asked; nobody else knows these ids."""
        if "method" in message or not isinstance(message.get("id"), str):
            return False
        asked = self._questions.get(message["id"])
        if asked is not None:
            asked.answer(message.get("result"), by_editor=True)
        return asked is not None or message["id"] in self._withdrawn

    def _note(self, message: JsonMessage) -> JsonMessage | None:
        """Remember what concerns terminals; the message if it has to be another one."""
        method, params = message.get("method"), message.get("params")
        if not isinstance(params, dict) or "id" not in message:
            return None
        if method == "initialize":
            return self._initialize(message, params)
        if method in (*_OPENS, *_CLOSES, _PROMPT) and len(self._noted) < _PENDING:
            self._noted[_key(message["id"])] = {"method": method, "params": params}
        if method == _PROMPT:
            self._display.begin_turn(str(params.get("sessionId")))
        if method in _OPENS[1:3]:  # their sessions exist already, and may speak before the answer
            self._open(params.get("sessionId"), params)
        served = with_server(params, self._mcp) if self._mcp and method in _OPENS else None
        return None if served is None else {**message, "params": served}

    def _initialize(self, message: JsonMessage, params: JsonMessage) -> JsonMessage | None:
        offered = params.get("clientCapabilities")
        capabilities = offered if isinstance(offered, dict) else {}
        has = capabilities.get("terminal") is True
        self._serving = self._serve is Serve.ALWAYS or not has
        self._host.offered = self._serving
        info = params.get("clientInfo")
        name = info.get("name") if isinstance(info, dict) else None
        self._host.client = name[:100] if isinstance(name, str) else ""
        self._display.mode = self._wanted or _mode_for(capabilities)
        if self._pty == "always" or (self._pty == "auto" and self._display.is_live):
            self._host.pty = TerminalSize()
        # v2 has none of this; an editor that offers it may still come to speak v1.
        if not self._serving or has or (offered is None and params.get("protocolVersion") != 1):
            return None
        changed = {**capabilities, "terminal": True}
        return {**message, "params": {**params, "clientCapabilities": changed}}

    # From the agent

    async def from_agent(self, line: bytes | None) -> None:
        """Hand a line on to the editor, or do what it asks for.

        Raises: OSError when the editor does not read any more.
        """
        if line is None:
            await self._refuse(None, INVALID_REQUEST, "the line is too long")
            return
        try:
            message = parse_strict(line)
        except AmbiguousMessage as error:
            _log.warning("a line of the agent was not handed on: %s", error)
            await self._refuse(None, PARSE_ERROR, f"not handed on: {error}")
            return
        if not await self._take(message):
            await self._tell_the_rest(message)
            changed = self._watch(message)
            await self._editor.write_line(one_line(line) if changed is None else as_line(changed))
            # Once more: a call may end with the very update that first shows a terminal.
            await self._tell_the_rest(message)

    async def _take(self, message: JsonMessage) -> bool:
        """Whether it was meant for us."""
        method = message.get("method")
        if method == _CANCEL:
            return self._cancel(message.get("params"))
        if not self._serving or not isinstance(method, str):
            return False
        if not method.startswith("terminal/") and method != DECIDE_TRIAL:
            return False
        if "id" not in message:
            _log.warning("%s without an id is not answered, and not done", method)
        elif len(self._flights) >= _IN_FLIGHT or _key(message["id"]) in self._flights:
            reason = "too many requests are without an answer, or one with this id is"
            await self._refuse(message["id"], INTERNAL_ERROR, reason)
        else:
            scope = self._flights[_key(message["id"])] = anyio.CancelScope()
            self._tasks.start_soon(self._answer, message, method, scope)
        return True

    async def _answer(self, message: JsonMessage, method: str, scope: anyio.CancelScope) -> None:
        cancelled = {"code": CANCELLED, "message": "Request cancelled"}
        answer: Mapping[str, object] = {"error": cancelled}
        try:
            with scope:
                answer = await self._rpc.answer(method, message.get("params"))
            if method == "terminal/release" and "result" in answer:
                await self._display.end_terminal(message["params"].get("terminalId"))
        finally:
            self._flights.pop(_key(message["id"]), None)
        with suppress(OSError):  # it has left; whoever waits for its end knows
            await self._agent.write_message({"jsonrpc": "2.0", "id": message["id"], **answer})

    def _cancel(self, params: object) -> bool:
        """To stop waiting ends no terminal; what is not ours is the editor's."""
        request = params.get("requestId") if isinstance(params, dict) else None
        scope = self._flights.get(_key(request))
        if scope is not None:
            scope.cancel()
        return scope is not None

    async def _tell_the_rest(self, message: JsonMessage) -> None:
        """Before a call or a turn ends, the editor is told all of its terminals."""
        params = message.get("params")
        if message.get("method") == "session/update" and isinstance(params, dict):
            await self._display.end_call(params.get("sessionId"), params.get("update"))
        elif "method" not in message:
            noted = self._noted.get(_key(message.get("id")), {})
            session = str(noted.get("params", {}).get("sessionId"))
            if noted.get("method") == _PROMPT and not self._has_another_turn(session):
                # The turn is over: what it still asks is refused.
                for asked in self._questions.values():
                    if asked.session == session:
                        asked.answer({"outcome": {"outcome": "cancelled"}}, by_editor=False)
                await self._display.end_turn(session)

    def _has_another_turn(self, session: str) -> bool:
        prompts = (noted["params"] for noted in self._noted.values() if noted["method"] == _PROMPT)
        return [params.get("sessionId") for params in prompts].count(session) > 1

    def _watch(self, message: JsonMessage) -> JsonMessage | None:
        """Learn of sessions, and show our terminals; the message if it has to be another one."""
        if "method" not in message:
            self._learn(message)
            return None
        params = message.get("params")
        if not self._serving or not isinstance(params, dict):
            return None
        name = {"session/update": "update", "session/request_permission": "toolCall"}.get(
            str(message["method"])
        )
        if name is None:
            return None
        update = self._display.rewrite(params.get("sessionId"), params.get(name))
        if update is None:
            return None
        if name == "toolCall":
            update.pop("sessionUpdate", None)
        return {**message, "params": {**params, name: update}}

    def _learn(self, answer: JsonMessage) -> None:
        noted = self._noted.pop(_key(answer.get("id")), None)
        result = answer.get("result")
        if noted is None or "error" in answer or noted["method"] == _PROMPT:
            return
        params = noted["params"]
        if noted["method"] in _CLOSES:
            self._tasks.start_soon(self._host.close_session, str(params.get("sessionId")))
            return
        session = result.get("sessionId") if isinstance(result, dict) else None
        self._open(session or params.get("sessionId"), params)

    def _open(self, session: object, params: JsonMessage) -> None:
        cwd = params.get("cwd")
        if isinstance(session, str) and isinstance(cwd, str):
            self._host.open_session(session, cwd)

    async def _refuse(self, request: object, code: int, message: str) -> None:
        with suppress(OSError):
            await self._agent.write_line(error_line(request, code, message))

    # Questions to the editor

    async def ask(self, params: JsonMessage) -> object:
        """The editor's answer to a permission request of ours."""
        request = f"shelltie-{secrets.token_hex(16)}"
        asked = self._questions[request] = _OpenRequest(params["sessionId"])
        message = {"jsonrpc": "2.0", "id": request, "method": "session/request_permission"}
        try:
            await self._editor.write_message({**message, "params": params})
            await asked.over.wait()
        finally:
            del self._questions[request]
            if not asked.by_editor:
                self._withdrawn.append(request)
                await self._take_back(request)
        return asked.result

    async def _take_back(self, request: str) -> None:
        """Somebody else was faster, or nobody wants it any more."""
        params = {"requestId": request}
        with anyio.move_on_after(_TAKE_BACK, shield=True), suppress(OSError):
            await self._editor.write_message(
                {"jsonrpc": "2.0", "method": _CANCEL, "params": params}
            )


class _OpenRequest:
    """A question to the editor that waits for its answer."""

    def __init__(self, session: str) -> None:
        self.session = session
        self.over = anyio.Event()
        self.by_editor = False
        self.result: object = None

    def answer(self, result: object, *, by_editor: bool) -> None:
        if not self.over.is_set():
            self.result, self.by_editor = result, by_editor
            self.over.set()


class _EditorChannel:
    """Asks the person in front of the editor."""

    name = "the editor"
    can_ask = True

    def __init__(self, proxy: Proxy, session: str) -> None:
        self._proxy = proxy
        self._session = session

    async def ask(self, question: Question) -> Answer | Later:
        """See `Channel`. An editor that answers with an error has asked nobody."""
        hidden = child.sift(child.inherited()).secrets
        asked = await request_for(question, self._session, secrets.token_hex(16), hidden)
        return permission_answer(asked, await self._proxy.ask(asked), self.name) or UNREACHED


def _key(request: object) -> str:
    """1 and "1" are two ids."""
    return repr(request)


def _mode_for(capabilities: JsonMessage) -> DisplayMode:
    meta = capabilities.get("_meta")
    return (
        DisplayMode.META
        if isinstance(meta, dict) and meta.get("terminal_output") is True
        else DisplayMode.TEXT
    )
