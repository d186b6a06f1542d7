"""`shelltie install`: adds the MCP server, hooks or shell to an agent or editor."""

import os
import sys
from argparse import Namespace
from collections.abc import Sequence
from pathlib import Path

import anyio

from shelltie.approval.ancestry import why_not_a_person
from shelltie.assemble import assemble
from shelltie.assemble_parts import policy_file
from shelltie.environment import child
from shelltie.errors import CannotStart, InvalidParameters
from shelltie.frontends.about import shell_program, start_argv
from shelltie.frontends.cli.console import print_error
from shelltie.frontends.cli.find_question import REFUSED
from shelltie.frontends.clients import changes, config_file
from shelltie.frontends.clients.changes import Step
from shelltie.frontends.clients.registry import find
from shelltie.limits.resolve import AskedLimits
from shelltie.model import Command, State
from shelltie.running.options import RunOptions
from shelltie.settings import paths
from shelltie.settings.config import Config

_LIMIT = 120.0  # Gemini CLI takes seconds on a quiet machine


def main(args: Namespace) -> int:
    """Add what was asked for."""
    client, environ = find(args.client), child.inherited()
    file = None if args.file is None else Path(args.file).absolute()
    if file is not None and (args.hook or args.shell):
        raise InvalidParameters("--file is for the MCP server alone: leave --hook and --shell out")
    steps = [changes.install_server(client, [*start_argv(), "mcp"], environ, file)]
    if client.name == "json" and file is None:
        print(steps[0].shown if isinstance(steps[0], changes.FileEdit) else "")
        return 0
    if args.hook:
        steps.append(changes.install_hooks(client, start_argv(), environ))
    if args.shell:
        steps.append(changes.install_shell(client, shell_program(), environ))
    code = perform(steps, only_print=args.print, done="is installed already")
    if args.hook and client.note and code == 0:
        print(f"→ {client.note}", file=sys.stderr)
    elif client.hooks is not None and not (args.hook or args.print or code):
        more = "--hook" if client.shell_file is None else "--hook --shell"
        offered = f"shelltie install {client.name} {more}"
        print(f"→ for its own shell tool, too: {offered}", file=sys.stderr)
    return code


def perform(steps: list[Step], *, only_print: bool, done: str) -> int:
    """Do each step, or only print it.

    Raises: TerminalError; then what it names was left as it is.
    """
    if only_print:
        print("\n\n".join(step.describe() for step in steps if _does_something(step)))
        return 0
    why = why_not_a_person(os.getpid())
    if why is not None:
        print_error(f"only a person may change an agent's settings: {why}")
        return REFUSED
    before = {step.file: config_file.read(step.file) for step in steps}
    for step in steps:  # before the first is done: all or nothing
        if isinstance(step, changes.FileEdit):
            step.new_text(before[step.file])
    for step in steps:
        told = step.do(_run, before[step.file]) if _does_something(step) else None
        print(f"✓ {told}" if told else f"· {step.what}: {done}")
    return 0


def _does_something(step: Step) -> bool:
    return not isinstance(step, changes.ProgramCalls) or bool(step.calls)


def _run(argv: Sequence[str]) -> tuple[int, str]:
    """Exit code and output of a client's program, which is ended if it hangs."""
    return anyio.run(_run_leashed, tuple(argv))


async def _run_leashed(argv: tuple[str, ...]) -> tuple[int, str]:
    config = Config().changed("audit.enabled", False)
    options = RunOptions(profile=None, limits=AskedLimits(total=_LIMIT, silence_off=True))
    async with assemble(config, policy_file(config, paths.here())) as supervisor:
        run = await supervisor.run(Command(argv[0], argv), options)
    outcome = run.outcome
    assert outcome is not None
    if outcome.state is not State.FINISHED or outcome.exit.number is None:
        raise CannotStart(f"{argv[0]}: {outcome.error or outcome.state}", 1)
    return outcome.exit.number, run.output.view(None, 4000, 4000).head.decode("utf-8", "replace")
