"""A project with an allowlist and programs of its own, and task contexts in it."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio

from shelltie import Terminal, TerminalError
from shelltie.contexts.allowlist import PROJECT_FILE, find_allowlist
from shelltie.contexts.argument_filter import FilterLevel
from shelltie.contexts.program_access import Access
from shelltie.contexts.registry import Contexts
from shelltie.events import ContextEvent, Event
from shelltie.frontends.mcp.tools.contexts import by_field
from shelltie.frontends.reports import context_report as tasks
from shelltie.frontends.reports.terminal_events import as_terminal_event
from shelltie.settings.all_settings import TaskLimits
from tests.tree import tagged, until

SYSTEM = "/usr/local/bin:/usr/bin:/bin"
ALLOWED = ("echo", "cat", "env", "sleep", "pwd", "head")


class Caller:
    """Asks as a client would, and knows what holds for every answer."""

    def __init__(self, contexts: Contexts, events: list[Event], owner: str = "me") -> None:
        self.contexts = contexts
        self.events = events
        self.owner = owner

    async def __call__(self, name: str, **arguments: object) -> dict[str, Any]:
        with anyio.fail_after(60):
            try:
                given = by_field(f"terminal_{name}", arguments)
                answer = await tasks.CALLS[f"terminal_{name}"](self.contexts, given, self.owner)
            except TerminalError as error:
                answer = tasks.failure(error)
        text = json.dumps(answer, ensure_ascii=False)
        assert "Traceback" not in text
        assert "shelltie/" not in text
        if answer["success"] is False and "exitCode" not in answer:
            assert set(answer) == {"success", "error", "message", "details"}
            assert answer["error"] in tasks.CONTEXT_ERROR_CODES
        return answer

    async def create(self, task: str = "BUILD-001", **more: object) -> str:
        answer = await self("create_session", taskId=task, agentId="agent-1", **more)
        assert answer["success"], answer
        return str(answer["sessionId"])

    async def execute(self, session: str, *words: str, **more: object) -> dict[str, Any]:
        command, *args = words
        asked = {"sessionId": session, "command": command, "args": args, **more}
        return await self("execute_command", **asked)

    async def close(self, session: str) -> dict[str, Any]:
        return await self("close_session", sessionId=session)

    async def status(self, session: str) -> dict[str, Any]:
        answer = await self("get_status", sessionId=session)
        return answer["session"] if answer["success"] else answer

    async def state(self, session: str) -> str:
        return str((await self.status(session))["state"])

    async def until_running(self, session: str, tag: str) -> None:
        """Wait until a command with the tag in its words runs in the session."""
        context = self.contexts.get(session, self.owner)
        await until(lambda: context.running and bool(tagged(tag)))

    def seen(self) -> list[str]:
        """The types of all events, by S4's names."""
        return [str((as_terminal_event(event) or {})["type"]) for event in self.events]


class Project:
    """A directory with an allowlist; what else it needs, a test puts there."""

    def __init__(self, place: Path) -> None:
        self.place = place
        self.bin = place / "bin"
        self.bin.mkdir(parents=True)
        self.file = place / PROJECT_FILE
        self.allow(*ALLOWED)

    def allow(self, *names: str) -> None:
        self.file.parent.mkdir(parents=True, exist_ok=True)
        self.file.write_text(json.dumps(names), encoding="utf-8")

    def tool(self, name: str, body: str, interpreter: str = "/bin/sh") -> Path:
        """A program that is allowed, too."""
        path = self.bin / name
        path.write_text(f"#!{interpreter}\n{body}\n", encoding="utf-8")
        path.chmod(0o755)
        allowed = json.loads(self.file.read_text(encoding="utf-8"))
        self.allow(*allowed, name)
        return path

    def access(self, level: FilterLevel = FilterLevel.DEFAULT) -> Access:
        return Access(find_allowlist(self.place, None), f"{self.bin}:{SYSTEM}", level=level)

    @asynccontextmanager
    async def contexts(
        self,
        terminal: Terminal,
        limits: TaskLimits | None = None,
        level: FilterLevel = FilterLevel.DEFAULT,
        isolation: str = "none",
    ) -> AsyncIterator[Caller]:
        events: list[Event] = []

        def note(event: Event) -> None:
            if isinstance(event, ContextEvent):
                events.append(event)

        terminal.supervisor.bus.subscribe(note)
        async with Contexts(
            terminal.supervisor,
            self.access(level),
            self.place,
            limits or TaskLimits(),
            isolation=isolation,
        ) as contexts:
            yield Caller(contexts, events)
