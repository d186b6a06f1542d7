"""`python -m benchmarks.adapters [EXTRA…]`: executors of agent frameworks, theirs and ours.

Each framework in its environment of scripts/test-adapters, each probe in a process of its own; both
sides one after the other. With --write the table goes into docs/adapters.md.
"""

import argparse
import json
import os
import platform
import secrets
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import psutil

from benchmarks.adapter_probe import EXECUTORS, LIMIT, PROBES, alive

ROOT = Path(__file__).parent.parent
_PAGE = ROOT / "docs" / "adapters.md"
_BEGIN = "<!-- written by python -m benchmarks.adapters --write -->"
_END = "<!-- end of what is written -->"
_BLOCKED = 25.0  # seconds, after which a probe with a limit of 3 is not waited for
_LONG = 180.0
_HEADER = (
    "framework",
    "",
    "a command, p50",
    "child holds the pipe",
    f"limit of {LIMIT:.0f} s: returned",
    "left alive",
    "200 MB: memory",
    "cancelled: left alive",
    "50 at once",
)


def main() -> int:
    """Print the table; the exit code."""
    parser = argparse.ArgumentParser(prog="benchmarks.adapters", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="EXTRA", help=", ".join(EXECUTORS))
    parser.add_argument("--write", action="store_true", help="put the table into the page, too")
    parser.add_argument("--verbose", action="store_true", help="say what each probe answered")
    args = parser.parse_args()
    if unknown := set(args.names) - set(EXECUTORS):
        parser.error(f"no such framework here: {', '.join(sorted(unknown))}")
    names = args.names or list(EXECUTORS)
    if missing := [name for name in names if not _python(name).exists()]:
        parser.error(f"not installed: run scripts/test-adapters {' '.join(missing)}")
    load = os.getloadavg()[0]
    rows = [row for name in names for row in _rows(name, verbose=args.verbose)]
    text = _page(rows, load)
    print(text)
    if args.write:
        before, _, rest = _PAGE.read_text(encoding="utf-8").partition(_BEGIN)
        _, _, after = rest.partition(_END)
        _PAGE.write_text(f"{before}{_BEGIN}\n\n{text}\n\n{_END}{after}", encoding="utf-8")
    return 0


def _python(extra: str) -> Path:
    return ROOT / ".venv-adapters" / extra / "bin" / "python"


def _rows(extra: str, *, verbose: bool) -> list[Sequence[str]]:
    print(f"measuring {extra} …", file=sys.stderr)
    found: dict[tuple[str, str], dict[str, Any]] = {}
    for probe in PROBES:
        for side in ("both",) if probe == "command" else ("theirs", "ours"):
            found[probe, side] = _probe(extra, side, probe)
            if verbose:
                print(f"  {probe}, {side}: {found[probe, side]}", file=sys.stderr)
    names = {"theirs": f"{extra} {_version(extra)}", "ours": ""}
    return [
        (
            names[side],
            side,
            f"{found['command', 'both'][side]:.1f} ms",
            _seconds(found["held", side]),
            _seconds(found["tree", side]),
            str(found["tree", side]["left"]),
            f"{found['flood', side]['grown'] / 1e6:.0f} MB",
            _left(found["cancel", side]),
            f"{found['many', side]['seconds'] * 1000:.0f} ms",
        )
        for side in ("theirs", "ours")
    ]


def _probe(extra: str, side: str, probe: str) -> dict[str, Any]:
    tag = str(secrets.randbelow(9 * 10**11) + 10**11)
    limit = _BLOCKED if probe in ("held", "tree") else _LONG
    words = [str(_python(extra)), "-m", "benchmarks.adapter_probe", extra, side, probe, tag]
    with tempfile.TemporaryDirectory() as state:
        variables = {**os.environ, "XDG_STATE_HOME": state}
        process = subprocess.Popen(
            words, cwd=ROOT, env=variables, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        )
        try:
            printed, _ = process.communicate(timeout=limit)
            return dict(json.loads(printed.splitlines()[-1]))
        except subprocess.TimeoutExpired:
            return {"blocked": True, "seconds": limit - LIMIT, "left": alive(tag), "grown": 0}
        finally:
            process.kill()
            process.wait()
            _end_tagged(tag)


def _end_tagged(tag: str) -> None:
    for process in psutil.process_iter(["cmdline"]):
        if any(tag in word for word in process.info["cmdline"] or []):
            process.kill()


def _seconds(found: dict[str, Any]) -> str:
    text = f"{found['seconds']:.1f} s"
    if found.get("blocked"):
        return f"blocked over {found['seconds']:.0f} s"
    return text if found.get("well", True) else f"{text}, an error"


def _left(found: dict[str, Any]) -> str:
    if found.get("left") is None and not found.get("blocked"):
        return "cannot be"
    return str(found["left"])


def _version(extra: str) -> str:
    code = f"""
import importlib.metadata as metadata
for name in ({extra!r}, {extra + "-slim"!r}):
    try:
        print(metadata.version(name))
        break
    except metadata.PackageNotFoundError:
        pass
"""
    ran = subprocess.run([_python(extra), "-c", code], check=True, capture_output=True, text=True)
    return ran.stdout.strip()


def _page(rows: list[Sequence[str]], load: float) -> str:
    lines = [_HEADER, ["---"] * len(_HEADER), *rows]
    table = "\n".join(f"| {' | '.join(cells)} |" for cells in lines)
    machine = f"{platform.system()} {platform.release()}, {os.cpu_count()} cores"
    python = f"Python {platform.python_version()}"
    return f"{python}, {machine}, load {load:.1f} at the beginning\n\n{table}"


if __name__ == "__main__":
    sys.exit(main())
