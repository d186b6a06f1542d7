"""README.md as a list of what somebody does who reads it: its blocks of code, in their order."""

import re
from dataclasses import dataclass
from pathlib import Path

README = Path(__file__).resolve().parent.parent / "README.md"


@dataclass(frozen=True)
class Block:
    """Some code: its language, the heading above it, and its lines."""

    section: str
    language: str
    lines: tuple[str, ...]

    @property
    def commands(self) -> list[tuple[str, list[str]]]:
        """Each command without its comment, and what the page says that it prints."""
        if self.language == "sh":
            return [(line.split("  #")[0].strip(), []) for line in self.lines]
        found: list[tuple[str, list[str]]] = []
        for line in self.lines:
            if line.startswith("$ "):
                found.append((line[2:], []))
            else:
                found[-1][1].append(line)
        return found


def blocks(text: str) -> list[Block]:
    """Every fenced block. Code that is only indented would escape the test: there may be none."""
    found, section = [], ""
    pattern = r"^(?:## (?P<section>[^\n]+)|```(?P<language>\w*)\n(?P<code>.*?)^```)$"
    for match in re.finditer(pattern, text, re.MULTILINE | re.DOTALL):
        if match["section"]:
            section = match["section"]
        else:
            found.append(Block(section, match["language"], tuple(match["code"].splitlines())))
    return found


def prose(text: str) -> str:
    """All but the fenced blocks."""
    return re.sub(r"^```.*?^```$", "", text, flags=re.MULTILINE | re.DOTALL)


def inline_commands(text: str) -> list[str]:
    """The commands of ours that stand in the middle of sentences."""
    return re.findall(r"`(shelltie [^`]+)`", prose(text))
