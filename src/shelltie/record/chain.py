"""Hash chain (SHA-256): a changed or missing entry of the journal shows. Pure."""

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import field

from shelltie.basics.frozen import frozen, mutable

GENESIS = "0" * 64
TRIMMED = "trimmed"
_PROBLEMS_MAX = 100


@frozen
class ChainEntry:
    """One fact. `at` is in microseconds since 1970, `body` a JSON object on one line."""

    seq: int
    at: int
    server: str
    run: str
    kind: str
    body: str


@frozen
class Head:
    """How far a chain went once, and the hash it had there."""

    seq: int
    hash: str

    def __str__(self) -> str:
        return f"{self.seq}:{self.hash}"


def link(previous: str, entry: ChainEntry) -> str:
    """The hash of an entry that follows the one with the hash `previous`.

    SHA-256 of the seven values, each on a line of its own: any tool can do it again.
    """
    values = (previous, entry.seq, entry.at, entry.server, entry.run, entry.kind, entry.body)
    return hashlib.sha256("\n".join(map(str, values)).encode("utf-8", "surrogatepass")).hexdigest()


def head_of(text: str) -> Head:
    """A head from `SEQ:HASH`.

    Raises: ValueError, with a message for whoever wrote it.
    """
    seq, _, digest = text.strip().partition(":")
    hexadecimal = len(digest) == len(GENESIS) and all(c in "0123456789abcdef" for c in digest)
    if not (seq.isascii() and seq.isdecimal() and len(seq) < 19 and hexadecimal):
        raise ValueError(f"{text.strip()[:90]!r} is no head: write SEQ:HASH as verify prints it")
    return Head(int(seq), digest)


@frozen
class Checked:
    """What a look at a whole chain found. Without `problems` it is as it was written."""

    entries: int
    first: int
    head: Head | None
    problems: tuple[str, ...]
    compared: int = 0  # heads that were kept elsewhere
    older: int = 0  # heads that nothing is left of to compare with
    trimmed: int | None = None  # when the entries before the first were removed, as `at`


@mutable
class _Walk:
    """A walk along a chain, entry by entry."""

    heads: Mapping[int, str]
    problems: list[str] = field(default_factory=list)
    count: int = 0
    first: tuple[ChainEntry, str] | None = None
    last: Head | None = None
    # Through which entry, the hash of that one, and when.
    trims: dict[int, tuple[str, int]] = field(default_factory=dict)
    compared: set[int] = field(default_factory=set)

    def step(self, entry: ChainEntry, digest: str) -> None:
        self.count += 1
        if self.last is None:
            self.first = entry, digest  # what it follows is known when its trim was seen
        elif entry.seq != self.last.seq + 1:
            self._missing(self.last.seq + 1, entry.seq - 1)
        elif link(self.last.hash, entry) != digest:
            self.tell(f"entry {entry.seq} was changed or moved, or the one before it was")
        self._compare(entry.seq, digest)
        if entry.kind == TRIMMED:
            self._note_trim(entry)
        self.last = Head(entry.seq, digest)

    def _note_trim(self, entry: ChainEntry) -> None:
        try:
            said = json.loads(entry.body)
            through, digest = int(said["through"]), str(said["hash"])
        except (ValueError, KeyError, TypeError):
            self.tell(f"entry {entry.seq} does not say what was trimmed")
        else:
            self.trims[through] = digest, entry.at
            if self.first is not None and through < self.first[0].seq:
                self._compare(through, digest)

    def _compare(self, seq: int, digest: str) -> None:
        kept = self.heads.get(seq)
        if kept is None:
            return
        self.compared.add(seq)
        if kept != digest:
            self.tell(f"entry {seq} is not the one that was kept elsewhere: it was rewritten")

    def end(self) -> None:
        if self.first is not None:
            self._check_first(*self.first)
        last = 0 if self.last is None else self.last.seq
        cut = max((seq for seq in self.heads if seq > last), default=None)
        if cut is not None:
            self.tell(f"the end is cut off: entry {cut} was there, and the last one is {last}")
        if self.heads and not self.compared and cut is None:
            self.tell(
                f"of what was kept elsewhere nothing can be compared: all of it is older than entry"
                f" {self.begin}, the first one here"
            )

    @property
    def begin(self) -> int:
        return 0 if self.first is None else self.first[0].seq

    @property
    def trimmed(self) -> int | None:
        found = self.trims.get(self.begin - 1)
        return None if found is None else found[1]

    def _check_first(self, entry: ChainEntry, digest: str) -> None:
        before = entry.seq - 1
        previous = GENESIS if before == 0 else self.trims.get(before, (None,))[0]
        if previous is None:
            self._missing(1, before)
        elif link(previous, entry) != digest:
            self.tell(f"entry {entry.seq}, the first, was changed")

    def _missing(self, start: int, end: int) -> None:
        one = start == end
        self.tell(f"entry {start} is missing" if one else f"entries {start} to {end} are missing")

    def tell(self, problem: str) -> None:
        if len(self.problems) < _PROBLEMS_MAX:
            self.problems.append(problem)


def check(entries: Iterable[tuple[ChainEntry, str]], heads: Iterable[Head] = ()) -> Checked:
    """Whether each entry follows from the one before it, up to `heads` that were kept elsewhere.

    `entries` come in order, each with its hash. The chain alone cannot tell that its end was cut
    off, or that all of it was written anew: for this somebody has to have kept a head.
    """
    walk = _Walk({head.seq: head.hash for head in heads})
    for entry, digest in entries:
        walk.step(entry, digest)
    walk.end()
    return Checked(
        entries=walk.count,
        first=walk.begin,
        head=walk.last,
        problems=tuple(walk.problems),
        compared=len(walk.compared),
        older=sum(seq < walk.begin and seq not in walk.compared for seq in walk.heads),
        trimmed=walk.trimmed,
    )
