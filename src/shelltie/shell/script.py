"""What a shell text consists of, before anybody has an opinion about it. Pure."""

from enum import StrEnum

from shelltie.frozen import frozen
from shelltie.verdict import Code, Span


class Kind(StrEnum):
    """What a part of a word is."""

    TEXT = "text"  # literal characters, quotes and backslashes removed
    VARIABLE = "variable"  # $NAME, ${NAME}: nothing more than its value
    COMMAND = "command"  # $(…) or backticks
    PROCESS = "process"  # <(…) or >(…)
    ARITHMETIC = "arithmetic"  # $((…))
    EXPANSION = "expansion"  # any other ${…}


@frozen
class Part:
    """A piece of a word: `text` is the literal value, the variable's name, or the source.

    `commands` are the places in `Script.commands` of the commands that run inside it.
    """

    kind: Kind
    text: str
    quoted: bool = False
    commands: tuple[int, ...] = ()


@frozen
class Word:
    """One word as the shell reads it; `value` is `None` unless every part is literal.

    `pattern`: it has an unquoted `*`, `?`, `[`, extended pattern, brace or leading tilde, and so
    may become other words; `value` then holds it as written.
    """

    text: str
    value: str | None
    span: Span
    parts: tuple[Part, ...] = ()
    pattern: bool = False

    @property
    def single(self) -> bool:
        """It becomes exactly one word, whatever it expands to."""
        if self.pattern or Part(Kind.VARIABLE, "@", quoted=True) in self.parts:
            return False
        return all(part.quoted or part.kind is Kind.TEXT for part in self.parts)


@frozen
class Redirect:
    """`operator` as written, without its descriptor: `>`, `>>`, `<`, `<<`, `<<<`, `>&`, `&>`, `<>`.

    A here-document or here-string has its `body`; one with expansions has parts that are not text.
    """

    operator: str
    target: Word | None
    span: Span
    descriptor: str = ""
    body: Word | None = None


@frozen
class Assignment:
    """`NAME=value`, before a command or alone; `name` keeps a subscript: `a[1]`."""

    name: str
    value: Word | None
    span: Span


@frozen
class Simple:
    """One simple command. Without words it is only its assignments and redirections.

    `feeds` are the places in `Script.commands` of the commands whose output is its input.
    `loop` is the variable and the words of the `for` or `select` it stands for, if it is one.
    """

    words: tuple[Word, ...]
    span: Span
    assignments: tuple[Assignment, ...] = ()
    redirects: tuple[Redirect, ...] = ()
    feeds: tuple[int, ...] = ()
    loop: str | None = None
    background: bool = False


@frozen
class Problem:
    """Something that keeps the text from being proved safe, whatever its commands are."""

    code: Code
    message: str
    span: Span


@frozen
class Script:
    """A parsed text: every simple command in it, however deep, in the order they begin.

    `plain`: nothing but words, quotes and `&& || ; |`, so that one parser is enough.
    """

    text: str
    commands: tuple[Simple, ...]
    problems: tuple[Problem, ...] = ()
    functions: tuple[str, ...] = ()
    plain: bool = False
