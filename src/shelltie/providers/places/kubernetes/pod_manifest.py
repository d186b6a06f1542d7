"""Manifest of a pod: the settings of a place, put into a template of the user's."""

import copy
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from shelltie.errors import CannotStart
from shelltie.providers.places.kubernetes.keeper_scripts import PLACE, watch_command
from shelltie.settings.places import KubernetesPlace

Json = dict[str, Any]
BELONGS = {"app.kubernetes.io/managed-by": "shelltie"}
PLACE_LABEL, OWNER_LABEL, KEEPER_LABEL = "shelltie/place", "shelltie/owner", "shelltie/keeper"
LEASE_ANNOTATION = "shelltie/lease"  # seconds: as long may it live when its server is dead


def read_template(place_name: str, place: KubernetesPlace) -> Json:
    """The pod in the user's file: a Pod, or what has one as its template. Empty without a file.

    Raises: CannotStart.
    """
    if not place.template:
        return {}
    path = Path(place.template).expanduser()
    try:
        found = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, yaml.YAMLError) as error:
        raise CannotStart(f"place {place_name}: template {path} cannot be read: {error}") from error
    if isinstance(found, dict) and found.get("kind") != "Pod":
        found = (found.get("spec") or found).get("template")
    spec = found.get("spec") if isinstance(found, dict) else None
    containers = spec.get("containers") if isinstance(spec, dict) else None
    if not isinstance(containers, list) or not all(isinstance(one, dict) for one in containers):
        raise CannotStart(
            f"place {place_name}: template {path} has no pod: it is one object of kind Pod, with"
            " spec.containers, whose first is where commands run"
        )
    return {"metadata": found.get("metadata") or {}, "spec": spec}


def manifest(
    place: KubernetesPlace, template: Json, name: str, labels: Mapping[str, str], patience: float
) -> Json:
    """A pod of that name, which waits `patience` seconds for its keeper."""
    pod = copy.deepcopy(template)
    metadata, spec = pod.setdefault("metadata", {}), pod.setdefault("spec", {})
    metadata["name"] = name
    metadata.pop("namespace", None)
    metadata["labels"] = {**metadata.get("labels", {}), **place.labels, **BELONGS, **labels}
    containers = spec.setdefault("containers", [])
    if not containers:
        containers.append({})
    _container(place, containers[0], patience)
    volumes = [one for one in spec.get("volumes", []) if one.get("name") != "shelltie"]
    spec["volumes"] = [*volumes, {"name": "shelltie", "emptyDir": {}}]
    spec["restartPolicy"] = "Never"
    spec.setdefault("terminationGracePeriodSeconds", 1)
    spec.setdefault("enableServiceLinks", False)
    spec.setdefault("securityContext", {}).setdefault("seccompProfile", {"type": "RuntimeDefault"})
    spec["automountServiceAccountToken"] = bool(place.service_account)
    if place.service_account:
        spec["serviceAccountName"] = place.service_account
    if place.runtime_class:
        spec["runtimeClassName"] = place.runtime_class
    if place.node_selector:
        spec["nodeSelector"] = {**spec.get("nodeSelector", {}), **place.node_selector}
    if place.deadline:
        spec["activeDeadlineSeconds"] = max(1, round(place.deadline))
    return {"apiVersion": "v1", "kind": "Pod", **pod}


def _container(place: KubernetesPlace, container: Json, patience: float) -> None:
    container.setdefault("name", "shelltie")
    container["image"] = place.image or container.get("image")
    container["command"] = watch_command(patience)
    container.pop("args", None)
    mounts = [one for one in container.get("volumeMounts", []) if one.get("mountPath") != PLACE]
    container["volumeMounts"] = [*mounts, {"name": "shelltie", "mountPath": PLACE}]
    # What could become root in there by a set-uid program could also leave its leash.
    container.setdefault("securityContext", {}).setdefault("allowPrivilegeEscalation", False)
    amounts = {}
    if place.cpus:
        amounts["cpu"] = f"{round(place.cpus * 1000)}m"
    if place.memory:
        amounts["memory"] = str(place.memory)
    if amounts:
        resources = container.setdefault("resources", {})
        for part in ("requests", "limits"):
            resources[part] = {**resources.get(part, {}), **amounts}
