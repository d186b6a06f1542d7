"""What a client can read and be told of, in both eras; it is never anybody else's."""

import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp import Client, StdioServerParameters
from mcp.server.subscriptions import ResourcesListChanged, ResourceUpdated
from mcp.shared.exceptions import MCPError
from mcp_types import (
    INVALID_PARAMS,
    Implementation,
    ResourceListChangedNotification,
    ResourceUpdatedNotification,
    TextResourceContents,
)

from shelltie import Config, Terminal
from shelltie.frontends.mcp import request as call
from shelltie.frontends.mcp import subscriptions
from shelltie.frontends.mcp.request import RequestContext
from tests.conformance.raw_mcp import ENVELOPE, SERVER, raw_server, request, server_environment
from tests.conformance.servers import server_of
from tests.conftest import Open

MODERN = "auto"
ERAS = ["legacy", MODERN]
NOT_FOUND = {"legacy": -32002, MODERN: INVALID_PARAMS}
QUICK = {
    "persistent_minInterval": 0.05,
    "persistent_settleInterval": 0.1,
    "safety_profiles_session_unknown": "allow",
}

# The SDK warns whoever subscribes as clients did before 2026.
pytestmark = pytest.mark.filterwarnings("ignore::mcp.shared.exceptions.MCPDeprecationWarning")
Connect = Callable[..., Any]


class Ear:
    """What a client from before 2026 was told."""

    def __init__(self) -> None:
        self.updated: list[str] = []
        self.lists = 0

    async def __call__(self, message: object) -> None:
        if isinstance(message, ResourceUpdatedNotification):
            self.updated.append(message.params.uri)
        if isinstance(message, ResourceListChangedNotification):
            self.lists += 1

    async def until(self, done: Callable[[], bool]) -> None:
        with anyio.fail_after(50):
            while not done():
                await anyio.sleep(0.02)


@pytest.fixture(autouse=True)
def no_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subscriptions, "_PAUSE", 0.05)


@pytest.fixture
def connect(open_terminal: Open) -> Connect:
    @asynccontextmanager
    async def connected(
        era: Any,  # noqa: ANN401  the SDK's literal
        ear: Ear | None = None,
        **settings: object,
    ) -> AsyncIterator[tuple[Client, Terminal]]:
        merged = {**QUICK, **settings}
        async with open_terminal(**merged) as terminal:
            server = server_of(terminal, Config.of(**merged))
            async with Client(server, mode=era, message_handler=ear) as client:
                yield client, terminal

    return connected


async def text(client: Client, uri: str) -> str:
    (content,) = (await client.read_resource(uri)).contents
    assert isinstance(content, TextResourceContents)
    return content.text


async def start(client: Client, command: str) -> str:
    result = await client.call_tool("terminal_start", {"command": command, "maxWait": 0})
    return str((result.structured_content or {})["id"])


@pytest.mark.parametrize("era", ERAS)
async def test_the_list_has_the_policy_the_runs_and_each_session(
    connect: Connect, era: str
) -> None:
    async with connect(era) as (client, _):
        before = [one.uri for one in (await client.list_resources()).resources]
        await start(client, "echo one; sleep 60")
        after = [one.uri for one in (await client.list_resources()).resources]
        templates = (await client.list_resource_templates()).resource_templates
        offered = client.server_capabilities.resources

    assert before == ["shelltie://policy", "shelltie://runs"]
    assert after == [*before, "shelltie://sessions/term-1"]
    assert [one.uri_template for one in templates] == [
        "shelltie://sessions/{sessionId}",
        "shelltie://runs/{runId}",
    ]
    assert offered is not None
    assert (offered.subscribe, offered.list_changed) == (True, True)


@pytest.mark.parametrize("era", ERAS)
async def test_the_output_of_a_session_can_be_read_again_and_again(
    connect: Connect, era: str
) -> None:
    async with connect(era, output_shown=200) as (client, _):
        command = "printf '\\033[31mred\\033[0m\\n'; seq 1000; read x"
        early = await client.call_tool("terminal_start", {"command": command, "maxWait": 0})
        with anyio.fail_after(50):
            while "1000" not in (first := await text(client, "shelltie://sessions/term-1")):
                await anyio.sleep(0.02)
        again = await text(client, "shelltie://sessions/term-1")
        late = await client.call_tool("terminal_continue", {"sessionId": "term-1"})

    assert first.startswith("red\n1\n2\n")
    assert "bytes left out: terminal_output" in first
    assert again == first
    told = [str((one.structured_content or {})["output"]) for one in (early, late)]
    assert "".join(told).startswith("red\n1\n")  # reading moves no position


@pytest.mark.parametrize("era", ERAS)
async def test_the_policy_and_the_recent_runs_can_be_read(connect: Connect, era: str) -> None:
    async with connect(era) as (client, _):
        for number in range(21):
            await client.call_tool("run", {"command": f"echo {number}; exit {number % 2}"})
        ran = await client.call_tool("run", {"command": "echo 21; exit 1"})
        policy = json.loads(await text(client, "shelltie://policy"))
        runs = json.loads(await text(client, "shelltie://runs"))
        result = json.loads(await text(client, f"shelltie://runs/{runs[0]['runId']}"))

    assert policy["categories"]
    assert policy["safety"]["run"] == {"safe": "allow", "unknown": "allow", "dangerous": "ask"}
    assert [one["command"] for one in runs][:2] == ["echo 21; exit 1", "echo 20; exit 0"]
    assert (runs[0]["status"], runs[0]["exitCode"], len(runs)) == ("error", 1, 20)
    assert result == ran.structured_content


@pytest.mark.parametrize(
    "uri",
    [
        "",
        "shelltie://sessions/term-2",
        "shelltie://sessions/../policy",
        "shelltie://sessions/term-1/",
        "shelltie://sessions/term-1%00",
        "shelltie://runs/01ARZ3NDEKTSV4RRFFQ69G5FAV",
        "shelltie://runs/",
        "SHELLTIE://policy",
        "file:///etc/passwd",
        "shelltie://sessions/" + "x" * 100_000,
        "shelltie://policy\n",
        "☃",
    ],
)
@pytest.mark.parametrize("era", ERAS)
async def test_what_is_not_there_is_an_error_of_its_era(
    connect: Connect, era: str, uri: str
) -> None:
    async with connect(era) as (client, _):
        await start(client, "sleep 60")
        with pytest.raises(MCPError) as wrong:
            await client.read_resource(uri)

    assert wrong.value.error.code == NOT_FOUND[era]
    assert "not found" in wrong.value.error.message


# Changes


async def test_before_2026_a_subscriber_is_told_and_others_are_not(connect: Connect) -> None:
    ear = Ear()

    async with connect("legacy", ear) as (client, _):
        await start(client, "while read x; do echo got $x; done")
        await start(client, "while true; do echo noise; sleep 0.02; done")
        await client.list_resources()
        await client.subscribe_resource("shelltie://sessions/term-1")
        await client.subscribe_resource("shelltie://runs")
        await client.call_tool("terminal_continue", {"sessionId": "term-1", "stdin": "a"})
        await ear.until(lambda: "shelltie://sessions/term-1" in ear.updated)
        await client.call_tool("run", {"command": "true"})
        await ear.until(lambda: "shelltie://runs" in ear.updated)
        await client.call_tool("terminal_stop", {"sessionId": "term-1"})
        await ear.until(lambda: ear.lists > 0)
        await client.unsubscribe_resource("shelltie://runs")
        await anyio.sleep(0.3)  # what was on its way has come
        ear.updated.clear()
        await client.call_tool("run", {"command": "true"})
        await start(client, "sleep 60")
        await ear.until(lambda: ear.lists > 1)

    assert "shelltie://sessions/term-2" not in ear.updated
    assert "shelltie://runs" not in ear.updated


async def test_since_2026_a_listener_is_told_what_it_asked_for(connect: Connect) -> None:
    async with connect(MODERN) as (client, _):
        await start(client, "while read x; do echo got $x; done")
        wanted = ["shelltie://sessions/term-1", "shelltie://sessions/term-99"]
        async with client.listen(
            resources_list_changed=True, resource_subscriptions=wanted
        ) as stream:
            honoured = stream.honored.resource_subscriptions
            await client.call_tool("terminal_continue", {"sessionId": "term-1", "stdin": "a"})
            await client.call_tool("run", {"command": "true"})
            heard = []
            with anyio.fail_after(50):
                async for event in stream:
                    heard.append(event)
                    if event == ResourceUpdated("shelltie://sessions/term-1"):
                        break
                await start(client, "sleep 60")
                async for event in stream:
                    heard.append(event)
                    if event == ResourcesListChanged():
                        break

    assert honoured == ["shelltie://sessions/term-1"]
    assert ResourceUpdated("shelltie://runs") not in heard


@pytest.mark.parametrize("era", ERAS)
async def test_a_new_policy_is_told_when_the_next_command_follows_it(
    connect: Connect, tmp_path: Path, era: str
) -> None:
    path, ear = tmp_path / "policy.json", Ear()
    policy = {
        "categories": {"a": {"exec_timeout_sec": 60, "no_output_timeout_sec": 30}},
        "default_category": "a",
    }
    path.write_text(json.dumps(policy), encoding="utf-8")

    async with connect(era, ear, policy_path=str(path)) as (client, _):
        heard = anyio.Event()
        async with anyio.create_task_group() as tasks:
            if era == "legacy":
                await client.subscribe_resource("shelltie://policy")
            else:
                ready = anyio.Event()
                tasks.start_soon(_listen, client, "shelltie://policy", ready, heard)
                await ready.wait()
            policy["categories"]["a"]["exec_timeout_sec"] = 61  # type: ignore[index]  # a literal above
            path.write_text(json.dumps(policy), encoding="utf-8")
            await client.call_tool("run", {"command": "true"})
            if era == "legacy":
                await ear.until(lambda: "shelltie://policy" in ear.updated)
            else:
                with anyio.fail_after(50):
                    await heard.wait()


async def _listen(client: Client, uri: str, ready: anyio.Event, heard: anyio.Event) -> None:
    async with client.listen(resource_subscriptions=[uri]) as stream:
        ready.set()
        async for event in stream:
            assert event == ResourceUpdated(uri)
            heard.set()
            return


async def test_a_subscription_to_what_is_not_there_is_refused(connect: Connect) -> None:
    async with connect("legacy") as (client, _):
        with pytest.raises(MCPError, match="not found"):
            await client.subscribe_resource("shelltie://sessions/term-1")
        await client.unsubscribe_resource("shelltie://sessions/term-1")


async def test_subscriptions_are_bounded_and_those_to_nothing_do_not_count(
    connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(subscriptions, "_URIS_MAX", 3)

    async with connect("legacy") as (client, _):
        for number in (1, 2, 3):
            await start(client, "sleep 60")
            await client.subscribe_resource(f"shelltie://sessions/term-{number}")
        with pytest.raises(MCPError, match="3 resources are subscribed to"):
            await client.subscribe_resource("shelltie://runs")
        await client.call_tool("terminal_stop", {"sessionId": "term-1"})
        await client.subscribe_resource("shelltie://runs")


# Two clients of one server


@pytest.fixture
def by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    """Owners are told apart by what their clients call themselves, as a transport would."""

    def owner_of(context: RequestContext) -> str:
        return call.client_of(context)

    for module in ("server", "subscriptions"):
        monkeypatch.setattr(f"shelltie.frontends.mcp.{module}.owner_of", owner_of)


@pytest.mark.usefixtures("by_name")
@pytest.mark.parametrize("era", ERAS)
async def test_nobody_reads_or_hears_what_is_not_theirs(open_terminal: Open, era: Any) -> None:  # noqa: ANN401  the SDK's literal
    ear = Ear()
    hers, his = (Implementation(name=name, version="1") for name in ("ada", "bob"))
    async with open_terminal(**QUICK) as terminal:
        server = server_of(terminal, Config.of(**QUICK))
        async with (
            Client(server, mode=era, client_info=hers) as ada,
            Client(server, mode=era, client_info=his, message_handler=ear) as bob,
        ):
            session = await start(ada, "while true; do echo secret; sleep 0.02; done")
            await ada.call_tool("run", {"command": "echo secret"})
            (run,) = json.loads(await text(ada, "shelltie://runs"))
            listed = [one.uri for one in (await bob.list_resources()).resources]
            for uri in (f"shelltie://sessions/{session}", f"shelltie://runs/{run['runId']}"):
                with pytest.raises(MCPError, match="not found"):
                    await bob.read_resource(uri)
                if era == "legacy":
                    with pytest.raises(MCPError, match="not found"):
                        await bob.subscribe_resource(uri)
            if era == MODERN:
                uri = f"shelltie://sessions/{session}"
                async with bob.listen(resource_subscriptions=[uri, "shelltie://runs"]) as stream:
                    assert stream.honored.resource_subscriptions == ["shelltie://runs"]
            assert json.loads(await text(bob, "shelltie://runs")) == []
            await start(ada, "sleep 60")
            await anyio.sleep(0.3)

    assert listed == ["shelltie://policy", "shelltie://runs"]
    assert (ear.updated, ear.lists) == ([], 0)


# On a real pipe


@pytest.mark.parametrize("era", ERAS)
async def test_a_real_server_tells_through_its_pipe(era: Any) -> None:  # noqa: ANN401  the SDK's literal
    ear, uri = Ear(), "shelltie://sessions/term-1"
    allowed = {"SHELLTIE_SAFETY_PROFILES_SESSION_UNKNOWN": "allow"}
    server = StdioServerParameters(
        command=SERVER[0], args=SERVER[1:], env={**server_environment(), **allowed}
    )

    with anyio.fail_after(50):
        async with Client(server, mode=era, message_handler=ear) as client:
            await start(client, "while true; do echo again; sleep 0.1; done")
            if era == "legacy":
                await client.subscribe_resource(uri)
                await ear.until(lambda: ear.updated.count(uri) > 1)
            else:
                async with client.listen(resource_subscriptions=[uri]) as stream:
                    async for event in stream:
                        assert event == ResourceUpdated(uri)
                        break
            assert "again" in await text(client, uri)


async def test_a_stream_that_is_open_does_not_keep_the_server(tmp_path: Path) -> None:
    async with raw_server(tmp_path) as client:
        wanted = {"resourcesListChanged": True}
        await client.send(request(1, "subscriptions/listen", notifications=wanted, _meta=ENVELOPE))
        acknowledged = await client.receive()
        await client.hang_up()
        code = await client.exit_code()

    assert acknowledged["method"] == "notifications/subscriptions/acknowledged"
    assert code == 0


async def test_wrong_parameters_are_a_protocol_error(tmp_path: Path) -> None:
    wrong: list[tuple[str, dict[str, object]]] = [
        ("resources/read", {}),
        ("resources/read", {"uri": 5}),
        ("resources/read", {"uri": None}),
        ("subscriptions/listen", {}),
        ("subscriptions/listen", {"notifications": {"resourceSubscriptions": "all"}}),
        ("subscriptions/listen", {"notifications": {"resourceSubscriptions": [5]}}),
        ("resources/list", {"cursor": 5}),
    ]

    async with raw_server(tmp_path) as client:
        codes = []
        for number, (method, params) in enumerate(wrong):
            await client.send(request(number, method, _meta=ENVELOPE, **params))
            codes.append((await client.receive())["error"]["code"])

    assert codes == [INVALID_PARAMS] * len(wrong)
