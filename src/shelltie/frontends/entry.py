"""Entry point of `shelltie`: the command line, or at once the hook program, which must be quick."""

import os
import sys


def program() -> None:
    """A whole process, which leaves with the exit code: it does not return."""
    if sys.argv[1:2] == ["hook"] and sys.argv[2:] in ([one] for one in _HOOKED):
        from shelltie.frontends.clients import hook_program  # nothing else is loaded

        os._exit(hook_program.main(sys.argv[2]))
    from shelltie.frontends.cli import main

    main.program()


_HOOKED = ("claude", "codex", "gemini", "cursor")
