from pathlib import Path

import pytest

from shelltie.errors import ConfigWrong
from shelltie.settings import layers
from shelltie.settings.config import Config
from shelltie.settings.places import KubernetesPlace, SshPlace, read_places

_WEB = '[places.web1]\nkind = "ssh"\nhost = "web1"\n'


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine with three empty layers of settings."""
    for name in ("etc", "user/shelltie", "project"):
        (tmp_path / name).mkdir(parents=True)
    monkeypatch.setattr(layers, "system_file", lambda: tmp_path / "etc/config.toml")
    return tmp_path


def load(home: Path) -> Config:
    return layers.load(
        home / "project", None, {"HOME": "/h", "XDG_CONFIG_HOME": str(home / "user")}
    )


def test_a_place_is_a_table_with_the_keys_of_its_kind() -> None:
    places = read_places(
        {
            "web-1": {"kind": "ssh", "host": "web1", "port": 2222, "directory": "/srv"},
            "agents": {"kind": "kubernetes", "image": "debian:12", "labels": {"team": "a"}},
        },
        "file",
    )

    assert places["web-1"] == SshPlace(host="web1", port=2222, directory="/srv")
    assert places["agents"] == KubernetesPlace(image="debian:12", labels={"team": "a"})


@pytest.mark.parametrize(
    ("tree", "says"),
    [
        ([], "must be tables: [places.NAME]"),
        ({"web1": "ssh"}, "must be a table: [places.web1]"),
        ({"Web1": {"kind": "ssh"}}, "lower-case letters"),
        ({"a" * 32: {"kind": "ssh"}}, "31 at most"),
        ({"../x": {"kind": "ssh"}}, "lower-case letters"),
        ({"local": {"kind": "ssh"}}, "none of local"),
        ({"web1": {}}, "kind is missing: it is one of ssh, kubernetes, ray"),
        ({"web1": {"kind": "docker"}}, "kind cannot be 'docker'"),
        ({"web1": {"kind": ["ssh"]}}, "kind cannot be ['ssh']"),
        ({"web1": {"kind": "ssh"}}, "host is missing"),
        ({"web1": {"kind": "ssh", "hots": "web1"}}, "no key hots; did you mean host?"),
        ({"web1": {"kind": "ssh", "host": "a", "image": "x"}}, "ssh has no key image"),
        ({"web1": {"kind": "ssh", "host": 1}}, "places.web1.host: must be a text"),
        ({"web1": {"kind": "ssh", "host": "a", "port": 70000}}, "a port from 1 to 65535"),
        ({"web1": {"kind": "ssh", "host": "a", "lease": 0}}, "places.web1.lease: must be seconds"),
        ({"web1": {"kind": "ssh", "host": "a", "directory": "src"}}, "an absolute path"),
        ({"a": {"kind": "kubernetes", "image": "i", "labels": {"a": 1}}}, "a table of texts"),
    ],
)
def test_what_is_wrong_with_a_place_is_said_with_its_key(tree: object, says: str) -> None:
    with pytest.raises(ConfigWrong) as told:
        read_places(tree, "config.toml")

    assert str(told.value).startswith("config.toml: places")
    assert says in str(told.value)


def test_places_come_from_your_file_and_from_a_project_only_when_it_is_trusted(home: Path) -> None:
    (home / "user/shelltie/config.toml").write_text(_WEB, encoding="utf-8")
    (home / "project/.shelltie.toml").write_text(_WEB.replace("web1", "evil"), encoding="utf-8")

    config = load(home)

    assert list(config.places) == ["web1"]
    assert any("places count when you run `shelltie trust`" in line for line in config.ignored)


def test_the_machine_may_lock_its_places(home: Path) -> None:
    (home / "etc/config.toml").write_text('locked = ["places"]\n' + _WEB, encoding="utf-8")
    (home / "user/shelltie/config.toml").write_text(
        _WEB.replace('host = "web1"', 'host = "other"'), encoding="utf-8"
    )

    config = load(home)

    assert config.places["web1"] == SshPlace(host="web1")
    assert any("places is locked" in line for line in config.ignored)
