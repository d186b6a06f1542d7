"""`python -m shelltie` is `shelltie`."""

from shelltie.frontends.cli.main import program

raise SystemExit(program())
