"""Safe is looked at twice: by another parser, and where the command will run."""

import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from shelltie import CommandDenied, Terminal
from shelltie.model import Command, TerminalSize
from shelltie.safety.disk_checks import CommandPlace, are_near
from shelltie.safety.git_config import hazard
from shelltie.safety.judge import Judge, find_shfmt
from shelltie.safety.rule_set import RuleSet
from shelltie.verdict import Code, Rating, Verdict
from tests.event_loop import turns_during
from tests.tree import until

RULES = RuleSet()
PATH = "/usr/local/bin:/usr/bin:/bin"

Repository = Callable[..., Path]


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    """Makes repositories with lines of configuration."""

    def made(config: str = "", name: str = "r", git: str = ".git") -> Path:
        place = tmp_path / name / git
        for folder in ("objects", "refs", "hooks"):
            (place / folder).mkdir(parents=True)
        (place / "HEAD").write_text("ref: refs/heads/main\n", encoding="utf-8")
        (place / "config").write_text(f"[core]\n\tbare = false\n{config}", encoding="utf-8")
        return tmp_path / name

    return made


def judge(path: str = PATH, *, second: bool = True) -> Judge:
    return Judge(RULES, path=path, shfmt=find_shfmt() if second else None)


async def judged(text: str, cwd: Path, path: str = PATH, *, second: bool = True) -> Verdict:
    return await judge(path, second=second).judge(Command(text, cwd=str(cwd)))


def codes(verdict: Verdict) -> set[Code]:
    return {reason.code for reason in verdict.reasons}


# ---- the second parser ----------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        *("ls -la", "git log | head -3", 'for f in *.md; do head -1 "$f"; done', "x=1; echo $x"),
        *("cat <<EOF | wc -l\na\nEOF", "[ -f x ] && cat x", "diff <(sort a) <(sort b)", "time ls"),
    ],
)
async def test_what_both_parsers_read_alike_is_safe(text: str, tmp_path: Path) -> None:
    verdict = await judged(text, tmp_path)

    assert (verdict.rating, verdict.agreed) == (Rating.SAFE, True)


async def test_without_the_second_parser_only_the_plainest_texts_are_safe(tmp_path: Path) -> None:
    plain = await judged("git log | head -3", tmp_path, second=False)
    loop = await judged('for f in *.md; do head -1 "$f"; done', tmp_path, second=False)

    assert plain.rating is Rating.SAFE
    assert (loop.rating, codes(loop)) == (Rating.UNKNOWN, {Code.PARSER_DISAGREEMENT})
    assert not loop.agreed


@pytest.mark.parametrize("program", ["/nonexistent", "/bin/false", "/bin/true", "/bin/cat"])
async def test_a_second_parser_that_fails_agrees_with_nothing(program: str, tmp_path: Path) -> None:
    strange = Judge(RULES, path=PATH, shfmt=program)

    verdict = await strange.judge(Command("(ls)", cwd=str(tmp_path)))

    assert codes(verdict) == {Code.PARSER_DISAGREEMENT}


async def test_a_second_parser_that_hangs_is_not_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("shelltie.safety.second_parser._TIMEOUT", 0.5)
    sleeper = tmp_path / "sleeper"
    sleeper.write_text("#!/bin/sh\nexec sleep 60\n", encoding="utf-8")
    sleeper.chmod(0o755)

    verdict = await Judge(RULES, path=PATH, shfmt=str(sleeper)).judge(Command("(ls)"))

    assert codes(verdict) == {Code.PARSER_DISAGREEMENT}


async def test_one_waits_for_the_next_text_and_is_replaced_when_it_dies(tmp_path: Path) -> None:
    judge = Judge(RULES, path=PATH, shfmt=find_shfmt(), stays=True)

    async def rated(text: str) -> Rating:
        return (await judge.judge(Command(text, cwd=str(tmp_path)))).rating

    def waiting() -> list[psutil.Process]:
        return [one for one in psutil.Process().children() if one.name() == "shfmt"]

    first = await rated("(ls)")
    await until(lambda: len(waiting()) == 1)
    waiting()[0].kill()
    second = await rated("(ls; pwd)")
    await until(lambda: len(waiting()) == 1)
    third = await rated("(pwd")
    await judge.close()

    assert (first, second, third) == (Rating.SAFE, Rating.SAFE, Rating.UNKNOWN)
    await until(lambda: not waiting())


async def test_what_is_not_safe_is_not_looked_at_again() -> None:
    nobody = Judge(RULES, shfmt="/nonexistent")

    verdict = nobody.first(Command("rm -r x"))

    assert await nobody.confirm(Command("rm -r x"), verdict) is verdict


# ---- the repository -------------------------------------------------------------------------

HOSTILE = (
    *("core.fsmonitor=./x", "core.pager=./x", "core.sshCommand=x", "core.hooksPath=h"),
    *("diff.external=x", "diff.a.textconv=x", "filter.a.clean=x", "filter.a.process=x"),
    *("credential.helper=!x", "include.path=../x", "includeIf.gitdir:/.path=x", "alias.x=!y"),
    *("merge.a.driver=x", "gpg.program=x", "remote.o.uploadpack=x", "interactive.diffFilter=x"),
)


def lines(setting: str) -> str:
    name, _, value = setting.partition("=")
    section, _, key = name.rpartition(".")
    first, _, middle = section.partition(".")
    header = f'[{first} "{middle}"]' if middle else f"[{first}]"
    return f"{header}\n\t{key} = {value}\n"


@pytest.mark.parametrize("setting", HOSTILE)
async def test_a_repository_that_names_programs_makes_git_unknown(
    repository: Repository, setting: str
) -> None:
    verdict = await judged("git status", repository(lines(setting)))

    assert (verdict.rating, codes(verdict)) == (Rating.UNKNOWN, {Code.EXEC_FLAG})


@pytest.mark.parametrize(
    "config",
    [
        "",
        "\tfsmonitor = false\n\tpager = cat\n",
        '[remote "origin"]\n\turl = git@x.y:a/b\n\tfetch = +refs/heads/*:refs/remotes/origin/*\n',
        '[branch "main"]\n\tremote = origin ; a comment\n# another\n[user]\n\tname = A "B" C\n',
        lines("filter.lfs.clean=git-lfs clean -- %f") + lines("alias.st=status"),
        '[submodule "x"]\n\tactive = true\n\turl = x\n',
    ],
)
async def test_a_usual_repository_leaves_git_safe(repository: Repository, config: str) -> None:
    verdict = await judged("git status && git log -3", repository(config))

    assert (verdict.rating, verdict.reasons) == (Rating.SAFE, ())


@pytest.mark.parametrize(
    "config",
    [
        "[CORE] fsMonitor = ./x\n",
        "[core]\nfsmonitor = \\\n./x\n",
        '[diff "a b"]textconv=x\n',
        "[core]\n!!!\n",
        '[diff "a]\n',
    ],
)
def test_strange_spellings_hide_nothing(repository: Repository, config: str) -> None:
    assert hazard(repository(config)) is not None


def test_a_repository_is_found_from_below_and_through_a_pointer(
    repository: Repository, tmp_path: Path
) -> None:
    hostile = repository(lines("core.fsmonitor=./x"))
    (hostile / "a" / "b").mkdir(parents=True)
    worktree = tmp_path / "w"
    worktree.mkdir()
    inside = hostile / ".git" / "worktrees" / "w"
    inside.mkdir(parents=True)
    (inside / "commondir").write_text("../..\n", encoding="utf-8")
    (worktree / ".git").write_text(f"gitdir: {inside}\n", encoding="utf-8")

    assert hazard(hostile / "a" / "b") is not None
    assert hazard(worktree) is not None
    assert hazard(tmp_path) is None


def test_bare_repositories_submodules_and_hooks_count(repository: Repository) -> None:
    bare = repository(lines("core.fsmonitor=./x"), name="bare", git=".")
    usual = repository(name="usual")
    (usual / ".git" / "modules" / "m").mkdir(parents=True)
    (usual / ".git" / "modules" / "m" / "config").write_text(lines("diff.external=x"), "utf-8")
    hooked = repository(name="hooked")
    (hooked / ".git" / "hooks" / "post-index-change").touch()

    assert hazard(bare) is not None
    assert hazard(usual) is not None
    assert hazard(hooked) is not None


@pytest.mark.needs("git")
def test_a_repository_inside_the_repository_counts(tmp_path: Path) -> None:
    def git(*words: str, cwd: Path) -> None:
        identity = ("-c", "user.name=x", "-c", "user.email=x@y")
        subprocess.run(["git", *identity, *words], cwd=cwd, check=True, capture_output=True)

    outer, inner = tmp_path / "outer", tmp_path / "outer" / "in ner"
    inner.mkdir(parents=True)
    for place in (inner, outer):
        git("init", "-q", cwd=place)
    git("commit", "-q", "--allow-empty", "-m", "x", cwd=inner)
    git("add", "in ner", cwd=outer)
    before = hazard(outer)
    git("config", "core.fsmonitor", "./x", cwd=inner)

    assert before is None
    assert hazard(outer) is not None


async def test_the_repository_a_text_goes_to_is_the_one_that_counts(
    repository: Repository, tmp_path: Path
) -> None:
    repository(lines("core.fsmonitor=./x"), name="bad")

    assert (await judged("git status", tmp_path)).rating is Rating.SAFE
    assert (await judged("cd bad && git status", tmp_path)).rating is Rating.UNKNOWN
    assert (await judged("git -C bad status", tmp_path)).rating is Rating.UNKNOWN
    assert (await judged('cd "$X" && git status', tmp_path)).rating is Rating.UNKNOWN
    assert (await judged("cd bad && ls", tmp_path)).rating is Rating.SAFE


# ---- the programs ---------------------------------------------------------------------------


def program(directory: Path, name: str = "ls", mode: int = 0o755) -> Path:
    directory.mkdir(exist_ok=True)
    file = directory / name
    file.write_text("#!/bin/sh\n", encoding="utf-8")
    file.chmod(mode)
    return file


async def test_a_program_of_the_project_is_not_trusted(tmp_path: Path) -> None:
    program(tmp_path / "bin")

    verdict = await judged("ls", tmp_path, path=f"{tmp_path / 'bin'}:{PATH}")

    assert (verdict.rating, codes(verdict)) == (Rating.UNKNOWN, {Code.UNTRUSTED_PROGRAM})


async def test_neither_is_a_link_into_the_project(tmp_path: Path) -> None:
    project, elsewhere = tmp_path / "project", tmp_path / "elsewhere"
    project.mkdir()
    elsewhere.mkdir()
    (elsewhere / "ls").symlink_to(program(project / "bin"))

    verdict = await judged("ls", project, path=f"{elsewhere}:{PATH}")

    assert codes(verdict) == {Code.UNTRUSTED_PROGRAM}


@pytest.mark.parametrize("path", [f".:{PATH}", f"bin:{PATH}", f":{PATH}"])
async def test_a_relative_path_is_not_trusted(path: str, tmp_path: Path) -> None:
    assert codes(await judged("ls", tmp_path, path=path)) == {Code.UNTRUSTED_PROGRAM}


async def test_a_program_that_anybody_may_change_is_not_trusted(
    tmp_path: Path, public_path: Path
) -> None:
    writable = program(public_path / "a", mode=0o777).parent
    shared = program(public_path / "b").parent
    shared.chmod(0o777)

    for directory in (writable, shared):
        verdict = await judged("ls", tmp_path, path=f"{directory}:{PATH}")
        assert codes(verdict) == {Code.UNTRUSTED_PROGRAM}


async def test_a_program_that_is_not_there_is_no_danger(tmp_path: Path) -> None:
    assert (await judged("rg foo", tmp_path, path="/nonexistent")).rating is Rating.SAFE


async def test_what_changes_on_disk_is_seen_at_once(tmp_path: Path) -> None:
    one, path = judge(f"{tmp_path / 'bin'}:{PATH}"), Command("ls", cwd=str(tmp_path))
    before = await one.judge(path)
    program(tmp_path / "bin")
    after = await one.judge(path)
    shutil.rmtree(tmp_path / "bin")

    assert (before.rating, after.rating) == (Rating.SAFE, Rating.UNKNOWN)
    assert (await one.judge(path)).rating is Rating.SAFE


async def test_the_callers_own_path_is_the_one_that_counts(tmp_path: Path) -> None:
    command = Command("ls", cwd=str(tmp_path), env={"PATH": str(tmp_path)})

    assert (await judge().judge(command)).rating is not Rating.SAFE


async def test_a_pager_is_safe_only_without_a_terminal(tmp_path: Path) -> None:
    bare = await judge().judge(Command("less README.md", cwd=str(tmp_path)))
    typed = await judge().judge(Command("less README.md", cwd=str(tmp_path), pty=TerminalSize()))

    assert (bare.rating, typed.rating) == (Rating.SAFE, Rating.UNKNOWN)


@pytest.mark.parametrize(
    "text", ["cd ev*; git status", "cd - && git status", r"find . -execdir git status \;"]
)
async def test_git_is_not_safe_where_nobody_knows_the_repository(
    repository: Repository, text: str
) -> None:
    verdict = await judged(text, repository())

    assert (verdict.rating, codes(verdict)) == (Rating.UNKNOWN, {Code.DYNAMIC_ARGUMENT})


async def test_others_have_their_turns_while_a_long_text_is_judged(terminal: Terminal) -> None:
    async def judge() -> None:
        with pytest.raises(CommandDenied):
            await terminal.run("f() { :; }; " * 10_000)

    turns = await turns_during(judge)

    assert turns > 10


@pytest.mark.proves("D4", "C-58")
async def test_one_shot_commands_run_unless_they_are_dangerous(
    terminal: Terminal, tmp_path: Path
) -> None:
    (tmp_path / "build").mkdir()
    safe = await terminal.run(f"ls {tmp_path}")
    unknown = await terminal.run(f"touch {tmp_path}/made; frobnicate 2>/dev/null")
    with pytest.raises(CommandDenied):
        await terminal.run(f"rm -rf {tmp_path}/build")

    assert (safe.verdict, unknown.verdict) == ("safe", "unknown")
    assert (tmp_path / "made").exists()
    assert (tmp_path / "build").exists()


@pytest.mark.parametrize(
    ("path", "conditions", "programs", "near"),
    [
        ("/usr/local/bin:/usr/bin", (), ("/bin/true", "ls"), True),
        ("/usr/bin:/home/me/bin", (), ("/bin/true",), True),
        ("/usr/bin:/home/me/bin", (), ("ls",), False),
        ("/usr/bin:", (), ("ls",), False),
        ("/usr/bin/../../net", (), ("ls",), False),
        ("/usr/bin", ("git-config",), ("git",), False),
    ],
)
def test_only_the_directories_of_the_system_are_looked_at_in_the_loop(
    path: str, conditions: tuple[str, ...], programs: tuple[str, ...], near: bool, tmp_path: Path
) -> None:
    assert are_near(CommandPlace(tmp_path, path), conditions, programs) is near
