"""Where the HTTP server is to listen. It costs nothing to import: the command line does."""

import re

from shelltie.frozen import frozen
from shelltie.regex import regex

_ADDRESS = regex(r"(\[[0-9A-Fa-f:.%\w]+\]|[^\s:/\[\]]+):([0-9]{1,5})", re.ASCII)


@frozen
class Address:
    """A host and a port; 0 takes any port that is free."""

    host: str
    port: int


def parse(text: str) -> Address:
    """`127.0.0.1:8765`, `localhost:0`, `[::1]:8765`.

    Raises: ValueError, with what it should look like.
    """
    found = _ADDRESS.fullmatch(text)
    if found is None or int(found[2]) > 65535:
        raise ValueError(f"{text!r} is not HOST:PORT, such as 127.0.0.1:8765 or [::1]:8765")
    return Address(found[1].strip("[]"), int(found[2]))
