"""Facts from git about a repository, asked for so that nothing which it configures is run."""

import shutil
from collections.abc import Collection
from pathlib import Path

from shelltie.environment import child
from shelltie.keeper.helper_program import output_of

_TIMEOUT = 5.0
_SYSTEM_PATH = "/usr/local/bin:/usr/bin:/bin:/opt/homebrew/bin"  # no git of the workspace
_KEPT = ("HOME", "PATH", "XDG_CONFIG_HOME")  # where the person's own settings are


def git(
    directory: Path,
    *words: str,
    stdin: bytes = b"",
    codes: Collection[int] = (),
    index: Path | None = None,
) -> bytes | None:
    """What a command of git prints; `None` if it fails otherwise than with one of these codes.

    `index` is a file to read instead of the repository's own index.
    """
    program = shutil.which("git", path=_SYSTEM_PATH)
    if program is None:
        return None
    own = child.inherited()
    env = {name: own[name] for name in _KEPT if name in own}
    env |= {**child.hardened_git(), "GIT_OPTIONAL_LOCKS": "0", "LC_ALL": "C"}
    env |= {} if index is None else {"GIT_INDEX_FILE": str(index)}
    return output_of(
        [program, *words], stdin, timeout=_TIMEOUT, env=env, cwd=directory, codes=(0, *codes)
    )
