"""Rates one command by the rule of its program: subcommands, options, operands. Pure."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import field, replace

from shelltie.basics.frozen import mutable
from shelltie.safety import other_languages
from shelltie.safety.arg import Arg, literal, unseen
from shelltie.safety.awk import rate_awk
from shelltie.safety.dataflow import Origin, origin_of, rate_input, rate_network
from shelltie.safety.file_name_sources import DISCREET
from shelltie.safety.inspection import Inspection
from shelltie.safety.option_split import Given, SplitArguments, roles, slots_for, split
from shelltie.safety.protected_names import (
    is_harmless_target,
    is_help_harmless,
    protection,
    secrecy,
)
from shelltie.safety.rule import CHECKS, Arity, Flag, Role, Rule, When, found
from shelltie.safety.rule_set import Node
from shelltie.safety.sed import rate_sed
from shelltie.safety.shell_syntax import rate_pair
from shelltie.safety.word_splitting import rate_empty_value, rate_open_words
from shelltie.safety.wrappers import rate_inner, scan_suffixes
from shelltie.verdict import Code, Rating

_WRITTEN = {
    Code.NETWORK_EXFIL: "opens a network connection",
    Code.PERSISTENCE: "is run later, or steers a tool",
    Code.PRIVILEGE: "decides who may do what",
    Code.PROTECTED_PATH: "belongs to the system",
}


def use(case: Inspection, role: Role, args: Sequence[Arg], rule: Rule, flag: str = "") -> None:
    """Rate what `rule`'s program does with these arguments, each of which has the same role."""
    if role is Role.SHELL:
        more = [unseen(args[-1].span)] if rule.appends and args else []
        name = " ".join(rule.command) or case.program
        case.shell([*args, *more], f"{name} {flag}".rstrip())
        _from_elsewhere(case, args)
        return
    for arg in args:
        _disclosed(case, arg, rule)
        if role is Role.WRITE:
            write(case, arg, flag)
        elif role is Role.RUNS:
            case.unknown(Code.EXEC_FLAG, f"{flag or case.program} runs another program", arg)
            case.shell([arg], f"{case.program} {flag}".rstrip())
            _from_elsewhere(case, [arg])
        elif (rate := _USES.get(role)) is not None:
            rate(case, arg)


def _disclosed(case: Inspection, arg: Arg, rule: Rule) -> None:
    for name in arg.secrets:
        if rule.network:
            case.dangerous(Code.NETWORK_EXFIL, f"sends the value of ${name} away", arg)
        elif rule.verdict is Rating.SAFE:
            case.dangerous(Code.SECRET_READ, f"shows the value of ${name}", arg)
        else:
            case.unknown(Code.SECRET_READ, f"hands over the value of ${name}", arg)


def read(case: Inspection, arg: Arg) -> None:
    """The content of a file is shown."""
    worst = max(
        (secrecy(guess, case.directories) for guess in arg.guesses), key=lambda one: one.rank
    )
    if worst is not Rating.SAFE:
        case.say(worst, Code.SECRET_READ, f"{arg.text} may hold credentials", arg)
    case.files.update(arg.guesses)
    rate_empty_value(case, arg)
    told = arg.exact or (arg.bound and (arg.pattern or arg.single))
    if not told and (case.where.wrappers or case.program not in DISCREET):
        case.unknown(
            Code.DYNAMIC_ARGUMENT, f"which file {arg.text} is, is known only at run time", arg
        )


def write(case: Inspection, arg: Arg, flag: str = "") -> None:
    """A file is written."""
    if arg.value is not None and is_harmless_target(arg.value):
        return
    if not _change(case, arg):
        code = Code.WRITE_FLAG if flag else Code.WRITES_FILES
        case.unknown(code, f"{flag or case.program} writes {arg.text}", arg)


def _change(case: Inspection, arg: Arg) -> bool:
    """A file is changed or removed; whether it is one that must not be."""
    for guess in arg.guesses:
        if (code := protection(guess, case.directories)) is not None:
            case.dangerous(code, f"changes {arg.text}, which {_WRITTEN[code]}", arg)
            return True
    return False


def _delete(case: Inspection, arg: Arg) -> None:
    _change(case, arg)


def _name(case: Inspection, arg: Arg) -> None:
    if not arg.exact and not arg.pattern and not arg.single:
        case.unknown(Code.DYNAMIC_ARGUMENT, f"{arg.text} is known only at run time", arg)


def _url(case: Inspection, arg: Arg) -> None:
    if arg.head.startswith("file:"):
        read(case, arg)


def _assign(case: Inspection, arg: Arg) -> None:
    name, equals, value = arg.guesses[0].partition("=")
    if equals:
        rate_pair(case, name, (value,), arg, before_command=True)
    elif not arg.exact:
        case.unknown(Code.DYNAMIC_ARGUMENT, f"{arg.text} is known only at run time", arg)


def _code(case: Inspection, arg: Arg) -> None:
    case.unknown(Code.INTERPRETER, f"{case.program} runs code that is given inline", arg)
    for guess in arg.guesses:
        other_languages.scan(case, guess, arg)
    _from_elsewhere(case, [arg])


def _from_elsewhere(case: Inspection, args: Sequence[Arg]) -> None:
    """Code that comes out of a substitution."""
    for arg in args:
        source = origin_of(case, arg)
        if source is Origin.FETCHED:
            case.dangerous(Code.REMOTE_CODE, "runs code that it fetches from the network", arg)
        elif source is Origin.DECODED:
            case.dangerous(Code.REMOTE_CODE, "runs code that is hidden by an encoding", arg)


_USES: dict[Role, Callable[[Inspection, Arg], None]] = {
    Role.NAME: _name,
    Role.READ: read,
    Role.DELETE: _delete,
    Role.URL: _url,
    Role.ASSIGN: _assign,
    Role.CODE: _code,
    Role.SED: rate_sed,
    Role.AWK: rate_awk,
}


_FLAG_MESSAGES = {
    Code.WRITE_FLAG: "writes a file",
    Code.EXEC_FLAG: "can run another program",
    Code.NETWORK: "talks to another machine",
    Code.ENV_INJECTION: "changes what is run, or on what",
    Code.SECRET_READ: "shows credentials",
    Code.DESTROYS_DATA: "destroys data",
    Code.PRIVILEGE: "gives more rights",
    Code.CHANGES_STATE: "changes something",
    Code.CHANGES_SYSTEM: "changes the system",
    Code.RUNS_CODE: "runs the project's own code",
    Code.REMOTE_CODE: "runs code from elsewhere",
    Code.INTERACTIVE: "waits for a person",
    Code.PERSISTENCE: "installs something that runs later",
    Code.NETWORK_EXFIL: "sends data away",
}
_DEPTH_MAX = 6


@mutable
class _Place:
    """Where in the tree of subcommands we are."""

    node: Node
    rule: Rule
    args: tuple[Arg, ...]
    more: Mapping[str, Flag] = field(default_factory=dict)
    path: tuple[str, ...] = ()


def rate_by_rule(case: Inspection, tree: Node) -> None:
    """Add what the rules of the program say."""
    place = _descend(case, _Place(tree, _rule_of(tree, case.program, None), case.words))
    rule = place.rule
    case.rule = rule.name if rule.family else ""
    # Only docker talks to that socket; podman and its like open the files of the engine.
    elsewhere = "socket:docker" in rule.needs and case.program != "docker"
    case.needs |= {"everything"} if elsewhere else rule.needs
    if rule.requires:
        case.conditions.add(rule.requires)
    if _asks_for_help(place) and (rule.verdict is Rating.SAFE or is_help_harmless(case.program)):
        return
    if rule.verdict is not Rating.SAFE:
        case.say(rule.verdict, rule.code or Code.UNKNOWN_PROGRAM, f"{_shown(rule)} {rule.why}")
    given = split(rule, place.args, place.more, stop=rule.stop)
    if rule.stdin is Role.SHELL and given.operands:
        # `$0`, `$1` and so on of the text that a shell is given: `bash -c '"$@"' _ ls`.
        first = case.args[:0] if "-c" in given.names() else case.args[:1]
        case.where = replace(case.where, operands=(*first, *given.operands))
    _rate_options(case, rule, given)
    _rate_operands(case, rule, given)
    rate_open_words(case, rule, given)
    _rate_conditions(case, rule, given, rule.whens)
    rate_input(case, rule, given)
    rate_network(case, rule, place.args, given)
    if rule.wraps and (given.unknown or given.loose):
        scan_suffixes(case, place.args)


def _shown(rule: Rule) -> str:
    return " ".join(rule.command)


def _rule_of(node: Node, program: str, above: Rule | None) -> Rule:
    """The rule of a place; one that only has subcommands is as unknown as the one above it."""
    if node.rule is not None:
        return node.rule
    command = (*above.command, program) if above is not None else (program,)
    why = "with this subcommand is not known to us"
    return Rule(command, "", Rating.UNKNOWN, Code.UNKNOWN_FLAG, why, help=False)


def _descend(case: Inspection, place: _Place) -> _Place:
    """Follow the subcommands as far as there are rules."""
    deepest = place
    for _ in range(_DEPTH_MAX):
        if not place.node.has_subcommands:
            break
        place = _detached(place)
        at, given = _next_word(place)
        word = place.args[at] if at is not None else None
        child = place.node.child(word.head) if word is not None and word.values else None
        if at is None or word is None or child is None:
            break
        _rate_parent(case, place.rule, given, word)
        place = _below(place, child, at)
        deepest = place if child.rule is not None else deepest
    return deepest


def _below(place: _Place, child: Node, at: int) -> _Place:
    more = {**place.more, **place.rule.flags} if place.rule.everywhere else place.more
    word = place.args[at].value or ""
    rule = _rule_of(child, word, place.rule)
    return _Place(child, rule, place.args[at + 1 :], more, (*place.path, word))


def _detached(place: _Place) -> _Place:
    """`python -mjson.tool` is `python -m json.tool`."""
    exact = place.node.exact
    flags = place.rule.flags.items()
    choosing = {name for name, flag in flags if name in exact and flag.arity is Arity.ONE}
    if not choosing:
        return place
    rest = split(place.rule, place.args, place.more, stop=True).rest
    for at, arg in enumerate(place.args[:rest]):
        option, word = arg.head[:2], arg.head[2:]
        if arg.exact and word and option in choosing and arg.head not in exact:
            pair = (literal(option, arg.span), literal(word, arg.span))
            return replace(place, args=(*place.args[:at], *pair, *place.args[at + 1 :]))
    return place


def _next_word(place: _Place) -> tuple[int | None, SplitArguments]:
    """Where the word stands that chooses the subcommand, and what is given before it.

    An option may choose as well: `python -m json.tool`.
    """
    given = split(place.rule, place.args, place.more, stop=True)
    for at, arg in enumerate(place.args[: given.rest]):
        if arg.exact and arg.head.startswith("-") and arg.head in place.node.exact:
            return at, split(place.rule, place.args[:at], place.more, stop=True)
    return (given.rest if given.operands else None), given


def _rate_parent(case: Inspection, rule: Rule, given: SplitArguments, sub: Arg) -> None:
    """The options that stood before a subcommand."""
    if not sub.exact:
        case.unknown(Code.DYNAMIC_ARGUMENT, f"{sub.text} is known only at run time", sub)
    given.operands = []
    _rate_options(case, rule, given)
    _rate_conditions(case, rule, given, [when for when in rule.whens if not when.looks_at_operands])


def _asks_for_help(place: _Place) -> bool:
    if len(place.args) != 1 or not place.args[0].exact or not place.rule.help:
        return False
    asked = place.args[0].value
    return asked == "--help" or (asked == "--version" and not place.path)


def _rate_options(case: Inspection, rule: Rule, given: SplitArguments) -> None:
    for arg in given.unknown:
        _unknown_flag(case, rule, arg)
    for arg in given.loose:
        if not (rule.plain_globs if arg.pattern else rule.any_flags):
            case.unknown(
                Code.DYNAMIC_ARGUMENT, f"{arg.text} may turn into options of {_shown(rule)}", arg
            )
    for option in given.flags:
        _rate_option(case, rule, option)
    for inner in given.inner:
        rate_inner(case, inner, given)


def _rate_option(case: Inspection, rule: Rule, option: Given) -> None:
    flag = option.flag
    if flag.code not in (None, Code.UNKNOWN_FLAG) and flag.role is not Role.WRITE:
        does = _FLAG_MESSAGES.get(flag.code, flag.code.replace("_", " "))
        case.say(flag.rating, flag.code, f"{flag.name} of {_shown(rule)} {does}", option.arg)
    if option.value is not None:
        use(case, flag.role, [option.value], rule, flag.name)
    elif flag.role is Role.WRITE:
        case.unknown(Code.WRITE_FLAG, f"{flag.name} of {_shown(rule)} writes a file", option.arg)


def _rate_operands(case: Inspection, rule: Rule, given: SplitArguments) -> None:
    slots = slots_for(rule, given.names())
    by_role, too_many = roles(slots, given.operands)
    for role, args in by_role:
        if role is Role.COMMAND:
            rate_inner(case, args, given, appends=rule.appends)
        else:
            use(case, role, args, rule)
    for arg in too_many:
        case.unknown(Code.UNKNOWN_FLAG, f"{_shown(rule)} has no place for {arg.text}", arg)


def _rate_conditions(
    case: Inspection, rule: Rule, given: SplitArguments, whens: Sequence[When]
) -> None:
    """What holds is told; an option that only a condition lists is known only by one that holds."""
    told: set[str] = set()
    for when in whens:
        if _holds(when, given):
            told |= when.names
            case.say(when.verdict, when.code, f"{_shown(rule)}: {when.why}")
    for option in given.flags:
        if option.flag.code is Code.UNKNOWN_FLAG and option.flag.name not in told:
            _unknown_flag(case, rule, option.arg)


def _unknown_flag(case: Inspection, rule: Rule, arg: Arg) -> None:
    case.unknown(Code.UNKNOWN_FLAG, f"{arg.text} of {_shown(rule)} is not known to us", arg)


def _holds(when: When, given: SplitArguments) -> bool:
    names = given.names()
    return (
        (not when.flags or not when.flags.isdisjoint(names))
        and when.every <= names
        and when.absent.isdisjoint(names)
        and when.at_least <= len(given.operands)
        and (when.at_most is None or len(given.operands) <= when.at_most)
        and (not when.dynamic or any(not arg.exact for arg in given.operands))
        and (when.operand is None or _in_any(when.operand, given.operands))
        and (when.first is None or _in_any(when.first, _may_be_first(given)))
        and (when.first_is is None or _is_any(when.first_is, _may_be_first(given)))
        and all(_in_any(pattern, _values(flags, given)) for flags, pattern in when.value)
        and all(_is_any(check, _values(flags, given)) for flags, check in when.value_is)
    )


def _may_be_first(given: SplitArguments) -> Sequence[Arg]:
    """Each option that is not known may have taken an operand as its value."""
    return given.operands[: 1 + len(given.unknown) + len(given.loose)]


def _in_any(pattern: str, args: Sequence[Arg]) -> bool:
    return any(found(pattern, text) for arg in args for text in _texts(arg))


def _is_any(check: str, args: Sequence[Arg]) -> bool:
    return any(CHECKS[check](guess) for arg in args for guess in arg.guesses)


def _values(flags: frozenset[str], given: SplitArguments) -> list[Arg]:
    return [option.value for option in given.flags if option.flag.name in flags and option.value]


def _texts(arg: Arg) -> tuple[str, ...]:
    """What a pattern is tried on: what the word may be, and if it is not certain, how it reads."""
    return arg.guesses if arg.exact else (*arg.guesses, arg.text)
