"""`shelltie doctor`: diagnostics of this installation, with a remedy for each finding."""

import sys
from argparse import Namespace
from collections.abc import Iterator
from dataclasses import asdict
from itertools import groupby

import anyio

from shelltie.basics.visible_text import inline
from shelltie.frontends.cli import checkup
from shelltie.frontends.cli.console import Style, marked, print_json
from shelltie.frontends.cli.finding import BAD, GOOD, POOR, UNUSED, Finding
from shelltie.record.queries import corrected
from shelltie.settings import paths
from shelltie.settings.layers import load

_RULES = 50  # the last ones
_MARKS = {GOOD: "✓", UNUSED: "·", POOR: "⚠", BAD: "✗"}


def main(args: Namespace) -> int:
    """Look at everything; 1 if something is wrong."""
    if args.rules:
        return _rules(as_json=args.json)
    findings = anyio.run(checkup.examine)
    bad = sum(finding.level == BAD for finding in findings)
    if args.json:
        print_json({"ok": not bad, "findings": [asdict(finding) for finding in findings]})
    else:
        for line in _lines(findings, Style(sys.stdout, args.color)):
            print(line)
    return 1 if bad else 0


def _rules(*, as_json: bool) -> int:
    """What a read-only view has stopped; 1 if there is anything."""
    journal = load(paths.here()).journal
    found = [line.to_json() for line in corrected(journal, _RULES)] if journal.exists() else []
    if as_json:
        print_json({"corrected": found})
        return 1 if found else 0
    for line in found:
        print(f"{line['at']}  {inline(str(line.get('command')))}\n    {line.get('message')}")
    if not found:
        print("no command that was rated safe was stopped by a read-only view")
    return 1 if found else 0


def _lines(findings: list[Finding], ink: Style) -> Iterator[str]:
    for group, members in groupby(findings, lambda finding: finding.group):
        yield ink("bold", group)
        for finding in members:
            text = f"{finding.text} → {finding.remedy}" if finding.remedy else finding.text
            text = text.replace(f"{paths.home_dir()}/", "~/")
            name = f" {finding.name:<14} "
            yield marked(ink, _MARKS[finding.level], text, before="  ", after=name)
    counts = {level: sum(finding.level == level for finding in findings) for level in _MARKS}
    yield f"\n{counts[GOOD]} fine, {counts[POOR]} to look at, {counts[BAD]} wrong"
