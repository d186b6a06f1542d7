"""Makes shell scripts of all kinds from a seed, well formed ones and spoiled ones. Pure.

They name no program but c1 … c9, which do not exist, and builtins that do no harm.
"""

import random
from collections.abc import Callable

_NAMES = tuple(f"c{number}" for number in range(1, 10))
_BUILTINS = (":", "true", "false", "echo", "test -n", "[ -n a ]", "set -- c8 b", "shift", "echo -n")
_LITERALS = ("a", "b1", "-x", "--long=v", "k=v", "./d/e", "1", "2", "%s", "a,b", "@", "in", "do")
_QUOTED = ("; c8", "a b", "$(c8", "`c8", "| c8 #", "", "it", "&& c8", "\\", ")", "}", "\n", "done")
_ESCAPES = (r"\;", r"\"", r"\'", r"\$", r"\\", r"\ ", r"\`", r"\(", r"\#", r"\&", r"\a")
_ANSI = (r"a\'b", r"\x63", r"\n", r"\\", r"; c8", r"\"", r"\x3b\x20c8", r"\c\\", r"\u0041", r"\0c8")
_COMMENTS = ("# c8", "# it's", '# "', "# $(c8", "# `", "#\\", "# <<E", "# )", "# \\\\", "#")
_BLANKS = (" ", " ", " ", " ", "  ", "\t", " \\\n", "\\\n ", " \t ")
_BRACES = ("{a,b}", "{1..2}", "{a,'b c'}", "x{,y}", "{a}", "{}", "{a,b", "a}", "{a,$x}")
_GLOBS = ("*", "?", "[ab]*", "~", "~/x", "a*b", "[!a]", "d/**", "=~", "^x")
_VARIABLES = ("$x", "${x}", "$1", "$@", "$*", "$#", "$?", "${x[0]}", "${!x}", "${x^^}", "$")
_FILES = ("f1", "f2", "/dev/null", '"f 3"', "f\\4", "'f5'", "$x.6", "f7$(c7)")
_OPERATORS = (":-", "-", ":=", "+", ":+", "#", "##", "%", "/a/", "//b/", ":", "^", "@Q", "?")
_DELIMITERS = ("E", "EOF", "c8", "'E'", '"E F"', "\\E", "E'F'", "-", "}", "done", "E$x", "$'E'")
_SEPARATORS = (";", "\n", "\n", " ; ", " & ", " && ", " || ", " | ", "|", "&&", " |& ", "& ")
_SPOILS = (
    *"'\"`\\$(){}[]<>|&;# \n\t=!*?~:-+,.@%^/ac18E\r\0é\v",
    *("$(", "((", "))", "${", "<<E\n", "<<'E'\n", "\nE\n", "<<<", "\\\n", "$'", '$"', "&>", ">|"),
    *(" do ", " done ", " esac", " then ", ";;", " fi ", "case x in ", "[[ ", " ]]", " in ", "; }"),
    *(" c8 ", "$((", "`c8`", "time ", "! ", "coproc ", "function ", "if ", "{ ", "() ", "a[", "]="),
)
_EVALUATED = (
    *("eval 'c8 a'", 'eval "c8 $x"', "trap 'c8' EXIT", "let 'a[$(c8)]=1'", "command c8 a"),
    *("y='a[$(c8)]'; echo $((y))", "y='a[$(c8)]'; ((y))", "y='a[$(c8)]'; [[ y -eq 0 ]]"),
    *("test -v 'a[$(c8)]'", "printf -v 'a[$(c8)]' b", "read 'a[$(c8)]' <<<x", "unset 'a[$(c8)]'"),
    *("y=c8; $y", "y='c8 a'; $y", "y='$(c8)'; echo ${y@P}", "declare -n y=x; $y", "set -- c8; $1"),
    *("declare 'y=$(c8)'", "declare -i y='a[$(c8)]'", "export y=c8; $y", "builtin eval c8"),
    *("PS4='$(c8)'; set -x; :", "y=(c8 a); ${y[@]}", "y=x; z=${!y}; $z", "c1() { c8; }; c1"),
    *("echo() { c8; }; echo a", "alias c1=c8; c1", "exec c8", "y=1; echo ${a[y=$(c8)]}"),
    *("mapfile -C c8 -c 1 y <<<a", "y='a[$(c8)]'; echo ${x:y}", "y='a[$(c8)]'; echo ${z[y]}"),
    *("BASH_ENV=f c1", "y='a[$(c8)]'; z[y]=1", "y='a[$(c8)]'; : $[y]", "y='a[$(c8)]'; z=([y]=1)"),
    *("for y in c8 c7; do $y; done", "local y", "unset -v 'z[$(c8)]'", "y=(a); echo ${y[$(c8)]}"),
    *("y='a[$(c8)]'; : ${x[0]:y}", "y='a[$(c8)]'; : ${@:y}", "y='a[$(c8)]'; : ${x:0:y}"),
    *("y='a[$(c8)]'; : ${x: y }", "y='a[$(c8)]'; : ${x::y}", "y='a[$(c8)]'; : \"${z[@]:y}\""),
    *("source /dev/stdin <<<c8", ". <(echo c8)", "echo c8 | while read y; do $y; done", "hash c8"),
    *("printf -v y c8; $y", "read y <<<c8; $y", "y+=c8; $y", "x=c8; $x", "${z:-c8} a", "${z:=c8}"),
)

_Make = Callable[[], str]


class Scripts:
    """Makes one script after another; the same seed makes the same ones."""

    def __init__(self, seed: int) -> None:
        self.dice = random.Random(seed)
        self._depth = 0
        self._bodies: list[str] = []

    def well_formed(self) -> str:
        """A script that bash accepts, as a rule."""
        self._depth, self._bodies = self.dice.choice((0, 1, 2, 2, 3)), []
        return self._list() + self._newline()

    def spoiled(self) -> str:
        """One with a few characters too many, too few or in the wrong place."""
        text = self.well_formed()
        for _ in range(self.dice.randint(1, 4)):
            text = self._spoil(text)
        return text.replace("\0", "") or ":"

    def evaluating(self) -> str:
        """One in which builtins, variables or arithmetic run text that is only data to a parser."""
        self._depth, self._bodies = 3, []
        pieces = self.dice.sample(_EVALUATED, self.dice.randint(1, 2))
        pieces.append(self._list() + self._newline())
        self.dice.shuffle(pieces)
        return "\n".join([*pieces, ""])

    def _spoil(self, text: str) -> str:
        at, length = self.dice.randrange(len(text) + 1), self.dice.choice((1, 1, 1, 2, 5))
        cut = text[at : at + length]
        middle = self.dice.choice(("", cut + cut, self.dice.choice(_SPOILS) + cut))
        if self.dice.random() < 0.15:
            middle = text[self.dice.randrange(len(text) + 1) :][:length] + cut
        return text[:at] + middle + text[at + length :]

    def _chance(self, probability: float) -> bool:
        return self.dice.random() < probability

    def _one(self, *makes: _Make) -> str:
        return self.dice.choice(makes)()

    def _pick(self, *choices: str) -> str:
        return self.dice.choice(choices)

    # Lists of commands

    def _newline(self) -> str:
        """A newline, and the here-documents that begin behind it."""
        bodies, self._bodies = self._bodies, []
        comment = " " + self._pick(*_COMMENTS) if self._chance(0.1) else ""
        return comment + "\n" + "".join(bodies)

    def _list(self) -> str:
        text = self._command()
        while self._chance(0.4 if self._depth < 3 else 0.15):
            text += self._separator() + self._command()
        return text

    def _separator(self) -> str:
        separator = self._pick(*_SEPARATORS)
        if "\n" in separator or self._bodies:
            separator = separator.rstrip("\n") + self._newline()
        return separator

    def _inner(self) -> str:
        """A list within something; its here-documents end within it as well."""
        outer, self._bodies = self._bodies, []
        self._depth += 1
        text = self._list()
        if self._bodies or self._chance(0.1):
            text += self._newline()
        self._depth -= 1
        self._bodies = outer
        return text

    def _closed(self) -> str:
        """A list and what must stand before the word that ends it."""
        text = self._inner()
        return text + (" " if text.endswith(("\n", "&")) else self._pick("; ", ";", "\n", " ;\n"))

    # Commands

    def _command(self) -> str:
        if self._depth > 3 or self._chance(0.65):
            return self._simple()
        return self._one(
            *(self._subshell, self._group, self._if, self._while, self._for, self._case),
            *(self._test, self._arithmetic_command, self._function, self._prefixed, self._simple),
        ) + (self._redirect() if self._chance(0.15) else "")

    def _subshell(self) -> str:
        return f"({self._inner()})" if self._chance(0.7) else f"( ({self._inner()}) )"

    def _group(self) -> str:
        return f"{{ {self._closed()}}}"

    def _if(self) -> str:
        text = f"if {self._closed()}then {self._closed()}"
        if self._chance(0.3):
            text += f"elif {self._closed()}then\n{self._closed()}"
        if self._chance(0.4):
            text += f"else {self._closed()}"
        return text + "fi"

    def _while(self) -> str:
        return f"{self._pick('while', 'until')} {self._closed()}do {self._closed()}break; done"

    def _for(self) -> str:
        words = "".join(self._blank() + self._word() for _ in range(self.dice.randint(0, 2)))
        head = self._pick(
            f"for i in{words}; do ",
            f"for i in{words}\ndo ",
            "for i do ",
            "for ((i=0;i<2;i++)); do ",
            f"for i in a{words}; {{ ",
            f"select i in{words} a; do break; ",
        )
        if "\n" not in head or not self._bodies:
            return head + self._closed() + ("}" if head.endswith("{ ") else "done")
        return self._simple()

    def _case(self) -> str:
        clauses = "".join(self._clause() for _ in range(self.dice.randint(1, 2)))
        return f"case {self._word()} in{self._pick(' ', chr(10))}{clauses}{self._pick('', ' ')}esac"

    def _clause(self) -> str:
        pattern = self._pick("x", "*", "a|b", '"a b"', "[a-c]", "'*'", "$x", "\\*", "(*", "(a | b")
        end = self._pick(";;", " ;;", ";&", ";;&")
        return f"{pattern}{self._pick(')', ' ) ')}{self._inner()}{end}\n"

    def _test(self) -> str:
        word = self._word
        return self._pick(
            f"[[ -n {word()} ]]",
            f"[[ {word()} == {word()} && -z {word()} ]]",
            f"[[ ! ( {word()} < a ) || {word()} -eq 1 ]]",
            "[[ a =~ ^(a|b)$ ]]",
            f"[[ $x =~ {self._pick('a|b', '(a b)', '[)]', chr(92) + ')', '$x', '(a)|b')} ]]",
            f"[[ a = *{self._substitution()}* ]]",
        )

    def _arithmetic_command(self) -> str:
        return f"(({self._expression()}))"

    def _function(self) -> str:
        name = self._pick("f1", "f2", "f-3")
        head = self._pick(f"{name}() ", f"{name} ()\n", f"function {name} ", f"function {name}() ")
        if self._bodies:
            return name
        body = self._one(self._group, self._subshell, self._if, self._group)
        return f"{head}{body}{self._pick(chr(10), ' ; ')}{name}"

    def _prefixed(self) -> str:
        prefix = self._pick("! ", "time ", "time -p ", "! time ", "coproc ", "coproc N { ")
        return prefix + (f"{self._closed()}}}" if prefix.endswith("{ ") else self._simple())

    def _simple(self) -> str:
        parts = [self._assignment() for _ in range(self.dice.choice((0, 0, 0, 0, 0, 1, 2)))]
        if parts and self._chance(0.5):
            return self._blank().join(parts)
        parts.append(self._name())
        parts += [self._argument() for _ in range(self.dice.choice((0, 1, 1, 2, 3)))]
        if self._chance(0.05):
            self.dice.shuffle(parts)
        return "".join(part + self._blank() for part in parts[:-1]) + parts[-1]

    def _argument(self) -> str:
        return self._redirect().strip() if self._chance(0.15) else self._word()

    def _name(self) -> str:
        name = self._pick(*_NAMES)
        if self._chance(0.7):
            return name
        return self._pick(
            *(f"'{name}'", f'"{name}"', f"c\\{name[1]}", f"$'{name}'", f'""{name}', f'$"{name}"'),
            *(f"c'{name[1]}'", f"$'\\x63{name[1]}'", "$x", f"{{{name},a}}", f"${{z}}{name}"),
            f"c\\\n{name[1]}",
            *(self._substitution(), f"{name}$z", f"\\\n{name}", *_BUILTINS, *_BUILTINS),
        )

    def _assignment(self) -> str:
        value = self._word() if self._chance(0.7) else ""
        return self._pick(
            *(f"y={value}", f"y={value}", f"w={value}", f"y+={value}", f"z[1]={value}", "y="),
            *(f"z=(a {value})", f"z[$x]={value}"),
            *(f'z["a b"]={value}', f"z=([1]={value} b # c8\n)" if not self._bodies else "y=1"),
        )

    def _redirect(self) -> str:
        if self._chance(0.35):
            return self._document()
        file = self._pick(*_FILES)
        return " " + self._pick(
            *(f">{file}", f"> {file}", f">>{file}", f"2>{file}", f">|{file}", f"&>{file}"),
            *("2>&1", ">&2", "</dev/null", "<&-", f"{{fd}}>{file}", f"<<<{self._word()}"),
            *(f">&{file}", f"<>{file}", f"<<< {self._word()}"),
            *(f"< <({self._inner()})", f"> >({self._inner()})"),
        )

    def _document(self) -> str:
        delimiter = self._pick(*_DELIMITERS)
        plain = delimiter.replace("'", "").replace('"', "").replace("\\", "")
        plain = plain[1:] if plain.startswith("$") else plain
        indented = self._chance(0.3)
        lines = [self._document_line() for _ in range(self.dice.randint(0, 2))]
        tabs = "\t" * self.dice.randint(0, 2) if indented else ""
        self._bodies.append("".join(f"{tabs}{line}\n" for line in (*lines, plain)))
        return f" <<{'-' if indented else ''}{self._pick('', ' ')}{delimiter}"

    def _document_line(self) -> str:
        outer, self._bodies = self._bodies, []
        line = self._one(
            self._substitution,
            self._expansion,
            lambda: self._pick("a b", "it's", 'say "', "\\$(c8)", "\\", "a \\", "# $(c7)", ")"),
        )
        self._bodies = outer
        return line

    # Words

    def _blank(self) -> str:
        return self._pick(*_BLANKS)

    def _word(self) -> str:
        if self._depth > 4 or self._chance(0.35):
            return self._pick(*_LITERALS)
        return "".join(self._piece() for _ in range(self.dice.choice((1, 1, 1, 2, 3))))

    def _piece(self) -> str:
        return self._one(
            lambda: self._pick(*_LITERALS),
            lambda: f"'{self._pick(*_QUOTED)}'",
            lambda: f"$'{self._pick(*_ANSI)}'",
            lambda: self._pick(*_ESCAPES),
            lambda: self._pick(*_BRACES, *_GLOBS, "\\\n", "a\\\nb", "#", "!"),
            self._double,
            self._double,
            self._expansion,
            self._substitution,
            self._substitution,
        )

    def _double(self) -> str:
        pieces = [self._in_double() for _ in range(self.dice.randint(0, 3))]
        return f'"{"".join(pieces)}"'

    def _in_double(self) -> str:
        return self._one(
            lambda: self._pick(*_LITERALS),
            lambda: self._pick(*_ESCAPES, "\\\n", "'", " ", "; c8", "#", "it's", "!", "\n"),
            self._expansion,
            self._dollar_substitution,
            lambda: self._backticks(in_double=True),
        )

    def _expansion(self) -> str:
        if self._depth > 3 or self._chance(0.4):
            return self._pick(*_VARIABLES)
        self._depth += 1
        inner = self._one(self._word, self._word, self._double, lambda: self._pick("'", "}", "a b"))
        self._depth -= 1
        return self._pick(
            f"${{{self._pick('x', 'z', 'x[0]', '1', '@')}{self._pick(*_OPERATORS)}{inner}}}",
            f"$(({self._expression()}))",
            f"$[{self._expression()}]",
            f"${{x[{self._expression()}]}}",
        )

    def _expression(self) -> str:
        self._depth += 1
        operand = self._one(
            lambda: self._pick("1", "x+0", "(1)", "1 << 2", "2 > 1", "i=1", "z[0]", "'1'", '"1"'),
            lambda: "1 + " + (self._substitution() if self._depth < 4 else "1"),
            lambda: self._pick("$x", "${#x}", "${z:-1}", "1)+(1", "16#f", "!1", "1 ? 2 : 3"),
        )
        self._depth -= 1
        return self._pick("", " ") + operand + self._pick("", " ")

    def _substitution(self) -> str:
        if self._depth > 3:
            return self._pick("$(c7)", "`c7`", '"$(c7)"')
        return self._one(
            self._dollar_substitution,
            self._dollar_substitution,
            lambda: self._backticks(in_double=False),
            lambda: f"{self._pick('<', '>')}({self._inner()})",
        )

    def _dollar_substitution(self) -> str:
        inner = self._inner()
        return f"$({' ' if inner.startswith('(') or self._chance(0.1) else ''}{inner})"

    def _backticks(self, *, in_double: bool) -> str:
        text = self._inner()
        if self._chance(0.9):
            text = text.replace("\\", "\\\\").replace("`", "\\`")
            text = text.replace('"', '\\"') if in_double and self._chance(0.7) else text
            text = text.replace("$", "\\$") if self._chance(0.2) else text
        return f"`{text}`"
