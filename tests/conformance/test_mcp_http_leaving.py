"""The server on HTTP leaves: what is nearly done is done, the rest is ended, and all is told."""

import os
import signal
from pathlib import Path
from typing import Any

import anyio
import httpx2
import pytest

from tests.asking import until_asked
from tests.conformance.http_mcp import HttpClient, answer_of, http_client, http_server
from tests.tree import new_tag, nobody_left, tagged, until

HIDING = "setsid sleep 600.{tag} & (setsid nohup sleep 600.{tag} &) ; echo started; sleep 600.{tag}"


class Kept:
    """Answers that come while a test does something else."""

    def __init__(self) -> None:
        self.answers: list[dict[str, Any]] = []

    async def call(self, client: HttpClient, command: str) -> None:
        said = answer_of(await client.post(*client.request("run", command=command)))
        self.answers.append(said["result"]["structuredContent"])


@pytest.mark.parametrize("how", ["SIGTERM", "SIGINT"])
@pytest.mark.proves("TX-5", "C-48")
async def test_ten_trees_end_with_the_server_and_every_call_is_answered(
    tmp_path: Path, how: str
) -> None:
    tag, kept = new_tag(), Kept()
    async with (
        http_server(tmp_path, SHELLTIE_HTTP_DRAIN="0.5") as server,
        http_client(server, "legacy") as one,
        http_client(server, "modern") as two,
    ):
        async with anyio.create_task_group() as tasks:
            for client in [one, two] * 5:
                tasks.start_soon(kept.call, client, HIDING.format(tag=tag))
            await until(lambda: len(tagged(tag, "sleep")) == 30)
            server.process.send_signal(signal.Signals[how])
            with anyio.fail_after(50):
                code = await server.exit_code()
        left = tagged(tag)

    assert (code, left) == (0, [])
    assert [(said["cancelled"], said["stdout"]) for said in kept.answers] == [
        (True, "started\n")
    ] * 10


async def test_a_call_that_waits_for_a_yes_is_answered_when_the_server_leaves(
    tmp_path: Path,
) -> None:
    kept, asks = Kept(), {"SHELLTIE_SAFETY_PROFILES_RUN_DANGEROUS": "ask"}
    async with (
        http_server(tmp_path, SHELLTIE_HTTP_DRAIN="0.1", **asks) as server,
        http_client(server, "legacy") as one,
        http_client(server, "modern") as two,
    ):
        async with anyio.create_task_group() as tasks:
            for client in (one, two):
                tasks.start_soon(kept.call, client, f"rm -rf {tmp_path}/{client.session}")
            await until_asked(2)
            server.process.terminate()
        code = await server.exit_code()

    complaints = (tmp_path / "stderr").read_text(encoding="utf-8").splitlines()[2:]
    assert (code, complaints) == (0, [])
    assert [said["errorCode"] for said in kept.answers] == ["CONFIRMATION_REQUIRED"] * 2
    assert all("shelltie is leaving" in said["error"] for said in kept.answers)


async def test_what_is_nearly_done_is_done_and_nobody_else_comes_in(tmp_path: Path) -> None:
    kept, begun, go = Kept(), tmp_path / "begun", tmp_path / "go"
    command = f"echo >> {begun}; until [ -e {go} ]; do sleep 0.1; done; echo whole"
    async with (
        http_server(tmp_path, SHELLTIE_HTTP_DRAIN="20") as server,
        http_client(server, "legacy") as one,
        http_client(server, "modern") as two,
    ):
        async with anyio.create_task_group() as tasks:
            for client in (one, two):
                tasks.start_soon(kept.call, client, command)
            await until(lambda: begun.exists() and begun.read_text() == "\n\n")
            server.process.terminate()
            await until_refused(two, *two.request("run", command="echo late"))
            go.touch()
        code = await server.exit_code()

    assert code == 0
    assert [said["stdout"] for said in kept.answers] == ["whole\n"] * 2


async def until_refused(client: HttpClient, message: Any, headers: Any) -> None:  # noqa: ANN401
    with anyio.fail_after(50):
        while True:
            try:
                answer = await client.post(message, headers)
            except httpx2.TransportError:
                return
            if answer.status_code == 503:
                return
            await anyio.sleep(0.05)


@pytest.mark.proves("C-48")
async def test_a_server_on_http_that_is_shot_leaves_nothing(tmp_path: Path) -> None:
    tag = new_tag()
    async with (
        http_server(tmp_path) as server,
        http_client(server, "modern") as client,
        anyio.create_task_group() as tasks,
    ):
        hiding = {"command": HIDING.format(tag=tag), "cwd": str(tmp_path), "maxWait": 0}
        await client.call("terminal_start", **hiding)
        await until(lambda: len(tagged(tag)) >= 3)
        os.kill(server.process.pid, signal.SIGKILL)
        await nobody_left(tag)
        tasks.cancel_scope.cancel()


async def test_a_client_that_stops_reading_holds_neither_others_nor_the_server(
    tmp_path: Path,
) -> None:
    async with (
        http_server(tmp_path, SHELLTIE_HTTP_DRAIN="0.5", SHELLTIE_OUTPUT_SHOWN="4000000") as server,
        http_client(server, "modern") as client,
    ):
        url = httpx2.URL(server.url)
        message, headers = client.request("run", command="seq 1 500000")
        body = client.http.build_request("POST", server.url, json=message, headers=headers)
        head = "".join(f"{k}: {v}\r\n" for k, v in body.headers.items())
        assert url.port is not None
        async with await anyio.connect_tcp(url.host, url.port) as deaf:
            for _ in range(3):
                await deaf.send(f"POST /mcp HTTP/1.1\r\n{head}\r\n".encode() + body.content)
            said = await client.call("run", command="echo quick")
            server.process.terminate()
            code = await server.exit_code()

    assert (said["stdout"], code) == ("quick\n", 0)
