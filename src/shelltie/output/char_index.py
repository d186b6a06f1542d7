"""UTF-8 character offsets ↔ byte offsets, for readers who count characters. Pure."""

from bisect import bisect_left, bisect_right

from shelltie.output.text import decoder

_EVERY = 64 * 1024  # bytes between two known places: what a reader decodes in vain, at most


class Characters:
    """Counts characters as bytes arrive, and knows near which byte each of them is.

    What is no UTF-8 counts as the U+FFFD that a reader gets for it.
    """

    def __init__(self) -> None:
        self.total = 0
        self._decoder = decoder()
        self._bytes = 0
        # Parallel lists: the character at `_at[i]` begins at byte `_byte[i]`.
        self._at = [0]
        self._byte = [0]

    def add(self, chunk: bytes | memoryview) -> None:
        """The next bytes."""
        view = memoryview(chunk)
        for start in range(0, len(view), _EVERY):
            piece = bytes(view[start : start + _EVERY])
            self.total += len(self._decoder.decode(piece))
            self._bytes += len(piece)
            whole = self._whole()
            if whole - self._byte[-1] >= _EVERY:
                self._at.append(self.total)
                self._byte.append(whole)

    def skip(self, count: int) -> None:
        """Bytes that are lost already; each counts as a character."""
        self.total += len(self._decoder.decode(b"", final=True)) + count
        self._decoder.reset()
        self._bytes += count
        self._at.append(self.total)
        self._byte.append(self._bytes)

    def finish(self) -> None:
        """No more will come: a character that was cut off counts, too."""
        self.total += len(self._decoder.decode(b"", final=True))

    def near(self, position: int) -> tuple[int, int]:
        """A byte at which a character begins, and that character's number; not after `position`."""
        index = bisect_right(self._at, position) - 1
        return self._byte[index], self._at[index]

    def after(self, byte: int) -> tuple[int, int]:
        """The first known place that is not before `byte`, as `near` gives it; else the end."""
        index = bisect_left(self._byte, byte)
        if index == len(self._byte):
            return self._whole(), self.total
        return self._byte[index], self._at[index]

    def _whole(self) -> int:
        """The bytes without a character whose rest has not come."""
        return self._bytes - len(self._decoder.getstate()[0])
