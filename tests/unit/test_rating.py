"""What we think of commands: the three labels, the twelve rules, both modes, and the reasons."""

import pytest

from shelltie.safety.command_lists import DANGEROUS_PATTERNS, SAFE_NAMES, Lists, lists_of
from shelltie.safety.rating import RatingMode, examine, rate
from shelltie.safety.rule_set import RuleSet
from shelltie.shell.parse import READ_MAX, of_argv, parse
from shelltie.verdict import Code, Rating, Reason, Span

RULES = RuleSet()
MODES: tuple[RatingMode, ...] = ("proven", "listed")
SAFE, UNKNOWN, DANGEROUS = Rating


def rating(text: str, mode: RatingMode = "proven", lists: Lists | None = None) -> Rating:
    return rate(parse(text), RULES, mode, lists).rating


def reasons(text: str) -> tuple[Reason, ...]:
    return rate(parse(text), RULES).reasons


def codes(text: str) -> set[Code]:
    return {reason.code for reason in reasons(text)}


# ---- the seed's examples --------------------------------------------------------------------


@pytest.mark.proves("T2-1", "S2-59", "D9")
@pytest.mark.parametrize(
    "command",
    [
        *("cd", "ls", "git", "npm", "yarn", "bun", "tsc", "node", "echo", "npm install", "NPM"),
        *("git add .", 'git commit -m "message"', "node dist/index.js"),
        "cd a && mkdir -p b c && touch b/x",
        'npm install; yarn build && tsc && echo "done"',
    ],
)
def test_the_listed_names_are_safe_in_the_listed_mode(command: str) -> None:
    assert rating(command, "listed") is SAFE


@pytest.mark.proves("D9")
@pytest.mark.parametrize(
    "command",
    [
        *("npm install", "node dist/index.js", "mkdir x", "touch x"),
        *("node -e 'x()'", "tee x"),
    ],
)
def test_a_listed_name_proves_nothing(command: str) -> None:
    assert rating(command) is UNKNOWN


@pytest.mark.proves("C-61")
@pytest.mark.parametrize("command", ["tee /etc/passwd", "git push --force", "node -e 'x()'"])
def test_what_a_listed_name_is_asked_to_do_counts(command: str) -> None:
    assert rating(command) is not SAFE


@pytest.mark.proves("T2-2", "S2-3")
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("command", ["rm", "a", "a" * 1000 + "rm", "my_custom_script.sh"])
def test_what_is_not_known_is_unknown(command: str, mode: RatingMode) -> None:
    assert rating(command, mode) is UNKNOWN


@pytest.mark.proves("T2-3", "S2-3", "S2-60", "D9")
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(
    "command",
    [
        *("sudo ", "sudo ls", "rm -rf", "rm -rf /", "RM -r", "rmdir ", "format ", "format c:"),
        *("del ", "del /s /q *.*", "shutdown", "shutdown -h now", "reboot"),
        *("dd if=/dev/zero of=/dev/sda", r'find / -name "*.txt" -exec rm {} \;'),
        *("chmod -R 777 /x", "chown -R root:root /x", "cd src && rm -rf node_modules"),
        *("rm file1 && sudo rm file2", "git reset", "git reset --soft HEAD~1", "find . -delete"),
    ],
)
def test_the_dangerous_commands_are_dangerous_in_both_modes(command: str, mode: RatingMode) -> None:
    assert rating(command, mode) is DANGEROUS


@pytest.mark.proves("T2-4", "S2-4")
@pytest.mark.parametrize("mode", MODES)
def test_what_is_quoted_separates_nothing(mode: RatingMode) -> None:
    assert rating(r'grep -n "attach\|show()\|reset(" file', mode) is SAFE


@pytest.mark.proves("T2-5", "C-61")
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(
    "command",
    [
        *("echo $(rm -rf /)", "echo `rm -rf /`", "/bin/rm -rf x", r"\rm -rf x", "env rm -rf x"),
        *("xargs rm -rf", 'bash -c "rm -rf /"', "(rm -rf x)", "cat <(rm -rf x)"),
    ],
)
def test_nothing_hides_a_dangerous_command(command: str, mode: RatingMode) -> None:
    assert rating(command, mode) is DANGEROUS


@pytest.mark.proves("T2-5", "C-61")
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(
    "command",
    ["echo $(curl x)", "ls & curl x", "ls\ncurl x", "psql", "idle", 'bash -c "x"', "", " ", "&&"],
)
def test_the_seeds_holes_are_closed(command: str, mode: RatingMode) -> None:
    assert rating(command, mode) is not SAFE


@pytest.mark.proves("T2-6", "C-61")
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(
    "command",
    [
        *("echo shutdown", 'git commit -m "reset docs"', "npm run format x", "find . -executable"),
        "rm a-b.tar",
    ],
)
def test_a_word_is_not_a_command(command: str, mode: RatingMode) -> None:
    assert rating(command, mode) is not DANGEROUS


@pytest.mark.proves("T2-6", "C-61")
@pytest.mark.parametrize("mode", MODES)
def test_a_users_dangerous_pattern_is_searched_in_the_whole_text(mode: RatingMode) -> None:
    lists = lists_of(dangerous=["shutdown"])

    assert rating("echo shutdown", mode, lists) is DANGEROUS
    assert rating("echo " + "x" * 9000 + "Shutdown", mode, lists) is DANGEROUS
    assert rating("echo shut down", mode, lists) is SAFE


@pytest.mark.proves("D9")
def test_a_users_safe_pattern_is_trusted_for_its_own_command_only() -> None:
    lists = lists_of(safe=["^npm test"])

    assert rating("npm test", "proven", lists) is SAFE
    assert rating("npm test && npm run x", "proven", lists) is UNKNOWN
    assert rating("npm test $(rm -rf x)", "proven", lists) is DANGEROUS


def test_danger_wins_over_a_users_trust() -> None:
    lists = lists_of(safe=["."], dangerous=["push"])

    assert rating("rm -rf x", "proven", lists) is DANGEROUS
    assert rating("git push", "proven", lists) is DANGEROUS


def test_a_users_pattern_that_could_run_away_is_refused() -> None:
    with pytest.raises(ValueError, match="'\\(a\\+\\)\\+' repeats a part"):
        lists_of(dangerous=["(a+)+"])


@pytest.mark.proves("S2-59", "S2-60", "D9", "C-61")
def test_the_seeds_lists_are_complete() -> None:
    names = """
        awk cat cd chdir diff echo find git grep head help hostname id ipconfig tee ls netstat ps
        pwd sort tail tree type uname uniq wc which touch mkdir npm yarn bun tsc node npx bunx
        vitest
    """
    patterns = r"""
        (^|\s)dd\s (^|\s)rm.*-.*r (^|\s)chmod.*-.*r (^|\s)chown.*-.*r (^|\s)rmdir\s
        find.*-(delete|exec) (^|\s)sudo\s (^|\s)del\s (^|\s)format\s (^|\s)reboot
        (^|\s)shutdown git.*reset
    """

    assert list(SAFE_NAMES) == names.split()
    assert list(DANGEROUS_PATTERNS) == patterns.split()
    for name in SAFE_NAMES:
        assert rating(name, "listed") is SAFE, name


@pytest.mark.proves("S2-75", "S2-3")
def test_the_readmes_example() -> None:
    assert [rating(it) for it in ("rm -rf /", "my_custom_script.sh", "ls -la")] == [
        DANGEROUS,
        UNKNOWN,
        SAFE,
    ]


# ---- reasons --------------------------------------------------------------------------------


def test_a_safe_command_has_no_reasons_and_lists_what_it_runs() -> None:
    verdict = rate(parse("git log | head -3"), RULES)

    assert verdict.rating is SAFE
    assert verdict.reasons == ()
    assert [command.argv for command in verdict.commands] == [("git", "log"), ("head", "-3")]
    assert not verdict.agreed


def test_a_reason_says_where_by_which_rule_and_inside_what() -> None:
    text = "ls && timeout 5 rm -r x"

    reason = reasons(text)[0]

    assert (reason.code, reason.rating) == (Code.DESTROYS_DATA, DANGEROUS)
    assert text[reason.span.start : reason.span.end] == "timeout 5 rm -r x"
    assert reason.rule == "files/rm"
    assert reason.program == "rm"
    assert reason.wrappers == ("timeout",)


def test_in_text_that_is_read_again_the_span_is_the_words() -> None:
    text = "sudo bash -c 'ls; rm -r x'"

    inner = next(reason for reason in reasons(text) if reason.program == "rm")

    assert text[inner.span.start : inner.span.end] == "'ls; rm -r x'"
    assert inner.wrappers == ("sudo", "bash -c")


def test_spans_count_characters() -> None:
    text = "echo 'äöü😀'; rm -r x"

    assert reasons(text)[0].span == Span(13, 20)


def test_the_strictest_reasons_come_first_and_weaker_ones_are_kept() -> None:
    ratings = [reason.rating for reason in reasons("mkdir x; rm -r y; touch z")]

    assert ratings == sorted(ratings, key=lambda it: -it.rank)
    assert {DANGEROUS, UNKNOWN} <= set(ratings)


def test_there_are_never_too_many_reasons() -> None:
    assert len(reasons(";".join(f"frob{number}" for number in range(100)))) == 20


def test_what_must_hold_at_run_time_is_told() -> None:
    assert examine(parse("git status"), RULES).conditions == {"git-config"}
    assert examine(parse("ls"), RULES).conditions == frozenset()


def test_the_programs_and_directories_are_told() -> None:
    found = examine(parse("cd a; git -C b status; cd $X; /bin/ls; env -C c ls"), RULES)

    assert set(found.programs) == {"cd", "git", "/bin/ls", "env", "ls"}
    assert set(found.directories) == {"a", "b", None, "c"}


def test_an_argument_vector_is_rated_without_a_shell() -> None:
    assert rate(of_argv(["echo", "$(rm -rf /)"]), RULES).rating is SAFE
    assert rate(of_argv(["rm", "-rf", "/"]), RULES).rating is DANGEROUS
    assert rate(of_argv(["bash", "-c", "rm -rf /"]), RULES).rating is DANGEROUS


# ---- bounds ---------------------------------------------------------------------------------


def test_too_many_programs_around_a_command_are_dangerous() -> None:
    assert rating("nice " * 7 + "ls") is SAFE
    assert codes("nice " * 9 + "ls") == {Code.TOO_DEEP}
    assert rating("nice " * 9 + "ls") is DANGEROUS


@pytest.mark.parametrize("text", ["ls;" * 3000, "ls " + "x" * READ_MAX])
def test_what_is_too_much_to_look_at_is_dangerous(text: str) -> None:
    assert Code.TOO_LONG in codes(text)
    assert rating(text) is DANGEROUS


def test_wrappers_with_unknown_options_do_not_multiply_the_work() -> None:
    assert rating("xargs --frob " * 12 + "rm -rf x") is DANGEROUS
    assert rating("timeout --frob " * 8 + "ls") is not SAFE


# ---- what is read closely -------------------------------------------------------------------


def test_only_what_is_directly_in_a_system_directory_is_of_the_system() -> None:
    assert rating("/usr/bin/ls") is SAFE
    assert codes("/usr/bin/of/mine/ls") == {Code.UNTRUSTED_PROGRAM}
    assert codes("/usr/bin/ls/ls") == {Code.UNTRUSTED_PROGRAM}


@pytest.mark.parametrize("program", ["./npm", "bin/npm", "/usr/bin/npm", "/tmp/npm"])
def test_a_list_trusts_names_not_paths(program: str) -> None:
    assert rating("npm install", "listed") is SAFE
    assert rating(f"{program} install", "listed") is UNKNOWN


def test_a_command_that_is_only_listed_says_so() -> None:
    judged = rate(parse("npm install; ls"), RULES, "listed").commands

    assert [(it.argv, it.listed) for it in judged] == [(("npm", "install"), True), (("ls",), False)]


def test_a_path_that_no_system_opens_is_not_safe_to_read() -> None:
    assert rating("cat " + "a" * 4096) is SAFE
    assert rating("cat " + "a" * 4097) is UNKNOWN


@pytest.mark.parametrize(
    "command",
    [
        "ls | xargs -I{} sh -c {}",
        "ls | xargs -I{} sh -c '{}'",
        "ls | xargs -I% bash -c '\"%\" x'",
        "ls | xargs sh -c",
        "ls | xargs -I{} {} x",
        "find . -exec sh -c {} \\;",
    ],
)
def test_xargs_that_runs_its_input_is_dangerous(command: str) -> None:
    assert rating(command) is DANGEROUS
    assert Code.REMOTE_CODE in codes(command)


def test_the_command_that_xargs_makes_of_its_input_is_shown_with_what_it_reads() -> None:
    text = "ls | xargs -I{} sh -c {}"
    (span,) = {it.span for it in reasons(text) if it.code is Code.REMOTE_CODE}

    assert text[span.start : span.end] == "ls | xargs -I{} sh"
