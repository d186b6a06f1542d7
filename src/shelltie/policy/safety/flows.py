"""What flows into a command, and where its words flow to. Pure."""

from collections.abc import Iterator, Mapping, Sequence

from shelltie.policy.safety import inline
from shelltie.policy.safety.args import Arg, literal
from shelltie.policy.safety.arguments import Arguments
from shelltie.policy.safety.case import Case
from shelltie.policy.safety.made_files import rate_run_file
from shelltie.policy.safety.paths import is_secret_path
from shelltie.policy.safety.rule import Role, Rule
from shelltie.policy.safety.sources import (
    Source,
    bodies,
    dumps_environment,
    given_input,
    names_input,
    origin,
    origin_of,
    with_bodies,
    written_input,
)
from shelltie.shell.parse import READ_MAX
from shelltie.shell.script import Kind
from shelltie.verdict import Code, Span


def rate_input(case: Case, rule: Rule, given: Arguments) -> None:
    """A shell or an interpreter that runs its input, or a file that a substitution makes."""
    if case.reasons or rule.stdin is not None or rule.wraps:
        rate_made_files(case, given.operands)
        rate_made_files(case, [option.value for option in given.flags if option.value])
    if rule.stdin is not None and given.operands:
        rate_run_file(case, given.operands[0])
    written = written_input(case)
    # It may read its input as well: `ed file`, `ssh host`, `perl -ne 'system $_'`.
    may_run = bool(given.operands) or _has_code(given)
    if written is None and (written := given_input(case)) is not None:
        # Every command of the text inherits it, and most of them do not care.
        case, may_run = case.at_input(), may_run and (rule.stdin is not None or rule.network)
    may_run = (may_run or _names_input(given)) and not case.again.guessing
    if written is not None and case.reasons and may_run:
        scan_written(case, written)
    if rule.stdin is not None and _reads_input(given):
        _rate_stdin(case, rule.stdin, written)
    elif rule.requires == "no-terminal" and written is not None:
        inline.scan_escapes(case, written.guesses[0], written)


def _rate_stdin(case: Case, role: Role, written: Arg | None) -> None:
    if written is not None:
        _rate_written(case, role, written)
    elif case.simple.feeds or bodies(case.simple):
        _rate_fed(case, role)
    elif any(redirect.operator == "<" for redirect in case.simple.redirects):
        case.unknown(Code.RUNS_CODE, f"{case.program} runs a file")
        for arg in _input_files(case):
            rate_run_file(case, arg)
    elif not case.words:
        case.unknown(Code.INTERACTIVE, f"{case.program} waits for somebody to type")


def _names_input(given: Arguments) -> bool:
    """It is told to read its input: `make -f -`."""
    values = [option.value for option in given.flags if option.value is not None]
    return any(_is_input(arg) for arg in (*values, *given.operands))


def _is_input(arg: Arg) -> bool:
    return arg.value == "-" or names_input(arg.value or "")


def _has_code(given: Arguments) -> bool:
    """What it runs stands among its words."""
    return any(option.flag.role in (Role.SHELL, Role.CODE) for option in given.flags)


def scan_written(case: Case, written: Arg) -> None:
    """What is certainly dangerous in a text that may be run, by whatever reads it."""
    text = written.guesses[0]
    if len(text) > READ_MAX:
        case.dangerous(Code.TOO_LONG, f"{case.program}: too long to be looked at", written)
    inline.scan(case, text, written)
    for line, span in _lines(case, text[:READ_MAX], written.span).items():
        case.again.danger_in_text(line, case, case.program, span)


def _lines(case: Case, text: str, whole: Span) -> Mapping[str, Span]:
    """Its lines, each once, and where they stand if the text stands there letter for letter."""
    places, at = dict[str, Span](), whole.start
    verbatim = case.where.script.text[whole.start : whole.end] == text
    for line in text.splitlines(keepends=True):
        content = line.strip()
        start = at + line.index(content)
        places.setdefault(content, Span(start, start + len(content)) if verbatim else whole)
        at += len(line)
    return places


def _reads_input(given: Arguments) -> bool:
    """It was given nothing else to run."""
    if _has_code(given):
        return False
    return not given.operands or _is_input(given.operands[0]) or "-s" in given.names()


def _rate_written(case: Case, role: Role, written: Arg) -> None:
    text = written.guesses[0]
    if role is Role.SHELL:
        case.again.text(text, case, case.program, written.span)
    else:
        case.unknown(Code.INTERPRETER, f"{case.program} runs code that is given inline")
        inline.scan(case, text, written)


def _rate_fed(case: Case, role: Role) -> None:
    feeders = case.feeders()
    source, runs = origin(case, feeders), f"{case.program} runs"
    fed = literal("", with_bodies(case.simple).with_all(map(with_bodies, feeders)))
    if source is Source.FETCHED:
        case.dangerous(Code.REMOTE_CODE, f"{runs} what is fetched from the network", fed)
    elif source is Source.DECODED:
        case.dangerous(Code.REMOTE_CODE, f"{runs} what is hidden by an encoding", fed)
    elif role is Role.SHELL:
        case.dangerous(Code.RUNS_CODE, f"{runs} whatever another command prints", fed)
    else:
        case.unknown(Code.INTERPRETER, f"{runs} what another command prints", fed)
    for arg in case.where.values.args([word for feeder in feeders for word in feeder.words[1:]]):
        rate_run_file(case, arg)
    for arg in case.where.values.args([it.body for it in case.simple.redirects if it.body]):
        case.again.danger_in_text(arg.guesses[0], case, case.program, arg.span)
    scan_given(case)


def scan_given(case: Case) -> None:
    """What the whole command reads may be run, on whatever way it comes to be."""
    given = case.where.input
    if given is not None and not case.again.guessing:
        scan_written(case.at_input(), given)


def scan_input(case: Case) -> None:
    """A text of its own may make the program run what it reads: `awk '{system($0)}'`."""
    written = written_input(case)
    if written is not None and not case.again.guessing:
        scan_written(case, written)
    scan_given(case)


def rate_made_files(case: Case, args: Sequence[Arg]) -> None:
    """`bash <(curl x)`, `make -f <(printf 'x:\\n\\trm -rf ~')`."""
    for arg in args:
        if not any(part.kind is Kind.PROCESS for part in arg.parts):
            continue
        if origin_of(case, arg) is not Source.PROGRAM:
            case.dangerous(Code.REMOTE_CODE, "runs what a substitution fetches or decodes", arg)
        for part in arg.parts:
            made = case.where.values.output_of(part.commands)
            for line in (made or "").splitlines():
                case.again.danger_in_text(line.strip(), case, case.program, arg.span)
            if made:
                inline.scan(case, made, arg)


def rate_network(case: Case, rule: Rule, args: Sequence[Arg], given: Arguments) -> None:
    """What a program that talks to an address on its command line gives away."""
    if not rule.network:
        return
    for arg in args:
        if any(part.kind is Kind.COMMAND for part in arg.parts):
            case.dangerous(Code.NETWORK_EXFIL, f"sends what {arg.text} yields away", arg)
    for arg in (*given.operands, *_values(given), *_input_files(case)):
        if any(is_secret_path(guess, case.directories) for guess in arg.guesses):
            case.dangerous(Code.NETWORK_EXFIL, f"may send {arg.text} away", arg)
    if any(dumps_environment(simple) for simple in case.feeders()):
        case.dangerous(Code.NETWORK_EXFIL, "sends the environment away")


def _values(given: Arguments) -> Iterator[Arg]:
    """Values that may name a file to send; a harmless one does so only by `@`."""
    for option in given.flags:
        value = option.value
        if value is not None and (option.flag.role is not Role.TEXT or "@" in value.shape):
            yield value


def _input_files(case: Case) -> tuple[Arg, ...]:
    targets = [it.target for it in case.simple.redirects if it.operator == "<" and it.target]
    return case.where.values.args(targets)
