"""Every command of README.md, as written, in the order written, by somebody who has nothing yet.

Each way to install has a home of its own. `claude` and `codex` are the real programs, from npm;
where npm has none for this machine, only that they are given the right command is looked at. A
command in a sandbox is left out on a laptop without bubblewrap.
"""

import os
import platform
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from shelltie.frontends.cli.main import parse
from tests.installing import INSTALLERS, copy_checkout, require_packages, run_there
from tests.node_tools import node_package, python_programs
from tests.readme import README, Block, blocks, inline_commands, prose

pytestmark = [pytest.mark.timeout(1500), pytest.mark.xdist_group("installing")]
TEXT = README.read_text(encoding="utf-8")
LINUX_X64 = (platform.system(), platform.machine()) == ("Linux", "x86_64")
NO_TOOL_IS_MISSING = os.environ.get("REQUIRE_TOOLS") == "1"
# What stays is ended as soon as it has said where it is.
ENDED = "{} >it 2>&1 & until grep -q ctrl-c it; do sleep 0.1; done; kill $!; wait $!; cat it"
EXIT_CODES = {"shelltie run --silence 5s -- 'echo working; sleep 600'": 124}  # that is its point


def sh_blocks(section: str) -> list[Block]:
    return [block for block in blocks(TEXT) if block.section == section and block.language == "sh"]


def make_home(place: Path) -> Path:
    """A home with a project in it, where most commands are given."""
    project = place / "project"
    (project / "build").mkdir(parents=True)
    (project / "Makefile").write_text("test:\n\t@echo all tests pass\n")
    (project / "migrate.sh").write_text("#!/bin/sh\necho moved > data.txt\n")
    (project / "migrate.sh").chmod(0o755)
    subprocess.run(["git", "init", "-q"], cwd=project, check=True)
    return place


def clients(home: Path) -> list[Path]:
    """Where `claude` and `codex` are."""
    if not LINUX_X64:
        return []
    claude = node_package("@anthropic-ai/claude-code", "2.1.325").parent / "claude-code-linux-x64"
    codex = node_package("@openai/codex", "0.166.0").parent / "codex-linux-x64" / "vendor"
    (home / ".codex").mkdir(exist_ok=True)
    return [claude, codex / "x86_64-unknown-linux-musl" / "bin"]


def same_but_for_numbers(line: str) -> str:
    return re.sub(r"\d+(\.\d+)?(ms|s)\b", "N", line.rstrip())


def test_the_page_is_short_and_all_its_code_is_looked_at() -> None:
    assert TEXT.count("\n") <= 130
    assert {block.language for block in blocks(TEXT)} == {"sh", "console", "python"}
    assert not re.search(r"^ {4}\S", prose(TEXT), re.MULTILINE)
    assert [block.section for block in blocks(TEXT)][:3] == [
        "Install",
        "Give it to your agent",
        "See it work",
    ]


@pytest.mark.parametrize("command", inline_commands(TEXT))
def test_a_command_in_a_sentence_is_one_that_exists(command: str) -> None:
    parse(shlex.split(command)[1:])


@pytest.mark.parametrize("way", [command for command, _ in sh_blocks("Install")[0].commands])
def test_each_way_to_install_gives_a_shelltie_that_works(tmp_path: Path, way: str) -> None:
    require_packages()
    home, clone = make_home(tmp_path / "home"), copy_checkout(tmp_path / "clone")
    programs = python_programs(*INSTALLERS)
    if way.startswith("pip "):
        programs = tmp_path / "venv" / "bin"
        subprocess.run([sys.executable, "-m", "venv", programs.parent], check=True)

    installed = run_there(way, home, clone, programs)
    ran = run_there("shelltie run -- echo hello", home, home / "project", programs)

    assert installed.returncode == 0, installed.stdout
    assert (ran.returncode, ran.stdout) == (0, "hello\n")


def test_every_command_after_the_first_works_as_written(tmp_path: Path) -> None:
    require_packages()
    home, clone = make_home(tmp_path / "home"), copy_checkout(tmp_path / "clone")
    programs = [python_programs(*INSTALLERS), *clients(home)]
    quiet = {"DISABLE_AUTOUPDATER": "1", "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1"}
    (first, _), *_ = sh_blocks("Install")[0].commands
    assert run_there(first, home, clone, *programs).returncode == 0

    for block in blocks(TEXT)[1:]:
        for command, printed in block.commands if block.language != "python" else ():
            if command.startswith("shelltie install ") and not LINUX_X64:
                continue
            if "sandbox" in command and not NO_TOOL_IS_MISSING and not shutil.which("bwrap"):
                continue
            line = ENDED.format(command) if command == "shelltie web" else command
            done = run_there(line, home, home / "project", *programs, **quiet)
            assert done.returncode == EXIT_CODES.get(command, 0), (command, done.stdout)
            lines = [same_but_for_numbers(line) for line in done.stdout.splitlines()]
            for line in printed:
                assert same_but_for_numbers(line) in lines, (command, done.stdout)
        if block.language == "python":
            python = home / ".local/share/uv/tools/shelltie/bin/python"
            done = run_there([python, "-c", "\n".join(block.lines)], home, home / "project")
            assert (done.returncode, done.stdout) == (0, "")

    if LINUX_X64:
        env = {**quiet, "MCP_TIMEOUT": "120000"}
        listed = run_there("claude mcp list", home, home / "project", *programs, **env)
        assert re.search(r"^shelltie: /\S+/shelltie mcp .*Connected$", listed.stdout, re.MULTILINE)
        listed = run_there("codex mcp list", home, home / "project", *programs)
        assert re.search(r"^shelltie +/\S+/shelltie +mcp ", listed.stdout, re.MULTILINE)
