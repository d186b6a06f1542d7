"""Every provider keeps the contract that is published for those whom others write."""

import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from shelltie.keeper.stay_folder import StayFolder
from shelltie.providers import contract
from shelltie.providers.bubblewrap.provider import BubblewrapProvider
from shelltie.providers.container.provider import ContainerProvider
from shelltie.providers.local import LocalProvider
from shelltie.providers.policies import ContainerPolicy, SandboxPolicy
from shelltie.providers.provider import Provider
from shelltie.providers.staying import StayingProvider
from shelltie.settings.all_settings import ContainerSettings
from tests.containers import IMAGE
from tests.sandboxes import become_nobody

Make = Callable[[], Provider]


@pytest.fixture
def workspace() -> Iterator[Path]:
    """Anybody's."""
    with tempfile.TemporaryDirectory() as name:
        path = Path(name).resolve()
        path.chmod(0o777)
        yield path


@pytest.fixture(
    params=[
        *("local c", "local python", "staying c", "staying python", "container c"),
        *("bubblewrap c", "bubblewrap python", "bubblewrap as nobody"),
    ]
)
def make(
    request: pytest.FixtureRequest, public_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Make:
    """Every provider with both keepers."""
    place, _, keeper = request.param.partition(" ")
    if keeper != "python":
        request.getfixturevalue("current_binary")
    if place == "local":
        return lambda: LocalProvider(keeper)
    if place == "staying":
        folder = StayFolder(public_path / "stay")
        return lambda: StayingProvider(folder, keeper, lease=120, bound=1024 * 1024)
    if place == "container":
        engines = (str(request.getfixturevalue("engine").address),)
        settings = ContainerSettings(image=IMAGE, processes=0)
        boxed = ContainerPolicy(Path.home(), settings, engines=engines)
        return lambda: ContainerProvider(boxed)
    if keeper == "as nobody":
        become_nobody(public_path, monkeypatch)
        policy = SandboxPolicy(Path("/home/nobody"))
        return lambda: BubblewrapProvider(policy, "c")
    return lambda: BubblewrapProvider(SandboxPolicy(Path.home()), keeper)


@pytest.mark.needs("bwrap", "setpriv")
@pytest.mark.proves("S2-6", "S2-33")
@pytest.mark.parametrize("check", contract.CHECKS, ids=contract.name_of)
async def test_every_provider_keeps_the_contract(
    make: Make, check: contract.ContractCheck, workspace: Path
) -> None:
    await check(make(), workspace)
