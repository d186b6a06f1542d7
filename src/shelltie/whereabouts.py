"""Where the files of ours are: settings, what a person decided, records, sockets."""

import os
from collections.abc import Mapping
from pathlib import Path

RUNTIME = Path("/run/user")
SHARED = Path("/tmp")  # noqa: S108  what is found there is looked at before it is used


def system_file() -> Path:
    """The fleet's settings."""
    return Path("/etc/shelltie/config.toml")


def user_file(environ: Mapping[str, str] = os.environ) -> Path:
    """This person's settings."""
    return _xdg(environ, "XDG_CONFIG_HOME", ".config") / "config.toml"


def project_file(project: Path) -> Path:
    """The project's settings."""
    return project / ".shelltie.toml"


def trust_file(environ: Mapping[str, str] = os.environ) -> Path:
    """Which projects this person trusts."""
    return user_file(environ).with_name("trusted.toml")


def approved_file(environ: Mapping[str, str] = os.environ) -> Path:
    """Which commands this person has approved for good."""
    return user_file(environ).with_name("approved.toml")


def tokens_file(environ: Mapping[str, str] = os.environ) -> Path:
    """Who may use an HTTP server of this person's."""
    return user_file(environ).with_name("http-tokens")


def rules_dir(environ: Mapping[str, str] = os.environ) -> Path:
    """This person's own rules about programs."""
    return user_file(environ).with_name("rules")


def state_dir(environ: Mapping[str, str] = os.environ) -> Path:
    """Where output and records are kept, unless `state.dir` says otherwise."""
    return _xdg(environ, "XDG_STATE_HOME", ".local/state")


def runtime_dirs(environ: Mapping[str, str] = os.environ) -> tuple[Path, ...]:
    """Where the socket of a server may be, the best place first.

    A server that a desktop started knows the runtime directory; a shell over ssh or sudo may not.
    """
    user = str(os.geteuid())
    places = (
        Path(environ.get("XDG_RUNTIME_DIR") or RUNTIME / user) / "shelltie",
        RUNTIME / user / "shelltie",
        SHARED / f"shelltie-{user}",
        state_dir(environ) / "run",
    )
    return tuple(dict.fromkeys(place for place in places if place.is_absolute()))


def _xdg(environ: Mapping[str, str], name: str, fallback: str) -> Path:
    home = environ.get("HOME") or "/"
    return Path(environ.get(name) or Path(home) / fallback) / "shelltie"
