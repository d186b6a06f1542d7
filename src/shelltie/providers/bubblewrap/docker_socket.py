"""Docker socket of a read-only view: only what `docker` would find by itself is offered there.

Where the user's configuration leads to another engine, or says how lists look, it is not.
"""

import json
from pathlib import Path


def is_elsewhere(path: str | None, home: Path) -> bool:
    """Whether variables, which give no `path`, or the user's configuration steer docker."""
    config = home / ".docker/config.json"
    try:
        told = json.loads(config.read_bytes()) if config.exists() else {}
    except (OSError, ValueError):
        return True
    if not isinstance(told, dict):
        return True
    context = told.get("currentContext", "default")
    return path is None or context != "default" or any(key.endswith("Format") for key in told)
