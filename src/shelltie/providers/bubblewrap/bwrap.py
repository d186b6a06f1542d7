"""The program bwrap: where it is, and why it refused.

Apart from the provider, of which a read-only view needs nothing else.
"""

import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from shelltie.errors import CannotStart
from shelltie.providers.bubblewrap.overlay import why_no_overlay
from shelltie.providers.policies import SandboxPolicy

PLACES = ("/usr/bin", "/bin", "/usr/local/bin", "/run/current-system/sw/bin", "/run/wrappers/bin")
_NAMESPACES = (
    "new namespace",
    "uid map",
    "gid map",
    "unshare",
    "setting up uid",
    "No permissions",
    "RTM_NEWADDR",
)
_USER_NAMESPACES = "user/max_user_namespaces"
_RAISE = "no more user namespaces may be made: sysctl -w user.max_user_namespaces=10000"
_IN_CONTAINER = (
    "it seems to run inside a container that forbids it: start that with"
    " --security-opt seccomp=unconfined --security-opt systempaths=unconfined"
)


def _setting(name: str) -> str:
    with suppress(OSError):
        return (Path("/proc/sys") / name).read_text(encoding="ascii").strip()
    return ""


def explain(said: str, setting: Callable[[str], str] = _setting) -> str:
    """What bwrap complained of, with a remedy where we know one."""
    last = said.splitlines()[-1].removeprefix("bwrap: ") if said else "it ended without a word"
    if last.startswith("overlay: mount: "):
        return why_no_overlay(last)
    if any(mark in said for mark in _NAMESPACES):
        switched_off = "max_*_namespaces" in said or setting(_USER_NAMESPACES) == "0"
        return f"{last}: {_RAISE if switched_off else _namespaces(setting)}"
    if "mount proc" in said or "Failed to make / slave" in said:
        return f"{last}: {_IN_CONTAINER}"
    return last


def _namespaces(setting: Callable[[str], str]) -> str:
    if setting("kernel/unprivileged_userns_clone") == "0":
        return "only root may make user namespaces: sysctl -w kernel.unprivileged_userns_clone=1"
    if setting("kernel/apparmor_restrict_unprivileged_userns") == "1":
        return (
            "AppArmor lets only listed programs make user namespaces: give /usr/bin/bwrap a profile"
            " that allows userns, or sysctl -w kernel.apparmor_restrict_unprivileged_userns=0"
        )
    return f"user namespaces are forbidden here; {_IN_CONTAINER}"


def find_bwrap(policy: SandboxPolicy) -> str:
    """The program, where no command can put another: of the system if possible.

    Raises: CannotStart.
    """
    if policy.settings.bwrap:
        return policy.settings.bwrap
    for place in (*PLACES, *policy.path.split(":")):
        program = Path(place) / "bwrap"
        if program.is_absolute() and os.access(program, os.X_OK):
            return str(program)
    raise CannotStart("bubblewrap is not installed: apt install bubblewrap, or its like")
