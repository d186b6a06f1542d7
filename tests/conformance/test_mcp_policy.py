"""The timeout policy of a real server: read at its start, followed, and no reason to stay away."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.conformance.raw_mcp import RawClient, call, raw_server, request

SEED = Path(__file__).parent.parent / "corpus" / "terminal_timeout_policy.json"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """Where a project has its policy."""
    path = tmp_path / "project" / "config" / "terminal_timeout_policy.json"
    path.parent.mkdir(parents=True)
    return path


def policy(**changes: object) -> str:
    return json.dumps(json.loads(SEED.read_text(encoding="utf-8")) | changes)


@asynccontextmanager
async def server(tmp_path: Path) -> AsyncIterator[RawClient]:
    async with raw_server(tmp_path, cwd=tmp_path / "project") as client:
        await client.greet()
        yield client


async def in_force(client: RawClient) -> dict[str, Any]:
    await client.send(request(1, "resources/read", uri="shelltie://policy"))
    (content,) = (await client.receive())["result"]["contents"]
    report: dict[str, Any] = json.loads(content["text"])
    return report


async def limits(client: RawClient, command: str) -> tuple[float, float]:
    await client.send(call(2, command))
    answer = (await client.receive())["result"]["structuredContent"]
    return answer["limits"]["execSec"], answer["limits"]["silenceSec"]


@pytest.mark.proves("S0-3", "S0-16", "S0-44")
async def test_the_policy_of_the_project_is_read_when_the_server_starts(
    tmp_path: Path, file: Path
) -> None:
    quick = {"exec_timeout_sec": 31, "no_output_timeout_sec": 11}
    file.write_text(policy(categories={"quick": quick}), encoding="utf-8")

    async with server(tmp_path) as client:
        file.unlink()  # so what is known of it was read before
        report, found = await in_force(client), await limits(client, "echo x")

    assert (report["file"], found) == ("config/terminal_timeout_policy.json", (31, 11))
    assert report["status"] == "stale: last good kept (no such file)"


@pytest.mark.proves("T0-11", "S0-17")
async def test_an_edit_holds_for_the_next_call_and_garbage_for_none(
    tmp_path: Path, file: Path
) -> None:
    edited = {"exec_timeout_sec": 32, "no_output_timeout_sec": 12}
    file.write_text(policy(), encoding="utf-8")

    async with server(tmp_path) as client:
        found = [await limits(client, "echo x")]
        for text in (policy(categories={"quick": edited}), "{"):
            file.write_text(text, encoding="utf-8")
            found.append(await limits(client, "echo x"))
        report = await in_force(client)

    assert found == [(30, 10), (32, 12), (32, 12)]
    assert report["status"].startswith("stale: last good kept (not valid JSON")


@pytest.mark.proves("T0-9", "T0-10", "S0-18")
@pytest.mark.parametrize(
    ("text", "status", "problem", "found"),
    [
        (None, "fallback (no such file)", "no such file", (120, 30)),
        ("{", "fallback (not valid JSON", "not valid JSON", (120, 30)),
        (
            policy(command_patterns={"medium": ["^(sl"], "quick": ["^echo"]}),
            "loaded",
            "command_patterns.medium[0]: '^(sl' is not a regular expression",
            (30, 10),
        ),
        (
            policy(command_patterns={"moon": ["^echo"], "quick": ["^echo"]}),
            "loaded",
            "command_patterns.moon: is not a usable category",
            (30, 10),
        ),
        (
            policy().replace('"command_patterns"', '"patterns"'),
            "loaded",
            "command_patterns: is missing",
            (120, 30),
        ),
        (
            policy().replace('"default_category"', '"default"'),
            "loaded",
            "default_category: is missing; medium 120/30 is used",
            (30, 10),
        ),
    ],
    ids=["absent", "garbage", "bad pattern", "bad category", "no patterns", "no default"],
)
async def test_a_server_starts_with_whatever_is_wrong_and_says_what(
    tmp_path: Path,
    file: Path,
    monkeypatch: pytest.MonkeyPatch,
    text: str | None,
    status: str,
    problem: str,
    found: tuple[float, float],
) -> None:
    monkeypatch.setenv("SHELLTIE_POLICY_PATH", str(file))
    if text is not None:
        file.write_text(text, encoding="utf-8")

    async with server(tmp_path) as client:
        report = await in_force(client)
        seen = [await limits(client, command) for command in ("echo x", "my-own-tool")]

    assert report["status"].startswith(status)
    assert problem in "\n".join(report["problems"])
    assert seen == [found, (120, 30)]
