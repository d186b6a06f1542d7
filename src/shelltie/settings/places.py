"""Places in settings: where commands can run beside this machine (ssh, Kubernetes, Ray). Pure.

A place is a table of a file, `[places.NAME]`, with a `kind`. Each kind has a record here whose
fields are the keys of the table; the engine of that kind is given the record.
"""

import re
from collections.abc import Mapping
from dataclasses import field
from typing import Any, ClassVar

from shelltie.basics.frozen import fields, frozen
from shelltie.basics.validate import did_you_mean
from shelltie.errors import ConfigWrong
from shelltie.model import Isolation
from shelltie.settings import checks
from shelltie.settings.all_settings import setting

RESERVED = ("local", "bubblewrap", "container", "staying")  # these are providers already
_NAME = re.compile(r"[a-z0-9][a-z0-9-]{0,30}")
_MIB = 1024 * 1024


def _table() -> Any:  # noqa: ANN401  a dataclass field is typed by its annotation
    """Names with texts."""
    return field(default_factory=dict, metadata={"check": checks.table})


@frozen
class PlaceRules:
    """Which of the places `[places.NAME]` commands may run in."""

    demand: tuple[str, ...] = ()
    """Places where commands must run: one of these, the first unless a call names another. Empty:
    they run here unless a call names a place.
    """
    forbid: tuple[str, ...] = setting((), project=checks.more)
    """Places where no command may run; "*" is every one."""


@frozen
class Place:
    """What every place has."""

    kind: ClassVar[str]
    required: ClassVar[tuple[str, ...]] = ()
    isolation: ClassVar[Isolation] = Isolation.NONE  # what it keeps commands from, at its level

    directory: str = setting("", checks.absolute)
    """Where commands run there, unless a call says so. Not set: the home directory there."""
    shell: str = setting("", checks.absolute)
    """The shell that runs commands there. Not set: bash, or sh where there is none."""
    lease: float = setting(60.0, checks.lease)
    """Seconds for which what runs there goes on when no server speaks with it; then it is ended."""
    output: int = setting(4 * _MIB, checks.stay_output)
    """How many bytes of each stream are kept there while the connection is lost."""
    commands: int = setting(100, checks.count, key="max")
    """How many commands may run there at a time, from one server."""


@frozen
class SshPlace(Place):
    """A machine with an SSH server. What is not set here, the user's SSH configuration says."""

    kind: ClassVar[str] = "ssh"
    required: ClassVar[tuple[str, ...]] = ("host",)

    host: str = ""
    """The machine: a name of your SSH configuration, or of the network."""
    user: str = ""
    """Who to log in as."""
    port: int = setting(0, checks.port)
    """Where its server listens."""
    identity: str = ""
    """File of the private key to show. Not set: those of your SSH configuration and agent."""
    known_hosts: str = ""
    """File of host keys. Not set: yours, and the machine's."""
    config: str = ""
    """SSH configuration to read. Not set: ~/.ssh/config."""
    keeper: str = setting("auto", checks.keeper)
    """Which keeper runs there: the C program if there is one for its processor (auto), or this."""


@frozen
class KubernetesPlace(Place):
    """A namespace of a Kubernetes cluster: each command has a pod."""

    kind: ClassVar[str] = "kubernetes"
    required: ClassVar[tuple[str, ...]] = ("image",)
    isolation: ClassVar[Isolation] = Isolation.CONTAINER

    image: str = ""
    """The image of the pods; it needs a shell."""
    context: str = ""
    """Context of the kubeconfig. Not set: the current one."""
    kubeconfig: str = ""
    """The kubeconfig file. Not set: $KUBECONFIG, ~/.kube/config, or the pod that shelltie is in."""
    namespace: str = ""
    """Where the pods are made. Not set: the namespace of the context."""
    pool: int = 0
    """How many pods are kept ready."""
    cpus: float = setting(0.0, checks.cpus)
    """CPUs that a pod requests and may use; 0 is no limit."""
    memory: int = setting(0, checks.memory)
    """Bytes of memory that a pod requests and may use; 0 is no limit."""
    runtime_class: str = ""
    """RuntimeClass of the pods, such as gvisor or kata."""
    service_account: str = ""
    """ServiceAccount whose token the pods get. Not set: none is mounted."""
    deadline: float = setting(86400.0, checks.number)
    """Seconds after which the cluster ends a pod whatever happens, the last line of defence; 0 is
    never.
    """
    start_within: float = setting(60.0, checks.number)
    """Seconds that a pod may take until it runs; the pull of its image counts."""
    node_within: float = setting(5.0, checks.number)
    """Seconds to wait for a node with room. More, where the cluster adds nodes by itself."""
    node_selector: Mapping[str, str] = _table()
    """Labels that a node must have."""
    labels: Mapping[str, str] = _table()
    """Labels for the pods."""
    template: str = ""
    """File with a pod, in YAML or JSON, into which all of this is put."""


@frozen
class RayPlace(Place):
    """A Ray cluster: each command has a detached actor."""

    kind: ClassVar[str] = "ray"

    address: str = "auto"
    """Address of the cluster, as for ray.init()."""
    namespace: str = "shelltie"
    """Namespace of the actors."""
    pool: int = 0
    """How many actors are kept ready, each with what the place reserves: to start one takes Ray a
    second.
    """
    python: str = ""
    """A Python that has the cluster's Ray. Not set: the one that shelltie runs on."""
    cpus: float = setting(1.0, checks.number)
    """CPUs that an actor reserves."""
    gpus: float = setting(0.0, checks.number)
    """GPUs that an actor reserves."""
    memory: int = 0
    """Bytes of memory that an actor reserves; 0 is none."""
    resources: Mapping[str, str] = _table()
    """Other resources that an actor reserves, each with a number."""


KINDS: Mapping[str, type[Place]] = {one.kind: one for one in (SshPlace, KubernetesPlace, RayPlace)}


def read_places(tree: object, origin: str) -> dict[str, Place]:
    """The places of a file.

    Raises: ConfigWrong, which names the key and what it may be.
    """
    if not isinstance(tree, dict):
        raise ConfigWrong(f"{origin}: places must be tables: [places.NAME], with a kind")
    return {name: _place(name, keys, f"{origin}: places.{name}") for name, keys in tree.items()}


def _place(name: str, given: object, origin: str) -> Place:
    if not _NAME.fullmatch(name) or name in RESERVED:
        raise ConfigWrong(
            f"{origin}: the name of a place has lower-case letters, digits and hyphens, 31 at most,"
            f" and is none of {', '.join(RESERVED)}"
        )
    if not isinstance(given, dict):
        raise ConfigWrong(f"{origin} must be a table: [places.{name}], with a kind")
    keys = dict(given)
    kind = keys.pop("kind", None)
    if not isinstance(kind, str) or kind not in KINDS:
        said = "is missing" if kind is None else f"cannot be {kind!r}"
        raise ConfigWrong(f"{origin}.kind {said}: it is one of {', '.join(KINDS)}")
    made: Any = KINDS[kind]
    values = _values(made, keys, origin)
    for key in made.required:
        if not values.get(key):
            raise ConfigWrong(f"{origin}: {key} is missing: a place of kind {kind} needs it")
    place: Place = made(**values)
    return place


def _values(kind: type[Place], given: Mapping[str, object], origin: str) -> dict[str, object]:
    """By field, each as it is checked."""
    known = {f.metadata.get("key", f.name): f for f in fields(kind)}
    values: dict[str, object] = {}
    for key, value in given.items():
        if key not in known:
            advice = did_you_mean(key, known) or f"; known: {', '.join(known)}"
            raise ConfigWrong(f"{origin}: {kind.kind} has no key {key}{advice}")
        try:
            values[known[key].name] = checks.for_field(known[key])(value)
        except ValueError as error:
            raise ConfigWrong(f"{origin}.{key}: {error}") from error
    return values
