"""What a text names is looked at on disk before it is called safe: links, globs, git, modules."""

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from shelltie import CommandDenied
from shelltie.model import Command
from shelltie.safety.judge import Judge, find_shfmt
from shelltie.safety.rule_set import RuleSet
from shelltie.verdict import Rating
from tests.conftest import Open

JUDGE = Judge(RuleSet(), path="/usr/local/bin:/usr/bin:/bin", shfmt=find_shfmt())
GIT = ("git", "-c", "user.name=n", "-c", "user.email=a@b", "-c", "protocol.file.allow=always")

Make = Callable[..., Path]


async def rating(text: str, cwd: Path) -> Rating:
    return (await JUDGE.judge(Command(text, cwd=str(cwd)))).rating


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project in a home that has secrets; some of its files are links to them."""
    home = tmp_path / "home"
    place = home / "project"
    for name in (".ssh/id_rsa", ".ssh/config", ".aws/config", ".gnupg/x", ".config/gh/hosts.yml"):
        (home / name).parent.mkdir(parents=True, exist_ok=True)
        (home / name).write_text("secret\n", encoding="utf-8")
    for name in ("docs/a.md", "f", "key.pem", "server.key", "secrets.yml", ".env"):
        (place / name).parent.mkdir(parents=True, exist_ok=True)
        (place / name).write_text("x\n", encoding="utf-8")
    (place / "notes.txt").symlink_to("../.ssh/id_rsa")
    (place / "docs" / "key").symlink_to("../../.ssh/id_rsa")
    monkeypatch.setenv("HOME", str(home))
    return place


UP = "../" * 30


@pytest.mark.proves("T2-5")
@pytest.mark.parametrize(
    "text",
    [
        *(f"cat {UP}etc/shadow", f"cat {UP}proc/self/environ", "cat /proc/self/root/etc/shadow"),
        *("cat /dev/fd/../environ", "cat /proc/thread-self/root/etc/shadow"),
        *("cd / && cd etc && cat shadow", "cd /proc && cd self && cat environ"),
        *("cd ~/.config && cd gh && cat hosts.yml", f"{'cd .; ' * 16} cd ~/.ssh; cat config"),
        *("cat *.pe[m]", "cat *.ke?", "cat secrets.*", "cat ~/.aw[s]/config", "cat ~/.gnup?/x"),
        *(
            "cat notes.txt",
            "head docs/*",
            "diff f notes.txt",
            "grep -r x docs/key",
            "sort < notes.txt",
        ),
        *("cat docs/../notes.txt", "cd docs && cat key", "cat {f,notes.txt}", "head -1 d*s/k*"),
        'for f in f notes.txt; do cat "$f"; done',
        "false && x=-v; nl $x notes.txt",
        'false && x=-e; grep "$x" notes.txt f',
        "find . -maxdepth 1 -name 'n*' -exec cat {} +",
    ],
)
async def test_a_file_is_judged_by_where_its_name_leads(text: str, project: Path) -> None:
    assert await rating(text, project) is not Rating.SAFE


@pytest.mark.parametrize(
    "text",
    [
        *("cat f", "head docs/*.md", "cat docs/../f", "cd docs && cat a.md", "cat ../project/f"),
        *(
            'for f in docs/*.md; do head -1 "$f"; done',
            "grep -rn word docs",
            "x=-i; grep $x word f",
            'false && x=-i; grep "$x" word f',
            'test -d docs && d=docs; cat "$d/a.md"',
            "cat missing",
            "cat *.md",
        ),
        *("ls -la", "wc -l notes.txt.bak", "find . -name '*.md' | xargs cat"),
        *("find . -type f -name 'n*' -exec cat {} +", "find . -name '*.md' -exec cat {} +"),
    ],
)
async def test_other_files_stay_safe_to_read(text: str, project: Path) -> None:
    assert await rating(text, project) is Rating.SAFE


async def test_a_pattern_that_stands_for_too_many_files_is_not_safe(tmp_path: Path) -> None:
    for number in range(1001):
        (tmp_path / f"{number}.txt").touch()

    assert await rating("cat *.txt", tmp_path) is Rating.UNKNOWN
    assert await rating("cat 1*0.txt", tmp_path) is Rating.SAFE


# ---- git ------------------------------------------------------------------------------------


@pytest.fixture
def repository(tmp_path: Path) -> Make:
    """Makes repositories whose configuration ends in some lines."""

    def made(config: str = "", name: str = "r", *options: str) -> Path:
        place = tmp_path / name
        subprocess.run([*GIT, "init", "-q", *options, place], check=True)
        with (place / ".git" / "config").open("a", encoding="utf-8") as file:
            file.write(config)
        return place

    return made


@pytest.mark.parametrize(
    "config",
    [
        "[diff]\n # x \\\n external = evil\n",
        '[filter "lfs"]\n clean = "git-lfs clean -- %f ;evil; cat"\n',
        "[diff]external=evil\n",
        '[diff]\n\texternal = "ev\\\nil"\n',
        '[core]\n\tpager = "le\\\nss; evil"\n',
        "[DIFF]\n\tEXTERNAL=evil\n",
    ],
)
async def test_gits_settings_are_read_as_git_reads_them(config: str, repository: Make) -> None:
    assert await rating("git diff", repository(config)) is Rating.UNKNOWN


@pytest.mark.parametrize(
    "text",
    [
        *("git -C a -C b diff", "cd a && cd b && git diff", "cd a; git -C b diff"),
        *("(cd a; cd b; git diff)", "for x in 1 2; do cd a; cd b; done; git diff"),
    ],
)
async def test_directories_add_up(text: str, repository: Make, tmp_path: Path) -> None:
    repository("[diff]\n\texternal = evil\n", "a/b")

    assert await rating(text, tmp_path) is Rating.UNKNOWN
    assert await rating("git -C a diff", tmp_path) is Rating.SAFE


async def test_a_repository_by_commondir_is_found(tmp_path: Path) -> None:
    inner = tmp_path / "e" / "x"
    for name in ("objects", "refs", "info"):
        (inner / name).mkdir(parents=True)
    (inner / "config").write_text('[diff "a"]\n\ttextconv = evil\n', encoding="utf-8")
    (tmp_path / "e" / "HEAD").write_text("ref: refs/heads/main\n", encoding="utf-8")
    (tmp_path / "e" / "commondir").write_text("x\n", encoding="utf-8")

    assert await rating("cd e && git log -p", tmp_path) is Rating.UNKNOWN
    assert await rating("git -C e show", tmp_path) is Rating.UNKNOWN


@pytest.mark.parametrize("form", ["sha1", "sha256"])
@pytest.mark.parametrize("split", [False, True])
async def test_submodules_are_found_in_any_index(form: str, split: bool, repository: Make) -> None:
    outer = repository("", "outer", f"--object-format={form}")
    inner = repository("", "outer/inner", f"--object-format={form}")
    (inner / "f").touch()
    for place, name in ((inner, "f"), (outer, "inner")):
        subprocess.run([*GIT, "-C", place, "add", name], check=True, stderr=subprocess.DEVNULL)
        subprocess.run([*GIT, "-C", place, "commit", "-qm", "x"], check=True)
    if split:
        subprocess.run([*GIT, "-C", outer, "update-index", "--split-index"], check=True)
    with (inner / ".git" / "config").open("a", encoding="utf-8") as file:
        file.write('[filter "x"]\n\tclean = evil\n')

    assert await rating("git status", outer) is Rating.UNKNOWN


# ---- modules and tools ----------------------------------------------------------------------


@pytest.mark.parametrize(
    "name",
    ["argparse/__init__.py", "argparse.py", "argparse.pyc", "json/__init__.pyc", "re.abi3.so"],
)
async def test_a_module_in_pythons_way_is_seen(name: str, tmp_path: Path) -> None:
    (tmp_path / "x.json").touch()
    (tmp_path / "code").mkdir()
    assert await rating("python3 -m json.tool x.json", tmp_path) is Rating.SAFE

    (tmp_path / name).parent.mkdir(exist_ok=True)
    (tmp_path / name).touch()

    assert await rating("python3 -m json.tool x.json", tmp_path) is Rating.UNKNOWN


@pytest.mark.parametrize("text", ["poetry --version", "poetry show", "poetry check"])
async def test_poetry_with_plugins_of_the_project_is_not_safe(text: str, tmp_path: Path) -> None:
    assert await rating(text, tmp_path) is Rating.SAFE

    (tmp_path / ".poetry").mkdir()

    assert await rating(text, tmp_path) is Rating.UNKNOWN


async def test_a_link_to_a_key_is_asked_about_where_unknown_commands_run(
    open_terminal: Open, project: Path
) -> None:
    async with open_terminal() as terminal:
        with pytest.raises(CommandDenied, match="credentials"):
            await terminal.run("cat notes.txt", cwd=str(project))
