"""A command that another program runs is found, however it is handed over."""

import pytest

from shelltie.safety.rating import rate
from shelltie.safety.rule_set import RuleSet
from shelltie.shell.parse import parse
from shelltie.verdict import Rating

RULES = RuleSet()
SAFE, UNKNOWN, DANGEROUS = Rating
REMOVES = "rm -rf victim"


def rating(text: str) -> Rating:
    return rate(parse(text), RULES).rating


@pytest.mark.parametrize(
    "wrapper",
    [
        *("env -", "env A=1 -", "env -i -", "env - A=1", "env - -u A", "nice -"),
        *("setarch -R", "setarch x86_64 -R", "setarch -v x86_64 -R --", "setarch x86_64"),
        *("setarch -R x86_64", "linux64 -R --"),
        *("exec -ca z", "exec -lca z", "exec -az", "exec -c -a z", "exec -cl --", "exec"),
        *(
            "prlimit",
            "prlimit --nproc=9",
            "prlimit --core=0 --",
            "prlimit -n 9",
            "cpulimit -l 5 --",
        ),
        *("choom -n 0", "choom -n 0 --", "choom --adjust=5"),
        *("perf stat", "perf stat --", "perf record -o x --", "perf trace", "perf mem record"),
        *("ld-linux-x86-64.so.2", "/lib64/ld-linux-x86-64.so.2", "/lib/ld-musl-x86_64.so.1"),
        *("ld.so", "ld.so --library-path x", "ld.so --argv0 z --preload y"),
        *("gdb --args", "gdb -batch -ex run --args", "gdb -q -ex r --args", "lldb --"),
        *("aa-exec", "aa-exec -p x", "aa-exec -p x --", "runcon x", "runcon -t x -r y"),
        *("logsave x", "logsave -as x", "uclampset -m 1", "uclampset -sm 5 --"),
        *("coresched new --", "coresched new -t pgid --", "setlock x", "setlock -nx lock"),
        *("sem", "sem -j4", "sem --id x", "arch -x86_64", "arch -arch arm64 -e A=1"),
        *("frobnicate", "frobnicate -x --level 3", "./tool --", "mywrap sub", "/opt/x/wrap -n 5"),
        *("frobnicate run --", "frobnicate /bin/sh -c :; frobnicate"),
    ],
)
@pytest.mark.parametrize("program", ["rm", "/bin/rm", "sudo rm"])
def test_no_wrapper_hides_the_command_behind_it(wrapper: str, program: str) -> None:
    assert rating(f"{wrapper} {program} -rf victim") is DANGEROUS
    assert rating(f"{wrapper} ls") is not DANGEROUS


@pytest.mark.parametrize(
    "text",
    [
        'set -- rm -rf victim; "$@"',
        "set -- rm -rf victim; $@",
        'set -- rm -rf victim; $*; eval "$*"',
        'set rm -rf victim; "$@"',
        'set -e -- rm -rf victim; "$@"',
        'set -- rm -rf victim; "${@}"',
        'set -- rm -rf victim; "${@:1}"',
        'set -- x rm -rf victim; "${@:2}"',
        'set -- x rm -rf victim; shift; "$@"',
        'set -- x y rm -rf victim; shift 2; "$@"',
        "set -- rm -rf victim; $1 $2 $3",
        'set -- rm -rf victim; "$1" "$2" "${3}"',
        'set -- -rf victim; rm "$@"',
        'set -- rm -rf victim; exec "$@"',
        'set -- rm -rf victim; sudo -n "$@"',
        'set -- rm; set -- "$@" -rf victim; "$@"',
        'a=(rm -rf victim); "${a[@]}"',
        "a=(rm -rf victim); ${a[@]}",
        'a=(rm -rf victim); ${a[*]}; bash -c "${a[*]}"',
        'a=(rm -rf victim); "${a[@]:0}"',
        'a=(rm); a+=(-rf victim); "${a[@]}"',
        'a=(-rf victim); rm "${a[@]}"',
        'a=(rm -rf); "${a[0]}" "${a[1]}" victim',
        "a=(rm -rf victim); $a ${a[1]} x",
        "a=(\nrm\n-rf\n'victim'\n)\n\"${a[@]}\"",
        'declare -a a=(rm -rf victim); "${a[@]}"',
        "a[0]=rm; a[1]=-rf; a[2]=victim; ${a[@]}",
        'b=(-rf victim); a=(rm "${b[@]}"); "${a[@]}"',
        "bash -c '\"$@\"' _ rm -rf victim",
        "bash -c 'exec \"$@\"' _ rm -rf victim",
        "bash -c '$0 $@' rm -rf victim",
        "bash -c '$0 \"$@\"' rm -rf victim",
        "sh -c '$1 -rf victim' _ rm",
        "sh -c 'shift; \"$@\"' _ x rm -rf victim",
        "sudo bash -c '\"$@\"' _ rm -rf victim",
        "bash -s rm -rf victim <<< '\"$@\"'",
        "f() { $1 -rf victim; }; f rm",
        'f() { "$@"; }; f rm -rf victim',
        'f() { rm "$@"; }; f -rf victim',
    ],
)
def test_words_that_the_text_sets_are_followed_to_where_they_are_used(text: str) -> None:
    assert rating(text) is DANGEROUS
    assert rating(text.replace("rm", "wc").replace("-rf", "-l").replace("sudo", "")) is not (
        DANGEROUS
    )


@pytest.mark.parametrize(
    "text",
    [
        *("frobnicate rm", "frobnicate reboot", "frobnicate --kill shutdown", "mytool su"),
        *("frobnicate ls rm", "frobnicate -x 'about rm'"),
        *("poe test --rm", "mytool delete --force x", "frobnicate run tests -- -k 'rm and mv'"),
    ],
)
def test_a_word_that_only_has_the_name_of_a_program_is_no_command(text: str) -> None:
    assert rating(text) is UNKNOWN


def test_a_wrapper_that_was_not_known_still_runs_what_is_safe_unasked() -> None:
    known = ["env - ls", "setarch x86_64 ls", "arch", "prlimit", "choom -p 1", "nice ls"]

    assert [text for text in known if rating(text) is DANGEROUS] == []
    assert rating("arch") is SAFE


def test_many_words_that_are_programs_do_not_make_a_text_too_much_to_look_at() -> None:
    text = "\n".join(f"frobnicate{n} test file find install {n}" for n in range(150))

    assert rating(text) is UNKNOWN
