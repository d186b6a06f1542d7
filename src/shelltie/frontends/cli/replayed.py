"""What a person's terminal must not be shown again, and what to undo when it leaves. Pure."""

from shelltie.regex import regex

DETACH = "ctrl-]"
# As a terminal sends it, also where a program has asked for keys in a longer form.
_DETACH = regex(rb"\x1d|\x1b\[93;5u|\x1b\[27;5;93~")
_CTRL_C = regex(rb"\x03|\x1b\[99;5u|\x1b\[27;5;99~")

# Each makes a terminal answer, and the answer would be typed into the session: who it is, where
# its cursor stands, which colours and modes it has.
_QUESTIONS = regex(
    rb"\x1b\[[?>=0-9;]*[cn]"
    rb"|\x1b\[[?0-9;]*\$p"
    rb"|\x1b\[>[0-9;]*q"
    rb"|\x1b\[\?u"
    rb"|\x1b\[1[1348]t|\x1b\[2[01]t"
    rb"|\x1b\][0-9;]{1,32}\?(?:\x07|\x1b\\)"
    rb"|\x1bP[^\x1b]{0,4096}\x1b\\"
    rb"|\x1bZ|\x05"
)

_MODE = regex(rb"\x1b\[(?:\?(?P<numbers>[0-9;]{1,32})(?P<on>[hl])|>(?P<keys>[0-9;]*)u)")
_SEQUENCE_MAX = 40
_USUALLY_ON = frozenset({b"7", b"25"})  # lines wrap, and the cursor is seen
# Colours, keypad, and the scrolling region, which would move the cursor if it were not kept.
_ALWAYS = b"\x1b[0m\x1b>\x1b7\x1b[r\x1b8"


def without_questions(data: bytes) -> bytes:
    """Output from before, without what a terminal would answer to."""
    return _QUESTIONS.sub(b"", data)


def until_detached(data: bytes, *, ctrl_c: bool) -> tuple[bytes, bool]:
    """What was typed before the key that detaches, and whether it was pressed."""
    found = _DETACH.search(data) or (_CTRL_C.search(data) if ctrl_c else None)
    return (data, False) if found is None else (data[: found.start()], True)


class Modes:
    """Remembers what a program did to its terminal: another screen, no cursor, a mouse."""

    def __init__(self) -> None:
        self._changed: dict[bytes, bool] = {}
        self._keys = False
        self._rest = b""

    def see(self, data: bytes) -> None:
        """Take the next bytes that are shown."""
        text = self._rest + data
        end = 0
        for match in _MODE.finditer(text):
            end = match.end()
            self._keys = self._keys or match["keys"] is not None
            for number in (match["numbers"] or b"").split(b";"):
                self._note(number, on=match["on"] == b"h")
        self._rest = text[end:][-_SEQUENCE_MAX:]  # a sequence may be cut in two

    def _note(self, number: bytes, *, on: bool) -> None:
        if number and on != (number in _USUALLY_ON):
            self._changed[number] = on
        else:
            self._changed.pop(number, None)

    def undo(self) -> bytes:
        """What makes a terminal as it was."""
        back = [b"\x1b[?%b%b" % (n, b"l" if on else b"h") for n, on in self._changed.items()]
        keys = b"\x1b[<9u" if self._keys else b""
        return b"".join([*back, keys, _ALWAYS])
