"""What a command on trial does stays on trial: for root and for an ordinary user.

Whatever is tried here is tried on canaries in directories of the test's own.
"""

import json
import os
import subprocess
import sys
import sysconfig
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.run_lock import ROOT

pytestmark = [
    pytest.mark.needs("bwrap", "git", "setpriv"),
    pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to be somebody else, too"),
]

_NOBODY = 65534
_PYTHON = "/usr/bin/python3"
Shelltie = Callable[..., "subprocess.CompletedProcess[bytes]"]
_HOSTILE = """
import ctypes, glob, json, os, sys
state, victim, workspace = sys.argv[1:]
libc = ctypes.CDLL(None, use_errno=True)
done = {}

def tried(name, deed):
    try:
        done[name] = f"did it: {deed()}"
    except OSError as error:
        done[name] = ""

def call(number, *words):
    if libc.syscall(number, *words) < 0:
        raise OSError(ctypes.get_errno(), "refused")

def put(path):
    with open(path, "w") as file:
        file.write("evil")

def mount(what, where, kind, flags, options=None):
    call(165, what, where, kind, flags, options)

def by_handle():
    handle = ctypes.create_string_buffer(136)
    handle[0:4] = (128).to_bytes(4, "little")
    number = ctypes.c_int()
    call(303, -100, b"kept", handle, ctypes.byref(number), 0)
    call(304, os.open(".", os.O_RDONLY), handle, os.O_RDWR)

def namespace():
    call(272, 0x10000000 | 0x20000)

os.symlink(victim, "way")
os.symlink("/proc/1/root", "root")
for name, place in {
    "beside": f"{victim}/mine", "by a link": "way/mine", "above": "../victim/mine",
    "state": f"{state}/trials/evil", "its own upper": f"{state}/trials/t1/upper/evil",
    "its work": f"{state}/trials/t1/work/evil", "the view": f"{state}/trials/t1/view/evil",
    "root of one": f"root{victim}/mine", "cwd of one": f"/proc/1/cwd{victim}/mine",
}.items():
    tried(name, lambda: put(place))
tried("listing the state", lambda: os.listdir(state))
roots = glob.glob("/proc/[0-9]*/root")
tried("the victim by any process", lambda: [os.stat(f"{root}{victim}") for root in roots])
tried("a mount", lambda: mount(b"none", b"sub", b"tmpfs", 0))
tried("a bind", lambda: mount(b".", b"sub", None, 4096))
tried("taking the overlay away", lambda: call(166, workspace.encode(), 2))
tried("a namespace", namespace)
tried("a file by its handle", by_handle)
tried("a whiteout", lambda: os.mknod("sub/deep2", 0o020000, 0))
tried("a device", lambda: os.mknod("null", 0o020600, os.makedev(1, 3)))
tried("a set-uid file", lambda: (put("suid"), os.chmod("suid", 0o4755)))
# The kernel refuses its own marks, or keeps them under another name: they must mean nothing.
open("empty", "w").close()
for name, mark, value in (
    ("sub", "opaque", b"y"), ("sub", "redirect", b"/.."), ("empty", "whiteout", b"y"),
    ("kept", "metacopy", b""), ("kept", "redirect", f"/..{victim}/mine".encode()),
):
    try:
        os.setxattr(name, f"user.overlay.{mark}", value)
    except OSError:
        pass
leaks = []
for fd in glob.glob("/proc/[0-9]*/fd/*"):
    try:
        where = os.readlink(fd)
    except OSError:
        continue
    if where.startswith((state, victim)):
        leaks.append(where)
os.makedirs(".git/hooks", exist_ok=True)
with open(".git/hooks/post-checkout", "w") as hook:
    hook.write(f"#!/bin/sh\\ntouch {victim}/canary\\n")
os.chmod(".git/hooks/post-checkout", 0o755)
with open(".git/config", "a") as config:
    config.write(f'[core]\\n\\tfsmonitor = "touch {victim}/canary; false"\\n')
with open("kept", "a") as kept:
    kept.write("more\\n")
print(json.dumps({"done": {k: v for k, v in done.items() if v}, "leaks": leaks}))
"""


@pytest.fixture(params=["root", "nobody"])
def user(request: pytest.FixtureRequest) -> str:
    """Whose command it is."""
    version = f"Python {sys.version_info[0]}.{sys.version_info[1]}."
    shown = subprocess.run([_PYTHON, "--version"], capture_output=True, text=True, check=False)
    if request.param == "nobody" and not shown.stdout.startswith(version):
        pytest.skip(f"needs {version}x in /usr/bin, which an ordinary user can run")
    return str(request.param)


@pytest.fixture
def place(public_path: Path, user: str) -> Path:
    """Directories of that user: a repository, a home with the state, and one to leave alone."""
    place = public_path.resolve()
    for name in ("home", "project/sub", "victim"):
        (place / name).mkdir(parents=True)
    for name in ("project/kept", "project/sub/deep", "victim/mine"):
        (place / name).write_text("mine\n")
    who = ("-c", "user.name=x", "-c", "user.email=x@y", "-c", "core.autocrlf=false")
    for words in (("init", "-q"), ("add", "-A"), ("commit", "-qm", "0")):
        subprocess.run(["git", *who, *words], cwd=place / "project", check=True)
    if user == "nobody":
        subprocess.run(["chown", "-R", f"{_NOBODY}:{_NOBODY}", str(place)], check=True)
    return place


@pytest.fixture
def shelltie(place: Path, user: str) -> Shelltie:
    """The command line, as that user has it; `agent` is what a command of an agent gets."""
    env = {
        "PATH": "/usr/bin:/bin",
        "HOME": str(place / "home"),
        "XDG_STATE_HOME": str(place / "home/state"),
        "PYTHONDONTWRITEBYTECODE": "1",
        # Not sys.path: another Python of the same version has another standard library.
        "PYTHONPATH": f"{ROOT / 'src'}:{sysconfig.get_path('purelib')}",
    }
    become = ["setpriv", f"--reuid={_NOBODY}", f"--regid={_NOBODY}", "--clear-groups", _PYTHON]

    def run(*words: str) -> "subprocess.CompletedProcess[bytes]":
        python = become if user == "nobody" else [sys.executable]
        argv = [*python, "-m", "shelltie", *words]
        return subprocess.run(
            argv, cwd=place / "project", env=env, capture_output=True, timeout=100, check=False
        )

    return run


def _tree(place: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in sorted(place.rglob("*")) if path.is_file()}


def test_nothing_leads_out_of_a_trial(place: Path, shelltie: Shelltie) -> None:
    project, victim, state = place / "project", place / "victim", place / "home/state/shelltie"
    before = _tree(project), _tree(victim)
    words = [_PYTHON, "-I", "-S", "-c", _HOSTILE, str(state), str(victim), str(project)]

    ran = shelltie("run", "--trial", "--", *words)

    assert ran.returncode == 0, ran.stderr
    assert json.loads(ran.stdout) == {"done": {}, "leaks": []}
    assert (_tree(project), _tree(victim)) == before

    found = json.loads(shelltie("changes", "t1", "--json").stdout)
    assert "deleted" not in json.dumps(found)
    told = shelltie("changes", "t1").stdout.decode()
    assert "added    empty" in told
    assert "guarded: programs obey it: .git/config, .git/hooks/post-checkout" in told
    assert "a link that leads out of the workspace: root, way" in told
    done = shelltie("apply", "t1", "kept", "way", "root", "--yes")
    assert done.returncode == 0, done.stderr
    assert (project / "kept").read_text() == "mine\nmore\n"
    assert (project / "way").is_symlink()
    assert not (project / ".git/hooks/post-checkout").exists()

    again = shelltie("run", "--trial", "--", "echo evil > way/mine; echo evil > root/tmp/x; true")
    assert again.returncode == 0, again.stderr
    assert _tree(victim) == before[1]
