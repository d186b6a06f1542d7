"""Why a pod does not start, or is over, in words: scheduling, image pull, quota, eviction. Pure."""

from collections.abc import Sequence
from typing import Any

Json = dict[str, Any]
# Reasons of a container that waits, which do not pass by themselves while somebody waits for it.
_IMAGE = ("ErrImagePull", "ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull")
_START = ("CreateContainerConfigError", "CreateContainerError", "RunContainerError", "StartError",
          "ContainerCannotRun", "CrashLoopBackOff")  # fmt: skip
_NO_SANDBOX = "FailedCreatePodSandBox"


def is_running(pod: Json) -> bool:
    """Its first container runs."""
    states = pod.get("status", {}).get("containerStatuses", [])
    wanted = pod["spec"]["containers"][0]["name"]
    return any("running" in one.get("state", {}) for one in states if one.get("name") == wanted)


def is_over(pod: Json) -> bool:
    """Nothing runs in it any more, or soon will not."""
    over = pod.get("status", {}).get("phase") in ("Succeeded", "Failed")
    return over or "deletionTimestamp" in pod["metadata"]


def unscheduled(pod: Json) -> str:
    """Why no node takes it; empty if one did, or nothing is known yet."""
    for condition in pod.get("status", {}).get("conditions", []):
        if condition.get("type") == "PodScheduled" and condition.get("status") == "False":
            return f"no node takes the pod: {condition.get('message') or condition.get('reason')}"
    return ""


def trouble(pod: Json) -> str:
    """What keeps it from running and will not pass; empty if there is nothing of the kind."""
    status = pod.get("status", {})
    for one in [*status.get("initContainerStatuses", []), *status.get("containerStatuses", [])]:
        state = one.get("state", {})
        waiting, ended = state.get("waiting", {}), state.get("terminated", {})
        reason = waiting.get("reason", "") or ended.get("reason", "")
        message = waiting.get("message") or ended.get("message") or reason
        if reason in _IMAGE:
            return f"the image {one.get('image')} cannot be pulled: {message}"
        if '"sh"' in message and "not found" in message:
            return f"the image {one.get('image')} has no sh, which is needed to run anything in it"
        if reason in _START:
            return f"the container does not start: {message}"
    return ending(pod)


def ending(pod: Json) -> str:
    """Why it is over; empty if it is not."""
    status = pod.get("status", {})
    if "deletionTimestamp" in pod["metadata"]:
        return "the pod was deleted"
    if status.get("phase") == "Failed" or status.get("reason"):
        for one in status.get("containerStatuses", []):
            ended = one.get("state", {}).get("terminated", {})
            if ended.get("reason") == "OOMKilled":
                return "the pod had more memory than it may have (OOMKilled)"
        told = ": ".join(filter(None, (status.get("reason"), status.get("message"))))
        return f"the pod is over: {told or 'it failed'}"
    return "the pod is over" if status.get("phase") == "Succeeded" else ""


def last_warning(events: Sequence[Json], *, sandbox_only: bool) -> str:
    """What the cluster last complained of; `sandbox_only`: only that it cannot even be begun."""
    warnings = [one for one in events if one.get("type") == "Warning"]
    if sandbox_only:
        warnings = [one for one in warnings if one.get("reason") == _NO_SANDBOX]
    warnings.sort(key=lambda one: str(one.get("lastTimestamp") or one.get("eventTime") or ""))
    return str(warnings[-1].get("message", "")) if warnings else ""
