"""What was measured, as rows of one table. Pure."""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

_TIMES = "\N{MULTIPLICATION SIGN}"


class Of(StrEnum):
    """Which number of a row a goal speaks of."""

    RATIO = "ratio"
    OURS = "ours"
    MORE = "more"  # ours beyond the floor


@dataclass(frozen=True, slots=True)
class Goal:
    """A number that is to be reached."""

    of: Of
    number: float
    at_least: bool = False


@dataclass(frozen=True, slots=True)
class Row:
    """One comparison; `floor` is the least that could do the same, measured in the same run."""

    what: str
    unit: str
    ours: float
    floor: float | None = None
    ours_p95: float | None = None
    floor_p95: float | None = None
    goal: Goal | None = None

    @property
    def ratio(self) -> float | None:
        """Ours against the floor."""
        return self.ours / self.floor if self.floor else None

    @property
    def met(self) -> bool | None:
        """Whether the goal is reached, if there is one."""
        if self.goal is None:
            return None
        value = self._value(self.goal.of)
        return value >= self.goal.number if self.goal.at_least else value <= self.goal.number

    def _value(self, of: Of) -> float:
        match of:
            case Of.RATIO:
                assert self.ratio is not None
                return self.ratio
            case Of.OURS:
                return self.ours
            case Of.MORE:
                return self.ours - (self.floor or 0.0)

    def to_json(self) -> dict[str, object]:
        """The row for programs."""
        return {
            "what": self.what,
            "unit": self.unit,
            "floor": self.floor,
            "floorP95": self.floor_p95,
            "ours": self.ours,
            "oursP95": self.ours_p95,
            "ratio": self.ratio,
            "goal": self._goal(),
            "met": self.met,
        }

    def cells(self) -> tuple[str, ...]:
        """The row for people."""
        return (
            self.what,
            self._figure(self.floor, self.floor_p95),
            self._figure(self.ours, self.ours_p95),
            "" if self.ratio is None else f"{self.ratio:.2f} {_TIMES}",
            self._goal() or "",
            {True: "met", False: "missed", None: ""}[self.met],
        )

    def _figure(self, value: float | None, p95: float | None) -> str:
        if value is None:
            return ""
        return f"{_short(value)} {self.unit}" + (f", p95 {_short(p95)}" if p95 is not None else "")

    def _goal(self) -> str | None:
        if self.goal is None:
            return None
        sign = "≥" if self.goal.at_least else "≤"
        unit = {Of.RATIO: _TIMES, Of.OURS: self.unit, Of.MORE: f"{self.unit} more"}[self.goal.of]
        return f"{sign} {self.goal.number:g} {unit}"


def table(rows: Iterable[Row]) -> str:
    """A table in Markdown, with aligned columns."""
    lines = [("what", "floor", "ours", "ratio", "goal", "met"), *(row.cells() for row in rows)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    lines.insert(1, tuple("-" * width for width in widths))
    return "\n".join("| " + " | ".join(map(str.ljust, line, widths)) + " |" for line in lines)


def _short(value: float) -> str:
    return f"{value:.0f}" if abs(value) >= 100 else f"{value:.3g}"
