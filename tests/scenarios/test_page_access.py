"""Who may look at the page of `shelltie web`, who may steer, and that no command of ours may."""

import base64
import json
import os
import re
import shlex
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import anyio
import pytest

from tests.asking import SHELLTIE, not_on_a_leash
from tests.tree import until
from tests.web_page import Agent, WebPage, agent, own_environment, web_page

pytestmark = [not_on_a_leash, pytest.mark.xdist_group("page")]

Pair = tuple[WebPage, Agent, Path]
ATTACK = """\
import http.client, json, sys
port, token, question, digest, said = sys.argv[1:]
own = {"origin": f"http://127.0.0.1:{port}", "content-type": "application/json",
       "authorization": f"Bearer {token}"}
answers = []
for path, body in (
    ("/api/answer", {"question": question, "digest": digest, "allowed": True}),
    ("/api/enter", {"code": token}),
    ("/api/stop-all", {}),
):
    connection = http.client.HTTPConnection("127.0.0.1", int(port))
    connection.request("POST", path, json.dumps(body), own)
    answer = connection.getresponse()
    answers.append([answer.status, json.loads(answer.read())["message"]])
open(said, "w").write(json.dumps(answers))
"""
READ = """\
import glob, os, sys
token, page = sys.argv[1:]
seen = []
for path in glob.glob("/proc/[0-9]*/cmdline") + glob.glob("/proc/[0-9]*/environ"):
    try:
        text = open(path, "rb").read()
    except OSError:
        continue
    if token.encode() in text and path.split("/")[2] != str(os.getpid()):
        seen.append(path)
print(seen)
"""


@pytest.fixture(scope="module")
def pair() -> Iterator[Pair]:
    with own_environment() as env, agent(env) as one, web_page(env) as page:
        yield page, one, Path(env["WORK"])


def test_only_our_own_page_with_a_token_is_answered(pair: Pair) -> None:
    page, _, _ = pair
    history = "/api/history"

    assert page.get("/")[0] == 200
    assert page.get(history)[0] == 401
    assert page.get(history, "wrong")[0] == 401
    assert page.get(history, page.view)[0] == 200
    assert page.get(f"{history}?token={page.view}")[0] == 401
    assert page.get(history, cookie=f"token={page.view}")[0] == 401
    for name in ("evil.example", f"evil.example:{page.port}", "127.0.0.1.evil.example"):
        assert page.get("/", host=name)[0] == 421
        assert page.get(history, page.steer, host=name)[0] == 421
    assert page.get(history, page.steer, origin="http://evil.example")[0] == 403
    assert page.get(history, page.steer, origin=f"http://localhost:{page.port}")[0] == 403
    for site in ("cross-site", "same-site"):
        assert page.get("/", sec_fetch_site=site)[0] == 403
        assert page.get(history, page.steer, sec_fetch_site=site)[0] == 403


def test_a_form_of_another_page_steers_nothing(pair: Pair) -> None:
    page, _, _ = pair
    stop = "/api/stop-all"

    assert page.post(stop, {}, page.steer, origin="")[0] == 403
    assert page.post(stop, {}, page.steer, **{"content-type": "text/plain"})[0] == 403
    assert page.post(stop, {}, page.steer, origin="http://evil.example")[0] == 403
    assert page.post(stop, {"more": "x" * 70_000}, page.steer)[0] == 413
    assert page.get(stop, page.steer)[0] == 405


def test_the_page_has_no_cookie_and_a_strict_policy(pair: Pair) -> None:
    page, _, _ = pair
    _, body = page.get("/")
    policy = page.headers["content-security-policy"]

    assert "set-cookie" not in page.headers
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert "require-trusted-types-for 'script'; trusted-types 'none'" in policy
    assert page.headers["x-content-type-options"] == "nosniff"
    assert page.headers["referrer-policy"] == "no-referrer"
    assert page.headers["cache-control"] == "no-store"
    assert re.findall(rb"https?://", body) == []
    assert re.findall(rb"<script(?![^>]* src=)|<style| on\w+=| style=", body) == []
    for name in re.findall(rb'(?:src|href)="(/page/[^"]+)"', body):
        assert page.get(name.decode())[0] == 200
    assert page.get("/page/../server.py")[0] == 404


def test_it_listens_on_loopback_and_nowhere_else(pair: Pair) -> None:
    page, _, _ = pair
    listening = [
        line.split()[1]
        for table in ("/proc/net/tcp", "/proc/net/tcp6")
        for line in Path(table).read_text(encoding="ascii").splitlines()[1:]
        if line.split()[1].endswith(f":{page.port:04X}") and line.split()[3] == "0A"
    ]

    assert listening == [f"0100007F:{page.port:04X}"]


def test_the_link_that_shows_cannot_steer(pair: Pair) -> None:
    page, one, work = pair
    one.send("run", command=f"rm -rf {work}/looked-at")
    with page.stream(page.view) as stream:
        key, card = stream.question("looked-at")
        said = {"question": key, "digest": card["digest"], "allowed": True}

        refused = {
            page.post(f"/api/{path}", body, page.view)[0]
            for path, body in {
                "answer": said,
                "kill": {"run": key},
                "extend": {"run": key, "seconds": 60},
                "type": {"run": key, "text": "x"},
                "resize": {"run": key, "rows": 10, "columns": 10},
                "trial": {"trial": "t1", "act": "apply"},
                "stop-all": {},
            }.items()
        }

        assert stream.hello["role"] == "view"
        assert refused == {403}
        assert page.post("/api/answer", {**said, "allowed": False}, page.steer)[0] == 200
        assert "refused" in one.answer()["error"]


def test_a_yes_is_for_what_was_shown_and_counts_once(pair: Pair) -> None:
    page, one, work = pair
    victim = work / "victim"
    victim.mkdir()
    one.send("run", command=f"rm -rf {victim}")
    with page.stream(page.steer) as stream:
        key, card = stream.question("victim")
        said = {"question": key, "digest": card["digest"], "allowed": True}

        other = page.post("/api/answer", {**said, "digest": "0" * 64}, page.steer)
        none = page.post("/api/answer", {"question": key, "allowed": True}, page.steer)
        still_there = victim.exists()
        first = page.post("/api/answer", said, page.steer)
        second = page.post("/api/answer", said, page.steer)

        assert (other[0], none[0]) == (409, 409)
        assert "not what was shown" in other[1]["message"]
        assert still_there
        assert (first[0], first[1]["allowed"]) == (200, True)
        assert second[0] == 409
        assert one.answer()["exitCode"] == 0
        assert not victim.exists()
        stream.until(lambda rows: key not in rows)


def test_a_command_of_ours_cannot_approve_itself_even_with_the_token(
    pair: Pair, tmp_path: Path
) -> None:
    """It has read the token, which it could only from the terminal, and is refused all the same."""
    page, one, work = pair
    said, script = tmp_path / "said", tmp_path / "attack.py"
    script.write_text(ATTACK, encoding="utf-8")
    one.send("run", command=f"rm -rf {work}/wanted")
    with page.stream(page.steer) as stream:
        key, card = stream.question("wanted")
        argv = [sys.executable, str(script), str(page.port), page.steer, key, card["digest"]]
        hidden = shlex.join(["env", "-i", "setsid", "-w", *argv, str(said)])

        one.start(f"{hidden}; echo tried; sleep 100")
        stream.until(lambda _: said.exists() and said.read_text(encoding="utf-8"))

        for status, message in json.loads(said.read_text(encoding="utf-8"))[::2]:
            assert status == 403
            assert "started by a command that shelltie runs" in message
        assert key in stream.rows
        assert page.post("/api/stop-all", {}, page.steer)[0] == 200
        denied = {"question": key, "digest": card["digest"], "allowed": False}
        assert page.post("/api/answer", denied, page.steer)[0] == 200
        one.answer()


@pytest.mark.skipif(os.geteuid() != 0, reason="looks into every process, as nobody else can")
def test_the_tokens_are_on_no_command_line_and_in_no_environment(pair: Pair) -> None:
    page, _, _ = pair
    for token in (page.view, page.steer):
        look = [sys.executable, "-c", READ, token, str(page.process.pid)]

        assert subprocess.run(look, capture_output=True, check=True, text=True).stdout == "[]\n"


def test_a_page_that_a_command_of_ours_serves_cannot_steer(pair: Pair) -> None:
    _, one, _ = pair
    started = one.start(f"{shlex.join(SHELLTIE)} web --no-open", waitFor="leave with", maxWait=50)

    assert "nobody can steer through this page" in started["output"]
    assert "#steer=" not in started["output"]
    one.send("terminal_stop", id=started["id"])
    one.answer()


def test_the_link_that_is_opened_has_no_token_and_works_once(tmp_path: Path) -> None:
    """Every process can read it on the browser's command line. The browser stays, as some do."""
    link, browser = tmp_path / "link", tmp_path / "browser"
    browser.write_text(f'#!/bin/sh\necho "$1" > {link}.new; mv {link}.new {link}; sleep 900\n')
    browser.chmod(0o755)
    with (
        own_environment(DISPLAY=":9", BROWSER=str(browser)) as env,
        web_page(env, opens=True) as page,
        page.stream(page.view) as stream,
    ):
        stream.until(lambda _: link.exists())
        place, _, code = link.read_text(encoding="utf-8").strip().partition("#once=")

        entered = page.post("/api/enter", {"code": code})
        again = page.post("/api/enter", {"code": code})

    assert place == page.url
    assert code not in (page.view, page.steer)
    assert entered == (200, {"token": page.steer})
    assert again[0] == 401


def test_without_a_display_and_without_a_terminal_it_says_so() -> None:
    """The steering link is for a person's eyes: it goes into no pipe."""
    with own_environment(DISPLAY="", WAYLAND_DISPLAY="") as env:
        process = subprocess.Popen(
            [*SHELLTIE, "web"], env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        assert process.stdout is not None
        assert process.stderr is not None
        link, told = process.stdout.readline(), process.stderr.readline()
        process.terminate()
        rest, _ = process.communicate(timeout=50)

    assert b"#view=" in link
    assert b"#steer=" not in link + rest
    assert b"printed at a terminal only" in told


def test_a_port_that_is_taken_and_one_that_is_none_are_told() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        done = subprocess.run([*SHELLTIE, "web", "--port", port], capture_output=True, check=False)
    wrong = subprocess.run([*SHELLTIE, "web", "--port", "70000"], capture_output=True, check=False)

    assert done.returncode == 125
    assert b"Address already in use; without --port a free one is taken" in done.stderr
    assert wrong.returncode == 2
    assert b"'70000' is not a port" in wrong.stderr


def test_garbage_is_answered_and_leaves_everything_as_it_was(pair: Pair) -> None:
    page, _, _ = pair
    strange: tuple[object, ...] = (
        {},
        [],
        7,
        {"question": "question/no/such"},
        {"run": "run/x"},
        {"run": ["run"]},
    )
    for path in ("answer", "kill", "extend", "type", "follow", "explain"):
        for body in strange:
            assert page.post(f"/api/{path}", body, page.steer)[0] in (401, 403, 409), (path, body)
    assert page.get("/api/history/NOSUCHRUN", page.view)[0] == 404
    assert page.get("/api/history?count=many&only=%00", page.view)[0] == 200
    assert page.get("/nothing", page.view)[0] == 404


def test_what_stays_is_followed_and_ended_there_though_its_server_is_gone() -> None:
    with own_environment() as env:
        with agent(env) as one:
            started = one.start("echo out $((6*7)); sleep 300", stays=True, waitFor="out 42")
        with web_page(env) as page, page.stream(page.steer) as stream:
            key, row = stream.run("sleep 300")
            page.post("/api/follow", {"stream": stream.hello["stream"], "run": key}, page.steer)
            output = b""
            while b"out 42" not in output:
                said = stream.next()
                output += base64.b64decode(said["data"]) if said["type"] == "output" else b""
            ended = page.post("/api/kill", {"run": key}, page.steer)
            stream.until(lambda rows: rows[key].get("ended"))
            folder = Path(env["XDG_STATE_HOME"]) / "shelltie" / "stay"
            anyio.run(until, lambda: not list(folder.iterdir()))
    assert (row["sessionId"], row["server"], row["stays"]) == (started["id"], "stays", True)
    assert ended[0] == 200
    assert stream.rows[key]["state"] == "killed"
