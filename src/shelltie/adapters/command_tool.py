"""Command tool: what a model calls to run a command, and the text that it reads about the run.

Frameworks whose agents call functions (LangChain, pydantic-ai, Claude Agent SDK, smolagents) share
it; each of them wraps it in a tool of its own kind.
"""

from pathlib import Path
from typing import Self, Unpack

from shelltie.approval.broker import LATER, Callback, Later
from shelltie.approval.question import Answer, Question
from shelltie.basics.frozen import frozen, replace
from shelltie.errors import ConfirmationRequired, TerminalError
from shelltie.frontends.api import Options, Terminal, parse_options
from shelltie.frontends.reports.run_report import Result, printed_text, report
from shelltie.frontends.reports.text_for_models import run_text
from shelltie.model import Caller
from shelltie.running.options import Requester
from shelltie.settings.config import Config
from shelltie.settings.layers import load

DESCRIPTION = (
    "Run a shell command and wait for its end. Each call is a shell of its own: directory and"
    " variables do not stay. Everything the command started is ended with it, also what it put in"
    " the background. The answer has its output, shortened if it is long, and how it ended."
    " timeout is in seconds; without it the time limit fits the kind of command."
)
SHOWN = 30_000  # bytes of output in an answer


@frozen
class ToolAnswer:
    """What a model reads about its call; without a `result` the command was refused."""

    text: str
    failed: bool
    result: Result | None = None


class CommandTool:
    """Runs commands for a model; use it as `async with`: nothing it started outlives it.

    `options` hold for every command. `framework` is named in the record. `approve` is asked about
    commands that need a yes.
    """

    def __init__(
        self,
        framework: str,
        config: Config | None = None,
        shown: int = SHOWN,
        approve: Callback | None = None,
        **options: Unpack[Options],
    ) -> None:
        self._framework = framework
        config = config or load(Path.cwd())
        self._terminal = Terminal(config, approve=approve, caller=Caller(client=framework))
        self._redact = config.output.redact
        self._shown = shown
        # The model reads one text, and two pipes would lose the order of its lines.
        self._options: Options = {"one_output": True, **options}
        if options.get("workspace") is None and options.get("cwd") is not None:
            self._options["workspace"] = options["cwd"]

    async def __aenter__(self) -> Self:
        await self._terminal.__aenter__()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._terminal.__aexit__()

    async def call(self, command: str, timeout: float | None = None) -> ToolAnswer:
        """Run it. What needs a yes waits for a person, as anywhere; a refusal is an answer, too."""
        try:
            return await self._run(command, timeout, Requester(self._caller))
        except TerminalError as error:
            return _refused(error)

    async def call_or_defer(
        self, command: str, timeout: float | None = None, *, approved: bool
    ) -> ToolAnswer:
        """The same where the framework asks its person itself, and calls again when it is approved.

        Raises: ConfirmationRequired if it is not `approved` and needs that; then nothing was run.
        """
        channel = _FrameworkChannel(self._framework, approved=approved)
        try:
            return await self._run(command, timeout, Requester(self._caller, channel))
        except ConfirmationRequired:
            raise
        except TerminalError as error:
            return _refused(error)

    @property
    def _caller(self) -> Caller:
        return Caller(client=self._framework)

    async def _run(self, command: str, timeout: float | None, requester: Requester) -> ToolAnswer:
        options = self._options if timeout is None else {**self._options, "timeout": timeout}
        run = await self._terminal.supervisor.run(*parse_options(command, options, requester))
        # The tool has no isolation to choose, so it does not tell how to choose another.
        result = replace(report(run, self._shown, redact=self._redact), outside=None)
        printed = printed_text(run, self._shown, redact=self._redact)
        return ToolAnswer(run_text(result, printed), result.failed, result)


class _FrameworkChannel:
    """The framework's own way to a person: there is a yes already, or the call comes again."""

    can_ask = True

    def __init__(self, framework: str, *, approved: bool) -> None:
        self.name = framework
        self._approved = approved

    async def ask(self, _: Question) -> Answer | Later:
        """See `Channel`."""
        return Answer(allowed=True, by=self.name) if self._approved else LATER


def question_of(asked: ConfirmationRequired) -> dict[str, object]:
    """What a person should read before saying yes, for the framework's own dialogue."""
    verdict = asked.verdict
    reasons = [reason.message for reason in verdict.reasons] if verdict is not None else []
    rating = str(verdict.rating) if verdict is not None else "unknown"
    return {"rating": rating, "reasons": reasons, "question": asked.details.get("question")}


def _refused(error: TerminalError) -> ToolAnswer:
    return ToolAnswer(f"[not run: {error}]", failed=True)
