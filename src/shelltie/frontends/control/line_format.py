"""Wire format of the control socket: a JSON object a line, request and response. Pure.

A request is `{"shelltie": 1, "do": NAME, …}`, its answer `{"shelltie": 1, "ok": true, …}` or
`{"shelltie": 1, "ok": false, "code": CODE, "message": TEXT}`.
"""

import json
from collections.abc import Mapping

VERSION = 1
REQUEST_MAX = 64 * 1024
ANSWER_MAX = 128 * 1024 * 1024

MessageFields = Mapping[str, object]


class NotOurMessage(ValueError):
    """A line that is none of ours, in words for whoever sent it."""


def request(do: str, fields: MessageFields) -> bytes:
    """A request as a line."""
    return _line({"shelltie": VERSION, "do": do, **fields})


def answer(fields: MessageFields) -> bytes:
    """An answer as a line."""
    return _line({"shelltie": VERSION, "ok": True, **fields})


def failure(code: str, message: str) -> bytes:
    """An answer that nothing was done, and why."""
    return _line({"shelltie": VERSION, "ok": False, "code": code, "message": message})


def understood(line: bytes) -> dict[str, object]:
    """The object in a line.

    Raises: NotOurMessage.
    """
    try:
        found = json.loads(line)
    except (ValueError, RecursionError):
        raise NotOurMessage("a line must be a JSON object") from None
    if not isinstance(found, dict):
        raise NotOurMessage("a line must be a JSON object")
    if found.get("shelltie") != VERSION:
        raise NotOurMessage(
            f'this server speaks version {VERSION}: begin with {{"shelltie": {VERSION}, …'
        )
    return found


def _line(fields: MessageFields) -> bytes:
    return json.dumps(fields).encode("ascii") + b"\n"
