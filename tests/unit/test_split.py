import pytest

from shelltie.shell.split import segments, strip_prefixes


@pytest.mark.proves("C-8")
@pytest.mark.parametrize(
    ("text", "commands"),
    [
        ("ls; npm install", ["ls", "npm install"]),
        ("a && b || c | d |& e & f\ng", ["a", "b", "c", "d", "e", "f", "g"]),
        ("make 2>&1 >out &>log >|f <&3; y", ["make 2>&1 >out &>log >|f <&3", "y"]),
        ("  ls  ", ["ls"]),
        ("", []),
        (";;;", []),
    ],
)
def test_separators_end_a_command_and_redirections_do_not(text: str, commands: list[str]) -> None:
    assert segments(text) == tuple(commands)


@pytest.mark.parametrize(
    "text",
    [
        "echo 'a;b'",
        'echo "a && b"',
        r"echo a\;b",
        r"echo $'it\'s;x'",
        'echo "a \\" ; b"',
        "echo ${x//;/,}",
        "echo $((1 << 2 | 4))",
        "echo {a,b} a#b",
        "it's; unbalanced",
        'echo "unbalanced; b',
        "cat <<< 'a;b'",
    ],
)
def test_what_is_quoted_separates_nothing(text: str) -> None:
    assert segments(text) == (text,)


@pytest.mark.parametrize(
    ("text", "commands"),
    [
        ("echo $(a; b) c; d", ["echo $(a; b) c", "a", "b", "d"]),
        ('echo "$(a "$(b)")"', ['echo "$(a "$(b)")"', 'a "$(b)"', "b"]),
        ("echo `a | b` c", ["echo `a | b` c", "a", "b"]),
        ("diff <(a) <(b)", ["diff <(a) <(b)", "a", "b"]),
        ("echo ${x:-$(a)} $((1 + $(b)))", ["echo ${x:-$(a)} $((1 + $(b)))", "a", "b"]),
        ("(a; b) > out 2>&1 && c", ["a", "b", "c"]),
        ("{ a; b; } > out; c", ["a", "b", "c"]),
        ("f() { a; }; f", ["f", "a", "f"]),
        ("function f { a; }", ["a"]),
        ("(a", ["a"]),
        ("echo $(a", ["echo $(a", "a"]),
    ],
)
def test_commands_inside_brackets_are_commands(text: str, commands: list[str]) -> None:
    assert segments(text) == tuple(commands)


@pytest.mark.parametrize(
    ("text", "commands"),
    [
        (
            "if a; then b; elif c; then d; else e; fi",
            ["if a", "then b", "elif c", "then d", "else e"],
        ),
        ("for i in $(seq 3); do a; done < f; b", ["seq 3", "do a", "b"]),
        ("for ((i = 0; i < 3; i++)); do a; done", ["do a"]),
        ("((i++)); a", ["a"]),
        ("case x in a) b;; (c) d;; esac; e", ["b", "c", "d", "e"]),
        ("# a; b\nc # d; e\nf", ["c", "f"]),
    ],
)
def test_the_grammar_of_the_shell_is_no_command(text: str, commands: list[str]) -> None:
    assert segments(text) == tuple(commands)


@pytest.mark.parametrize(
    ("text", "commands"),
    [
        ("cat <<EOF > f; ls\nnpm install\nEOF\necho hi", ["cat <<EOF > f", "ls", "echo hi"]),
        ("cat <<-'E'\n\ta; b\n\tE\nc", ["cat <<-'E'", "c"]),
        ("cat <<A <<B\na\nA\nb\nB\nc", ["cat <<A <<B", "c"]),
        ("cat <<E\nnever closed; a", ["cat <<E"]),
        ('x "$(cat <<E\na; b\nE\n)" && c', ['x "$(cat <<E\na; b\nE\n)"', "cat <<E", "c"]),
    ],
)
def test_the_text_of_a_here_document_is_no_command(text: str, commands: list[str]) -> None:
    assert segments(text) == tuple(commands)


@pytest.mark.proves("C-7")
@pytest.mark.parametrize(
    ("segment", "command"),
    [
        ("FOO=1 BAR='a b' BAZ=$(date +%s) npm ci", "npm ci"),
        ("sudo -u root -E npm ci", "npm ci"),
        ("env -i -u X A=1 npm ci", "npm ci"),
        ("/usr/bin/env npm ci", "npm ci"),
        ("time -p nice -n 10 nohup npm ci", "npm ci"),
        ("timeout -k 5 --foreground 30 npm ci", "npm ci"),
        ("stdbuf -oL -e L exec command npm ci", "npm ci"),
        ("then ! npm ci", "npm ci"),
        ("while sudo npm ci", "npm ci"),
        ("  npm ci ", "npm ci"),
        ("command -v npm", "command -v npm"),
        ("env", "env"),
        ("sudo -n", "sudo -n"),
        ("FOO=1", ""),
        ("then", ""),
        ("", ""),
    ],
)
def test_what_only_runs_another_command_is_taken_off(segment: str, command: str) -> None:
    assert strip_prefixes(segment) == command


@pytest.mark.parametrize(
    "piece", ["$(", "`", "(", "{ ", "x{ ", "a'", '"$(', "a;", "\\", " # ", "$'\\", "<<a ", "\n"]
)
def test_no_text_is_too_deep_or_too_long(piece: str) -> None:
    text = piece * 20_000

    assert len(segments(text)) <= len(text)
    assert len(strip_prefixes(text)) <= len(text)
