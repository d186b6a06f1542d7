"""The build hook takes from npm what is locked, and a build without npm is told so."""

import json
import shutil

import pytest

import hatch_build


def test_the_lock_pins_what_the_page_takes_and_names_no_host() -> None:
    lock = hatch_build.LOCK.read_text(encoding="utf-8")
    packages = json.loads(lock)["packages"]
    wanted = json.loads(hatch_build.LOCK.with_name("package.json").read_text(encoding="utf-8"))

    assert "://" not in lock
    for name, version in wanted["dependencies"].items():
        assert packages[f"node_modules/{name}"]["version"] == version
        assert packages[f"node_modules/{name}"]["integrity"].startswith("sha512-")


def test_a_build_that_finds_no_npm_asks_for_node(monkeypatch: pytest.MonkeyPatch) -> None:
    found = {"npm": "/usr/bin/npm"}
    monkeypatch.setattr(hatch_build, "has_xterm", lambda: False)
    monkeypatch.setattr(shutil, "which", found.get)
    hook = object.__new__(hatch_build.KeeperHook)

    assert hook.dependencies() == []
    found.clear()
    assert hook.dependencies() == [hatch_build.NODE]
    monkeypatch.setattr(hatch_build, "npm", list)
    assert hatch_build.fetch_xterm() == "npm is not installed"
