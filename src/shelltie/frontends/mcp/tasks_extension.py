"""MCP tasks extension (2026): a long call is answered with a task handle, to be polled.

Only for clients that declare it. What is quick is answered as ever; what takes longer goes on
without its request, and the client asks for it with `tasks/get`. Its limits hold.
"""

import logging
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any
from uuid import uuid4

import anyio
from anyio.abc import TaskGroup
from mcp.server.lowlevel import Server
from mcp.shared.exceptions import MCPError
from mcp.shared.inbound import MCP_NAME_HEADER, decode_header_value
from mcp_types import (
    HEADER_MISMATCH,
    INTERNAL_ERROR,
    INVALID_PARAMS,
    MISSING_REQUIRED_CLIENT_CAPABILITY,
    CallToolResult,
    EmptyResult,
    ErrorData,
    InputRequiredResult,
    InputResponses,
    RequestParams,
)
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from shelltie.basics.times import human_duration, iso_utc
from shelltie.frontends.mcp.request import RequestContext, owner_of

EXTENSION = "io.modelcontextprotocol/tasks"
QUICK = 2.0  # seconds; what takes no longer is worth waiting for
KEPT = 600.0  # seconds for which the end of a task can be asked for
_POLL = 1.0
_TASKS_MAX = 100

_log = logging.getLogger(__name__)

Work = Callable[[], Awaitable[CallToolResult]]
Finish = Callable[[CallToolResult], CallToolResult | InputRequiredResult]
ToolAnswer = CallToolResult | InputRequiredResult | dict[str, Any]


@dataclass(slots=True, eq=False)
class _Task:
    """A call that goes on without its request."""

    owner: str
    tool: str
    id: str = field(default_factory=lambda: str(uuid4()))
    began: float = field(default_factory=time.time)
    ended: float | None = None
    result: CallToolResult | None = None
    error: ErrorData | None = None
    scope: anyio.CancelScope = field(default_factory=anyio.CancelScope)
    over: anyio.Event = field(default_factory=anyio.Event)

    async def carry_out(self, work: Work) -> None:
        """Whatever happens in it stays in it."""
        try:
            with self.scope:
                self.result = await work()
        except MCPError as error:
            self.error = error.error
        except Exception:  # noqa: BLE001  the server lives on, whatever it was
            _log.exception("the task of a call of `%s` failed", self.tool)
            self.error = ErrorData(code=INTERNAL_ERROR, message="shelltie failed: see its stderr")
        finally:
            self.ended = time.time()
            self.over.set()

    @property
    def status(self) -> str:
        """A tool that fails has completed; only a protocol error is a failure."""
        if self.ended is None:
            return "working"
        if self.error is not None:
            return "failed"
        return "cancelled" if self.result is None else "completed"

    def told(self) -> dict[str, Any]:
        """What every message about it says."""
        until = self.ended or time.time()
        kept = None if self.ended is None else round((until - self.began + KEPT) * 1000)
        lasted = human_duration(until - self.began)
        said = f"`{self.tool}` has run for {lasted}" if self.ended is None else f"took {lasted}"
        return {
            "taskId": self.id,
            "status": self.status,
            "statusMessage": said,
            "createdAt": iso_utc(self.began),
            "lastUpdatedAt": iso_utc(until),
            "ttlMs": kept,
            "pollIntervalMs": round(_POLL * 1000),
        }

    def detailed(self) -> dict[str, Any]:
        """With what came of it."""
        known = {"result": self.result, "error": self.error}
        return self.told() | {
            name: one.model_dump(by_alias=True, mode="json", exclude_none=True)
            for name, one in known.items()
            if one is not None
        }


class Tasks:
    """All tasks of a server; each client knows its own."""

    def __init__(self) -> None:
        self._tasks: dict[str, _Task] = {}

    async def answer(
        self, context: RequestContext, owner: str, tool: str, work: Work, finish: Finish
    ) -> ToolAnswer:
        """The result of a call that is quick, or else a task. Whoever is cancelled here ends it.

        `finish` makes of a result what a call, but not a task, can return.
        """
        group: TaskGroup = context.lifespan_context
        task = _Task(owner, tool)
        group.start_soon(task.carry_out, work)
        try:
            with anyio.move_on_after(QUICK if self._make_room() else None):
                await task.over.wait()
        except BaseException:
            task.scope.cancel()
            raise
        if task.error is not None:
            raise MCPError.from_error_data(task.error)
        if task.result is not None:
            return finish(task.result)
        self._tasks[task.id] = task
        return {"resultType": "task", **task.told()}

    def find(self, task: str, context: RequestContext) -> dict[str, Any]:
        """How it is going.

        Raises: MCPError.
        """
        return self._find(task, context).detailed()

    def cancel(self, task: str, context: RequestContext) -> None:
        """End everything that it started; one that has ended stays as it is.

        Raises: MCPError.
        """
        self._find(task, context).scope.cancel()

    def end_all(self, owner: str) -> None:
        """Its client has left."""
        for task in [one for one in self._tasks.values() if one.owner == owner]:
            task.scope.cancel()
            del self._tasks[task.id]

    def _find(self, task: str, context: RequestContext) -> _Task:
        must_declare(context)
        self._expire()
        found = self._tasks.get(task)
        if found is None or found.owner != owner_of(context):
            advice = f"it never was, or ended more than {human_duration(KEPT)} ago"
            raise MCPError(INVALID_PARAMS, f"Task not found: {advice}")
        return found

    def _make_room(self) -> bool:
        self._expire()
        ended = [task.id for task in self._tasks.values() if task.ended is not None]
        for task in ended[: max(0, len(self._tasks) - _TASKS_MAX + 1)]:
            del self._tasks[task]
        return len(self._tasks) < _TASKS_MAX

    def _expire(self) -> None:
        oldest = time.time() - KEPT
        for task in [one for one in self._tasks.values() if (one.ended or oldest) < oldest]:
            del self._tasks[task.id]


def declares(context: RequestContext) -> bool:
    """Whether this request can be answered with a task."""
    capabilities = context.session.client_capabilities
    known = None if capabilities is None else capabilities.extensions
    modern = context.protocol_version in MODERN_PROTOCOL_VERSIONS
    return modern and known is not None and EXTENSION in known


def must_declare(context: RequestContext) -> None:
    """Raises: MCPError unless it does."""
    if not declares(context):
        needed: dict[str, Any] = {"requiredCapabilities": {"extensions": {EXTENSION: {}}}}
        message = "Missing required client capability"
        raise MCPError(MISSING_REQUIRED_CLIENT_CAPABILITY, message, needed)


class _Named(RequestParams):
    task_id: str


class _Update(_Named):
    input_responses: InputResponses


def add_tasks(server: Server[Any], tasks: Tasks) -> None:
    """Have a server offer them."""

    async def get(context: RequestContext, params: _Named) -> dict[str, Any]:
        _must_name(context, params.task_id)
        return tasks.find(params.task_id, context)

    async def cancel(context: RequestContext, params: _Named) -> EmptyResult:
        _must_name(context, params.task_id)
        tasks.cancel(params.task_id, context)
        return EmptyResult()

    async def update(context: RequestContext, params: _Update) -> EmptyResult:
        _must_name(context, params.task_id)
        # A person is asked before there is a task: no task waits for any of this.
        tasks.find(params.task_id, context)
        return EmptyResult()

    server.extensions[EXTENSION] = {}
    server.add_request_handler("tasks/get", _Named, get)
    server.add_request_handler("tasks/cancel", _Named, cancel)
    server.add_request_handler("tasks/update", _Update, update)


def _must_name(context: RequestContext, task: str) -> None:
    """Over HTTP a header names the task, so that a proxy can route it without reading the body.

    The SDK looks at this for the methods of the protocol itself (SEP-2243), not of extensions.
    Raises: MCPError.
    """
    if context.request is None:
        return
    if decode_header_value(context.request.headers.get(MCP_NAME_HEADER)) != task:
        problem = f"the {MCP_NAME_HEADER} header must be the request's taskId"
        raise MCPError(HEADER_MISMATCH, problem)
