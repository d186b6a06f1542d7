"""Whose directories count: those of the person who started it, wherever it was started from."""

import json
import os
import pwd
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import anyio.to_thread
import pytest

from shelltie import Config
from shelltie.environment import child
from shelltie.providers.policies import container_policy, sandbox_policy
from tests.asking import SHELLTIE, not_on_a_leash
from tests.served import served

# shelltie on a machine whose shared places, /run/user and /tmp, are in another directory.
ELSEWHERE = """
import sys
from pathlib import Path
from shelltie.settings import paths
paths.RUNTIME = paths.SHARED = Path(sys.argv[1])
from shelltie.frontends.cli.main import main
sys.exit(main(sys.argv[2:]))
"""
DENIES_UNKNOWN = '[safety.profiles.run]\nunknown = "deny"\n'


def environment(**changes: str | None) -> dict[str, str]:
    """Ours, with changes; None removes a variable."""
    merged = {**os.environ, "SHELLTIE_ENVIRONMENT_PATH": "inherit", **changes}
    return {name: value for name, value in merged.items() if value is not None}


def started(
    *argv: str, env: Mapping[str, str], cwd: Path | None = None
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        argv, env=env, cwd=cwd, capture_output=True, text=True, timeout=40, check=False
    )


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A home with settings: what is unknown does not run."""
    settings = tmp_path / "home/.config/shelltie"
    settings.mkdir(parents=True)
    (settings / "config.toml").write_text(DENIES_UNKNOWN, encoding="utf-8")
    return tmp_path / "home"


@not_on_a_leash
async def test_the_tests_do_not_reach_servers_of_the_person_who_runs_them(
    public_path: Path, tmp_path: Path
) -> None:
    shared = public_path / "shared"
    shared.mkdir(mode=0o700)
    elsewhere = [sys.executable, "-c", ELSEWHERE, str(shared)]
    theirs = {
        "SHELLTIE_RUNTIME_DIR": "",
        "XDG_RUNTIME_DIR": "",
        "XDG_STATE_HOME": str(tmp_path / "their-state"),
    }
    async with served([*elsewhere, "mcp"], **theirs) as server:
        await server.start("echo on; cat", waitFor="on")
        by_them = environment(**theirs)

        ended = await anyio.to_thread.run_sync(
            lambda: started(*elsewhere, "kill", "--all", "--yes", env=environment())
        )
        left = await anyio.to_thread.run_sync(
            lambda: started(*elsewhere, "ps", "--json", env=by_them)
        )

    assert (ended.returncode, ended.stdout) == (0, "Nothing runs.\n"), ended.stderr
    assert [row["state"] for row in json.loads(left.stdout)] == ["running"], left.stderr


@pytest.mark.parametrize("value", ["relative/run", "."])
def test_the_only_place_of_sockets_must_be_absolute(value: str) -> None:
    done = started(*SHELLTIE, "ps", env=environment(SHELLTIE_RUNTIME_DIR=value))

    assert done.returncode == 125
    assert done.stderr.startswith(f"shelltie: SHELLTIE_RUNTIME_DIR: {value!r} is no absolute path")


@pytest.mark.parametrize("changed", ["HOME", "XDG_CONFIG_HOME"])
def test_relative_directories_are_ignored(changed: str, home: Path, tmp_path: Path) -> None:
    """Else a journal would appear wherever one is; the XDG standard says so, too."""
    given: dict[str, str | None] = {"HOME": str(home), "XDG_CONFIG_HOME": None}
    project = tmp_path / "project"
    (project / "here/shelltie").mkdir(parents=True)
    env = environment(**{**given, changed: "here", "XDG_STATE_HOME": "here"})

    said = started(*SHELLTIE, "paths", "--json", env=env, cwd=project)

    paths = [place["path"] for place in json.loads(said.stdout).values()]
    assert all(Path(path).is_absolute() for path in paths)
    assert not any(path.startswith(f"{project}/here") for path in paths)


@pytest.mark.needs("unshare")
def test_without_home_the_settings_of_the_password_database_hold(
    home: Path, tmp_path: Path
) -> None:
    """As systemd and cron start programs; nothing may be read from, or left in, `/`."""
    users = tmp_path / "passwd"
    users.write_text(f"root:x:0:0::{home}:/bin/sh\n", encoding="utf-8")
    as_if_it_were = f'mount --bind {users} /etc/passwd && exec "$@"'
    env = environment(HOME=None, XDG_CONFIG_HOME=None, XDG_STATE_HOME=None)

    done = started(
        *("unshare", "-rm", "sh", "-c", as_if_it_were, "sh", *SHELLTIE),
        *("run", "--", f"touch {tmp_path}/made"),
        env=env,
    )

    assert done.returncode == 126, done.stderr
    assert not (tmp_path / "made").exists()
    assert (home / ".local/state/shelltie/journal.db").exists()


@pytest.mark.parametrize("value", ["", "relative"])
def test_what_is_isolated_does_not_see_the_home_of_the_password_database(
    value: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", value)
    config = Config()

    environ = child.inherited()
    sandbox, container = sandbox_policy(config, environ), container_policy(config, environ, "sh")
    hidden = {sandbox.home, container.home}

    assert hidden == {Path(pwd.getpwuid(os.geteuid()).pw_dir).resolve()}


@pytest.mark.parametrize(
    ("name", "advice"),
    [
        (
            "SHELLTIE_SAFETY_PROFILES_RUN_UNKOWN",
            "did you mean SHELLTIE_SAFETY_PROFILES_RUN_UNKNOWN?",
        ),
        ("SHELLTIE_XYZZY_XYZZY_XYZZY", "`shelltie config list` has them all"),
        ("SHELLTIE_", "did you mean SHELLTIE_"),
    ],
)
def test_an_unknown_variable_of_ours_is_an_error(name: str, advice: str, tmp_path: Path) -> None:
    env = environment(**{name: "deny"})

    done = started(*SHELLTIE, "run", "--", f"touch {tmp_path}/made", env=env)

    assert done.returncode == 125
    assert f"shelltie: unknown variable {name}; {advice}" in done.stderr
    assert not (tmp_path / "made").exists()


def test_a_command_of_ours_may_start_another_shelltie() -> None:
    nested = " ".join([*SHELLTIE, "run", "--", "'echo $SHELLTIE_RUN'"])

    done = started(*SHELLTIE, "run", "--", nested, env=environment(SHELLTIE_TOKEN="of-a-client"))

    assert done.returncode == 0, done.stderr
    assert len(done.stdout.strip()) == 26


def in_a_deleted_directory(tmp_path: Path, *args: str) -> subprocess.CompletedProcess[str]:
    gone = tmp_path / "gone"
    gone.mkdir()
    script = f'cd {gone} && rmdir {gone} && exec "$@"'
    return started("bash", "-c", script, "bash", *SHELLTIE, *args, env=environment())


@pytest.mark.parametrize(
    "args",
    ["ps", "kill --all", "pending", "history", "paths", "audit tail", "policy show"],
)
def test_what_starts_nothing_works_in_a_deleted_directory(args: str, tmp_path: Path) -> None:
    started(*SHELLTIE, "run", "--", "true", env=environment())  # else there is no journal

    done = in_a_deleted_directory(tmp_path, *args.split())

    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("args", ["run -- true", "mcp", "check ls"])
def test_what_starts_something_says_that_its_directory_was_deleted(
    args: str, tmp_path: Path
) -> None:
    done = in_a_deleted_directory(tmp_path, *args.split())

    assert done.returncode == 125
    assert "the directory you are in was deleted: cd to another one" in done.stderr


def test_the_doctor_sees_a_deleted_directory(tmp_path: Path) -> None:
    done = in_a_deleted_directory(tmp_path, "doctor", "--json")

    findings = {one["name"]: one for one in json.loads(done.stdout)["findings"]}
    assert done.returncode == 1
    assert findings["directory"]["remedy"] == "cd to another one"


@pytest.mark.needs("unshare")
def test_the_doctor_sees_a_full_disk(tmp_path: Path) -> None:
    full = tmp_path / "full"
    full.mkdir()
    script = (
        f"mount -t tmpfs -o size=16k none {full} && {{ head -c 1M /dev/zero > {full}/all; "
        'exec "$@"; }'
    )
    env = environment(SHELLTIE_STATE_DIR=str(full))

    done = started(
        *("unshare", "-rm", "sh", "-c", script, "sh", *SHELLTIE, "doctor", "--json"), env=env
    )

    findings = {one["name"]: one for one in json.loads(done.stdout)["findings"]}
    assert findings["state"]["level"] == "bad", done.stderr
    assert "No space left on device" in findings["state"]["text"]
    assert findings["state"]["remedy"] == "make room there"
