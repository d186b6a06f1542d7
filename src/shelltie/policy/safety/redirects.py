"""Redirections: what they write, what they read. Pure."""

from shelltie.policy.safety.args import Arg
from shelltie.policy.safety.case import Case
from shelltie.policy.safety.paths import is_harmless_target, protection, secrecy
from shelltie.regex import regex
from shelltie.shell.script import Kind, Redirect
from shelltie.verdict import Code, Rating

_DESCRIPTOR = regex(r"\d+-?|-")
_WRITES = {
    Code.NETWORK_EXFIL: "sends data to another machine",
    Code.PERSISTENCE: "changes a file that is run later, or steers a tool",
    Code.PRIVILEGE: "changes who may do what",
    Code.PROTECTED_PATH: "changes a file of the system",
}


def rate_redirects(case: Case) -> None:
    """Every redirection of a command."""
    for redirect in case.simple.redirects:
        if redirect.descriptor.startswith("{"):
            case.unknown(
                Code.ENV_INJECTION, f"{redirect.descriptor}{redirect.operator} sets a name"
            )
        if redirect.body is not None:
            _rate_body(case, redirect)
        elif redirect.target is not None:
            for arg in case.where.values.of(redirect.target):
                _rate_target(case, redirect, arg)


def _rate_body(case: Case, redirect: Redirect) -> None:
    if redirect.body is None or not case.simple.words:
        return
    for name in case.where.values.secrets_in(redirect.body):
        case.dangerous(Code.SECRET_READ, f"shows the value of ${name}")


def _rate_target(case: Case, redirect: Redirect, arg: Arg) -> None:
    if redirect.operator in (">&", "<&") and _DESCRIPTOR.fullmatch(arg.value or ""):
        return
    if any(part.kind is Kind.PROCESS for part in arg.parts):
        return  # what runs in there is judged itself
    if redirect.operator == "<":
        _reads(case, arg)
    else:
        _writes(case, redirect, arg)


def _reads(case: Case, arg: Arg) -> None:
    for guess in arg.guesses:
        if protection(guess) is Code.NETWORK_EXFIL:
            case.dangerous(Code.NETWORK_EXFIL, f"opens a connection: {arg.text}", arg)
        rating = secrecy(guess, case.directories)
        if rating is not Rating.SAFE:
            case.say(rating, Code.SECRET_READ, f"{arg.text} may hold credentials", arg)
    if not (arg.exact or (arg.bound and arg.single)):
        case.unknown(
            Code.DYNAMIC_ARGUMENT, f"which file {arg.text} is, is known only at run time", arg
        )


def _writes(case: Case, redirect: Redirect, arg: Arg) -> None:
    if arg.exact and arg.value is not None and is_harmless_target(arg.value) and arg.value != "-":
        return
    for guess in arg.guesses:
        if (code := protection(guess, case.directories)) is not None:
            case.dangerous(code, f"{redirect.operator} {arg.text} {_WRITES[code]}", arg)
            return
    case.unknown(Code.WRITE_REDIRECT, f"{redirect.operator} writes {arg.text}", arg)
