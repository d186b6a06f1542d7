"""Where the input of a command comes from: its text, the network, a decoder. Pure."""

import posixpath
from collections.abc import Iterable
from enum import IntEnum

from shelltie.policy.safety.args import Arg, literal
from shelltie.policy.safety.case import Case, base_name
from shelltie.regex import regex
from shelltie.shell.script import Kind, Redirect, Simple
from shelltie.verdict import Span

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
_INPUT = regex(r"/dev/(?:stdin|tty|fd/\d+|pts/\d+)|/proc/(?:self|thread-self|\d+)/fd/\d+")
_DUMPS = frozenset(("env", "printenv", "set", "export", "declare", "history", "keyctl"))


class Source(IntEnum):
    """How far the origin of a text can be trusted, from best to worst."""

    PROGRAM = 0
    DECODED = 1
    FETCHED = 2


def origin(case: Case, commands: Iterable[Simple]) -> Source:
    """The worst origin among these commands."""
    return max((origin_of_command(case, simple) for simple in commands), default=Source.PROGRAM)


def origin_of_command(case: Case, simple: Simple) -> Source:
    """Where what a command prints comes from."""
    args = case.where.values.args(simple.words)
    names = [base_name(arg.value).lower() for arg in args if arg.value is not None]
    if not _FETCHERS.isdisjoint(names[:3]) or (names and _is_network(case, names[0])):
        return Source.FETCHED
    for name in names[:3]:
        options = _DECODERS.get(name)
        if options is not None and (not options or not set(options).isdisjoint(names)):
            return Source.DECODED
    return Source.PROGRAM


def _is_network(case: Case, name: str) -> bool:
    node = case.root(name)
    return node is not None and node.rule is not None and node.rule.network


def dumps_environment(simple: Simple) -> bool:
    """It prints variables, and with them credentials."""
    return bool(simple.words) and simple.words[0].value in _DUMPS


def origin_of(case: Case, arg: Arg) -> Source:
    """The worst origin of what a word holds by substitution."""
    return origin(case, case.inside(arg, Kind.COMMAND, Kind.PROCESS, Kind.EXPANSION))


def bodies(simple: Simple) -> list[Redirect]:
    """Its here-documents and here-strings."""
    return [redirect for redirect in simple.redirects if redirect.body is not None]


def with_bodies(simple: Simple) -> Span:
    """A command with its here-documents, which stand behind it."""
    return simple.span.with_all(it.body.span for it in simple.redirects if it.body is not None)


def written_input(case: Case) -> Arg | None:
    """The input, if it stands in the text; `None` also where several could be meant."""
    inputs = [it for it in case.simple.redirects if it.operator.startswith("<")]
    if inputs:
        sure = len(inputs) == 1 and not case.simple.feeds and inputs[0].descriptor in ("", "0")
        return body_text(case, inputs[0]) if sure else None
    return output_text(case, case.simple.feeds[0]) if len(case.simple.feeds) == 1 else None


def given_input(case: Case) -> Arg | None:
    """The input of the whole command, where nothing in the text is put before it."""
    redirects = [it for it in case.simple.redirects if it.operator.startswith("<")]
    inputs = [it for it in redirects if it.descriptor in ("", "0")]
    given = case.where.input
    if given is None or case.simple.feeds or not all(_may_be_input(case, it) for it in inputs):
        return None
    return given


def _may_be_input(case: Case, redirect: Redirect) -> bool:
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


def body_text(case: Case, redirect: Redirect) -> Arg | None:
    """A here-document or here-string, if it stands in the text."""
    args = case.where.values.of(redirect.body) if redirect.body is not None else ()
    return args[0] if len(args) == 1 and args[0].values else None


def output_text(case: Case, place: int) -> Arg | None:
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
