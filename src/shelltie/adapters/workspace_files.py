"""Files of a workspace, with the exceptions that Python programs expect: OSError and ValueError."""

from collections.abc import Awaitable, Callable
from typing import TypeVar

from shelltie.errors import FileError, OutsideWorkspace, TerminalError
from shelltie.frontends.api import Options, Terminal
from shelltie.frontends.files import Files
from shelltie.providers.files.place_files import FilePath

ValueT = TypeVar("ValueT")


def with_files(
    workspace: FilePath, options: Options, work: Callable[[Files], Awaitable[ValueT]]
) -> Callable[[Terminal], Awaitable[ValueT]]:
    """What a terminal does with the files of a workspace, where commands with these options run.

    It raises ValueError for what is not in the workspace, or leads out of it, else OSError.
    """

    async def use(terminal: Terminal) -> ValueT:
        isolation = options.get("isolation")
        try:
            files = terminal.files.at(
                workspace,
                isolation="none" if isolation == "outside" else isolation,
                provider=options.get("provider"),
            )
            return await work(files)
        except OutsideWorkspace as error:
            raise ValueError(str(error)) from error
        except FileError as error:
            raise OSError(error.errno, str(error)) from error
        except TerminalError as error:
            raise OSError(str(error)) from error

    return use
