"""TerminalService as a plugin, for programs that put services and a chat together."""

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from shelltie.errors import ConfigWrong
from shelltie.frontends import about
from shelltie.frontends.service import TerminalService
from shelltie.frontends.service_config import SCHEMA
from shelltie.frontends.service_tools import ServiceTool, tools_of


class Chat(Protocol):
    """Where tools are offered to a model."""

    def add_tools(self, tools: Sequence[ServiceTool]) -> None:
        """Offer these, too."""
        ...


class App(Protocol):
    """What holds the services."""

    def add_service(self, service: TerminalService) -> None:
        """Take a service in; its `run` and `stop` are the program's to call."""
        ...

    def when_service(self, name: str, then: Callable[[Chat], None]) -> None:
        """Call `then` with the service of that name as soon as there is one, if there ever is."""
        ...


class TerminalPlugin:
    """What a program installs."""

    name = "shelltie"
    version = about.version()
    description = TerminalService.description
    config_schema: Mapping[str, object] = {
        "type": "object",
        "properties": {"terminal": SCHEMA},
    }

    def install(self, app: App, config: Mapping[str, object]) -> TerminalService | None:
        """Add the service if `config` has a section for it, and its tools once there is a chat.

        Raises: ConfigWrong.
        """
        given = config.get("terminal")
        if given is None:
            return None
        if not isinstance(given, Mapping):
            raise ConfigWrong(f"terminal must be a table, not {given!r}")
        service = TerminalService(given)
        app.add_service(service)
        app.when_service("chat", lambda chat: chat.add_tools(tools_of(service)))
        return service
