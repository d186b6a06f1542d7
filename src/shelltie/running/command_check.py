"""Whether the kernel could take a command at all (execve): no NUL byte, not too long. Pure.

Beside the options of a run, which need all that runs: a dry run asks this alone.
"""

from shelltie.errors import InvalidParameters
from shelltie.model import Command

_TEXT_MAX = 128 * 1024 - 1  # the longest single argument Linux takes, without its NUL


def check_command(command: Command) -> None:
    """Whether a kernel could take this.

    Raises: InvalidParameters.
    """
    if not isinstance(command.text, str) or not command.text.strip():
        raise InvalidParameters("command is empty: give the text of a command")
    words = command.argv or (command.text,)
    if any("\0" in word for word in words) or "\0" in command.cwd:
        raise InvalidParameters("command or cwd has a NUL byte, which no program can be given")
    try:
        longest = max(len(word.encode("utf-8", "surrogateescape")) for word in words)
    except UnicodeEncodeError as error:
        raise InvalidParameters("command has half a character, which no program reads") from error
    if longest > _TEXT_MAX:
        raise InvalidParameters(
            f"command is {longest} bytes long, and the kernel takes {_TEXT_MAX}:"
            " write it to a file and run that, or pass the data through stdin"
        )
