from pathlib import Path
from typing import Any

import pytest

from shelltie.frontends.cli.main import main
from shelltie.providers.places.kubernetes import pod_trouble

Pod = dict[str, Any]


def pod(status: Pod, *, deleted: bool = False) -> Pod:
    metadata = {"deletionTimestamp": "2026-01-01T00:00:00Z"} if deleted else {}
    return {"metadata": metadata, "spec": {"containers": [{"name": "work"}]}, "status": status}


def container(**state: Pod) -> Pod:
    return {"containerStatuses": [{"name": "work", "image": "i:1", "state": state}]}


@pytest.mark.parametrize(
    ("found", "says"),
    [
        (pod({}), ""),
        (pod({"phase": "Pending"} | container(waiting={"reason": "ContainerCreating"})), ""),
        (pod({"phase": "Running"} | container(running={})), ""),
        (
            pod(container(waiting={"reason": "ImagePullBackOff", "message": "Back-off"})),
            "the image i:1 cannot be pulled: Back-off",
        ),
        (
            pod(
                {
                    "initContainerStatuses": container(waiting={"reason": "ErrImagePull"})[
                        "containerStatuses"
                    ]
                }
            ),
            "the image i:1 cannot be pulled: ErrImagePull",
        ),
        (
            pod(
                container(
                    waiting={
                        "reason": "CreateContainerConfigError",
                        "message": 'secret "s" not found',
                    }
                )
            ),
            'the container does not start: secret "s" not found',
        ),
        (
            pod(
                container(
                    terminated={
                        "reason": "StartError",
                        "message": 'exec: "sh": executable file not found in $PATH',
                    }
                )
            ),
            "the image i:1 has no sh, which is needed to run anything in it",
        ),
        (
            pod({"phase": "Failed", "reason": "Evicted", "message": "The node was low on memory."}),
            "the pod is over: Evicted: The node was low on memory.",
        ),
        (
            pod({"phase": "Failed"} | container(terminated={"reason": "OOMKilled"})),
            "the pod had more memory than it may have (OOMKilled)",
        ),
        (pod({"phase": "Succeeded"}), "the pod is over"),
        (pod({"phase": "Running"} | container(running={}), deleted=True), "the pod was deleted"),
    ],
)
def test_what_a_pod_says_of_itself_is_told_in_words(found: Pod, says: str) -> None:
    assert pod_trouble.trouble(found) == says


def test_a_pod_that_no_node_takes_says_why() -> None:
    condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}

    assert pod_trouble.unscheduled(pod({})) == ""
    assert "Unschedulable" in pod_trouble.unscheduled(pod({"conditions": [condition]}))


def test_of_events_the_last_warning_is_told() -> None:
    events = [
        {"type": "Warning", "reason": "FailedMount", "message": "new", "lastTimestamp": "2026-02"},
        {"type": "Warning", "reason": "FailedCreatePodSandBox", "message": "old"},
        {"type": "Normal", "reason": "Pulling", "message": "newest", "lastTimestamp": "2026-03"},
    ]

    assert pod_trouble.last_warning(events, sandbox_only=False) == "new"
    assert pod_trouble.last_warning(events, sandbox_only=True) == "old"
    assert pod_trouble.last_warning([], sandbox_only=False) == ""


@pytest.mark.parametrize(
    ("place", "name", "says"),
    [
        ('kind = "kubernetes"\nimage = "i"\nnamespace = "blue"', "agents", "namespace: blue"),
        ('kind = "kubernetes"\nimage = "i"', "agents", "namespace is not set"),
        ('kind = "ssh"\nhost = "web1"', "agents", "is of kind ssh"),
        ('kind = "ssh"\nhost = "web1"', "agent", "there is no place agent in your settings"),
    ],
)
def test_the_rights_of_a_place_are_printed_for_kubectl(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    place: str,
    name: str,
    says: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    (tmp_path / "shelltie").mkdir()
    (tmp_path / "shelltie/config.toml").write_text(f"[places.agents]\n{place}\n", encoding="utf-8")

    code = main(["places", "apply", name])

    shown = capsys.readouterr()
    assert says in (shown.out if code == 0 else shown.err)
    assert bool(shown.out) == (code == 0)
