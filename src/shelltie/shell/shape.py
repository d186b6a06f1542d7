"""Command shape (fingerprint): programs and subcommands without their operands. Pure.

`cd web && NODE_ENV=test npm run build -- --watch | tail -5` has the shape `npm run build`. Commands
of one shape in one project take about as long each time.
"""

import re
from collections.abc import Iterator
from itertools import pairwise

from shelltie.basics.lazy_regex import lazy
from shelltie.basics.memo import memoized
from shelltie.shell.split import segments, strip_prefixes

NO_PROGRAM = "shell"
_TEXT_MAX = 8 * 1024
_SEGMENTS_MAX = 200
_PARTS_MAX = 4
_WORDS_MAX = 64
_LENGTH_MAX = 40
# They take no time worth mentioning, or as long as what they read from.
_QUICK_NAMES = """
    cd pushd popd export unset set source . true false : exit return pwd echo printf test [ [[ read
    wait trap umask ulimit shopt alias mkdir touch which type head tail grep egrep rg wc sort uniq
    cut tr tee cat less more awk sed xargs jq column fold ls
"""
# Programs that are many in one; the words after them say which one is meant.
_MANY_IN_ONE = """
    git gh hg svn npm pnpm yarn bun deno cargo rustup go pip pip3 uv poetry pdm hatch conda mamba
    docker podman docker-compose kubectl helm terraform tofu ansible aws gcloud az make gmake just
    task ninja bazel bazelisk buck2 gradle gradlew mvn mvnw ant sbt dotnet msbuild swift xcodebuild
    rake bundle gem rails composer mix rebar3 lein stack cabal nix brew apt apt-get dnf yum apk
    pacman snap flatpak systemctl service ctest cmake meson vagrant packer pulumi serverless
    firebase flutter dart nx turbo lerna pre-commit tox nox invoke fab manage.py
"""
_QUICK = frozenset(_QUICK_NAMES.split())
_SUBCOMMANDS = frozenset(_MANY_IN_ONE.split())
# The word after them is theirs: `git -C dir push`, `make -j 4 test`.
_WITH_VALUE = lazy(r"-[CfjnpwW]|--(?:cwd|dir|prefix|namespace|context|manifest-path|project)")
# Their subcommand runs another: `npm run build`, `uv run pytest`.
_RUNNERS = frozenset(("run", "run-script", "exec", "x", "compose", "tool", "dlx"))
# The program is the one they are given.
_INTERPRETERS = lazy(r"(?:python|pypy)[\d.]*|node|ruby|perl|php|bash|sh|zsh|dash|tsx|ts-node")
_PACKAGE_RUNNERS = frozenset(("npx", "bunx", "uvx", "pipx"))
_WORD = lazy(r"[A-Za-z0-9@._/][\w@.:/+-]*")  # no `=`: what is assigned may be secret
_SPLIT = lazy(r"""(?:[^\s'"\\]|\\.|'[^']*'|"(?:[^"\\]|\\.)*")+""", re.DOTALL)


@memoized
def shape(text: str) -> str:
    """The shape of a command; empty if it only does what takes no time."""
    parts: dict[str, None] = {}
    for segment in segments(text[:_TEXT_MAX])[:_SEGMENTS_MAX]:
        words = _SPLIT.findall(strip_prefixes(segment)[:_TEXT_MAX])[:_WORDS_MAX]
        if words and (part := _part(words)):
            parts[part] = None
            if len(parts) == _PARTS_MAX:
                break
    return " + ".join(parts)


def _part(words: list[str]) -> str:
    program = _name(words[0])
    if program in _QUICK or not _WORD.fullmatch(program):
        return ""
    plain = list(_plain(words))
    if _INTERPRETERS.fullmatch(program):
        return f"{program} {_given(words[1:])}".strip()
    if program in _PACKAGE_RUNNERS:
        return " ".join([program, *plain[:1]])
    if program not in _SUBCOMMANDS:
        return program
    chosen = plain[: 2 if plain and plain[0] in _RUNNERS else 1]
    return " ".join([program, *(_name(word) for word in chosen)])


def _plain(words: list[str]) -> Iterator[str]:
    """What is neither an option nor the value of one."""
    for before, word in pairwise(words):
        if _WORD.fullmatch(word) and not _WITH_VALUE.fullmatch(before):
            yield word


def _given(words: list[str]) -> str:
    """What an interpreter shall run: a module, a file, or a text of which nothing is known."""
    for place, word in enumerate(words):
        if word == "-m" and place + 1 < len(words):
            return f"-m {_name(words[place + 1])}"
        if word in ("-c", "-e"):
            return word
        if not word.startswith("-"):
            return _name(word) if _WORD.fullmatch(word) else ""
    return ""


def _name(word: str) -> str:
    """`.venv/bin/pytest` is pytest."""
    return word.strip("'\"").rstrip("/").rpartition("/")[2][:_LENGTH_MAX]


def program(text: str) -> str:
    """The first program that counts, for a short name; `NO_PROGRAM` if there is none."""
    return shape(text).partition(" ")[0] or NO_PROGRAM
