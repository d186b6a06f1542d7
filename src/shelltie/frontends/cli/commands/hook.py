"""`shelltie hook`: the program that an agent's hook calls before a command of its own shell."""

from argparse import Namespace

from shelltie.frontends.clients import hook_program


def main(args: Namespace) -> int:
    """Answer one call."""
    return hook_program.main(args.client)
