"""Pods of a real cluster: keepers launched in them, reached, removed; what goes wrong, in words."""

import json
import os
from base64 import b64decode
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from functools import partial
from pathlib import Path
from secrets import token_hex
from typing import Any

import anyio
import pytest
from anyio import to_thread

from shelltie.errors import CannotStart, KeeperGone
from shelltie.keeper.protocol import Gone, LeashWord, Lost, Reachable, Unreachable
from shelltie.keeper.stream_protocol import StreamAsk, StreamSay
from shelltie.providers import contract
from shelltie.providers.places.engine import FarKeeper
from shelltie.providers.places.provider import PlaceProvider
from shelltie.settings.places import KubernetesPlace
from tests.place_commands import Seen
from tests.places.kubernetes_lab import KubernetesLab, kubernetes_lab
from tests.streams import StreamPeer
from tests.tree import new_tag, nobody_left, tagged

pytest.importorskip("lightkube", reason="pip install 'shelltie[kubernetes]'")
pytest.importorskip("wsproto", reason="pip install 'shelltie[kubernetes]'")

from shelltie.providers.places.kubernetes.engine import KubernetesEngine
from shelltie.providers.places.kubernetes.rights import rights

pytestmark = pytest.mark.timeout(600)
Make = Callable[..., AbstractAsyncContextManager[KubernetesEngine]]


@pytest.fixture(scope="module")
def lab() -> Iterator[KubernetesLab]:
    with kubernetes_lab() as made:
        yield made


@pytest.fixture
def namespace(lab: KubernetesLab) -> Iterator[str]:
    name = lab.namespace()
    yield name
    lab.kubectl("delete", "namespace", name, "--wait=false")


@pytest.fixture
def settings(lab: KubernetesLab, namespace: str) -> dict[str, Any]:
    return {
        "image": "lab.invalid/busybox:1",
        "kubeconfig": lab.kubeconfig,
        "namespace": namespace,
        "start_within": 120.0,
        "node_within": 2.0,
    }


@pytest.fixture
async def engine(settings: dict[str, Any]) -> AsyncIterator[KubernetesEngine]:
    async with open_engine(**settings) as made:
        yield made


@asynccontextmanager
async def open_engine(**settings: Any) -> AsyncIterator[KubernetesEngine]:  # noqa: ANN401  as in a file
    engine = KubernetesEngine("agents", KubernetesPlace(**settings))
    try:
        yield engine
    finally:
        await engine.close()


@asynccontextmanager
async def peer_of(engine: KubernetesEngine, keeper: FarKeeper) -> AsyncIterator[StreamPeer]:
    """Whoever holds a keeper. It blocks, and so is used in a thread: the loop carries its bytes."""
    peer = StreamPeer(await engine.open_stream(keeper), keeper.token)
    await to_thread.run_sync(lambda: peer.hello().said(StreamSay.WELCOME))
    try:
        yield peer
    finally:
        peer.close()


async def until(true: Callable[[], bool]) -> None:
    with anyio.fail_after(120):
        while not await to_thread.run_sync(true):
            await anyio.sleep(0.2)


async def output_of(engine: KubernetesEngine, keeper: FarKeeper, *argv: str) -> str:
    """What a command in its pod prints."""
    async with peer_of(engine, keeper) as peer:
        run = f"r{token_hex(4)}"
        await to_thread.run_sync(partial(peer.start, run, *argv, bound=8 * 1024 * 1024))
        _, printed = await to_thread.run_sync(peer.read_all, run)
        await to_thread.run_sync(peer.word, run, "gone")
        return printed.decode()


async def test_a_keeper_runs_in_a_pod_of_its_own_and_nothing_is_left_of_it(
    lab: KubernetesLab, namespace: str, settings: dict[str, Any]
) -> None:
    async with open_engine(**settings) as engine:
        first = await engine.launch("one", 60.0)
        second = await engine.launch("two", 60.0)

        assert first.where.startswith(f"pod one in {namespace} on node n")
        assert await output_of(engine, first, "hostname") == "one\n"
        assert await output_of(engine, second, "hostname") == "two\n"
        assert set(await engine.list()) == {"one", "two"}

        await engine.destroy(first)
        assert await engine.list() == ["two"]
        await engine.destroy(second)
        await engine.destroy(second)
    assert not lab.names(namespace)
    assert not lab.names(namespace, "leases")


async def test_much_output_comes_whole_through_exec(engine: KubernetesEngine) -> None:
    keeper = await engine.launch("much", 60.0)

    printed = await output_of(engine, keeper, "seq", "1", "300000")

    assert printed == "".join(f"{number}\n" for number in range(1, 300001))
    await engine.destroy(keeper)


async def test_what_is_typed_arrives_whole_through_exec(engine: KubernetesEngine) -> None:
    keeper = await engine.launch("typed", 60.0)
    data = bytes(range(256)) * 200

    async with peer_of(engine, keeper) as peer:
        await to_thread.run_sync(partial(peer.start, "w", "wc", "-c", streams="oi"))
        await to_thread.run_sync(partial(peer.ask, StreamAsk.INPUT, "w", 0, data=data))
        await to_thread.run_sync(partial(peer.ask, StreamAsk.CLOSE, "w", len(data)))
        _, printed = await to_thread.run_sync(peer.read_all, "w")

    assert int(printed) == len(data)
    await engine.destroy(keeper)


async def test_an_image_that_is_read_only_and_for_a_user_who_is_not_root_will_do(
    settings: dict[str, Any], tmp_path: Path
) -> None:
    template = tmp_path / "pod.yaml"
    template.write_text("""
apiVersion: apps/v1
kind: Deployment
spec:
  template:
    metadata: {labels: {team: blue}}
    spec:
      containers:
      - name: work
        env: [{name: GREETING, value: hello}]
        securityContext:
          {runAsNonRoot: true, readOnlyRootFilesystem: true, capabilities: {drop: [ALL]}}
""")
    changed = {**settings, "image": "lab.invalid/someone:1", "template": str(template)}
    async with open_engine(**changed, cpus=0.5, memory=64 * 1024 * 1024) as engine:
        keeper = await engine.launch("someone", 60.0)

        look = "id -u; touch /x 2>/dev/null || echo read-only; ls /var/run/secrets 2>&1 | tail -n 1"
        printed = await output_of(engine, keeper, "sh", "-c", look)

        assert printed.splitlines()[:2] == ["1000", "read-only"]
        assert "No such file" in printed.splitlines()[2]
        await engine.destroy(keeper)


async def test_the_keeper_in_python_is_put_where_the_other_does_not_run(
    settings: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from shelltie.providers.places import payload

    monkeypatch.setattr(payload, "_static_binaries", dict)
    template = tmp_path / "pod.yaml"
    template.write_text("""
kind: Pod
spec:
  volumes: [{name: usr, hostPath: {path: /usr}}]
  containers: [{volumeMounts: [{name: usr, mountPath: /usr, readOnly: true}]}]
""")
    full = {**settings, "image": "lab.invalid/full:1", "template": str(template)}
    async with open_engine(**full) as engine:
        keeper = await engine.launch("python", 60.0)

        assert await output_of(engine, keeper, "sh", "-c", "echo $((6 * 7))") == "42\n"
        await engine.destroy(keeper)
    async with open_engine(**settings) as engine:
        with pytest.raises(CannotStart, match=r"there is no keeper for Linux x86_64"):
            await engine.launch("neither", 60.0)


TROUBLES: dict[str, tuple[dict[str, Any], str]] = {
    "no such image": ({"image": "lab.invalid/absent:1"}, r"the image \S+ cannot be pulled"),
    "no name of an image": ({"image": "Bad:Name:1"}, r"cannot be pulled|couldn't parse image"),
    "no shell in it": ({"image": "lab.invalid/bare:1"}, r"has no sh"),
    "no such node": ({"node_selector": {"zone": "moon"}}, r"no node takes the pod: 0/2 nodes"),
    "no room": ({"memory": 2**50}, r"no node takes the pod: .*Insufficient memory"),
    "no such runtime": ({"runtime_class": "kata"}, r'RuntimeClass "kata" not found'),
    "no such account": ({"service_account": "ghost"}, r"serviceaccount.*ghost.*not found"),
    "no such namespace": ({"namespace": "moon"}, r'namespaces "moon" not found'),
    "bad label": ({"labels": {"a": "b c"}}, r"a valid label"),
}


@pytest.mark.parametrize("trouble", TROUBLES)
async def test_what_keeps_a_pod_from_starting_is_said_and_nothing_is_left(
    lab: KubernetesLab, namespace: str, settings: dict[str, Any], trouble: str
) -> None:
    change, words = TROUBLES[trouble]
    async with open_engine(**{**settings, **change}) as engine:
        with pytest.raises(CannotStart, match=words):
            await engine.launch("bad", 60.0)

    assert not lab.names(namespace)
    assert not lab.names(namespace, "leases")


async def test_a_quota_and_a_runtime_that_no_node_has_are_said(
    lab: KubernetesLab, namespace: str, settings: dict[str, Any]
) -> None:
    runtime = {
        "apiVersion": "node.k8s.io/v1",
        "kind": "RuntimeClass",
        "metadata": {"name": f"r-{namespace}"},
        "handler": "gone",
    }
    lab.kubectl("apply", "-f", "-", stdin=json.dumps(runtime))
    async with open_engine(**settings, runtime_class=f"r-{namespace}") as engine:
        with pytest.raises(CannotStart, match=r'no runtime for "gone"'):
            await engine.launch("no-handler", 60.0)
    lab.kubectl("delete", "runtimeclass", f"r-{namespace}")

    lab.kubectl("-n", namespace, "create", "quota", "few", "--hard=pods=0")
    counted = ("get", "quota", "few", "-o", "jsonpath={.status.hard.pods}")
    await until(lambda: lab.kubectl("-n", namespace, *counted) == "0")
    async with open_engine(**settings) as engine:
        with pytest.raises(CannotStart, match=r"exceeded quota: few"):
            await engine.launch("no-quota", 60.0)
    assert not lab.names(namespace)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"kubeconfig": "/nowhere"}, r"no kubeconfig that can be used .*/nowhere not found"),
        ({"context": "moon"}, r"no kubeconfig that can be used .*'moon' not found"),
        ({"template": "/nowhere.yaml"}, r"template /nowhere.yaml cannot be read"),
    ],
)
async def test_settings_that_lead_nowhere_are_said(
    settings: dict[str, Any], change: dict[str, str], words: str
) -> None:
    with pytest.raises(CannotStart, match=words):
        async with open_engine(**{**settings, **change}):
            pass


async def test_an_api_server_that_is_away_is_said(
    lab: KubernetesLab, settings: dict[str, Any], tmp_path: Path
) -> None:
    text = Path(lab.kubeconfig).read_text(encoding="utf-8")
    (tmp_path / "away").write_text(text.replace(":6443", ":1"), encoding="utf-8")

    async with open_engine(**{**settings, "kubeconfig": str(tmp_path / "away")}) as engine:
        with pytest.raises(CannotStart, match=r"the API server https://\S+:1 cannot be reached"):
            await engine.launch("away", 60.0)


async def test_a_pod_ends_by_itself_when_its_keepers_lease_is_over(
    lab: KubernetesLab, namespace: str, engine: KubernetesEngine
) -> None:
    keeper = await engine.launch("forgotten", 2.0)
    async with peer_of(engine, keeper) as peer:
        await to_thread.run_sync(peer.start, "s", "sh", "-c", "trap '' TERM HUP; sleep 1000")
        await to_thread.run_sync(peer.word, "s", "started")

    phase = ("get", "pod", "forgotten", "-o", "jsonpath={.status.phase}")
    await until(lambda: lab.kubectl("-n", namespace, *phase) == "Succeeded")
    with pytest.raises(KeeperGone, match=r"the pod is over"):
        await engine.open_stream(keeper)
    await engine.destroy(keeper)


async def test_a_pod_that_somebody_deleted_is_said_to_be_gone(
    lab: KubernetesLab, namespace: str, engine: KubernetesEngine
) -> None:
    keeper = await engine.launch("deleted", 60.0)
    lab.kubectl("-n", namespace, "delete", "pod", "deleted", "--grace-period=1")

    with pytest.raises(KeeperGone, match=r"pod deleted in \S+ .*: the pod was deleted"):
        await engine.open_stream(keeper)
    await engine.destroy(keeper)


async def test_the_cluster_ends_a_pod_at_its_deadline(settings: dict[str, Any]) -> None:
    async with open_engine(**settings, deadline=3.0) as engine:
        keeper = await engine.launch("late", 600.0)
        async with peer_of(engine, keeper) as peer:
            while await to_thread.run_sync(peer.receive):
                pass

        said = ""
        with anyio.fail_after(120):
            while not said:
                try:
                    (await engine.open_stream(keeper)).close()
                except KeeperGone as error:
                    said = str(error)
                except (OSError, CannotStart):
                    await anyio.sleep(0.2)
        assert "DeadlineExceeded" in said
        await engine.destroy(keeper)


async def test_another_server_takes_over_a_keeper_and_its_pod(
    lab: KubernetesLab, namespace: str, settings: dict[str, Any]
) -> None:
    async with open_engine(**settings) as first:
        keeper = await first.launch("moved", 300.0)
        async with peer_of(first, keeper) as peer:
            await to_thread.run_sync(peer.start, "s", "sh", "-c", "echo before; sleep 1000")
            await to_thread.run_sync(peer.word, "s", "started")

    async with open_engine(**settings) as second:
        async with peer_of(second, keeper) as peer:
            assert await to_thread.run_sync(peer.word, "s", "started")
        assert await second.list() == ["moved"]
        await second.destroy(keeper)
    assert not lab.names(namespace)


async def test_what_a_dead_server_left_is_swept_and_what_belongs_to_a_living_one_stays(
    lab: KubernetesLab, namespace: str, settings: dict[str, Any]
) -> None:
    async with AsyncExitStack() as engines:
        dead, living, sweeper = [
            await engines.enter_async_context(open_engine(**settings)) for _ in range(3)
        ]
        await dead.launch("left", 30.0)
        await dead.launch("held", 100000.0)
        await living.launch("kept", 30.0)
        # As it is ten minutes after its server was killed.
        dead._owner._beating.cancel()  # type: ignore[union-attr]
        old = json.dumps({"spec": {"renewTime": "2001-01-01T00:00:00.000000Z"}})
        kept_until = json.dumps({"metadata": {"annotations": {"shelltie/lease": "1e12"}}})
        lab.kubectl("-n", namespace, "patch", "pod", "held", "-p", kept_until)
        lab.kubectl("-n", namespace, "patch", "lease", dead._owner.name, "-p", old)

        assert set(await sweeper.list()) == {"left", "held"}
        assert await sweeper._owner.sweep() == ["left"]

        await until(lambda: lab.names(namespace) == {"held", "kept"})
        assert set(await living.list()) == {"kept", "held"}
        assert await sweeper._owner.sweep() == []


async def test_a_pool_has_pods_ready_and_leaves_none(
    lab: KubernetesLab, namespace: str, settings: dict[str, Any]
) -> None:
    async with open_engine(**settings, pool=2) as engine:
        engine._pool.fill()
        with anyio.fail_after(120):
            while engine._pool.ready < 2:
                await anyio.sleep(0.1)
        ready = lab.names(namespace)

        keeper = await engine.launch("warm", 60.0)

        assert keeper.where.split()[1] in ready
        assert await output_of(engine, keeper, "echo", "hi") == "hi\n"
        assert await engine.list() == ["warm"]
        lost = engine._pool._ready[0][0]
        lab.kubectl("-n", namespace, "delete", "pod", lost, "--grace-period=1")
        again = await engine.launch("again", 60.0)
        assert await output_of(engine, again, "echo", "hi") == "hi\n"
        await engine.destroy(keeper)
        await engine.destroy(again)
    assert not lab.names(namespace)


async def test_the_rights_that_are_printed_are_enough_and_no_more(
    lab: KubernetesLab, namespace: str, settings: dict[str, Any], tmp_path: Path
) -> None:
    lab.kubectl("apply", "-f", "-", stdin=rights("agents", KubernetesPlace(namespace=namespace)))

    def token() -> str:
        for one in json.loads(lab.kubectl("-n", namespace, "get", "secrets", "-o", "json"))[
            "items"
        ]:
            annotations = one["metadata"].get("annotations", {})
            if annotations.get("kubernetes.io/service-account.name") == "shelltie":
                return str(one["data"].get("token", ""))
        return ""

    await until(lambda: bool(token()))
    login = {"name": "shelltie", "user": {"tokenFile": str(tmp_path / "token")}}
    (tmp_path / "token").write_text(b64decode(token()).decode())
    config = Path(lab.kubeconfig).read_text(encoding="utf-8").splitlines()
    lines = [f"users: [{json.dumps(login)}]" if "users:" in line else line for line in config]
    (tmp_path / "config").write_text("\n".join(lines).replace("user: admin", "user: shelltie"))
    own = {**settings, "kubeconfig": str(tmp_path / "config")}

    async with open_engine(**own, pool=1) as engine:
        keeper = await engine.launch("least", 60.0)
        assert await output_of(engine, keeper, "echo", "hi") == "hi\n"
        assert await engine.list() == ["least"]
        assert await engine._owner.sweep() == []
        with pytest.raises(
            CannotStart, match=r"cannot list resource .secrets.*places apply agents"
        ):
            await engine._api.request("GET", engine._api.path("secrets"))
        await engine.destroy(keeper)
    assert not lab.names(namespace)
    async with open_engine(**{**own, "namespace": "default"}) as engine:
        with pytest.raises(CannotStart, match=r"cannot .*`shelltie places apply agents` prints"):
            await engine.launch("elsewhere", 60.0)


@asynccontextmanager
async def place(**settings: Any) -> AsyncIterator[PlaceProvider]:  # noqa: ANN401  as in a file
    where = KubernetesPlace(**settings)
    provider = PlaceProvider("agents", where, KubernetesEngine("agents", where))
    try:
        await provider.ready("/")
        yield provider
    finally:
        with anyio.CancelScope(shield=True):
            await provider.close()


@pytest.mark.parametrize("check", contract.CHECKS, ids=contract.name_of)
async def test_a_place_of_pods_keeps_the_contract(
    check: contract.ContractCheck,
    lab: KubernetesLab,
    settings: dict[str, Any],
    public_path: Path,
    tmp_path: Path,
) -> None:
    public_path.chmod(0o777)
    template = tmp_path / "pod.json"
    volumes = {"usr": "/usr", "work": str(public_path)}
    spec = {
        "volumes": [{"name": name, "hostPath": {"path": at}} for name, at in volumes.items()],
        "containers": [
            {"volumeMounts": [{"name": name, "mountPath": at} for name, at in volumes.items()]}
        ],
    }
    template.write_text(json.dumps({"kind": "Pod", "spec": spec}))
    full = {**settings, "image": "lab.invalid/full:1", "template": str(template)}
    where = KubernetesPlace(**full)

    await check(
        PlaceProvider("agents", where, KubernetesEngine("agents", where)),
        public_path,
    )

    assert not lab.names(settings["namespace"])


async def test_output_comes_once_and_in_order_whatever_dies_on_the_way(
    lab: KubernetesLab, settings: dict[str, Any]
) -> None:
    prints = "i=0; while [ $i -lt 1500 ]; do echo line $i; i=$((i+1)); sleep 0.02; done"
    async with place(**settings, lease=600.0) as provider:
        seen = Seen(provider, "sh", "-c", f"{prints}; cat; exit 7", stays_open=True)
        node = seen.process.where.split()[-1]
        faults = [
            (("kill", node, "kubelet"), ("start", node, "kubelet")),
            (("kill", node, "containerd"), ("start", node, "containerd")),
            (("cut", node), ("heal", node)),
        ]
        for number, (breaks, mends) in enumerate(faults, start=1):
            size = len(seen.printed)
            await seen.until(lambda size=size: len(seen.printed) > size)  # type: ignore[misc]
            await to_thread.run_sync(partial(lab.fault, *breaks))
            await seen.until(partial(heard, seen, Unreachable, number))
            if breaks[0] == "cut":
                await anyio.sleep(4.0)  # the loss took some, and this is how long the cut lasts
            await to_thread.run_sync(partial(lab.fault, *mends))
            await seen.until(partial(heard, seen, Reachable, number))
        assert seen.process.stdin is not None
        os.write(seen.process.stdin, b"typed\n")
        os.close(seen.process.stdin)
        await seen.over()

    assert seen.printed == b"".join(b"line %d\n" % n for n in range(1500)) + b"typed\n"
    assert seen.exit_code == 7
    assert heard(seen, Gone, 1)
    assert not heard(seen, Gone, 2)


def heard(seen: Seen, kind: type[LeashWord], times: int) -> bool:
    return sum(isinstance(word, kind) for word in seen.words) >= times


async def test_on_a_node_that_is_cut_off_nobody_outlives_the_lease(
    lab: KubernetesLab, namespace: str, settings: dict[str, Any]
) -> None:
    tag = new_tag()
    hides = f"trap '' TERM; (setsid sleep 300.{tag} &); sleep 300.{tag}"
    async with place(**settings, lease=6.0) as provider:
        seen = Seen(provider, "sh", "-c", hides)
        await seen.until(lambda: len(tagged(tag, "sleep")) == 2)
        node = seen.process.where.split()[-1]
        await to_thread.run_sync(partial(lab.fault, "cut", node))
        try:
            await nobody_left(tag)
            await seen.over()
        finally:
            await to_thread.run_sync(partial(lab.fault, "heal", node))

    assert seen.said(Lost)
    assert "has ended everything by now" in seen.notes
    await until(lambda: not lab.names(namespace))


async def test_a_keeper_that_was_killed_is_noticed_and_its_pod_removed(
    lab: KubernetesLab, namespace: str, settings: dict[str, Any]
) -> None:
    async with place(**settings) as provider:
        seen = Seen(provider, "sleep", "300")
        pod = seen.process.where.split()[1]
        words = ("exec", pod, "--", "sh", "-c", "kill -9 $(pidof shelltie-stay)")
        await to_thread.run_sync(lambda: lab.kubectl("-n", namespace, *words))
        await seen.over()
        await until(lambda: pod not in lab.names(namespace))

    assert seen.said(Lost)
