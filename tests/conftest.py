"""What every test may use: a terminal of its own, with nothing of the machine's settings."""

import gc
import json
import os
import shutil
import signal
import tempfile
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from shelltie import Config, Terminal
from shelltie.environment.child import RUN_MARK
from shelltie.events import Publish
from shelltie.settings.paths import ONLY_RUNTIME
from tests import fork_server
from tests.containers import TOOLS, OwnEngine, run_engine

# How long an example takes, or to think of one, says something about the machine alone. In CI the
# examples are the same each time; new ones are found by whoever changes what they are about.
settings.register_profile(
    "busy machine",
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
    derandomize="REQUIRE_TOOLS" in os.environ,
)
settings.load_profile("busy machine")

Open = Callable[..., AbstractAsyncContextManager[Terminal]]


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(autouse=True)
def own_directories(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The home of whoever runs the tests stays as it is, and their servers are not reached."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "xdg-config"))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "xdg-state"))
    # Not below tmp_path: the path of a socket has 107 bytes at most.
    with tempfile.TemporaryDirectory(prefix="run-", ignore_cleanup_errors=True) as runtime:
        monkeypatch.setenv("XDG_RUNTIME_DIR", runtime)
        monkeypatch.setenv(ONLY_RUNTIME, f"{runtime}/shelltie")
        yield


@pytest.fixture
def public_path() -> Iterator[Path]:
    """A directory that other users may enter; pytest's own are closed again by the next session."""
    with tempfile.TemporaryDirectory() as name:
        path = Path(name)
        path.chmod(0o755)
        yield path


@pytest.fixture(params=["c", "python"])
def keeper(request: pytest.FixtureRequest) -> str:
    """Both keepers, one after the other."""
    return "auto" if request.param == "c" else "python"


@pytest.fixture(scope="module")
def engine() -> Iterator[OwnEngine]:
    """A container engine with an image. Not for all tests: others count the children we have."""
    if os.geteuid() != 0:
        pytest.skip("needs root")
    missing = [tool for tool in TOOLS if shutil.which(tool) is None]
    if missing and os.environ.get("REQUIRE_TOOLS") != "1":
        pytest.skip(f"needs {', '.join(missing)}")
    with run_engine() as made:
        yield made


@pytest.fixture
def open_terminal(tmp_path: Path) -> Open:
    """Opens terminals with the settings a test wants."""

    @asynccontextmanager
    async def opened(publish: Publish | None = None, **settings: object) -> AsyncIterator[Terminal]:
        config = Config.of(state_dir=str(tmp_path / "state"), **settings)
        async with Terminal(config, publish) as terminal:
            yield terminal

    return opened


def write_policy(folder: Path, total: float | None, silence: float | None) -> str:
    """The path of a timeout policy that gives every command these two limits."""
    medium = {"exec_timeout_sec": total, "no_output_timeout_sec": silence}
    file = folder / "policy.json"
    file.write_text(json.dumps({"categories": {"medium": medium}}), encoding="utf-8")
    return str(file)


@pytest.fixture
async def terminal(open_terminal: Open) -> AsyncIterator[Terminal]:
    """A terminal with the settings everybody starts with."""
    async with open_terminal() as terminal:
        yield terminal


def pytest_configure(config: pytest.Config) -> None:
    """Before any test is imported: what it says at import must not name the home, either."""
    gc.disable()  # until all is imported: it is there to stay, and to look through it takes seconds
    _leave_the_home_alone(config)
    # A background shell or nohup ignores these, and whoever the tests start would inherit that.
    for number in (signal.SIGINT, signal.SIGHUP, signal.SIGTERM, signal.SIGQUIT):
        if signal.getsignal(number) == signal.SIG_IGN:
            signal.signal(number, signal.SIG_DFL)
    config.add_cleanup(fork_server.install())


def _leave_the_home_alone(config: pytest.Config) -> None:
    """For whatever has no directories of its own; and nobody's settings count."""
    for name in [name for name in os.environ if name.startswith("SHELLTIE_") and name != RUN_MARK]:
        del os.environ[name]
    session = tempfile.TemporaryDirectory(prefix="shelltie-tests-")
    config.add_cleanup(session.cleanup)
    for kind in ("CONFIG_HOME", "STATE_HOME", "RUNTIME_DIR"):
        place = Path(session.name) / kind.lower()
        place.mkdir(mode=0o700)
        os.environ[f"XDG_{kind}"] = str(place)
    os.environ[ONLY_RUNTIME] = f"{session.name}/runtime_dir/shelltie"
    _have_another_home(Path(session.name) / "home")


def _have_another_home(home: Path) -> None:
    """Login shells are asked for their PATH, and one that is killed may leave locks in the home."""
    home.mkdir()
    for name in (".npmrc", ".npm", ".cache"):  # where packages come from
        if (place := Path.home() / name).exists():
            (home / name).symlink_to(place)
    os.environ["HOME"] = str(home)


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Those that run alone are in few files, and nobody imports the others to find them."""
    if config.option.markexpr != "alone" or not collection_path.match("test_*.py"):
        return None
    return "mark.alone" not in collection_path.read_text(encoding="utf-8") or None


def pytest_collection_finish() -> None:
    gc.freeze()
    gc.enable()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """A tool that is missing skips on a laptop and fails in CI (REQUIRE_TOOLS=1)."""
    for item in items:
        if "engine" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.xdist_group("engine"))  # there is one on the machine
        for mark in item.iter_markers("needs"):
            missing = [tool for tool in mark.args if shutil.which(tool) is None]
            if missing and os.environ.get("REQUIRE_TOOLS") != "1":
                item.add_marker(pytest.mark.skip(reason=f"needs {', '.join(missing)}"))
