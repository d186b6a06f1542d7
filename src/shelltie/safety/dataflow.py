"""Data flow (taint): where a command's stdin comes from and where its output goes. Pure."""

import posixpath
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from enum import IntEnum
from itertools import pairwise

from shelltie.basics.lazy_regex import lazy
from shelltie.safety import other_languages
from shelltie.safety.arg import HOLE, Arg, literal
from shelltie.safety.inspection import Inspection, base_name, with_bodies
from shelltie.safety.option_split import SplitArguments
from shelltie.safety.protected_names import is_secret_path
from shelltie.safety.rule import Role, Rule
from shelltie.shell.parse import READ_MAX
from shelltie.shell.script import PartKind, Redirect, Simple
from shelltie.verdict import Code, Span

_DECODERS = {
    "base64": ("-d", "-D", "--decode", "-di"),
    "base32": ("-d", "--decode"),
    "basenc": ("-d", "--decode"),
    "xxd": ("-r", "-rp", "-r -p", "-ps"),
    "openssl": ("-d", "-base64", "-a"),
    "gpg": ("-d", "--decrypt"),
    "uudecode": (),
    "gunzip": (),
    "zcat": (),
    "xz": ("-d", "-dc"),
    "bunzip2": (),
    "rev": (),
    "tr": (),
}
_FETCHERS = frozenset(
    (
        *(
            "curl",
            "wget",
            "fetch",
            "aria2c",
            "http",
            "https",
            "xh",
            "nc",
            "ncat",
            "netcat",
            "socat",
        ),
        *("telnet", "lynx", "w3m", "links", "ftp", "sftp", "scp", "rsync"),
        *("iwr", "irm", "invoke-webrequest", "invoke-restmethod"),
    )
)
_INPUT = lazy(r"/dev/(?:stdin|tty|fd/\d+|pts/\d+)|/proc/(?:self|thread-self|\d+)/fd/\d+")
_DUMPS = frozenset(("env", "printenv", "set", "export", "declare", "history", "keyctl"))


class Origin(IntEnum):
    """How far the origin of a text can be trusted, from best to worst."""

    PROGRAM = 0
    DECODED = 1
    FETCHED = 2


def origin(case: Inspection, commands: Iterable[Simple]) -> Origin:
    """The worst origin among these commands."""
    return max((origin_of_command(case, simple) for simple in commands), default=Origin.PROGRAM)


def origin_of_command(case: Inspection, simple: Simple) -> Origin:
    """Where what a command prints comes from."""
    args = case.where.values.args(simple.words)
    names = [base_name(arg.value).lower() for arg in args if arg.value is not None]
    if not _FETCHERS.isdisjoint(names[:3]) or (names and _is_network(case, names[0])):
        return Origin.FETCHED
    for name in names[:3]:
        options = _DECODERS.get(name)
        if options is not None and (not options or not set(options).isdisjoint(names)):
            return Origin.DECODED
    return Origin.PROGRAM


def _is_network(case: Inspection, name: str) -> bool:
    node = case.root(name)
    return node is not None and node.rule is not None and node.rule.network


def dumps_environment(simple: Simple) -> bool:
    """It prints variables, and with them credentials."""
    return simple.program in _DUMPS


def origin_of(case: Inspection, arg: Arg) -> Origin:
    """The worst origin of what a word holds by substitution."""
    return origin(case, case.inside(arg, PartKind.COMMAND, PartKind.PROCESS, PartKind.EXPANSION))


def bodies(simple: Simple) -> list[Redirect]:
    """Its here-documents and here-strings."""
    return [redirect for redirect in simple.redirects if redirect.body is not None]


def written_input(case: Inspection) -> Arg | None:
    """The input, if it stands in the text; `None` also where several could be meant."""
    inputs = [it for it in case.simple.redirects if it.operator.startswith("<")]
    if inputs:
        sure = len(inputs) == 1 and not case.simple.feeds and inputs[0].descriptor in ("", "0")
        return body_text(case, inputs[0]) if sure else None
    return output_text(case, case.simple.feeds[0]) if len(case.simple.feeds) == 1 else None


def given_input(case: Inspection) -> Arg | None:
    """The input of the whole command, where nothing in the text is put before it."""
    redirects = [it for it in case.simple.redirects if it.operator.startswith("<")]
    inputs = [it for it in redirects if it.descriptor in ("", "0")]
    given = case.where.input
    if given is None or case.simple.feeds or not all(_may_be_input(case, it) for it in inputs):
        return None
    return given


def _may_be_input(case: Inspection, redirect: Redirect) -> bool:
    """It may lead to what the whole command reads: by a copied descriptor, by a name that only the
    run will tell, or over a file that another command of the text writes: `cat > x; sh < x`.
    """
    target = redirect.target
    if redirect.body is not None or target is None:
        return False
    if target.value is None or target.pattern:
        return True
    if redirect.operator == "<&":
        return target.value != "-"
    times = case.where.values.mentions[posixpath.normpath(target.value)]
    return names_input(target.value) or times > 1


def names_input(path: str) -> bool:
    """It may be what the whole command reads, or what is typed for it."""
    return _INPUT.fullmatch(path) is not None


def body_text(case: Inspection, redirect: Redirect) -> Arg | None:
    """A here-document or here-string, if it stands in the text."""
    args = case.where.values.of(redirect.body) if redirect.body is not None else ()
    return args[0] if len(args) == 1 and args[0].values else None


def output_text(case: Inspection, place: int) -> Arg | None:
    """What a command prints, if that stands in the text."""
    if place >= len(case.where.script.commands):
        return None
    simple = case.where.script.commands[place]
    redirects = simple.redirects
    if len(redirects) == 1 and [word.value for word in simple.words] == ["cat"]:
        return body_text(case, redirects[0])
    printed = case.where.values.output_of((place,))
    if printed is None:
        return None
    args = case.where.values.args(simple.words)
    return literal(printed, simple.span.with_all(arg.span for arg in args))


_WRITES = frozenset((">", ">>", ">|", "&>", "&>>"))
_NAMED_BY = frozenset(
    ("-o", "-O", "--output", "--output-document", "-qO", "-fsSLo", "-sSLo", "-Lo")
)
_NAMED_BY_ADDRESS = frozenset(("-O", "--remote-name", "-OL", "-LO", "-sO", "-fsSLO", "-sSLO"))
_FETCHED = f"{HOLE}fetched"  # in place of a content that only the network knows


def rate_run_file(case: Inspection, arg: Arg) -> None:
    """A file that is run: dangerous if the same text has fetched it, or written harm into it."""
    values = case.where.values
    if values.files is None:
        values.files = _made(case)
    for value in arg.values:
        content = values.files.get(posixpath.normpath(value))
        if content is None:
            continue
        if content.shape == _FETCHED:
            both = replace(arg, span=arg.span.with_all([content.span]))
            case.dangerous(Code.REMOTE_CODE, f"runs {arg.text}, which comes from the network", both)
        else:
            case.again.danger_in_text(content.guesses[0], case, value, content.span)


def _made(case: Inspection) -> Mapping[str, Arg]:
    """Each file with its content, as far as the text tells; all of it, if it is written twice."""
    made: dict[str, list[Arg]] = {}
    for name, content in _written(case):
        made.setdefault(posixpath.normpath(name), []).append(content)
    return {name: _together(contents) for name, contents in made.items()}


def _written(case: Inspection) -> Iterator[tuple[str, Arg]]:
    for place, simple in enumerate(case.where.script.commands):
        fetched = origin_of_command(case, simple) is Origin.FETCHED
        unseen = literal(_FETCHED, simple.span)
        for redirect in simple.redirects:
            if redirect.operator in _WRITES and redirect.target is not None:
                content = unseen if fetched else _content(case, place)
                if redirect.target.value is not None and content is not None:
                    yield redirect.target.value, content
        if fetched:
            yield from ((name, unseen) for name in _saved(simple))


def _together(contents: Sequence[Arg]) -> Arg:
    if len(contents) == 1:
        return contents[0]
    span = contents[0].span.with_all(content.span for content in contents)
    texts = dict.fromkeys(content.guesses[0] for content in contents)
    return literal(_FETCHED if _FETCHED in texts else "\n".join(texts), span)


def _content(case: Inspection, place: int) -> Arg | None:
    bodies = [it.body for it in case.where.script.commands[place].redirects if it.body is not None]
    if bodies:
        return next(iter(case.where.values.of(bodies[-1])), None)
    return output_text(case, place)


def _saved(simple: Simple) -> Iterator[str]:
    """The files a program that fetches writes by itself."""
    words = [word.value or "" for word in simple.words]
    for before, word in pairwise(words):
        if before in _NAMED_BY and not word.startswith("-"):
            yield word
    yield from (word.partition("=")[2] for word in words if word.startswith("--output"))
    if words[:1] == ["wget"] or not _NAMED_BY_ADDRESS.isdisjoint(words):
        yield from (base_name(word) for word in words[1:] if "/" in word and base_name(word))


def rate_input(case: Inspection, rule: Rule, given: SplitArguments) -> None:
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
        other_languages.scan_escapes(case, written.guesses[0], written)


def _rate_stdin(case: Inspection, role: Role, written: Arg | None) -> None:
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


def _names_input(given: SplitArguments) -> bool:
    """It is told to read its input: `make -f -`."""
    values = [option.value for option in given.flags if option.value is not None]
    return any(_is_input(arg) for arg in (*values, *given.operands))


def _is_input(arg: Arg) -> bool:
    return arg.value == "-" or names_input(arg.value or "")


def _has_code(given: SplitArguments) -> bool:
    """What it runs stands among its words."""
    return any(option.flag.role in (Role.SHELL, Role.CODE) for option in given.flags)


def scan_written(case: Inspection, written: Arg) -> None:
    """What is certainly dangerous in a text that may be run, by whatever reads it."""
    text = written.guesses[0]
    if len(text) > READ_MAX:
        case.dangerous(Code.TOO_LONG, f"{case.program}: too long to be looked at", written)
    other_languages.scan(case, text, written)
    for line, span in _lines(case, text[:READ_MAX], written.span).items():
        case.again.danger_in_text(line, case, case.program, span)
    _scan_escapes(case, written)


# What may be a command with words, after a sign that leads to a shell: `r !ls -l`, `.once |wc -l`.
_COMMAND = r"[`\[' \t]*+(?=(?:[\w.+-]*+/)*+([\w.+-]++)[ \t]++[^\s|;&)])"
_ESCAPE = lazy(rf"(?:[|!;&(`]|'<){_COMMAND}")
_LINE_START = lazy(rf"^{_COMMAND}", re.MULTILINE)


def _scan_escapes(case: Inspection, written: Arg, *patterns: re.Pattern[str]) -> None:
    """What is dangerous behind a sign that makes a program hand the rest of a line to the shell."""
    text, whole = written.guesses[0][:READ_MAX], written.span
    verbatim = case.where.script.text[whole.start : whole.end] == text
    for pattern in (_ESCAPE, *patterns):
        for found in pattern.finditer(text):
            if case.again.rules.names(found[1]) and not case.again.too_much:
                end = text.find("\n", found.end())
                place = Span(found.end(), end if end >= 0 else len(text))
                line, at = text[place.start : place.end], whole.start
                span = Span(at + place.start, at + place.end) if verbatim else whole
                case.again.danger_in_text(line, case, case.program, span)


def scan_unknown_input(case: Inspection) -> None:
    """What a program of which nothing is known reads: it may be a shell, or hand lines to one.

    Most input is data, so a line is looked at only where it begins like a command that we know.
    """
    written = written_input(case)
    if written is None and (written := given_input(case)) is not None:
        case = case.at_input()
    if written is not None and not case.again.guessing:
        other_languages.scan_calls(case, written.guesses[0], written)
        _scan_escapes(case, written, _LINE_START)


def _lines(case: Inspection, text: str, whole: Span) -> Mapping[str, Span]:
    """Its lines, each once, and where they stand if the text stands there letter for letter."""
    places, at = dict[str, Span](), whole.start
    verbatim = case.where.script.text[whole.start : whole.end] == text
    for line in text.splitlines(keepends=True):
        content = line.strip()
        start = at + line.index(content)
        places.setdefault(content, Span(start, start + len(content)) if verbatim else whole)
        at += len(line)
    return places


def _reads_input(given: SplitArguments) -> bool:
    """It was given nothing else to run."""
    if _has_code(given):
        return False
    return not given.operands or _is_input(given.operands[0]) or "-s" in given.names()


def _rate_written(case: Inspection, role: Role, written: Arg) -> None:
    text = written.guesses[0]
    if role is Role.SHELL:
        case.again.text(text, case, case.program, written.span)
    else:
        case.unknown(Code.INTERPRETER, f"{case.program} runs code that is given inline")
        other_languages.scan(case, text, written)
        _scan_escapes(case, written)


def _rate_fed(case: Inspection, role: Role) -> None:
    feeders = case.feeders()
    source, runs = origin(case, feeders), f"{case.program} runs"
    fed = literal("", with_bodies(case.simple).with_all(map(with_bodies, feeders)))
    if source is Origin.FETCHED:
        case.dangerous(Code.REMOTE_CODE, f"{runs} what is fetched from the network", fed)
    elif source is Origin.DECODED:
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


def scan_given(case: Inspection) -> None:
    """What the whole command reads may be run, on whatever way it comes to be."""
    given = case.where.input
    if given is not None and not case.again.guessing:
        scan_written(case.at_input(), given)


def scan_input(case: Inspection) -> None:
    """A text of its own may make the program run what it reads: `awk '{system($0)}'`."""
    written = written_input(case)
    if written is not None and not case.again.guessing:
        scan_written(case, written)
    scan_given(case)


def rate_made_files(case: Inspection, args: Sequence[Arg]) -> None:
    """`bash <(curl x)`, `make -f <(printf 'x:\\n\\trm -rf ~')`."""
    for arg in args:
        if not any(part.kind is PartKind.PROCESS for part in arg.parts):
            continue
        if origin_of(case, arg) is not Origin.PROGRAM:
            case.dangerous(Code.REMOTE_CODE, "runs what a substitution fetches or decodes", arg)
        for part in arg.parts:
            made = case.where.values.output_of(part.commands)
            for line in (made or "").splitlines():
                case.again.danger_in_text(line.strip(), case, case.program, arg.span)
            if made:
                other_languages.scan(case, made, arg)


def rate_network(case: Inspection, rule: Rule, args: Sequence[Arg], given: SplitArguments) -> None:
    """What a program that talks to an address on its command line gives away."""
    if not rule.network:
        return
    stays = case.program == "curl" and _stays_on_this_machine(given)
    for arg in args:
        if not stays and any(part.kind is PartKind.COMMAND for part in arg.parts):
            case.dangerous(Code.NETWORK_EXFIL, f"sends what {arg.text} yields away", arg)
    for arg in (*given.operands, *_values(given), *_input_files(case)):
        if any(is_secret_path(guess, case.directories) for guess in arg.guesses):
            case.dangerous(Code.NETWORK_EXFIL, f"may send {arg.text} away", arg)
    if any(dumps_environment(simple) for simple in case.feeders()):
        case.dangerous(Code.NETWORK_EXFIL, "sends the environment away")


_LOOPBACK = lazy(
    r"(?:https?://)?(?:localhost|127(?:\.\d{1,3}){3}|\[::1\])(?::\d{1,5})?(?:[/?#][\w./?#=&%:,+-]*)?"
)
_SENDS_ELSEWHERE = frozenset(
    (
        *("-x", "--proxy", "--preproxy", "--socks4", "--socks4a", "--socks5", "--socks5-hostname"),
        *("-K", "--config", "--url", "--next", "-:", "--connect-to", "--resolve", "--doh-url"),
        "--dns-servers",
    )
)


def _stays_on_this_machine(given: SplitArguments) -> bool:
    """Whether every address is this machine, to the letter, and no option leads elsewhere."""
    addresses = [arg.guesses for arg in given.operands if arg.exact]
    here = all(map(_LOOPBACK.fullmatch, (text for texts in addresses for text in texts)))
    known = 0 < len(addresses) == len(given.operands) and not (given.unknown or given.loose)
    return known and here and given.names().isdisjoint(_SENDS_ELSEWHERE)


def _values(given: SplitArguments) -> Iterator[Arg]:
    """Values that may name a file to send; a harmless one does so only by `@`."""
    for option in given.flags:
        value = option.value
        if value is not None and (option.flag.role is not Role.TEXT or "@" in value.shape):
            yield value


def _input_files(case: Inspection) -> tuple[Arg, ...]:
    targets = [it.target for it in case.simple.redirects if it.operator == "<" and it.target]
    return case.where.values.args(targets)
