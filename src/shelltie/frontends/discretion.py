"""What may be seen of a piece of output: secrets are kept back, whole and in halves."""

from typing import Self

from shelltie.frozen import frozen
from shelltie.output.redact import NEAR, Redactor
from shelltie.output.screen import Shown
from shelltie.output.text import clean
from shelltie.running.session import Session


@frozen
class Discretion:
    """Knows secrets, and what was printed just `before` the piece that is shown."""

    redactor: Redactor
    before: str = ""

    @classmethod
    def about(cls, session: Session, start: int) -> Self:
        """For what a session printed from this place on."""
        before = session.text(max(0, start - NEAR), start)
        return cls(Redactor(session.run.surroundings.secrets), before)

    def head(self, text: str, shown: int, *, goes_on: bool) -> str:
        """The first characters of a text; what comes after them may belong to a secret, too."""
        first = len(self.before)
        around = self.before + text[: shown + NEAR]
        (piece,) = self.redactor.pieces(around, [(first, first + shown)], goes_on=goes_on)
        return piece

    def screen(self, shown: Shown, columns: int) -> str:
        """A secret that is too long for a row goes on in the next."""
        text, bounds = "", []
        for row in shown.text.split("\n"):
            bounds.append((len(text), len(text) + len(row)))
            text += row if len(row) == columns else f"{row}\n"
        return "\n".join(self.redactor.pieces(text, bounds))


def visible(
    text: str, shown: int, discretion: Discretion | None, *, raw: bool, goes_on: bool = False
) -> str:
    """The first characters of a text; if it `goes_on`, more of it will be printed."""
    told = text[:shown]
    if discretion is not None:
        told = discretion.head(text, shown, goes_on=goes_on and shown == len(text))
    if raw:
        return told
    cleaned = clean(told.encode("utf-8", "surrogateescape"))
    # Once more: what was between the characters of a secret, such as a colour, is gone now.
    return cleaned if discretion is None else discretion.redactor.text(cleaned)
