"""A place that is ready is reserved for the command that comes next, and is not looked at again."""

import tempfile
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import anyio
import anyio.lowlevel
import pytest

from shelltie.model import Resources
from shelltie.providers.bubblewrap.provider import BubblewrapProvider
from shelltie.providers.container.provider import ContainerProvider
from shelltie.providers.contract import ObservedCommand
from shelltie.providers.policies import ContainerPolicy, SandboxPolicy
from shelltie.providers.provider import Prepared, Provider
from shelltie.providers.workspace.guards import RememberedFiles
from shelltie.settings.all_settings import ContainerSettings, SandboxSettings
from tests.containers import IMAGE

pytestmark = pytest.mark.needs("bwrap")


@pytest.fixture
def workspace() -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as name:
        yield Path(name).resolve()


@pytest.fixture(params=["bubblewrap", "container"])
async def provider(request: pytest.FixtureRequest) -> AsyncIterator[Provider]:
    """One that lets a place go as soon as it is not needed."""
    made: Provider
    if request.param == "container":
        engines = (str(request.getfixturevalue("engine").address),)
        made = ContainerProvider(
            ContainerPolicy(
                Path.home(),
                ContainerSettings(image=IMAGE, processes=0),
                SandboxSettings(idle=0.0),
                engines,
            )
        )
    else:
        made = BubblewrapProvider(SandboxPolicy(Path.home(), SandboxSettings(idle=0.0)))
    yield made
    await made.close()


async def namespace(provider: Provider, workspace: Path) -> bytes:
    """In which sandbox or container a command that is started now runs to its end."""
    argv = ("/bin/sh", "-c", "readlink /proc/self/ns/pid")
    env = {"PATH": "/usr/bin:/bin"}
    resources = Resources()
    prepared = Prepared(argv, env, str(workspace), None, None, resources, workspace=str(workspace))
    command = ObservedCommand(provider, prepared)
    printed = await command.read(command.process.stdout)
    assert await command.exit_code() == 0
    return printed


async def test_a_place_is_kept_for_its_command_though_another_ends_there_meanwhile(
    provider: Provider, workspace: Path
) -> None:
    await provider.ready(str(workspace))
    await provider.ready(str(workspace))

    first = await namespace(provider, workspace)
    for _ in range(10):
        await anyio.lowlevel.checkpoint()
    second = await namespace(provider, workspace)

    assert first.startswith(b"pid:")
    assert first == second


async def test_a_command_has_its_place_looked_at_once(
    provider: Provider, workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks = 0

    def count(_: RememberedFiles) -> bool:
        nonlocal looks
        looks += 1
        return True

    await provider.ready(str(workspace))
    monkeypatch.setattr(RememberedFiles, "unchanged", property(count))
    await provider.ready(str(workspace))
    await anyio.sleep(0.01)  # as long as a record may take
    await namespace(provider, workspace)

    assert looks == 1
