"""Blocked writes and hosts: what an isolated command tried outside, by its error messages. Pure.

The kernel tells nobody of a write that it refuses: fanotify sees none, a seccomp listener would
stop every system call that names a file, and an overlay over the whole machine would let such a
write seem to succeed. So what a program keeps to itself is not known.
"""

import os
import re
from collections.abc import Iterable, Iterator, Sequence

from shelltie.basics.frozen import frozen
from shelltie.basics.lazy_regex import lazy
from shelltie.model import Bar, RefusedHost

_MOST = 10  # of each
_READ_ONLY = lazy(r"read-only file ?system|EROFS|device or resource busy|EBUSY", re.IGNORECASE)
_DENIED = lazy(r"permission denied|EACCES", re.IGNORECASE)
_WRITING = lazy(
    r"\b(?:create|creat|write|writing|touch|remove|unlink|mkdir|rename|move|delete|save)\b",
    re.IGNORECASE,
)
_QUOTED = lazy(r"['\"\u2018`]([^'\"\u2019`\s][^'\"\u2019`]*)['\"\u2019]")
_BEFORE_REASON = lazy(
    r"(\S+): (?:read-only|device or|permission denied|EROFS|EBUSY|EACCES)", re.IGNORECASE
)
_ABSOLUTE = lazy(r"(?<![\w.~/-])(/[\w.+@/-]+)")
_NAME = r"['\"\u2018]?([\w-]+(?:\.[\w-]+)+|\[?[0-9a-f]*:[0-9a-f:]+\]?)"
_HOSTS = (
    lazy(rf"could(?:n't| not) resolve (?:host(?:name)?:? |proxy:? )?{_NAME}", re.IGNORECASE),
    lazy(rf"unable to resolve host(?: address)? {_NAME}", re.IGNORECASE),
    lazy(rf"failure resolving {_NAME}", re.IGNORECASE),
    lazy(rf"(?:ENOTFOUND|EAI_AGAIN|ENETUNREACH|EHOSTUNREACH) {_NAME}"),
    lazy(rf"\bhost={_NAME}', port=\d"),
    lazy(rf"\blookup {_NAME}(?: on |:)"),
    lazy(rf"UnknownHostException: {_NAME}"),
    lazy(rf"(?:failed|unable) to connect to {_NAME}", re.IGNORECASE),
    lazy(rf"{_NAME}: (?:temporary failure in name|name or service not known)", re.IGNORECASE),
    lazy(rf"{_NAME}(?: port \d+| \(\S+\)|:\d+)?:? .{{0,40}}network is unreachable", re.IGNORECASE),
)
_OWN = lazy(r"localhost|127\.|::1|\[::1|0\.0\.0\.0")
_BY_OUTPUT = "known by what it printed: what it tried without a word is not"
_NO_NETWORK = "it had no network, so of the hosts that it wanted only those are known that it named"


@frozen
class TriedOutside:
    """Files it was kept from writing, hosts from reaching, and how far that is known."""

    writes: tuple[str, ...]
    hosts: tuple[str, ...]
    note: str

    @property
    def told(self) -> str:
        """In a sentence."""
        wanted = [f"to write {', '.join(self.writes)}"] if self.writes else []
        wanted += [f"to reach {', '.join(self.hosts)}"] if self.hosts else []
        tried = f"It tried {' and '.join(wanted)} ({self.note})" if wanted else self.note
        return f"{tried[0].upper()}{tried[1:]}."


def tried_outside(
    said: str, blocked: Sequence[Bar], refused: Sequence[RefusedHost], cwd: str
) -> TriedOutside | None:
    """By what it `said` last in that directory, what `blocked` it, and which hosts its proxy has
    `refused`; nothing, where it tried nothing.
    """
    writes = _first(_writes(said, cwd))
    offline = Bar.NETWORK in blocked
    hosts = _first(one.host for one in refused) or (_first(_hosts(said)) if offline else ())
    if not writes and not hosts and not offline:
        return None
    notes = [_BY_OUTPUT] if writes else []
    notes += [_NO_NETWORK] if offline else []
    notes += ["the proxy refused it"] if refused and not writes else []
    return TriedOutside(writes, hosts, "; ".join(notes))


def _writes(said: str, cwd: str) -> Iterator[str]:
    for line in said.splitlines():
        if _READ_ONLY.search(line) or (_DENIED.search(line) and _WRITING.search(line)):
            paths = _QUOTED.findall(line) or _BEFORE_REASON.findall(line) or _ABSOLUTE.findall(line)
            if paths:
                yield os.path.normpath(os.path.join(cwd, paths[-1]))  # noqa: PTH118  of a text


def _hosts(said: str) -> Iterator[str]:
    for line in said.splitlines():
        found = (pattern.search(line) for pattern in _HOSTS)
        yield from (match[1].lower() for match in found if match and not _OWN.match(match[1]))


def _first(found: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(found))[:_MOST]
