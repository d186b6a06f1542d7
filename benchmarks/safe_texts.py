"""Grammar of shell texts that look harmless and may not be, for `benchmarks.fuzz_safe`.

Each production is a way in which a text was once called safe though it ran, wrote or disclosed
something. They are put into one another, so that what comes out is new. In a production `<name>`
stands for one of the productions of that name.
"""

import json
import random
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

_EVASIONS = Path(__file__).resolve().parent.parent / "tests" / "corpus" / "evasions.jsonl"
_HOLE = re.compile(r"<([a-z_]+)>")
_DEEP = 9
_MUTATED = 0.25  # of all texts
_TOKEN = re.compile(r"\s+|[^\s]+")

# What a text does that is not safe: it leaves a mark, or shows what it should not.
_DEED = (">M", "touch M", "echo x >M", "./evil", "cat .env", "cat ~/.ssh/id_rsa", "rm f", ": >>f")

_GRAMMAR: dict[str, Sequence[str]] = {
    "text": (
        *("<plain>", "<sets>; <plain>", "<sets>\n<plain>", "<sets>; <sets>; <plain>"),
        *("<plain> && <plain>", "<plain> | <filter>", "<inside>", "<sets>; <inside>"),
        *("<plain> || <plain>", "! <plain>", "time <plain>", "<plain> &\nwait"),
    ),
    "inside": (
        *("for i in <word> <word>; do <plain>; done", "if <plain>; then <plain>; fi"),
        *("while read f; do <plain>; done <<< <word>", "case <word> in <word>) <plain> ;; esac"),
        *("{ <plain>; }", "(<plain>)", "f() { <plain>; }; f <word>", "cat <<E\n<word>\nE"),
        *("cat <<'E'\n<word>\nE", "cat <<E | <filter>\n$((<number>))\nE", "[[ <word> == <word> ]]"),
        *("bash -c '<quoted>'", "sh -c '<quoted>'", 'bash -c "<plain>"', 'sh -c "<plain>"'),
        *("bash -<flags>c '<quoted>'", "dash -c '<quoted>'", "sh <<'E'\n<quoted>\nE"),
        *("<shell> -c<flags> '<quoted>'", "<shell> -c -<flags> '<quoted>'", "<shell> -c -- <word>"),
        *("<shell> -<flags>o pipefail -c '<quoted>'", "<shell> -co pipefail '<quoted>' <word>"),
        *("env <plain>", "command <plain>", "builtin <plain>", "nice <plain>", "timeout 2 <plain>"),
        *(
            "find . -maxdepth 1 -name <name> -exec <shows> {} <end>",
            "printf '%s\\n' <word> | <args>",
        ),
        *("xargs -a list <shows>", "env -S '<quoted>'", "nohup <plain>", "stdbuf -o0 <plain>"),
    ),
    "shell": ("bash", "sh", "dash", "env bash", "timeout 2 sh", "nice dash"),
    "flags": ("k", "x", "e", "u", "i", "l", "kx", "O extglob -", "r", "n", "v", "a", "B", "f"),
    "end": ("\\;", "+"),
    "sets": (
        *("z='b[$(<deed>)]'", "x=5", "x=<word>", "read x <<< <word>", "read -r x y <<< <word>"),
        *("a=(<word> <word>)", "a[0]=<word>", "x+=<word>", "v=x; read $v <<< <word>", "x=f"),
        *("read -a x <<< <word>", "read -ax <<< <word>", "mapfile -t a <<< <word>", "z=b"),
        *("mapfile -tC '<deed>;:' -c 1 a < list", "printf -v x %s <word>", "OPTIND=<word>"),
        *("HISTCMD=<word>", "SRANDOM=<word>", "RANDOM=<word>", "SECONDS=<word>", "export x=<word>"),
        *("declare -i x=<word>", "local x=<word>", "typeset -a x=(<word>)", ": ${x:=<word>}"),
        *(": <word>", "getopts <word> x", "set -- <word> <word>", "IFS=<word>", "cd <dir>"),
        *("TEXTDOMAIN=x", "TEXTDOMAINDIR=$PWD", "LC_ALL=C.UTF-8", "cd .", "cd <dir> && cd <dir>"),
        *("shopt -s extglob", "shopt -s nullglob globstar", "set -f", "LANG=C", "x=.e; x+=nv"),
        *("x=.env.example; x=${x%.example}", "read x < list", "false && x=<word>", "GREP_COLOR=1"),
        *("while read x; do :; done <<< <word>", "for x in <word> <word>; do :; done", "x=$PWD"),
    ),
    "plain": (
        *("echo <word>", "printf <format> <word>", "echo <word> <word>", ": <word>", "true <word>"),
        *("<shows> <file>", "<shows> <file> <file>", "<shows> <word>", "test -v <word>", "pwd"),
        *("[ -v <word> ]", "[[ -v <word> ]]", "[[ <number> -eq 1 ]]", "[ <word> <word> ]", "wc -c"),
        *("wait -n -p'<element>'", "wait -np x", "unset <word>", "let <number>", "((<number>))"),
        *("sed <sed> f", "sed -n <sed> f", "sed -e <sed> -e <sed> f", "awk <awk>", "awk <awk> f"),
        *("git <git>", "git -C <dir> <git>", "cd <dir> && git <git>", "git --no-pager <git>"),
        *(
            "python3 -m json.tool x.json",
            "sort <file>",
            "sort -o <out> f",
            "tee <out>",
            "uniq f <out>",
        ),
        *("echo x | tee <out>", "shuf -o <out> f", "find . -fprint <out>", "xz -<letters> f"),
        *("gzip -<letters> f", "bzip2 -<letters> f", "zstd -<letters> f", "tar -tf <file>"),
        *(
            "printf '.env\\0' | sort --files0-from=-",
            "wc --files0-from=list",
            "du --files0-from=list",
        ),
        *(
            "find <dir> -type f -exec <shows> {} <end>",
            "grep <word> <file>",
        ),
        *(
            "git cat-file --batch < list",
            "jq . <file>",
            "jq -n <word>",
            "diff f <file>",
            "cmp f <file>",
        ),
        *(
            "ls <file>",
            "stat <file>",
            "file -f <file>",
            "date -f <file>",
            "date -r <file>",
            "cut -c1- <file>",
        ),
        *(
            "echo . | xargs --process-slot-var=PATH ls",
            "xargs <shows> < list",
            "ls | xargs <shows>",
        ),
        *(
            "paste f <file>",
            "join f <file>",
            "comm f <file>",
            "od -c <file>",
            "xxd <file>",
            "strings <file>",
        ),
        *(
            "bc <<< <word>",
            "expr <word> : <word>",
            "seq <number>",
            "exit <number>",
            "shift <number>",
        ),
        *(
            "pr <file>",
            "fold <file>",
            "nl <file>",
            "tac <file>",
            "rev <file>",
            "column -t <file>",
            "base64 <file>",
        ),
    ),
    "shows": (
        "cat",
        "head -3",
        "tail -n1",
        "less",
        "grep -h ''",
        "sed -n p",
        "awk 1",
        "cat -A",
        "nl",
    ),
    "args": (
        "xargs <shows>",
        "xargs -I{} <shows> {}",
        "xargs -n1 <shows>",
        'while read -r f; do <shows> "$f"; done',
    ),
    "filter": (
        "cat",
        "head -1",
        "sort",
        "wc -l",
        "tr a b",
        "sed <sed>",
        "awk <awk>",
        "grep x",
        "tee <out>",
        "uniq",
    ),
    "word": (
        *("x", "5", '"$x"', "$x", "'<element>'", '"<element>"', "${x:-<word>}", "$((<number>))"),
        *('"${PWD#${PWD:<number>}}"', "${PWD:<number>}", "${PWD:0:<number>}", "${a[<number>]}"),
        *(
            "${#a[<number>]}",
            "${!x}",
            "${x@P}",
            "${x@Q}",
            "${x/<word>/<word>}",
            "${x^^}",
            "$[<number>]",
        ),
        *(
            "$(<plain>)",
            '"$(<plain>)"',
            "`<plain>`",
            "<(<plain>)",
            "$'<escaped>'",
            '$"hello"',
            "{a,<word>}",
        ),
        *(
            "<file>",
            "-v",
            "=",
            "z",
            "$z",
            '"$z"',
            "b[0]",
            "${x:+<word>}",
            "${x:=<word>}",
            "~",
            "$_",
            "$?",
        ),
        *(
            "${a[@]:<number>}",
            "${@:<number>}",
            "'<quoted>'",
            "{1..<number>}",
            "${x:?<word>}",
            "*",
            "${x%<word>}",
        ),
    ),
    "element": ("b[$(<deed>)]", "a[$(<deed>)]", "x[`<deed>`]", "a[b[$(<deed>)]]", "$(<deed>)"),
    "number": (
        *(
            "1",
            "z",
            "x",
            "$z",
            "$x",
            "${z}",
            "x+z",
            "a[0]",
            "a[z]",
            "z,1",
            "1?z:0",
            "_",
            "OPTIND",
            "RANDOM",
        ),
        *(
            "x=z",
            "z++",
            "-z",
            "!z",
            "(z)",
            "16#z",
            "$((z))",
            "${#x}",
            "0x1",
            '"$z"',
            "x?y:z",
            "$#",
            "$(<plain>)",
        ),
    ),
    "escaped": ("a", "\\'", "\\x24(<deed>)", "\\\\", "\\n<deed>", "\\'; <deed> #", "\\x27"),
    "quoted": (
        *(
            "[[ a || <deed> ]]",
            "[[ a > M ]]",
            "echo \\$\\'\\\\\\'; <deed> #",
            "echo $((z))",
            "cat <file>",
        ),
        *(
            "echo <deed>",
            "<deed>",
            "echo {a,b} &> M",
            "echo >& M",
            "read x <<< <deed>",
            "echo a |& cat > M",
        ),
        *(
            "function f { <deed>; }; f",
            "echo x; echo y",
            "ls PATH=0",
            "echo $1 $0",
            "printf %s x",
            ": <<E\n$(<deed>)\nE",
        ),
        *(
            "case a in a) echo b ;;& a) <deed> ;; esac",
            "for ((i=0;i<1;i++)); do <deed>; done",
            "echo <(<deed>)",
        ),
    ),
    "format": ("%s", "'%s\\n'", "%d", "%q", "'%(%Y)T'", "%b", "'<quoted>'"),
    "name": ("'*rsa'", ".env", "'.e*'", "'n*'", "'*.pem'", "f", "'*'"),
    "file": (
        *(
            "f",
            ".env",
            ".en?",
            ".en{v..v}",
            "*.pe[m]",
            "./.env",
            "../../me/project/.env",
            "notes",
            "docs/*",
            "list",
        ),
        *(
            "~/.ssh/id_rsa",
            "~/.ss?/id_rsa",
            "../.ssh/id_rsa",
            "/proc/self/root/home/me/.ssh/id_rsa",
            "~/.netrc",
        ),
        *(
            "/proc/self/cwd/.env",
            "/dev/fd/../cwd/.env",
            "/home/me/.ssh/../.ssh/id_rsa",
            "-",
            "--",
            "x.json",
            "dir/../.env",
        ),
        *(
            "/proc/self/environ",
            "link",
            "secret*",
            "key.*",
            "{f,.env}",
            "$x",
            '"$x"',
            '"$(realpath .env)"',
            ".[e]nv",
            "~+/.env",
        ),
    ),
    "dir": (
        ".",
        "..",
        "dir",
        "e",
        "hostile",
        "a",
        "a/b",
        "b",
        "~",
        "~/.ssh",
        "/",
        "/home/me",
        "$x",
        "sub",
        "-",
    ),
    "out": ("-", "--", "M", "/dev/stdout", "/dev/null", "./-", "/dev/fd/1", "f", "- -"),
    "letters": ("t", "tz", "lz", "dc", "kt", "dk", "l", "zt", "9c", "tk", "cd", "td", "dct"),
    "sed": (
        *(
            "p",
            "':a <sedcmd>'",
            "'ba <sedcmd>\n:a'",
            "'s/x/y/<sedflag>'",
            "'1<sedcmd>'",
            "'$!<sedcmd>'",
            "'/x/<sedcmd>'",
        ),
        *(
            "'y/abc/<sedcmd>/'",
            "'{<sedcmd>}'",
            "'1{p;<sedcmd>}'",
            "'a\\\n<sedcmd>'",
            "'i x\n<sedcmd>'",
            "'s,a,b\\,<sedflag>,'",
        ),
        *(
            "'t x;<sedcmd>'",
            "'}<sedcmd>'",
            "'#n\n<sedcmd>'",
            "'s/[/]/x/<sedflag>'",
            "'s/a/b/;<sedcmd>'",
            "'c\\\n<sedcmd>'",
        ),
    ),
    "sedcmd": (
        "e touch M",
        "w M",
        "r .env",
        "R .env",
        "p",
        "d",
        "W M",
        "q",
        "w /dev/stdout",
        "e",
        "F",
        "=",
        "l",
    ),
    "sedflag": ("e", "w M", "g", "gp", "ge", "2", "Iw M", "m", "gw /dev/stdout"),
    "awk": (
        *(
            "'BEGIN { x = 1 \\\n/ 1; <awkdo>; y = 2 / 1 }'",
            "'BEGIN { if (0) exit /\"/; <awkdo> } #\"'",
            "'{ print }'",
        ),
        *(
            "'BEGIN { x = length /\"/; <awkdo> } #\"'",
            "'/[[:alpha:]/\"]/ { <awkdo> } #\"'",
            "'BEGIN { <awkdo> }'",
        ),
        *(
            "'/x\\/<awkdo>/'",
            "'$1 ~ \"<awkdo>\"'",
            '\'BEGIN { print "a" "<awkdo>" }\'',
            "'BEGIN { print 1 / 2; <awkdo> }'",
        ),
        *(
            "-v x='<awkdo>' 'BEGIN { print x }'",
            '\'{ gsub(/"/, ""); <awkdo> }\'',
            "'function f(a) { <awkdo> } BEGIN { f(1) }'",
        ),
        *(
            "-F'<awkdo>' 1",
            "'BEGIN { # \\\n<awkdo> }'",
            "'BEGIN { x = y /2/ 1; <awkdo> }'",
            '\'BEGIN{print 1 > "<out>" "M"}\'',
        ),
    ),
    "awkdo": (
        'system("touch M")',
        'print > "M"',
        'print | "cat > M"',
        '"cat .env" | getline y; print y',
        "print 1",
        'getline < ".env"; print',
    ),
    "git": (
        *(
            "diff",
            "log -p",
            "show",
            "status",
            "log",
            "diff --stat",
            "show HEAD:f",
            "show HEAD -- .env",
            "blame f",
            "grep x",
        ),
        *(
            "-C <dir> diff",
            "-C <dir> log -p",
            "-C <dir> -C <dir> diff",
            "ls-files",
            "branch",
            "rev-parse HEAD",
            "describe --all",
        ),
        *(
            "diff HEAD",
            "diff --no-index f <file>",
            "grep --no-index x",
            "cat-file -p HEAD:f",
            "shortlog -s HEAD",
            "stash list",
        ),
        *(
            "-c diff.external=./evil diff",
            "-c core.pager=./evil log",
            "diff --ext-diff",
            "log --textconv -p",
            "show --textconv",
        ),
        *(
            "-C hostile diff",
            "-C hostile status",
            "-C e log -p",
            "-C a -C b diff",
            "-C sub status",
            "-C comment diff",
            "remote -v",
        ),
    ),
}


def texts(chance: random.Random) -> Iterator[str]:
    """Texts without end."""
    known = [
        json.loads(line)["command"] for line in _EVASIONS.read_text("utf-8").split("\n") if line
    ]
    while True:
        if chance.random() < _MUTATED:
            yield _mutated(chance, chance.choice(known), chance.choice(known))
        else:
            yield _expanded(chance, "text")


def _expanded(chance: random.Random, name: str, depth: int = 0) -> str:
    if name == "deed":
        return chance.choice(_DEED)
    choices = _GRAMMAR[name]
    if depth > _DEEP:  # what has no hole, so that it ends
        choices = [one for one in choices if not _HOLE.search(one)] or ["x"]
    return _HOLE.sub(lambda hole: _expanded(chance, hole[1], depth + 1), chance.choice(choices))


def _mutated(chance: random.Random, text: str, other: str) -> str:
    """A known evasion, changed a little: put into another place, or mixed with another one."""
    words = _TOKEN.findall(text)
    kind = chance.randrange(6)
    if kind == 0:
        return _expanded(chance, "inside").replace("x", text, 1)
    if kind == 1 and len(words) > 1:
        words[chance.randrange(len(words))] = _expanded(chance, "word")
        return "".join(words)
    if kind == 2 and len(words) > 1:
        del words[chance.randrange(len(words))]
        return "".join(words)
    if kind == 3:
        return f"{_expanded(chance, 'sets')}; {text}"
    if kind == 4:
        at = chance.randrange(len(text) + 1)
        return (
            text[:at] + chance.choice(("\\\n", "''", '""', "\\", " ", "\t", "$", "#")) + text[at:]
        )
    half = _TOKEN.findall(other)
    return "".join(
        [*words[: chance.randrange(len(words) + 1)], *half[chance.randrange(len(half)) :]]
    )
