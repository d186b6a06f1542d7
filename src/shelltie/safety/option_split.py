"""getopt: splits argv into options, values and operands by the rule of its program. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import field

from shelltie.basics.frozen import frozen, mutable
from shelltie.basics.lazy_regex import lazy
from shelltie.safety.arg import Arg
from shelltie.safety.rule import Arity, Flag, OptionStyle, Role, Rule, Slot, Slots
from shelltie.shell.invocation import read_invocation

_NUMBER = lazy(r"-\d+")
_ASSIGNMENT = lazy(r"[^=]+=")  # env takes any name
ANY_NUMBER = "-#"  # how a rule lists `-5`


@frozen
class Given:
    """An option as it was given; `value` is `None` when it has none."""

    flag: Flag
    arg: Arg
    value: Arg | None = None


@mutable
class SplitArguments:
    """What was given to a command.

    `unknown` are options its rule does not list, `loose` are words that may become options.
    `inner` are the commands after `-exec`; `rest` is where the first operand stood.
    """

    flags: list[Given] = field(default_factory=list)
    operands: list[Arg] = field(default_factory=list)
    unknown: list[Arg] = field(default_factory=list)
    loose: list[Arg] = field(default_factory=list)
    inner: list[tuple[Arg, ...]] = field(default_factory=list)
    rest: int = 0

    def names(self) -> frozenset[str]:
        """The options that are given."""
        return frozenset(given.flag.name for given in self.flags)


def split(
    rule: Rule, args: Sequence[Arg], more: Mapping[str, Flag], *, stop: bool
) -> SplitArguments:
    """Options and operands; `more` are options of the program that may stand here as well.

    With `stop` the first operand ends the options.
    """
    reader = _Reader(rule, args, {**more, **rule.flags} if more else rule.flags, stop=stop)
    reader.read()
    return reader.found


class _Reader:
    """Goes over the arguments once."""

    def __init__(
        self, rule: Rule, args: Sequence[Arg], flags: Mapping[str, Flag], *, stop: bool
    ) -> None:
        self.rule, self.args, self.flags, self.stop = rule, args, flags, stop
        self.at = 0
        self.over = rule.style is OptionStyle.NONE  # no more options
        self.found = SplitArguments(rest=len(args))

    def read(self) -> None:
        if (
            self.rule.style is OptionStyle.BUNDLE
            and self.args
            and self.args[0].head[:1] not in ("-", "")
        ):
            self._bundle()
        if self.rule.style is OptionStyle.SHELL:
            self._shell()
        while self.at < len(self.args):
            arg = self.args[self.at]
            self.at += 1
            self._take(arg)

    def _take(self, arg: Arg) -> None:
        head = arg.head
        if self.over:
            self._operand(arg)
        elif head == "--" and arg.values:
            self.over = True
            self.found.flags += [Given(flag, arg) for flag in [self.flags.get(head)] if flag]
        elif head in self.flags and (head == "-" or not head.startswith("-")):
            self._given(self.flags[head], arg)
        elif not head.startswith("-") or head == "-":
            self._operand(arg)
        elif self.rule.style is OptionStyle.WORD:
            self._word(arg, head)
        elif head.startswith("--"):
            self._long(arg, head)
        else:
            self._short(arg, head)

    def _operand(self, arg: Arg) -> None:
        if arg.loose and not self.over:
            self.found.loose.append(arg)
        if not self.found.operands:
            self.found.rest = self.at - 1
        self.found.operands.append(arg)
        self.over = self.over or self.stop

    def _word(self, arg: Arg, head: str) -> None:
        name, equals, _ = head.partition("=")
        flag = (
            self.flags.get(head) or self.flags.get(name) or self.flags.get("-" + name.lstrip("-"))
        )
        if flag is None and _NUMBER.fullmatch(head):
            flag = self.flags.get(ANY_NUMBER)
        if flag is None:
            self._not_listed(arg)
        elif equals and head not in self.flags:
            self._given(flag, arg, arg.after(len(name) + 1))
        else:
            self._given(flag, arg)

    def _long(self, arg: Arg, head: str) -> None:
        name, equals, _ = head.partition("=")
        attached = arg.after(len(name) + 1) if equals else None
        if (flag := self.flags.get(name)) is not None:
            self._given(flag, arg, attached)
            return
        candidates = [flag for known, flag in self.flags.items() if known.startswith(name)]
        if len(name) > 2:
            for candidate in candidates:
                self._given(candidate, arg, attached, sure=len(candidates) == 1)
        # An abbreviation may mean an option that the rule does not list.
        self._not_listed(arg)
        if attached is not None and not candidates:
            self.found.flags.append(Given(Flag(name, role=Role.READ), arg, attached))

    def _short(self, arg: Arg, head: str) -> None:
        if _NUMBER.fullmatch(head) and ANY_NUMBER in self.flags:
            self._given(self.flags[ANY_NUMBER], arg)
            return
        if (whole := self.flags.get(head)) is not None and len(head) > 2:
            self._given(whole, arg)  # some programs have long names with one dash
            return
        for at in range(1, len(head)):
            flag = self.flags.get("-" + head[at])
            if flag is None:
                self._not_listed(arg)
            elif flag.arity is Arity.NONE:
                self._given(flag, arg)
            else:
                tail = arg.after(at + 1)
                self._given(flag, arg, tail if tail.shape else None)
                return
        if not arg.values and len(arg.shape) > len(head):
            self.found.loose.append(arg)

    def _bundle(self) -> None:
        """`tar tzf x`: letters first, then a value for each that wants one."""
        bundle = self.args[0]
        self.at = 1
        for letter in bundle.head:
            flag = self.flags.get("-" + letter)
            if flag is None:
                self._not_listed(bundle)
            else:
                self._given(flag, bundle)

    def _shell(self) -> None:
        """`bash -co pipefail TEXT`: the text of `-c` is the first word that is no option."""
        invocation = read_invocation([arg.head for arg in self.args])
        self.at, self.over = invocation.rest, True
        rest = self.args[self.at : self.at + 1]
        self.found.loose += [arg for arg in self.args[: self.at] if not arg.exact]
        self.found.loose += [arg for arg in rest if arg.loose]
        for option in invocation.options:
            arg = self.args[option.at]
            value = None if option.value is None else self.args[option.value : option.value + 1]
            if value is not None and len(option.name) == 2 and arg.head[-1:] != option.name[-1]:
                # Other shells than bash read `-oerrexit` as `-o errexit`.
                self.found.loose.append(arg)
            if (flag := self.flags.get(option.name)) is None:
                self._not_listed(arg)
            elif flag.role is not Role.SHELL:
                self.found.flags.append(Given(flag, arg, value[0] if value else None))
        if invocation.has_command and (flag := self.flags.get("-c")) is not None:
            self.found.flags += [Given(flag, arg, arg) for arg in rest] or [
                Given(flag, self.args[0])
            ]
            self.at += len(rest)

    def _given(
        self, flag: Flag, arg: Arg, attached: Arg | None = None, *, sure: bool = True
    ) -> None:
        value = attached
        if flag.role is Role.EXEC:
            self._inner()
        elif flag.arity is Arity.TWO:
            self._next()
            value = self._next()
        elif flag.arity is Arity.ONE and attached is None and sure:
            value = self._next()
        elif flag.arity is Arity.NONE and attached is not None and flag.code is None:
            self._not_listed(arg)
        self.found.flags.append(Given(flag, arg, value))
        if arg.loose if attached is None else not (arg.exact or arg.single):
            self.found.loose.append(arg)

    def _next(self) -> Arg | None:
        if self.at >= len(self.args):
            return None
        value = self.args[self.at]
        self.at += 1
        if not value.single and not value.pattern:
            self.found.loose.append(value)
        return value

    def _inner(self) -> None:
        """The words of a command up to `;` or `+`."""
        start = self.at
        while self.at < len(self.args) and self.args[self.at].value != ";":
            ends = self.args[self.at].value == "+" and self.args[self.at - 1].value == "{}"
            if ends:
                break
            self.at += 1
        self.found.inner.append(tuple(self.args[start : self.at]))
        self.at += 1

    def _not_listed(self, arg: Arg) -> None:
        kept = self.found.loose if self.rule.any_flags else self.found.unknown
        if arg not in kept and (arg.loose or not self.rule.any_flags):
            kept.append(arg)


def slots_for(rule: Rule, names: frozenset[str]) -> Slots:
    """What the operands are, given these options."""
    for flags, slots in rule.operands_with:
        if not flags.isdisjoint(names):
            return slots
    return rule.operands


def roles(slots: Slots, operands: Sequence[Arg]) -> tuple[list[tuple[Role, list[Arg]]], list[Arg]]:
    """The operands by their roles, in order, and those for which there is no place."""
    given: list[tuple[Role, list[Arg]]] = []
    rest = list(operands)
    needed = sum(slot.needed for slot in slots)
    for slot in slots:
        needed -= slot.needed
        count = _count(slot, rest, reserved=needed)
        if count:
            given.append((slot.role, rest[:count]))
            rest = rest[count:]
    return given, rest


def _count(slot: Slot, rest: Sequence[Arg], *, reserved: int) -> int:
    """How many of the operands a place takes when so many must be left for those behind it."""
    if slot.role in (Role.COMMAND, Role.SHELL):
        return len(rest)
    if slot.role is Role.ASSIGN and slot.repeats:
        return next(
            (at for at, arg in enumerate(rest) if not _ASSIGNMENT.match(arg.head)), len(rest)
        )
    free = len(rest) - reserved
    if slot.repeats:
        return max(free, 1 if slot.needed and rest else 0)
    return 1 if rest and (slot.needed or free > 0) else 0
