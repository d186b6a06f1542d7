"""Full-screen detection: escape sequences for the alternate screen and application keys. Pure."""

from shelltie.basics.lazy_regex import lazy

# The alternate screen, and the keys of an application: vim and less ask for both, top for the keys.
_MODE = lazy(rb"\x1b\[\?(?:1049|1047|47|1)([hl])")
_LONGEST = 8  # bytes of such a sequence


class FullScreen:
    """Hears everything that is printed."""

    def __init__(self) -> None:
        self.on = False
        self._rest = b""

    def hear(self, chunk: bytes | memoryview) -> None:
        """It printed this."""
        data = self._rest + bytes(chunk)
        self._rest = data[-(_LONGEST - 1) :]
        if b"\x1b[?" not in data:
            return
        for found in _MODE.finditer(data):
            self.on = found[1] == b"h"
