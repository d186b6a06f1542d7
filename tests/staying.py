"""Ends what a test has left to stay."""

from pathlib import Path

import anyio

from shelltie.keeper.stay_folder import TOKEN, StayFolder
from shelltie.providers.staying import StayingProvider


def end_what_stays(folder: Path) -> None:
    """Whatever has a keeper below this folder."""
    for token in folder.rglob(f"stay/*/{TOKEN}"):
        anyio.run(_end, token.parent)


async def _end(place: Path) -> None:
    await StayingProvider(StayFolder(place.parent), lease=1, bound=0).end(place.name)
