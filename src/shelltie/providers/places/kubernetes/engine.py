"""KubernetesEngine: keepers in pods, one for each command; made, reached over exec, and removed."""

import socket
from collections.abc import Sequence
from contextlib import aclosing
from functools import partial

import anyio

from shelltie.errors import ApiRefusal, CannotStart, KeeperGone
from shelltie.providers.places.engine import FarKeeper
from shelltie.providers.places.kubernetes import keeper_scripts
from shelltie.providers.places.kubernetes.api import MERGE_PATCH, Json, KubernetesApi
from shelltie.providers.places.kubernetes.exec_stream import ExecStreams, run_in_pod
from shelltie.providers.places.kubernetes.owner_lease import OwnerLease
from shelltie.providers.places.kubernetes.pod_manifest import (
    KEEPER_LABEL,
    LEASE_ANNOTATION,
    OWNER_LABEL,
    PLACE_LABEL,
    manifest,
    read_template,
)
from shelltie.providers.places.kubernetes.pod_trouble import (
    ending,
    is_running,
    last_warning,
    trouble,
    unscheduled,
)
from shelltie.providers.places.kubernetes.pool import WAITS, PodPool
from shelltie.providers.places.payload import new_token
from shelltie.settings.places import KubernetesPlace

_KEEPER_STARTS_WITHIN = 30.0  # seconds, in a pod that runs
_GONE_WITHIN = 20.0  # seconds, a pod on a node that answers
_LOOK_AGAIN = 3  # seconds, at events: a pod's status does not tell everything
_WAITS_FOR_KEEPER = 120.0  # seconds; a pod whose server dies meanwhile ends by itself


class KubernetesEngine:
    """See `PlaceEngine`. Makes pods in one namespace, with the rights that `rights.py` prints."""

    kind = "kubernetes"
    shared = False

    def __init__(self, name: str, place: KubernetesPlace) -> None:
        """Raises: CannotStart, without a kubeconfig or a template that can be read."""
        self._name, self._place = name, place
        self._template = read_template(name, place)
        self._api = KubernetesApi(name, place)
        self._streams = ExecStreams(self._api)
        self._owner = OwnerLease(self._api, self._remove)
        self._pool = PodPool(place.pool, partial(self._start_pod, keeper=""), self._remove)
        self._pods: dict[str, str] = {}  # of each keeper of ours
        self._nodes: dict[str, str] = {}  # of each pod
        self._lost: set[str] = set()  # keepers that a bridge has not found

    async def launch(self, name: str, lease: float) -> FarKeeper:
        """See `PlaceEngine`: a pod that was kept ready, or else a fresh one."""
        await self._owner.begin()
        warm = self._pool.take()
        if warm is not None:
            try:
                return await self._claim(warm, name, lease)
            except CannotStart:  # its node is gone, or it was deleted: a fresh one tells more
                pass
        await self._start_pod(name, keeper=name, lease=lease)
        return await self._settle(name, name, lease)

    async def open_stream(self, keeper: FarKeeper) -> socket.socket:
        """See `PlaceEngine`: an exec of the keeper's bridge."""
        if keeper.name in self._lost:
            raise KeeperGone(f"{keeper.where}: its keeper has ended")

        def ended(code: int | None) -> None:
            if code == keeper_scripts.NO_KEEPER:
                self._lost.add(keeper.name)

        pod = self._pods.get(keeper.name) or await self._adopt(keeper)
        try:
            return await self._streams.open(pod, keeper_scripts.bridge_command(), ended)
        except ApiRefusal as refusal:
            if gone := await self._gone(pod):
                raise KeeperGone(f"{keeper.where}: {gone}") from refusal
            raise

    async def destroy(self, keeper: FarKeeper) -> None:
        """See `PlaceEngine`: its pod is deleted, with everybody in it."""
        self._lost.discard(keeper.name)
        pod = self._pods.pop(keeper.name, None)
        with anyio.move_on_after(_GONE_WITHIN, shield=True):
            while pod is None:
                try:
                    pod = await self._find(keeper.name)
                except CannotStart:
                    await anyio.sleep(1.0)
                    continue
                if pod is None:
                    return
        if pod is not None:
            await self._remove(pod)

    async def list(self) -> list[str]:
        """See `PlaceEngine`."""
        ours, dead = await self._owner.living_and_dead()
        labels = [pod["metadata"]["labels"] for pod in (*ours, *(pod for pod, _ in dead))]
        return [one[KEEPER_LABEL] for one in labels if KEEPER_LABEL in one]

    async def close(self) -> None:
        """See `PlaceEngine`."""
        with anyio.CancelScope(shield=True):
            await self._streams.close()
            await self._pool.close()
            await self._owner.end(remove=not self._pods)
            await self._api.close()

    # ---- Starting ----

    async def _start_pod(self, pod: str, *, keeper: str, lease: float = 0.0) -> None:
        """Make one, and wait until it runs. Raises: CannotStart, and then there is none."""
        labels = {PLACE_LABEL: self._name, OWNER_LABEL: self._owner.name}
        labels |= {KEEPER_LABEL: keeper} if keeper else {}
        waits = _WAITS_FOR_KEEPER if keeper else WAITS
        body = manifest(self._place, self._template, pod, labels, waits)
        body["metadata"].setdefault("annotations", {})[LEASE_ANNOTATION] = str(lease)
        try:
            await self._api.request("POST", self._api.path("pods"), body)
        except ApiRefusal:
            raise
        except BaseException:  # it may be there all the same: only its answer did not come
            await self._remove(pod)
            raise
        try:
            found = await self._running(pod)
        except BaseException:
            await self._remove(pod)
            raise
        self._nodes[pod] = found["spec"].get("nodeName", "?")

    async def _running(self, pod: str) -> Json:
        """The pod, once it runs. Raises: CannotStart, as soon as it is known why it will not."""
        began = anyio.current_time()
        problem = ""
        with anyio.move_on_after(self._place.start_within) as patience:
            while True:
                look = {"fieldSelector": f"metadata.name={pod}", "timeoutSeconds": str(_LOOK_AGAIN)}
                async with aclosing(self._api.watch(self._api.path("pods"), look)) as seen:
                    async for event, found in seen:
                        if is_running(found):
                            return found
                        if told := trouble(found):
                            raise CannotStart(f"{self._said(pod)} cannot start: {told}")
                        if event == "DELETED":
                            raise CannotStart(f"{self._said(pod)} was deleted before it ran")
                        problem = unscheduled(found)
                        within = self._place.node_within if problem else self._place.start_within
                        patience.deadline = began + within
                if told := last_warning(await self._events(pod), sandbox_only=True):
                    raise CannotStart(f"{self._said(pod)} cannot start: {told}")
        seconds = f"{anyio.current_time() - began:.0f} s"
        problem = problem or last_warning(await self._events(pod), sandbox_only=False)
        raise CannotStart(
            f"{self._said(pod)} does not run after {seconds}: {problem or 'nothing says why'}"
            f" (places.{self._name}.start_within and node_within say how long it may take)"
        )

    async def _claim(self, warm: str, keeper: str, lease: float) -> FarKeeper:
        """Have a pod of the pool for this keeper. Raises: CannotStart, and then it is gone."""
        mark = {
            "labels": {KEEPER_LABEL: keeper},
            "annotations": {LEASE_ANNOTATION: str(lease)},
        }
        try:
            await self._patch(warm, mark)
        except BaseException:
            await self._remove(warm)
            raise
        return await self._settle(warm, keeper, lease)

    async def _settle(self, pod: str, keeper: str, lease: float) -> FarKeeper:
        """Put a keeper into it. Raises: CannotStart, and then the pod is gone."""
        token = new_token()
        sent = False

        def reply(output: str) -> bytes:
            nonlocal sent
            typed = b"" if sent else keeper_scripts.put_reply(output, token)
            sent = sent or bool(typed)
            return typed

        problem, where = "it does not answer", self._said(pod)
        try:
            with anyio.move_on_after(_KEEPER_STARTS_WITHIN):
                command = keeper_scripts.put_command(lease)
                result = await run_in_pod(self._api, pod, command, reply)
                problem = keeper_scripts.put_complaint(result.output, result.complaints)
        except BaseException:
            await self._remove(pod)
            raise
        if problem:
            await self._remove(pod)
            raise CannotStart(f"{where} has no keeper: {problem}")
        self._pods[keeper] = pod
        return FarKeeper(name=keeper, token=token, where=where)

    def _said(self, pod: str) -> str:
        node = f" on node {self._nodes[pod]}" if pod in self._nodes else ""
        return f"pod {pod} in {self._api.namespace}{node}"

    # ---- What is there ----

    async def _adopt(self, keeper: FarKeeper) -> str:
        """The pod of a keeper that another server launched; ours from now on."""
        pod = await self._find(keeper.name)
        if pod is None:
            raise KeeperGone(f"{keeper.where} is gone")
        await self._owner.begin()
        await self._patch(pod, {"labels": {OWNER_LABEL: self._owner.name}})
        self._pods[keeper.name] = pod
        return pod

    async def _find(self, keeper: str) -> str | None:
        params = {"labelSelector": f"{KEEPER_LABEL}={keeper}"}
        found = await self._api.request("GET", self._api.path("pods"), params=params)
        names = [one["metadata"]["name"] for one in found.get("items", [])]
        return names[0] if names else None

    async def _gone(self, pod: str) -> str:
        """Why it is over; empty if it is not, or nobody can say. It may be reached again then."""
        try:
            return ending(await self._api.request("GET", self._api.path("pods", pod)))
        except ApiRefusal as refusal:
            return "the pod was deleted" if refusal.status == 404 else ""
        except CannotStart:
            return ""

    async def _events(self, pod: str) -> Sequence[Json]:
        params = {"fieldSelector": f"involvedObject.name={pod}"}
        try:
            found = await self._api.request("GET", self._api.path("events"), params=params)
        except CannotStart:  # then the reason is not told; the rest does not depend on it
            return []
        return tuple(found.get("items", []))

    async def _patch(self, pod: str, metadata: Json) -> None:
        await self._api.request(
            "PATCH", self._api.path("pods", pod), {"metadata": metadata}, content_type=MERGE_PATCH
        )

    # ---- Removing ----

    async def _remove(self, pod: str) -> None:
        """Delete it, and wait until its node says that nothing runs in it. Bounded; never raises.

        Then the object is removed at once: a kubelet may take a minute for that. Where the node is
        cut off it stays as Terminating, and goes when the node is back.
        """
        self._nodes.pop(pod, None)
        path = self._api.path("pods", pod)
        with anyio.move_on_after(_GONE_WITHIN, shield=True):
            there = True
            while there:
                try:
                    await self._api.request("DELETE", path, {"gracePeriodSeconds": 1})
                    there = await self._stopped(pod)
                    if there:
                        await self._api.request("DELETE", path, {"gracePeriodSeconds": 0})
                except CannotStart as error:
                    there = not (isinstance(error, ApiRefusal) and error.status == 404)
                    if there:  # the API server is away
                        await anyio.sleep(1.0)

    async def _stopped(self, pod: str) -> bool:
        """Wait until nothing runs in it; false if the object is gone, too. Raises: CannotStart."""
        while True:
            found = await self._api.request("GET", self._api.path("pods", pod))
            if not is_running(found):
                return True
            version = found["metadata"]["resourceVersion"]
            look = {"fieldSelector": f"metadata.name={pod}", "resourceVersion": version}
            async with aclosing(self._api.watch(self._api.path("pods"), look)) as seen:
                async for event, found in seen:
                    if event == "DELETED" or not is_running(found):
                        return event != "DELETED"
