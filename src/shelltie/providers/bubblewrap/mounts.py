"""Mount options of bwrap: what a sandboxed command can see and write.

Nothing is there that is not listed: the system read-only, the workspace, private places for what is
thrown away, and of the home only toolchains. So a secret need not be known to be hidden.
"""

import os
import stat
from collections.abc import Iterable, Iterator, Mapping, Set
from contextlib import suppress
from dataclasses import field
from pathlib import Path

from shelltie.basics.frozen import mutable
from shelltie.errors import CannotStart
from shelltie.providers.bubblewrap.home import (
    CACHES,
    TOOLCHAINS,
    credentials,
    credentials_of,
    programs,
    with_includes,
    without_secrets,
)
from shelltie.providers.policies import SandboxPolicy
from shelltie.providers.workspace.boundaries import checked, within
from shelltie.providers.workspace.git import SETTINGS, linked, text_of
from shelltie.providers.workspace.guards import Guards, RememberedFiles, guards_of
from shelltie.providers.workspace.watched_names import UnguardedName

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
    *("/nix/var/nix/daemon-socket", "/nix/var/nix/gc-socket"),
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
_SOCKETS_MAX = 20_000
_HOSTNAME = "sandbox"
_HOSTS = Path("/etc/hosts")  # where Java, Erlang and others look for their own name
_PRIVATE = ("/tmp", "/var/tmp")  # noqa: S108  inside, where they belong to nobody else


# Of younger versions; without them the sandbox is a little weaker, and still one.
OPTIONAL = ("--disable-userns", "--size", "--bind-fd", "--ro-bind-fd", "--perms")


@mutable
class SandboxView:
    """A sandbox to be: the options for bwrap, without the program, and what they rest on."""

    policy: SandboxPolicy
    workspace: Path
    lacking: Set[str]
    # Where overlays are mounted, by what they stand for: then nothing real is written.
    overlays: Mapping[Path, Path] = field(default_factory=dict)
    caches: Mapping[Path, Path] = field(default_factory=dict)  # the same, of the user's caches
    held: RememberedFiles = field(default_factory=RememberedFiles)
    watched: tuple[UnguardedName, ...] = ()
    repositories: tuple[Path, ...] = ()
    guarded: frozenset[str] = frozenset()  # paths of the workspace
    options: list[str] = field(default_factory=list)

    def build(self, needs: Mapping[str, str]) -> None:
        """Look at everything and decide. `needs` has a source for each further place inside.

        Raises: CannotStart.
        """
        policy = self.policy
        guards = self._guards()
        self.watched, self.repositories = guards.watched, guards.repositories
        self.guarded = frozenset(guards.below(self.workspace))
        self.options = [
            *(() if "--disable-userns" in self.lacking else ("--disable-userns",)),
            *("--unshare-user", "--unshare-pid", "--unshare-ipc", "--unshare-uts"),
            *("--unshare-cgroup-try", "--die-with-parent", "--as-pid-1", "--cap-drop", "ALL"),
            *("--hostname", _HOSTNAME),
            *(() if policy.settings.network == "on" else ("--unshare-net",)),
            *self._system(),
            *self._home(),
            *self._workspace(guards),
            *self._hide(guards),
            *(word for place, source in needs.items() for word in ("--ro-bind", source, place)),
            *("--remount-ro", str(policy.home), "--remount-ro", "/"),
        ]

    def _guards(self) -> Guards:
        """What to guard: on overlays nothing, as it is looked at before it becomes real."""
        policy = self.policy
        if self.overlays:
            return Guards(self.roots, (), (), (), (), ())
        return guards_of(self.roots, policy.home, policy.hidden, policy.own)

    @property
    def roots(self) -> tuple[Path, ...]:
        """Where commands may write, and others read what they have written."""
        return (self.workspace, *self.policy.writable)

    def _system(self) -> Iterator[str]:
        yield from ("--proc", "/proc", "--dev", "/dev")
        yield from self._private("/dev/shm", "1777")  # noqa: S108  inside
        yield from ("--remount-ro", "/dev")
        for place in filter(os.path.exists, _PROC_READ):
            yield from ("--ro-bind", place, place)
        for place in filter(os.path.exists, _PROC_HIDDEN):
            yield from ("--ro-bind", "/dev/null", place)
        for path in map(Path, _SYSTEM):
            yield from _shown(path)
        closed = (path for place in ("/etc", "/usr/local/etc") for path in _closed(place))
        for path in (*map(Path, _SECRET), *closed):
            yield from self._emptied(path)
        if _HOSTS.is_file() and not _HOSTS.is_symlink():
            known = f"{text_of(_HOSTS).rstrip()}\n127.0.0.1 {_HOSTNAME}\n"
            yield from ("--ro-bind-data", str(self.held.content(known.encode())), str(_HOSTS))
        for place in _PRIVATE:
            yield from self._private(place, "1777")
        yield from ("--dir", "/run", "--symlink", "../run", "/var/run")
        names = Path(os.path.realpath("/etc/resolv.conf"))
        if self.policy.settings.network == "on" and Path("/run") in names.parents:
            yield from _shown(names)

    def _home(self) -> Iterator[str]:
        home = self.policy.home
        yield from self._private(str(home), "0755")
        toolchains = [place for name in TOOLCHAINS if _there(place := home / name)]
        for place in toolchains:  # a link leads nowhere inside: what it means is shown instead
            yield from ("--ro-bind", os.path.realpath(place), str(place))
        for place in (home / name for name in SETTINGS):
            if _there(place):
                settings = with_includes(text_of(place), place.parent, home, self.roots)
                shown = self.held.content(without_secrets(settings).encode())
                yield from ("--ro-bind-data", str(shown), str(place))
        yield from self._programs()
        for path in credentials(home, toolchains):
            yield from self._emptied(path)
        for name in CACHES:
            if not name.startswith(".cargo/") or (home / name).is_dir():
                yield from self._private(str(home / name), "0755")

    def _programs(self) -> Iterator[str]:
        home, hidden = self.policy.home, self.policy.hidden
        known = (*map(Path, _SYSTEM), *(home / name for name in TOOLCHAINS), self.workspace)
        wide = (home, *home.parents, *self.workspace.parents)
        wide = (*wide, *(parent for place in hidden for parent in (place, *place.parents)))
        for place in programs(self.policy.path, known, wide):
            with suppress(CannotStart):
                yield from self._bind(place, writable=False)
                for path in credentials_of(place):
                    yield from self._emptied(path)

    def _workspace(self, guards: Guards) -> Iterator[str]:
        for place in self.policy.readable:
            yield from _shown(place)
        for place, overlay in (*self.caches.items(), *self.overlays.items()):
            yield from ("--bind", str(overlay), str(place))
        if self.overlays:
            repository = self._linked_repository()
            yield from () if repository is None else _shown(repository)
            return
        for place in (*guards.writable, *guards.pinned):
            # Each is a mount of its own, so that it cannot be renamed to make another in its place.
            yield from self._bind(place, writable=True)
        for place in guards.kept:
            yield from self._bind(place, writable=False)
        self.held.note_all(guards)

    def _linked_repository(self) -> Path | None:
        """The repository of a work tree that is linked to one elsewhere: on trial only to read."""
        common = linked(self.workspace / ".git", within(self.roots))
        if common is not None:
            checked(str(common), self.policy.home, self.policy.hidden)
        return common

    def _hide(self, guards: Guards) -> Iterator[str]:
        """Our own directories, wherever they would be seen: with our socket one could say yes."""
        seen = (*guards.writable, *self.policy.readable, *map(Path, _SYSTEM))
        for place in self.policy.hidden:
            if any(top in place.parents for top in seen):
                yield from self._emptied(place)
        home = self.policy.home
        shown = within((*seen[len(guards.writable) :], *(home / name for name in TOOLCHAINS)))
        for place in filter(shown, bound_sockets()):
            if not within(guards.writable)(place):
                yield from self._emptied(place)

    def _bind(self, place: Path, *, writable: bool) -> Iterable[str]:
        descriptor = self.held.take(place)
        option = "--bind" if writable else "--ro-bind"
        if f"{option}-fd" in self.lacking:
            return (option, str(place), str(place))
        return (f"{option}-fd", str(descriptor), str(place))

    def _private(self, place: str, mode: str) -> Iterable[str]:
        sized = () if "--size" in self.lacking else ("--size", str(self.policy.settings.tmp_size))
        perms = () if "--perms" in self.lacking else ("--perms", mode)
        return (*sized, *perms, "--tmpfs", place)

    def _emptied(self, place: Path) -> Iterable[str]:
        self.held.note((place,))
        if place.is_symlink() or not _there(place):
            return ()
        if place.is_dir():
            return ("--tmpfs", str(place), "--remount-ro", str(place))
        return ("--ro-bind", "/dev/null", str(place))


def visible(policy: SandboxPolicy, workspace: Path) -> tuple[str, ...]:
    """Where a command may have its directory."""
    ours = map(str, (workspace, *policy.writable, *policy.readable))
    return (*ours, *_PRIVATE, *_SYSTEM)


def bound_sockets() -> Iterator[Path]:
    """Unix sockets that somebody listens on: to connect to one, to read it is enough."""
    for line in text_of(Path("/proc/net/unix")).splitlines()[1:_SOCKETS_MAX]:
        _, _, path = line.partition(" /")
        if path:
            place = Path(os.path.realpath(f"/{path}"))
            with suppress(OSError):
                if place.is_socket():
                    yield place


def _closed(place: str, depth: int = 8) -> Iterator[Path]:
    """What not everybody may read: a sandbox of root is still the owner of it."""
    if os.geteuid() != 0:
        return
    with suppress(OSError), os.scandir(place) as entries:
        for entry in entries:
            mode = entry.stat(follow_symlinks=False).st_mode
            if stat.S_ISLNK(mode) or entry.path in _SECRET:
                continue
            if not mode & stat.S_IROTH:
                yield Path(entry.path)
            elif stat.S_ISDIR(mode) and depth > 1:
                yield from _closed(entry.path, depth - 1)


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
