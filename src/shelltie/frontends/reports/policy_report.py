"""JSON of the timeout policy."""

from shelltie.limits.policy_file import PolicyFile


def policy_report(file: PolicyFile) -> dict[str, object]:
    """The policy in force, and what is wrong with its file."""
    policy = file.current()
    return {
        "file": file.origin,
        "status": file.status,
        "problems": list(file.problems),
        "categories": {
            name: {
                "description": one.description,
                "execSec": one.total,
                "silenceSec": one.silence,
                "patterns": [e.pattern.text for e in policy.patterns if e.category == name],
            }
            for name, one in policy.categories.items()
        },
        "defaultCategory": policy.default_category,
        "matchStrategy": policy.match_strategy,
        "maxExecSec": policy.max_total,
        "commandTimeouts": dict(policy.command_timeouts),
    }
