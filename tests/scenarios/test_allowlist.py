"""Promise 4, without a shell: only what is listed runs, and it gets its arguments as written."""

import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from shelltie import Terminal
from shelltie.contexts.allowlist import PROJECT_FILE, find_allowlist
from shelltie.contexts.argument_filter import FilterLevel
from shelltie.contexts.program_access import Access
from shelltie.errors import CommandDenied, CommandNotAllowed, UnsafeArguments
from shelltie.frontends.reports.run_report import Result
from tests.conftest import Open

SYSTEM = "/usr/bin:/bin"
# Each of them says that it ran, and prints its arguments, one a line.
TOOL = '#!/bin/sh\necho "$0" >> "{ran}"\nprintf "%s\\n" "$@"\n'


class Project:
    """A directory with an allowlist and programs that tell whether they ran."""

    def __init__(self, place: Path) -> None:
        self.place = place
        self.bin = place / "bin"
        self.ran = place / "ran"
        self.file = place / PROJECT_FILE

    def allow(self, document: object) -> None:
        self.file.parent.mkdir(parents=True, exist_ok=True)
        self.file.write_text(json.dumps(document), encoding="utf-8")

    def tool(self, name: str, place: Path | None = None) -> Path:
        path = (place or self.bin) / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(TOOL.format(ran=self.ran), encoding="utf-8")
        path.chmod(0o755)
        return path

    def access(self, level: FilterLevel = FilterLevel.DEFAULT) -> Access:
        return Access(find_allowlist(self.place, None), f"{self.bin}:{SYSTEM}", level=level)


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project(tmp_path / "project")


async def execute(
    terminal: Terminal, access: Access, command: str, args: Sequence[str] = ()
) -> Result:
    return await terminal.run(access.check(command, args))


async def test_what_is_not_listed_is_refused_and_nothing_is_started(
    terminal: Terminal, project: Project
) -> None:
    project.tool("rm")
    project.allow(["npm", "echo"])

    with pytest.raises(CommandNotAllowed) as refused:
        await execute(terminal, project.access(), "rm", ["-rf", "/"])

    assert refused.value.code == "COMMAND_NOT_ALLOWED"
    assert str(refused.value) == "Command 'rm' is not allowed"
    assert refused.value.details["command"] == "rm"
    assert refused.value.details["allowedCommands"] == ["npm", "echo"]
    assert not project.ran.exists()


@pytest.mark.proves("T4-7")
@pytest.mark.parametrize(
    ("command", "args"),
    [
        ("npm", ["test", "--coverage", "--verbose"]),
        ("npm", ["install", "express", "--save"]),
        ("git", ["status", "--short"]),
        ("git", ["commit", "-m", "Automated commit"]),
        ("npm", ["it's", '"x y"', "(a)", "--dash", "-d", "./a/../b", "/etc/x", "k=v", "a  b"]),
        ("npm", ["tests/[a].py", "*.py", "why?", "~", "{a,b}"]),
    ],
)
async def test_allowed_arguments_arrive_as_they_are(
    terminal: Terminal, project: Project, command: str, args: list[str]
) -> None:
    project.tool(command)
    project.allow(["npm", "git"])

    result = await execute(terminal, project.access(), command, args)

    assert result.stdout.splitlines() == args


@pytest.mark.proves("T4-7")
@pytest.mark.parametrize("level", [FilterLevel.DEFAULT, FilterLevel.STRICT])
@pytest.mark.parametrize(
    "argument",
    [
        "test; rm -rf /",
        "$(whoami)",
        "`whoami`",
        "$PATH/../../../",
        "a | b",
        "a & b",
        "a > b",
        "a < b",
        "a\nb",
        "a\0b",
        "x" * 10_000,
    ],
)
async def test_unsafe_arguments_start_nothing(
    terminal: Terminal, project: Project, argument: str, level: FilterLevel
) -> None:
    project.tool("npm")
    project.allow(["npm"])

    with pytest.raises(UnsafeArguments) as refused:
        await execute(terminal, project.access(level), "npm", [argument])

    assert refused.value.code == "UNSAFE_ARGUMENTS"
    assert not project.ran.exists()


@pytest.mark.proves("T4-7")
@pytest.mark.parametrize("argument", ["*.py", "tests/[a].py", "a?", "~/x", "{a,b}", "/"])
async def test_the_strict_level_also_refuses_patterns(
    terminal: Terminal, project: Project, argument: str
) -> None:
    project.tool("npm")
    project.allow(["npm"])

    with pytest.raises(UnsafeArguments):
        await execute(terminal, project.access(FilterLevel.STRICT), "npm", [argument])

    assert not project.ran.exists()


@pytest.mark.proves("T4-8")
@pytest.mark.parametrize("form", [["echo"], {"commands": ["echo"], "version": "1.0.0"}])
async def test_both_forms_of_the_allowlist_work(
    terminal: Terminal, project: Project, form: object
) -> None:
    project.allow(form)

    result = await execute(terminal, project.access(), "echo", ["hello", "world"])

    assert result.stdout == "hello world\n"


@pytest.mark.proves("T4-8", "C-64")
@pytest.mark.parametrize("content", [None, "", "{", "3", '{"commands": "npm"}', '["npm", {}]'])
async def test_without_a_usable_allowlist_nothing_runs(
    terminal: Terminal, project: Project, content: str | None
) -> None:
    project.tool("npm")
    if content is not None:
        project.file.parent.mkdir(parents=True)
        project.file.write_text(content, encoding="utf-8")

    with pytest.raises(CommandNotAllowed) as refused:
        await execute(terminal, project.access(), "npm", ["test"])

    assert PROJECT_FILE in str(refused.value)
    assert not project.ran.exists()


async def test_an_allowlist_that_everybody_may_write_allows_nothing(
    terminal: Terminal, project: Project
) -> None:
    project.tool("npm")
    project.file.parent.mkdir(parents=True)
    project.file.write_text('["npm"]', encoding="utf-8")
    project.file.chmod(0o666)
    access = project.access()

    with pytest.raises(CommandNotAllowed, match="chmod o-w"):
        await execute(terminal, access, "npm", ["test"])
    ran = project.ran.exists()
    project.file.chmod(0o644)
    await execute(terminal, access, "npm", ["test"])

    assert not ran
    assert project.ran.exists()


@pytest.mark.proves("T4-8")
async def test_an_edit_is_used_by_the_next_call(terminal: Terminal, project: Project) -> None:
    project.tool("npm")
    project.allow(["npm"])
    access = project.access()
    assert (await execute(terminal, access, "npm", ["one"])).stdout == "one\n"

    project.allow(["echo"])
    with pytest.raises(CommandNotAllowed):
        await execute(terminal, access, "npm", ["two"])
    assert (await execute(terminal, access, "echo", ["three"])).stdout == "three\n"

    project.file.unlink()
    with pytest.raises(CommandNotAllowed):
        await execute(terminal, access, "echo", ["four"])
    project.allow(["npm"])
    assert (await execute(terminal, access, "npm", ["five"])).stdout == "five\n"
    assert project.ran.read_text(encoding="utf-8").count("\n") == 2


@pytest.mark.proves("T4-8", "C-65")
async def test_a_path_passes_only_if_it_is_the_program_itself(
    terminal: Terminal, project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    npm = project.tool("npm")
    evil = project.tool("npm", project.place / "evil")
    project.tool("npm", project.place)
    project.allow(["npm", "git"])
    access = project.access()
    monkeypatch.chdir(project.place)

    result = await execute(terminal, access, str(npm), ["ci"])

    assert result.stdout == "ci\n"
    assert project.ran.read_text(encoding="utf-8") == f"{npm}\n"
    for other in ("./npm", "../bin/git", str(evil), "/tmp/evil/npm", "NPM", "npm™"):
        with pytest.raises(CommandNotAllowed):
            await execute(terminal, access, other, ["ci"])
    assert project.ran.read_text(encoding="utf-8") == f"{npm}\n"


@pytest.mark.proves("T4-25")
async def test_a_variable_is_refused_or_arrives_as_it_is_written(
    terminal: Terminal, project: Project
) -> None:
    project.allow(["echo"])

    with pytest.raises(UnsafeArguments, match="HOME"):
        await execute(terminal, project.access(), "echo", ["$HOME"])
    result = await execute(
        terminal, project.access(FilterLevel.OFF), "echo", ["$HOME", "$(id)", ";"]
    )

    assert result.stdout == "$HOME $(id) ;\n"


async def test_the_commands_own_path_has_no_say_in_which_program_runs(
    open_terminal: Open, project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    project.tool("npm")
    evil = project.tool("npm", project.place / "evil")
    project.allow(["npm"])
    monkeypatch.setenv("PATH", f"{evil.parent}:{SYSTEM}")

    async with open_terminal() as terminal:
        await execute(terminal, project.access(), "npm", ["ci"])

    assert project.ran.read_text(encoding="utf-8") == f"{project.bin / 'npm'}\n"


async def test_a_program_in_a_directory_of_everybodys_is_not_run(
    terminal: Terminal, project: Project
) -> None:
    project.tool("npm")
    project.allow(["npm"])
    project.bin.chmod(0o777)

    with pytest.raises(CommandDenied, match="everybody could replace it"):
        await execute(terminal, project.access(), "npm", ["ci"])

    assert not project.ran.exists()
