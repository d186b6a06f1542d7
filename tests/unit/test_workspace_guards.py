from pathlib import Path

import pytest

from shelltie.errors import CannotStart
from shelltie.providers.workspace.guards import RememberedFiles
from shelltie.providers.workspace.new_repositories import setting_that_runs

_CLONED = """\
[core]
\trepositoryformatversion = 0
\tfilemode = true
\tbare = false
\tlogallrefupdates = true
[remote "origin"]
\turl = https://example.org/commands/path.git
\tfetch = +refs/heads/*:refs/remotes/origin/*
[branch "main"]
\tremote = origin
\tmerge = refs/heads/main
"""


@pytest.mark.parametrize("name", ["link", "link/inside", "to-file"])
def test_nothing_is_held_that_is_a_link_or_reached_through_one(tmp_path: Path, name: str) -> None:
    place = tmp_path.resolve()
    (place / "real" / "inside").mkdir(parents=True)
    (place / "file").touch()
    (place / "link").symlink_to("real")
    (place / "to-file").symlink_to("file")
    held = RememberedFiles()

    with pytest.raises(CannotStart, match="is a link"):
        held.take(place / name)

    assert held.known == {}
    held.close()


def test_what_is_held_is_known_by_what_it_is(tmp_path: Path) -> None:
    place = tmp_path.resolve() / "place"
    place.mkdir()
    held = RememberedFiles()

    held.take(place)
    before = held.unchanged
    place.rename(place.with_name("elsewhere"))
    place.mkdir()

    assert before
    assert not held.unchanged
    held.close()


@pytest.mark.parametrize(
    "settings",
    [
        "[core]\n\tfsmonitor = x",
        "[a] [core] fsmonitor = x",
        "\ufeff[core]FSMonitor=x",
        '[filter "a]b"] clean = x',
        '[filter "a]b"]clean=x',
        '[alias] st = "!x"',
        "[pager]\n status = x",
        "[protocol] allow = always",
        '[url "ext::x"]\n insteadOf = https:',
        "[interactive] diffFilter = x",
        "#" * 300_000 + "\n[core]\nfsmonitor = x",
    ],
)
def test_settings_by_which_git_would_run_something_are_found(tmp_path: Path, settings: str) -> None:
    file = tmp_path / "config"
    file.write_text(_CLONED)
    plain = setting_that_runs(file)
    file.write_text(settings)

    assert plain == ""
    assert setting_that_runs(file)
