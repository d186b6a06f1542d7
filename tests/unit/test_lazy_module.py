import importlib
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier

import pytest

from shelltie.basics.lazy_module import import_later, import_now, import_submodule_later

_COUNTED = """\
import sys
sys.modules["loads"].append(__name__)
answer = 42

def double(number):
    return 2 * number
"""


@pytest.fixture
def loads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """Which of two modules, `counted` and `parent.counted`, were loaded, and how often."""
    (tmp_path / "parent").mkdir()
    (tmp_path / "parent" / "__init__.py").touch()
    for name in ("counted.py", "parent/counted.py"):
        (tmp_path / name).write_text(_COUNTED, encoding="utf-8")
    loaded: list[str] = []
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setitem(sys.modules, "loads", loaded)
    yield loaded
    for name in ("counted", "parent", "parent.counted"):
        sys.modules.pop(name, None)


@pytest.mark.parametrize("name", ["counted", "parent.counted"])
def test_a_module_is_loaded_when_a_name_in_it_is_read(loads: list[str], name: str) -> None:
    import_later(name)

    first, second = importlib.import_module(name), importlib.import_module(name)
    assert loads == []
    assert (first.answer, second.answer) == (42, 42)
    assert loads == [name]
    assert importlib.import_module(name).__file__ is not None
    with pytest.raises(AttributeError, match="nothing"):
        _ = first.nothing
    assert loads == [name]


def test_a_module_that_is_loaded_stays_as_it_is(loads: list[str]) -> None:
    module = importlib.import_module("counted")

    import_later("counted")

    assert importlib.import_module("counted") is module
    assert loads == ["counted"]


def test_all_can_be_loaded_before_their_files_go(loads: list[str]) -> None:
    import_later("counted", "parent.counted")

    import_now()

    assert loads == ["counted", "parent.counted"]


def test_threads_that_read_it_at_once_load_it_once(loads: list[str]) -> None:
    import_later("counted")
    module, start = importlib.import_module("counted"), Barrier(8)

    def read(_: int) -> int:
        start.wait(50)
        return int(module.answer)

    with ThreadPoolExecutor(8) as threads:
        assert list(threads.map(read, range(8))) == [42] * 8

    assert loads == ["counted"]


def test_a_submodule_does_not_load_its_package(loads: list[str]) -> None:
    import_submodule_later("parent.counted", "double")
    assert "parent" not in sys.modules

    names: dict[str, object] = {}
    exec("from parent.counted import double", names)

    assert loads == []
    assert callable(names["double"])
    assert names["double"](21) == 42
    assert loads == ["parent.counted"]
