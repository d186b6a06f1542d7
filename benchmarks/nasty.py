"""Texts that were written to keep a judge busy, each about as long as a kernel takes one."""

from collections.abc import Callable, Iterator

LONGEST = 128 * 1024 - 1  # bytes of one argument

# Each makes a text of about that many characters.
_Made = Callable[[int], str]


def _repeated(piece: str, *, before: str = "", after: str = "") -> _Made:
    return lambda size: before + piece * ((size - len(before)) // (len(piece) + len(after))) + after


def _nested(opens: str, closes: str, inner: str = "x") -> _Made:
    def made(size: int) -> str:
        depth = size // (len(opens) + len(closes))
        return opens * depth + inner + closes * depth

    return made


def _numbered(form: str, *, before: str = "", after: str = "") -> _Made:
    def made(size: int) -> str:
        length = len(form.format(99999))
        return before + "".join(form.format(at) for at in range(size // length)) + after

    return made


def _documents(size: int) -> str:
    count = size // 16
    return "cat" + " <<E" * count + "\n" + "body $x\nE\n" * count


SHAPES: dict[str, _Made] = {
    "one word": _repeated("a"),
    "words": _repeated("a ", before="echo "),
    "words for nobody": _repeated("a ", before="frob "),
    "options": _repeated("-a ", before="ls "),
    "options for nobody": _repeated("--a=b ", before="frob "),
    "secret files": _numbered("x{}.env ", before="cat "),
    "the same secret file": _repeated("x.env ", before="cat "),
    "new files": _numbered("f{} ", before="touch "),
    "removed files": _numbered("f{} ", before="rm "),
    "patterns": _repeated("*a*?[b-c]* ", before="cat "),
    "one pattern": _repeated("*?", before="cat "),
    "quoted variables": _numbered('"$v{}" ', before="cat "),
    "bare variables": _repeated("$a ", before="cat "),
    "assignments": _numbered("v{}=1 ", before=""),
    "assigned and used": _numbered("v{0}=a$v{0}; ", before=""),
    "one assignment": _repeated("a=", before=""),
    "lists": _repeated("a;"),
    "known lists": _repeated("ls;"),
    "pipes": _repeated("a|", after="a"),
    "known pipes": _repeated("cat|", after="cat"),
    "ands": _repeated("a&&", after="a"),
    "background": _repeated("a&"),
    "newlines": _repeated("\n", before="ls"),
    "lines": _repeated("ls\n"),
    "comments": _repeated("#a\n"),
    "one comment": _repeated("#"),
    "quotes": _repeated("'a'", before="echo "),
    "empty quotes": _repeated("''", before="echo "),
    "double quotes": _repeated('"a"', before="echo "),
    "unclosed quotes": _repeated("'a' ", before="echo ", after='"'),
    "quote in quote": _repeated("\"'", before="echo "),
    "backslashes": _repeated("\\", before="echo "),
    "joined lines": _repeated("\\\n", before="echo "),
    "redirects": _repeated(">a "),
    "redirects of one": _repeated(" >f", before="echo"),
    "here-documents": _documents,
    "open here-documents": _repeated(" <<E", before="cat"),
    "open here-documents in lines": _repeated("cat <<E\n"),
    "here-strings": _repeated(" <<<a", before="cat"),
    "substitutions": _repeated("$(a) ", before="echo "),
    "nested substitutions": _nested("$(", ")"),
    "open substitutions": _repeated("$("),
    "nested in quotes": _nested('"$(', ')"'),
    "nested subshells": _nested("(", ")"),
    "open subshells": _repeated("("),
    "nested groups": _nested("{ ", ";}"),
    "open groups": _repeated("{ "),
    "arithmetic": _repeated("$((1)) ", before="echo "),
    "nested arithmetic": _nested("$((", "))"),
    "open arithmetic": _repeated("$(("),
    "almost arithmetic": _repeated("((a) ) ", before="echo "),
    "expansions": _repeated("${a} ", before="echo "),
    "nested expansions": _nested("${a:-", "}"),
    "open expansions": _repeated("${a:-"),
    "backticks": _repeated("`a` ", before="echo "),
    "open backticks": _repeated("`a` ", before="echo ", after="`"),
    "escaped backticks": _repeated("\\`"),
    "process substitutions": _repeated("<(a) ", before="cat "),
    "braces": _repeated("{a,b}", before="echo "),
    "nested braces": _nested("{a,", "}"),
    "brace words": _repeated("{a,b,c} ", before="cat "),
    "one brace": _repeated("a,", before="cat {", after="}"),
    "sequences": _repeated("{1..9}", before="echo "),
    "globs": _repeated("*/", before="ls "),
    "brackets": _repeated("[a", before="ls "),
    "arrays": _repeated("a ", before="x=(", after=")"),
    "subscripts": _repeated("a[1]=2 "),
    "loops": _repeated("for a in b;do c;done;"),
    "nested loops": _nested("for a in b;do ", ";done", "x"),
    "one loop": _numbered("w{} ", before="for a in ", after=";do cat $a;done"),
    "clauses": _repeated("a) b;; ", before="case x in ", after="esac"),
    "functions": _numbered("f{}(){{ a;}};"),
    "tests": _repeated("[[ a = b ]];"),
    "one test": _repeated("a = b && ", before="[[ ", after="c ]]"),
    "sudo": _repeated("sudo "),
    "env": _repeated("env "),
    "xargs": _repeated("xargs "),
    "timeout": _repeated("timeout 1 "),
    "find": _repeated("-exec a {} ; ", before="find . "),
    "find names": _numbered("-name x{} ", before="find . ", after="-exec cat {} +"),
    "bash -c": _repeated("ls;", before="bash -c '", after="'"),
    "many bash -c": _repeated("bash -c 'ls';"),
    "eval": _repeated("eval "),
    "cd": _numbered("cd d{};", after="cat x"),
    "sourced files": _repeated(". x;"),
    "substituted files": _repeated("bash<(x);"),
    "fetched files": _repeated("curl -o x y;sh x;"),
    "written files": _repeated("cat>x;bash x;"),
    "printed files": _repeated("printf x>y;. y;"),
    "sed": _repeated("s/a/b/;", before="sed '", after="'"),
    "sed files": _repeated("-e p ", before="sed "),
    "awk": _repeated("{print $1}", before="awk '", after="'"),
    "python": _repeated("import os;", before="python3 -c '", after="'"),
    "python document": _repeated("open('x')\n", before="python3 <<E\n", after="E\n"),
    "base64": _repeated("QUJD", before="echo "),
    "address": _repeated("a.", before="curl http://"),
    "addresses": _numbered("http://h{}/x ", before="curl "),
    "user at host": _repeated("a:b@", before="curl http://"),
    "git": _repeated("-c a=b ", before="git "),
    "git paths": _numbered("p{} ", before="git add "),
    "printf": _repeated("%s", before="printf '", after="'"),
    "wide characters": _repeated("界", before="echo "),
    "marks": _repeated("\u202e", before="echo "),
    "combining": _repeated("e\u0301", before="echo "),
    "passwords": _repeated("password=x ", before="echo "),
    "options with secrets": _repeated("--token abcd ", before="frob "),
    "blanks": _repeated(" ", before="ls", after="a"),
    "tabs": _repeated("\t", before="ls", after="a"),
    "slashes": _repeated("/", before="cat "),
    "up": _repeated("../", before="cat ", after="etc/shadow"),
    "dots": _repeated(".", before="cat "),
    "tildes": _repeated("~", before="cat "),
    "equals": _repeated("=", before="frob a"),
    "at": _repeated("@", before="curl "),
    "colons": _repeated("a:", before="cat "),
    "dashes": _repeated("-", before="ls "),
    "exclamations": _repeated("! "),
    "times": _repeated("time "),
    "closers": _repeated(") "),
    "dones": _repeated("done;"),
    "ansi": _repeated("$'\\x41' ", before="echo "),
    "dollars": _repeated("$", before="echo "),
}


def texts(size: int = LONGEST) -> Iterator[tuple[str, str]]:
    """Each shape's name, and its text of at most that many bytes."""
    for name, made in SHAPES.items():
        text = made(size)
        while len(text.encode()) > size:
            text = text[: len(text) * size // len(text.encode())]
        yield name, text
