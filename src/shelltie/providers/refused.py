"""Why a sandbox could not be made, and what to do about it."""

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

_NAMESPACES = ("new namespace", "uid map", "gid map", "unshare", "setting up uid", "No permissions")
_MOST = "user/max_user_namespaces"
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
    if any(mark in said for mark in _NAMESPACES):
        switched_off = "max_*_namespaces" in said or setting(_MOST) == "0"
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
