"""The one road from a call to a process, and what is answered when it breaks."""

import sys
from pathlib import Path
from typing import Any, cast

import jsonschema
import pytest
from mcp import Client

import shelltie
from shelltie import Config, Terminal
from shelltie.keeper.link import Link
from shelltie.running.supervisor import Supervisor
from tests.conformance.servers import server_of

OURS = str(Path(shelltie.__file__).parent)
FRAMES_MAX = 8  # from `call_tool` to `Link.spawn`, both counted


async def road_of(terminal: Terminal, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Our functions on the stack when a call of `run` has its process spawned, from the call on."""
    roads: list[list[str]] = []
    spawn = Link.spawn

    def watched(*arguments: Any, **named: Any) -> Any:  # noqa: ANN401  as it is
        frame, road = sys._getframe(1), [spawn.__qualname__]
        while frame.f_back is not None and road[-1] != "_Calls.call_tool":
            if frame.f_code.co_filename.startswith(OURS):
                road.append(frame.f_code.co_qualname)
            frame = frame.f_back
        roads.append(road[::-1])
        return spawn(*arguments, **named)

    async with Client(server_of(terminal, Config())) as client:
        await client.call_tool("run", {"command": "echo hi"})  # which makes a read-only view
        monkeypatch.setattr(Link, "spawn", watched)
        answer = await client.call_tool("run", {"command": "echo hi"})
    assert cast(dict[str, Any], answer.structured_content)["stdout"] == "hi\n"
    (road,) = [one for one in roads if one[0] == "_Calls.call_tool"]
    return road


async def test_at_most_eight_frames_of_ours_lie_between_a_call_and_its_process(
    terminal: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    road = await road_of(terminal, monkeypatch)

    assert len(road) <= FRAMES_MAX, road


async def test_a_call_is_with_the_engine_after_three_frames(
    terminal: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    road = await road_of(terminal, monkeypatch)

    assert road.index("Supervisor.start") <= 3, road


@pytest.mark.parametrize("name", ["run", "bash", "terminal_start", "agent_task"])
async def test_a_fault_of_ours_is_an_answer_of_the_tool_and_the_next_call_works(
    terminal: Terminal,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    name: str,
) -> None:
    def broken(*_: object, **__: object) -> None:
        raise RuntimeError("no runs today, says /secret/place")

    async with Client(
        server_of(terminal, Config.of(safety_profiles_session_unknown="allow"))
    ) as client:
        schemas = {tool.name: tool.output_schema for tool in (await client.list_tools()).tools}
        with monkeypatch.context() as patched:
            patched.setattr(Supervisor, "start", broken)
            first = await client.call_tool(name, {"command": "true"})
        second = await client.call_tool(name, {"command": "true"})

    jsonschema.Draft202012Validator(schemas[name] or {}).validate(first.structured_content)
    assert first.is_error
    assert "shelltie failed and says why on its stderr" in str(first.structured_content)
    assert "secret" not in str(first)
    assert f"a call of `{name}` failed" in caplog.text
    assert "no runs today" in caplog.text
    assert not second.is_error
