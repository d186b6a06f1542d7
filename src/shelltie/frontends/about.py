"""Name, version and start command of this package."""

import shutil
import sys
from importlib import metadata
from pathlib import Path


def version() -> str:
    """Of the installed package."""
    try:
        return metadata.version("shelltie")
    except metadata.PackageNotFoundError:  # run from a source tree
        return "0+source"


def start_command() -> str:
    """What a client writes to start this very shelltie: its name where PATH leads to it, or a path.

    The environment of a checkout is replaced when its lock changes; `scripts/shelltie` stays.
    """
    own = Path(sys.argv[0]).absolute()
    found = shutil.which("shelltie")
    if found is not None and (own.name != "shelltie" or Path(found).resolve() == own.resolve()):
        return "shelltie"
    if own.name != "shelltie":
        return f"{sys.executable} -m shelltie"
    if own.parent.parent.parent.name == ".venv-run":
        return str(own.parents[3] / "scripts" / "shelltie")
    return str(own)


def start_argv() -> list[str]:
    """The same with an absolute path, as words: what starts a client may have another PATH."""
    own, found = Path(sys.argv[0]).absolute(), shutil.which("shelltie")
    words = start_command()
    if words == "shelltie":
        return [str(Path(found or own).absolute())]
    # -P: a client starts it in a project, whose own shelltie.py must not be what runs.
    return [sys.executable, "-P", "-m", "shelltie"] if own.name != "shelltie" else [words]


def shell_program() -> str:
    """The absolute path of `shelltie-sh`, which is installed beside `shelltie`."""
    found = shutil.which("shelltie-sh")
    beside = Path(start_argv()[0]).with_name("shelltie-sh")
    return str(beside if beside.exists() or found is None else Path(found).absolute())
