"""Whatever answers instead of a container engine, or does not, shelltie says so and goes on."""

import asyncio
import json
import signal
import subprocess
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import pytest

from shelltie.errors import CannotStart, IsolationUnavailable, Silent
from shelltie.providers.container import engine_api as engines
from shelltie.providers.container.engine_api import Engine
from shelltie.providers.container.provider import ContainerProvider
from shelltie.providers.policies import ContainerPolicy
from shelltie.settings.all_settings import ContainerSettings
from tests.cli import SHELLTIE
from tests.conftest import Open
from tests.tree import until

IMAGE = "some:image"
Answers = Callable[[str], bytes | None]


def said(content: object, status: int = 200) -> bytes:
    body = content if isinstance(content, bytes) else json.dumps(content).encode()
    return b"HTTP/1.1 %d X\r\nContent-Length: %d\r\n\r\n%b" % (status, len(body), body)


@asynccontextmanager
async def strange(place: Path, answers: Answers, drips: bytes = b"") -> AsyncIterator[list[str]]:
    """One that answers so, or else only drips; what it was asked."""
    asked: list[str] = []
    gone = anyio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while line := (await reader.readuntil(b"\r\n")).decode():
                head = await reader.readuntil(b"\r\n\r\n")
                length = [one for one in head.lower().split(b"\r\n") if b"content-length" in one]
                await reader.readexactly(int(length[0].split(b":")[1]) if length else 0)
                asked.append(line.rpartition(" ")[0])
                answer = answers(line)
                writer.write(answer or said(b" " * 10_000)[:80] * bool(drips))
                while answer is None and not gone.is_set():
                    writer.write(drips)
                    await writer.drain()
                    with anyio.move_on_after(0.05):
                        await gone.wait()
        except (OSError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()

    async with await asyncio.start_unix_server(serve, place / "sock"):
        try:
            yield asked
        finally:
            gone.set()


@pytest.fixture
def settings(
    public_path: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> dict[str, object]:
    """What leads to it, from a project that is somewhere else."""
    (tmp_path / "project").mkdir()
    monkeypatch.chdir(tmp_path / "project")
    return {"container_image": IMAGE, "container_engine": str(public_path / "sock")}


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_a_signal_ends_the_wait_for_an_engine_that_drips(
    settings: dict[str, object],
    public_path: Path,
    number: signal.Signals,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name, value in settings.items():
        monkeypatch.setenv(f"SHELLTIE_{name.upper()}", str(value))
    words = [*SHELLTIE, "run", "--isolation", "container", "--", "touch canary"]
    async with strange(public_path, lambda _: None, drips=b" ") as asked:
        with subprocess.Popen(words, stderr=subprocess.PIPE) as started:  # noqa: ASYNC220  it blocks nobody
            await until(lambda: len(asked) > 0)
            started.send_signal(number)
            await until(lambda: started.poll() is not None, 14)
            assert started.stderr is not None
            told = started.stderr.read().decode()

    assert started.returncode == 128 + number
    assert f"got {number.name}, and nothing was run" in told
    assert not Path("canary").exists()


async def test_patience_is_with_a_whole_answer_and_an_answer_has_an_end(
    public_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engines, "QUESTION_TIMEOUT", 0.5)
    async with strange(public_path, lambda _: None, drips=b" "):
        async with Engine(public_path / "sock", change_timeout=0.5) as engine:
            with anyio.fail_after(50):
                with pytest.raises(Silent, match="does not answer"):
                    await engine.image(IMAGE)
                with pytest.raises(Silent, match="does not answer"):
                    await engine.start("name")
    (public_path / "sock").unlink(missing_ok=True)
    monkeypatch.setattr(engines, "QUESTION_TIMEOUT", 20)
    async with strange(public_path, lambda _: said(b" " * (9 * 1024 * 1024))):
        async with Engine(public_path / "sock") as engine:
            with pytest.raises(CannotStart, match="answers more than"):
                await engine.image(IMAGE)


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        (said([1, 2]), "does not speak as a container engine"),
        (said("x"), "does not speak as a container engine"),
        (said(None), "does not speak as a container engine"),
        (said(b"<html>"), "does not speak as a container engine"),
        (said(b"\xff\xfe"), "does not speak as a container engine"),
        (said(b"[" * 200_000), "does not speak as a container engine"),
        (said({"Config": "x"}), "does not speak as a container engine"),
        (said({"Config": {"Env": [5, None]}}), "does not speak as a container engine"),
        (said({"Config": {"Env": {}}}), "does not speak as a container engine"),
        (said([1], 500), "says: .1."),
        (said("oops", 500), "says: oops"),
        (said({"message": 5}, 500), "says: 5"),
        (said(None, 500), "says: status 500"),
        (said(b"", 302), "says: status 302"),
        (b"HTTP/1.1 302 X\r\nLocation: http://engine/\r\nContent-Length: 0\r\n\r\n", "status 302"),
    ],
)
async def test_garbage_from_an_engine_is_told_and_nothing_runs(
    open_terminal: Open,
    settings: dict[str, object],
    public_path: Path,
    answer: bytes,
    told: str,
) -> None:
    async with strange(public_path, lambda _: answer) as asked:
        async with open_terminal(**settings) as terminal:
            with pytest.raises(IsolationUnavailable, match=told):
                await terminal.run("touch canary", isolation="container")

    assert not Path("canary").exists()
    assert [one.split()[0] for one in asked] == ["GET", "GET"]


@pytest.mark.parametrize("ask", ["ended", "labelled", "remove"])
@pytest.mark.parametrize("answer", [said("x"), said([1]), said({"State": 5}), said([{"Id": 5}])])
async def test_no_question_is_answered_by_garbage(
    public_path: Path, ask: str, answer: bytes
) -> None:
    async with strange(public_path, lambda _: answer if ask != "remove" else said("", 302)):
        async with Engine(public_path / "sock") as engine:
            with pytest.raises(CannotStart):
                await getattr(engine, ask)("name")


async def test_an_engine_that_hangs_is_asked_once_and_not_for_what_it_never_made(
    open_terminal: Open,
    settings: dict[str, object],
    public_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(engines, "QUESTION_TIMEOUT", 0.5)
    async with strange(public_path, lambda _: None) as asked:
        async with open_terminal(**settings) as terminal:
            auto = await terminal.run("echo ran", isolation="auto")

    assert (auto.stdout, auto.isolation) == ("ran\n", "sandbox")
    assert any("does not answer" in one for one in auto.warnings)
    assert len(asked) == 1, asked


async def test_what_a_hanging_engine_was_told_to_make_is_removed_at_the_end_if_it_is_well_again(
    open_terminal: Open,
    settings: dict[str, object],
    public_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(engines, "CHANGE_TIMEOUT", 0.5)

    def answers(line: str) -> bytes | None:
        if line.startswith("POST"):
            return None
        return said({}) if "/images/" in line else said([]) if "GET" in line else said(b"", 204)

    async with strange(public_path, answers) as asked:
        async with open_terminal(**settings) as terminal:
            with pytest.raises(IsolationUnavailable, match="does not answer"):
                await terminal.run("touch canary", isolation="container")
            before = [one.split()[0] for one in asked]

    assert before == ["GET", "GET", "POST"]
    assert [one.split()[0] for one in asked[3:]] == ["DELETE"]
    assert asked[3].split()[1].split("/")[2].split("?")[0] in asked[2]


async def test_a_place_that_cannot_be_looked_at_is_no_engine_and_the_next_is_asked(
    open_terminal: Open, settings: dict[str, object], public_path: Path, tmp_path: Path
) -> None:
    closed = "/x" * 3000  # no path is so long, which is as good as a directory that is closed
    async with open_terminal(**{**settings, "container_engine": closed}) as terminal:
        with pytest.raises(IsolationUnavailable, match="cannot be looked at: File name too long"):
            await terminal.run("touch canary", isolation="container")
        auto = await terminal.run("echo ran", isolation="auto")
    async with strange(public_path, lambda _: said("it is me", 500)):
        found = (closed, str(public_path / "sock"))
        policy = ContainerPolicy(tmp_path, ContainerSettings(image=IMAGE), engines=found)
        provider = ContainerProvider(policy)
        with pytest.raises(CannotStart, match="it is me"):
            await provider.ready(str(Path.cwd()))
        await provider.close()

    assert (auto.stdout, auto.isolation) == ("ran\n", "sandbox")
    assert not Path("canary").exists()
