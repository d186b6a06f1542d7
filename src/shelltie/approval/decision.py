"""Decision by profile, and irreversible commands: after them nothing brings back what was there."""

import os
from pathlib import PurePosixPath

from shelltie.approval.deletions import deleted_paths
from shelltie.basics.lazy_regex import lazy
from shelltie.settings.all_settings import SafetyProfile
from shelltie.verdict import Code, Decision, Judged, Rating, Reason, Verdict

# What left this machine, or was the system's own, is gone whatever else is in the workspace. The
# state that rules call dangerous to change is what others see: published packages and releases.
_GONE = (Code.NETWORK_EXFIL, Code.PROTECTED_PATH, Code.CHANGES_STATE)
_MAKE_NO_LINKS = ("mkdir", "touch", "rmdir", "rm")
# Groups, loops, functions and jobs: what stands later in the text may run earlier.
_NESTED = lazy(r"[(){}`]|\b(?:if|for|while|until|select|case|do|then|coproc|function)\b")
_JOB = lazy(r"(?<![&<>])&(?!&)")
_ENDED = lazy(r"(?:[ \t]*[0-9]?>[ \t]*(?:/dev/null|&[0-9]))*[ \t]*(?:&&|\|\||;|\n|$)")


def decide_by_profile(
    profile: SafetyProfile, text: str, verdict: Verdict, cwd: str, workspace: str | None
) -> Decision:
    """What follows from the verdict about a text that is to run in `cwd`; without a `workspace`
    nothing is taken for reversible.
    """
    decision = profile.for_rating(verdict.rating)
    if verdict.rating is not Rating.DANGEROUS or profile.irreversible.rank <= decision.rank:
        return decision
    absolute = os.path.abspath(cwd)  # noqa: PTH100  resolve() would follow links
    gone = workspace is None or is_irreversible(text, verdict, absolute, workspace)
    return profile.irreversible if gone else decision


def is_irreversible(text: str, verdict: Verdict, cwd: str, workspace: str) -> bool:
    """Whether it sends data away, changes the system's files, or destroys data that is not proved
    to be in the workspace, where there is a repository or a build that makes it again.
    """
    dangers = [reason for reason in verdict.reasons if reason.rating is Rating.DANGEROUS]
    if any(reason.code in _GONE for reason in dangers) or _sends_secrets(verdict):
        return True
    destroying = [reason for reason in dangers if reason.code is Code.DESTROYS_DATA]
    if any(_may_be_led_away(one, text, verdict) for one in verdict.commands if destroying):
        return True
    return not all(_stays_inside(reason, verdict, cwd, workspace) for reason in destroying)


def _sends_secrets(verdict: Verdict) -> bool:
    """Whether one text shows credentials and talks to another machine, on whatever way."""
    shows = any(
        it.code is Code.SECRET_READ and it.rating is Rating.DANGEROUS for it in verdict.reasons
    )
    return shows and any(reason.code is Code.NETWORK for reason in verdict.reasons)


def _may_be_led_away(judged: Judged, text: str, verdict: Verdict) -> bool:
    """Whether it is a dangerous `rm`, and what may run before it could put a link on its way."""
    if _name(judged) != "rm" or judged.rating is not Rating.DANGEROUS:
        return False
    here = judged.span
    nested = _NESTED.search(text[: here.start]) or _JOB.search(text)
    in_order = not nested and _ENDED.match(text[here.end :])
    others = (one for one in verdict.commands if not in_order or one.span.start < here.end)
    return not all(map(_makes_no_links, others))


def _makes_no_links(judged: Judged) -> bool:
    known = not judged.wrappers and bool(judged.argv) and judged.argv[0] in _MAKE_NO_LINKS
    return known or (judged.rating is Rating.SAFE and not judged.listed)


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
