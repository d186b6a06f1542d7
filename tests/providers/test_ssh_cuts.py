"""A host whose link is cut without a word, in a network namespace: every line once, in order.

`scripts/test-places` runs more rounds, and longer cuts (PLACES_ROUNDS).
"""

import os
import random
import signal
from collections.abc import Iterator

import anyio
import pytest

from shelltie.keeper.protocol import Gone, Reachable, Unreachable
from shelltie.providers.places.provider import PlaceProvider
from shelltie.providers.places.ssh import SshEngine
from tests.place_commands import Seen
from tests.ssh_server import FarSshd, far_sshd
from tests.tree import new_tag, nobody_left, until

ROUNDS = int(os.environ.get("PLACES_ROUNDS", "0"))
_COUNT = "i=0; while [ $i -lt {} ]; do echo $i; i=$((i+1)); sleep 0.01; done; exit 9"

pytestmark = [
    pytest.mark.needs("sshd", "ip"),
    pytest.mark.skipif(os.geteuid() != 0, reason="network namespaces need root"),
]


@pytest.fixture
def far() -> Iterator[FarSshd]:
    with far_sshd() as far:
        yield far


async def provider_at(far: FarSshd, **settings: object) -> PlaceProvider:
    """Once its sshd listens."""
    place = far.place(**settings)
    provider = PlaceProvider("far", place, SshEngine("far", place))
    with anyio.fail_after(60):
        while True:
            try:
                await provider.ready("/")
            except Exception:  # noqa: BLE001  it has just been started
                await anyio.sleep(0.1)
            else:
                return provider


async def test_a_link_that_is_cut_is_noticed_and_loses_nothing(far: FarSshd) -> None:
    lines = 900
    provider = await provider_at(far)
    try:
        seen = Seen(provider, "sh", "-c", _COUNT.format(lines))
        await seen.until(lambda: len(seen.printed) > 100)
        far.cut()
        await anyio.sleep(1)  # how long a cut takes is what is tested
        far.heal()
        far.cut()
        await seen.until(lambda: seen.said(Unreachable))
        far.heal()
        await seen.over()
    finally:
        await provider.close()

    assert seen.printed == b"".join(b"%d\n" % number for number in range(lines))
    assert seen.exit_code == 9
    assert seen.said(Reachable)


@pytest.mark.timeout(600)
async def test_a_host_that_is_cut_off_for_its_lease_has_ended_everything(far: FarSshd) -> None:
    tag = new_tag()
    provider = await provider_at(far, lease=3.0)
    try:
        seen = Seen(provider, "sh", "-c", f"trap '' TERM; echo on; setsid sleep 300.{tag}")
        await seen.until(lambda: b"on" in seen.printed)
        far.cut()
        await nobody_left(tag)
        far.heal()
        await until(lambda: not provider._fars[0].link.reachable or seen.said(Gone), 60)
        await seen.over()
    finally:
        await provider.close()

    assert seen.said(Gone) or "not there any more" in seen.notes


@pytest.mark.skipif(not ROUNDS, reason="scripts/test-places runs it")
@pytest.mark.timeout(3600)
async def test_faults_at_random_moments_lose_nothing(far: FarSshd) -> None:
    """Cuts of 1, 5 and 12 s, SIGKILL of sshd's sessions and of the keeper, one after the other."""
    chance = random.Random(19)
    provider = await provider_at(far)
    counts: dict[str, int] = {}
    try:
        for _ in range(ROUNDS):
            lines = chance.randrange(300, 900)
            fault = chance.choice(["cut 1", "cut 5", "cut 12", "sshd", "keeper"])
            counts[fault] = counts.get(fault, 0) + 1
            await provider.ready("/")
            seen = Seen(provider, "sh", "-c", _COUNT.format(lines))
            size = chance.randrange(1, 1000)
            await seen.until(lambda seen=seen, size=size: len(seen.printed) >= size)  # type: ignore[misc]
            if fault == "sshd":
                far.kill_sessions()
            elif fault == "keeper":
                os.kill(provider._fars[-1].link.keeper_pid, signal.SIGKILL)
            else:
                far.cut()
                await anyio.sleep(float(fault.split()[1]))
                far.heal()
            await seen.over()
            whole = b"".join(b"%d\n" % number for number in range(lines))
            if fault == "keeper":
                assert whole.startswith(seen.printed)
            else:
                assert (seen.printed, seen.exit_code) == (whole, 9)
    finally:
        await provider.close()
        print("rounds:", counts)  # noqa: T201  for whoever runs it by hand
