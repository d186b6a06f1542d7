"""Hook program of agents: reads what a shell tool is about to run, and answers allow, ask or deny.

It runs before each command of an agent, so it is quick: it imports next to nothing and asks a
server of shelltie that runs and has the same settings. Only if there is none it loads the rules and
judges by itself. When it
fails a person is asked, or where nobody can be, the command is denied with the reason: it is never
allowed by accident.
"""

import _socket  # without selectors and enums: a quarter of our time
import json
import os
import signal
import stat
import sys
import time

Fields = dict[str, object]

_INPUT_MAX = 16 * 1024 * 1024
_ASKED_MAX = 60 * 1024  # of a command, over the socket
_PATIENCE = 2.0  # seconds for all servers together
_ALARM = 25  # seconds, before the client gives up: then it would let the command through
_BLOCKED = 2  # the exit code that means no to every client
_SHELL_TOOLS = {
    "claude": ("PreToolUse", "Bash"),
    "codex": ("PreToolUse", "Bash"),
    "gemini": ("BeforeTool", "run_shell_command"),
    "cursor": ("beforeShellExecution", None),
}
_PERMISSION = "PermissionRequest"
_ASKING = ("claude", "cursor")  # that obey allow and ask; Codex would run it, Gemini CLI hang
_WORDS = ("allow", "ask", "deny", "")
# What settings depend on (`hook_requests`): a server with others does not answer.
_SETTINGS = ("HOME", "PATH", "XDG_CONFIG_HOME", "XDG_STATE_HOME", "ENABLE_TERMINAL_ACCESS")
_SETTINGS_BEGIN = ("SHELLTIE_", "TERMINAL_")
_NOT_SENT = ("SHELLTIE_TOKEN", "SHELLTIE_RUN")
_WAY_OUT = "a person can run it; the tools of shelltie ask one, and can run it on trial"


class _Failed(Exception):
    """Why there is no verdict."""


def main(client: str) -> int:
    """Answer one call of a hook; the exit code."""
    try:
        return _answer_call(client)
    except BaseException:  # noqa: BLE001  nobody can be told: any other code would be a yes
        return _BLOCKED


def _answer_call(client: str) -> int:
    given: Fields = {}
    try:
        signal.signal(signal.SIGALRM, _too_late)
        signal.alarm(_ALARM)
        given = _read()
        command = _command_of(client, given)
        if command is None:
            return 0  # another tool: not ours to judge
        answer, reasons = _ask(client, command, given)
    except _Failed as error:
        return _say(client, "fail", [str(error)], given)
    except Exception as error:  # noqa: BLE001  whatever it is, the command must not just run
        return _say(client, "fail", [f"{type(error).__name__}: {error}"], given)
    finally:
        signal.alarm(0)
    return _say(client, answer, reasons, given)


def _too_late(*_: object) -> None:
    raise _Failed(f"no verdict within {_ALARM} seconds")


def _read() -> Fields:
    text = sys.stdin.buffer.read(_INPUT_MAX + 1) if sys.stdin is not None else b""
    try:
        given = json.loads(text)
    except (ValueError, RecursionError):
        raise _Failed("what the client sent is not JSON") from None
    if len(text) > _INPUT_MAX or not isinstance(given, dict):
        raise _Failed("what the client sent is not a JSON object of less than 16 MiB")
    return given


def _command_of(client: str, given: Fields) -> str | None:
    """The command; None if it is about something else than a shell.

    Raises: _Failed.
    """
    event, tool = _SHELL_TOOLS[client]
    if given.get("hook_event_name") not in (event, _PERMISSION):
        raise _Failed(f"this hook is for {event}, not for {given.get('hook_event_name')!r}")
    if tool is not None and given.get("tool_name") != tool:
        return None
    asked = given.get("tool_input") if tool is not None else given
    command = asked.get("command") if isinstance(asked, dict) else None
    if not isinstance(command, str):
        raise _Failed("there is no command in what the client sent")
    return command


# A verdict


def _ask(client: str, command: str, given: Fields) -> tuple[str, list[str]]:
    cwd = given.get("cwd")
    request = {
        "command": command,
        "cwd": cwd if isinstance(cwd, str) and os.path.isabs(cwd) else os.getcwd(),  # noqa: PTH117, PTH109  pathlib takes a third of our time
        "client": client,
        "session": str(given.get("session_id") or given.get("conversation_id") or ""),
        "recorded": given.get("hook_event_name") == _PERMISSION,  # by the hook before it
    }
    answer = _ask_servers(request) or _judge_here(request)
    reasons = answer.get("reasons")
    told = reasons if isinstance(reasons, list) else []
    return str(answer["answer"]), [str(one) for one in told]


def _ask_servers(request: Fields) -> Fields | None:
    """The first answer of a server of this user."""
    environ = {
        name: value
        for name, value in os.environ.items()  # noqa: TID251  as above
        if name in _SETTINGS or (name.startswith(_SETTINGS_BEGIN) and name not in _NOT_SENT)
    }
    asked = {"shelltie": 1, "do": "hook", "environ": environ, **request}
    line = json.dumps(asked).encode() + b"\n"
    if len(line) > _ASKED_MAX:
        return None
    deadline = time.monotonic() + _PATIENCE
    for path in _sockets():
        if time.monotonic() > deadline:
            return None
        try:
            answer = _exchange(path, line, deadline)
        except (OSError, ValueError):
            continue
        if answer.get("ok") is True and answer.get("answer") in _WORDS:
            return answer
    return None


def _sockets() -> list[str]:
    """Of all servers, the newest first. The same places as in `settings.paths.runtime_dirs`."""
    environ, user = os.environ, os.geteuid()  # noqa: TID251  as above
    only = environ.get("SHELLTIE_RUNTIME_DIR")
    runtime = environ.get("XDG_RUNTIME_DIR") or ""
    places = [only] if only else [f"{runtime}/shelltie" if runtime.startswith("/") else ""]
    places += [] if only else [f"/run/user/{user}/shelltie", f"/tmp/shelltie-{user}"]  # noqa: S108
    found = []
    for place in dict.fromkeys(filter(None, places)):
        try:
            status = os.lstat(place)
            if stat.S_ISDIR(status.st_mode) and status.st_uid == user and not status.st_mode & 0o77:
                found += [(one.stat().st_mtime, one.path) for one in os.scandir(place)]
        except OSError:
            continue
    return [path for _, path in sorted(found, reverse=True) if path.endswith(".sock")]


def _exchange(path: str, line: bytes, deadline: float) -> Fields:
    connection = _socket.socket(_socket.AF_UNIX)
    try:
        connection.settimeout(max(0.1, deadline - time.monotonic()))
        connection.connect(path)
        if sys.platform == "linux":
            peer = connection.getsockopt(_socket.SOL_SOCKET, _socket.SO_PEERCRED, 12)
            if _is_leashed(int.from_bytes(peer[:4], sys.byteorder)):
                raise ValueError("a command poses as a server")
        connection.sendall(line)
        answer = b""
        while not answer.endswith(b"\n"):
            if time.monotonic() > deadline:
                raise ValueError("it takes too long")
            chunk = connection.recv(65536)
            if not chunk:
                raise ValueError("it closed")
            answer += chunk
    finally:
        connection.close()
    found = json.loads(answer)
    return found if isinstance(found, dict) else {}


def _is_leashed(pid: int) -> bool:
    """Whether a process descends from a command that shelltie runs (as in `approval.ancestry`)."""
    while pid > 1:
        name, _, rest = _read_proc(pid, "stat").rpartition(b")")
        marked = b"\0SHELLTIE_RUN=" in b"\0" + _read_proc(pid, "environ")
        if marked or name.endswith(b"(shelltie-keeper"):
            return True
        pid = int(rest.split()[1]) if rest else 0
    return False


def _read_proc(pid: int, name: str) -> bytes:
    try:
        with open(f"/proc/{pid}/{name}", "rb") as file:  # noqa: PTH123  as above
            return file.read()
    except OSError:  # another user's, or it has ended
        return b""


def _judge_here(request: Fields) -> Fields:
    """Nobody serves: load everything, which takes longer."""
    from shelltie.basics.lazy_module import import_rare_later

    import_rare_later()
    from shelltie.frontends.clients.judge_alone import judge

    return judge(request)


# What is said, in each client's words


def _say(client: str, answer: str, reasons: list[str], given: Fields) -> int:
    told = "; ".join(reasons)
    event = str(given.get("hook_event_name") or "")
    if event == _PERMISSION:
        return _say_permission(answer)
    if answer == "fail":
        return _fail(client, told)
    why = {
        "allow": "shelltie: proved to change nothing",
        "ask": f"shelltie: {told}",
        "deny": f"shelltie: {told or 'the policy says no'}; {_WAY_OUT}",
    }
    if answer in why and (answer == "deny" or client in _ASKING):
        return _print(_answer(client, answer, why[answer]))
    return _print({}) if client == "cursor" else 0


def _say_permission(answer: str) -> int:
    """The client is about to ask a person: what is proved harmless need not be asked about."""
    if answer != "allow":
        return 0
    decision = {"hookEventName": _PERMISSION, "decision": {"behavior": "allow"}}
    return _print({"hookSpecificOutput": decision})


def _fail(client: str, why: str) -> int:
    text = f"shelltie hook {client} could not judge this command: {why}"
    if client in _ASKING:
        return _print(_answer(client, "ask", text))
    sys.stderr.write(f"{text}; nothing was run. Without the hook: shelltie uninstall {client}\n")
    return _BLOCKED


def _answer(client: str, decision: str, why: str) -> Fields:
    """A decision in the client's own JSON; Codex takes no key that it does not know."""
    if client == "cursor":
        return {"permission": decision, "user_message": why, "agent_message": why}
    if client == "gemini":
        return {"decision": decision, "reason": why}
    said = {"permissionDecision": decision, "permissionDecisionReason": why}
    return {"hookSpecificOutput": {"hookEventName": "PreToolUse", **said}}


def _print(answer: Fields) -> int:
    sys.stdout.write(json.dumps(answer) + "\n")
    sys.stdout.flush()  # what does not arrive is not said
    return 0
