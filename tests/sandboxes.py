"""Sandboxes as other users get them, and where they cannot be had."""

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from shelltie import Result
from shelltie.keeper.binaries import BINARY
from shelltie.providers.bubblewrap import bwrap, provider

_AS_NOBODY = 'exec setpriv --reuid=65534 --regid=65534 --clear-groups "$bwrap" "$@"'
# Counts for the new user namespace alone, and for those inside it.
_WITHOUT_NAMESPACES = (
    "exec unshare --user --map-root-user sh -c"
    ' \'echo 0 > /proc/sys/user/max_user_namespaces && exec "$@"\' sh "$bwrap" "$@"'
)


_OLDER = """\
for word; do
  case $word in --disable-userns|--size|--bind-fd|--ro-bind-fd|--perms)
    echo "bwrap: Unknown option $word" >&2; exit 1;; esac
done
exec "$bwrap" "$@\""""


def _in_front(place: Path, monkeypatch: pytest.MonkeyPatch, line: str) -> None:
    """Have another bwrap found, which begins the real one in its own way."""
    wrapper = place / "bwrap"
    wrapper.write_text(f"#!/bin/sh\nbwrap={shutil.which('bwrap')}\n{line}\n")
    wrapper.chmod(0o755)
    monkeypatch.setattr(bwrap, "PLACES", (str(place),))
    monkeypatch.setenv("SHELLTIE_SANDBOX_BWRAP", str(wrapper))  # for programs of ours


@contextmanager
def project_away_from_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An empty directory, and where we are; the home is elsewhere."""
    (tmp_path / "home").mkdir()
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    with tempfile.TemporaryDirectory() as name:
        path = Path(name).resolve()
        monkeypatch.chdir(path)
        yield path


def become_nobody(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every sandbox is an ordinary user's from now on; `place` must be one that all can enter."""
    if os.geteuid() != 0:
        pytest.skip("needs root, to be somebody else")
    keeper = place / "keeper"
    shutil.copy(BINARY, keeper)
    keeper.chmod(0o755)
    monkeypatch.setattr(provider, "BINARY", keeper)
    monkeypatch.setenv("PATH", "/usr/local/bin:/usr/bin:/bin")
    _in_front(place, monkeypatch, _AS_NOBODY)


def become_older(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As an older bwrap, which does not know every option."""
    _in_front(place, monkeypatch, _OLDER)


def forbid_namespaces(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As on a machine whose administrator does not want them."""
    _in_front(place, monkeypatch, _WITHOUT_NAMESPACES)


def held(result: Result, writes: str) -> bool:
    """Whether a guarded write was refused; or, where it is kept apart, made inside only and told.
    The test looks whether something was written outside.
    """
    if writes == "live":
        return result.exit_code != 0 or result.blocked == ("write",)
    told = any(
        "is guarded" in warning and "was not written" in warning for warning in result.warnings
    )
    return told and result.blocked == ("write",)


def contents(place: Path) -> dict[str, str]:
    """Every file, directory and link in a directory, with what is in it."""
    return {str(path.relative_to(place)): _content(path) for path in sorted(place.rglob("*"))}


def _content(path: Path) -> str:
    if path.is_symlink():
        return f"link to {path.readlink()}"
    return path.read_bytes().hex() if path.is_file() else "directory"
