"""`shelltie trust`: lets a project's settings file loosen what may run, exactly as it is now."""

import os
import sys
from argparse import Namespace
from pathlib import Path

from shelltie.approval.ancestry import why_not_a_person
from shelltie.basics import visible_text
from shelltie.frontends.cli.console import Style, marked, print_error, print_json, table, width
from shelltie.frontends.cli.find_question import NOT_DONE, REFUSED, confirmed
from shelltie.settings import paths, trust
from shelltie.settings.layers import load
from shelltie.settings.trust import Snapshot, Trusted


def main(args: Namespace) -> int:
    """List, revoke or trust."""
    store = paths.trust_file()
    if args.list:
        return _list(store, as_json=args.json)
    why = why_not_a_person(os.getpid())
    if why is not None:
        print_error(f"only a person may trust a project, and this process may not: {why}")
        return REFUSED
    project = Path(args.dir)
    return _revoke(project, store) if args.revoke else _trust(project, store, args)


def _list(store: Path, *, as_json: bool) -> int:
    known = trust.listed(store)
    changed = {
        entry.project: not trust.is_trusted(trust.look(entry.project), store) for entry in known
    }
    if as_json:
        print_json(
            [
                {
                    "path": str(entry.project),
                    "since": entry.since,
                    "changed": changed[entry.project],
                }
                for entry in known
            ]
        )
    elif known:
        table(
            [
                (
                    entry.since,
                    _state(entry, changed=changed[entry.project]),
                    visible_text.inline(str(entry.project)),
                )
                for entry in known
            ]
        )
    else:
        print("No project is trusted.")
    return 0


def _state(entry: Trusted, *, changed: bool) -> str:
    if not entry.ours:
        return "not written by shelltie: not trusted"
    return "changed since: not trusted" if changed else "trusted"


def _revoke(project: Path, store: Path) -> int:
    if not trust.revoke(project, store):
        print_error(f"{project.resolve()} was not trusted")
        return NOT_DONE
    print(f"{visible_text.inline(str(project.resolve()))} is no longer trusted.")
    return 0


def _trust(project: Path, store: Path, args: Namespace) -> int:
    snapshot = trust.look(project)
    if not snapshot.files:
        print_error(
            f"{snapshot.project} has neither {trust.SETTINGS} nor {trust.RULES}/: nothing to trust"
        )
        return NOT_DONE
    # What the project asks for and does not get while it is not trusted.
    origin = str(paths.project_file(snapshot.project))
    ignored = load(snapshot.project).ignored
    start = f"{origin}: "
    loosened = [line.removeprefix(start) for line in ignored if line.startswith(start)]
    if args.json:
        print_json(_as_json(snapshot, loosened))
    else:
        _show(snapshot, loosened, Style(sys.stdout, args.color))
    if not args.json and not args.yes and not confirmed("Trust these files, exactly as they are?"):
        print("Left as it was.")
        return NOT_DONE
    trust.trust(snapshot, store)
    if not args.json:
        print("Trusted, until one of these files changes. shelltie trust --revoke ends it.")
    return 0


def _show(snapshot: Snapshot, loosened: list[str], ink: Style) -> None:
    print(ink("bold", visible_text.inline(str(snapshot.project))))
    for name, content in snapshot.files.items():
        print(f"  {visible_text.inline(name)}")
        for line in visible_text.lines(content.decode("utf-8", "surrogateescape"), width() - 2):
            print(f"  {line}")
    for line in loosened:
        print(marked(ink, "⚠", visible_text.inline(line), before="  "))
    if not loosened:
        print("  · nothing in the settings is held back; trusting changes nothing there")


def _as_json(snapshot: Snapshot, loosened: list[str]) -> dict[str, object]:
    return {
        "path": str(snapshot.project),
        "digest": snapshot.digest,
        "files": sorted(snapshot.files),
        "heldBack": loosened,
        "trusted": True,
    }
