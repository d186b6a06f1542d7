"""Modal dialogs of `shelltie top`: the card of a question, asking back, the list of keys."""

import textwrap
import time
from collections.abc import Callable, Iterable, Sequence

from textual import events
from textual.app import ComposeResult
from textual.containers import Vertical, VerticalScroll
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import Static

from shelltie.approval.always import KEYS, offered_scopes, shown_rule
from shelltie.approval.card import card_lines, hides_danger
from shelltie.approval.kind_rules import shown_kind
from shelltie.approval.question import Answer, Pending, Scope
from shelltie.basics import visible_text
from shelltie.frontends.cli.top import table

Styled = Callable[[Iterable[table.Part]], Content]

_LOOK = 0.25  # seconds
_WIDEST = 104
_MARGIN = 6  # columns of the frame
_TALLEST = 16  # lines that are read at once
_ROOMY = 16  # rows of a terminal in which there is an empty line before the answers
_NAMES = {"y": "once", "s": "this session", "a": "always", "k": "its kind"}
_FRAME = """
    align: center middle;
    background: ansi_default;
    & > Vertical {
        width: 100%; max-width: 104; height: auto; max-height: 100%;
        border: round ansi_default; padding: 0 1; background: ansi_default;
    }
    & VerticalScroll { height: auto; scrollbar-size-vertical: 1; }
    & Static { height: auto; }
"""
_HELP = """\
j k ↓ ↑       next and previous row; g G first and last
enter         follow the output of a run; esc leaves
a d           allow or deny what waits: shows the card and asks back
x             end a run: SIGTERM, after its grace SIGKILL; asks back
X             end a run with SIGKILL at once; asks back
+             5 minutes more for both limits of a run
/             show only what has a text in it; esc shows everything
q             quit; what runs goes on

The bar drains to the next limit that ends a run. It is amber when
shelltie has warned, and red in the last ten seconds."""


def limit_height(scroll: VerticalScroll, below: str) -> None:
    """Leave room for the text below: what is cut off by the screen cannot be scrolled to."""
    width, height = scroll.app.size
    lines = (
        [
            textwrap.wrap(line, max(1, min(width, _WIDEST) - _MARGIN + 2)) or [""]
            for line in below.split("\n")
        ]
        if below
        else []
    )
    scroll.styles.max_height = max(1, min(_TALLEST, height - 2 - sum(map(len, lines))))


def scroll_by(scroll: VerticalScroll, key: str) -> bool:
    """Whether the key scrolls, which it then did."""
    if key in ("up", "pageup"):
        scroll.scroll_page_up(animate=False)
    elif key in ("space", "pagedown", "down"):
        scroll.scroll_page_down(animate=False)
    else:
        return False
    return True


class KeyList(ModalScreen[None]):
    """What each key does, until one is pressed that does not scroll."""

    CSS = f"KeyList {{ {_FRAME} }}"

    def compose(self) -> ComposeResult:
        self._scroll = VerticalScroll(Static(Content(_HELP)))
        yield Vertical(self._scroll)

    def on_resize(self) -> None:
        limit_height(self._scroll, "")

    def on_key(self, event: events.Key) -> None:
        """All others leave."""
        event.stop()
        if not scroll_by(self._scroll, event.key):
            self.dismiss()


class AskBack(ModalScreen[bool]):
    """Whether it is meant: only `y` is a yes."""

    CSS = f"AskBack {{ {_FRAME} }}"

    def __init__(self, prompt: str, lines: Sequence[str]) -> None:
        super().__init__()
        self._below = f"\n{prompt}\n[y] yes  [esc] leave it"
        self._lines = lines

    def compose(self) -> ComposeResult:
        width = self.app.size.width - _MARGIN
        shown = [part for line in self._lines for part in table.folded(line, width)]
        self._scroll = VerticalScroll(Static(Content("\n".join(shown))))
        yield Vertical(self._scroll, Static(Content(self._below)))

    def on_resize(self) -> None:
        limit_height(self._scroll, self._below)

    def on_key(self, event: events.Key) -> None:
        """One answers, or scrolls."""
        event.stop()
        if not scroll_by(self._scroll, event.key):
            self.dismiss(event.key == "y")


class QuestionCard(ModalScreen[Answer | None]):
    """Everything that a yes is bound to, and the keys that answer; without an answer nothing.

    A yes counts when the end of the card has been on the screen.
    """

    CSS = f"QuestionCard {{ {_FRAME} }}"

    def __init__(
        self, pending: Pending, row: Callable[[], table.Row | None], styled: Styled, *, allow: bool
    ) -> None:
        super().__init__()
        self._pending = pending
        self._row = row  # as it is listed by now, if it is
        self._styled = styled
        self._allow = allow
        self._kept: Scope | None = None  # the rule that is asked back about
        # Kept by us: when the card is left, a query for them would find nothing.
        self._shown, self._answers = Static(), Static()
        self._scroll = VerticalScroll(self._shown)

    def on_resize(self) -> None:
        # Room for the longest of all answers, so that the card does not move when they change.
        limit_height(self._scroll, f"{self._gap()}{self._offer()}\nno in 0:00")

    def compose(self) -> ComposeResult:
        yield Vertical(self._scroll, self._answers)

    def on_mount(self) -> None:
        self._shown.update(Content("\n").join(self._card()))
        self.set_interval(_LOOK, self._look)
        self.call_after_refresh(self._look)

    def _width(self) -> int:
        return max(1, min(self.app.size.width, _WIDEST) - _MARGIN)

    def _gap(self) -> str:
        return "\n" * (self.app.size.height >= _ROOMY)

    def _card(self) -> Iterable[Content]:
        question, width = self._pending.question, self._width()
        full = hides_danger(question, width=width)
        for line in card_lines(question, now=time.time(), width=width, full=full):
            yield self._styled([(line.text, line.style)])
        if self._pending.late:
            yield Content("  its caller no longer waits; a yes lets it repeat the call")

    def _look(self) -> None:
        """Whether it still waits, and what may be answered by now."""
        row = self._row()
        if row is None:
            self.notify(
                f"{self._pending.question.id} was settled elsewhere, or its time is over.",
                markup=False,
            )
            self.dismiss(None)
            return
        left = table.until_no(row, time.time())
        keys = f"{self._gap()}{self._keys()}"
        self._answers.update(
            self._styled([(keys, "bold"), (f"\n{left}" if left else "", "yellow")])
        )

    def _keys(self) -> str:
        if self._kept is not None:
            return "Keep this rule?  [y] yes  [esc] back"
        if not self._seen():
            return "▼ more below: space, then answer  [n] deny  [esc] leave it"
        if not self._allow:
            return "Deny it?  [y] yes, deny  [esc] leave it"
        return self._offer()

    def _offer(self) -> str:
        scopes = offered_scopes(self._pending.question)
        told = (f"[{key}] {_NAMES[key]}" for key, scope in KEYS.items() if scope in scopes)
        return "  ".join(("Allow it?", *told, "[n] deny", "[esc] leave it"))

    def _seen(self) -> bool:
        """Whether the end of the card has been on the screen, which may be too small for any."""
        scroll, shown = self._scroll, self._shown.size
        on_screen = scroll.region.bottom < self.app.size.height and shown.width * shown.height > 0
        at_end = scroll.scroll_target_y >= scroll.max_scroll_y
        return self._kept is not None or (on_screen and at_end)

    def on_key(self, event: events.Key) -> None:
        """One answers, or scrolls."""
        if scroll_by(self._scroll, event.key):
            pass
        elif self._kept is not None:
            self._answer_rule(event.key, self._kept)
        elif event.key == "escape":
            self.dismiss(None)
        elif event.key == "n" or (event.key == "y" and not self._allow):
            self.dismiss(Answer(allowed=False))
        elif self._allow and self._seen():
            self._allow_by(event.key)
        event.stop()
        self.call_after_refresh(self._look)

    def _allow_by(self, key: str) -> None:
        scope = KEYS.get(key)
        question = self._pending.question
        if scope not in offered_scopes(question):
            return
        if scope in (Scope.ONCE, Scope.SESSION):
            self.dismiss(Answer(allowed=True, scope=scope))
            return
        kind = question.kind
        rule = shown_kind(kind) if scope is Scope.KIND and kind else shown_rule(question)
        self._kept = scope
        shown = "\n".join(("kept as", *visible_text.lines(rule.strip(), self._width())))
        self._shown.update(Content(shown))

    def _answer_rule(self, key: str, scope: Scope) -> None:
        if key == "y":
            self.dismiss(Answer(allowed=True, scope=scope))
        elif key == "escape":
            self._kept = None
            self._shown.update(Content("\n").join(self._card()))
