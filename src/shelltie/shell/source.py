"""A shell text as the shell reads it: continued lines joined, every place remembered. Pure."""

from bisect import bisect_left, bisect_right
from collections.abc import Sequence

from shelltie.frozen import frozen
from shelltie.regex import regex
from shelltie.verdict import Span

_BEFORE_NEWLINE = regex(r"(?<!\\)\\++\n")


@frozen
class Source:
    """`text` is `whole` without its line continuations.

    `places` says where a character of `text` stands in the text that was asked about, `inward`
    where it stands in `whole`; both have one entry more, for the end. `breaks` are the indexes in
    `text` in front of which a continuation was taken out.
    """

    text: str
    places: Sequence[int]
    whole: str
    inward: Sequence[int]
    breaks: tuple[int, ...] = ()

    def span(self, start: int, end: int) -> Span:
        """Where `text[start:end]` stands in the text that was asked about."""
        begin = self.places[start]
        return Span(begin, self.places[end - 1] + 1 if end > start else begin)

    def verbatim(self, start: int, end: int) -> str:
        """`text[start:end]` as it was written: where `\\⏎` is no continuation."""
        if not self.breaks:
            return self.text[start:end]
        return self.whole[self.inward[start - 1] + 1 : self.inward[end]]

    def line_end(self, start: int) -> int:
        """The end of the line as it was written, not as it was joined."""
        newline = self.text.find("\n", start)
        end = len(self.text) if newline < 0 else newline
        following = bisect_right(self.breaks, start)
        return min(end, *self.breaks[following : following + 1], end)

    def index_of(self, in_whole: int) -> int:
        """The index in `text` of a character of `whole`."""
        return bisect_left(self.inward, in_whole)

    def part(self, start: int, end: int) -> "Source":
        """A piece of it, read on its own."""
        return source_of(self.text[start:end], self.places[start : end + 1])


def source_of(whole: str, places: Sequence[int]) -> Source:
    """Joins what bash joins: a newline after an odd number of backslashes goes with the last one.

    It does so everywhere; in single quotes, comments and quoted here-documents, where bash does
    not, the reader asks for `verbatim` and `line_end`.
    """
    cuts = [
        found.end() - 2
        for found in _BEFORE_NEWLINE.finditer(whole)
        if (found.end() - found.start()) % 2 == 0
    ]
    if not cuts:
        return Source(whole, places, whole, range(len(whole) + 1))
    starts, ends = [0, *(cut + 2 for cut in cuts)], [*cuts, len(whole)]
    pieces = list(zip(starts, ends, strict=True))
    inward = [at for start, end in pieces for at in range(start, end)] + [len(whole)]
    breaks = tuple(cut - 2 * nth for nth, cut in enumerate(cuts))
    text = "".join(whole[start:end] for start, end in pieces)
    return Source(text, [places[at] for at in inward], whole, inward, breaks)
