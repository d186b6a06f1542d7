"""The tables in docs/testing.md that commands write."""

import re
from pathlib import Path

PAGE = Path(__file__).parent.parent / "docs" / "testing.md"
_TABLE = re.compile(r"^\|.*\n(?:\|.*\n)*", re.MULTILINE)


def write_section(title: str, table: str, note: str = "") -> None:
    """Put a table in the place of the one in a section, and a note below it; the rest stays."""
    page = PAGE.read_text(encoding="utf-8") if PAGE.exists() else "# How it is tested\n"
    before, heading, rest = page.partition(f"## {title}\n")
    section, following, after = rest.partition("\n## ")
    text = _TABLE.split(section)[0].strip() if heading else ""
    body = "\n\n".join(part for part in (text, table, note) if part)
    new = f"{before.rstrip()}\n\n## {title}\n\n{body}\n{following}{after}"
    PAGE.write_text(new, encoding="utf-8")
