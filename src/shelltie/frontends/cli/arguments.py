"""What may stand on the command line: every command, option and its help."""

import argparse
import difflib
import math
import re
from collections.abc import Iterable, Sequence
from typing import Any, NoReturn

from shelltie.frontends.cli.figure_arguments import add_figures
from shelltie.frontends.cli.mcp_arguments import add_mcp
from shelltie.frontends.cli.record_arguments import add_record
from shelltie.frontends.cli.session_arguments import add_sessions
from shelltie.regex import regex

_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "": 1.0}
_DURATION = regex(r"(?:\d+(?:\.\d+)?(?:ms|s|m|h) ?)+|\d+(?:\.\d+)?", re.ASCII)
_PART = regex(r"(\d+(?:\.\d+)?)(ms|s|m|h|)", re.ASCII)
_CODES = """\
TIME is 90s, 10m, 1h 30m, 250ms or a number of seconds. What is not given, the
policy decides; --silence 0 is no silence limit.

exit codes: the command's own; 124 timed out; 125 shelltie failed; 126 refused
or not executable; 127 not found; 128+n ended by signal n; 2 wrong usage"""


class Parser(argparse.ArgumentParser):
    """An ArgumentParser whose errors suggest what was meant."""

    def __init__(self, **options: Any) -> None:  # noqa: ANN401  argparse has a dozen of them
        options.setdefault("formatter_class", _Help)
        super().__init__(allow_abbrev=False, **options)

    @property
    def actions(self) -> Sequence[argparse.Action]:
        """Everything it takes, for whoever describes it."""
        return self._actions

    @property
    def commands(self) -> dict[str, "Parser"]:
        """Its subcommands."""
        maps = (a.choices for a in self._actions if isinstance(a.choices, dict))
        return next(maps, {})

    def error(self, message: str) -> NoReturn:
        """Say what is wrong in a line or two, and how to learn more."""
        self.exit(2, f"shelltie: {message}\nTry '{self.prog} --help'.\n")

    def unknown(self, word: str) -> NoReturn:
        """Refuse an option or a word that has no place."""
        known = [option for action in self._actions for option in action.option_strings]
        name = word.partition("=")[0]
        kind = "option" if word.startswith("-") else "argument"
        self.error(f"unknown {kind} {name!r}{_meant(name, known)}")

    def _check_value(self, action: argparse.Action, value: object) -> None:
        if action.choices is not None and value not in action.choices:
            known = [str(choice) for choice in action.choices]
            told = _meant(str(value), known) or f"; use {', '.join(known)}"
            name = (action.option_strings or [str(action.metavar or action.dest).lower()])[0]
            self.error(f"unknown {name} {value!r}{told}")


class _Help(argparse.RawDescriptionHelpFormatter):
    def __init__(self, prog: str) -> None:
        super().__init__(prog, max_help_position=26, width=79)


class _Version(argparse.Action):
    def __call__(self, *_: object) -> NoReturn:
        from importlib import metadata  # it brings half of the standard library along

        try:
            print(f"shelltie {metadata.version('shelltie')}")
        except metadata.PackageNotFoundError:
            print("shelltie, run from its source")
        raise SystemExit(0)


def _meant(word: str, known: Iterable[str]) -> str:
    close = difflib.get_close_matches(word, list(known), 1)
    return f"; did you mean {close[0]!r}?" if close else ""


def duration(text: str) -> float:
    """Seconds, from "90s", "10m", "1h 30m", "250ms" or a bare number."""
    clean = text.strip()
    span = math.nan
    if _DURATION.fullmatch(clean):
        span = sum(float(number) * _UNITS[unit] for number, unit in _PART.findall(clean))
    if not math.isfinite(span):
        raise argparse.ArgumentTypeError(
            f"{text!r} is not a duration: write 90s, 10m, 1h, 250ms or a number of seconds"
        )
    return span


def variable(text: str) -> tuple[str, str]:
    """A name and a value, from "NAME=value"."""
    name, equals, value = text.partition("=")
    if not name or not equals:
        raise argparse.ArgumentTypeError(f"{text!r} is not a variable: write NAME=value")
    return name, value


def build() -> Parser:
    """The whole grammar."""
    parser = Parser(
        prog="shelltie",
        description="A terminal for AI agents, on a leash.\n"
        "Without a command: MCP over stdio if stdin is a pipe, else a short welcome.",
    )
    parser.add_argument("--version", action=_Version, nargs=0, help="print the version and leave")
    _add_color(parser)
    commands = parser.add_subparsers(dest="name", metavar="COMMAND", title="commands")
    _add_run(commands)
    _add_check(commands)
    _add_policy(commands)
    _add_approval(commands)
    _add_trust(commands)
    add_sessions(commands, _plain)
    add_record(commands, _plain)
    add_figures(commands, _plain)
    _plain(commands, "doctor", "whether everything is in order here, and the remedy", json=True)
    _plain(commands, "demo", "see it bark and bite, in under 20 seconds")
    _plain(commands, "paths", "every file and directory that is used", json=True)
    completion = _plain(commands, "completion", "a script that lets your shell complete")
    completion.add_argument("shell", choices=("bash", "zsh", "fish"), help="for which shell")
    add_mcp(_plain(commands, "mcp", "serve MCP, over stdio or HTTP"))
    _add_acp(commands)
    return parser


def _add_color(parser: Parser) -> None:
    choices = ("auto", "always", "never")
    parser.add_argument("--color", choices=choices, default="auto", help="when to use colours")


def _plain(
    commands: "argparse._SubParsersAction[Parser]", name: str, text: str, *, json: bool = False
) -> Parser:
    made = commands.add_parser(name, help=text, description=text[0].upper() + text[1:] + ".")
    _add_color(made)
    if json:
        made.add_argument("--json", action="store_true", help="print JSON")
    return made


def _add_run(commands: "argparse._SubParsersAction[Parser]") -> None:
    run = _plain(commands, "run", "run a command on a leash", json=True)
    run.usage = "shelltie run [OPTIONS] -- CMD…"
    run.epilog = _CODES
    run.add_argument("--total", type=duration, metavar="TIME", help="end it after this time")
    run.add_argument(
        "--silence", type=duration, metavar="TIME", help="end it after no output for this time"
    )
    run.add_argument(
        "--grace", type=duration, metavar="TIME", help="between SIGTERM and SIGKILL (5s)"
    )
    run.add_argument("--cwd", metavar="DIR", help="where to run it")
    run.add_argument(
        "--env", type=variable, action="append", metavar="K=V", help="set a variable; repeatable"
    )
    run.add_argument("--pty", action="store_true", help="give it a terminal")
    run.add_argument("--stdin", metavar="FILE", help="its input; - is ours; none otherwise")
    levels = ("none", "sandbox", "container", "auto")
    run.add_argument("--isolation", choices=levels, help="how far from the rest; auto: the most")
    run.add_argument("--provider", metavar="NAME", help="where it runs; see shelltie doctor")
    run.add_argument(
        "words", nargs=argparse.REMAINDER, metavar="CMD", help="one: a shell text; several: argv"
    )


def _add_acp(commands: "argparse._SubParsersAction[Parser]") -> None:
    acp = _plain(commands, "acp", "stand between an editor and its agent, and serve terminals")
    acp.usage = "shelltie acp [OPTIONS] -- AGENT…"
    acp.epilog = (
        "exit codes: the agent's own; 125 shelltie failed; 126, 127 no such agent; 2 wrong usage"
    )
    acp.add_argument(
        "--terminals",
        choices=("always", "missing"),
        default="always",
        help="serve them to the agent always (default), or only where the editor has none",
    )
    acp.add_argument(
        "--display",
        choices=("auto", "meta", "text", "v2"),
        default="auto",
        help="how the editor shows them: what it understands (default), or this; v2 is a draft",
    )
    acp.add_argument("--total", type=duration, metavar="TIME", help="end each after this time")
    acp.add_argument("--mcp", action="store_true", help="give every session our MCP tools, too")
    acp.add_argument(
        "--wrap-shell",
        action="store_true",
        help="run the own shell commands of Claude Code through shelltie run",
    )
    acp.add_argument(
        "words", nargs=argparse.REMAINDER, metavar="AGENT", help="the agent and its arguments"
    )


def _add_check(commands: "argparse._SubParsersAction[Parser]") -> None:
    check = _plain(commands, "check", "say what would happen to a command; runs nothing")
    how = check.add_mutually_exclusive_group()
    how.add_argument("--json", action="store_true", help="print JSON")
    how.add_argument(
        "--jsonl", action="store_true", help='stdin: objects with "command", one a line'
    )
    check.add_argument(
        "--profile",
        choices=("run", "session", "acp"),
        default="run",
        help="whose rules decide (run)",
    )
    check.add_argument("words", nargs="*", metavar="CMD", help="the command")


def _add_policy(commands: "argparse._SubParsersAction[Parser]") -> None:
    policy = _plain(commands, "policy", "make, check and show the timeout policy")
    actions = policy.add_subparsers(dest="action", metavar="ACTION", required=True)
    init = _plain(actions, "init", "write the default policy into this project")
    init.add_argument("--force", action="store_true", help="overwrite the one that is there")
    check = _plain(actions, "check", "say what is wrong in a policy file")
    lint = _plain(actions, "lint", "name patterns that match more or less than meant")
    for parser in (check, lint):
        parser.add_argument("file", nargs="?", metavar="FILE", help="default: the one in force")
    show = _plain(actions, "show", "print the policy in force", json=True)
    show.add_argument("--origin", action="store_true", help="and each setting with its origin")
    _plain(actions, "schema", "print the JSON Schema of policy files")


def _add_approval(commands: "argparse._SubParsersAction[Parser]") -> None:
    pending = _plain(commands, "pending", "list commands that wait for a person's yes", json=True)
    pending.add_argument("id", nargs="?", metavar="ID", help="show this one only, but all of it")
    pending.add_argument("--full", action="store_true", help="cut nothing, however long it is")
    pending.add_argument("--watch", action="store_true", help="print each one as it comes")
    approve = _plain(commands, "approve", "allow a command that waits, exactly as it is")
    deny = _plain(commands, "deny", "refuse a command that waits")
    for parser in (approve, deny):
        parser.add_argument("id", metavar="ID", help="as `shelltie pending` shows it")
    far = approve.add_mutually_exclusive_group()
    far.add_argument("--session", action="store_true", help="until that server ends")
    far.add_argument("--always", action="store_true", help="for good; shows and writes the rule")
    approve.add_argument("--yes", action="store_true", help="do not ask back at a terminal")
    deny.add_argument("--reason", metavar="TEXT", help="what whoever asked is told")


def _add_trust(commands: "argparse._SubParsersAction[Parser]") -> None:
    trust = _plain(commands, "trust", "let a project's own files loosen the rules", json=True)
    trust.add_argument("dir", nargs="?", default=".", metavar="DIR", help="the project (.)")
    how = trust.add_mutually_exclusive_group()
    how.add_argument("--list", action="store_true", help="list the trusted projects")
    how.add_argument("--revoke", action="store_true", help="trust this one no more")
    trust.add_argument("--yes", action="store_true", help="do not ask back at a terminal")
