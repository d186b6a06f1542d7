"""Fuzzes what is rated safe, with real bash: `python -m benchmarks.fuzz_safe [MINUTES] [--seed N]`.

Texts are made of ways in which something was once wrongly called safe (`benchmarks.safe_texts`).
Each that is rated safe runs twice: enforced, in a read-only view, and as it is. Enforced it must
have no effect; an effect that it has else is a defect of a rule, and is told. An effect is a file
that was made, changed or deleted, or a canary in what was printed.

All of it, the judging too, happens in a jail of bubblewrap: nothing but directories in memory can
be written, there is no network, and root becomes somebody who owns nothing.
"""

import argparse
import json
import os
import random
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path

import anyio

from benchmarks import hostile_project
from benchmarks.safe_texts import texts
from shelltie import Config, Terminal
from shelltie.errors import TerminalError
from shelltie.model import Command
from shelltie.verdict import Rating

_INSIDE = "--inside"
_NOBODY = "64999"  # whom nothing belongs to
_HOME = hostile_project.HOME
_TOLD_EVERY = 60.0  # seconds
_PATIENCE = 5.0  # seconds for one command
_SETTINGS = {
    "state_dir": "/tmp/state",
    "audit_enabled": False,
    "safety_profiles_run_unknown": "deny",
    "safety_profiles_run_dangerous": "deny",
}


def main() -> int:
    """Print each effect as a line of JSON, and in the end what was counted."""
    parser = argparse.ArgumentParser(prog="benchmarks.fuzz_safe", description=__doc__)
    parser.add_argument("minutes", nargs="?", type=float, default=10.0, metavar="MINUTES")
    parser.add_argument("--seed", type=int, default=int(time.time()), help="to do it again")
    parser.add_argument(_INSIDE, action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if not args.inside:
        return subprocess.run([*_jailed(args.minutes, args.seed)], check=False).returncode
    counts = anyio.run(_fuzz, args.minutes * 60, args.seed)
    print(json.dumps({"seed": args.seed, **counts}), flush=True)
    return int(counts["effects, enforced"] > 0)


def _jailed(minutes: float, seed: int) -> Iterator[str]:
    """This program, in the jail."""
    python, here = Path(sys.executable), Path(__file__).resolve().parent.parent
    yield from ("bwrap", "--unshare-net", "--unshare-ipc", "--unshare-uts", "--die-with-parent")
    # A fresh /proc would be covered in part, and then no view could be made in here.
    yield from ("--new-session", "--ro-bind", "/", "/", "--dev", "/dev", "--bind", "/proc", "/proc")
    for empty in ("/tmp", "/run", "/root", "/home"):
        yield from ("--perms", "0777", "--tmpfs", empty)
    for needed in (here, Path(sys.base_prefix), python.parent.parent):
        for above in reversed(needed.parents[:-1]):
            yield from ("--perms", "0755", "--dir", str(above))
        yield from ("--ro-bind", str(needed), str(needed))
    yield from ("--chdir", str(here), "--")
    if os.geteuid() == 0:
        yield from ("setpriv", f"--reuid={_NOBODY}", f"--regid={_NOBODY}", "--clear-groups")
        yield "--no-new-privs"
    yield from ("env", "-i", f"HOME={_HOME}", "PATH=/usr/bin:/bin", "LANG=C.UTF-8")
    yield from (
        str(python),
        "-m",
        "benchmarks.fuzz_safe",
        str(minutes),
        "--seed",
        str(seed),
        _INSIDE,
    )


async def _fuzz(span: float, seed: int) -> Counter[str]:
    counts = Counter({"texts": 0, "safe": 0, "effects, enforced": 0, "effects, as it is": 0})
    deadline, told = time.monotonic() + span, time.monotonic()
    place = hostile_project.build()
    async with (
        Terminal(Config.of(safety_enforce="required", **_SETTINGS)) as enforced,
        Terminal(Config.of(safety_enforce="off", **_SETTINGS)) as plain,
    ):
        judge = plain.supervisor.admission.judge
        for text in texts(random.Random(seed)):
            if time.monotonic() > deadline:
                break
            counts["texts"] += 1
            verdict = await judge.judge(Command(text, cwd=str(place)))
            if verdict.rating is not Rating.SAFE:
                continue
            if verdict.needs:  # it runs outside of a view, and its program may keep a log
                counts["safe, but with needs"] += 1
                continue
            counts["safe"] += 1
            for name, terminal, canaries in (
                ("enforced", enforced, hostile_project.MASKED),
                ("as it is", plain, hostile_project.CANARIES),
            ):
                if effects := await _effects(terminal, text, canaries):
                    counts[f"effects, {name}"] += 1
                    print(json.dumps({"text": text, name: effects}), flush=True)
            if time.monotonic() - told > _TOLD_EVERY:
                told = time.monotonic()
                print(json.dumps(counts), file=sys.stderr, flush=True)
    return counts


async def _effects(terminal: Terminal, text: str, canaries: Sequence[str]) -> list[str]:
    """What it did beyond reading; afterwards the project is as it was."""
    before, printed = hostile_project.state(), ""
    with suppress(TerminalError):  # what the view has stopped is refused as unknown then
        result = await terminal.run(text, timeout=_PATIENCE)
        printed = result.stdout + result.stderr
    after = hostile_project.state()
    changed = sorted(path for path in {*before, *after} if before.get(path) != after.get(path))
    if changed:
        hostile_project.build()
    return changed + [canary for canary in canaries if canary in printed]


if __name__ == "__main__":
    sys.exit(main())
