"""Health of an installed hook: whether its client calls it for shell commands, and can start it."""

import re
import shlex
import shutil
from typing import Any

from shelltie.frontends.clients import json_comments
from shelltie.frontends.clients.registry import NAME, Client
from shelltie.frontends.clients.status import our_hooks

_ALL_OFF = "disableAllHooks"


def why_not_called(client: Client, text: str) -> str | None:
    """Why a hook of ours in that file does not judge each shell command; None if it does."""
    assert client.hooks is not None
    if json_comments.get(text, [_ALL_OFF]) is True:
        return f"{_ALL_OFF} is true there"
    events: Any = json_comments.get(text, ["hooks"])
    for event, wanted in client.hooks.entries([NAME]).items():
        places = [place for place in our_hooks(client, text) if place[0] == event]
        ours = [events[event][place[1]] for place in places]
        if not ours:
            return f"it is not called for {event}"
        tool = wanted.get("matcher")
        if tool is not None and not any(_matches(item.get("matcher"), tool) for item in ours):
            return f"its matcher is {ours[0].get('matcher')!r}, not {tool!r}"
        programs = [one for place in places for one in _programs(events, place)]
        missing = [one for one in programs if shutil.which(one) is None]
        if missing:
            return f"there is no program {missing[0]}"
    return None


def _matches(matcher: object, tool: str) -> bool:
    if matcher in (None, "", "*"):
        return True
    try:
        return re.fullmatch(str(matcher), tool) is not None
    except re.error:
        return False


def _programs(events: Any, place: tuple[str | int, ...]) -> list[str]:  # noqa: ANN401  JSON
    """What a hook of ours there, or each in a group of ours, starts."""
    found = events
    for step in place:
        found = found[step]
    hooks = found.get("hooks", [found])
    commands = [(str(one.get("command")), "args" in one) for one in hooks]
    return [text if whole else _first_word(text) for text, whole in commands]


def _first_word(text: str) -> str:
    try:
        return next(iter(shlex.split(text)), "")
    except ValueError:
        return text
