"""The lists that come with us as TOML: names and patterns that people can read."""

import re
import tomllib
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from shelltie.regex import regex

_FOLDER = Path(__file__).parent.parent / "data"


@cache
def table(name: str) -> Mapping[str, Any]:
    """One file of lists."""
    return tomllib.loads((_FOLDER / f"{name}.toml").read_text(encoding="utf-8"))


def any_of(patterns: Iterable[str], flags: re.RegexFlag = re.NOFLAG) -> re.Pattern[str]:
    """One pattern for all of them."""
    return regex("|".join(f"(?:{pattern})" for pattern in patterns), flags)
