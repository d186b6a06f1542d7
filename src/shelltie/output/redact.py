"""Redaction of secrets in output, also across chunk boundaries. Pure."""

import re
from collections.abc import Iterator, Mapping, Sequence

from shelltie.basics.frozen import mutable
from shelltie.basics.lazy_regex import lazy
from shelltie.model import Stream
from shelltie.output.secret_shapes import (
    HEAD_MAX,
    KEY_BEGIN,
    KEY_BODY,
    KEY_END,
    KEY_LINE,
    KEY_MAX,
    SHAPES,
    TAIL_MAX,
    Spelling,
    spellings,
)
from shelltie.output.secret_variable_names import (
    is_everyday_word,
    is_path_to_secret,
    is_secret_name,
)
from shelltie.output.store import Excerpt, Store

_CONTEXT = 32  # what heads look back at
NEAR = KEY_MAX  # characters around a piece of text that may belong to a secret in it
_BEGUN = 8  # characters of a value that tell which one it will be
_SEARCH_NEAR = 200
_MARK = "[REDACTED:assigned]"
_KEY_NEAR = 200  # a private key without an end has its first line here
# Code says such things all the time: this is for records only.
_VALUE = r"(?P<value>(?!\[REDACTED:|[$<{(\-])[^\s\"',;&|)}\]]{4,})"
_TIGHT = lazy(_VALUE.replace("{4,}", "{3,}"))
_LOOSE = lazy(_VALUE)
# Without the value: if this name is no secret's, there may be another one in it: `env:TOKEN=x`.
_ASSIGNED = lazy(r"(?<![\w.-])(?P<name>[\w.-]{1,100})(?P<given>[\"']?\s?[:=]\s?[\"']?)")
_FLAG = lazy(
    r"(?<![\w-])(?P<name>--(?!(?:no|skip|with|without|disable|enable)-)[\w-]{1,100})"
    r"(?P<given> [\"']?)"
)
# What it is called or where it is. What is secret in an address, or follows a header, has a shape.
_NO_VALUE = lazy(
    r"(?:file|path|dir|name|id|(?<!hook)(?<!hook[_-])ur[il])s?$|authorization$", re.IGNORECASE
)
_SEARCH = lazy(r"\b(?:[efz]?grep|rg|ag|ack)(?: -[\w-]{1,40}){0,8} $")
# `-u` is a login for these; for `date` it is the time zone, for `docker run` a user.
_LOGIN = lazy(
    r"(?P<name>(?:\b(?:curl|wget|svn|jfrog|(?:mysql|mariadb)[\w-]{0,16})(?: [^|;&\n]{0,200}?)?"
    r" (?:-[a-zA-Z]{0,8}u ?|--(?:proxy-)?user[ =])"
    r"|\b(?:docker|podman|nerdctl|buildah) (?:(?!curl )[^|;&\n]){0,200}?--user[ =](?P<group>)"
    r"|--(?:proxy-)?user[ =])"
    rf"[\"']?[^\s:\"']{{1,64}}:)(?!\d+\b){_VALUE}"
)

# Programs whose short option is a password: for some only if nothing is between them.
_SHORT = lazy(
    r"(?P<name>\b(?:(?:mysql|mariadb)[\w-]{0,16}(?: [^|;&\n]{0,200}?)? -p"
    r"|7z[ar]?(?: [^|;&\n]{0,200}?)? -p"
    r"|sshpass(?: [^|;&\n]{0,80}?)? -p ?"
    r"|mongo(?:sh|dump|restore|export|import)?(?: [^|;&\n]{0,200}?)? -p ?"
    r"|redis-cli(?: [^|;&\n]{0,200}?)? -a ?"
    r"|ldap(?:search|add|modify|delete|whoami|compare|passwd)(?: [^|;&\n]{0,200}?)? -w ?"
    r"|(?:un)?zip(?: [^|;&\n]{0,200}?)? -P ?"
    r"|openssl [^|;&\n]{0,200}?-pass(?:in|out)? [\"']?pass:"
    r"|smbclient(?: [^|;&\n]{0,200}?)? -U ?[\"']?[^\s%\"']{1,64}%"
    r"|(?:docker|podman|nerdctl|buildah|skopeo|oras|helm registry|az acr)(?: [\w-]{1,16})? login"
    r"(?: [^|;&\n]{0,200}?)? -p[ =]?))"
    r"(?:'[^'\n]{1,200}'|\"[^\"$\n]{1,200}\"|(?!\[REDACTED:|[$<{(\-])[^\s\"',;&|)}\]]+)"
)


@mutable
class _Region:
    """A secret in the text; as long as it has a `tail`, its end is not known."""

    start: int
    rank: int
    kind: str
    end: int
    tail: re.Pattern[str] | None = None

    def extend(self, text: str, *, final: bool) -> None:
        while self.tail is not None and (final or len(text) - self.end >= TAIL_MAX):
            match = self.tail.match(text, self.end)
            if match is None:
                self.tail = None
            else:
                self.end = match.end()


class Redactor:
    """Knows the values of secrets by their names; `[REDACTED:name]` then stands for each.

    Give it text as people see it: a colour in the middle of a secret hides the secret from us.
    """

    def __init__(self, values: Mapping[str, str] | None = None) -> None:
        self._known = spellings(values or {})

    def text(self, text: str) -> str:
        """The whole text without secrets."""
        return self.stream().finish(text) if text else text

    def pieces(
        self, text: str, bounds: Sequence[tuple[int, int]], *, goes_on: bool = False
    ) -> list[str]:
        """Pieces of a text without secrets, also without those that only begin or end in them.

        If the text `goes_on`, it may end with the beginning of a value that we know.
        """
        found = [*self.stream().regions(text), *(self._begun(text) if goes_on else ())]
        return ["".join(_outside(text, start, end, found)) for start, end in bounds]

    def _begun(self, text: str) -> Iterator["_Region"]:
        end = len(text)
        for known in self._known:
            longest = min(len(known.text) - 1, end)
            for size in range(longest, _BEGUN - 1, -1):
                if text.endswith(known.text[:size]):
                    yield _Region(end - size, 0, known.name, end)
                    break

    def stream(self) -> "Redaction":
        """For text that arrives in pieces."""
        return Redaction(self._known)

    def audit(self, text: str) -> str:
        """For records: also what is given to a name that sounds secret."""
        text = self.text(text)
        if "=" in text or ":" in text:
            text = "".join(_without_assigned(text, _ASSIGNED))
        if "--" not in text and not ("-" in text and " " in text):
            return text  # before anything is compiled
        text = "".join(_without_assigned(text, _FLAG))
        text = _LOGIN.sub(_login, text)
        return _SHORT.sub(rf"\g<name>{_MARK}", text)


def _without_assigned(text: str, pattern: re.Pattern[str]) -> Iterator[str]:
    """The text, with a mark for each value that is given to a name of a secret."""
    done = at = 0
    while match := pattern.search(text, at):
        at = match.end("name")
        if not _is_given_to_secret(match):
            continue
        value = (_TIGHT if match["given"] == "=" else _LOOSE).match(text, match.end())
        if value is None:
            continue
        at = value.end()
        if not is_path_to_secret(match["name"], value[0]):
            yield text[done : match.end()] + _MARK
            done = at
    yield text[done:]


def _is_given_to_secret(match: re.Match[str]) -> bool:
    name = match["name"].lstrip("-")
    if not is_secret_name(name) or _NO_VALUE.search(name):
        return False
    if is_everyday_word(name) and name not in ("token", "cookie"):
        return False
    before = match.string[max(0, match.start() - _SEARCH_NEAR) : match.start()]
    return not (match["given"] == ": " and _SEARCH.search(before))


def _login(match: re.Match[str]) -> str:
    """For `docker run` it is a user and a group."""
    return match[0] if match["group"] is not None else f"{match['name']}{_MARK}"


def _outside(text: str, start: int, end: int, regions: Sequence[_Region]) -> Iterator[str]:
    """What is in no region between two places, and a mark for each that is there."""
    at = start
    for region in regions:
        if region.end <= at or region.start >= end:
            continue
        if region.start >= at or at == start:
            yield text[at : max(at, region.start)]
            yield f"[REDACTED:{region.kind}]"
        at = region.end
    yield text[at:end]


class Redaction:
    """Takes text in any pieces and gives it back without secrets, a few KB later."""

    def __init__(self, known: Sequence[Spelling]) -> None:
        self._known = known
        self._text = ""  # a little that was given back, and then what was not
        self._done = 0  # how long that little is
        self._due = 2 * HEAD_MAX  # how much there must be before it is worth a look
        self._regions: list[_Region] = []
        self._covered = 0  # what was found ends here

    def feed(self, text: str) -> str:
        """Take the next piece; returns what has become certain."""
        self._text += text
        if len(self._text) < self._due:
            return ""
        return self._advance(len(self._text) - HEAD_MAX, final=False)

    def finish(self, text: str = "") -> str:
        """Take the last piece; returns the rest."""
        self._text += text
        return self._advance(len(self._text), final=True)

    def regions(self, text: str) -> list[_Region]:
        """Where secrets are in a whole text."""
        self._text = text
        self._locate(len(text), final=True)
        return self._regions

    def _locate(self, limit: int, *, final: bool) -> int:
        keys, limit = self._find_keys(limit, final=final)
        self._regions += [*keys, *self._find(limit)]
        self._regions.sort(key=lambda region: (region.start, region.rank))
        self._extend(final=final)
        return limit

    def _advance(self, limit: int, *, final: bool) -> str:
        limit = self._locate(limit, final=final)
        shown = "".join(self._shown(limit))
        self._forget(limit)
        return shown

    def _find(self, limit: int) -> Iterator[_Region]:
        for rank, known in enumerate(self._known):
            at = self._text.find(known.text, self._done)
            while 0 <= at < limit:
                yield _Region(at, rank, known.name, at + len(known.text), known.tail)
                at = self._text.find(known.text, at + 1)
        for rank, shape in enumerate(SHAPES, len(self._known)):
            for start, end in shape.regions(self._text, self._done, limit):
                yield _Region(start, rank, shape.kind, end, shape.tail)

    def _find_keys(self, limit: int, *, final: bool) -> tuple[list[_Region], int]:
        """Private keys, and a lower limit if the end of one may still come."""
        keys: list[_Region] = []
        begin = KEY_BEGIN.search(self._text, self._done)
        while begin is not None and begin.start() < limit:
            following = KEY_BEGIN.search(self._text, begin.end(), begin.start() + KEY_MAX)
            last = following.start() if following else begin.start() + KEY_MAX
            end = KEY_END.search(self._text, begin.end(), last)
            if end is None and last > len(self._text) and not final:
                return keys, begin.start()
            if end is not None and KEY_BODY.search(self._text, begin.end(), end.start()):
                keys.append(_Region(begin.start(), -1, "private_key", end.end()))
            elif KEY_BODY.search(self._text, begin.end(), begin.end() + _KEY_NEAR):
                keys.append(_Region(begin.start(), -1, "private_key", begin.end(), KEY_LINE))
            begin = KEY_BEGIN.search(self._text, begin.end())
        return keys, limit

    def _extend(self, *, final: bool) -> None:
        """Find out where regions end. Those inside another one that goes on alike end with it."""
        reached: dict[re.Pattern[str], int] = {}
        for region in self._regions:
            if region.tail is not None and region.end <= reached.get(region.tail, 0):
                region.tail = None
            elif region.tail is not None:
                tail = region.tail
                region.extend(self._text, final=final)
                reached[tail] = max(reached.get(tail, 0), region.end)

    def _shown(self, limit: int) -> Iterator[str]:
        """Everything up to the limit that is in no region, and a mark where a region begins."""
        for region in self._regions:
            if region.start >= limit:
                break
            if region.start >= max(self._done, self._covered):
                yield self._text[max(self._done, self._covered) : region.start]
                yield f"[REDACTED:{region.kind}]"
            self._covered = max(self._covered, region.end)
        yield self._text[max(self._done, self._covered) : limit]

    def _forget(self, limit: int) -> None:
        cut = max(0, limit - _CONTEXT)
        self._text = self._text[cut:]
        self._done = limit - cut
        self._due = len(self._text) + HEAD_MAX
        self._covered = max(0, self._covered - cut)
        self._regions = [r for r in self._regions if r.end > limit or r.tail is not None]
        for region in self._regions:
            region.start -= cut
            region.end -= cut


def both_ends(
    output: Store, stream: Stream | None, head: int, tail: int, redactor: Redactor | None
) -> Excerpt:
    """The first and last bytes of a stream, without halves of secrets where they are cut."""
    part = output.view(stream, head, tail)
    if redactor is None or not part.omitted:
        return part
    wide = output.view(stream, head + NEAR, tail + NEAR)
    first, last = (wide.head, wide.tail) if wide.omitted else (wide.head + wide.tail,) * 2
    start = len(last) - len(part.tail)
    return Excerpt(
        _piece(first, 0, len(part.head), redactor),
        _piece(last, start, len(last), redactor),
        part.omitted,
        part.total,
    )


def _piece(data: bytes, start: int, end: int, redactor: Redactor) -> bytes:
    # A byte is a character here, so that the places are the same.
    (piece,) = redactor.pieces(data.decode("latin-1"), [(start, end)])
    return piece.encode("latin-1", "replace")
