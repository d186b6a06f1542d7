"""Helper programs of our own (shfmt, git, ps): a bounded child process that is given a text.

They are not commands of a caller: nobody is asked, nothing is recorded, and no leash is needed,
because none of them starts anything.
"""

import subprocess
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path


def output_of(
    argv: Sequence[str],
    given: bytes = b"",
    *,
    timeout: float,
    env: Mapping[str, str] | None = None,
    cwd: Path | str | None = None,
    codes: Collection[int] = (0,),
) -> bytes | None:
    """What a program prints; `None` if it ends with another code or takes too long. Blocks."""
    try:
        with subprocess.Popen(
            argv,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=env,
            cwd=cwd,
        ) as process:
            try:
                output, _ = process.communicate(given, timeout)
            except subprocess.TimeoutExpired:
                process.kill()
                return None
    except OSError:
        return None
    return output if process.returncode in codes else None
