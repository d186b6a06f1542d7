"""Rules by effect: whatever else a trial changed, what is guarded is asked about."""

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shelltie.providers.workspace.boundaries import OBEYED
from shelltie.trials.effect_rules import Apply, decide
from tests.trial_trees import TrialTrees, git_init, put

_KNOWN = ["src/a.py", "src/b.py", "docs/x.md", "build/out.o", "build/deep/er.o", "run.log"]
_STRANGE = ["new.py", "src/new.py", "build.py"]
_IN_GIT = [".git/config", ".git/hooks/pre-commit", ".git/refs/heads/x", ".gitignore", "build/HEAD"]
_BELOW = st.sampled_from(["", "src/", "build/", "build/deep/"])
_GUARDED = st.one_of(
    st.sampled_from(_IN_GIT),
    st.builds("{}{}".format, _BELOW, st.sampled_from(OBEYED)),
    st.builds("{}{}/inner".format, _BELOW, st.sampled_from(OBEYED)),
)


@pytest.fixture(scope="module")
def trees() -> Iterator[TrialTrees]:
    with tempfile.TemporaryDirectory() as place:
        trees = TrialTrees(Path(place))
        for name in _KNOWN[:3]:
            put(trees.workspace / name, "known\n")
        git_init(trees.workspace, ignored="build/\n*.log\n")
        trees.begin()
        yield trees


def is_asked_about(trees: TrialTrees, names: list[str]) -> bool:
    """Whether a trial that wrote these is."""
    shutil.rmtree(trees.upper)
    trees.upper.mkdir()
    for name in names:
        put(trees.upper / name, f"{name}\n")
    return decide(trees.read(), 10) != Apply()


@settings(max_examples=25, deadline=None)
@given(st.lists(st.sampled_from(_KNOWN), max_size=5), _GUARDED)
def test_what_is_guarded_is_asked_about_beside_anything(
    trees: TrialTrees, known: list[str], guarded: str
) -> None:
    assert not is_asked_about(trees, known)
    assert is_asked_about(trees, [*known, guarded])


@settings(max_examples=25, deadline=None)
@given(st.lists(st.sampled_from([*_KNOWN, *_STRANGE, *_IN_GIT]), unique=True), st.integers(0, 14))
def test_more_changes_never_need_fewer_questions(
    trees: TrialTrees, names: list[str], some: int
) -> None:
    if is_asked_about(trees, names[:some]):
        assert is_asked_about(trees, names)
