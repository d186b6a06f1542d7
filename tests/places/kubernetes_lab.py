"""The cluster of scripts/kubernetes-lab: two real nodes, for the tests of one file."""

import os
import secrets
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

_SCRIPT = Path(__file__).resolve().parent.parent.parent / "scripts" / "kubernetes-lab"
LIMIT = 120.0  # seconds for whatever is waited for


class KubernetesLab:
    """A running cluster. `directory` has its kubeconfig."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory

    @property
    def kubeconfig(self) -> str:
        return str(self.directory / "kubeconfig")

    def kubectl(self, *words: str, stdin: str = "") -> str:
        """What it prints; it must succeed."""
        return _run("kubectl", str(self.directory), *words, stdin=stdin)

    def fault(self, what: str, *words: str) -> None:
        """`cut` or `heal` with a node; `kill` or `start` with a node and a daemon."""
        _run(what, str(self.directory), *words)

    def names(self, namespace: str, kind: str = "pods") -> set[str]:
        found = self.kubectl("-n", namespace, "get", kind, "-o", "name")
        return {line.partition("/")[2] for line in found.splitlines()}

    def namespace(self) -> str:
        """A fresh one, whose default account is there already: without it there are no pods."""
        name = f"ns-{secrets.token_hex(4)}"
        self.kubectl("create", "namespace", name)
        self.until(lambda: "default" in self.names(name, "serviceaccounts"))
        return name

    def until(self, true: Callable[[], bool]) -> None:
        deadline = time.monotonic() + LIMIT
        while not true():
            assert time.monotonic() < deadline, self.kubectl("get", "pods", "-A", "-o", "wide")
            time.sleep(0.2)


@contextmanager
def kubernetes_lab() -> Iterator[KubernetesLab]:
    """One of our own. Without the binaries the tests are skipped, unless they are demanded."""
    default = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "kubernetes-lab"
    built = Path(os.environ.get("KUBERNETES_LAB") or default) / "complete"
    missing = None
    if os.geteuid() != 0:
        missing = "a cluster needs root"
    elif not built.exists():
        missing = "Kubernetes is not built: scripts/kubernetes-lab build"
    if missing and os.environ.get("TEST_KUBERNETES") == "1":
        pytest.fail(missing)
    if missing:
        pytest.skip(missing)
    directory = Path(f"/tmp/kl-{secrets.token_hex(4)}")
    try:
        _run("up", str(directory))
        yield KubernetesLab(directory)
    finally:
        if (directory / "number").exists():
            _run("down", str(directory))
        shutil.rmtree(directory, ignore_errors=True)


def _run(*words: str, stdin: str = "") -> str:
    done = subprocess.run(
        [str(_SCRIPT), *words],
        input=stdin,
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, f"{words}: {done.stdout}{done.stderr}"
    return done.stdout
