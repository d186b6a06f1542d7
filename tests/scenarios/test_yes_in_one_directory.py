"""A yes is for the directory that was asked about, not for whatever has its name by then."""

import shutil
from collections.abc import Callable
from pathlib import Path

import anyio
import pytest

from shelltie import Config, Terminal
from shelltie.approval.question import Answer, Question, Scope
from shelltie.errors import CommandDenied
from shelltie.model import State
from tests.conftest import Open

Swap = Callable[[Path, Path], None]


def _by_a_link(cwd: Path, other: Path) -> None:
    cwd.rename(cwd.with_name("away"))
    cwd.symlink_to(other)


def _by_a_directory(cwd: Path, other: Path) -> None:
    cwd.rename(cwd.with_name("away"))
    other.rename(cwd)


def _above(cwd: Path, other: Path) -> None:
    above = cwd.parent
    above.rename(above.with_name("away"))
    above.symlink_to(other.parent)


def _by_its_successor(cwd: Path, _: Path) -> None:
    shutil.rmtree(cwd)
    (cwd / "victim").mkdir(parents=True)  # often with the number that has become free


@pytest.fixture
def places(tmp_path: Path) -> tuple[Path, Path]:
    found = tmp_path / "mine" / "here", tmp_path / "theirs" / "here"
    for place in found:
        (place / "victim").mkdir(parents=True)
    return found


@pytest.mark.parametrize("swap", [_by_a_link, _by_a_directory, _above, _by_its_successor])
async def test_a_directory_that_is_exchanged_after_the_question_is_refused(
    keeper: str, tmp_path: Path, places: tuple[Path, Path], swap: Swap
) -> None:
    cwd, other = places

    def approve(_: Question) -> bool:
        swap(cwd, other)
        return True

    config = Config.of(state_dir=str(tmp_path / "state"), keeper=keeper)
    async with Terminal(config, approve=approve) as terminal:
        with anyio.fail_after(50):
            result = await terminal.run("rm -rf victim", cwd=cwd)

    assert result.status == "error"
    assert "is not the directory any more" in str(result.error)
    assert len(list(tmp_path.glob("**/victim"))) == 2


async def test_the_directory_that_was_asked_about_is_used(
    keeper: str, tmp_path: Path, places: tuple[Path, Path]
) -> None:
    cwd, _ = places
    link = tmp_path / "link"
    link.symlink_to(cwd)

    config = Config.of(state_dir=str(tmp_path / "state"), keeper=keeper)
    async with Terminal(config, approve=lambda _: True) as terminal:
        with anyio.fail_after(50):
            result = await terminal.run("rm -rf victim", cwd=link)

    assert (result.status, result.exit_code) == ("success", 0)
    assert not (cwd / "victim").exists()


async def test_a_directory_that_is_made_after_the_question_is_none_of_it(
    tmp_path: Path, places: tuple[Path, Path]
) -> None:
    cwd, other = places
    cwd.rename(cwd.with_name("elsewhere"))

    def approve(_: Question) -> bool:
        cwd.symlink_to(other)
        return True

    config = Config.of(state_dir=str(tmp_path / "state"))
    async with Terminal(config, approve=approve) as terminal:
        with anyio.fail_after(50):
            result = await terminal.run("rm -rf victim", cwd=cwd)

    assert result.status == "error"
    assert (other / "victim").exists()


async def test_a_yes_for_the_session_is_none_for_another_directory_of_that_name(
    open_terminal: Open, places: tuple[Path, Path]
) -> None:
    cwd, other = places
    asked: list[Question] = []

    class Person:
        name = "person"
        can_ask = True

        async def ask(self, question: Question) -> Answer:
            asked.append(question)
            return Answer(allowed=len(asked) == 1, scope=Scope.SESSION)

    async with open_terminal() as terminal:
        terminal.supervisor.admission.broker.add(Person())
        first = await terminal.start("rm -rf victim", cwd=cwd)
        await first.wait()
        _by_a_directory(cwd, other)
        with pytest.raises(CommandDenied, match="person refused"):
            await terminal.start("rm -rf victim", cwd=cwd)

    assert first.state is State.FINISHED
    assert len(asked) == 2
    assert (cwd / "victim").exists()


@pytest.mark.needs("bwrap")
@pytest.mark.parametrize("swap", [_by_a_link, _by_a_directory, _by_its_successor])
async def test_it_is_refused_in_a_sandbox_as_well(
    tmp_path: Path, places: tuple[Path, Path], swap: Swap
) -> None:
    cwd, other = places

    def approve(_: Question) -> bool:
        swap(cwd, other)
        return True

    config = Config.of(state_dir=str(tmp_path / "state"), sandbox_workspace=str(tmp_path))
    async with Terminal(config, approve=approve) as terminal:
        with anyio.fail_after(50):
            result = await terminal.run("rm -rf victim", cwd=cwd, isolation="sandbox")

    assert "is not the directory any more" in str(result.error)
    assert len(list(tmp_path.glob("**/victim"))) == 2
