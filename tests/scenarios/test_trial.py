"""A command on trial changes nothing until its changes are applied; and they can be undone."""

import json
import os
import signal
import socket
import subprocess
import sys
import sysconfig
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest
from anyio import fail_after

import shelltie
from shelltie import (
    Answer,
    CommandDenied,
    FinishedTrial,
    InvalidParameters,
    Question,
    Result,
    Terminal,
)
from shelltie.errors import IsolationUnavailable, NoSuchTrial, TrialOver
from shelltie.events import Event, TrialChanged
from shelltie.frontends.acp.methods import Rpc
from shelltie.frontends.acp.terminal_host import TerminalHost
from shelltie.frontends.web.past import past_rows, past_run
from shelltie.model import Caller
from shelltie.running.options import Requester
from shelltie.settings.config import Config
from shelltie.trials.transaction import RECORD, StepJournal
from tests.cli import SHELLTIE, carriers, on_terminal, text_of
from tests.cli import shelltie as shelltie_cli
from tests.conftest import Open
from tests.run_lock import ROOT
from tests.tree import until

pytestmark = pytest.mark.needs("bwrap", "git")
AGENT = Requester(Caller(client="agent"))


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository with a few files, in which everything happens."""
    place = tmp_path / "project"
    (place / "sub").mkdir(parents=True)
    (place / "kept").write_text("kept\n")
    (place / "sub" / "deep").write_text("deep\n")
    git(place, "init", "-q")
    git(place, "add", "-A")
    git(place, "commit", "-qm", "first")
    (tmp_path / "home").mkdir()
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.chdir(place)
    return place


def trial_of(result: Result) -> FinishedTrial:
    """What it did on trial."""
    assert isinstance(result.trial, FinishedTrial)
    return result.trial


def git(place: Path, *words: str) -> None:
    who = ("-c", "user.name=x", "-c", "user.email=x@y")
    subprocess.run(["git", *who, "-C", str(place), *words], check=True, capture_output=True)


def snapshot(place: Path) -> dict[str, tuple[int, int, str | bytes]]:
    """Every path with its mode, its time and its content."""
    found = {}
    for path in sorted(place.rglob("*")):
        status = path.lstat()
        content: str | bytes = ""
        if path.is_symlink():
            content = str(path.readlink())
        elif path.is_file():
            content = path.read_bytes()
        found[str(path)] = (status.st_mode, status.st_mtime_ns * path.is_file(), content)
    return found


@asynccontextmanager
async def answering(tmp_path: Path, answer: object, **settings: object) -> AsyncIterator[Terminal]:
    """A terminal with a person who says this."""
    config = Config.of(state_dir=str(tmp_path / "state"), **settings)
    async with Terminal(config, approve=answer) as terminal:  # type: ignore[arg-type]  # any answer
        yield terminal


async def test_changes_on_trial_are_applied_undone_or_forgotten(
    project: Path, open_terminal: Open
) -> None:
    before, told = snapshot(project), list[Event]()
    async with open_terminal(told.append) as terminal:
        with fail_after(100):
            result = await terminal.run("echo more >> kept; echo new > sub/new", trial=True)
            trial = trial_of(result)
            assert (result.status, trial.status) == ("success", "open")
            assert snapshot(project) == before
            assert "+more" in await trial.diff()

            await trial.apply()
            applied = (project / "kept").read_text(), (project / "sub" / "new").read_text()
            with pytest.raises(TrialOver, match="applied"):
                await trial.apply()
            await trial.undo()
            undone = snapshot(project)

            second = await terminal.run("rm -rf sub", trial=True)
            await trial_of(second).discard()
            with pytest.raises(TrialOver, match="discarded"):
                await trial_of(second).apply()
            with pytest.raises(NoSuchTrial, match="t2"):
                await terminal.trials.apply("t99", None, None)

    assert applied == ("kept\nmore\n", "new\n")
    assert {name: it[2] for name, it in undone.items()} == {n: it[2] for n, it in before.items()}
    assert "sub" in [path.name for path in project.iterdir()]
    statuses = [event.status for event in told if isinstance(event, TrialChanged)]
    assert statuses == ["open", "open"]  # what became of them was another terminal's


async def test_only_named_paths_are_applied(project: Path, open_terminal: Open) -> None:
    async with open_terminal() as terminal:
        with fail_after(60):
            result = await terminal.run("echo 1 > one; echo 2 > two", trial=True)
            await trial_of(result).apply("one")

    assert (project / "one").exists()
    assert not (project / "two").exists()


async def test_whoever_deletes_everything_has_deleted_nothing(
    project: Path, open_terminal: Open
) -> None:
    before = snapshot(project)
    async with open_terminal() as terminal:
        with fail_after(60):
            result = await terminal.run("rm -rf .git * .[a-z]*; ls -A", trial=True)

            assert (result.stdout, result.status) == ("", "success")  # nobody was asked
            with pytest.raises(CommandDenied):
                await terminal.trials.apply(trial_of(result).id, None, AGENT)
            await trial_of(result).discard()

    assert trial_of(result).objections
    assert snapshot(project) == before


async def test_a_link_out_of_the_workspace_leads_nowhere(
    project: Path, tmp_path: Path, open_terminal: Open
) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "mine").write_text("mine\n")
    async with open_terminal() as terminal:
        with fail_after(60):
            result = await terminal.run(
                f"rm -rf sub; ln -s {outside} sub; echo x > sub/mine; mkdir d; echo x > d/f",
                trial=True,
            )
            # What was a directory on trial is a link by now, and the other way round.
            (project / "d").symlink_to(outside)
            with pytest.raises(shelltie.TerminalError):
                await trial_of(result).apply()
            (project / "d").unlink()
            await trial_of(result).apply()

    assert (outside / "mine").read_text() == "mine\n"
    assert [path.name for path in outside.iterdir()] == ["mine"]
    assert (project / "sub").is_symlink()


async def test_what_a_limit_ended_can_still_be_looked_at(
    project: Path, open_terminal: Open
) -> None:
    async with open_terminal(limits_grace=0.5) as terminal:
        with fail_after(100):
            result = await terminal.run(
                "echo half > half; (sleep 1000 &); sleep 1000", trial=True, timeout=2
            )
            end = await terminal.trials.look(trial_of(result).id)

    assert (result.status, end.trial.outcome) == ("timeout", "timed out")
    assert end.changes.summary().startswith("1 file added")
    assert not (project / "half").exists()


_CHANGES = "echo x > kept; echo x > sub/deep; rm -r old; echo n > new; chmod 700 sub"


@pytest.mark.parametrize("then", ["discard", "list", "another trial"])
async def test_an_apply_that_was_killed_is_rolled_back_before_anything_else(
    project: Path, open_terminal: Open, monkeypatch: pytest.MonkeyPatch, then: str
) -> None:
    class Killed(BaseException):
        """As if the process had ended there."""

    def write(journal: StepJournal, folder: Path, name: str) -> None:
        if name == RECORD:  # all is done, and nobody knows it yet
            raise Killed
        real(journal, folder, name)

    real = StepJournal.write
    before = (project / "kept").read_text()
    (project / "old").mkdir()
    (project / "old/one").touch()
    async with open_terminal() as terminal:
        trial = trial_of(await terminal.run(_CHANGES, trial=True))
        with monkeypatch.context() as patch:
            patch.setattr(StepJournal, "write", write)
            with pytest.raises(Killed):
                await trial.apply()
        half = (project / "kept").read_text()
        if then == "discard":
            await trial.discard()
        elif then == "list":
            assert [one.id for one in terminal.trials.list()] == ["t1"]
            assert (await terminal.trials.look("t1")).changes.conflicts() == ()
        else:
            assert (await terminal.run("cat kept", trial=True)).stdout == before

    assert half != before
    assert (project / "kept").read_text() == before
    assert (project / "sub/deep").read_text() == "deep\n"


async def test_a_trial_that_could_send_something_is_asked_about_with_that_reason(
    project: Path, tmp_path: Path
) -> None:
    asked = list[Question]()

    async def no(question: Question) -> Answer:
        asked.append(question)
        return Answer(allowed=False)

    async with answering(tmp_path, no, sandbox_network="on") as terminal:
        with pytest.raises(CommandDenied, match=r"sandbox\.network"), fail_after(100):
            await terminal.run("rm -rf kept", trial=True)

    assert "sandbox.network lets it send what it has read" in str(asked[0].verdict.reasons)
    assert (project / "kept").exists()


def test_what_it_tried_outside_is_told_with_its_changes(project: Path) -> None:
    script = "echo x >> kept; touch /usr/spoiled; curl -sS https://example.org; true"
    shelltie_cli("run", "--trial", "--", script)
    journal = Path(json.loads(text_of("paths", "--json"))["journal"]["path"])
    (row,) = past_rows(journal, {})
    assert past_run(journal, str(row["runId"]))["trial"] == "t1, open: 1 file changed, 7 B"

    assert "It tried to write /usr/spoiled" in text_of("changes", "t1")
    assert "/usr/spoiled" in json.loads(text_of("changes", "t1", "--json"))["tried"]
    assert (project / "kept").read_text() == "kept\n"


class _Person:
    """Says yes, and remembers what was asked."""

    name, can_ask = "the editor", True

    def __init__(self) -> None:
        self.asked = list[Question]()

    async def ask(self, question: Question) -> Answer:
        """See `Channel`."""
        self.asked.append(question)
        return Answer(allowed=True, by="the editor")


async def test_an_agent_behind_an_editor_tries_and_applies(
    project: Path, open_terminal: Open
) -> None:
    person = _Person()
    async with open_terminal() as terminal, TerminalHost(terminal.supervisor) as host:
        for session in ("mine", "other"):
            host.open_session(session, project)
        rpc = Rpc(host, asking=lambda _: person)

        async def call(method: str, **params: object) -> dict[str, Any]:
            with fail_after(100):
                return await rpc.answer(method, {"sessionId": "mine", **params})

        made = (await call("terminal/create", command="echo x >> new", _meta={"trial": True}))[
            "result"
        ]
        ended = await call("terminal/wait_for_exit", terminalId=made["terminalId"])
        shown = await call("terminal/output", terminalId=made["terminalId"])
        looked = await call("_shelltie/trial", id="t1", action="changes")
        stolen = await call("_shelltie/trial", sessionId="other", id="t1", action="apply")
        wrong = await call("_shelltie/trial", id="t1", action="close")
        before = (project / "new").exists()
        applied = await call("_shelltie/trial", id="t1", action="apply")
        after = (project / "new").exists()
        undone = await call("_shelltie/trial", id="t1", action="undo")

    assert made["_meta"]["trial"] == "t1"
    told = ended["result"]["_meta"]["trial"]
    assert (told["status"], told["changes"]) == ("open", ["added    new (2 B)"])
    assert "⟨shelltie: on trial t1, open: 1 file added, 2 B⟩" in shown["result"]["output"]
    assert "+x" in looked["result"]["diff"]
    assert "there is no trial 't1' of this session" in stolen["error"]["message"]
    assert "action must be one of" in wrong["error"]["message"]
    assert (before, after, (project / "new").exists()) == (False, True, False)
    assert (applied["result"]["status"], undone["result"]["status"]) == ("applied", "undone")
    (question,) = person.asked
    assert question.is_apply
    assert "git neither tracks nor ignores it: new" in question.verdict.reasons[0].message


async def test_by_policy_an_editors_command_is_tried_and_applied(
    project: Path, open_terminal: Open
) -> None:
    policy = {"safety_profiles_acp_unknown": "trial"}
    async with open_terminal(**policy) as terminal, TerminalHost(terminal.supervisor) as host:
        host.open_session("mine", project)
        with fail_after(100):
            made = await host.create_terminal("mine", "sh", ["-c", "echo x >> kept"])
            ended = await host.wait_for_terminal_exit("mine", made.terminal_id)

    assert ended.field_meta is not None
    assert str(ended.field_meta["trial"]).count("applied") == 1
    assert (project / "kept").read_text() == "kept\nx\n"


_KILLED_AT = """
import os, signal, sys
from shelltie.trials.trial_store import TrialStore

def save(store, trial):
    if trial.status == status:
        os.kill(os.getpid(), signal.SIGKILL)
    real(store, trial)

real, TrialStore.save = TrialStore.save, save
status, sys.argv[:2] = sys.argv[1], ["shelltie"]
from shelltie.frontends.cli.main import program
program()
"""


def test_another_directory_of_the_same_name_gets_nothing(project: Path, tmp_path: Path) -> None:
    text_of("run", "--trial", "--", "echo new > new")
    project.rename(tmp_path / "moved")
    project.mkdir()

    for words in (("apply", "t1", "--yes"), ("changes", "t1")):
        refused = shelltie_cli(*words)
        assert b"is another directory than the one of t1" in refused.stderr
    assert not [*project.iterdir()]

    project.rmdir()
    (tmp_path / "moved").rename(project)
    text_of("apply", "t1", "--yes")
    assert (project / "new").exists()


def test_a_trial_whose_record_is_damaged_is_told_and_can_be_discarded(
    project: Path, tmp_path: Path
) -> None:
    text_of("run", "--trial", "--", "echo new > new")
    (record,) = tmp_path.rglob("trial.json")
    record.write_text("{")

    assert "damaged" in text_of("changes")
    for words in (("changes", "t1"), ("apply", "t1", "--yes"), ("undo", "t1")):
        assert b"t1 is damaged" in shelltie_cli(*words).stderr
    assert "discarded t1" in text_of("discard", "t1")
    assert not record.parent.exists()
    assert not (project / "new").exists()


def test_what_was_done_and_not_written_down_is_known_all_the_same(project: Path) -> None:
    def killed(status: str, *words: str) -> None:
        ended = subprocess.run([sys.executable, "-c", _KILLED_AT, status, *words], check=False)
        assert ended.returncode == -signal.SIGKILL

    text_of("run", "--trial", "--", "echo more >> kept; echo new > new")
    killed("applied", "apply", "t1", "--yes")
    assert (project / "kept").read_text() == "kept\nmore\n"
    assert "applied" in text_of("changes")
    again = shelltie_cli("apply", "t1", "--yes")
    assert b"t1 is applied; `shelltie undo t1` takes it back" in again.stderr

    killed("undone", "undo", "t1")
    assert (project / "kept").read_text() == "kept\n"
    assert not (project / "new").exists()
    assert "undone" in text_of("changes")
    assert b"t1 is undone" in shelltie_cli("undo", "t1").stderr

    text_of("run", "--trial", "--", "echo more >> kept")
    killed("applied", "apply", "t2", "--yes")
    text_of("undo", "t2")
    assert (project / "kept").read_text() == "kept\n"
    lines = map(json.loads, text_of("audit", "export").splitlines())
    told = [(it["trial"], it["status"]) for it in lines if "trial" in it]
    assert told == [
        *(("t1", "open"), ("t1", "applied"), ("t1", "undone")),
        *(("t2", "open"), ("t2", "applied"), ("t2", "undone")),
    ]


async def test_several_trials_at_once_do_not_meet(project: Path, open_terminal: Open) -> None:
    async with open_terminal() as terminal:
        results = list[Result]()

        async def one(number: int) -> None:
            text = f"test ! -e mine && echo {number} > mine && echo {number} > file{number}"
            results.append(await terminal.run(text, trial=True))

        with fail_after(100):
            async with anyio.create_task_group() as tasks:
                for number in range(3):
                    tasks.start_soon(one, number)
            assert [it.status for it in results] == ["success"] * 3
            first, second, third = map(trial_of, results)
            await first.apply()
            with pytest.raises(shelltie.TerminalError, match="mine"):
                await second.apply()
            await third.discard()

    assert len({trial_of(it).id for it in results}) == 3
    assert len(list(project.glob("file*"))) == 1


@pytest.mark.parametrize("said", [True, False])
async def test_a_person_is_asked_with_the_diff(
    project: Path,
    tmp_path: Path,
    said: bool,
) -> None:
    questions = list[Question]()

    def ask(question: Question) -> Answer:
        questions.append(question)
        return Answer(allowed=said, by="me")

    async with answering(tmp_path, ask, safety_profiles_run_unknown="trial") as terminal:
        with fail_after(60):
            result = await terminal.run("./unheard-of; rm kept; echo new > new")

    (question,) = questions
    assert "-kept" in question.command.text
    assert question.command.text.startswith("shelltie apply t1")
    assert trial_of(result).status == ("applied" if said else "open")
    assert (project / "kept").exists() is not said


async def test_by_policy_harmless_changes_are_applied_unasked(
    project: Path, open_terminal: Open
) -> None:
    settings = {f"safety_profiles_run_{it}": "trial" for it in ("unknown", "dangerous")}
    async with open_terminal(**settings) as terminal:
        with fail_after(60):
            result = await terminal.run("echo changed > kept; ./unheard-of")
            safe = await terminal.run("cat kept")

    assert (project / "kept").read_text() == "changed\n"
    assert trial_of(result).status == "applied"
    assert (safe.trial, safe.stdout) == (None, "changed\n")


async def test_how_many_deletions_are_asked_about_is_a_setting(
    project: Path, open_terminal: Open
) -> None:
    statuses, told = list[str](), list[str]()
    for most in (1, 10):
        settings = {"safety_profiles_run_unknown": "trial", "trial_deletions": most}
        async with open_terminal(**settings) as terminal:
            with fail_after(60):
                trial = trial_of(await terminal.run("rm sub/deep; ./unheard-of"))
        statuses.append(trial.status)
        told += trial.objections

    assert statuses == ["open", "applied"]
    assert "1 files deleted: sub/deep" in told
    assert not (project / "sub/deep").exists()


async def test_what_makes_no_sense_on_trial_is_said(
    project: Path, tmp_path: Path, open_terminal: Open
) -> None:
    async with open_terminal(safety_profiles_run_dangerous="deny") as terminal:
        with fail_after(60):
            with pytest.raises(InvalidParameters, match="a trial runs in a sandbox"):
                await terminal.run("true", trial=True, isolation="container")
            for unfit in ("/", str(tmp_path / "home"), "/usr"):
                with pytest.raises(IsolationUnavailable, match="Nothing was run"):
                    await terminal.run("true", trial=True, workspace=unfit)
            with pytest.raises(CommandDenied, match="the policy refuses"):
                await terminal.run("rm -rf /", trial=True)
    inside = Config.of(state_dir=str(project / "state"))
    async with Terminal(inside) as terminal:
        with pytest.raises(IsolationUnavailable, match="outside of the workspace"):
            await terminal.run("true", trial=True)
    assert not list((tmp_path / "state" / "trials").glob("t*"))


async def test_pipes_and_sockets_outside_are_not_reached(
    project: Path, open_terminal: Open
) -> None:
    os.mkfifo(project / "pipe")
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(project / "daemon"))
        server.listen()
        async with open_terminal() as terminal:
            with fail_after(60):
                result = await terminal.run(
                    [
                        *("/usr/bin/python3", "-c"),
                        "import socket, os\n"
                        "s = socket.socket(socket.AF_UNIX)\n"
                        "try: s.connect('daemon')\n"
                        "except OSError as error: print(error.strerror)\n"
                        "try: os.open('pipe', os.O_WRONLY | os.O_NONBLOCK)\n"
                        "except OSError as error: print(error.strerror)\n"
                        "os.mkfifo('mine')\n"
                        "socket.socket(socket.AF_UNIX).bind('own')",
                    ],
                    trial=True,
                )

    assert result.stderr == ""
    assert result.stdout.splitlines() == ["Connection refused", "No such device or address"]
    assert any("fifo" in line for line in trial_of(result).changes)


def test_the_command_line_shows_applies_and_undoes(project: Path) -> None:
    ran = subprocess.run(
        [*SHELLTIE, "run", "--trial", "--", "echo hi; echo new > new; rm kept"],
        capture_output=True,
        check=True,
        timeout=100,
    )
    assert ran.stdout == b"hi\n"
    assert b"shelltie changes t1" in ran.stderr
    assert "+new" in text_of("changes", "t1", "--diff")
    assert json.loads(text_of("changes", "t1", "--json"))["total"] == 2

    text_of("apply", "t1", "--yes")
    applied = (project / "new").exists(), (project / "kept").exists()
    text_of("undo", "t1")

    assert applied == (True, False)
    assert (project / "kept").read_text() == "kept\n"
    assert not (project / "new").exists()
    assert "undone" in text_of("changes")
    recorded = [line for line in text_of("audit", "tail").splitlines() if " trial " in line]
    assert ["t1 open" in recorded[0], "t1 undone" in recorded[2]] == [True, True]
    assert "t1 applied: 1 file added, 1 deleted" in recorded[1]


@pytest.mark.usefixtures("project")
def test_a_diff_at_a_terminal_has_no_control_characters() -> None:
    text_of("run", "--trial", "--", r"printf '\033]0;title\a\n' > kept; echo more > other")

    _, shown = on_terminal("changes", "t1", "--diff")
    applied = text_of("apply", "t1", "kept", "--yes")

    assert "title" in shown
    assert "\033]0;" not in shown
    assert "1 other changes are discarded" in applied


async def test_what_was_interrupted_is_found_and_nothing_of_it_runs(project: Path) -> None:
    words = [*SHELLTIE, "run", "--trial", "--", "echo half > half; echo ready; sleep 1000"]
    env = {**os.environ, "TAG_TRIAL": "1"}
    with subprocess.Popen(words, stdout=subprocess.PIPE, env=env) as process:  # noqa: ASYNC220  as a person would
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        process.send_signal(signal.SIGKILL)
    await until(lambda: not carriers("TAG_TRIAL"))

    assert "interrupted" in text_of("changes", "t1")
    assert not (project / "half").exists()
    text_of("discard", "t1")
    assert "discarded" in text_of("changes")


_ON_A_FULL_DISK = """
mount -t tmpfs -o size=12m none "$1"
export XDG_STATE_HOME="$1"
shift
"$@" run --trial -- 'head -c 30000000 /dev/zero > big; echo x >> kept' >&2
"$@" changes
"$@" discard t1
"$@" run --trial -- 'echo more >> kept'
"$@" apply t2 --yes
"""


@pytest.mark.needs("unshare")
def test_a_full_disk_can_be_emptied_again(project: Path, tmp_path: Path) -> None:
    place = tmp_path / "small"
    place.mkdir()
    users = [] if os.geteuid() == 0 else ["--user", "--map-root-user"]
    words = ["unshare", "--mount", *users, "sh", "-c", _ON_A_FULL_DISK, "sh", str(place)]
    done = subprocess.run([*words, *SHELLTIE], capture_output=True, text=True, check=False)

    assert "No space left on device" in done.stderr
    assert "fault of shelltie" not in done.stderr
    assert "discarded t1" in done.stdout
    assert "applied t2" in done.stdout
    assert (project / "kept").read_text() == "kept\nmore\n"
    assert not (project / "big").exists()


@pytest.fixture
def public_project(public_path: Path) -> Path:
    """A project of nobody's, with a home and a state directory."""
    for name in ("home", "project"):
        (public_path / name).mkdir()
        os.chown(public_path / name, 65534, 65534)
    (public_path / "project" / "kept").write_text("kept\n")
    os.chown(public_path / "project" / "kept", 65534, 65534)
    return public_path / "project"


@pytest.mark.needs("setpriv")
@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to be somebody else")
def test_an_ordinary_user_has_trials(public_project: Path) -> None:
    python = Path("/usr/bin/python3")
    version = f"Python {sys.version_info[0]}.{sys.version_info[1]}."
    shown = subprocess.run([python, "--version"], capture_output=True, text=True, check=False)
    if not shown.stdout.startswith(version):
        pytest.skip(f"needs {version}x in /usr/bin, which an ordinary user can run")
    home = public_project.parent / "home"
    env = {
        "PATH": "/usr/bin:/bin",
        "HOME": str(home),
        "PYTHONDONTWRITEBYTECODE": "1",
        # Not sys.path: another Python of the same version has another standard library.
        "PYTHONPATH": f"{ROOT / 'src'}:{sysconfig.get_path('purelib')}",
    }
    become = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]

    def as_nobody(*words: str) -> str:
        done = subprocess.run(
            [*become, str(python), "-m", "shelltie", *words],
            cwd=public_project,
            env=env,
            capture_output=True,
            timeout=100,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout.decode()

    assert as_nobody("run", "--trial", "--", "id -u; echo x >> kept; echo n > new") == "65534\n"
    assert (public_project / "kept").read_text() == "kept\n"
    as_nobody("apply", "t1", "--yes")
    assert (public_project / "kept").read_text() == "kept\nx\n"
    assert (public_project / "new").stat().st_uid == 65534

    as_nobody("config", "set", "sandbox.writes", "trial")  # else nothing runs
    as_nobody("run", "--isolation", "sandbox", "--", "id -u; echo y >> kept; rm new; echo .>.envrc")
    assert (public_project / "kept").read_text() == "kept\nx\ny\n"
    assert [path.name for path in public_project.iterdir()] == ["kept"]
