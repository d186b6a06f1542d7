"""Who watches and does not read misses events, and holds nobody up."""

import json
import socket
from pathlib import Path

import pytest

from shelltie.events import Escalated
from shelltie.frontends.control.event_push import EventPush
from shelltie.model import RunId
from shelltie.running.interfaces import Bus

EVENT = Escalated(RunId("01J"), 1.0, 15)


def listening(path: Path) -> socket.socket:
    made = socket.socket(socket.AF_UNIX)
    made.bind(str(path))
    made.listen()
    return made


def test_who_does_not_read_is_told_later_how_many_were_missed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)  # the path of a socket has 107 bytes at most
    bus = Bus()
    push = EventPush(bus, {}, lambda: {"pid": 1})
    with listening(Path("1-2.watch")) as listener:
        assert push.connect(Path("1-2.watch"))
        reader, _ = listener.accept()
        with reader:
            for _ in range(20_000):
                bus.publish(EVENT)
            reader.settimeout(0.2)
            data = _all_of(reader)
            bus.publish(EVENT)
            data += _all_of(reader)
            push.close()

    lines = [json.loads(line) for line in data.splitlines()]
    events = [line for line in lines if line.get("type") == "run:signalled"]
    missed = sum(line.get("missed", 0) for line in lines)
    assert lines[0] == {"pid": 1}
    assert missed > 0
    assert len(events) + missed == 20_001


def test_a_monitor_that_has_left_is_forgotten(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    bus = Bus()
    push = EventPush(bus, {}, dict)
    with listening(Path("1-2.watch")) as listener:
        assert push.connect(Path("1-2.watch"))
        listener.accept()[0].close()

    bus.publish(EVENT)

    assert not push.connect(Path("1-2.watch"))


def _all_of(reader: socket.socket) -> bytes:
    data = b""
    try:
        while chunk := reader.recv(1 << 20):
            data += chunk
    except TimeoutError:
        pass
    return data
