"""`shelltie policy`: create, check, lint and show the timeout policy."""

import sys
from argparse import Namespace
from collections.abc import Callable
from pathlib import Path

from shelltie.assemble_parts import policy_file
from shelltie.basics.times import human_duration
from shelltie.errors import TerminalError
from shelltie.frontends.cli.console import Style, marked, print_error, print_json, table, wrap
from shelltie.frontends.reports.policy_report import policy_report
from shelltie.limits.lint import lint
from shelltie.limits.policy import TimeoutPolicy
from shelltie.limits.policy_file import PROJECT_FILE, SCHEMA_FILE, SHIPPED_FILE, PolicyFile
from shelltie.settings import paths
from shelltie.settings.layers import load
from shelltie.settings.toml_list import as_value


def main(args: Namespace) -> int:
    """Do what the action says."""
    actions: dict[str, Callable[[Namespace], int]] = {
        "init": _init,
        "check": _check,
        "lint": _lint,
        "show": _show,
        "schema": _schema,
    }
    return actions[args.action](args)


def _init(args: Namespace) -> int:
    try:
        PROJECT_FILE.parent.mkdir(parents=True, exist_ok=True)
        with PROJECT_FILE.open("w" if args.force else "x", encoding="utf-8") as file:
            file.write(SHIPPED_FILE.read_text(encoding="utf-8"))
    except FileExistsError:
        print_error(f"{PROJECT_FILE} exists and was left as it is; --force overwrites it")
        return 1
    print(f"Wrote {PROJECT_FILE}. Change it, then: shelltie policy check")
    return 0


def _check(args: Namespace) -> int:
    policy = _file(args.file)
    for problem in policy.problems:
        print(problem)
    if not policy.problems:
        print(f"{policy.origin}: fine")
    return 1 if policy.problems else 0


def _lint(args: Namespace) -> int:
    policy = _file(args.file)
    if policy.status != "loaded":
        raise TerminalError(f"{policy.origin}: {policy.status}; see shelltie policy check")
    traps = lint(policy.current())
    for trap in traps:
        print(trap)
    if not traps:
        print(f"{policy.origin}: no traps found")
    return 1 if traps else 0


def _schema(_: Namespace) -> int:
    print(SCHEMA_FILE.read_text(encoding="utf-8"), end="")
    return 0


def _file(given: str | None) -> PolicyFile:
    """The named file, or the one in force."""
    if given is not None:
        return PolicyFile(Path(given))
    return policy_file(load(paths.here()), paths.here())


def _show(args: Namespace) -> int:
    config = load(paths.here())
    file = policy_file(config, paths.here())
    rows = [*config.rows()] if args.origin else []
    if args.json:
        values = {key: {"value": value, "origin": origin} for key, value, origin in rows}
        print_json(policy_report(file) | ({"settings": values} if args.origin else {}))
        return 0
    ink = Style(sys.stdout, args.color)
    print(f"{ink('bold', file.origin)}: {file.status}")
    for problem in file.problems:
        print(marked(ink, "⚠", problem, before="  "))
    _show_policy(file.current(), ink)
    if rows:
        print(ink("bold", "\nsettings"))
        for key, value, origin in rows:
            shown = "-" if value is None else as_value(value)
            print(wrap(f"{key} = {shown}  [{origin}]", "  ", "      "))
        for ignored in config.ignored:
            print(marked(ink, "⚠", f"ignored: {ignored}", before="  "))
    return 0


def _show_policy(policy: TimeoutPolicy, ink: Style) -> None:
    print(ink("bold", "\ncategories"))
    head = ("", "total", "silence", "")
    limits = [
        (category.name, _span(category.total), _span(category.silence), category.description)
        for category in policy.categories.values()
    ]
    table([head, *limits], indent="  ")
    print(f"  default: {policy.default_category} · strategy: {policy.match_strategy}")
    print(ink("bold", "\npatterns"))
    table([(entry.category, entry.pattern.text) for entry in policy.patterns], indent="  ")
    for program, total in policy.command_timeouts.items():
        print(f"  {program}: {_span(total)}, whatever its category")
    if policy.max_total is not None:
        print(f"  nothing may take longer than {_span(policy.max_total)}")


def _span(limit: float | None) -> str:
    return "none" if limit is None else human_duration(limit)
