"""File locations (XDG directories): settings, state, journal, trust, sockets."""

import os
import pwd
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from shelltie.errors import ConfigWrong

RUNTIME = Path("/run/user")
SHARED = Path("/tmp")  # noqa: S108  what is found there is looked at before it is used

ONLY_RUNTIME = "SHELLTIE_RUNTIME_DIR"


def here() -> Path:
    """The directory we are in. One that was deleted has a name still, and no settings.

    Raises: OSError where even that is unknown.
    """
    try:
        return Path.cwd()
    except FileNotFoundError:
        return Path("/proc/self/cwd").readlink()


def is_deleted() -> bool:
    """Whether the directory we are in was deleted: nothing can be started there."""
    try:
        Path.cwd()
    except FileNotFoundError:
        return True
    return False


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


def approved_kinds_file(environ: Mapping[str, str] = os.environ) -> Path:
    """Kinds of commands that this person has allowed for a workspace."""
    return user_file(environ).with_name("approved-kinds.toml")


def rules_dir(environ: Mapping[str, str] = os.environ) -> Path:
    """This person's own rules about programs."""
    return user_file(environ).with_name("rules")


def state_dir(environ: Mapping[str, str] = os.environ) -> Path:
    """Where output and records are kept, unless `state.dir` says otherwise."""
    return _xdg(environ, "XDG_STATE_HOME", ".local/state")


def runtime_dirs(environ: Mapping[str, str] = os.environ) -> tuple[Path, ...]:
    """Where the socket of a server may be, the best place first.

    With SHELLTIE_RUNTIME_DIR it is there and nowhere else.

    Raises: ConfigWrong
    """
    if only := environ.get(ONLY_RUNTIME):
        if not Path(only).is_absolute():
            raise ConfigWrong(
                f"{ONLY_RUNTIME}: {only!r} is no absolute path; give one, or unset it"
            )
        return (Path(only),)
    return usual_runtime_dirs(environ)


def usual_runtime_dirs(environ: Mapping[str, str] = os.environ) -> tuple[Path, ...]:
    """Where sockets are unless a variable says otherwise.

    A server that a desktop started knows the runtime directory; a shell over ssh or sudo may not.
    """
    user = str(os.geteuid())
    places = (
        user_runtime_dir(environ) / "shelltie",
        RUNTIME / user / "shelltie",
        SHARED / f"shelltie-{user}",
        state_dir(environ) / "run",
    )
    return tuple(dict.fromkeys(places))


def user_runtime_dir(environ: Mapping[str, str] = os.environ) -> Path:
    """Where this person's servers of any kind have their sockets."""
    return _absolute(environ, "XDG_RUNTIME_DIR") or RUNTIME / str(os.geteuid())


def home_dir(environ: Mapping[str, str] = os.environ) -> Path:
    """This person's home: without HOME, as systemd starts programs, that of the password database.

    Raises: ConfigWrong if there is none: without this person's settings nothing may run.
    """
    if home := _absolute(environ, "HOME"):
        return home
    with suppress(KeyError):
        home = Path(pwd.getpwuid(os.geteuid()).pw_dir)
        if home.is_absolute():
            return home
    raise ConfigWrong(
        f"your settings cannot be found: HOME is no absolute path, and user {os.geteuid()} has no"
        " home in the password database; set HOME"
    )


def _xdg(environ: Mapping[str, str], name: str, fallback: str) -> Path:
    return (_absolute(environ, name) or home_dir(environ) / fallback) / "shelltie"


def _absolute(environ: Mapping[str, str], name: str) -> Path | None:
    """A directory that a variable names; a relative one is to be ignored, says the XDG standard."""
    path = Path(environ.get(name) or "")
    return path if path.is_absolute() else None
