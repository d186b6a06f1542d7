"""What arguments are refused, why, and what a rule of the allowlist changes about it."""

import pytest

from shelltie.contexts.argument_filter import ArgumentRules, Denied, FilterLevel, Refusal, refusal

NO_RULES = ArgumentRules()


def refused(
    args: list[str], rules: ArgumentRules = NO_RULES, level: FilterLevel = FilterLevel.DEFAULT
) -> bool:
    return refusal(args, rules, level) is not None


def denies(words: str, args: str) -> bool:
    deny = tuple(Denied(*line.split()) for line in words.split(", "))
    return refused(args.split(), ArgumentRules(deny=deny))


@pytest.mark.proves("S4-17")
@pytest.mark.parametrize("level", FilterLevel)
@pytest.mark.parametrize(
    "args",
    [
        [],
        ["test", "--coverage", "--verbose"],
        ["install", "express", "--save"],
        ["status", "--short"],
        ["commit", "-m", "Automated commit"],
        [
            "it's",
            '"quoted"',
            "(a b)",
            "--x=y",
            "a/b/../c",
            "-",
            "",
            "$5",
            "100%",
            "a\\b",
            "é\udc80",
        ],
        ["x" * 5000],
    ],
)
def test_ordinary_arguments_pass_at_every_level(args: list[str], level: FilterLevel) -> None:
    assert refusal(args, NO_RULES, level) is None


@pytest.mark.proves("S4-18", "C-66")
@pytest.mark.parametrize("level", [FilterLevel.DEFAULT, FilterLevel.STRICT])
@pytest.mark.parametrize(
    ("argument", "found", "issue"),
    [
        ("test; rm -rf /", ";", "Dangerous shell metacharacter detected: ;"),
        ("$(whoami)", "$(", "Dangerous command substitution detected"),
        ("`whoami`", "`", "Dangerous command substitution detected"),
        ("$PATH/../../../", "$PATH", "Dangerous variable expansion detected"),
        ("${HOME", "${", "Dangerous variable expansion detected"),
        ("a$_b", "$_b", "Dangerous variable expansion detected"),
        ("a|b", "|", "Dangerous shell metacharacter detected: |"),
        ("a&b", "&", "Dangerous shell metacharacter detected: &"),
        ("a>b", ">", "Dangerous shell metacharacter detected: >"),
        ("a<b", "<", "Dangerous shell metacharacter detected: <"),
        ("a\nb", "\n", "Dangerous shell metacharacter detected: \n"),
        ("a\rb", "\r", "Dangerous shell metacharacter detected: \r"),
        ("a\0b", "\0", "Dangerous shell metacharacter detected: \\x00"),
        ("a\ud800b", "\ud800", "Not valid Unicode"),
    ],
)
def test_shell_syntax_is_refused_with_what_and_why(
    argument: str, found: str, issue: str, level: FilterLevel
) -> None:
    wrong = refusal(["ok", argument], NO_RULES, level)

    assert wrong is not None
    assert (wrong.index, wrong.found, wrong.issues) == (1, (found,), (issue,))
    assert wrong.why.isprintable()


@pytest.mark.proves("C-66")
def test_an_argument_of_more_than_5000_characters_is_refused() -> None:
    assert refusal(["x" * 5001], NO_RULES, FilterLevel.DEFAULT) == Refusal(
        0,
        "is 5001 characters long, and 5000 are allowed: use a file",
        ("Argument too long (max 5000 chars)",),
    )


def test_everything_wrong_with_an_argument_is_told_at_once() -> None:
    wrong = refusal(["a; $(b) | $C ;"], NO_RULES, FilterLevel.DEFAULT)

    assert wrong is not None
    assert wrong.found == (";", "$(", "|", "$C")
    assert "no shell is involved, so nothing would be expanded" in wrong.why


@pytest.mark.proves("C-66")
@pytest.mark.parametrize(
    "argument", ["*.py", "tests/[a].py", "why?", "~/x", "{a,b}", "a]", "b}", "/", "/*", "/**"]
)
def test_only_the_strict_level_refuses_patterns(argument: str) -> None:
    assert not refused([argument])
    assert refused([argument], level=FilterLevel.STRICT)


def test_without_a_filter_only_the_impossible_is_refused() -> None:
    assert not refused(["$HOME; `x`\n", "y" * 100_000], level=FilterLevel.OFF)
    assert refused(["a\0b"], level=FilterLevel.OFF)
    assert refused(["\ud800"], level=FilterLevel.OFF)


@pytest.mark.proves("C-66")
@pytest.mark.parametrize("level", [FilterLevel.DEFAULT, FilterLevel.STRICT])
def test_the_text_after_some_options_is_free(level: FilterLevel) -> None:
    rules = ArgumentRules(free_text_after=("-m", "--message"))
    text = "Fix `x` & y; see <z>?\n\nCosts $HOME."

    for args in (
        ["-m", text],
        ["-am", text],
        ["-m" + text],
        ["--message", text],
        ["--message=" + text],
    ):
        assert not refused(["commit", *args], rules, level), args
    for args in (
        [text],
        ["-m", "ok", text],
        ["-mx", text],
        ["--mess", text],
        ["--m", text],
        ["-m", "a\0b"],
        ["-m", "x" * 10_000],
    ):
        assert refused(["commit", *args], rules, level), args


@pytest.mark.proves("C-67")
@pytest.mark.parametrize(
    ("words", "args"),
    [
        ("-e", "-e 1"),
        ("-e", "-pe 1"),
        ("-e", "-e1"),
        ("-e", "-e=1"),
        ("-e", "--e"),
        ("--eval", "--eval=1"),
        ("--eval", "--ev 1"),
        ("--eval", "-eval"),
        ("--eval", "a.js -- --eval x"),
        ("--experimental-loader", "--experimental_loader=x"),
        ("-c", "-Icpass"),
        ("-exec", ". -exec x"),
        ("-exec", ". -execdir x"),
        ("-exec", ". --exec x"),
        ("-javaagent", "-javaagent:x.jar"),
        ("--privileged", "run --priv x"),
        ("--privileged", "run --privileged=true x"),
        ("publish", "publish"),
        ("config set", "config set x"),
        ("-v /:", "run -v /:/host x"),
        ("-v /:", "run -v/:/host x"),
        ("-v /:", "run -v=/:/host x"),
        ("-v /:", "run -itv /:/host x"),
        ("-v /:, --volume /:", "run --volume=/:/host x"),
        ("-v /:, --volume /:", "run --vol /:/host x"),
        ("-c core.sshCommand", "-c core.sshCommand=x fetch"),
        ("-c core.sshCommand", "-cCORE.SSHCOMMAND=x fetch"),
    ],
)
def test_a_denied_option_is_found_in_every_spelling(words: str, args: str) -> None:
    assert denies(words, args)


@pytest.mark.proves("C-67")
@pytest.mark.parametrize(
    ("words", "args"),
    [
        ("-e, --eval", "--test a.js e - --"),
        ("-e, --eval", "-p 1 --evaluate eval"),
        ("-c", "-m pytest --cov x.c"),
        ("-c", "-X=c"),
        ("-exec", ". -name exec -print -e"),
        ("publish", "run publishing --publish"),
        ("-v /:, --volume /:", "run -v /data:/data --volume=/a:/:ro -v"),
        ("config set", "config get set"),
        ("-c core.sshCommand", "-c user.name=x log -c --stat"),
    ],
)
def test_what_is_not_denied_passes(words: str, args: str) -> None:
    assert not denies(words, args)


def test_a_long_row_of_flags_takes_no_time_to_speak_of() -> None:
    rules = ArgumentRules(deny=(Denied("-v", "/:"), Denied("--volume", "/:")))

    assert not refused(["-" + "v" * 100_000], rules, FilterLevel.OFF)
    assert refused(["-" + "v" * 100_000 + "/:"], rules, FilterLevel.OFF)


def test_a_denied_option_is_named() -> None:
    wrong = refusal(["-pe", "1"], ArgumentRules(deny=(Denied("-e"),)), FilterLevel.OFF)

    assert wrong == Refusal(
        0,
        "is, or may be read as, -e, which the allowlist forbids",
        ("Forbidden by the allowlist: -e",),
        ("-pe",),
    )


@pytest.mark.proves("C-67")
def test_arguments_may_be_limited_to_some_beginnings() -> None:
    rules = ArgumentRules(
        allow=(("status",), ("--no-pager", "log")),
        allow_exactly=(("run", "build"), ()),
        deny=(Denied("--output"),),
    )

    for args in ("status", "status --short", "--no-pager log -5", "run build", ""):
        assert not refused(args.split(), rules), args
    for args in ("-c a.b=c status", "statusx", "push status", "log", "run", "run build -x"):
        assert refused(args.split(), rules), args
    assert refused(["status", "--outp=x"], rules)
    assert refusal(["push"], rules, FilterLevel.DEFAULT) == Refusal(
        None,
        "must be one of these: 'status …', '--no-pager log …', 'run build', ''",
        ("Arguments are not in the allowlist",),
    )
