"""Trials: what is applied equals what would have happened outside, and undo restores."""

import json
import os
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from subprocess import PIPE, Popen
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

_ROOT = Path(__file__).resolve().parents[2]
_NAMES = ["a", "b", "sub", "new\nline", "\udcff\udcfe", " ü"]
_PATHS = st.lists(st.sampled_from(_NAMES), min_size=1, max_size=3).map("/".join)
_NOWHERE = "/nowhere/at/all"  # what is done through a link must not leave the tree
_TEXTS = st.sampled_from(["", "one\n", "one\ntwo\n", "no end"])
_OPERATIONS = st.one_of(
    st.tuples(st.sampled_from(["write", "append"]), _PATHS, _TEXTS),
    st.tuples(st.just("rename"), _PATHS, _PATHS),
    st.tuples(st.sampled_from(["delete", "delete", "mkdir", "mkdir", "fifo", "touch"]), _PATHS),
    st.tuples(st.just("chmod"), _PATHS, st.sampled_from([0o600, 0o755, 0o555, 0o000, 0o644])),
    st.tuples(st.just("symlink"), st.sampled_from([_NOWHERE, ".", "a", "sub/b"]), _PATHS),
    st.tuples(st.just("link"), _PATHS, _PATHS),
)
# Those of a tree that was there before: names of one file are told of, see the scenarios.
_TREE = st.one_of(
    st.tuples(st.just("mkdir"), _PATHS),
    st.tuples(st.just("mkdir"), _PATHS),
    st.tuples(st.just("write"), _PATHS, _TEXTS),
    st.tuples(st.just("symlink"), st.sampled_from([_NOWHERE, "a"]), _PATHS),
    st.tuples(st.just("fifo"), _PATHS),
)
_USERS = ["root", "root in a user namespace", "nobody"] if os.geteuid() == 0 else ["nobody"]

_LINKED = ("b", "sub", "new\nline", " ü/a")
Operations = list[tuple[object, ...]]


class Worker:
    """A process that plays one example after the other."""

    def __init__(self, folder: Path, who: str) -> None:
        uid = 65534 if who == "nobody" and os.geteuid() == 0 else os.getuid()
        kind = "plain" if who == "root" else "users"
        argv = [sys.executable, "-m", "tests.programs.trial_worker", str(folder), str(uid), kind]
        self._process = Popen(argv, stdin=PIPE, stdout=PIPE, text=True, cwd=_ROOT)

    def play(self, tree: Operations, operations: Operations) -> dict[str, Any]:
        """Raises: AssertionError if it could not be played."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        print(json.dumps({"tree": tree, "operations": operations}), file=self._process.stdin)
        self._process.stdin.flush()
        answer: dict[str, Any] = json.loads(self._process.stdout.readline())
        assert "problem" not in answer, answer["problem"]
        return answer

    def close(self) -> None:
        """It ends with its input."""
        self._process.communicate()


@pytest.fixture(scope="module", params=_USERS)
def worker(request: pytest.FixtureRequest) -> Iterator[Worker]:
    # Not in pytest's directory: that is closed to others by the next session.
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o777)
        worker = Worker(Path(folder), request.param)
        yield worker
        worker.close()


@settings(max_examples=25, suppress_health_check=[*HealthCheck])
@given(st.lists(_TREE, max_size=12), st.lists(_OPERATIONS, max_size=12))
@example(
    [("mkdir", "sub"), ("write", "sub/a", "one\n"), ("write", "b", "")],
    [("delete", "sub"), ("mkdir", "sub"), ("write", "sub/b", "new"), ("rename", "b", "sub/a")],
)
@example([("mkdir", "b")], [("chmod", "b", 0o600), ("write", "b/a", "")])
@example(  # two more names of a file, one of them in place of another
    [("write", "a", "x"), ("mkdir", "b"), ("write", "sub", "x"), ("mkdir", " ü")],
    [*[("delete", name) for name in ("sub", "b")], *[("link", "a", name) for name in _LINKED]],
)
def test_applying_a_trial_equals_running_outside(
    worker: Worker, tree: Operations, operations: Operations
) -> None:
    played = worker.play(tree, operations)

    assert played["untouched"] == played["before"]
    assert played["after"] == played["outside"]
    assert played["undone"] == played["before"]
    assert played["left"] == []
