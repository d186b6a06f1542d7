"""`shelltie uninstall`: removes the MCP server, hooks and shell from an agent or editor."""

from argparse import Namespace
from pathlib import Path

from shelltie.environment import child
from shelltie.frontends.cli.commands.install import perform
from shelltie.frontends.clients import changes
from shelltie.frontends.clients.registry import find


def main(args: Namespace) -> int:
    """Remove all of it; with `--file` only what is in that file."""
    client, environ = find(args.client), child.inherited()
    file = None if args.file is None else Path(args.file).absolute()
    steps = [changes.uninstall_server(client, environ, file)]
    if client.hooks is not None and file is None:
        steps.append(changes.uninstall_hooks(client, environ))
    if client.shell_file is not None and file is None:
        steps.append(changes.uninstall_shell(client, environ))
    return perform(steps, only_print=args.print, done="is not installed")
