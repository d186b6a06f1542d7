"""docs/settings.md: every setting, from the source, below a text about files and precedence."""

from collections.abc import Iterator
from itertools import groupby
from pathlib import Path

from shelltie.settings.config import SETTINGS
from shelltie.settings.describe import Description, describe, describe_place
from shelltie.settings.layers import OTHER_NAMES
from shelltie.settings.places import KINDS

PAGE = Path(__file__).resolve().parent.parent / "docs" / "settings.md"
BEGIN = "<!-- settings: written by scripts/settings -->\n"


def render(page: str) -> str:
    """The page as it should be: what stands above the mark is written by hand."""
    above, mark, _ = page.partition(BEGIN)
    assert mark
    return above + BEGIN + "".join(_sections())


def _sections() -> Iterator[str]:
    rows = [describe(key) for key in sorted(SETTINGS, key=lambda key: "." in key)]
    for section, members in groupby(rows, lambda row: _section(row.key)):
        yield f"\n### {section}\n\n"
        yield "| key | meaning | takes | default | a project may | since |\n"
        yield "| --- | --- | --- | --- | --- | --- |\n"
        yield from map(_row, members)
    for kind, record in KINDS.items():
        yield f'\n### places.NAME, kind = "{kind}"\n\n'
        yield "| key | meaning | takes | default |\n"
        yield "| --- | --- | --- | --- |\n"
        yield from (_place_row(about) for about in describe_place(record))


def _section(key: str) -> str:
    return key.partition(".")[0] if "." in key else "without a section"


def _row(about: Description) -> str:
    other = OTHER_NAMES.get(about.key)
    meaning = about.meaning + (f" Also `{other}`." if other else "")
    default = about.default if about.default == "not set" else f"`{about.default}`"
    cells = [f"`{about.key}`", meaning, about.accepts, default, about.project_may, about.since]
    return f"| {' | '.join(cell.replace('|', '&#124;') for cell in cells)} |\n"


def _place_row(about: Description) -> str:
    plain = about.default == "not set" or about.default.startswith("none")
    default = about.default if plain else f"`{about.default}`"
    cells = [f"`{about.key}`", about.meaning, about.accepts, default]
    return f"| {' | '.join(cell.replace('|', '&#124;') for cell in cells)} |\n"
