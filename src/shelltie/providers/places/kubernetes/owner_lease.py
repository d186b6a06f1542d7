"""Heartbeat of a server as a Lease object, and the sweep of pods whose server is dead.

Each pod has its owner's name as a label. A server that lives renews its Lease; whoever finds one
that was not renewed removes what belongs to it, once the keepers' own leases must be over, too.
All times are the API server's: the clocks of two servers may differ by more than a lease.
"""

import asyncio
import secrets
import socket
from collections.abc import Awaitable, Callable
from contextlib import suppress
from datetime import datetime

import anyio

from shelltie.errors import ApiRefusal, CannotStart
from shelltie.providers.places.kubernetes.api import MERGE_PATCH, Json, KubernetesApi
from shelltie.providers.places.kubernetes.pod_manifest import (
    BELONGS,
    KEEPER_LABEL,
    LEASE_ANNOTATION,
    OWNER_LABEL,
)
from shelltie.providers.places.kubernetes.pod_trouble import is_over

_GROUP = "apis/coordination.k8s.io/v1"
_RENEW = 20.0  # seconds
_DEAD_AFTER = 90.0  # seconds without a renewal
_SWEEP_EVERY = 15  # renewals
_OURS = {"labelSelector": ",".join(f"{key}={value}" for key, value in BELONGS.items())}


class OwnerLease:
    """That this server lives, for the others; and what those left that do not."""

    def __init__(self, api: KubernetesApi, remove: Callable[[str], Awaitable[None]]) -> None:
        self._api = api
        self._remove = remove  # a pod of that name
        self.name = f"shelltie-{secrets.token_hex(5)}"
        self._beating: asyncio.Task[None] | None = None
        self._scope = anyio.CancelScope()  # not Task.cancel, which interrupts requests, too
        self._beginning = anyio.Lock()

    async def begin(self) -> None:
        """Have it there, and renewed from now on. Raises: CannotStart."""
        async with self._beginning:
            if self._beating is None:
                await self._renew()
                self._beating = asyncio.get_running_loop().create_task(self._beat())

    async def living_and_dead(self) -> tuple[list[Json], list[tuple[Json, float]]]:
        """Our pods; and those of dead servers, with the seconds since theirs was heard of.

        Raises: CannotStart.
        """
        # Pods first: a server has its Lease before it has a pod.
        pods = await self._list("pods")
        heard = {one["metadata"]["name"]: _renewed(one) for one in await self._list("leases")}
        ours, dead = [], []
        for pod in pods:
            owner = pod["metadata"].get("labels", {}).get(OWNER_LABEL)
            at = heard.get(owner) or datetime.fromisoformat(pod["metadata"]["creationTimestamp"])
            silent = (self._api.now() - at).total_seconds()
            if owner == self.name:
                ours.append(pod)
            elif silent > _DEAD_AFTER:
                dead.append((pod, silent))
        return ours, dead

    async def sweep(self) -> list[str]:
        """Remove pods of dead servers that nobody comes back to, and old Leases; the pods' names.

        Raises: CannotStart.
        """
        _, dead = await self.living_and_dead()
        swept = []
        for pod, silent in dead:
            metadata = pod["metadata"]
            lease = float(metadata.get("annotations", {}).get(LEASE_ANNOTATION, 0))
            held = KEEPER_LABEL in metadata.get("labels", {}) and silent < lease + _DEAD_AFTER
            if is_over(pod) or not held:
                await self._remove(metadata["name"])
                swept.append(metadata["name"])
        kept = {pod["metadata"]["labels"][OWNER_LABEL] for pod, _ in dead} if not swept else None
        for one in await self._list("leases"):
            name = one["metadata"]["name"]
            silent = (self._api.now() - _renewed(one)).total_seconds()
            if kept is not None and name not in kept and silent > _DEAD_AFTER:
                await self._delete(name)
        return swept

    async def end(self, *, remove: bool) -> None:
        """Renew it no longer; `remove` it, where nothing of ours is left that needs an owner."""
        beating, self._beating = self._beating, None
        if beating is not None:
            self._scope.cancel()
            await asyncio.wait([beating])
            if remove:
                await self._delete(self.name)

    async def _beat(self) -> None:
        turn = 0
        with self._scope:
            while True:
                if turn % _SWEEP_EVERY == 0:
                    with suppress(CannotStart, LookupError, ValueError):  # and objects of strangers
                        await self.sweep()
                await anyio.sleep(_RENEW)
                with suppress(CannotStart):  # the API server is away: pods outlive that
                    await self._renew()
                turn += 1

    async def _renew(self) -> None:
        at = self._api.now().strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        spec = {"renewTime": at, "leaseDurationSeconds": round(_DEAD_AFTER)}
        path = self._api.path("leases", self.name, _GROUP)
        try:
            await self._api.request("PATCH", path, {"spec": spec}, content_type=MERGE_PATCH)
        except ApiRefusal as refusal:
            if refusal.status != 404:
                raise
            body = {
                "apiVersion": "coordination.k8s.io/v1",
                "kind": "Lease",
                "metadata": {"name": self.name, "labels": BELONGS},
                "spec": {**spec, "holderIdentity": socket.gethostname()},
            }
            await self._api.request("POST", self._api.path("leases", group=_GROUP), body)

    async def _list(self, kind: str) -> list[Json]:
        path = self._api.path(kind, group="api/v1" if kind == "pods" else _GROUP)
        found = await self._api.request("GET", path, params=_OURS)
        return list(found.get("items", []))

    async def _delete(self, name: str) -> None:
        with suppress(CannotStart):  # somebody else has, or else somebody will
            await self._api.request("DELETE", self._api.path("leases", name, _GROUP))


def _renewed(lease: Json) -> datetime:
    at = lease.get("spec", {}).get("renewTime") or lease["metadata"]["creationTimestamp"]
    return datetime.fromisoformat(at)
