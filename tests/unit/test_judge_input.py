"""The input of a command is judged as what it is: text for a shell or an interpreter, or data."""

import pytest

from shelltie.model import Command, TerminalSize
from shelltie.safety.command_lists import lists_of
from shelltie.safety.judge import Judge
from shelltie.safety.rule_set import RuleSet
from shelltie.shell.parse import READ_MAX
from shelltie.verdict import Code, Rating

RULES = RuleSet()
SAFE, UNKNOWN, DANGEROUS = Rating
REMOVES = "rm -rf victim\n"
MANY = "".join(f"echo line{n}\n" for n in range(2000))


def rating(text: str, stdin: str) -> Rating:
    return Judge(RULES).first(Command(text, stdin=stdin.encode())).rating


@pytest.mark.parametrize(
    ("command", "stdin"),
    [
        *((shell, REMOVES) for shell in ("bash", "sh -s", "bash -s a b", "bash -", "dash")),
        *((around, REMOVES) for around in ("env bash", "timeout 5 bash", "exec bash", "(bash)")),
        ("bash -c 'bash'", REMOVES),
        ("f() { bash; }; f", REMOVES),
        ("if true; then bash; fi", REMOVES),
        ("bash < /dev/stdin", REMOVES),
        ("bash <&0", REMOVES),
        ("bash /dev/stdin", REMOVES),
        ("source /dev/stdin", REMOVES),
        (". /dev/stdin", REMOVES),
        ("read l; $l", REMOVES),
        ("while read l; do $l; done", REMOVES),
        ("x=$(cat); $x", REMOVES),
        ('eval "$(cat)"', REMOVES),
        ('mapfile a; "${a[@]}"', REMOVES),
        ("xargs -I{} sh -c {}", REMOVES),
        ("cat | bash", REMOVES),
        ("bash <(cat)", REMOVES),
        ("ssh host", REMOVES),
        ("ed file", "!rm -rf victim\n"),
        ("python3 -", "import shutil\nshutil.rmtree('victim')\n"),
        ("cat | python3", "import shutil\nshutil.rmtree('victim')\n"),
        ("node", "require('fs').rmSync('victim', {recursive: true})"),
        ("perl", "system('rm -rf victim')"),
        ("make -f -", "x:\n\trm -rf victim\n"),
        ("awk -f /dev/stdin", 'BEGIN { system("rm -rf victim") }'),
        ("sqlite3", ".shell rm -rf victim\n"),
    ],
)
def test_input_that_is_run_is_judged_like_a_here_document(command: str, stdin: str) -> None:
    assert rating(command, stdin) is DANGEROUS
    assert rating(command, "") is not SAFE


@pytest.mark.parametrize("before", ["true\n" * 100, "true\n" * 200_000, MANY], ids=len)
@pytest.mark.parametrize(
    "command",
    [
        *('eval "$(cat)"', "while read l; do $l; done", 'bash -c "$(cat)"', "bash <(cat)"),
        *("read l; $l", 'mapfile a; eval "${a[@]}"', "cat > x; bash x", "make -f -", "ssh host"),
    ],
)
def test_no_length_of_the_input_hides_what_is_run(command: str, before: str) -> None:
    assert rating(command, before + REMOVES) is DANGEROUS


def test_what_is_read_again_and_again_is_looked_at_once() -> None:
    lines = "".join(f"echo line{n}\n" for n in range(300))

    assert rating("read l; " + "$l; " * 10, lines) is UNKNOWN


@pytest.mark.parametrize(
    "command",
    [
        "cat",
        "grep x",
        "jq .",
        "head -1",
        "wc -l",
        "sort | uniq",
        "ls; cat",
        "bash < f",
        "cat > g; bash < f",
        "tee f",
        "touch x; cat",
    ],
)
def test_input_that_is_only_read_changes_nothing(command: str) -> None:
    judge = Judge(RULES)

    given = judge.first(Command(command, stdin=REMOVES.encode()))

    assert given == judge.first(Command(command))


@pytest.mark.parametrize(
    "command",
    [
        *("linux64", "linux32", "i386", "x86_64", "uname26", "linux64 -R", "linux64 --verbose"),
        *("setarch", "setarch -R", "setarch x86_64", "setarch x86_64 -R"),
        *("fakeroot", "fakechroot", "proot", "proot -r /", "firejail", "firejail --noprofile"),
        *("script", "script -q /dev/null", "script -q", "screen", "tmux", "tmux new", "byobu"),
        *("bwrap --bind / / bash", "rlwrap bash", "cgexec -g x bash", "direnv exec . bash"),
        *("nix-shell", "nix develop", "poetry shell", "pipenv shell", "podman unshare"),
        *(
            "docker run -i x",
            "kubectl run -i x",
            "devbox shell",
            "xvfb-run bash",
            "dbus-run-session -- bash",
        ),
    ],
)
def test_a_wrapper_that_starts_a_shell_by_itself_runs_its_input(command: str) -> None:
    assert rating(command, REMOVES) is DANGEROUS
    assert rating(command, "") is UNKNOWN


@pytest.mark.parametrize("command", ["linux64 cat", "setarch x86_64 ls", "linux32 -R head -1"])
def test_a_wrapper_with_a_command_leaves_its_input_to_that(command: str) -> None:
    assert rating(command, "x\n") is rating(command, "")
    assert rating(command.replace("cat", "bash").replace("head -1", "sh"), "ls") is UNKNOWN


@pytest.mark.parametrize(
    "command",
    [
        *(". /proc/self/fd/0", "source /dev/fd/0", ". /proc/thread-self/fd/0", ". /dev/tty"),
        *("source <(cat)", ". <(cat)", "cat > x; . ./x", "cat > x; source x"),
        *("bash 3<&0 <&3", "exec 3<&0; bash <&3", "exec 3<&0; bash 0<&3-", "bash <&3"),
        *("x=/dev/stdin; sh < $x", "sh < /dev/std*", 'sh < "$(tty)"', "sh < /dev/pts/3"),
        *("sh < /proc/$$/fd/0", "exec {x}<&0; sh <&$x", "sh < <(cat)"),
        *("cat > x; sh < x", "tee x; sh < ./x", "mkfifo p; cat > p & sh < p"),
        *("bash 3< f", "bash 4< f 3<&0", "bash {x}< f"),
        *("bash < /proc/self/fd/0", "bash < /dev/fd/3", "bash /proc/self/fd/0"),
        *("sh < /dev/tty", "sh 0<>/dev/tty", "sh <>/dev/tty"),
    ],
)
def test_a_shell_that_gets_its_input_by_a_roundabout_way_runs_it(command: str) -> None:
    assert rating(command, REMOVES) is DANGEROUS
    assert rating(command, "") is not SAFE


@pytest.mark.parametrize(
    ("command", "stdin"),
    [
        ('awk "{system(\\$0)}"', REMOVES),
        ("awk '{$0 | getline}'", REMOVES),
        ("gawk 'BEGIN{while((getline l)>0) system(l)}'", REMOVES),
        ("sed e", REMOVES),
        ("sed 1e", REMOVES),
        ('sed "s/.*/&/e"', REMOVES),
        ("sed -e 's/x//e' -n", REMOVES),
        ("perl -ne 'system $_'", REMOVES),
        ("perl -e 'eval <STDIN>'", "unlink 'x'; system('rm -rf victim')"),
        ("ruby -ne 'system $_'", REMOVES),
        ('python3 -c "import os;os.system(input())"', REMOVES),
        ('python3 -c "while 1: exec(input())"', "import shutil\nshutil.rmtree('victim')\n"),
        ("node -e 'eval(readFileSync(0))'", "require('fs').rmSync('x', {recursive: true})"),
        ("php -r 'system(fgets(STDIN));'", REMOVES),
        ("lua -e 'os.execute(io.read())'", REMOVES),
        ("tclsh", REMOVES),
        ("tclsh", "exec rm -rf victim\n"),
        ("expect", "spawn rm -rf victim\n"),
        ("gdb -q", "shell rm -rf victim\n"),
        ("gdb", "!rm -rf victim\n"),
        ("dc", "!rm -rf victim\n"),
    ],
)
def test_a_program_whose_own_text_may_run_its_input_is_asked_about(
    command: str, stdin: str
) -> None:
    assert rating(command, stdin) is DANGEROUS
    assert rating(command, "hello\n") is not DANGEROUS


@pytest.mark.parametrize("command", ["sed -n 1p", "sed s/x/y/g", "awk '{print $1}'"])
def test_a_text_that_runs_nothing_reads_data(command: str) -> None:
    assert rating(command, REMOVES) is SAFE


@pytest.mark.parametrize("command", ["less x", "less", "man ls", "more x"])
def test_a_line_for_the_shell_that_is_typed_into_a_pager_is_judged(command: str) -> None:
    assert rating(command, "!rm -rf victim\n") is DANGEROUS
    assert rating(command, REMOVES) is rating(command, "")


def test_what_a_pipe_brings_to_a_text_that_runs_its_input_is_judged() -> None:
    assert rating("echo 'rm -rf victim' | sed e", "") is DANGEROUS
    assert rating("echo 'rm -rf victim' | awk '{system($0)}'", "") is DANGEROUS


def test_an_answer_to_a_prompt_is_data() -> None:
    assert rating("npm init", "y\n") is rating("npm init", "")
    assert rating("git rebase -i HEAD~3", "rm\n") is rating("git rebase -i HEAD~3", "")


def test_without_a_shell_input_is_judged_as_well() -> None:
    verdict = Judge(RULES).first(Command("", argv=("bash", "-s"), stdin=REMOVES.encode()))

    assert verdict.rating is DANGEROUS


def test_a_place_in_the_input_is_told_as_if_it_stood_behind_the_text() -> None:
    command, stdin = "cat; bash", "ls\n" + REMOVES

    verdict = Judge(RULES).first(Command(command, stdin=stdin.encode()))

    whole = f"{command}\n{stdin}"
    shown = {whole[it.span.start : it.span.end] for it in verdict.reasons if it.rating is DANGEROUS}
    assert shown == {"rm -rf victim"}


def test_a_session_that_takes_more_input_is_not_safe_for_what_it_is_given_first() -> None:
    command = Command("bash", stdin=b"ls\n", stays_open=True, pty=TerminalSize())

    verdict = Judge(RULES).first(command)

    assert verdict.rating is UNKNOWN
    assert Code.INTERACTIVE in {reason.code for reason in verdict.reasons}


def test_the_same_command_with_another_input_is_another_one() -> None:
    judge = Judge(RULES)

    assert judge.first(Command("bash", stdin=b"ls\n")).rating is UNKNOWN
    assert judge.first(Command("bash", stdin=REMOVES.encode())).rating is DANGEROUS
    assert judge.first(Command("bash")).rating is UNKNOWN


def test_input_that_is_too_long_to_be_looked_at_is_dangerous_for_a_shell_alone() -> None:
    stdin = "echo x\n" * READ_MAX

    assert rating("bash", stdin) is DANGEROUS
    assert rating("wc -l", stdin) is SAFE


def test_input_that_is_no_text_is_looked_at_all_the_same() -> None:
    verdict = Judge(RULES).first(Command("bash", stdin=b"\xff\xfe\0\nrm -rf victim\n"))

    assert verdict.rating is DANGEROUS


def test_the_users_own_patterns_are_searched_in_input_that_is_run() -> None:
    judge = Judge(RULES, lists=lists_of((), ("prod-db",)))

    assert judge.first(Command("bash", stdin=b"ls prod-db\n")).rating is DANGEROUS
    assert judge.first(Command("cat", stdin=b"ls prod-db\n")).rating is SAFE


@pytest.mark.parametrize(
    "command",
    [
        *("env - bash", "env - sh -s", "/proc/self/exe", "/proc/thread-self/exe", "/proc/42/exe"),
        *("prlimit bash", "choom -n 0 -- sh", "/lib64/ld-linux-x86-64.so.2 /bin/bash"),
        *("cp /bin/bash ./x; ./x", "ln -s /bin/bash x; ./x", "./tool", "frobnicate -", "arch bash"),
        *("aa-exec -p x bash", "runcon x bash", "frobnicate bash", "mapfile -C eval -c 1 a"),
    ],
)
def test_a_program_that_nobody_knows_may_be_a_shell(command: str) -> None:
    assert rating(command, REMOVES) is DANGEROUS
    assert rating(command, "one\n" * 100 + REMOVES) is DANGEROUS
    assert rating(command, "hello\nworld\n") is not DANGEROUS


@pytest.mark.parametrize(
    "command",
    [
        *("read a; ((a))", "read a; let a", "read a; [[ a -eq 1 ]]", "read a; echo $((a))"),
        *('read a; test -v "$a"', 'read a; [ -v "$a" ]', 'read a; printf -v "$a" x'),
        *('read a; declare "$a"', 'read a; unset "$a"', "read a; echo ${!a}", 'read a; read "$a"'),
        *("read a; a[$a]=1", "read a; x=${y:a}", "read a; declare -i n=$a", "declare -i n; read n"),
        *("read a; for ((i=a;;)); do break; done", "read -r a; echo ${a@P}"),
        *('read a; PS4="$a"; set -x; :', "mapfile a; ((a))", "a=$(cat); ((a))"),
    ],
)
def test_a_value_that_the_shell_evaluates_may_come_from_the_input(command: str) -> None:
    assert rating(command, "x[$(rm -rf victim)]\n") is DANGEROUS
    assert rating(command, "$(rm -rf victim)\n") is DANGEROUS
    assert rating(command, "5\n") is UNKNOWN


@pytest.mark.parametrize(
    ("command", "line"),
    [
        ("make -f -", "x:=$(shell {})\nall:;@:"),
        ("make -f -", "x != {}"),
        *(("ed", line) for line in ("r !{}", "w !{}", "!{}", "0r !{}")),
        *(("psql", line) for line in ("select 1 \\g |{}", "\\o |{}", "\\! {}")),
        *(("psql", line) for line in ("copy t to program '{}'", "\\copy t from program '{}'")),
        *(("sqlite3", line) for line in (".output |{}", ".once '|{}'", ".shell {}", ".system {}")),
        *(("mysql", line) for line in ("\\! {}", "system {}", "pager {}", "\\P {}")),
        *(("gdb", line) for line in ("pipe p 1 | {}", "shell {}", "!{}")),
        *(("lldb", line) for line in ("platform shell {}", "shell {}")),
        *(("gnuplot", line) for line in ('system "{}"', "!{}", "plot '<{}'")),
        *(("m4", line) for line in ("syscmd({})", "syscmd(`{}')", "esyscmd([{}])")),
        *((program, "!{}") for program in ("ftp", "lftp", "telnet h", "dc", "sftp h")),
        ("swipl", 'shell("{}").'),
        ("erl", 'os:cmd("{}").'),
        ("sbcl", '(uiop:run-program "{}")'),
        ("jshell", 'Runtime.getRuntime().exec("{}")'),
        ("scala", '"{}".!'),
        ("clojure", '(sh "{}")'),
        ("clojure", '(sh "env" "{}")'),
        ("ghci", ":!{}"),
    ],
)
def test_a_line_by_which_a_program_reaches_the_shell_is_judged(command: str, line: str) -> None:
    assert rating(command, line.format("rm -rf victim") + "\n") is DANGEROUS
    assert rating(command, "\n" * 50 + line.format("rm -rf victim") + "\n") is DANGEROUS
    assert rating(command, line.format("date") + "\n") is not DANGEROUS


@pytest.mark.parametrize(
    "stdin",
    [
        '{"name": "find", "files": ["rm", "-rf"], "test": "install"}\n' * 300,
        "id,name,size\n" + "1,rm,5\n2,sudo,7\n" * 1000,
        "The file is removed with `rm`, then sudo is asked.\nDo not use it | ever!\n" * 100,
        "test line {n}\nfind me\n" * 100,
    ],
)
def test_data_for_a_program_that_nobody_knows_is_not_dangerous(stdin: str) -> None:
    lines = "".join(line.replace("{n}", str(n)) for n, line in enumerate(stdin.splitlines(True)))

    assert rating("./load --table x", lines) is UNKNOWN


@pytest.mark.parametrize(
    ("command", "stdin"),
    [
        ("$(echo rm; echo -rf ~/x)", None),
        ("$(echo rm\necho -rf ~/x )", None),
        ("while read l; do $l; done <<<'rm -rf ~/x'", None),
        ("read l <<<'rm -rf ~/x'; $l", None),
        ("python3", b"import os; os.system('rm ' '-rf /home/x')"),
        ("python3", b"import os; os.system('r'\n  \"m -rf /home/x\")"),
    ],
)
def test_a_command_that_is_put_together_from_texts_is_judged(
    command: str, stdin: bytes | None
) -> None:
    verdict = Judge(RULES).first(Command(command, stdin=stdin))

    assert verdict.rating is Rating.DANGEROUS


@pytest.mark.parametrize(
    "command",
    ["$EDITOR x <<'E'\nrm -rf ~/x\nE", "read l <<<'ls -l'; $l", "$(echo ls; echo -l)"],
)
def test_a_text_beside_a_program_of_the_run_time_is_not_that_program(command: str) -> None:
    assert Judge(RULES).first(Command(command)).rating is Rating.UNKNOWN
