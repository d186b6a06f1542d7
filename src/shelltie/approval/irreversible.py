"""Decision by profile, and irreversible commands: after them nothing brings back what was there."""

from pathlib import PurePosixPath

from shelltie.approval.deletions import deleted_paths
from shelltie.settings.sections import SafetyProfile
from shelltie.verdict import Code, Decision, Judged, Rating, Reason, Verdict

# What left this machine, or was the system's own, is gone whatever else is in the workspace.
_GONE = (Code.NETWORK_EXFIL, Code.PROTECTED_PATH)


def decide(profile: SafetyProfile, verdict: Verdict, cwd: str, workspace: str) -> Decision:
    """What follows from a verdict; `cwd` must be absolute."""
    decision = profile.for_rating(verdict.rating)
    if verdict.rating is not Rating.DANGEROUS or profile.irreversible.rank <= decision.rank:
        return decision
    return profile.irreversible if is_irreversible(verdict, cwd, workspace) else decision


def is_irreversible(verdict: Verdict, cwd: str, workspace: str) -> bool:
    """Whether it sends data away, changes the system's files, or destroys data that is not proved
    to be in the workspace, where there is a repository or a build that makes it again.
    """
    dangers = [reason for reason in verdict.reasons if reason.rating is Rating.DANGEROUS]
    if any(reason.code in _GONE for reason in dangers):
        return True
    destroying = [reason for reason in dangers if reason.code is Code.DESTROYS_DATA]
    return not all(_stays_inside(reason, verdict, cwd, workspace) for reason in destroying)


def _stays_inside(reason: Reason, verdict: Verdict, cwd: str, workspace: str) -> bool:
    """Every command that the reason may be about destroys something of the workspace alone."""
    moves = any(one.argv and one.argv[0] in ("cd", "pushd", "popd") for one in verdict.commands)
    about = [one for one in verdict.commands if _name(one) == reason.program]
    return bool(about) and not moves and all(_is_inside(one, cwd, workspace) for one in about)


def _is_inside(judged: Judged, cwd: str, workspace: str) -> bool:
    if judged.rating is not Rating.DANGEROUS:
        return True
    match judged.argv:
        case ("git", str(action), *_) if not judged.wrappers:
            return action != "push" and not action.startswith("-")
        case _:
            return deleted_paths(judged, cwd, workspace) is not None


def _name(judged: Judged) -> str:
    return PurePosixPath(judged.argv[0] or "").name if judged.argv else ""
