"""JSON-RPC dispatch of ACP's five `terminal/*` methods: parameters, results, error codes."""

import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, TypeVar

from shelltie.approval.broker import Channel
from shelltie.basics import validate
from shelltie.basics.frozen import frozen
from shelltie.errors import (
    CannotStart,
    CommandDenied,
    InvalidParameters,
    KillFailed,
    NoCapability,
    ProcessError,
    TerminalError,
    TooManyTerminals,
    parameter,
)
from shelltie.frontends.acp.protocol import TerminalExit, known, variables
from shelltie.frontends.acp.terminal_host import TerminalHost
from shelltie.frontends.reports.run_report import refusal_report

DECIDE_TRIAL = "_shelltie/trial"  # an extension of ours: ACP has them begin like this
METHOD_NOT_FOUND = -32601
INVALID_PARAMS = -32602
INTERNAL_ERROR = -32603
CANCELLED = -32800

_log = logging.getLogger(__name__)

_Value = TypeVar("_Value")
_OBJECT = validate.of_kind(dict, "an object")
_BYTES = validate.count_of("bytes")

MethodParams = Mapping[str, Any]
Asking = Callable[[str], Channel]


@frozen
class RpcError:
    """A JSON-RPC error; `data` has a stable name for programs."""

    code: int
    message: str
    data: dict[str, object]

    def to_json(self) -> dict[str, object]:
        """The object that goes on the wire."""
        return {"code": self.code, "message": self.message, "data": self.data}


def problem(error: TerminalError) -> RpcError:
    """What whoever asked is told about an error of ours."""
    data: dict[str, object] = {"error": type(error).__name__, "code": error.code}
    if isinstance(error, CommandDenied):
        data |= refusal_report(error)
    if isinstance(error, KillFailed):
        data["pids"] = list(error.pids)
    if isinstance(error, NoCapability):
        return RpcError(METHOD_NOT_FOUND, str(error), data)
    ours = isinstance(error, CannotStart | ProcessError | TooManyTerminals)
    return RpcError(INTERNAL_ERROR if ours else INVALID_PARAMS, str(error), data)


class Rpc:
    """The five methods and ours, by name. `asking` gives a way to a person for a session."""

    def __init__(
        self, host: TerminalHost, *, asking: Asking | None = None, null_result: bool = False
    ) -> None:
        self._host = host
        self._asking = asking
        self._empty: dict[str, object] | None = None if null_result else {}
        self._methods: dict[str, Callable[[MethodParams], Awaitable[dict[str, object] | None]]] = {
            "terminal/create": self._create,
            "terminal/output": self._output,
            "terminal/wait_for_exit": self._wait,
            "terminal/kill": self._kill,
            "terminal/release": self._release,
            DECIDE_TRIAL: self._decide_trial,
        }

    async def answer(self, method: str, params: object) -> dict[str, object]:
        """`{"result": …}` or `{"error": …}`; whatever was asked, there is one."""
        perform = self._methods.get(method)
        if perform is None:
            data: dict[str, object] = {"method": method}
            return {"error": RpcError(METHOD_NOT_FOUND, "Method not found", data).to_json()}
        try:
            return {"result": await perform(parameter("params", params, _OBJECT))}
        except TerminalError as error:
            return {"error": problem(error).to_json()}
        except Exception:  # noqa: BLE001  the connection lives on, whatever it was
            _log.exception("%s failed", method)
            said = "this is a fault of shelltie itself; please report it"
            return {"error": RpcError(INTERNAL_ERROR, said, {"error": "Internal"}).to_json()}

    async def _create(self, params: MethodParams) -> dict[str, object]:
        session = _text(params, "sessionId")
        made = await self._host.create_terminal(
            session,
            _text(params, "command"),
            _optional(params, "args", validate.texts),
            variables(params.get("env")),
            _optional(params, "cwd", validate.text),
            _optional(params, "outputByteLimit", _BYTES),
            channel=None if self._asking is None else self._asking(session),
            **_meta(params),
        )
        return {"terminalId": made.terminal_id, "_meta": made.field_meta}

    async def _decide_trial(self, params: MethodParams) -> dict[str, object]:
        session = _text(params, "sessionId")
        return await self._host.decide_trial(
            session,
            _text(params, "id"),
            _text(params, "action"),
            _optional(params, "paths", validate.texts),
            channel=None if self._asking is None else self._asking(session),
        )

    async def _output(self, params: MethodParams) -> dict[str, object]:
        seen = await self._host.terminal_output(*_ids(params))
        answer: dict[str, object] = {"output": seen.output, "truncated": seen.truncated}
        if seen.exit_status is not None:
            answer["exitStatus"] = _exit(seen.exit_status)
        return {**answer, "_meta": seen.field_meta}

    async def _wait(self, params: MethodParams) -> dict[str, object]:
        ended = await self._host.wait_for_terminal_exit(*_ids(params), **_meta(params))
        return {**_exit(ended), "_meta": ended.field_meta}

    async def _kill(self, params: MethodParams) -> dict[str, object] | None:
        await self._host.kill_terminal(*_ids(params), **_meta(params))
        return self._empty

    async def _release(self, params: MethodParams) -> dict[str, object] | None:
        await self._host.release_terminal(*_ids(params))
        return self._empty


def _exit(ended: TerminalExit) -> dict[str, object]:
    return {"exitCode": ended.exit_code, "signal": ended.signal}


# What was asked for


def _ids(params: MethodParams) -> tuple[str, str]:
    return _text(params, "sessionId"), _text(params, "terminalId")


def _text(params: MethodParams, name: str) -> str:
    if params.get(name) is None:
        raise InvalidParameters(f"{name} is missing")
    return parameter(name, params[name], validate.text)


def _optional(params: MethodParams, name: str, check: Callable[[object], _Value]) -> _Value | None:
    return None if params.get(name) is None else parameter(name, params[name], check)


def _meta(params: MethodParams) -> dict[str, Any]:
    return known(_optional(params, "_meta", _OBJECT) or {})
