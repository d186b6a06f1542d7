"""Who may say yes: a person beside the server may, a command that shelltie runs may not."""

import json
import os
import sys
from collections.abc import AsyncIterator

import anyio
import anyio.to_thread
import pytest

from shelltie.approval import ancestry
from shelltie.approval.broker import Broker
from shelltie.approval.question import Question
from shelltie.errors import ControlRefused, NoServerAnswer
from shelltie.frontends.control import client
from shelltie.frontends.control.peer import Peer
from shelltie.frontends.control.questions import answerable
from shelltie.frontends.control.server import must_be_a_person
from shelltie.keeper.binaries import choose
from shelltie.keeper.link import Link
from shelltie.model import Command
from shelltie.verdict import Rating, Verdict
from tests.asking import ROOT, SHELLTIE, asking, not_on_a_leash, shelltie
from tests.leashes import output_of

IS_ROOT = os.geteuid() == 0


@pytest.fixture
async def link(keeper: str) -> AsyncIterator[Link]:
    made = Link(*choose(None if keeper == "auto" else keeper))
    try:
        yield made
    finally:
        await made.close()


def question() -> Question:
    return Question.about(Command("rm -rf build"), Verdict(Rating.DANGEROUS), "local")


# A command cannot approve itself


def _plainly(approve: str) -> str:
    return approve


def _in_a_session_of_its_own(approve: str) -> str:
    return f"setsid {approve}"


def _after_a_double_fork(approve: str) -> str:
    return f"(setsid bash -c '{approve}; true' & ) ; true"


def _with_an_empty_environment(approve: str) -> str:
    kept = " ".join(f"{name}='{os.environ[name]}'" for name in _NEEDED if name in os.environ)
    return f"env -i {kept} {approve}"


def _after_killing_its_leash(approve: str) -> str:
    return f"kill -KILL $PPID; {approve}"


_NEEDED = ("SHELLTIE_RUNTIME_DIR", "XDG_STATE_HOME", "XDG_CONFIG_HOME", "PYTHONPATH", "PATH")


@not_on_a_leash
@pytest.mark.parametrize(
    "trick",
    [
        _plainly,
        _in_a_session_of_its_own,
        _after_a_double_fork,
        _with_an_empty_environment,
        _after_killing_its_leash,
    ],
)
async def test_a_command_cannot_approve_itself(link: Link, trick: object) -> None:
    assert callable(trick)
    async with asking() as server:
        name = await server.ask("rm -rf build")
        approve = f"{' '.join(SHELLTIE)} approve {name} --yes 2>&1"

        said = await output_of(
            link, "bash", "-c", trick(approve), env=dict(os.environ), cwd=str(ROOT)
        )
        pending = json.loads((await shelltie("pending", "--json"))[1])
        code, *_ = await shelltie("approve", name)
        answer = await server.says()

    assert b"only a person may do this" in said or trick is _after_killing_its_leash
    assert b"allowed" not in said
    assert [one["id"] for one in pending] == [name]
    assert (code, answer["id"], answer["allowed"]) == (0, name, True)


async def test_nor_by_killing_leash_and_keeper_while_it_bears_its_mark(link: Link) -> None:
    async with asking() as server:
        name = await server.ask("rm -rf build")
        escape = (
            "keeper=$(awk '{print $4}' /proc/$PPID/stat);"
            "grep -q keeper /proc/$keeper/cmdline && kill -KILL $keeper $PPID;"
            f"{' '.join(SHELLTIE)} approve {name} --yes 2>&1"
        )
        env = {**os.environ, "SHELLTIE_RUN": "01ABC"}

        said = await output_of(link, "bash", "-c", escape, env=env, cwd=str(ROOT))

    assert b"only a person may do this" in said


async def test_nor_by_talking_to_the_socket_itself(link: Link) -> None:
    talk = (
        "import sys; from pathlib import Path; from shelltie.frontends.control.client import ask\n"
        "path, name = Path(sys.argv[1]), sys.argv[2]\n"
        "digest = ask(path, 'pending', id=name)['questions'][0]['digest']\n"
        "print(ask(path, 'answer', id=name, digest=digest, allowed=True))\n"
    )
    async with asking() as server:
        name = await server.ask("rm -rf build")
        argv = (sys.executable, "-c", talk, str(server.socket), name)

        said = await output_of(link, *argv, env=dict(os.environ), cwd=str(ROOT))
        listed = await anyio.to_thread.run_sync(client.ask, server.socket, "pending")

    assert b"NoServerAnswer: only a person may do this" in said
    assert len(listed["questions"]) == 1  # type: ignore[arg-type]  # a list


async def test_what_a_server_started_itself_cannot_answer_it() -> None:
    broker = Broker()
    async with answerable(broker, os.environ):
        asked = question()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(broker.ask, asked)
            code, _, said = await shelltie("approve", asked.id)
            waiting = [one.question for one in broker.pending()]
            tasks.cancel_scope.cancel()

    assert code == 126
    assert "started by a command that shelltie runs" in said
    assert waiting == [asked]


@not_on_a_leash
@pytest.mark.needs("unshare")
@pytest.mark.skipif(not IS_ROOT, reason="only root can make a pid namespace")
async def test_nor_can_somebody_in_another_pid_namespace() -> None:
    async with asking() as server:
        name = await server.ask("rm -rf build")

        done = await anyio.run_process(
            ["unshare", "--pid", "--fork", *SHELLTIE, "approve", name], check=False
        )

    assert done.returncode == 126
    assert b"pid namespace" in done.stderr


async def test_nor_can_somebody_who_is_not_there_any_more() -> None:
    gone = await anyio.run_process([sys.executable, "-c", "import os; print(os.getpid())"])

    assert ancestry.why_not_a_person(int(gone.stdout)) == (
        "it cannot be seen: it has ended, or lives in another pid namespace"
    )
    assert ancestry.why_not_a_person(0) is not None


@not_on_a_leash
async def test_who_has_ended_meanwhile_says_nothing() -> None:
    class Ended(Peer):
        """Whose pid is somebody's who may; but it is not its own any more."""

        def __init__(self) -> None:
            self.pid, self.uid = os.getppid(), os.geteuid()

        def present(self) -> bool:
            return False

    assert ancestry.why_not_a_person(os.getppid(), os.getpid()) is None
    with pytest.raises(ControlRefused, match="it has ended"):
        await must_be_a_person(Ended())


@pytest.mark.needs("ps")
async def test_without_proc_the_ancestors_are_seen_by_ps(link: Link) -> None:
    look = (
        "import os\n"
        "from shelltie.approval.ancestry import ancestry, processes_by_ps\n"
        "line = ancestry(os.getpid(), processes_by_ps().get)\n"
        "print(any(one.leashed for one in line), len(line) > 3)"
    )

    said = await output_of(link, sys.executable, "-c", look, env=dict(os.environ), cwd=str(ROOT))

    assert said == b"True True\n"


# A person beside the server


@not_on_a_leash
@pytest.mark.proves("C-59", "C-60")
async def test_a_person_approves_and_it_runs_once() -> None:
    async with asking() as server:
        name = await server.ask("rm -rf build")

        code, out, _ = await shelltie("approve", name.lower())
        answer = await server.says()
        again = await server.ask("rm -rf build", patience=0.1)
        refused = await server.says()

    assert (code, answer["allowed"], answer["by"]) == (0, True, f"a person (uid {os.geteuid()})")
    assert "│ rm -rf build" in out
    assert f"{name} allowed, this once; it starts now." in out
    assert again != name
    assert not refused["allowed"]


@not_on_a_leash
async def test_a_person_refuses_and_says_why() -> None:
    async with asking() as server:
        name = await server.ask("rm -rf build")

        code, out, _ = await shelltie("deny", name, "--reason", "use make clean")
        answer = await server.says()

    assert (code, out) == (0, f"{name} refused.\n")
    assert (answer["allowed"], answer["reason"]) == (False, "use make clean")


@not_on_a_leash
async def test_a_yes_after_the_caller_left_counts_when_it_comes_back() -> None:
    async with asking() as server:
        name = await server.ask("rm -rf build", patience=0.1)
        refused = await server.says()
        listed = (await shelltie("pending"))[1]
        shown = (await shelltie("pending", name))[1]

        code, out, _ = await shelltie("approve", name)
        await server.send("rm -rf build", patience=0.1)
        allowed = await server.says()

    assert not refused["allowed"]
    assert f"shelltie approve {name}" in refused["reason"]
    assert "dangerous (if repeated)" in listed
    assert "the caller no longer waits; a yes allows it to repeat the call" in shown
    assert code == 0
    assert "when the same call comes within 10m" in out
    assert allowed["allowed"]


@not_on_a_leash
async def test_for_the_session_and_for_good() -> None:
    async with asking() as server:
        first = await server.ask("rm -rf build")
        await shelltie("approve", first, "--session")
        await server.says()
        await server.send("rm -rf build")
        session = await server.says()
        second = await server.ask("rm -rf dist")
        _, out, _ = await shelltie("approve", second, "--always")
        await server.says()
    async with asking() as other:
        await other.send("rm -rf dist")
        always = await other.says()
        await other.ask("rm -rf build", patience=0.1)
        forgotten = await other.says()

    assert session["allowed"]
    assert 'text = "rm -rf dist"' in out
    assert always["allowed"]
    assert always["by"].endswith("approved.toml")
    assert not forgotten["allowed"]


@not_on_a_leash
async def test_questions_of_several_servers_are_listed_together() -> None:
    async with asking() as one, asking() as other:
        names = [await one.ask("rm -rf one"), await other.ask("rm -rf other", rating="unknown")]

        _, out, _ = await shelltie("pending")
        listed = json.loads((await shelltie("pending", "--json"))[1])
        await shelltie("approve", names[1])
        answer = await other.says()
        left = json.loads((await shelltie("pending", "--json"))[1])

    assert all(name in out for name in names)
    assert max(map(len, out.splitlines())) <= 80
    assert [(item["id"], item["rating"]) for item in listed] == [
        (names[0], "dangerous"),
        (names[1], "unknown"),
    ]
    assert answer["allowed"]
    assert [item["id"] for item in left] == [names[0]]


@not_on_a_leash
async def test_one_question_is_shown_in_full() -> None:
    text = "\n".join(f"echo {number}" for number in range(200)) + "\nrm -rf \u202e~"
    async with asking() as server:
        name = await server.ask(text, env={"LD_PRELOAD": "/x.so", "HOME": None})

        _, short, _ = await shelltie("pending", name)
        _, full, _ = await shelltie("pending", name, "--full")
        shown = json.loads((await shelltie("pending", name, "--json"))[1])

    assert "shelltie pending" in short
    assert "set     LD_PRELOAD=/x.so" in short
    assert "unset   HOME" in short
    assert "rm -rf ⟨U+202E⟩~" in short
    assert "echo 100" not in short
    assert "echo 100" in full
    assert shown["command"] == text


@not_on_a_leash
async def test_an_unknown_id_is_explained() -> None:
    nobody = await shelltie("approve", "ABC123")
    async with asking() as server:
        name = await server.ask("rm -rf build")
        near = name[:-1] + ("0" if name[-1] != "0" else "1")
        wrong = [await shelltie(verb, near) for verb in ("approve", "deny", "pending")]

    assert nobody[0] == 1
    assert "no shelltie server runs here" in nobody[2]
    for code, _, said in wrong:
        assert code == 1
        assert f"did you mean {name}? waiting: {name}" in said


async def test_with_nothing_to_answer_pending_says_so() -> None:
    code, out, _ = await shelltie("pending")

    assert code == 0
    assert out == "Nothing waits for an answer; no server running.\n"
    assert (await shelltie("pending", "--json"))[1] == "[]\n"


# Answers that are none


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({}, "needs id"),
        ({"id": 3, "digest": "", "allowed": True}, "needs id"),
        ({"id": "ABC123", "digest": "x", "allowed": "yes"}, "needs id"),
        ({"id": "ABC123", "allowed": True}, "needs id"),
        ({"id": "ABC123", "digest": "x", "allowed": True, "scope": "all"}, "scope must be"),
        ({"id": "ABC123", "digest": "x", "allowed": True, "reason": 3}, "reason a text"),
    ],
)
async def test_a_malformed_answer_is_refused(fields: dict[str, object], said: str) -> None:
    async with answerable(Broker(), os.environ) as control:
        assert control.path is not None
        path = control.path

        def answer() -> None:
            client.ask(path, "answer", **fields)

        with pytest.raises(NoServerAnswer, match=said):
            await anyio.to_thread.run_sync(answer)
