"""The argv of a shell program: its options as bash reads them, and where the text of `-c` stands.

Pure.
"""

from collections.abc import Sequence

from shelltie.basics.frozen import frozen

_LONG_WITH_VALUE = frozenset(("rcfile", "init-file"))
_LONG = _LONG_WITH_VALUE.union(
    ("debug", "debugger", "dump-po-strings", "dump-strings", "help", "login", "noediting"),
    ("noprofile", "norc", "posix", "pretty-print", "restricted", "verbose", "version"),
)
_TAKE_A_WORD = frozenset("oO")


@frozen
class ShellOption:
    """One option: its name (`-e`, `+o`, `--norc`), and which words it and its value are."""

    name: str
    at: int
    value: int | None = None


@frozen
class ShellInvocation:
    """The options, and where the words begin that are none: the text of `-c`, or a script."""

    options: tuple[ShellOption, ...]
    rest: int

    @property
    def has_command(self) -> bool:
        """Whether the first of the rest is a text to run."""
        return any(option.name in ("-c", "+c") for option in self.options)


def read_invocation(words: Sequence[str]) -> ShellInvocation:
    """Read what follows the name of the shell.

    `-c` is a switch: the text is the first word behind all options and their values, so that
    `-ce TEXT`, `-c -e TEXT`, `-c -- TEXT` and `-co pipefail TEXT` all have the same.
    """
    options: list[ShellOption] = []
    at = 0
    # To bash, `-norc` is `--norc`, while no short option came before.
    while at < len(words) and (name := _long_name(words[at])) in _LONG:
        takes = name in _LONG_WITH_VALUE
        options.append(ShellOption(f"--{name}", at, at + 1 if takes else None))
        at += 2 if takes else 1
    while at < len(words) and words[at][:1] in ("-", "+"):
        word, here = words[at], at
        at += 1
        if word in ("-", "--"):
            break
        if word.startswith("--"):  # bash refuses it here, zsh has many
            options.append(ShellOption(word, here))
            continue
        for letter in word[1:]:
            takes = letter in _TAKE_A_WORD
            options.append(ShellOption(word[0] + letter, here, at if takes else None))
            at += takes
    return ShellInvocation(tuple(options), min(at, len(words)))


def _long_name(word: str) -> str:
    return word[1:].removeprefix("-") if word.startswith("-") else ""
