"""Facts from git about a repository, asked for so that nothing which it configures is run."""

import shutil
from collections.abc import Collection
from pathlib import Path
from subprocess import DEVNULL, PIPE, Popen, TimeoutExpired

from shelltie.environment import child

_PATIENCE = 5.0
_SYSTEM_PATH = "/usr/local/bin:/usr/bin:/bin:/opt/homebrew/bin"  # no git of the workspace
_KEPT = ("HOME", "PATH", "XDG_CONFIG_HOME")  # where the person's own settings are


def git(
    directory: Path, *words: str, stdin: bytes = b"", codes: Collection[int] = ()
) -> bytes | None:
    """What a command of git prints; `None` if it fails otherwise than with one of these codes."""
    program = shutil.which("git", path=_SYSTEM_PATH)
    if program is None:
        return None
    own = child.inherited()
    env = {name: own[name] for name in _KEPT if name in own}
    env |= {**child.hardened_git(), "GIT_OPTIONAL_LOCKS": "0", "LC_ALL": "C"}
    try:
        with Popen(
            [program, *words], cwd=directory, stdin=PIPE, stdout=PIPE, stderr=DEVNULL, env=env
        ) as process:
            try:
                output, _ = process.communicate(stdin, _PATIENCE)
            except TimeoutExpired:
                process.kill()
                return None
    except OSError:
        return None
    return output if process.returncode in (0, *codes) else None
