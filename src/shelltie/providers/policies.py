"""Sandbox and container policies: the settings, and what of this machine is ours.

Links are followed when this is made, so that no command can lead a later one elsewhere.
"""

import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import field
from pathlib import Path

import shelltie
from shelltie.basics.frozen import frozen
from shelltie.model import Bar
from shelltie.settings import paths
from shelltie.settings.all_settings import ContainerSettings, SandboxSettings
from shelltie.settings.config import Config

_UNIX = "unix://"


@frozen
class SandboxPolicy:
    """What holds in every sandbox of a provider.

    `hidden` are shelltie's own directories, of which those in `private` hold sockets and settings;
    `own` is its code. In `caches` is kept what sandboxes add to the user's caches, where they see
    those.
    """

    home: Path
    settings: SandboxSettings = SandboxSettings()
    writable: tuple[Path, ...] = ()
    readable: tuple[Path, ...] = ()
    hidden: tuple[Path, ...] = ()
    own: tuple[Path, ...] = ()
    path: str = ""
    private: tuple[Path, ...] = ()
    docker: str | None = None  # the socket of the engine that `docker` talks to
    caches: Path | None = None


@frozen
class ContainerPolicy:
    """What holds in every container of a provider.

    `engines` are sockets, the first that is there is used. `hidden` are shelltie's own directories,
    `own` is its code. `outside` are the variables of this machine; those that match `passed` are
    for commands there, too. `sandbox` says how long an unused one stays, and how large its `/tmp`
    is.
    """

    home: Path
    settings: ContainerSettings = ContainerSettings()
    sandbox: SandboxSettings = SandboxSettings()
    engines: tuple[str, ...] = ()
    hidden: tuple[Path, ...] = ()
    own: tuple[Path, ...] = ()
    outside: Mapping[str, str] = field(default_factory=dict)
    passed: tuple[str, ...] = ()
    shell: str = ""


def sandbox_policy(config: Config, environ: Mapping[str, str]) -> SandboxPolicy:
    """What holds in every sandbox here."""
    return SandboxPolicy(
        home=_home(environ),
        settings=config.sandbox,
        writable=_real(config.sandbox.writable),
        readable=_real(config.sandbox.readable),
        hidden=_own_places(config.state.dir, environ),
        own=_own_code(),
        path=environ.get("PATH", ""),
        private=_real(_private_places(environ)),
        docker=docker_socket(environ),
        caches=Path(config.state.dir) / "caches" if config.sandbox.caches == "shared" else None,
    )


def container_policy(config: Config, environ: Mapping[str, str], shell: str) -> ContainerPolicy:
    """What holds in every container here, where texts are run by that shell."""
    engine = config.container.engine
    return ContainerPolicy(
        home=_home(environ),
        settings=config.container,
        sandbox=config.sandbox,
        engines=(engine,) if engine else engines(environ),
        hidden=_own_places(config.state.dir, environ),
        own=_own_code(),
        outside=environ,
        passed=config.environment.passed,
        shell=shell,
    )


def bars_of(network: str) -> frozenset[Bar]:
    """What commands are kept from where the network is that."""
    without = {"on": {Bar.NETWORK, Bar.HOSTS}, "allow": {Bar.NETWORK}}
    return frozenset(Bar) - without.get(network, {Bar.HOSTS})


def engines(environ: Mapping[str, str]) -> tuple[str, ...]:
    """Where the socket of a container engine may be: one that is named, a user's own, root's."""
    named = environ.get("DOCKER_HOST") or environ.get("CONTAINER_HOST")
    if named:
        return (named,)
    own = paths.user_runtime_dir(environ)
    root = ("/var/run/docker.sock", "/run/podman/podman.sock")
    return (f"{own}/docker.sock", f"{own}/podman/podman.sock", *root)


def docker_socket(environ: Mapping[str, str]) -> str | None:
    """The socket that `docker` uses, if a variable does not lead it elsewhere."""
    named = environ.get("DOCKER_HOST", f"{_UNIX}/var/run/docker.sock")
    elsewhere = "DOCKER_CONTEXT" in environ or "DOCKER_CONFIG" in environ
    return None if elsewhere or not named.startswith(f"{_UNIX}/") else named.removeprefix(_UNIX)


def _home(environ: Mapping[str, str]) -> Path:
    return Path(os.path.realpath(paths.home_dir(environ)))


def _own_places(state: str, environ: Mapping[str, str]) -> tuple[Path, ...]:
    return _real((state, str(paths.state_dir(environ)), *_private_places(environ)))


def _private_places(environ: Mapping[str, str]) -> tuple[str, ...]:
    """Settings, and sockets: also those of other servers."""
    runtime = (*paths.runtime_dirs(environ), *paths.usual_runtime_dirs(environ))
    return (str(paths.user_file(environ).parent), *map(str, runtime))


def _own_code() -> tuple[Path, ...]:
    """What runs as shelltie: its package, and the environment with all that it imports."""
    package = os.path.dirname(os.path.realpath(shelltie.__file__))  # noqa: PTH120  of a text
    return Path(package), Path(os.path.realpath(sys.prefix))


def _real(places: Sequence[str]) -> tuple[Path, ...]:
    return tuple(Path(os.path.realpath(Path(place).expanduser())) for place in places if place)
