"""Entry point of `python -m shelltie`, the same as `shelltie`."""

from shelltie.frontends.entry import program

program()
