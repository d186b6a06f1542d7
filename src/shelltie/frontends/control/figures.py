"""Figures on the socket: what a server has counted and measured, and whether all is well."""

from shelltie.frontends.control.peer import Peer
from shelltie.frontends.control.server import Perform
from shelltie.frontends.control.wire import Fields
from shelltie.running.watchers import Measures


def commands(measures: Measures | None) -> dict[str, Perform]:
    """What the socket can do about figures."""

    async def metrics(_: Peer, __: Fields) -> Fields:
        return {"metrics": [] if measures is None else measures.to_json()}

    async def health(_: Peer, __: Fields) -> Fields:
        return {"checks": [] if measures is None else measures.health()}

    return {"metrics": metrics, "health": health}
