"""With `output.redact`, no answer repeats a secret: whole, in halves, in colours, on a screen."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import anyio
import pytest
from mcp import Client

from shelltie import Config
from tests.conformance.servers import server_of
from tests.conftest import Open

RATINGS = ("unknown", "dangerous")
SECRET = "correct-horse-battery-staple-" + "0123456789" * 8  # longer than a row of a terminal
SHAPED = "ghp_" + "aB3" * 12
ENV = {"API_TOKEN": SECRET}
MARK = "[REDACTED:API_TOKEN]"
QUICK = {"persistent_minInterval": 0.05, "persistent_settleInterval": 0.2}
ALLOWED = {
    f"safety_profiles_{one}_{rating}": "allow" for one in ("run", "session") for rating in RATINGS
}
Fields = dict[str, Any]


@pytest.fixture
def discreet(open_terminal: Open) -> Any:  # noqa: ANN401  a context manager of clients
    @asynccontextmanager
    async def connected(**settings: object) -> AsyncIterator[Client]:
        merged = {
            "output_redact": True,
            "environment_pass": ("API_TOKEN",),
            **QUICK,
            **ALLOWED,
            **settings,
        }
        async with open_terminal(**merged) as terminal:
            server = server_of(terminal, Config.of(**merged))
            async with Client(server, mode="legacy") as client:
                yield client

    return connected


async def ask(client: Client, name: str, **arguments: object) -> Fields:
    """The answer, in which no piece of the secret may be, wherever it is said."""
    with anyio.fail_after(50):
        result = await client.call_tool(name, arguments)
    said = result.model_dump_json()
    for place in range(0, len(SECRET) - 12, 4):
        assert SECRET[place : place + 12] not in said
    assert SHAPED not in said
    assert "errorCode" not in said, said
    return dict(result.structured_content or {})


async def to_the_end(client: Client, session: str) -> str:
    printed = ""
    with anyio.fail_after(50):
        while True:
            answer = await ask(client, "terminal_continue", sessionId=session)
            printed += str(answer["output"])
            if answer["complete"]:
                return printed


@pytest.mark.proves("C-57")
async def test_no_piece_of_a_secret_is_shown_from_any_position(discreet: Any) -> None:  # noqa: ANN401  as above
    async with discreet() as client:
        text = 'printf "<%s>\\n" "$API_TOKEN"; cat'
        started = await ask(client, "terminal_start", command=text, env=ENV, waitFor=">", pty=False)
        session = started["id"]
        pieces = [
            await ask(client, "terminal_output", sessionId=session, limit=20, view=view, **start)
            for start in ({}, {"from": 5}, {"from": 60}, {"from": len(SECRET) - 4})
            for view in ("clean", "raw")
        ]
        resource = await client.read_resource(f"shelltie://sessions/{session}")
        await ask(client, "terminal_continue", sessionId=session, end=True, waitFor="never")

    assert started["output"] == f"<{MARK}>\n"
    assert started["position"] == len(SECRET) + 3
    assert all(MARK in one["output"] for one in pieces)
    assert pieces[-1]["output"].endswith(">\n")
    assert SECRET[:12] not in resource.model_dump_json()
    assert MARK in resource.model_dump_json()


async def test_a_secret_that_is_printed_in_two_goes_is_not_shown(discreet: Any) -> None:  # noqa: ANN401  as above
    async with discreet() as client:
        text = 'printf %s "${API_TOKEN:0:60}"; read; printf "%s\\n" "${API_TOKEN:60}"; read'
        first = await ask(
            client, "terminal_start", command=text, env=ENV, waitFor="stap", pty=False
        )
        second = await ask(
            client, "terminal_continue", sessionId=first["id"], stdin="x", waitFor="9$"
        )
        ended = await ask(client, "terminal_continue", sessionId=first["id"], stdin="x")

    assert first["output"] == MARK
    assert second["output"] == f"{MARK}\n"
    assert ended["complete"] is True


async def test_colours_and_screens_hide_no_secret(discreet: Any) -> None:  # noqa: ANN401  as above
    half = len(SECRET) // 2
    coloured = f'printf "%s\\033[1m%s\\033[0m\\n" "${{API_TOKEN:0:{half}}}" "${{API_TOKEN:{half}}}"'
    async with discreet() as client:
        text = f"{coloured}; echo {SHAPED[:4]}''{SHAPED[4:]}; read -p 'Go on? '; echo end"
        started = await ask(client, "terminal_start", command=text, env=ENV, waitFor=r"on\? ")
        screen = await ask(client, "terminal_output", sessionId=started["id"], view="screen")
        shell = await ask(
            client, "terminal_start", command="echo $API_TOKEN", env=ENV, mode="shell"
        )
        again = await ask(
            client, "terminal_continue", sessionId=shell["id"], command="echo $API_TOKEN"
        )

    assert started["output"].split("\n")[0] == MARK
    assert screen["output"].startswith(MARK)
    assert shell["output"] == again["output"] == f"{MARK}\n"


async def test_every_other_answer_keeps_it_as_well(discreet: Any) -> None:  # noqa: ANN401  as above
    async with discreet() as client:
        asks = {
            "command": 'echo "$API_TOKEN?" >&2; sleep 60',
            "no_output_timeout_sec": 1,
            "env": ENV,
        }
        failed = await client.call_tool("run", asks)
        bash = await ask(client, "bash", command=f"echo {SHAPED[:4]}''{SHAPED[4:]}")
        event = json.dumps({"type": "at work with"})[:-2]
        agent = await ask(
            client, "agent_task", command=f"echo '{event} '\"$API_TOKEN\"'\"}}'; exit 1", env=ENV
        )
    async with discreet(mcp_patience=0.6) as client:
        going = await ask(client, "run", command='echo "$API_TOKEN"; sleep 2; env', env=ENV)
        printed = going["stdout"] + await to_the_end(client, going["sessionId"])

    told = failed.structured_content or {}
    assert (told["stderr"], told["hint"].count(MARK)) == (f"{MARK}?\n", 1)
    assert str(failed.content).count(MARK) == 2
    assert bash["stdout"].startswith("[REDACTED:")
    assert MARK in agent["lastEvent"]["type"]
    assert printed.startswith(f"{MARK}\n")
    assert f"API_TOKEN={MARK}\n" in printed


async def test_where_a_result_is_cut_no_half_is_left(discreet: Any) -> None:  # noqa: ANN401  as above
    cut = 2 * len(SECRET)  # within it, at both ends
    text = 'printf "%s%0900d%s" "$API_TOKEN" 0 "$API_TOKEN"'
    async with discreet(output_shown=cut) as client:
        long = await ask(client, "run", command=text, env=ENV)
        given = {"env": ENV, "pty": False, "waitFor": "0correct.*9$"}
        session = await ask(client, "terminal_start", command=f"{text}; cat", **given)
        resource = await client.read_resource(f"shelltie://sessions/{session['id']}")

    assert long["truncated"] is True
    for said in (long["stdout"], resource.model_dump_json()):
        assert (said.count(MARK), SECRET[:12] in said, SECRET[-12:] in said) == (2, False, False)
