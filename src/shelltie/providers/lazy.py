"""Lazy import of a provider or of views, when a command first asks for one."""

from collections.abc import Callable
from functools import cached_property
from typing import Any

from shelltie.model import Bar, Isolation
from shelltie.providers.provider import Needs, Provider


class LazyProvider:
    """Stands for the provider of that name, which `make` imports and makes."""

    def __init__(self, name: str, isolation: Isolation, make: Callable[[], Provider]) -> None:
        self.name = name
        self.isolation = isolation
        self._make = make

    @cached_property
    def _provider(self) -> Provider:
        return self._make()

    @property
    def made(self) -> Any:  # noqa: ANN401  what it is, only its module knows
        """The provider itself."""
        return self._provider

    @property
    def bars(self) -> frozenset[Bar]:
        """See `Provider`."""
        return self._provider.bars

    async def ready(self, workspace: str) -> None:
        """See `Provider`."""
        await self._provider.ready(workspace)

    @property
    def spawn(self) -> Any:  # noqa: ANN401  the method itself, so that no call lies between
        """See `Provider`."""
        return self._provider.spawn

    @property
    def open_trial(self) -> Any:  # noqa: ANN401  as above; only one that has sandboxes has it
        """See `BubblewrapProvider`."""
        return self._provider.open_trial  # type: ignore[attr-defined]

    @property
    def enter_overlay(self) -> Any:  # noqa: ANN401  as above
        """See `BubblewrapProvider`."""
        return self._provider.enter_overlay  # type: ignore[attr-defined]

    @property
    def files(self) -> Any:  # noqa: ANN401  as above; not every provider has it
        """See `FileProvider`."""
        return self._provider.files  # type: ignore[attr-defined]

    async def close(self) -> None:
        """See `Provider`."""
        if "_provider" in self.__dict__:
            await self._provider.close()


class LazyViews:
    """Stands for read-only views, which `make` imports and makes."""

    def __init__(self, make: Callable[[], Any]) -> None:
        self._make = make

    @cached_property
    def _views(self) -> Any:  # noqa: ANN401  what it is, only its module knows
        return self._make()

    async def enter(self, needs: Needs, cwd: str) -> Provider | None:
        """See `Views`."""
        provider: Provider | None = await self._views.enter(needs, cwd)
        return provider

    async def close(self) -> None:
        """See `Views`."""
        if "_views" in self.__dict__:
            await self._views.close()
