"""What a person approved for good, in a file that they can read."""

import os
import stat
from pathlib import Path

import pytest

from shelltie.approval.always import Approved, shown_rule
from shelltie.approval.broker import Broker
from shelltie.approval.question import Answer, Question, Scope
from shelltie.errors import CommandDenied, ConfigWrong
from shelltie.model import Command
from shelltie.settings import paths
from shelltie.verdict import Rating, Verdict
from tests.asking import not_on_a_leash, shelltie
from tests.conftest import Open

ALWAYS = Answer(allowed=True, scope=Scope.ALWAYS)


def question(text: str = "rm -rf build", **more: object) -> Question:
    command = Command(text, cwd="/", **more)  # type: ignore[arg-type]  # as named
    return Question.about(command, Verdict(Rating.DANGEROUS), "local")


@pytest.fixture
def approved(tmp_path: Path) -> Approved:
    return Approved(tmp_path / "config" / "approved.toml")


@pytest.mark.parametrize(
    "text", ["rm -rf build", 'echo "a\\b"\n\ttab', "caf\u00e9 \U0001f389 \u202e \x1b \x7f", "'''"]
)
async def test_for_good_means_exactly_this_command_here(approved: Approved, text: str) -> None:
    approved.add(question(text))
    again = Approved(approved.path)

    assert again.holds(question(text))
    assert not again.holds(question(text + " "))
    assert not again.holds(question(text, argv=(text,)))
    assert stat.S_IMODE(approved.path.stat().st_mode) == 0o600


async def test_arguments_are_kept_as_arguments(approved: Approved) -> None:
    approved.add(question("rm x", argv=("rm", "x y")))

    assert approved.holds(question("whatever", argv=("rm", "x y")))
    assert not approved.holds(question("whatever", argv=("rm", "x", "y")))


async def test_the_file_is_read_again_when_it_changes(approved: Approved) -> None:
    asked = question()
    approved.add(asked)
    assert approved.holds(asked)

    text = approved.path.read_text(encoding="utf-8")
    approved.path.write_text(text.replace("build", "buidl"), encoding="utf-8")

    assert not approved.holds(asked)
    approved.path.unlink()
    assert not approved.holds(question("rm -rf buidl"))


@pytest.mark.parametrize(
    ("edit", "said"),
    [
        (lambda text: text + "[[", "cannot be read"),
        (lambda text: text + "[[approved]]\n", "absolute cwd"),
        (lambda text: text.replace('cwd = "/"', 'cwd = "x"'), "absolute cwd"),
        (lambda text: text + 'pattern = "*"\n', "unknown key pattern"),
        (lambda text: text + 'argv = ["x"]\n', "either text"),
        (lambda text: text + "pty = 1\n", "pty must be"),
        (lambda text: "x = 1\n" + text, "nothing but [[approved]]"),
        (lambda _: "approved = 1\n", "nothing but [[approved]]"),
        (lambda _: "x = " + "[" * 5000, "cannot be read"),
        (lambda _: "\udcff", "cannot be read"),
        (lambda _: "#" * 2_000_000, "1 MiB"),
    ],
)
async def test_a_broken_file_approves_nothing_and_is_left_alone(
    approved: Approved, edit: object, said: str
) -> None:
    assert callable(edit)
    asked = question()
    approved.add(asked)
    broken = edit(approved.path.read_text(encoding="utf-8"))
    approved.path.write_text(broken, encoding="utf-8", errors="surrogateescape")

    assert not approved.holds(asked)
    assert said in approved.problem
    with pytest.raises(ConfigWrong):
        approved.add(question("rm -rf other"))
    assert approved.path.read_text(encoding="utf-8", errors="surrogateescape") == broken


async def test_a_file_that_others_may_write_approves_nothing(approved: Approved) -> None:
    asked = question()
    approved.add(asked)
    approved.path.chmod(0o666)

    assert not approved.holds(asked)
    assert "chmod 600" in approved.problem


async def test_a_link_to_the_file_stays_a_link(approved: Approved, tmp_path: Path) -> None:
    kept = tmp_path / "dotfiles.toml"
    approved.path.parent.mkdir()
    approved.path.symlink_to(kept)

    approved.add(question())

    assert approved.path.is_symlink()
    assert approved.holds(question())


@pytest.mark.parametrize(
    "asked", [question(env={"A": "b"}), question(stdin=b"x"), question("rm \udcff")]
)
async def test_what_a_file_should_not_hold_is_allowed_once_only(
    approved: Approved, asked: Question
) -> None:
    broker = Broker(approved)
    broker.reachable = True
    await broker.ask(asked, 0)

    taken, _ = await broker.answer(asked.id, asked.digest, ALWAYS)

    assert (taken.allowed, taken.scope) == (True, Scope.ONCE)
    assert "only this once" in taken.reason
    assert not approved.path.exists()


async def test_who_writes_at_the_same_time_is_told(approved: Approved) -> None:
    approved.add(question())
    unfinished = approved.path.with_name(".approved.toml.new")
    unfinished.write_text("", encoding="utf-8")

    with pytest.raises(ConfigWrong, match="somebody else is writing"):
        approved.add(question("rm -rf other"))

    os.utime(unfinished, (0, 0))
    approved.add(question("rm -rf other"))
    assert approved.holds(question())
    assert approved.holds(question("rm -rf other"))


async def test_an_entry_that_shelltie_did_not_write_is_not_honoured(approved: Approved) -> None:
    approved.add(question())
    text = approved.path.read_text(encoding="utf-8")
    forged = text + text[text.index("[[") :].replace("rm -rf build", "rm -rf ~")
    approved.path.write_text(forged, encoding="utf-8")
    again = Approved(approved.path)

    assert again.holds(question())
    assert not again.holds(question("rm -rf ~"))
    assert "was changed, and not by shelltie: 1 of its entries" in again.problem


async def test_a_file_written_by_somebody_else_alone_approves_nothing(approved: Approved) -> None:
    approved.path.parent.mkdir()
    approved.path.write_text(shown_rule(question()), encoding="utf-8")
    approved.path.chmod(0o600)
    again = Approved(approved.path)
    broker = Broker(again)
    broker.reachable = True

    answer = await broker.ask(question(), 0)
    again.add(question())

    assert not answer.allowed
    assert "has an entry for it that shelltie did not write" in answer.reason
    assert again.holds(question())
    assert Approved(approved.path).holds(question())


async def test_what_others_add_while_a_server_lives_is_not_for_it(approved: Approved) -> None:
    approved.add(question())
    living = Approved(approved.path)

    Approved(approved.path).add(question("rm -rf other"))

    assert living.holds(question())
    assert not living.holds(question("rm -rf other"))
    assert "since this server began" in living.problem
    assert Approved(approved.path).holds(question("rm -rf other"))

    living.add(question("rm -rf third"))
    assert living.holds(question("rm -rf third"))
    assert not living.holds(question("rm -rf other"))


async def test_an_entry_that_was_deleted_is_asked_about_again(approved: Approved) -> None:
    approved.add(question())
    approved.path.unlink()
    approved.add(question("rm -rf other"))

    assert not approved.holds(question())
    assert approved.holds(question("rm -rf other"))


@not_on_a_leash
async def test_a_command_that_writes_the_file_approves_nothing(
    open_terminal: Open, tmp_path: Path
) -> None:
    victim, path = tmp_path / "victim", paths.approved_file()
    victim.mkdir()
    command = Command(f"rm -rf {victim}", cwd=str(tmp_path))
    entry = shown_rule(Question.about(command, Verdict(Rating.DANGEROUS), "local"))
    script = tmp_path / "forge.py"
    script.write_text(
        f"import os, pathlib\nos.umask(0o077)\np = pathlib.Path({str(path)!r})\n"
        f"p.parent.mkdir(parents=True, exist_ok=True)\np.write_text({entry!r})\n",
        encoding="utf-8",
    )

    async with open_terminal() as terminal:
        forged = await terminal.run(["python3", str(script)])
        with pytest.raises(CommandDenied):
            await terminal.run(command.text, cwd=tmp_path)
    async with open_terminal() as terminal:
        with pytest.raises(CommandDenied):
            await terminal.run(command.text, cwd=tmp_path)
    _, doctor, _ = await shelltie("doctor")

    assert (forged.exit_code, path.exists(), victim.exists()) == (0, True, True)
    assert "was changed, and not by shelltie" in doctor
