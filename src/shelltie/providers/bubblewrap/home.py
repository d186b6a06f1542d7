"""Home directory and PATH in the bubblewrap sandbox: toolchains, and no credentials."""

import os
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from itertools import islice
from pathlib import Path

from shelltie.basics.lazy_regex import lazy
from shelltie.providers.workspace.boundaries import within
from shelltie.providers.workspace.git import text_of

_CONDA = ("miniconda3", "miniforge3", "mambaforge", "anaconda3")
# Toolchains; what some of them know about accounts is below.
TOOLCHAINS = (
    *(".local/bin", ".local/lib", ".local/share/uv", ".local/share/pipx", ".local/share/mise"),
    *(".local/share/fnm", ".local/share/pnpm", ".cargo/bin", ".cargo/env", ".rustup", ".nvm"),
    *(".volta", ".pyenv", ".rbenv", ".rvm", ".nodenv", ".goenv", ".jenv", ".asdf", ".sdkman"),
    *(".deno", ".bun", "go", ".ghcup", ".opam", ".juliaup", ".dotnet", ".elan", ".swiftly"),
    *(*_CONDA, "bin"),
    *(".config/git/ignore", ".config/git/attributes"),
)
# Where programs keep what they can fetch or make again; thrown away with the sandbox.
CACHES = (".cache", ".npm", ".yarn", ".local/state", ".cargo/registry", ".cargo/git")
# Of these a trial sees the user's own, copy-on-write: nothing is downloaded twice, nothing spoiled.
SHARED_CACHES = (
    *(".cache/pip", ".cache/uv", ".cache/pypoetry", ".cache/go-build", ".cache/ccache"),
    *(".cache/sccache", ".cache/yarn", ".cache/pnpm", ".cache/bazel", ".cache/deno"),
    *(".npm/_cacache", ".local/share/pnpm/store", ".cargo/registry", ".cargo/git"),
    *(".m2/repository", ".gradle/caches", ".gradle/wrapper", ".ivy2/cache", ".nuget/packages"),
)
_CREDENTIALS = (
    ".local/share/uv/credentials",
    ".dotnet/corefx",
    ".opam/plugins/opam-publish",
    *(f"{name}/{file}" for name in _CONDA for file in (".condarc", "condarc", ".condarc.d")),
)
# Settings lie beside each version of Node and Python; `npm config set -g` puts a token there.
_CREDENTIALS_OF_VERSIONS = (
    *(".nvm/versions/node/*/etc/npmrc", ".volta/tools/image/node/*/etc/npmrc"),
    *(".nodenv/versions/*/etc/npmrc", ".asdf/installs/nodejs/*/etc/npmrc"),
    *(".local/share/mise/installs/node/*/etc/npmrc", ".local/share/pnpm/nodejs/*/etc/npmrc"),
    *(".local/share/fnm/node-versions/*/installation/etc/npmrc", ".pyenv/versions/*/pip.conf"),
    *(".local/share/pipx/venvs/*/pip.conf", ".local/share/uv/tools/*/pip.conf"),
)
_VERSIONS = 200
_OF_AN_ENVIRONMENT = ("pip.conf", "etc/npmrc", "condarc", ".condarc")
# A secret need not be known to be hidden: only these sections are shown.
_SHOWN_SECTIONS = frozenset(
    {
        *(
            "user",
            "author",
            "committer",
            "core",
            "init",
            "color",
            "column",
            "alias",
            "pull",
            "push",
        ),
        *("merge", "mergetool", "diff", "difftool", "rebase", "commit", "tag", "fetch", "branch"),
        *("log", "status", "filter", "safe", "gpg", "advice", "rerere", "help", "lfs", "pager"),
        *("interactive", "grep", "blame", "am", "apply", "format", "index", "pack", "gc", "ui"),
        *("feature", "stash", "versionsort", "transfer", "protocol", "i18n", "worktree", "notes"),
        *("trailer", "clean", "checkout", "submodule"),
    }
)
_INCLUDE = lazy(r"""\s*\[\s*include(?:if\s+"gitdir(/i|):([^"]*)")?\s*\]""", re.IGNORECASE)
_INCLUDED = lazy(r"\s*path\s*=\s*(.*?)\s*$", re.IGNORECASE)
_WILD = lazy(r"[*?\[]")
_SECTION = lazy(r"\s*\[\s*([\w-]+)")


def shared_caches(home: Path) -> Iterator[Path]:
    """Those that are there, by no link."""
    for place in (home / name for name in SHARED_CACHES):
        with suppress(OSError):
            if place.is_dir() and os.path.realpath(place) == str(place):
                yield place


def credentials(home: Path, toolchains: Iterable[Path]) -> Iterator[Path]:
    """What these have beside them to let somebody in, also where there is nothing yet."""
    yield from filter(within(toolchains), (home / name for name in _CREDENTIALS))
    for pattern in _CREDENTIALS_OF_VERSIONS:
        with suppress(OSError):
            yield from islice(home.glob(pattern), _VERSIONS)


def credentials_of(environment: Path) -> Iterator[Path]:
    """The same, of a virtual environment."""
    return (environment / name for name in _OF_AN_ENVIRONMENT)


def without_secrets(settings: str) -> str:
    """Settings of git that name nobody's password: it may be in a URL, or in a header."""
    kept, shown = [], False
    for line in settings.splitlines():
        head = _SECTION.match(line)
        shown = head[1].lower() in _SHOWN_SECTIONS if head else shown
        kept += [line] if shown else []
    return "".join(f"{line}\n" for line in kept)


def with_includes(
    settings: str, beside: Path, home: Path, roots: Sequence[Path], depth: int = 4
) -> str:
    """Settings of git, with what they include in that place: always, or for directories like the
    workspace (`includeIf "gitdir:~/work/"`), which is the first of the `roots`. In a sandbox those
    files are not there, and a commit would have another author than outside. Other conditions count
    as not met, and files that commands may write are left out: they could include any other.
    """
    lines, met = list[str](), False
    for line in settings.splitlines():
        lines.append(line)
        if line.lstrip().startswith("["):
            header = _INCLUDE.match(line)
            met = header is not None and (header[1] is None or _is_met(header, home, roots[0]))
        elif met and depth and (named := _INCLUDED.match(line)):
            file = beside / _expanded(named[1], home)
            if not within(roots)(Path(os.path.realpath(file))):
                inner = with_includes(text_of(file), file.parent, home, roots, depth - 1)
                lines += [*inner.splitlines(), "[include]"]  # the section goes on
    return "".join(f"{line}\n" for line in lines)


def _is_met(header: "re.Match[str]", home: Path, workspace: Path) -> bool:
    wanted, place = str(_expanded(header[2], home)), str(workspace)
    if header[1]:
        wanted, place = wanted.lower(), place.lower()
    below = header[2].endswith("/") and not _WILD.search(wanted) and wanted.startswith("/")
    return below and f"{place}/".startswith(f"{wanted}/")


def _expanded(named: str, home: Path) -> Path:
    named = named.strip('"')
    return home / named[2:] if named.startswith("~/") else Path(named)


def programs(path: str, known: tuple[Path, ...], wide: tuple[Path, ...]) -> Iterator[Path]:
    """Directories of PATH that nobody has listed, with the virtual environment around them.

    None that is `wide`, and none by way of a link: a command of another workspace may have made it,
    to be shown what it means.
    """
    covered = within(known)
    for entry in filter(None, path.split(":")):
        place = Path(entry)
        if place.name == "bin" and _there(place.parent / "pyvenv.cfg"):
            place = place.parent
        fits = place.is_absolute() and not covered(place) and place not in wide
        if fits and _there(place) and os.path.realpath(place) == str(place):
            yield place


def _there(place: Path) -> bool:
    with suppress(OSError):
        return place.exists()
    return False
