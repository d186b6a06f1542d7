"""What a sandboxed command gets to see: the options of bwrap that build it.

Nothing is there that is not listed: the system read-only, the workspace, private places for what is
thrown away, and of the home only toolchains. So a secret need not be known to be hidden.
"""

import os
from collections.abc import Iterable, Iterator, Mapping, Set
from contextlib import suppress
from pathlib import Path

from shelltie.frozen import frozen
from shelltie.providers.workspace import Git, git_of, obeyed

_SYSTEM = (
    *("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/opt", "/nix", "/gnu"),
    *("/etc", "/sys", "/var/lib/dpkg", "/var/lib/rpm", "/var/cache/fontconfig"),
)
# Readable for root, whom a sandbox of root still is.
_SECRET = (
    *("/etc/shadow", "/etc/shadow-", "/etc/gshadow", "/etc/gshadow-", "/etc/sudoers"),
    *("/etc/sudoers.d", "/etc/ssl/private", "/etc/ssh", "/etc/kubernetes", "/etc/rancher"),
    *("/etc/wireguard", "/etc/openvpn", "/etc/NetworkManager", "/etc/docker", "/etc/shelltie"),
    *("/sys/kernel/debug", "/sys/kernel/tracing", "/sys/firmware"),
)
# bwrap leaves /proc/sys writable for root: core_pattern alone would be a way out.
_PROC_READ = ("/proc/sys", "/proc/irq", "/proc/bus", "/proc/fs")
_PROC_HIDDEN = (
    "/proc/sysrq-trigger",
    "/proc/kcore",
    "/proc/kmsg",
    "/proc/keys",
    "/proc/timer_list",
)
_PRIVATE = ("/tmp", "/var/tmp")  # noqa: S108  inside, where they belong to nobody else
# Toolchains and what git must know; none of these holds what lets somebody in.
_HOME_READ = (
    *(".local/bin", ".local/lib", ".local/share/uv", ".local/share/pipx", ".local/share/mise"),
    *(".local/share/fnm", ".local/share/pnpm", ".cargo/bin", ".cargo/env", ".rustup", ".nvm"),
    *(".volta", ".pyenv", ".rbenv", ".rvm", ".nodenv", ".goenv", ".jenv", ".asdf", ".sdkman"),
    *(".deno", ".bun", "go", ".ghcup", ".opam", ".juliaup", ".dotnet", ".elan", ".swiftly"),
    *("miniconda3", "miniforge3", "mambaforge", "anaconda3", "bin"),
    *(".gitconfig", ".config/git/config", ".config/git/ignore", ".config/git/attributes"),
)
# Where programs keep what they can fetch or make again; thrown away with the sandbox.
_HOME_PRIVATE = (".cache", ".npm", ".yarn", ".local/state", ".cargo/registry", ".cargo/git")


@frozen
class SandboxPolicy:
    """What holds in every sandbox of a provider.

    `network` is `off`, `loopback` (a loopback of its own) or `on`. `hidden` are shelltie's own
    directories. What is written to /tmp is in memory, so it has a size.
    """

    home: Path
    network: str = "loopback"
    writable: tuple[Path, ...] = ()
    readable: tuple[Path, ...] = ()
    hidden: tuple[Path, ...] = ()
    path: str = ""
    idle: float = 300.0
    tmp_size: int = 1024 * 1024 * 1024


# Of younger versions; without them the sandbox is a little weaker, and still one.
OPTIONAL = ("--disable-userns", "--size")


def options(
    policy: SandboxPolicy, workspace: Path, needs: Mapping[str, str], lacking: Set[str]
) -> list[str]:
    """What to give to bwrap, without the program.

    `needs` has a source for each place inside; `lacking` are options that this bwrap does not know.
    """
    git = git_of(workspace)
    return [
        *(() if "--disable-userns" in lacking else ("--disable-userns",)),
        *("--unshare-user", "--unshare-pid", "--unshare-ipc", "--unshare-uts"),
        *("--unshare-cgroup-try", "--die-with-parent", "--as-pid-1", "--cap-drop", "ALL"),
        *("--hostname", "sandbox"),
        *(() if policy.network == "on" else ("--unshare-net",)),
        *_system(policy, sized="--size" not in lacking),
        *_home(policy, workspace),
        *_workspace(policy, workspace, git),
        *_hide(policy, workspace, git),
        *(word for place, source in needs.items() for word in ("--ro-bind", source, place)),
        *("--remount-ro", str(policy.home), "--remount-ro", "/"),
    ]


def visible(policy: SandboxPolicy, workspace: Path) -> tuple[str, ...]:
    """Where a command may have its directory."""
    ours = map(str, (workspace, *policy.writable, *policy.readable))
    return (*ours, *_PRIVATE, *_SYSTEM)


def _system(policy: SandboxPolicy, *, sized: bool) -> Iterator[str]:
    yield from ("--proc", "/proc", "--dev", "/dev")
    for place in filter(os.path.exists, _PROC_READ):
        yield from ("--ro-bind", place, place)
    for place in filter(os.path.exists, _PROC_HIDDEN):
        yield from ("--ro-bind", "/dev/null", place)
    for path in map(Path, _SYSTEM):
        yield from _shown(path)
    for path in map(Path, _SECRET):
        yield from _emptied(path)
    for place in _PRIVATE:
        yield from ("--size", str(policy.tmp_size)) if sized else ()
        yield from ("--perms", "1777", "--tmpfs", place)
    yield from ("--dir", "/run", "--symlink", "../run", "/var/run")
    names = Path(os.path.realpath("/etc/resolv.conf"))
    if policy.network == "on" and Path("/run") in names.parents:
        yield from _shown(names)


def _home(policy: SandboxPolicy, workspace: Path) -> Iterator[str]:
    home = policy.home
    yield from ("--tmpfs", str(home))
    for place in (*(home / name for name in _HOME_READ), *_programs(policy, workspace)):
        if _there(place):  # a link leads nowhere inside: what it means is shown instead
            yield from ("--ro-bind", os.path.realpath(place), str(place))
    for name in _HOME_PRIVATE:
        if not name.startswith(".cargo/") or (home / name).is_dir():
            yield from ("--tmpfs", str(home / name))


def _programs(policy: SandboxPolicy, workspace: Path) -> Iterator[Path]:
    """Directories of PATH that nobody has listed, with the virtual environment around them."""
    known = (*map(Path, _SYSTEM), *(policy.home / name for name in _HOME_READ))
    for entry in filter(None, policy.path.split(":")):
        place = Path(entry)
        if _there(place.parent / "pyvenv.cfg"):
            place = place.parent
        covered = any(one == place or one in place.parents for one in known)
        wide = place == policy.home or place in (*policy.home.parents, *workspace.parents)
        if place.is_absolute() and not covered and not wide:
            yield place


def _workspace(policy: SandboxPolicy, workspace: Path, git: Git) -> Iterator[str]:
    for place in policy.readable:
        yield from _shown(place)
    for place in (workspace, *policy.writable, *git.writable):
        # Each is a mount of its own, so that it cannot be renamed to make another in its place.
        yield from ("--bind", str(place), str(place))
    for place in (*git.kept, *obeyed(workspace)):
        yield from ("--ro-bind", str(place), str(place))


def _hide(policy: SandboxPolicy, workspace: Path, git: Git) -> Iterator[str]:
    """Our own directories, wherever they would be seen: with our socket a command could say yes."""
    seen = (workspace, *policy.writable, *policy.readable, *git.writable, *map(Path, _SYSTEM))
    for place in policy.hidden:
        if any(one in place.parents for one in seen):
            yield from _emptied(place)


def _there(place: Path) -> bool:
    """What we may not even look for is not there."""
    with suppress(OSError):
        return place.exists()
    return False


def _shown(place: Path) -> Iterable[str]:
    """Read-only, a link as a link; nothing if it is not there."""
    if place.is_symlink():
        return ("--symlink", str(place.readlink()), str(place))
    return ("--ro-bind", str(place), str(place)) if _there(place) else ()


def _emptied(place: Path) -> Iterable[str]:
    if place.is_symlink() or not _there(place):
        return ()
    if place.is_dir():
        return ("--tmpfs", str(place), "--remount-ro", str(place))
    return ("--ro-bind", "/dev/null", str(place))
