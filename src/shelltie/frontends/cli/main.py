"""Entry point of the command line: subcommand dispatch, errors, exit codes."""

import gc
import importlib
import os
import sys
from argparse import Namespace
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, NoReturn, cast

from shelltie.basics.lazy_module import import_now
from shelltie.errors import (
    CannotStart,
    CommandDenied,
    Misuse,
    NoLiveRun,
    NoRecordedRun,
    OutputNotKept,
    TerminalError,
)
from shelltie.frontends.cli import console
from shelltie.frontends.cli import parser as arguments
from shelltie.settings import paths

NOT_DONE = 1  # there is nothing of that name, or nothing to show
WRONG_USAGE = 2
TIMED_OUT = 124
SHELLTIE_FAILED = 125
REFUSED = 126
INTERRUPTED = 130
NOBODY_READS = 141  # as a shell reports a death by SIGPIPE


def of_error(error: TerminalError) -> int:
    """What a script learns from an error of ours."""
    if isinstance(error, CannotStart):
        return error.exit_code
    if isinstance(error, CommandDenied):
        return REFUSED
    if isinstance(error, NoLiveRun | NoRecordedRun | OutputNotKept):
        return NOT_DONE
    return WRONG_USAGE if isinstance(error, Misuse) else SHELLTIE_FAILED


_WELCOME = """\
shelltie: a terminal for AI agents, on a leash.

It gives each command a total and a silence limit, warns before it ends one,
ends the whole process tree, and says what to try next.

  shelltie demo                              see it, in under 20 seconds
  shelltie run --silence 5s -- 'sleep 600'   run something on a leash
  shelltie doctor                            whether all is in order here
  shelltie install claude                    give it to your agent

More: shelltie --help. Started by a program, through a pipe, it speaks MCP."""

_DELETED = "the directory you are in was deleted: cd to another one, and try again"


_OUR_FAULT = "this is a fault of shelltie itself; please report it"
_NO_THREAD = "can't start new thread"  # all that Python says of it, in a RuntimeError
_TOO_MANY = (
    "no thread can be started: you have as many processes and threads as you may (ulimit -u), or"
    " the machine has; end some, and try again"
)


def program() -> NoReturn:
    """A whole process, which leaves with the exit code."""
    code = main()
    for stream in filter(None, (sys.stdout, sys.stderr)):
        with suppress(OSError, ValueError):
            stream.flush()
    # All that ran has ended. Python would take its modules to pieces, for 30 ms.
    os._exit(code)


def main(argv: Sequence[str] | None = None) -> int:
    """Do what the command line says; the exit code."""
    console.ready_streams()
    try:
        code = _obey(list(sys.argv[1:] if argv is None else argv))
        if sys.stdout is not None:
            sys.stdout.flush()
    except BrokenPipeError:
        console.forget_stdout()
        return NOBODY_READS
    except KeyboardInterrupt:
        return INTERRUPTED
    except TerminalError as error:
        console.print_error(str(error))
        return of_error(error)
    except OSError as error:
        console.print_error(_DELETED if paths.is_deleted() else str(error))
        return SHELLTIE_FAILED
    except Exception as error:  # noqa: BLE001  1 would look like the command's own exit code
        if str(error) != _NO_THREAD:
            sys.excepthook(type(error), error, error.__traceback__)
        console.print_error(_TOO_MANY if str(error) == _NO_THREAD else _OUR_FAULT)
        return SHELLTIE_FAILED
    return code


def _obey(argv: list[str]) -> int:
    try:
        args = parse(argv)
    except SystemExit as leaving:  # argparse has said everything
        return leaving.code if isinstance(leaving.code, int) else WRONG_USAGE
    if args.name is None and sys.stdin is not None and sys.stdin.isatty():
        print(_WELCOME)
        return 0
    command = import_whole(f"shelltie.frontends.cli.commands.{args.name or 'mcp'}")
    return cast(int, command.main(args))


def parse(argv: list[str]) -> Namespace:
    """The command line, understood; what follows `--` is never ours.

    Raises: SystemExit, after a message.
    """
    if argv[:1] == ["help"]:
        argv = [*argv[1:], "--help"]
    elif argv[:1] == ["version"]:
        argv = ["--version", *argv[1:]]
    parser = arguments.build(argv[0] if argv else None)
    end = argv.index("--") if "--" in argv else len(argv)
    ours, given = argv[:end], argv[end:]
    args, unknown = parser.parse_known_args(ours)
    used = parser.commands.get(args.name, parser)
    used = used.commands.get(getattr(args, "action", ""), used)
    if unknown:
        used.unknown(unknown[0])
    if given and not hasattr(args, "words"):
        used.unknown("--")
    if given:  # `run git checkout -- file`: that one is git's
        args.words = [*args.words, *given] if args.words else given[1:]
    return args


def import_whole(name: str) -> Any:  # noqa: ANN401  any module
    """A module is imported when its command is used: `import mcp` alone takes most of a second.

    What modules hold stays to the end, so nobody looks through it for garbage: neither now, which
    would be a tenth of the time, nor while a server runs.
    """
    gc.disable()
    try:
        module = importlib.import_module(name)
        if "asyncio" in sys.modules and not hasattr(module, "IMPORTS_ALL_AFTER"):
            import_now()  # it runs commands, and may outlive the files of its Python
        gc.freeze()
    finally:
        gc.enable()
    return module
