"""What the hooks of agents are told, in each agent's own words; what cannot be judged never runs
by accident.

The inputs are those that Claude Code 2.1, Codex 0.166 and Gemini CLI 0.61 were seen to send, and
what Cursor documents.
"""

import json
import os
import socket
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any, cast

import anyio.to_thread
import pytest

from shelltie import Config
from shelltie.environment import child
from shelltie.errors import InvalidParameters
from shelltie.frontends.control import hook_requests
from shelltie.frontends.control.hook_judge import hook_answer
from shelltie.frontends.control.peer import Peer
from shelltie.frontends.control.runs import steerable
from shelltie.record.past_runs import latest
from shelltie.record.queries import tail
from shelltie.running.supervisor import Supervisor
from shelltie.sessions.registry import Sessions
from shelltie.settings.paths import ONLY_RUNTIME
from shelltie.verdict import Decision, Rating
from tests.cli import SHELLTIE
from tests.conftest import Open

SAFE, UNKNOWN, DANGEROUS = "git status", "npm test", "rm -rf /srv/data"


def sent(client: str, command: object, **more: object) -> dict[str, Any]:
    """What a client writes to its hook."""
    common = {"session_id": "s1", "transcript_path": "/t", "cwd": "/", **more}
    if client == "cursor":
        known = {"conversation_id": "c", "generation_id": "g", "workspace_roots": ["/"]}
        return {**known, "hook_event_name": "beforeShellExecution", "command": command, "cwd": "/"}
    if client == "gemini":
        asked = {"command": command, "description": "d"}
        event = {"hook_event_name": "BeforeTool", "tool_name": "run_shell_command"}
        return {**common, **event, "timestamp": "2026-11-18T00:00:00Z", "tool_input": asked}
    event = {"hook_event_name": "PreToolUse", "tool_name": "Bash"}
    return {**common, **event, "tool_input": {"command": command}, "tool_use_id": "t", **more}


def hook(client: str, given: object, closed: str = "") -> tuple[int, Any, str]:
    """Exit code, stdout and stderr of a call, the first as JSON."""
    text = given if isinstance(given, bytes) else json.dumps(given).encode()
    argv = ["/bin/sh", "-c", f'exec "$@" {closed}', "sh", *SHELLTIE, "hook", client]
    done = subprocess.run(argv, input=text, capture_output=True, timeout=100, check=False)
    return done.returncode, json.loads(done.stdout or "null"), done.stderr.decode()


def claude(said: Mapping[str, Any]) -> tuple[str, str]:
    specific = said["hookSpecificOutput"]
    assert specific["hookEventName"] == "PreToolUse"
    return specific["permissionDecision"], specific["permissionDecisionReason"]


async def in_thread(client: str, given: object) -> tuple[int, Any, str]:
    return await anyio.to_thread.run_sync(hook, client, given)


@asynccontextmanager
async def server(open_terminal: Open) -> AsyncIterator[Supervisor]:
    """What answers hooks in `shelltie mcp`."""
    async with open_terminal() as terminal:
        supervisor = terminal.supervisor
        async with steerable(supervisor, Sessions(supervisor), child.inherited()):
            yield supervisor


async def test_each_client_is_told_in_its_own_words_and_all_of_it_is_on_record(
    open_terminal: Open, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A server that is too slow on a busy machine is left, and the hook records the same by itself.
    monkeypatch.setenv("SHELLTIE_STATE_DIR", str(tmp_path / "state"))
    async with server(open_terminal) as supervisor:
        told = {
            (client, command): await in_thread(client, sent(client, command))
            for client in ("claude", "codex", "gemini", "cursor")
            for command in (SAFE, UNKNOWN, DANGEROUS)
        }
        asking = sent("codex", SAFE, hook_event_name="PermissionRequest")
        permitted = await in_thread("codex", asking)
        asking = sent("codex", UNKNOWN, hook_event_name="PermissionRequest")
        not_permitted = await in_thread("codex", asking)
        other_tool = await in_thread("claude", sent("claude", SAFE, tool_name="Read"))
        await supervisor.flush_record()

    assert {code for code, _, _ in told.values()} == {0}
    assert {stderr for _, _, stderr in told.values()} == {""}
    assert claude(told["claude", SAFE][1]) == ("allow", "shelltie: proved to change nothing")
    assert told["claude", UNKNOWN][1] is None  # Claude Code's own rules go on
    decision, reason = claude(told["claude", DANGEROUS][1])
    assert (decision, "deletes whole trees" in reason) == ("ask", True)
    # Codex would run what is to be asked about, and Gemini CLI would hang.
    decision, reason = claude(told["codex", DANGEROUS][1])
    assert (decision, "a person can run it" in reason) == ("deny", True)
    assert told["gemini", DANGEROUS][1]["decision"] == "deny"
    assert "deletes whole trees" in told["gemini", DANGEROUS][1]["reason"]
    assert [told[client, SAFE][1] for client in ("codex", "gemini")] == [None, None]
    assert [told[client, UNKNOWN][1] for client in ("codex", "gemini")] == [None, None]
    assert told["cursor", SAFE][1]["permission"] == "allow"
    assert told["cursor", DANGEROUS][1]["permission"] == "ask"
    assert told["cursor", UNKNOWN][1] == {}
    allowed = {"hookEventName": "PermissionRequest", "decision": {"behavior": "allow"}}
    assert permitted[1] == {"hookSpecificOutput": allowed}
    assert (not_permitted[1], other_tool) == (None, (0, None, ""))
    journal = Config.of(state_dir=str(tmp_path / "state")).journal
    lines = [line.to_json() for line in tail(journal, 100)]
    answers = {(one["client"], one["command"], one["answer"]) for one in lines if "answer" in one}
    assert len(answers) == 12
    assert ("claude hook", SAFE, "allow") in answers
    assert ("gemini hook", DANGEROUS, "deny") in answers
    assert ("codex hook", UNKNOWN, "none") in answers
    refused = {(run.client, run.command) for run in latest(journal, 99) if run.refused}
    assert refused == {("codex hook", DANGEROUS), ("gemini hook", DANGEROUS)}


async def test_a_server_answers_only_hooks_that_see_its_settings(
    open_terminal: Open, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    asked = {"command": DANGEROUS, "cwd": "/", "client": "codex"}
    ours, peer = {**os.environ}, cast(Peer, None)
    ours.pop(child.RUN_MARK, None)
    monkeypatch.delenv(child.RUN_MARK, raising=False)
    others: list[dict[str, str]] = [
        {},
        {**ours, "XDG_CONFIG_HOME": str(tmp_path)},
        {**ours, "XDG_STATE_HOME": str(tmp_path)},
        {**ours, "HOME": str(tmp_path)},
        {**ours, "PATH": "/nowhere"},
        {**ours, "SHELLTIE_SAFETY_PROFILES_RUN_DANGEROUS": "allow"},
    ]
    async with open_terminal() as terminal:
        answer = hook_requests.commands(terminal.supervisor)["hook"]
        told = await answer(peer, {**asked, "environ": {**ours, "SHELLTIE_TOKEN": "x"}})
        assert told["answer"] == "deny"
        for other in others:
            with pytest.raises(InvalidParameters, match="other settings"):
                await answer(peer, {**asked, "environ": other})
        monkeypatch.setenv(child.RUN_MARK, "01RUN")
        with pytest.raises(InvalidParameters, match="a command started"):
            await answer(peer, {**asked, "environ": ours})


def test_a_run_with_looser_settings_does_not_answer_for_the_hook() -> None:
    loose = {**os.environ, "SHELLTIE_SAFETY_PROFILES_RUN_DANGEROUS": "allow"}
    loose.pop(child.RUN_MARK, None)
    argv = [*SHELLTIE, "run", "--", "echo started; exec sleep 1000"]
    with subprocess.Popen(argv, env=loose, stdout=subprocess.PIPE) as run:
        try:
            assert run.stdout is not None
            assert run.stdout.readline() == b"started\n"
            code, said, _ = hook("codex", sent("codex", DANGEROUS))
        finally:
            run.terminate()

    assert (code, claude(said)[0]) == (0, "deny")


@contextmanager
def forged(place: Path, answer: bytes | None) -> Iterator[list[bytes]]:
    """A socket where servers have theirs; what it was asked. Without an answer it stays silent."""
    place.mkdir(mode=0o700, exist_ok=True)
    path, asked = place / "9-forged.sock", []
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
        listener.listen()

        def serve() -> None:
            connection, _ = listener.accept()
            with connection:
                asked.append(connection.recv(65536))
                if answer is not None:
                    connection.sendall(answer)
                connection.recv(1)  # until the hook has left

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield asked
        thread.join(50)
    path.unlink()


def test_only_a_server_that_says_a_known_word_in_time_is_heard(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(ONLY_RUNTIME, str(tmp_path / "r"))
    monkeypatch.setenv("SHELLTIE_TOKEN", "very-secret")
    decided = []
    for answer in (b'{"ok": true, "answer": "wEiRd"}\n', b'{"ok": true, "answer": []}\n', None):
        with forged(tmp_path / "r", answer) as asked:
            decided.append(claude(hook("claude", sent("claude", DANGEROUS))[1])[0])
        assert b"very-secret" not in asked[0]
        assert json.loads(asked[0])["environ"]["HOME"] == os.environ["HOME"]

    assert decided == ["ask", "ask", "ask"]


FORGER = """
import socket
listener = socket.socket(socket.AF_UNIX)
listener.bind("9-x.sock")
listener.listen()
print(flush=True)
connection, _ = listener.accept()
connection.sendall(b'{"ok": true, "answer": "allow"}' + bytes([10]))
connection.recv(1)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="the pid of a server is looked at in /proc")
def test_a_command_that_poses_as_a_server_is_not_heard(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = tmp_path / "r"
    place.mkdir(mode=0o700)
    monkeypatch.setenv(ONLY_RUNTIME, str(place))
    argv = [sys.executable, "-c", FORGER]
    marked = {**os.environ, child.RUN_MARK: "01RUN"}
    with subprocess.Popen(argv, env=marked, cwd=place, stdout=subprocess.PIPE) as forger:
        try:
            assert forger.stdout is not None
            assert forger.stdout.readline() == b"\n"
            said = hook("claude", sent("claude", DANGEROUS))[1]
        finally:
            forger.kill()

    assert claude(said)[0] == "ask"


def test_where_nobody_can_be_told_the_command_is_blocked() -> None:
    assert hook("gemini", b"garbage", "2>&-")[0] == 2
    assert hook("codex", sent("codex", DANGEROUS), ">&-")[0] == 2
    assert hook("claude", b"garbage", ">/dev/full")[0] == 2


def test_without_a_server_it_judges_and_records_by_itself() -> None:
    code, said, _ = hook("claude", sent("claude", DANGEROUS))

    assert (code, claude(said)[0]) == (0, "ask")
    shown = subprocess.run(
        [*SHELLTIE, "audit", "tail", "--json"], capture_output=True, timeout=100, check=True
    )
    (line,) = [one for one in map(json.loads, shown.stdout.splitlines()) if one["kind"] == "hook"]
    assert (line["command"], line["answer"]) == (DANGEROUS, "ask")


BAD: Mapping[str, object] = {
    "not JSON": b"garbage \xff",
    "nothing": b"",
    "not a JSON object": [1, 2],
    "too deep": b"[" * 100_000,
    "another event": sent("claude", SAFE, hook_event_name="Stop"),
    "no command": sent("claude", None),
    "a command that is none": sent("claude", ["rm"]),
}


@pytest.mark.parametrize("given", BAD.values(), ids=BAD)
def test_what_cannot_be_judged_is_asked_about_or_denied(given: object) -> None:
    code, said, _ = hook("claude", given)
    denied, nothing, why = hook("codex", given)

    assert code == 0
    decision, reason = claude(said)
    assert decision == "ask"
    assert reason.startswith("shelltie hook claude could not judge this command: ")
    # Exit code 2 with a text is what Codex and Gemini CLI take for a no.
    assert (denied, nothing) == (2, None)
    assert "could not judge this command" in why
    assert "shelltie uninstall codex" in why


def test_wrong_settings_are_told_and_nothing_is_allowed(tmp_path: Path) -> None:
    (tmp_path / ".shelltie.toml").write_text("nonsense = = 1", encoding="utf-8")

    code, said, _ = hook("claude", sent("claude", SAFE, cwd=str(tmp_path)))

    decision, reason = claude(said)
    assert (code, decision) == (0, "ask")
    assert ".shelltie.toml" in reason


def test_the_hook_loads_next_to_nothing_before_it_has_asked_a_server() -> None:
    code = (
        "import sys; import shelltie.frontends.entry;"
        " import shelltie.frontends.clients.hook_program;"
        " print(*sorted(m for m in sys.modules if m.startswith(('shelltie', 'asyncio', 'anyio'))))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, timeout=60)

    assert done.stdout.decode().split() == [
        "shelltie",
        "shelltie.frontends",
        "shelltie.frontends.clients",
        "shelltie.frontends.clients.hook_program",
        "shelltie.frontends.entry",
    ]


def test_a_hook_without_a_server_loads_neither_engine_nor_event_loop() -> None:
    dear = ("asyncio", "anyio.abc", "shelltie.running.supervisor")
    code = (
        "import sys; from shelltie.frontends.clients import hook_program;"
        f"hook_program.main('claude'); print([one for one in {dear!r} if one in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        input=json.dumps(sent("claude", DANGEROUS)).encode(),
        capture_output=True,
        check=True,
        timeout=60,
    )

    decided, loaded = done.stdout.splitlines()
    assert claude(json.loads(decided))[0] == "ask"
    assert loaded == b"[]"


@pytest.mark.parametrize("client", ["claude", "codex", "gemini", "cursor"])
def test_only_what_is_proved_harmless_is_ever_allowed(client: str) -> None:
    answers = {
        (rating, decision): hook_answer(client, rating, decision)
        for rating in Rating
        for decision in Decision
    }

    assert {key for key, said in answers.items() if said == "allow"} == {
        (Rating.SAFE, Decision.ALLOW)
    }
    assert {said for (_, decision), said in answers.items() if decision is Decision.DENY} == {
        "deny"
    }
    asked = "ask" if client in ("claude", "cursor") else "deny"
    for decision in (Decision.ASK, Decision.TRIAL):
        assert answers[Rating.DANGEROUS, decision] == asked
