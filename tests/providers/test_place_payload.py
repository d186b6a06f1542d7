"""The scripts that put a keeper on another machine and start it, run by a real sh."""

import os
import secrets
import select
import stat
import subprocess
from pathlib import Path

import pytest

from shelltie.errors import CannotStart
from shelltie.keeper.stream_protocol import MAGIC, VERSION, FrameReader, StreamAsk, StreamSay, asked
from shelltie.providers.places import payload

_WAIT = 30.0


def sh(script: str, given: bytes = b"", **environ: str) -> str:
    """What it prints; an account's start-up files may have printed before."""
    env = {"PATH": os.environ["PATH"], "HOME": os.environ.get("HOME", "/"), **environ}
    done = subprocess.run(
        ["sh", "-c", "echo welcome; printf 'no end: '\n" + script],
        input=given, capture_output=True, env=env, timeout=120, check=False,
    )  # fmt: skip
    return done.stdout.decode()


@pytest.fixture
def there(tmp_path: Path) -> payload.FarMachine:
    """This machine, seen from elsewhere, with a path that is longer than a socket's address."""
    deep = tmp_path / ("d" * 110)
    deep.mkdir()
    return payload.read_machine(sh(payload.look_script(), TMPDIR=str(deep)))


@pytest.fixture(params=["c", "python"])
def program(request: pytest.FixtureRequest, there: payload.FarMachine) -> payload.Payload:
    """Both keepers, in place there."""
    if request.param == "c":
        request.getfixturevalue("current_binary")
    found = payload.payload_for(f"{there.system} {there.machine}", there.python, request.param)
    assert list(payload.told(sh(payload.put_script(found, there.place), found.content), "put"))
    return found


def test_a_keeper_that_was_copied_is_reached_through_a_bridge_and_removed(
    program: payload.Payload, there: payload.FarMachine
) -> None:
    name, token = f"k-{secrets.token_hex(4)}", secrets.token_hex(24)

    launched = sh(payload.launch_script(program, there.place, name, 60), token.encode())
    directory = next(payload.told(launched, "stays"))
    mode = stat.S_IMODE(Path(directory).stat().st_mode)
    words = [*program.argv(there.place), payload.BRIDGE, directory]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as bridge:
        assert bridge.stdin is not None
        assert bridge.stdout is not None
        bridge.stdin.write(asked(StreamAsk.HELLO, MAGIC, VERSION, token, "free"))
        bridge.stdin.flush()
        assert select.select([bridge.stdout], [], [], _WAIT)[0]
        frames = list(FrameReader().feed(os.read(bridge.stdout.fileno(), 4096)))
        bridge.stdin.close()
        ended = bridge.wait(_WAIT)
    again = payload.read_machine(sh(payload.look_script(), TMPDIR=str(Path(there.place).parent)))
    sh(payload.remove_script(there.place, name))

    assert frames[0].kind is StreamSay.WELCOME
    assert (mode, ended) == (0o700, 0)
    assert again.payloads >= {program.name}
    assert again.keepers == {name}
    assert not Path(directory).exists()


def test_a_name_that_is_taken_and_a_keeper_that_is_broken_leave_nothing(
    program: payload.Payload, there: payload.FarMachine
) -> None:
    (Path(there.place) / "taken").mkdir(mode=0o700)
    taken = sh(payload.launch_script(program, there.place, "taken", 60), b"x" * 48)
    cut = payload.Payload("keeper-cut", program.content[:5000], program.runner)

    broken = sh(payload.put_script(cut, there.place), cut.content)

    with pytest.raises(CannotStart, match="no directory"):
        list(payload.told(taken, "stays"))
    with pytest.raises(CannotStart, match="does not run there"):
        list(payload.told(broken, "put"))
    assert sorted(one.name for one in Path(there.place).iterdir()) == [program.name, "taken"]


def test_a_directory_that_others_can_enter_is_not_used(tmp_path: Path) -> None:
    fooled = tmp_path / "fooled"
    (fooled / f"shelltie-{os.geteuid()}").mkdir(parents=True)
    (fooled / f"shelltie-{os.geteuid()}").chmod(0o755)
    linked = tmp_path / "linked"
    linked.mkdir()
    (linked / f"shelltie-{os.geteuid()}").symlink_to(tmp_path)

    for top in (fooled, linked):
        found = payload.read_machine(sh(payload.look_script(), TMPDIR=str(top), HOME=str(tmp_path)))
        assert not found.place.startswith(str(top))


@pytest.mark.parametrize(
    ("machine", "python", "wanted", "name"),
    [
        ("Linux mips", "/usr/bin/python3", "auto", "keeper-py-"),
        ("Darwin x86_64", "/usr/bin/python3", "auto", "keeper-py-"),
    ],
)
def test_where_no_binary_fits_the_one_in_python_is_taken(
    machine: str, python: str, wanted: str, name: str
) -> None:
    assert payload.payload_for(machine, python, wanted).name.startswith(name)


@pytest.mark.parametrize(
    ("machine", "python", "wanted"),
    [("Linux mips", "", "auto"), ("Linux mips", "/usr/bin/python3", "c"), ("", "", "auto")],
)
def test_where_nothing_fits_it_is_said_what_to_install(
    machine: str, python: str, wanted: str
) -> None:
    with pytest.raises(CannotStart, match="install python3"):
        payload.payload_for(machine, python, wanted)


def test_a_far_side_without_a_shell_is_told_in_words() -> None:
    with pytest.raises(CannotStart, match="no shell that can be used"):
        payload.read_machine("OCI runtime exec failed: exec: sh: not found")
