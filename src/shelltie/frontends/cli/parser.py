"""argparse grammar of every subcommand."""

import argparse
import difflib
import math
import re
import time
from collections.abc import Iterable, Sequence
from datetime import datetime
from functools import partial
from typing import Any, NoReturn, cast

from shelltie.basics.lazy_regex import lazy
from shelltie.errors import InvalidParameters
from shelltie.model import ISOLATION_LEVELS, OUTSIDE

_ID = "as `shelltie history` shows it"
_STATS = """\
SUGGESTED are limits that would have been enough; with adaptive.mode = "apply"
they hold by themselves. A limit of your own always wins."""


def _add_history_commands(commands: "argparse._SubParsersAction[Parser]") -> None:
    """History, stats, report, export, replay, metrics."""
    metrics = _plain(commands, "metrics", "print what all servers have counted, for Prometheus")
    metrics.add_argument("--json", action="store_true", help="print JSON")
    metrics.add_argument(
        "--health",
        action="store_true",
        help="compare figures with their thresholds; exit code 1 if one is exceeded",
    )
    history = _plain(commands, "history", "list past commands, the newest first")
    history.add_argument("what", nargs="*", metavar="show ID", help="everything about one of them")
    history.add_argument(
        "--failed", "--bad", action="store_true", help="only what did not end with exit code 0"
    )
    history.add_argument("--refused", action="store_true", help="only what was not allowed to run")
    history.add_argument("--client", metavar="NAME", help="only of clients with this in their name")
    history.add_argument("--text", metavar="TEXT", help="only commands with this text")
    history.add_argument(
        "--since", type=_since, metavar="WHEN", help="only since 2h, 3d or 2026-01-31 ago"
    )
    stats = _plain(commands, "stats", "show duration statistics per command")
    stats.epilog = _STATS
    for parser in (history, stats):
        parser.add_argument("-n", type=_count, default=20, metavar="N", help="how many (20)")
        parser.add_argument("--here", action="store_true", help="only in this project")
        parser.add_argument("--json", action="store_true", help="print JSON")
    report = _plain(commands, "report", "write past commands as one HTML page")
    report.add_argument("--html", action="store_true", help="HTML (default)")
    report.add_argument("-o", "--output", metavar="FILE", help="write the page to this file")
    report.add_argument("--open", action="store_true", help="open it in a browser")
    report.add_argument("-n", type=_count, default=500, metavar="N", help="runs (500)")
    report.add_argument("--here", action="store_true", help="only in this project")
    _add_export(
        _plain(commands, "export", "print a run's output as text, HTML or an asciinema cast")
    )
    replay = _plain(commands, "replay", "replay a run's output with its original timing")
    replay.add_argument("id", metavar="ID", help=_ID)
    replay.add_argument("--speed", type=_factor, default=1.0, metavar="X", help="times faster (1)")
    replay.add_argument(
        "--idle", type=_factor, default=2.0, metavar="S", help="no pause longer than this (2)"
    )


def _add_export(export: argparse.ArgumentParser) -> None:
    export.add_argument("id", metavar="ID", help=_ID)
    how = export.add_mutually_exclusive_group()
    how.add_argument("--txt", action="store_true", help="text without escapes (default)")
    how.add_argument("--html", action="store_true", help="a self-contained HTML page")
    how.add_argument("--cast", action="store_true", help="a recording that asciinema plays")
    export.add_argument("--columns", type=_size, default=80, metavar="N", help="of --cast (80)")
    export.add_argument("--rows", type=_size, default=24, metavar="N", help="of --cast (24)")


def _factor(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0.01 <= value <= 10_000:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number from 0.01 to 10000")
    return value


def _size(text: str) -> int:
    if not text.isdecimal() or not text.isascii() or not 1 <= int(text[:6]) <= 1000:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number from 1 to 1000")
    return int(text)


def _since(text: str) -> float:
    """A moment: so long ago, or a date."""
    days, unit, rest = text.strip().partition("d")
    if unit and not rest and days.isascii() and days.isdecimal():
        return time.time() - int(days) * 86400
    try:
        return datetime.fromisoformat(text.strip()).astimezone().timestamp()
    except (ValueError, OverflowError):
        return time.time() - duration(text)


def _count(text: str) -> int:
    if not text.isdecimal() or not text.isascii() or len(text) > 9:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number")
    return int(text)


_HTTP = """\
Without --http one client is served on stdin and stdout. With it, whoever shows
a token is served at http://HOST:PORT/mcp, each with sessions of their own. The
file of tokens is made with one in it if there is none; it has one a line."""

_ONLY_HTTP = ("token_file", "tls_cert", "tls_key", "allow_host", "allow_plaintext")


def add_mcp(mcp: argparse.ArgumentParser) -> None:
    """Add the options for serving over HTTP."""
    mcp.epilog = _HTTP
    mcp.add_argument(
        "--http", type=_address, metavar="HOST:PORT", help="serve over HTTP here, not on stdio"
    )
    http = mcp.add_argument_group("with --http")
    http.add_argument("--token-file", metavar="FILE", help="who may come in (see shelltie paths)")
    http.add_argument("--tls-cert", metavar="FILE", help="serve HTTPS with this certificate")
    http.add_argument("--tls-key", metavar="FILE", help="and this key")
    http.add_argument(
        "--allow-host", action="append", metavar="NAME", help="a name clients use; repeatable"
    )
    http.add_argument(
        "--allow-plaintext",
        action="store_true",
        help="listen beyond this machine without TLS; something else encrypts",
    )


def check(args: argparse.Namespace) -> None:
    """Whether nothing is said about HTTP where there is none.

    Raises: InvalidParameters.
    """
    given = [name for name in _ONLY_HTTP if getattr(args, name)]
    if args.http is None and given:
        option = f"--{given[0].replace('_', '-')}"
        raise InvalidParameters(f"{option} is for HTTP: give --http HOST:PORT, too")


def _address(text: str) -> object:
    from shelltie.frontends.mcp.http import address  # most commands serve nobody

    try:
        return address.parse(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error


_VERIFY = """\
The chain shows whatever was changed, removed or put in another order. That its
end was cut off, or all of it written anew, shows only if you have kept a head:
verify prints it; give it back later with --head, or set audit.anchor.

exit codes: 0 it is as it was written; 1 it is not; 125 it cannot be read"""


def _add_journal_commands(commands: "argparse._SubParsersAction[Parser]") -> None:
    """Audit, monitor."""
    audit = _plain(commands, "audit", "read the journal, and prove that it is unchanged")
    actions = audit.add_subparsers(dest="action", metavar="ACTION", required=True)
    verify = _plain(actions, "verify", "check every entry of the chain")
    verify.epilog = _VERIFY
    verify.add_argument(
        "--head", type=_head, action="append", metavar="SEQ:HASH", help="a head that was kept"
    )
    verify.add_argument("--json", action="store_true", help="print JSON")
    tail = _plain(actions, "tail", "print the last entries")
    tail.add_argument("-n", type=_row_count, default=20, metavar="N", help="how many (20)")
    tail.add_argument("--json", action="store_true", help="print JSON, an object a line")
    export = _plain(actions, "export", "print all entries for programs")
    export.add_argument("--jsonl", action="store_true", help="an object a line (default)")
    export.add_argument(
        "--after", type=_row_count, default=0, metavar="SEQ", help="only those after this one"
    )
    monitor = _plain(commands, "monitor", "print events live, of everything that runs for you")
    monitor.add_argument("--json", action="store_true", help="print JSON, an object a line")


def _head(text: str) -> object:
    from shelltie.record.chain import head_of  # most commands read no chain

    try:
        return head_of(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def _row_count(text: str) -> int:
    if not text.isdecimal() or not text.isascii() or len(text) > 15:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of entries")
    return int(text)


_IDS = """\
ID is what `shelltie ps` shows: term-1, the first characters of a run's id, or
PID:term-1 where two servers have a session of that name."""
_KEYS = """
KEY is ctrl-c, enter, tab, escape, up, page-down, f1, alt-x, …"""
_LEAVE = """
Leave with ctrl-] and it runs on; without --write ctrl-c leaves as well."""


_WEB = """\
Two links are printed: one to look, one to steer. The page is on this machine
only (127.0.0.1); from elsewhere use ssh -L."""


_TOP = """\
It needs the extra `top` (shelltie[top]); without it you get shelltie ps
--watch. Keys: j k move, enter output, a allow, d deny, x end,
X end with SIGKILL, + 5 minutes more, / filter, ? all keys, q quit."""


def _port(text: str) -> int:
    if not text.isdecimal() or not text.isascii() or int(text[:6]) > 65535:
        raise argparse.ArgumentTypeError(f"{text!r} is not a port: write a number up to 65535")
    return int(text)


def _add_session_commands(commands: "argparse._SubParsersAction[Parser]") -> None:
    """Web, ps, logs, attach, send, kill."""
    web = _plain(commands, "web", "open a page with all that runs, and what waits for you")
    web.epilog = _WEB
    web.add_argument("--port", type=_port, default=0, metavar="N", help="listen here (any)")
    web.add_argument("--allow-input", action="store_true", help="let the page type into sessions")
    web.add_argument("--no-open", action="store_true", help="do not open a browser")
    top = _plain(commands, "top", "watch and steer what runs, full-screen in this terminal")
    top.epilog = _TOP
    ps = _plain(commands, "ps", "list what runs for you: commands and sessions")
    ps.add_argument("--json", action="store_true", help="print JSON")
    ps.add_argument("--watch", action="store_true", help="refresh the list each second")
    _add_logs(_plain(commands, "logs", "print the output of a run or session"))
    attach = _plain(commands, "attach", "watch a session in this terminal, or type into it")
    _add_id(attach, _LEAVE)
    attach.add_argument(
        "--write", action="store_true", help="send your input and terminal size to it"
    )
    _add_send(_plain(commands, "send", "type into a session"))
    kill = _plain(commands, "kill", "stop runs and sessions and all their processes")
    kill.epilog = _IDS
    kill.add_argument("ids", nargs="*", metavar="ID", help="as `shelltie ps` shows it")
    kill.add_argument("--all", action="store_true", help="everything that `shelltie ps` lists")
    kill.add_argument("--yes", action="store_true", help="do not ask back at a terminal")
    kill.add_argument("--hard", action="store_true", help="with SIGKILL at once, without a grace")


def _lines(text: str) -> int:
    if not text.isdecimal() or not text.isascii() or len(text) > 9:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of lines")
    return int(text)


def _add_id(parser: argparse.ArgumentParser, more: str = "") -> None:
    parser.add_argument("id", metavar="ID", help="as `shelltie ps` shows it")
    parser.epilog = _IDS + more


def _add_logs(logs: argparse.ArgumentParser) -> None:
    _add_id(logs)
    logs.add_argument("-f", "--follow", action="store_true", help="follow it until it ends")
    logs.add_argument(
        "--raw", action="store_true", help="every byte as it was printed, escapes and all"
    )
    logs.add_argument("--tail", type=_lines, metavar="N", help="only the last N lines, and on")
    logs.add_argument("--json", action="store_true", help="print JSON, an object a line")


def _add_send(send: argparse.ArgumentParser) -> None:
    _add_id(send, _KEYS)
    send.usage = "shelltie send [-n] ID TEXT…  or  shelltie send ID --key KEY…"
    send.add_argument("--key", action="append", metavar="KEY", help="a key; repeatable")
    send.add_argument(
        "-n", "--no-newline", action="store_true", help="TEXT alone, without the enter key"
    )
    send.add_argument("words", nargs="*", metavar="TEXT", help="a line to type")


_TRIAL_ID = "as `shelltie changes` lists it"
_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "": 1.0}
_DURATION = lazy(r"(?:\d+(?:\.\d+)?(?:ms|s|m|h) ?)+|\d+(?:\.\d+)?", re.ASCII)
_PART = lazy(r"(\d+(?:\.\d+)?)(ms|s|m|h|)", re.ASCII)
_CODES = """\
TIME is 90s, 10m, 1h 30m, 250ms or a number of seconds. What is not given, the
policy decides; with --total alone, silence may last as long as the policy says,
or a quarter of the total (60 s at most) if that is longer; --silence 0 is no
silence limit. Limits under 5 s end a command without a warning before.

exit codes: the command's own; 124 timed out; 125 shelltie failed; 126 refused
or not executable; 127 not found; 128+n ended by signal n; 2 wrong usage"""


class Parser(argparse.ArgumentParser):
    """An ArgumentParser whose errors suggest what was meant."""

    def __init__(self, **options: Any) -> None:  # noqa: ANN401  argparse has a dozen of them
        layout = partial(argparse.RawDescriptionHelpFormatter, max_help_position=26, width=79)
        options.setdefault("formatter_class", layout)
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

    def format_help(self) -> str:
        """Its help, with commands in groups, and examples at the end."""
        from shelltie.frontends.cli.help_text import examples, grouped  # few ask for it

        name = self.prog.partition(" ")[2]
        parts = [self.epilog or "", examples(name)]
        if not name:
            helps = {name: one.description or "" for name, one in self.commands.items()}
            parts.insert(0, grouped({name: text.rstrip(".") for name, text in helps.items()}))
        whole, self.epilog = self.epilog, "\n\n".join(filter(None, parts)) or None
        try:
            return super().format_help()
        finally:
            self.epilog = whole

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


class _OnlyCommand:
    """Subparsers of which one is built: to build them all takes longer than most commands."""

    def __init__(self, every: "argparse._SubParsersAction[Parser]", name: str) -> None:
        self._every, self._name = every, name

    def add_parser(self, name: str, **options: Any) -> Parser:  # noqa: ANN401  argparse's own
        """As argparse's; the parser of any other command keeps nothing."""
        known = name == self._name
        return self._every.add_parser(name, **options) if known else cast(Parser, _UNBUILT)


class _Unbuilt:
    """Null object in place of a parser that nobody uses."""

    def __getattr__(self, _: str) -> "_Unbuilt":
        return self

    def __call__(self, *_: object, **__: object) -> "_Unbuilt":
        return self


_UNBUILT = _Unbuilt()


def build(only: str | None = None) -> Parser:
    """The grammar of one command if there is one of that name, or else of all."""
    parser = _build(only)
    return parser if only is None or parser.commands else _build(None)


def _build(only: str | None) -> Parser:
    parser = Parser(
        prog="shelltie",
        usage="shelltie [OPTIONS] COMMAND …",
        description="A terminal for AI agents, on a leash.\n"
        "Without a command: MCP over stdio if stdin is a pipe, else a short welcome.",
    )
    parser.add_argument(
        "-V", "--version", action=_Version, nargs=0, help="print the version and leave"
    )
    _add_color(parser, "auto")
    commands = parser.add_subparsers(
        dest="name", metavar="COMMAND", help=argparse.SUPPRESS, prog="shelltie"
    )
    if only is not None:
        one = _OnlyCommand(commands, only)
        commands = cast("argparse._SubParsersAction[Parser]", one)  # noqa: SLF001  it has no other name
    _add_run(commands)
    _add_trials(commands)
    _add_check(commands)
    _add_policy(commands)
    _add_config(commands)
    _add_approval(commands)
    _add_approvals(commands)
    _add_trust(commands)
    _add_session_commands(commands)
    _add_journal_commands(commands)
    _add_history_commands(commands)
    doctor = _plain(commands, "doctor", "check this installation, and say how to fix it", json=True)
    doctor.add_argument("--rules", action="store_true", help="list commands wrongly rated safe")
    _plain(commands, "demo", "watch it end a command that hangs (under 20 s)")
    _plain(commands, "paths", "print every file and directory that is used", json=True)
    places = _plain(commands, "places", "print the rights that a place in Kubernetes needs")
    places.add_argument("action", choices=("apply",), help="for `kubectl apply -f -`")
    places.add_argument("place", metavar="NAME", help="as in [places.NAME]")
    completion = _plain(commands, "completion", "print a completion script for your shell")
    completion.add_argument("shell", choices=("bash", "zsh", "fish"), help="for which shell")
    add_mcp(_plain(commands, "mcp", "serve MCP, over stdio or HTTP"))
    _add_acp(commands)
    _add_clients(commands)
    return parser


def _add_color(parser: Parser, default: str = argparse.SUPPRESS) -> None:
    """Before or after the command: a default of the subcommand would undo the one before it."""
    choices = ("auto", "always", "never")
    parser.add_argument("--color", choices=choices, default=default, help="when to use colours")


def _plain(
    commands: "argparse._SubParsersAction[Parser]", name: str, text: str, *, json: bool = False
) -> Parser:
    made = commands.add_parser(name, help=text, description=text[0].upper() + text[1:] + ".")
    _add_color(made)
    if json:
        made.add_argument("--json", action="store_true", help="print JSON")
    return made


def _add_run(commands: "argparse._SubParsersAction[Parser]") -> None:
    run = _plain(commands, "run", "run a command with limits and safety rules", json=True)
    run.usage = "shelltie run [OPTIONS] -- CMD…"
    run.epilog = _CODES
    run.add_argument(
        "--total", "--timeout", type=duration, metavar="TIME", help="end it after this time"
    )
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
    run.add_argument(
        "--stdin",
        metavar="FILE",
        help="file to use as stdin; - for this terminal's (default: empty)",
    )
    run.add_argument(
        "--isolation",
        choices=(*ISOLATION_LEVELS, OUTSIDE),
        help="isolation level; auto = strongest available; outside = none, after a yes",
    )
    run.add_argument(
        "--provider", metavar="NAME", help="the backend to run it with; see shelltie doctor"
    )
    run.add_argument("--at", metavar="NAME", help="where to run it: a place of the settings")
    run.add_argument(
        "--trial", action="store_true", help="keep its changes apart; then apply or discard them"
    )
    run.add_argument(
        "--detach", action="store_true", help="print its id and leave; it outlives this terminal"
    )
    run.add_argument(
        "words",
        nargs=argparse.REMAINDER,
        metavar="CMD",
        help="one argument runs in bash; several are program and arguments",
    )


def _add_trials(commands: "argparse._SubParsersAction[Parser]") -> None:
    changes = _plain(commands, "changes", "show what commands on trial have changed", json=True)
    changes.add_argument("id", nargs="?", metavar="ID", help="of one trial (default: list all)")
    changes.add_argument("--diff", action="store_true", help="print a diff that git apply reads")
    apply = _plain(commands, "apply", "make the changes of a trial real, all or nothing")
    apply.add_argument("id", metavar="ID", help=_TRIAL_ID)
    apply.add_argument("paths", nargs="*", metavar="PATH", help="only these, and what is in them")
    apply.add_argument("--yes", action="store_true", help="do not ask back at a terminal")
    discard = _plain(commands, "discard", "forget the changes of a trial")
    undo = _plain(commands, "undo", "take back what was applied")
    for parser in (discard, undo):
        parser.add_argument("id", metavar="ID", help=_TRIAL_ID)


def _add_acp(commands: "argparse._SubParsersAction[Parser]") -> None:
    acp = _plain(commands, "acp", "stand between an editor and its agent; serve terminals")
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


_CLIENTS = (
    *("claude", "codex", "gemini", "cursor", "vscode", "zed", "goose", "claude-desktop"),
    *("windsurf", "json"),
)


_HOOKED = ("claude", "codex", "gemini", "cursor")


def _add_clients(commands: "argparse._SubParsersAction[Parser]") -> None:
    install = _plain(commands, "install", "add shelltie to an agent or editor")
    uninstall = _plain(commands, "uninstall", "remove shelltie from an agent or editor")
    for parser in (install, uninstall):
        parser.add_argument("client", choices=_CLIENTS, metavar="CLIENT", help=", ".join(_CLIENTS))
        parser.add_argument(
            "--print", action="store_true", help="print what would be done; change nothing"
        )
        parser.add_argument("--file", metavar="FILE", help="its configuration, if it is elsewhere")
    install.add_argument(
        "--hook", action="store_true", help="and have it ask shelltie about its own shell commands"
    )
    install.add_argument(
        "--shell", action="store_true", help="and run its own shell commands on a leash"
    )

    hook = _plain(commands, "hook", "answer a hook of an agent; its input is on stdin")
    hook.add_argument("client", choices=_HOOKED, metavar="CLIENT", help=", ".join(_HOOKED))


def _add_check(commands: "argparse._SubParsersAction[Parser]") -> None:
    check = _plain(commands, "check", "say what would happen to a command; run nothing")
    how = check.add_mutually_exclusive_group()
    how.add_argument("--json", action="store_true", help="print JSON")
    how.add_argument(
        "--jsonl", action="store_true", help='stdin: objects with "command", one a line'
    )
    check.add_argument(
        "--profile",
        choices=("run", "session", "bash", "acp"),
        default="run",
        help="whose rules decide (run)",
    )
    check.add_argument(
        "--exit-code",
        action="store_true",
        help="exit with 0 if it would run, 1 if a person must say yes, 126 if it is refused",
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


_CONFIG = """\
KEY is a setting such as limits.grace; `list` describes them all. VALUE is
written as in TOML: 10, true, "text" or ["a", "b"]; quotes around a word may be
left out. A person changes settings: a command of an agent cannot."""


def _add_config(commands: "argparse._SubParsersAction[Parser]") -> None:
    config = _plain(commands, "config", "list and change settings")
    config.epilog = _CONFIG
    actions = config.add_subparsers(dest="action", metavar="ACTION", required=True)
    listed = _plain(actions, "list", "describe settings: meaning, value, origin", json=True)
    listed.add_argument("key", nargs="?", metavar="KEY", help="only this one or this section")
    listed.add_argument("--changed", action="store_true", help="only what is not the default")
    get = _plain(actions, "get", "print the value of a setting", json=True)
    change = _plain(actions, "set", "set a value in your settings file")
    add = _plain(actions, "add", "add values to a list in your settings file")
    unset = _plain(actions, "unset", "remove a setting from your file")
    for parser in (get, change, add, unset):
        parser.add_argument("key", metavar="KEY", help="the setting")
    add.add_argument("values", nargs="+", metavar="VALUE", help="what to add")
    change.add_argument("value", metavar="VALUE", help="its value")
    edit = _plain(actions, "edit", "open your settings file in $EDITOR, then check it")
    path = _plain(actions, "path", "print where your settings file is")
    for parser in (change, add, unset, edit, path):
        where = parser.add_mutually_exclusive_group()
        where.add_argument("--project", action="store_true", help="the project's .shelltie.toml")
        where.add_argument("--system", action="store_true", help="the file in /etc")


def _add_approval(commands: "argparse._SubParsersAction[Parser]") -> None:
    pending = _plain(commands, "pending", "list commands that wait for a person's yes", json=True)
    pending.add_argument("id", nargs="?", metavar="ID", help="show this one only, but all of it")
    pending.add_argument("--full", action="store_true", help="cut nothing, however long it is")
    pending.add_argument(
        "--watch", action="store_true", help="show each one as it comes; y, s, a and n answer it"
    )
    approve = _plain(commands, "approve", "allow a command that waits, exactly as it is")
    deny = _plain(commands, "deny", "refuse a command that waits")
    for parser in (approve, deny):
        parser.add_argument("id", metavar="ID", help="as `shelltie pending` shows it")
    far = approve.add_mutually_exclusive_group()
    far.add_argument("--session", action="store_true", help="until that server ends")
    far.add_argument("--always", action="store_true", help="for good; shows and writes the rule")
    far.add_argument("--kind", action="store_true", help="every command of its kind; see the card")
    approve.add_argument("--yes", action="store_true", help="do not ask back at a terminal")
    approve.add_argument("--full", action="store_true", help="show its digest and size as well")
    deny.add_argument("--reason", metavar="TEXT", help="what whoever asked is told")


def _add_approvals(commands: "argparse._SubParsersAction[Parser]") -> None:
    approvals = _plain(
        commands, "approvals", "list what is allowed for good, and revoke it", json=True
    )
    approvals.add_argument(
        "action", nargs="?", choices=("list", "revoke"), default="list", help="list is the default"
    )
    approvals.add_argument("id", nargs="?", metavar="ID", help="what to revoke, as it is listed")


def _add_trust(commands: "argparse._SubParsersAction[Parser]") -> None:
    trust = _plain(commands, "trust", "let a project's own files loosen the rules", json=True)
    trust.add_argument("dir", nargs="?", default=".", metavar="DIR", help="the project (.)")
    how = trust.add_mutually_exclusive_group()
    how.add_argument("--list", action="store_true", help="list the trusted projects")
    how.add_argument("--revoke", action="store_true", help="revoke trust")
    trust.add_argument("--yes", action="store_true", help="do not ask back at a terminal")
