"""No wrapping hides a dangerous command, and every text gets a verdict."""

import shlex
from collections.abc import Callable

from hypothesis import given, settings
from hypothesis import strategies as st

from shelltie.safety.rating import rate
from shelltie.safety.rule_set import RuleSet
from shelltie.shell.parse import of_argv, parse
from shelltie.verdict import Code, Rating

RULES = RuleSet()

Wrap = Callable[[str], str]


def around(before: str, after: str = "") -> Wrap:
    return lambda command: f"{before}{command}{after}"


def as_word(before: str, after: str = "") -> Wrap:
    return lambda command: f"{before}{shlex.quote(command)}{after}"


DANGEROUS = (
    *(
        "rm -rf ~",
        "rm -r src",
        "git reset --hard",
        "git push --force",
        "dd if=/dev/zero of=/dev/sda",
    ),
    *(
        "chmod -R 777 /",
        "find . -delete",
        "shutdown -h now",
        "mkfs.ext4 /dev/sda",
        "cat ~/.ssh/id_rsa",
    ),
    *("git clean -fd", "docker system prune -af --volumes", "kubectl delete ns x", "npm publish"),
)
# Around a simple command: what follows it belongs to it.
PREFIXES = tuple(
    map(
        around,
        (
            *("sudo ", "sudo -u me ", "env ", "env A=1 ", "nice -n 5 ", "nohup ", "timeout 5 "),
            *(
                "timeout -s KILL 5 ",
                "command ",
                "exec ",
                "xargs ",
                "xargs -n 1 ",
                "setsid ",
            ),
            *(
                "stdbuf -oL ",
                "ionice -c 3 ",
                "busybox ",
                "strace -f ",
                "builtin command ",
            ),
            *("docker exec web ", "kubectl exec pod -- ", "npx ", "ssh host ", "watch ", "doas "),
        ),
    )
)
# Words of the shell itself, which only begin a command.
BEGINNINGS = tuple(map(around, ("", "A=1 ", "! ", "time ", "time -p ", "2>/dev/null ")))
# Around any text.
FRAMES = (
    *map(as_word, ("bash -c ", "sh -c ", "bash -lc ", "eval ", "su -c ", "sh <<< ", "zsh -c ")),
    *map(as_word, ("ls; eval ", "alias x=", "timeout 5 bash -c ", "sudo -- sh -c ", "watch ")),
    as_word("trap ", " EXIT"),
    as_word("PROMPT_COMMAND="),
    as_word("printf '%s\\n' ", " | sh"),
    around("( ", " )"),
    around("{ ", "; }"),
    around("echo $( ", " )"),
    around('echo "$( ', ' )"'),
    around("if ", "; then :; fi"),
    around("for i in 1; do ", "; done"),
    around("f() { ", "; }; f"),
    around("ls && "),
    around("ls | "),
    around("ls; ", "; ls"),
    around("ls &\n"),
    around("cat <( ", " )"),
    around("case x in x) ", ";; esac"),
    around("[[ -n $( ", " ) ]]"),
    around("coproc "),
)


@settings(deadline=None)  # a first command may have to read its rules
@given(
    st.sampled_from(DANGEROUS),
    st.lists(st.sampled_from(PREFIXES), max_size=3),
    st.sampled_from(BEGINNINGS),
    st.lists(st.sampled_from(FRAMES), max_size=3),
)
def test_no_wrapping_hides_a_dangerous_command(
    command: str, prefixes: list[Wrap], beginning: Wrap, frames: list[Wrap]
) -> None:
    text = command
    for wrap in (*prefixes, beginning, *frames):
        text = wrap(text)

    assert rate(parse(text), RULES).rating is Rating.DANGEROUS, text


@settings(deadline=None)
@given(
    st.sampled_from(PREFIXES + FRAMES), st.sampled_from(("./x", "frob y", "npm test", "mkdir z"))
)
def test_no_wrapping_makes_an_unknown_command_safe(wrap: Wrap, command: str) -> None:
    assert rate(parse(wrap(command)), RULES).rating is not Rating.SAFE


SCRAPS = st.sampled_from(
    (
        *("ls", "rm", "-rf", "git", "log", "sudo", "bash", "-c", "eval", "xargs", "find", "-exec"),
        *("{}", "\\;", "'", '"', "`", "$(", ")", "${", "}", "((", "))", "[[", "]]", "|", "&&", ";"),
        *(
            "<<E",
            "\nE\n",
            "<<<",
            ">",
            "2>&1",
            "<(",
            "$x",
            "x=1",
            "*",
            "~",
            "#",
            "\\",
            "\n",
            " ",
            "\0",
        ),
        *(
            "if",
            "then",
            "fi",
            "for",
            "in",
            "do",
            "done",
            "case",
            "esac",
            "é",
            "\u202e",
            "😀",
            "-",
            "--",
        ),
        *("sed", "s/a/b/e", "awk", "{print|x", "python3", "env", "A=", "!", "&", "a[", "]=", "@P}"),
    )
)
TEXTS = st.one_of(
    st.text(max_size=200),
    st.lists(SCRAPS, max_size=40).map(" ".join),
    st.lists(SCRAPS, max_size=40).map("".join),
)


@settings(deadline=None)
@given(TEXTS)
def test_every_text_gets_a_verdict_whose_spans_are_inside_it(text: str) -> None:
    verdict = rate(parse(text), RULES)

    assert (verdict.rating is Rating.SAFE) == (not verdict.reasons)
    spans = [it.span for it in verdict.reasons] + [it.span for it in verdict.commands]
    assert all(0 <= span.start <= span.end <= len(text) for span in spans)


@settings(deadline=None)
@given(st.lists(st.one_of(SCRAPS, st.text(max_size=20)), max_size=20))
def test_every_argument_vector_gets_a_verdict(argv: list[str]) -> None:
    assert rate(of_argv(argv), RULES).rating in Rating


@settings(deadline=None)
@given(TEXTS)
def test_a_dangerous_command_behind_any_text_is_found(text: str) -> None:
    script = parse(text)
    if any(problem.code is Code.PARSE_ERROR for problem in script.problems):
        return  # bash may never get there

    assert rate(parse(f"{text}\n\nrm -rf ~"), RULES).rating is Rating.DANGEROUS
