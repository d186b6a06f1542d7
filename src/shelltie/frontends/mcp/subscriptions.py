"""Resource subscriptions: coalesced (debounce) `resources/updated`, once a second at most.

Before 2026 a client subscribes to one resource after the other, and its connection is told. Since
then it listens: the answer to its request is the stream of what it wants to hear.
"""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import field
from typing import Any

import anyio
from mcp.server.lowlevel import Server
from mcp.server.session import ServerSession
from mcp.server.subscriptions import (
    InMemorySubscriptionBus,
    ListenHandler,
    ResourcesListChanged,
    ResourceUpdated,
)
from mcp.shared.exceptions import MCPError
from mcp_types import (
    INVALID_PARAMS,
    EmptyResult,
    ListResourcesResult,
    ListResourceTemplatesResult,
    PaginatedRequestParams,
    ReadResourceRequestParams,
    ReadResourceResult,
    SubscribeRequestParams,
    SubscriptionsListenRequestParams,
    SubscriptionsListenResult,
    UnsubscribeRequestParams,
)
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from shelltie.basics.frozen import mutable
from shelltie.frontends.mcp.request import RequestContext, owner_of
from shelltie.frontends.mcp.resources import POLICY, RUNS, TEMPLATES, ClientResources
from shelltie.frontends.mcp.tasks_extension import must_declare

_PAUSE = 1.0  # seconds between two words about the same thing
_TAKES = 1.0  # for a client to read one; else it is dropped, as the next one says the same
_URIS_MAX = 100  # of one connection
_CONNECTIONS_MAX = 200  # a dead one is not told from one that has nothing to say
_LIST = ""  # stands for the list of all resources

_log = logging.getLogger(__name__)


@mutable
class _Connection:
    """A client from before 2026, and what it wants to hear about."""

    owner: str
    session: ServerSession
    handshake: object  # one for each connection; kept, so that its identity is nobody else's
    uris: set[str] = field(default_factory=set)


@mutable
class _Streams:
    """All streams of one owner."""

    bus: InMemorySubscriptionBus
    handler: ListenHandler
    open: int = 0


class Subscriptions:
    """Who wants to hear of what. Nobody hears anything about what is not theirs."""

    def __init__(self, resources: ClientResources) -> None:
        self._resources = resources
        self._connections: dict[int, _Connection] = {}
        self._streams: dict[str, _Streams] = {}
        self._watched: set[tuple[str, str]] = set()
        self._changed: set[tuple[str, str]] = set()
        self._news = anyio.Event()

    # What happened

    def changed(self, owner: str, uri: str) -> None:
        """What this is about can be read anew."""
        self._changed.add((owner, uri))
        self._news.set()

    def list_changed(self, owner: str) -> None:
        """Sessions came or went."""
        self.changed(owner, _LIST)

    def ran(self, owner: str) -> None:
        """A run has ended. Commands follow the policy, so this is when it is looked at."""
        self.changed(owner, RUNS)
        if self._resources.policy_changed():
            for everybody in {*self._streams, *(one.owner for one in self._connections.values())}:
                self.changed(everybody, POLICY)

    async def deliver(self) -> None:
        """Tell whoever wants to hear, for ever."""
        while True:
            await self._news.wait()
            self._news = anyio.Event()
            changed, self._changed = self._changed, set()
            async with anyio.create_task_group() as tasks:
                for owner, uri in changed:
                    tasks.start_soon(self._tell, owner, uri)
            await anyio.sleep(_PAUSE)

    async def _tell(self, owner: str, uri: str) -> None:
        if owner in self._streams:
            event = ResourceUpdated(uri) if uri else ResourcesListChanged()
            await self._streams[owner].bus.publish(event)
        for one in tuple(self._connections.values()):
            if one.owner == owner and uri in one.uris:
                with anyio.move_on_after(_TAKES):
                    await _send(one.session, uri)

    # Before 2026

    def lists(self, context: RequestContext) -> None:
        """Whoever has read the list wants to know when it is out of date."""
        self._connection(context).uris.add(_LIST)

    async def subscribe(
        self, context: RequestContext, params: SubscribeRequestParams
    ) -> EmptyResult:
        """Have a connection told of one resource.

        Raises: MCPError if it is not there, or there are too many.
        """
        owner, one = owner_of(context), self._connection(context)
        self._resources.must_have(params.uri, owner, context.protocol_version)
        if len(one.uris) >= _URIS_MAX:
            one.uris = {uri for uri in one.uris if not uri or self._resources.has(uri, owner)}
        if len(one.uris) >= _URIS_MAX:
            raise MCPError(INVALID_PARAMS, f"{_URIS_MAX} resources are subscribed to already")
        one.uris.add(params.uri)
        self._watch(owner, params.uri)
        return EmptyResult()

    async def unsubscribe(
        self, context: RequestContext, params: UnsubscribeRequestParams
    ) -> EmptyResult:
        """The opposite; it is no error if it was never subscribed to."""
        self._connection(context).uris.discard(params.uri)
        return EmptyResult()

    def _connection(self, context: RequestContext) -> _Connection:
        session = context.session
        handshake = session.client_params
        one = self._connections.get(id(handshake))
        if one is None:
            one = _Connection(owner_of(context), session, handshake)
            self._connections[id(handshake)] = one
            if len(self._connections) > _CONNECTIONS_MAX:
                del self._connections[next(iter(self._connections))]
        return one

    # Since 2026

    async def listen(
        self, context: RequestContext, params: SubscriptionsListenRequestParams
    ) -> SubscriptionsListenResult:
        """Serve one stream. What is not the client's own is not in what is acknowledged."""
        owner, wanted = owner_of(context), params.notifications
        if "taskIds" in (wanted.model_extra or {}):  # and then they may, which is not done here
            must_declare(context)
        asked = (wanted.resource_subscriptions or [])[:_URIS_MAX]
        known = [uri for uri in asked if self._resources.has(uri, owner)]
        for uri in known:
            self._watch(owner, uri)
        others = dict.fromkeys(("tools_list_changed", "prompts_list_changed"))  # never do
        theirs = wanted.model_copy(update={"resource_subscriptions": known, **others})
        with self._stream(owner) as serve:
            return await serve(context, params.model_copy(update={"notifications": theirs}))

    @contextmanager
    def _stream(self, owner: str) -> Iterator[ListenHandler]:
        streams = self._streams.get(owner)
        if streams is None:
            bus = InMemorySubscriptionBus()
            streams = self._streams[owner] = _Streams(bus, ListenHandler(bus))
        streams.open += 1
        try:
            yield streams.handler
        finally:
            streams.open -= 1
            if not streams.open:
                del self._streams[owner]

    def _watch(self, owner: str, uri: str) -> None:
        """Have a session say when it prints. Others say themselves when they change."""
        session, key = self._resources.session(uri, owner), (owner, uri)
        if session is None or session.complete or key in self._watched:
            return
        self._watched.add(key)

        def printed(*_: object) -> None:
            self.changed(owner, uri)

        def ended() -> None:
            self._watched.discard(key)
            self.changed(owner, uri)

        session.run.on_output.append(printed)
        session.run.on_ended.append(ended)


async def _send(session: ServerSession, uri: str) -> None:
    try:
        await (session.send_resource_updated(uri) if uri else session.send_resource_list_changed())
    except Exception:  # noqa: BLE001  the trouble of one client is nobody else's
        _log.debug("a client could not be told of a change", exc_info=True)


def add_resources(
    server: Server[Any], resources: ClientResources, subscriptions: Subscriptions
) -> None:
    """Have a server offer them."""

    async def listed(
        context: RequestContext, _: PaginatedRequestParams | None
    ) -> ListResourcesResult:
        if context.protocol_version not in MODERN_PROTOCOL_VERSIONS:
            subscriptions.lists(context)
        return ListResourcesResult(resources=resources.of(owner_of(context)))

    async def templates(
        _: RequestContext, __: PaginatedRequestParams | None
    ) -> ListResourceTemplatesResult:
        return ListResourceTemplatesResult(resource_templates=TEMPLATES)

    async def read(
        context: RequestContext, params: ReadResourceRequestParams
    ) -> ReadResourceResult:
        content = resources.read(params.uri, owner_of(context), context.protocol_version)
        return ReadResourceResult(contents=[content])

    add = server.add_request_handler
    add("resources/list", PaginatedRequestParams, listed)
    add("resources/templates/list", PaginatedRequestParams, templates)
    add("resources/read", ReadResourceRequestParams, read)
    add("resources/subscribe", SubscribeRequestParams, subscriptions.subscribe)
    add("resources/unsubscribe", UnsubscribeRequestParams, subscriptions.unsubscribe)
    add("subscriptions/listen", SubscriptionsListenRequestParams, subscriptions.listen)
