"""Entry point of `python -m shelltie`, the same as `shelltie`."""

from shelltie.frontends.cli.main import program

program()
