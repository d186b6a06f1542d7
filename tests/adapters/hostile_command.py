"""A command that does what it can to stay, and to fill the memory of whoever reads it."""

from tests.tree import new_tag, tagged


class Hostile:
    """Ignores SIGTERM, leaves a double-forked child in a session of its own and one that holds the
    pipe, prints 20 MB without a line's end, and does not end.
    """

    def __init__(self) -> None:
        self.tag = new_tag()

    @property
    def text(self) -> str:
        """For a shell."""
        away = f"""trap "" TERM; sleep 300.{self.tag}; exec sleep 300.{self.tag}"""
        return (
            f"trap '' TERM; (setsid sh -c '{away}' &); sleep 301.{self.tag} &"
            f" echo begun; head -c 20000000 /dev/zero | tr '\\0' x; sleep 302.{self.tag}"
        )

    @property
    def left(self) -> list[str]:
        """The command lines of whoever is still there."""
        return [" ".join(process.cmdline()) for process in tagged(self.tag)]
