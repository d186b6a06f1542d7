"""A hostile project, as a stranger could have sent it, in a home with keys: for `fuzz_safe`."""

import os
import shutil
import struct
import subprocess
from pathlib import Path

HOME = Path("/home/me")
PROJECT = HOME / "project"
IN_HOME, IN_PROJECT, IN_KEY = "CANARY-OF-THE-HOME", "CANARY-OF-THE-PROJECT", "CANARY-OF-A-KEY"
MASKED = (IN_HOME, IN_PROJECT)  # a view shows none of these; another key in the project it does
CANARIES = (*MASKED, IN_KEY)

_MARK = PROJECT / "M"
_EVIL = f"#!/bin/sh\ntouch {_MARK}\n"
_FILES = {
    "f": "x\ny z\n",
    ".env": f"TOKEN={IN_PROJECT}\n",
    ".env.example": "TOKEN=\n",
    "key.pem": f"{IN_KEY}\n",
    "secrets.yml": f"token: {IN_KEY}\n",
    "x.json": '{"a": 1}\n',
    "list": f".env\nkey.pem\n{HOME}/.ssh/id_rsa\nHEAD:.env\n",
    "docs/a": "a\n",
    "dir/f": "x\n",
    "argparse/__init__.py": f"open({str(_MARK)!r}, 'w')\n",
    "e/HEAD": "ref: refs/heads/main\n",
    "e/commondir": "x\n",
    "e/x/config": f'[diff "t"]\n textconv = {PROJECT}/evil\n',
    "e/x/info/attributes": "* diff=t\n",
    "e/x/objects/keep": "",
    "e/x/refs/keep": "",
}
_GIT_CONFIGS = {
    "hostile": f"[diff]\n external = {PROJECT}/evil\n",
    "comment": f"[diff]\n # x \\\n external = {PROJECT}/evil\n",
    "a/b": f"[core]\n fsmonitor = {PROJECT}/evil\n[diff]\n external = {PROJECT}/evil\n",
    "sub": f'[filter "x"]\n clean = "cat ;{PROJECT}/evil; cat"\n',
}
_GIT = (
    "git",
    "-c",
    "user.name=x",
    "-c",
    "user.email=x@example.org",
    "-c",
    "init.defaultBranch=main",
)


def build() -> Path:
    """Make it anew and go there; the project's directory."""
    os.chdir("/")
    shutil.rmtree(HOME, ignore_errors=True)
    for name, content in _FILES.items():
        _write(PROJECT / name, content)
    for name in ("evil", "0/ls"):
        _write(PROJECT / name, _EVIL)
        (PROJECT / name).chmod(0o755)
    for name in (".ssh/id_rsa", ".netrc"):
        _write(HOME / name, f"{IN_HOME}\n")
        (HOME / name).chmod(0o600)
    (PROJECT / "notes").symlink_to(HOME / ".ssh" / "id_rsa")
    (PROJECT / "link").symlink_to(".env")
    _translate(PROJECT / "C.UTF-8/LC_MESSAGES/x.mo", "hello", f"$(touch {_MARK})")
    _commit(PROJECT)
    for name, config in _GIT_CONFIGS.items():
        _write(PROJECT / name / "f", "x\n")
        _commit(PROJECT / name)
        with (PROJECT / name / ".git" / "config").open("a", encoding="utf-8") as file:
            file.write(config)
        _write(PROJECT / name / ".gitattributes", "* filter=x\n")
        _write(PROJECT / name / "f", "x\ny\n")
    os.chdir(PROJECT)
    return PROJECT


def state() -> dict[str, tuple[int, int, int]]:
    """Every file of the home with what changes with it, but git's index, which it may refresh."""
    found = {}
    for place, _, names in os.walk(HOME):
        for name in names:
            path = f"{place}/{name}"
            status = os.lstat(path)
            if not path.endswith(("/.git/index", ".lock")):
                found[path] = (status.st_mode, status.st_size, status.st_mtime_ns)
    return found


def _write(path: Path, content: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content, encoding="utf-8")


def _commit(place: Path) -> None:
    for words in (("init", "-q"), ("add", "f"), ("commit", "-qm", "x")):
        subprocess.run((*_GIT, *words), cwd=place, check=True)


def _translate(path: Path, text: str, translation: str) -> None:
    """A catalogue of messages (.mo) with one of them."""
    header, at = 28, 28 + 2 * 8
    one, other = text.encode(), translation.encode()
    path.parent.mkdir(parents=True)
    path.write_bytes(
        struct.pack("<7I", 0x950412DE, 0, 1, header, header + 8, 0, 0)
        + struct.pack("<2I", len(one), at)
        + struct.pack("<2I", len(other), at + len(one) + 1)
        + one
        + b"\0"
        + other
        + b"\0"
    )
