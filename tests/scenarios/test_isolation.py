"""Where a command runs is what was asked for, or what the policy demands, or it does not run."""

import json
import traceback
from pathlib import Path

import anyio
import pytest

from shelltie import (
    Answer,
    CannotStart,
    CommandDenied,
    ConfirmationRequired,
    InvalidParameters,
    Question,
    Terminal,
)
from shelltie.errors import IsolationUnavailable
from shelltie.keeper.link import Leash, Link
from shelltie.model import Bar, Command, Isolation
from shelltie.providers.bubblewrap import bwrap, provider
from shelltie.providers.container.provider import ContainerProvider
from shelltie.providers.local import LocalProvider
from shelltie.running.options import RunOptions
from tests.cli import shelltie, text_of
from tests.conftest import Open
from tests.containers import IMAGE, OwnEngine
from tests.sandboxes import become_older, forbid_namespaces
from tests.task_project import Project

pytestmark = pytest.mark.needs("bwrap", "unshare")
_WHERE = "readlink /proc/self/ns/pid"
HERE = Path("/proc/self/ns/pid").readlink()


@pytest.fixture(autouse=True)
def workspace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "project"
    path.mkdir()
    monkeypatch.chdir(path)
    return path


@pytest.fixture
def no_sandbox(public_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    forbid_namespaces(public_path, monkeypatch)


class BigBox(LocalProvider):
    """A place that says more of itself; it stands for a user's own."""

    name = "big-box"
    isolation = Isolation.CONTAINER
    bars = frozenset({Bar.NETWORK})
    works = True

    async def ready(self, workspace: str) -> None:
        if not self.works:
            raise CannotStart(f"the box is shut for {workspace}: open it")


async def test_a_place_is_known_by_its_name_and_level_before_it_is_imported(
    terminal: Terminal,
) -> None:
    real = (LocalProvider, provider.BubblewrapProvider, ContainerProvider)

    places = terminal.supervisor.placement.providers.values()

    assert [(one.name, one.isolation) for one in places] == [
        (one.name, one.isolation) for one in real
    ]


@pytest.mark.proves("T2-34", "S2-7")
async def test_a_level_that_is_asked_for_is_given_and_told(open_terminal: Open) -> None:
    async with open_terminal(safety_enforce="off") as terminal:
        usual = await terminal.run(_WHERE)
        none = await terminal.run(_WHERE, isolation="none")
        sandbox = await terminal.run(_WHERE, isolation="sandbox")
        named = await terminal.run(_WHERE, provider="bubblewrap")
        auto = await terminal.run(_WHERE, isolation="auto")

    assert usual.stdout == none.stdout == f"{HERE}\n"
    assert (usual.provider, usual.isolation) == ("local", "none")
    for isolated in (sandbox, named, auto):
        assert isolated.stdout.startswith("pid:")
        assert isolated.stdout != usual.stdout
        assert (isolated.provider, isolated.isolation) == ("bubblewrap", "sandbox")
    assert any("isolation is sandbox, by bubblewrap" in note for note in auto.warnings)


@pytest.mark.proves("T2-34")
@pytest.mark.usefixtures("no_sandbox")
async def test_what_cannot_be_had_is_an_error_and_nothing_runs_instead(
    open_terminal: Open, workspace: Path
) -> None:
    wishes: list[dict[str, str]] = [
        {"isolation": "sandbox"},
        {"isolation": "container"},
        {"provider": "bubblewrap"},
    ]
    said = []
    async with open_terminal(safety_enforce="off") as terminal:
        for wish in wishes:
            with pytest.raises(IsolationUnavailable) as refusal:
                await terminal.run("touch canary", **wish)  # type: ignore[arg-type]  # as named
            said.append(str(refusal.value))
        auto = await terminal.run(_WHERE, isolation="auto")

    assert not (workspace / "canary").exists()
    assert "user.max_user_namespaces" in said[0]
    assert "user.max_user_namespaces" in said[2]
    assert (auto.isolation, auto.stdout) == ("none", f"{HERE}\n")
    assert any("isolation is none" in note and "bubblewrap" in note for note in auto.warnings)


async def test_an_older_bubblewrap_does_with_fewer_options(
    terminal: Terminal, public_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    become_older(public_path, monkeypatch)
    result = await terminal.run("echo fine", isolation="sandbox")

    assert (result.stdout, result.isolation) == ("fine\n", "sandbox")


async def test_without_bubblewrap_it_says_what_to_install(
    open_terminal: Open, public_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bwrap, "PLACES", (str(public_path),))
    monkeypatch.setenv("PATH", str(public_path))
    async with open_terminal() as terminal:
        with pytest.raises(IsolationUnavailable, match="bubblewrap is not installed"):
            await terminal.run("true", isolation="sandbox")


async def test_many_first_commands_at_once_share_one_sandbox(terminal: Terminal) -> None:
    results: list[str] = []

    async def one() -> None:
        results.append((await terminal.run(_WHERE, isolation="sandbox")).stdout)

    async with anyio.create_task_group() as tasks:
        for _ in range(8):
            tasks.start_soon(one)

    assert len(results) == 8
    assert len(set(results)) == 1


@pytest.mark.parametrize(
    ("wish", "said"),
    [
        ({"isolation": "moon"}, "use none, sandbox, container, auto"),
        ({"isolation": ""}, "use none, sandbox, container, auto"),
        ({"provider": "moon"}, "there are local, bubblewrap, container"),
        ({"provider": "local", "isolation": "sandbox"}, "name one of them"),
        ({"provider": "bubblewrap", "isolation": "none"}, "name one of them"),
    ],
)
async def test_what_makes_no_sense_says_what_would(
    terminal: Terminal, workspace: Path, wish: dict[str, str], said: str
) -> None:
    with pytest.raises(InvalidParameters, match=said):
        await terminal.run("touch canary", **wish)  # type: ignore[arg-type]  # as named

    assert not (workspace / "canary").exists()


@pytest.mark.parametrize("place", ["/", "/etc", "/usr/lib", "/home", "no-such-place", "~", "file"])
async def test_a_workspace_must_be_one(terminal: Terminal, workspace: Path, place: str) -> None:
    (workspace / "file").write_text("")
    with pytest.raises(IsolationUnavailable, match="workspace"):
        await terminal.run("true", isolation="sandbox", workspace=Path(place).expanduser())


async def test_an_agent_cannot_make_any_directory_its_workspace(
    terminal: Terminal, public_path: Path
) -> None:
    wish = RunOptions(isolation="sandbox")

    private = await terminal.supervisor.run(Command("touch canary", cwd=str(public_path)), wish)
    elsewhere = await terminal.supervisor.run(Command("touch canary", cwd="/mnt"), wish)

    assert private.outcome is not None
    assert "cannot enter" in str(private.outcome.error)
    assert elsewhere.outcome is not None
    assert "is not to be seen in the sandbox" in str(elsewhere.outcome.error)
    assert not (public_path / "canary").exists()


async def test_the_policy_chooses_by_verdict(open_terminal: Open) -> None:
    async with open_terminal(isolation_profiles_run_unknown="sandbox") as terminal:
        safe = await terminal.run(f"{_WHERE}")
        unknown = await terminal.run(f"env {_WHERE}; mkdir made")
        asked_less = await terminal.run("mkdir more", isolation="none")
        with pytest.raises(CommandDenied, match="demands sandbox"):
            await terminal.run("mkdir less", provider="local")

    assert (safe.verdict, safe.isolation) == ("safe", "none")
    assert (unknown.verdict, unknown.isolation) == ("unknown", "sandbox")
    assert asked_less.isolation == "sandbox"
    assert any("the policy demands sandbox" in note for note in asked_less.warnings)
    assert Path("made").is_dir()
    assert not Path("less").exists()


@pytest.mark.proves("D1")
@pytest.mark.parametrize(
    ("preset", "profile"), [("balanced", "bash"), ("strict", "session"), ("strict", "run")]
)
async def test_an_unknown_command_that_asks_is_isolated_where_nobody_can_be_asked(
    open_terminal: Open, public_path: Path, preset: str, profile: str
) -> None:
    text = f"mkdir made; touch {public_path}/canary"
    wish = RunOptions(profile=profile)
    async with open_terminal(safety_preset=preset) as terminal:
        run = await terminal.supervisor.run(Command(text), wish)
        with pytest.raises(ConfirmationRequired):
            await terminal.supervisor.run(Command("rm -rf made"), wish)
    async with open_terminal(isolation_unasked="refuse", safety_preset=preset) as terminal:
        with pytest.raises(ConfirmationRequired):
            await terminal.supervisor.run(Command(text), wish)

    assert run.isolation is Isolation.SANDBOX
    assert run.outcome is not None
    assert any("so it ran isolated" in note for note in run.outcome.warnings)
    assert Path("made").is_dir()
    assert not (public_path / "canary").exists()


@pytest.mark.proves("D1")
@pytest.mark.usefixtures("no_sandbox")
async def test_and_where_there_is_no_isolation_it_is_refused(terminal: Terminal) -> None:
    with pytest.raises(ConfirmationRequired):
        await terminal.supervisor.run(Command("mkdir made"), RunOptions(profile="bash"))

    assert not Path("made").exists()


async def test_who_can_be_asked_is_asked_and_a_yes_is_for_this_machine() -> None:
    asked: list[str] = []

    async def approve(question: Question) -> Answer:
        asked.append(question.provider)
        return Answer(allowed="yes" in question.command.text)

    wish = RunOptions(profile="bash")
    async with Terminal(approve=approve) as terminal:
        yes = await terminal.supervisor.run(Command("mkdir yes"), wish)
        with pytest.raises(CommandDenied):
            await terminal.supervisor.run(Command("mkdir no"), wish)
        await terminal.supervisor.run(
            Command("mkdir yes2"), RunOptions("bash", isolation="sandbox")
        )

    assert yes.isolation is Isolation.NONE
    assert asked == ["local", "local", "bubblewrap"]


async def test_a_users_own_provider_is_used_by_name_by_level_and_as_the_strongest() -> None:
    box = BigBox()
    async with Terminal(providers=[box]) as terminal:
        named = await terminal.run("true", provider="big-box")
        level = await terminal.run("true", isolation="container")
        auto = await terminal.run("true", isolation="auto")
        box.works = False
        for wish in ("container", "auto"):  # the strongest that there was does not get weaker
            with pytest.raises(IsolationUnavailable, match="open it"):
                await terminal.run("touch canary", isolation=wish)
    async with Terminal(providers=[box]) as terminal:
        second = await terminal.run("true", isolation="auto")

    assert {named.provider, level.provider, auto.provider} == {"big-box"}
    assert (second.provider, second.isolation) == ("bubblewrap", "sandbox")
    assert any("the box is shut" in note for note in second.warnings)
    assert not Path("canary").exists()


def test_the_command_line_asks_for_a_level_and_says_where_it_ran() -> None:
    sandbox = shelltie(
        "run", "--isolation", "sandbox", "--json", "--", "ln -s /usr away; touch away/x"
    )
    auto = shelltie("run", "--isolation", "auto", "--", "true")
    missing = shelltie("run", "--isolation", "container", "--", "touch canary")
    wrong = shelltie("run", "--isolation", "moon", "--", "true")

    said = json.loads(sandbox.stdout)
    assert (said["provider"], said["isolation"], said["blocked"]) == (
        "bubblewrap", "sandbox", ["write"],
    )  # fmt: skip
    assert b"ran in bubblewrap, isolation sandbox" in auto.stderr
    assert (missing.returncode, Path("canary").exists()) == (126, False)
    assert b"nothing was run without it" in missing.stderr
    assert b"set container.image" in missing.stderr
    assert wrong.returncode == 2


def test_the_doctor_runs_something_in_every_place(
    engine: OwnEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SHELLTIE_CONTAINER_IMAGE", IMAGE)
    monkeypatch.setenv("SHELLTIE_CONTAINER_ENGINE", str(engine.address))
    findings = json.loads(shelltie("doctor", "--json").stdout)["findings"]

    places = {one["name"]: one for one in findings if one["group"] == "isolation"}
    assert {name: one["level"] for name, one in places.items()} == {
        "local": "good",
        "bubblewrap": "good",
        "container": "good",
        "read-only view": "good",
        "trial": "good",
    }
    assert places["container"]["text"] == "isolation container: works"
    assert engine.containers() == []
    assert text_of("changes") == "Nothing has run on trial.\n"


@pytest.mark.usefixtures("no_sandbox")
def test_the_doctor_says_why_a_place_does_not_work() -> None:
    findings = json.loads(shelltie("doctor", "--json").stdout)["findings"]

    found = next(one for one in findings if one["name"] == "bubblewrap")
    assert found["level"] == "poor"
    assert "user.max_user_namespaces" in found["text"]
    trial = next(one for one in findings if one["name"] == "trial")
    assert (trial["level"], trial["text"]) == ("poor", found["text"])
    unset = next(one for one in findings if one["name"] == "container")
    assert (unset["level"], "container.image" in unset["text"]) == ("unused", True)


async def test_what_a_task_runs_is_isolated_where_the_settings_say_so(
    terminal: Terminal, workspace: Path
) -> None:
    project = Project(workspace / "task")
    project.tool("where", _WHERE)

    async with project.contexts(terminal, isolation="sandbox") as call:
        inside = await call.execute(await call.create(), "where")
    async with project.contexts(terminal) as call:
        outside = await call.execute(await call.create(), "where")

    assert outside["stdout"].strip() == str(HERE) != inside["stdout"].strip() != ""


@pytest.mark.parametrize("level", ["none", "sandbox"])
async def test_five_calls_of_ours_lie_between_the_supervisor_and_the_keeper(
    terminal: Terminal, level: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[str] = []
    spawn = Link.spawn

    def remember(link: Link, *args: object, **more: object) -> Leash:
        ours = [one for one in traceback.extract_stack() if "/src/shelltie/" in one.filename]
        calls[:] = [one.name for one in ours if "/frontends/" not in one.filename]
        return spawn(link, *args, **more)  # type: ignore[arg-type]  # whatever they are

    await terminal.run("true", isolation=level)
    monkeypatch.setattr(Link, "spawn", remember)
    await terminal.run("true", isolation=level)

    assert [*calls[-4:], "spawn"] == ["start", "begin", "spawn", "spawn", "spawn"]
