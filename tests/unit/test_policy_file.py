import os
from pathlib import Path

import pytest

from shelltie.limits.policy import parse
from shelltie.limits.policy_file import PROJECT_FILE, PolicyFile, find
from shelltie.limits.resolve import calculate_timeouts

SEED_FILE = Path(__file__).parent.parent / "corpus" / "terminal_timeout_policy.json"
SEED = SEED_FILE.read_text(encoding="utf-8")
EDITED = SEED.replace('"exec_timeout_sec": 600', '"exec_timeout_sec": 601')


def total(file: PolicyFile, command: str = "npm install") -> float | None:
    return calculate_timeouts(file.current(), command).total


@pytest.mark.proves("S0-16", "S0-44", "S0-3")
def test_the_projects_file_is_read_at_the_start(tmp_path: Path) -> None:
    (tmp_path / PROJECT_FILE).parent.mkdir()
    (tmp_path / PROJECT_FILE).write_text(SEED, encoding="utf-8")

    file = find(tmp_path, None)

    assert (file.status, file.origin) == (
        "loaded",
        str(tmp_path / "config/terminal_timeout_policy.json"),
    )
    assert file.problems == ()
    assert file.current().categories == parse(SEED)[0].categories


def test_without_a_projects_file_ours_is_used_until_there_is_one(tmp_path: Path) -> None:
    file = find(tmp_path, None)
    assert (file.status, Path(file.origin).name) == ("loaded", "default_policy.json")
    assert calculate_timeouts(file.current(), "npm ci").category == "long"
    file.force_reload()

    (tmp_path / PROJECT_FILE).parent.mkdir()
    (tmp_path / PROJECT_FILE).write_text(EDITED, encoding="utf-8")

    assert total(file) == 601
    assert file.origin == str(tmp_path / PROJECT_FILE)


@pytest.mark.proves("T0-9", "S0-18", "C-10")
def test_a_configured_file_that_is_absent_gives_the_fallback(tmp_path: Path) -> None:
    file = find(tmp_path, Path("mine.json"))

    assert file.status == "fallback (no such file)"
    for command in ("ls", "npm install", "unknown"):
        limits = calculate_timeouts(file.current(), command)
        assert (limits.total, limits.silence) == (120, 30)
        assert limits.source == "built-in fallback (no such file)"

    (tmp_path / "mine.json").write_text(SEED, encoding="utf-8")
    assert total(file) == 600
    assert file.status == "loaded"


@pytest.mark.proves("T0-11", "S0-17")
def test_an_edit_is_used_by_the_next_call(tmp_path: Path) -> None:
    path = tmp_path / "policy.json"
    path.write_text(SEED, encoding="utf-8")
    file = PolicyFile(path)
    assert total(file) == 600

    path.write_text(EDITED, encoding="utf-8")

    assert total(file) == 601


def test_a_change_that_hides_its_time_is_seen(tmp_path: Path) -> None:
    path = tmp_path / "policy.json"
    path.write_text(SEED, encoding="utf-8")
    os.utime(path, (1, 1))
    file = PolicyFile(path)
    path.write_text(EDITED, encoding="utf-8")
    os.utime(path, (1, 1))

    assert total(file) == 601


@pytest.mark.proves("T0-11")
@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"{", "not valid JSON"),
        (b"\xff\xfe{\x00", "not UTF-8 text"),
        (b'{"categories": {}}', "no usable category"),
        (b" " * (1024 * 1024 + 1), "larger than 1 MiB"),
        (None, "no such file"),
    ],
)
def test_after_a_bad_edit_the_last_good_policy_stays(
    tmp_path: Path, content: bytes | None, reason: str
) -> None:
    path = tmp_path / "policy.json"
    path.write_text(SEED, encoding="utf-8")
    file = PolicyFile(path)

    if content is None:
        path.unlink()
    else:
        path.write_bytes(content)

    assert total(file) == 600
    assert file.status.startswith(f"stale: last good kept ({reason}")
    assert reason in file.problems[0]
    path.write_text(EDITED, encoding="utf-8")
    assert total(file) == 601
    assert file.status == "loaded"


@pytest.mark.proves("T0-10", "C-10")
def test_a_file_with_one_bad_item_is_used_and_the_item_is_named(tmp_path: Path) -> None:
    path = tmp_path / "policy.json"
    path.write_text(SEED.replace('"^pip install"', '"^pip (install"'), encoding="utf-8")

    file = PolicyFile(path)

    assert file.status == "loaded"
    assert file.problems[0].startswith("command_patterns.long[2]: '^pip (install' is not a regular")
    assert total(file) == 600


def test_what_is_no_readable_file_gives_the_fallback(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "loop").symlink_to("loop")

    reasons = [
        PolicyFile(path).status
        for path in (tmp_path, tmp_path / "fifo", tmp_path / "loop", Path("a\0b"))
    ]

    assert all(reason.startswith("fallback (") for reason in reasons)
    assert "not a regular file" in reasons[1]
