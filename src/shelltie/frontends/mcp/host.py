"""The SDK's server, with tasks that outlive a request and resources that come and go."""

from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any

import anyio
from anyio.abc import TaskGroup
from mcp.server.lowlevel import NotificationOptions, Server
from mcp.server.models import InitializationOptions
from mcp_types import ServerCapabilities

Chore = Callable[[], Coroutine[Any, Any, None]]


class Host(Server[TaskGroup]):
    """What a handler starts in `context.lifespan_context` lives as long as the server serves."""

    tools_change = False

    def __init__(self, name: str, *chores: Chore, **handlers: Any) -> None:  # noqa: ANN401  the SDK's own
        @asynccontextmanager
        async def lifespan(_: Server[TaskGroup]) -> AsyncIterator[TaskGroup]:
            async with anyio.create_task_group() as tasks:
                for chore in chores:
                    tasks.start_soon(chore)
                yield tasks
                tasks.cancel_scope.cancel()

        super().__init__(name, lifespan=lifespan, **handlers)

    def get_capabilities(
        self,
        notification_options: NotificationOptions | None = None,
        experimental_capabilities: dict[str, dict[str, Any]] | None = None,
        extensions: dict[str, dict[str, Any]] | None = None,
        *,
        protocol_version: str | None = None,
    ) -> ServerCapabilities:
        """As the SDK's, which says of 2026 that whatever can be listened for changes."""
        known = super().get_capabilities(
            notification_options,
            experimental_capabilities,
            extensions,
            protocol_version=protocol_version,
        )
        if known.tools is not None:
            known.tools.list_changed = self.tools_change
        return known

    def create_initialization_options(
        self,
        notification_options: NotificationOptions | None = None,
        experimental_capabilities: dict[str, dict[str, Any]] | None = None,
        extensions: dict[str, dict[str, Any]] | None = None,
    ) -> InitializationOptions:
        """As the SDK's, for transports that do not say what changes."""
        return super().create_initialization_options(
            notification_options or NotificationOptions(resources_changed=True),
            experimental_capabilities,
            extensions,
        )
