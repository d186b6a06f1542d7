"""Inside the jail: runs scripts with bash as nobody, and tells what they executed.

A program of its own, the first process of its namespaces. It reads one script in JSON from each
line of its input, and answers each with a line.
"""

import json
import os
import resource
import signal
import sys
from contextlib import suppress
from pathlib import Path

_LOG = 250  # the descriptor; scripts use small ones
_NOBODY = 65534
_PATIENCE = 2.0
_ASIDE = 0.3  # for what still runs when the script is over
_LIMITS = {
    resource.RLIMIT_CPU: 2,
    resource.RLIMIT_NPROC: 100,
    resource.RLIMIT_FSIZE: 1 << 20,
    resource.RLIMIT_AS: 256 << 20,
    resource.RLIMIT_CORE: 0,
}
# Half of all commands fail, so that both branches are taken; some print, so that loops turn.
# Bash writes out every line at once: with newlines, commands aside would get into one another.
_NEWLINE = "\x1e"
_HANDLER = f"""() {{ printf '%s\\0' "$#" "${{@//$'\\n'/{_NEWLINE}}}" >&{_LOG}
case $1 in c[1-3]) echo out 1 ;; esac
return $((RANDOM & 1)); }}"""
_ENVIRONMENT = {
    "PATH": "/nowhere",
    "HOME": "/work",
    "LC_ALL": "C.UTF-8",
    "FUNCNEST": "12",
    "x": "v w",
    "BASH_FUNC_command_not_found_handle%%": _HANDLER,
}


def main() -> None:
    """Answer until the input ends."""
    root, outside = Path(sys.argv[1]), sys.argv[2]
    own = Path("/proc/self/ns/pid").readlink()
    assert os.getpid() == 1, "not the first process: `kill(-1)` would hit others"
    assert str(own) != outside, "no namespace of its own: `kill(-1)` would hit others"
    signal.signal(signal.SIGALRM, _end_all)
    log, errors = _scratch(root / "log"), _scratch(root / "errors")
    for line in sys.stdin:
        late = _run(root, json.loads(line), log, errors)
        answer = {
            "argvs": _argvs(_taken(log)),
            "files": _files(root / "work"),
            "valid": b"syntax error" not in _taken(errors),
            "late": late,
        }
        print(json.dumps(answer), flush=True)


def _end_all(*_: object) -> None:
    """Every process but this one; the last may just have ended by itself."""
    with suppress(ProcessLookupError):
        os.kill(-1, signal.SIGKILL)


def _scratch(path: Path) -> int:
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600)
    path.unlink()
    return descriptor


def _taken(descriptor: int) -> bytes:
    """What was written, which is then forgotten."""
    content = os.pread(descriptor, 1 << 20, 0)
    os.ftruncate(descriptor, 0)
    return content


def _run(root: Path, script: str, log: int, errors: int) -> bool:
    """Whether the script had to be ended. Nothing of it runs on."""
    leader = os.fork()
    if leader == 0:
        try:
            _become_bash(root, script, log, errors)
        finally:
            os._exit(127)
    signal.setitimer(signal.ITIMER_REAL, _PATIENCE)
    late = False
    try:
        while True:
            pid, status = os.wait()
            if pid == leader:
                late = os.WIFSIGNALED(status)
                signal.setitimer(signal.ITIMER_REAL, _ASIDE, _ASIDE)
    except ChildProcessError:
        signal.setitimer(signal.ITIMER_REAL, 0)
    return late


def _become_bash(root: Path, script: str, log: int, errors: int) -> None:
    os.setsid()
    nothing = os.open(root / "dev/null", os.O_RDWR)
    for source, target in ((nothing, 0), (nothing, 1), (errors, 2), (log, _LOG)):
        os.dup2(source, target)
    os.closerange(3, _LOG)
    os.chroot(root)
    os.chdir("/work")
    _drop_rights()
    for which, limit in _LIMITS.items():
        resource.setrlimit(which, (limit, limit))
    os.execve("/bin/bash", ["bash", "--noprofile", "--norc", "-c", script], _ENVIRONMENT)


def _drop_rights() -> None:
    """Where only one user is mapped, root is already nobody."""
    if Path("/alone").exists():
        return
    os.setgroups([])
    os.setresgid(_NOBODY, _NOBODY, _NOBODY)
    os.setresuid(_NOBODY, _NOBODY, _NOBODY)


def _argvs(log: bytes) -> list[list[str]]:
    text = log.decode("utf-8", "surrogateescape").replace(_NEWLINE, "\n")
    fields = text.split("\0")[:-1]
    argvs, at = [], 0
    while at < len(fields) and fields[at].isdigit():
        count = int(fields[at])
        argvs.append(fields[at + 1 : at + 1 + count])
        at += 1 + count
    return argvs


def _files(work: Path) -> list[str]:
    found = []
    for path in work.iterdir():
        found.append(path.name)
        path.unlink()
    return found


main()
