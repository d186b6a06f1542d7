"""Textual app of `shelltie top`: every run and question, live, and the keys that steer them."""

import signal
import time
from collections.abc import Iterable, Mapping
from functools import partial
from pathlib import Path
from socket import socket
from typing import ClassVar

import anyio
from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.content import Content
from textual.widget import Widget
from textual.widgets import Input, Static

from shelltie.approval.question import Answer, Question
from shelltie.basics import visible_text
from shelltie.errors import NoServerAnswer
from shelltie.frontends.cli.top import table
from shelltie.frontends.cli.top.dialogs import AskBack, KeyList, QuestionCard
from shelltie.frontends.cli.top.output import RunOutput
from shelltie.frontends.control.async_client import ask
from shelltie.frontends.control.live_rows import LiveRows
from shelltie.frontends.control.question_row import from_json

_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
_REDRAW = 0.25  # seconds
_MORE = 300  # seconds by which limits are extended
_EMPTY = "Nothing runs. What your agents run through shelltie appears here by itself."
_FOUND_NOTHING = "Nothing that runs has this text in it; esc shows everything again."
_KEYS_LINE = "enter output  a allow  d deny  x end  + 5 min more  / filter  ? keys  q quit"
_PLACEHOLDER = "text of a command, agent or directory"
_COLOURS = {"red": "ansi_red", "yellow": "ansi_yellow", "green": "ansi_green"}


class TopApp(App[None]):
    """What runs and what waits, until `q`."""

    TITLE = "shelltie"
    ENABLE_COMMAND_PALETTE = False
    CSS = """
    Screen { layers: base; background: ansi_default; color: ansi_default; }
    RunTable { height: 1fr; }
    #head, #about, #keys { height: auto; }
    #keys { text-style: dim; }
    #filter { display: none; height: 1; border: none; padding: 0; }
    Toast { max-width: 100%; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("j,down", "move(1)"),
        Binding("k,up", "move(-1)"),
        Binding("pagedown", "move(10)"),
        Binding("pageup", "move(-10)"),
        Binding("home,g", "move(-1000000)"),
        Binding("end,G", "move(1000000)"),
        Binding("slash", "filter"),
        Binding("escape", "clear_filter"),
        Binding("a", "answer(True)"),
        Binding("d", "answer(False)"),
        Binding("x", "end(False)"),
        Binding("X", "end(True)"),
        Binding("plus", "extend"),
        Binding("enter", "output"),
        Binding("question_mark", "keys"),
        Binding("q,ctrl+c", "quit"),
    ]

    def __init__(
        self,
        live: LiveRows,
        listeners: Mapping[Path, socket],
        *,
        plain: bool = False,
        why_not: str | None = None,
        home: str = "",
    ) -> None:
        # The colours of the terminal itself, which is dark or light as its owner likes it.
        super().__init__(ansi_color=True)
        self.theme = "ansi-dark"
        self.live = live
        self.home = home
        self.selected: str | None = None
        self.text = ""  # that is looked for
        self.plain = plain
        self._listeners = listeners
        self._why_not = why_not  # nobody may steer from here
        live.steered = why_not is None
        # Kept by us: while the app leaves, a query for them would find nothing.
        self._head, self._about = Static(id="head"), Static(id="about")
        self._table = RunTable()
        self._asked = Input(placeholder=_PLACEHOLDER, id="filter", compact=True)

    async def show(self) -> None:
        """Until `q`, or a signal: in both cases the terminal is left as it was."""

        async def leave_by_signal() -> None:
            with anyio.open_signal_receiver(*_SIGNALS) as arriving:
                async for _ in arriving:
                    self.exit()

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(leave_by_signal)
            await self.run_async()
            tasks.cancel_scope.cancel()

    def compose(self) -> ComposeResult:
        yield from (self._head, self._table, self._about, self._asked)
        yield Static(Content(_KEYS_LINE), id="keys")

    def on_mount(self) -> None:
        self._table.focus()
        self.run_worker(self.live.watch(self._listeners))
        self.set_interval(_REDRAW, self.redraw)
        self.redraw()

    def redraw(self) -> None:
        """Show everything as it is by now."""
        questions, runs = table.by_age(self.live.rows, self.text)
        if self.selected not in (*questions, *runs):
            self.selected = next(iter((*questions, *runs)), None)
        live = sum(not self.live.rows[key].get("ended") for key in runs)
        self._head.update(self.styled(self._heading(live, len(questions))))
        self._table.questions, self._table.runs = questions, runs
        self._table.refresh()
        row = self.live.rows.get(self.selected or "")
        width = self.size.width
        lines = [] if row is None else table.describe(row, time.time(), width)
        self._about.update(self.stack(lines))

    def _heading(self, live: int, waiting: int) -> table.Line:
        servers = len(self.live.servers)
        counts = f" · {live} running · {servers} server{'s' * (servers != 1)}"
        found = f" · with {visible_text.brief(self.text, 20)!r}" if self.text else ""
        waits = f" {waiting} wait{'s' * (waiting == 1)} for you: a, d "
        problems = {
            str(row.get("problem")) for row in self.live.rows.values() if row.get("problem")
        }
        return [
            ("shelltie", "bold"),
            (counts + found, ""),
            *([("  ", ""), (waits, "reverse")] if waiting else []),
            *((f"  {visible_text.inline(problem)}", "red") for problem in sorted(problems)),
        ]

    def styled(self, parts: Iterable[table.Part], more: str = "") -> Content:
        """Text in the colours of the terminal; in none where none are wanted."""
        made = []
        for text, style in parts:
            known = "" if self.plain and style in _COLOURS else _COLOURS.get(style, style)
            made.append((text, f"{known} {more}".strip()))
        return Content.assemble(*made)

    def stack(self, lines: Iterable[table.Line]) -> Content:
        """The same, line by line."""
        return Content("\n").join(self.styled(line) for line in lines)

    def tell(self, text: str, *, bad: bool = False) -> None:
        """Say what became of something."""
        self.notify(
            visible_text.inline(text), severity="error" if bad else "information", markup=False
        )

    # Keys

    def action_move(self, by: int) -> None:
        """Select another row."""
        keys = [*self._table.questions, *self._table.runs]
        if keys:
            at = keys.index(self.selected) if self.selected in keys else 0
            self.selected = keys[max(0, min(len(keys) - 1, at + by))]
            self.redraw()

    def action_filter(self) -> None:
        """Show only what has a text in it."""
        self._asked.display = True
        self._asked.focus()

    def on_input_changed(self, changed: Input.Changed) -> None:
        """Show what fits by now."""
        self.text = changed.value
        self.redraw()

    def on_input_submitted(self) -> None:
        """Back to the list."""
        self._asked.display = False
        self._table.focus()

    def action_clear_filter(self) -> None:
        """Show everything again."""
        self._asked.value = ""
        self.on_input_submitted()

    def action_keys(self) -> None:
        """Say what each key does."""
        self.push_screen(KeyList())

    def action_output(self) -> None:
        """Follow what the selected run prints; of a question, show the card."""
        key = self.selected or ""
        if key.startswith("question/"):
            self.action_answer(allow=True)
        elif (row := self.live.rows.get(key)) is not None:
            self.push_screen(RunOutput(self.live, key, row))

    def action_answer(self, allow: bool) -> None:
        """Show the card of the selected question, or of the oldest, and ask for the answer."""
        questions = self._table.questions
        key = self.selected if self.selected in questions else next(iter(questions), None)
        if key is None:
            self.tell("Nothing waits for an answer.")
        elif self._may_steer():
            self.selected = key
            self.run_worker(self._show_card(key, allow=allow), exit_on_error=True)

    async def _show_card(self, key: str, *, allow: bool) -> None:
        """As it is now, not as it was listed: a yes is for the digest of what is on the card."""
        said = await self.ask_server(key, "pending", id=key.rpartition("/")[2])
        match said:
            case None:
                pass
            case {"questions": [dict(row), *_]}:
                pending = from_json(row)
                card = QuestionCard(
                    pending, lambda: self.live.rows.get(key), self.styled, allow=allow
                )
                self.push_screen(card, partial(self._answer, key, pending.question))
            case _:
                self.tell("This question has been settled elsewhere.")

    def _answer(self, key: str, question: Question, answer: Answer | None) -> None:
        if answer is not None:
            self.run_worker(self._send_answer(key, question, answer), exit_on_error=True)

    async def _send_answer(self, key: str, question: Question, answer: Answer) -> None:
        bound = {"id": question.id, "digest": question.digest, "allowed": answer.allowed}
        taken = await self.ask_server(key, "answer", **bound, scope=answer.scope)
        if taken is None:
            return
        said = f"allowed, {taken.get('scope')}" if taken.get("allowed") else "denied"
        late = taken.get("late") and taken.get("allowed")
        note = taken.get("note") or (
            "its caller has left: the call may be repeated" if late else ""
        )
        self.tell(f"{question.id} {said}. {note}".rstrip())

    def action_end(self, hard: bool) -> None:
        """Ask back, and end the selected run."""
        row = self.live.rows.get(self.selected or "", {})
        if not (self.selected or "").startswith("run/") or (
            row.get("ended") and not row.get("left")
        ):
            self.tell("Select something that runs.")
        elif self._may_steer():
            how = "with SIGKILL, at once" if hard else "with SIGTERM, after its grace with SIGKILL"
            prompt = f"End it and all its processes, {how}?"
            lines = [str(row.get("command") or ""), f"in {row.get('cwd') or ''}"]
            self.push_screen(
                AskBack(prompt, lines), partial(self._end, key=str(self.selected), hard=hard)
            )

    def _end(self, yes: bool | None, *, key: str, hard: bool) -> None:
        if yes:
            self.run_worker(self._kill(key, hard=hard), exit_on_error=True)

    async def _kill(self, key: str, *, hard: bool) -> None:
        name = key.rpartition("/")[2]
        said = await self.ask_server(key, "kill", ids=[name], hard=hard)
        match said:
            case None:
                pass
            case {"runs": [{"settled": True}, *_]}:
                self.tell(f"{name} has ended, nobody is left.")
            case {"runs": [{"left": [_, *_] as left}, *_]}:
                self.tell(f"{name}: {left} are left although SIGKILL was sent.", bad=True)
            case {"runs": []}:
                self.tell(f"{name} had ended already.")
            case _:
                self.tell(f"{name} is being ended, and takes its time.")

    def action_extend(self) -> None:
        """Make both limits of the selected run longer."""
        key = self.selected or ""
        if not key.startswith("run/") or self.live.rows.get(key, {}).get("ended"):
            self.tell("Select something that runs.")
        elif self._may_steer():
            self.run_worker(self._extend(key), exit_on_error=True)

    async def _extend(self, key: str) -> None:
        name = key.rpartition("/")[2]
        if await self.ask_server(key, "extend", id=name, seconds=_MORE) is not None:
            self.tell(f"{name} has 5 minutes more.")

    def _may_steer(self) -> bool:
        if self._why_not is not None:
            self.tell(f"Only a person may do this: {self._why_not}", bad=True)
        return self._why_not is None

    async def ask_server(self, key: str, do: str, **fields: object) -> dict[str, object] | None:
        """What the server of a row says; nothing, after saying why, where it does not do it."""
        server = None
        try:
            server = await self.live.server_of(key)
            if server is None:
                self.tell("Its server has ended, and what it ran with it.", bad=True)
                return None
            return await ask(server.path, do, **fields)
        except NoServerAnswer as error:
            gone = "Its server has ended, and what it ran with it."
            self.tell(str(error) if error.reply else gone, bad=True)
            return None
        finally:
            if server is not None:
                self.live.look_again(server)


class RunTable(Widget, can_focus=True):
    """Questions at the top, always in view, and the runs below; a window that the cursor moves."""

    def __init__(self) -> None:
        super().__init__()
        self.questions: list[str] = []
        self.runs: list[str] = []

    def render(self) -> Content:
        """As many rows as there is room for."""
        app = self.app
        assert isinstance(app, TopApp)
        width, height = self.size
        lines = [app.styled([(table.fit("WAITING FOR YOU", width), "bold")])] * bool(self.questions)
        lines += self._window(app, self.questions, max(1, height // 3))
        lines.append(app.styled(table.heading(width)))
        lines += self._window(app, self.runs, height - len(lines))
        if not self.runs:
            told = _FOUND_NOTHING if app.text else _EMPTY
            lines += [
                Content(""),
                app.styled([(line, "dim") for line in table.folded(told, width)[:1]]),
            ]
        return Content("\n").join(lines[:height])

    def _window(self, app: TopApp, keys: list[str], room: int) -> list[Content]:
        keys = [key for key in keys if key in app.live.rows]  # it may have gone since
        at = keys.index(app.selected) if app.selected in keys else 0
        start = max(0, min(at - room // 2, len(keys) - room))
        return [self._line(app, key) for key in keys[start : start + room]]

    def _line(self, app: TopApp, key: str) -> Content:
        row, now, width = app.live.rows[key], time.time(), self.size.width
        who = table.asker(row, app.live.rows.get(f"server/{key.split('/')[1]}"))
        if key.startswith("question/"):
            line = table.question_line(row, who, now, width)
        else:
            line = table.run_line(row, who, now, width, app.home)
        if key == app.selected:
            line = [("> " + line[0][0][2:], line[0][1]), *line[1:]]
        return app.styled(line, "reverse" if key == app.selected else "")
