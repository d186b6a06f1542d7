"""requirements/run.lock: the part of dev.lock that shelltie needs itself, and to be built."""

import re
import tomllib
from contextlib import suppress
from importlib import metadata
from pathlib import Path

from packaging.requirements import Requirement

ROOT = Path(__file__).resolve().parent.parent
DEV, RUN = ROOT / "requirements" / "dev.lock", ROOT / "requirements" / "run.lock"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))


def normal(name: str) -> str:
    """The name of a distribution as indexes compare it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def entries(lock: Path) -> dict[str, str]:
    """Each pinned distribution with its lines: the version and the hashes."""
    blocks = re.split(r"^(?=\w)", lock.read_text(encoding="utf-8"), flags=re.MULTILINE)
    return {normal(block.split("==")[0]): block for block in blocks if "==" in block}


def render() -> str:
    """The lock as it should be, from dev.lock and from what is installed by it."""
    wanted = [*PROJECT["project"]["dependencies"], *PROJECT["build-system"]["requires"]]
    pinned = entries(DEV)
    needed: dict[str, None] = {}
    _add_needed(wanted, frozenset(), pinned, needed)
    return "".join(pinned[name] for name in sorted(needed))


def _add_needed(
    texts: list[str], extras: frozenset[str], pinned: dict[str, str], needed: dict[str, None]
) -> None:
    """Add all that these requirements lead to, on every system that dev.lock is for."""
    for requirement in map(Requirement, texts):
        name, marker = normal(requirement.name), requirement.marker
        optional = marker is not None and "extra" in str(marker)
        if name not in pinned or (optional and not _holds(requirement, extras)):
            continue
        if name not in needed or requirement.extras:
            needed[name] = None
            with suppress(metadata.PackageNotFoundError):  # it is for another system
                of_this = metadata.requires(name) or []
                _add_needed(of_this, frozenset(requirement.extras), pinned, needed)


def _holds(requirement: Requirement, extras: frozenset[str]) -> bool:
    assert requirement.marker is not None
    return any(requirement.marker.evaluate({"extra": extra}) for extra in extras)
