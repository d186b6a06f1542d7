"""A project's own files may loosen something only if a person trusts them, as they are."""

import json
import os
import re
import stat
from pathlib import Path

import pytest

from shelltie.errors import ConfigWrong
from shelltie.keeper.binaries import choose
from shelltie.keeper.link import Link
from shelltie.settings import trust
from tests.asking import ROOT, SHELLTIE, not_on_a_leash, shelltie, typed
from tests.leashes import output_of


@pytest.fixture
def project(tmp_path: Path) -> Path:
    project = tmp_path / "project"
    (project / ".shelltie" / "rules").mkdir(parents=True)
    (project / ".shelltie.toml").write_text("[limits]\ngrace = 3\n", encoding="utf-8")
    (project / ".shelltie" / "rules" / "own.toml").write_text("# mine\n", encoding="utf-8")
    return project


@pytest.fixture
def store(tmp_path: Path) -> Path:
    return tmp_path / "xdg-config" / "shelltie" / "trusted.toml"


def is_trusted(project: Path, store: Path) -> bool:
    return trust.is_trusted(trust.look(project), store)


def test_a_project_is_trusted_as_it_is(project: Path, store: Path) -> None:
    before = is_trusted(project, store)

    trust.trust(trust.look(project), store)

    assert not before
    assert is_trusted(project, store)
    assert stat.S_IMODE(store.stat().st_mode) == 0o600


def _edit(project: Path) -> None:
    (project / ".shelltie.toml").write_text("[limits]\ngrace = 4\n", encoding="utf-8")


def _edit_a_rule(project: Path) -> None:
    (project / ".shelltie" / "rules" / "own.toml").write_text("", encoding="utf-8")


def _add_a_rule(project: Path) -> None:
    (project / ".shelltie" / "more.toml").write_text("", encoding="utf-8")


def _remove_a_rule(project: Path) -> None:
    (project / ".shelltie" / "rules" / "own.toml").unlink()


def _swap(project: Path) -> None:
    one, other = project / ".shelltie.toml", project / ".shelltie" / "rules" / "own.toml"
    texts = other.read_bytes(), one.read_bytes()
    one.write_bytes(texts[0])
    other.write_bytes(texts[1])


@pytest.mark.parametrize("change", [_edit, _edit_a_rule, _add_a_rule, _remove_a_rule, _swap])
def test_any_change_ends_the_trust(project: Path, store: Path, change: object) -> None:
    assert callable(change)
    trust.trust(trust.look(project), store)

    change(project)

    assert not is_trusted(project, store)


def test_what_is_trusted_is_what_was_read(project: Path, store: Path) -> None:
    snapshot = trust.look(project)
    trust.trust(snapshot, store)

    _edit(project)

    assert trust.is_trusted(snapshot, store)
    assert snapshot.files[trust.SETTINGS] == b"[limits]\ngrace = 3\n"


def test_trust_in_one_project_is_none_in_its_copy(project: Path, store: Path) -> None:
    trust.trust(trust.look(project), store)
    copy = project.with_name("copy")
    copy.mkdir()
    (copy / ".shelltie.toml").write_bytes((project / ".shelltie.toml").read_bytes())

    link = project.with_name("link")
    link.symlink_to(project)

    assert not is_trusted(copy, store)
    assert is_trusted(link, store)


def test_it_can_be_revoked_and_renewed(project: Path, store: Path) -> None:
    other = project.with_name("other")
    other.mkdir()
    trust.trust(trust.look(other), store)
    trust.trust(trust.look(project), store)
    _edit(project)
    trust.trust(trust.look(project), store)

    listed = [one.project for one in trust.listed(store)]
    revoked = trust.revoke(project, store)

    assert listed == [other, project]
    assert (revoked, trust.revoke(project, store)) == (True, False)
    assert not is_trusted(project, store)
    assert is_trusted(other, store)


@pytest.mark.parametrize("text", ["[[", "[[project]]\npath = 1\n", "x = 1\n", "project = 3\n"])
def test_a_broken_store_trusts_nothing_and_is_left_alone(
    project: Path, store: Path, text: str
) -> None:
    trust.trust(trust.look(project), store)
    store.write_text(text, encoding="utf-8")

    assert not is_trusted(project, store)
    with pytest.raises(ConfigWrong):
        trust.trust(trust.look(project), store)
    assert store.read_text(encoding="utf-8") == text


def test_a_store_that_others_may_write_trusts_nothing(project: Path, store: Path) -> None:
    trust.trust(trust.look(project), store)
    store.chmod(0o660)

    assert not is_trusted(project, store)


def test_what_is_no_plain_file_is_refused(project: Path) -> None:
    os.mkfifo(project / ".shelltie" / "pipe")

    with pytest.raises(ConfigWrong, match="not a regular file"):
        trust.look(project)


def test_too_much_is_refused(project: Path) -> None:
    (project / ".shelltie" / "big").write_bytes(b"x" * 2_000_000)
    with pytest.raises(ConfigWrong, match="1 MiB"):
        trust.look(project)
    (project / ".shelltie" / "big").unlink()
    for number in range(201):
        (project / ".shelltie" / f"{number}.toml").touch()
    with pytest.raises(ConfigWrong, match="more than 200"):
        trust.look(project)


# The command


@not_on_a_leash
async def test_trust_shows_what_is_trusted_and_what_is_held_back(project: Path) -> None:
    (project / ".shelltie.toml").write_text('shell = "/bin/\u202eevil"\n', encoding="utf-8")

    code, out, _ = await shelltie("trust", str(project))
    listed = json.loads((await shelltie("trust", "--list", "--json"))[1])

    assert code == 0
    assert '│ shell = "/bin/⟨U+202E⟩evil"' in out
    assert "⚠ shell" in out
    assert [(one["path"], one["changed"]) for one in listed] == [(str(project), False)]


@not_on_a_leash
async def test_a_person_at_a_terminal_is_asked_before(project: Path, store: Path) -> None:
    no, _ = await typed(*SHELLTIE, "trust", str(project), answer="\n")
    before = is_trusted(project, store)
    yes, shown = await typed(*SHELLTIE, "trust", str(project), answer="y\n")

    assert (no, before) == (1, False)
    assert (yes, is_trusted(project, store)) == (0, True)
    assert "grace = 3" in shown


@not_on_a_leash
async def test_trust_is_listed_and_revoked_by_command(project: Path, store: Path) -> None:
    await shelltie("trust", str(project), "--json")
    _edit(project)
    _, listed, _ = await shelltie("trust", "--list")

    first = await shelltie("trust", "--revoke", str(project))
    second = await shelltie("trust", "--revoke", str(project))
    nothing = await shelltie("trust", str(project.parent))

    assert "changed since: not trusted" in listed
    assert (first[0], second[0], nothing[0]) == (0, 1, 1)
    assert "nothing to trust" in nothing[2]
    assert (await shelltie("trust", "--list"))[1] == "No project is trusted.\n"
    assert not is_trusted(project, store)


async def test_a_command_cannot_trust_anything(project: Path, store: Path) -> None:
    link = Link(*choose(None))
    try:
        said = await output_of(
            link, *SHELLTIE, "trust", str(project), "--yes", env=dict(os.environ), cwd=str(ROOT)
        )
    finally:
        await link.close()

    assert b"only a person may trust a project" in said
    assert not is_trusted(project, store)


@not_on_a_leash
async def test_an_entry_that_shelltie_did_not_write_trusts_nothing(
    project: Path, store: Path
) -> None:
    trust.trust(trust.look(project), store)
    entries = store.read_text(encoding="utf-8")
    store.unlink()
    store.with_name(".trusted.toml.written").unlink()
    # Of another second than the yes below: what is the same as a forged entry counts as little.
    store.write_text(re.sub('since = ".*"', 'since = "2026-01-01T00:00:00Z"', entries), "utf-8")
    store.chmod(0o600)

    _, listed, _ = await shelltie("trust", "--list")
    _, doctor, _ = await shelltie("doctor")
    forged = is_trusted(project, store)
    await shelltie("trust", str(project), "--yes")

    assert not forged
    assert "not written by shelltie: not trusted" in listed
    assert "was changed, and not by shelltie" in doctor
    assert is_trusted(project, store)
