"""Rates a whole script: each simple command is inspected, the strictest rating wins. Pure."""

from collections.abc import Sequence
from dataclasses import field, replace
from typing import Literal

from shelltie.basics.frozen import frozen, mutable
from shelltie.basics.lazy_regex import lazy
from shelltie.safety.arg import Arg, literal
from shelltie.safety.builtins import BUILTINS
from shelltie.safety.by_rule import rate_by_rule
from shelltie.safety.command_lists import Lists, is_listed, rate_by_list
from shelltie.safety.dataflow import rate_run_file, scan_unknown_input
from shelltie.safety.inspection import CommandScope, Inspection, base_name
from shelltie.safety.other_languages import dangers_in, rate_foreign, without_extension
from shelltie.safety.protected_names import is_secret_path
from shelltie.safety.rule_set import Node, RuleSet
from shelltie.safety.shell_syntax import (
    rate_assignments,
    rate_dynamic_program,
    rate_expansions,
    rate_loop,
    rate_redirects,
)
from shelltie.safety.values import Values
from shelltie.safety.wrappers import places_of, scan_suffixes, scan_words
from shelltie.shell.doubts import is_posix
from shelltie.shell.parse import READ_MAX, parse
from shelltie.shell.script import Script, Simple
from shelltie.verdict import Code, Judged, Rating, Reason, Span, Verdict, foremost

RatingMode = Literal["proven", "listed"]

_DEPTH_MAX = 8
_REASONS_MAX = 20
_DANGERS_MAX = 200  # whoever is asked is shown them all
_SYSTEM_DIRECTORY = lazy(
    r"(?:/usr(?:/local)?|/opt/homebrew|/opt/local|/snap)?/s?bin/[^/]+|/usr/libexec/[^/]+"
)
_OWN_PROGRAM = lazy(r"/proc/(?:self|thread-self|\d+)/exe")  # the shell's own, or another
_DETACHING = frozenset(("nohup", "setsid", "disown", "daemonize", "start-stop-daemon"))
_NOTHING = Span(0, 0)
_BASHES = frozenset(("bash", "rbash", "eval", "trap"))
_Mark = tuple[list[int], set[str], dict[str, None], set[str]]


@frozen
class Most:
    """How much of a text is looked at, all that only may be there included.

    `characters` are those of the texts for a shell inside it.
    """

    commands: int = 1000
    words: int = 40_000
    characters: int = 4 * READ_MAX


@frozen
class Examined:
    """A verdict, and what must hold when the command runs for it to stay safe.

    `programs` are the names that will be looked up, `directories` those that the text goes to,
    `None` for one that only the run will tell. Unless `complete`, there was too much in it. The
    second parser must read `texts` as we do, too: those that a bash inside is given. `files` are
    shown, as they are named or by a pattern, `perhaps_files` only if the run makes files of these
    words; what a name leads to is known on disk alone.
    """

    verdict: Verdict
    conditions: frozenset[str] = frozenset()
    programs: tuple[str, ...] = ()
    directories: tuple[str | None, ...] = ()
    complete: bool = True
    texts: tuple[str, ...] = ()
    files: tuple[str, ...] = ()
    perhaps_files: tuple[str, ...] = ()


def rate(
    script: Script, rules: RuleSet, mode: RatingMode = "proven", lists: Lists | None = None
) -> Verdict:
    """What the rules say. Safe needs a second look: `Judge` takes it."""
    return examine(script, rules, mode, lists).verdict


def examine(
    script: Script,
    rules: RuleSet,
    mode: RatingMode = "proven",
    lists: Lists | None = None,
    stdin: str | None = None,
    most: Most = Most(),  # noqa: B008  frozen
) -> Examined:
    """Like `rate`, with the conditions under which the verdict holds. Never raises.

    A place in `stdin` is told as if it began on a line of its own behind the text.
    """
    start = len(script.text) + 1
    given = None if stdin is None else literal(stdin, Span(start, start + len(stdin)))
    whole = Span(0, len(script.text) if given is None else given.span.end)
    limits = most.commands, most.words, most.characters
    rater = _Rater(rules, mode, lists or Lists(), whole, *limits)
    where = CommandScope(script, Values(script), input=given)
    rater.problems(script)
    rater.script(where)
    return rater.examined()


@mutable
class _Rater:
    """Looks at commands and keeps what was found."""

    rules: RuleSet
    mode: RatingMode
    lists: Lists
    whole: Span
    commands_left: int
    words_left: int
    characters_left: int
    reasons: list[Reason] = field(default_factory=list)
    judged: list[Judged] = field(default_factory=list)
    conditions: set[str] = field(default_factory=set)
    programs: dict[str, None] = field(default_factory=dict)
    directories: dict[str | None, None] = field(default_factory=dict)
    guessing: bool = False
    in_texts: dict[tuple[str, Span], bool] = field(default_factory=dict)
    texts: list[str] = field(default_factory=list)
    files: list[str] = field(default_factory=list)
    perhaps_files: list[str] = field(default_factory=list)
    needs: set[str] = field(default_factory=set)

    def examined(self) -> Examined:
        rating = max((it.rating for it in self.reasons), key=lambda it: it.rank, default=None)
        reasons = _chosen([*dict.fromkeys(self.reasons)])
        found = tuple(reasons), tuple(self.judged)
        verdict = Verdict(rating or Rating.SAFE, *found, needs=frozenset(self.needs))
        return Examined(
            verdict,
            frozenset(self.conditions),
            tuple(self.programs),
            tuple(self.directories),
            complete=not self.too_much,
            texts=tuple(dict.fromkeys(self.texts)),
            files=tuple(dict.fromkeys(self.files)),
            perhaps_files=tuple(dict.fromkeys(self.perhaps_files)),
        )

    def problems(self, script: Script) -> None:
        """What the text as a whole says, before any command of it."""
        whole = Span(0, len(script.text))
        for problem in script.problems:
            self._note(Rating.UNKNOWN, problem.code, problem.message, problem.span)
        if len(script.text) > READ_MAX:
            self._note(Rating.DANGEROUS, Code.TOO_LONG, "too long to be looked at", whole)
        if (pattern := self.lists.dangerous_in(script.text)) is not None:
            self._note(
                Rating.DANGEROUS, Code.LISTED, f"matches your dangerous pattern {pattern}", whole
            )
        for code, why in dangers_in(script.text):
            self._note(Rating.DANGEROUS, code, why, whole)
        if not script.commands and not script.problems:
            self._note(Rating.UNKNOWN, Code.PARSE_ERROR, "there is no command in it", whole)

    def _note(self, rating: Rating, code: Code, message: str, span: Span) -> None:
        self.reasons.append(Reason(code, rating, message, span))

    def script(self, where: CommandScope) -> None:
        """Every command of a text."""
        for simple in where.script.commands:
            self._simple(simple, where)

    def _simple(self, simple: Simple, where: CommandScope) -> None:
        args = where.values.args(simple.words) if simple.loop is None else ()
        case = Inspection(self, where, simple, args)
        if not self._may_look(case):
            return
        rate_redirects(case)
        rate_assignments(case)
        rate_loop(case)
        rate_expansions(case)
        if args:
            self._command(case)
        self._keep(case)

    def _may_look(self, case: Inspection, characters: int = 0) -> bool:
        """Whether there is not too much in it, with this command or text."""
        before = self.too_much
        self.commands_left -= 1
        self.words_left -= len(case.args)
        self.characters_left -= characters
        if self.too_much and not before:
            # What is not looked at from here on may stand anywhere: also before, or in the input.
            much = "too much in it to be looked at"
            self._note(Rating.DANGEROUS, Code.TOO_LONG, much, self.whole)
        return not self.too_much

    @property
    def too_much(self) -> bool:
        """There is more in it than is looked at."""
        return min(self.commands_left, self.words_left, self.characters_left) < 0

    # ---- what cases ask for ----------------------------------------------------------------

    def text(self, text: str, case: Inspection, label: str, span: Span) -> None:
        place = literal(text, span)
        if self._is_too_deep(case, place) or not self._may_look(case, len(text)):
            return
        script = parse(text)
        for problem in script.problems:
            case.unknown(problem.code, f"{label}: {problem.message}", place)
        if len(text) > READ_MAX:
            case.dangerous(Code.TOO_LONG, f"{label}: too long to be looked at", place)
        if case.where.is_input and (pattern := self.lists.dangerous_in(text)) is not None:
            case.dangerous(Code.LISTED, f"matches your dangerous pattern {pattern}")
        self._keep_text(case, script, label)
        guessing, self.guessing = self.guessing, False
        # What is run itself is shown line by line.
        run = case.where.place(span)
        fed = tuple(it for it in case.fed if not it.start <= run.start <= run.end <= it.end)
        where = case.where.inner(script, label, span)
        self.script(replace(where, moves=case.moves, fed=fed))
        self.guessing = guessing

    def _keep_text(self, case: Inspection, script: Script, label: str) -> None:
        """Only bash reads a text as bash does."""
        if case.program in _BASHES:
            self.texts.append(script.text)
        elif not is_posix(script.text):
            message = f"{label}: another shell than bash may read it otherwise"
            case.unknown(Code.PARSER_DISAGREEMENT, message)

    def command(self, args: Sequence[Arg], case: Inspection, label: str) -> None:
        if not args or self._is_too_deep(case):
            return
        where = case.where.within(label)
        inner = Inspection(self, where, case.simple, tuple(args))
        if self._may_look(inner):
            self._command(inner)
            self._keep(inner)

    def danger(self, args: Sequence[Arg], case: Inspection, label: str) -> bool:
        mark, guessing, self.guessing = self._mark(), self.guessing, True
        self.command(args, case, label)
        self.guessing = guessing
        return self._only_danger(mark)

    def danger_in_text(self, text: str, case: Inspection, label: str, span: Span) -> bool:
        key = text, case.where.place(span)
        if key not in self.in_texts:
            mark = self._mark()
            self.text(text, case, label, span)
            self.in_texts[key] = self._only_danger(mark)
        return self.in_texts[key]

    def _mark(self) -> _Mark:
        lists = (self.reasons, self.judged, self.texts, self.files, self.perhaps_files)
        counts = [len(kept) for kept in lists]
        return counts, set(self.conditions), dict(self.programs), set(self.needs)

    def _only_danger(self, mark: _Mark) -> bool:
        """Forget what was found since, but for the danger: the command may not be there at all."""
        counts, self.conditions, self.programs, self.needs = mark
        reasons, judged, texts, files, perhaps = counts
        del self.texts[texts:], self.files[files:], self.perhaps_files[perhaps:]
        bad = [it for it in self.reasons[reasons:] if it.rating is Rating.DANGEROUS]
        kept = [it for it in self.judged[judged:] if it.rating is Rating.DANGEROUS]
        self.reasons[reasons:] = bad
        self.judged[judged:] = kept
        return bool(bad)

    def _is_too_deep(self, case: Inspection, arg: Arg | None = None) -> bool:
        if len(case.where.wrappers) < _DEPTH_MAX:
            return False
        case.dangerous(Code.TOO_DEEP, "too many programs around it to be looked at", arg)
        return True

    # ---- one command -----------------------------------------------------------------------

    def _command(self, case: Inspection) -> None:
        program = case.args[0]
        if program.value is None or not program.exact:
            case.program = base_name(program.head)
            rate_dynamic_program(case)
            return
        path = program.value
        case.program = "bash" if _OWN_PROGRAM.fullmatch(path) else base_name(path)
        self._place(case, path)
        rate_foreign(case)
        if path in case.where.script.functions:
            self._function(case)
        elif path in BUILTINS:
            BUILTINS[path](case)
        else:
            for tree in self.rules.for_program(case.program):
                if tree is not None:
                    rate_by_rule(case, tree)
                else:
                    self._without_rule(case)
        rate_by_list(case)
        self._detached(case, path)

    def _place(self, case: Inspection, path: str) -> None:
        """Where the program is: only a bare name or a system directory can be trusted."""
        if "/" not in path:
            self.programs[path] = None
        elif not _SYSTEM_DIRECTORY.fullmatch(path):
            case.unknown(Code.UNTRUSTED_PROGRAM, f"{path} is not a program of the system")
            case.doubtful = True
            rate_run_file(case, case.args[0])
        else:
            self.programs[path] = None

    def _function(self, case: Inspection) -> None:
        case.unknown(Code.RUNS_CODE, f"{case.program} is a function of this text")
        if any(it.program == case.program for it in case.feeders()):
            case.dangerous(Code.CHANGES_SYSTEM, f"{case.program} starts itself again and again")
        self._unknown_words(case)
        if case.words:
            self.danger(case.words, case, case.program)

    def _without_rule(self, case: Inspection) -> None:
        other = without_extension(case.program).lower()
        if other != case.program:
            inner = Inspection(self, case.where, case.simple, case.args, other)
            trees: list[Node] = [it for it in self.rules.for_program(other) if it is not None]
            for tree in trees:
                rate_by_rule(inner, tree)
            case.reasons += [it for it in inner.reasons if it.rating is Rating.DANGEROUS]
        case.unknown(Code.UNKNOWN_PROGRAM, f"{case.program} is not known to us")
        if " " in (case.args[0].value or ""):  # some wrappers hand their words to a shell
            line = " ".join(arg.guesses[0] for arg in case.args)
            self.danger_in_text(line, case, case.program, case.args[0].span)
        if any(problem.code is Code.PARSE_ERROR for problem in case.where.script.problems):
            scan_suffixes(case, case.words)  # where commands begin is a guess there
        scan_words(case)
        scan_unknown_input(case)
        self._unknown_words(case)

    def _unknown_words(self, case: Inspection) -> None:
        """Secrets that are handed to a program we know nothing of."""
        for arg in case.words:
            if any(is_secret_path(guess, case.directories) for guess in arg.guesses):
                case.dangerous(Code.SECRET_READ, f"{arg.text} may hold credentials", arg)

    def _detached(self, case: Inspection, path: str) -> None:
        """A program of nobody knows where that is to outlive the command."""
        if not case.simple.background or _DETACHING.isdisjoint(case.where.wrappers):
            return
        if case.doubtful or any(it.code is Code.UNKNOWN_PROGRAM for it in case.reasons):
            case.dangerous(Code.PERSISTENCE, f"{path} would go on after the command")

    def _keep(self, case: Inspection) -> None:
        listed = bool(case.reasons or case.conditions) and self._is_trusted(case)
        if listed:
            case.reasons = [it for it in case.reasons if it.rating is Rating.DANGEROUS]
            case.conditions = set()
        rating = max((it.rating for it in case.reasons), key=lambda it: it.rank, default=None)
        self.reasons += case.reasons
        self.conditions |= case.conditions
        self.files += sorted(case.files)
        self.perhaps_files += sorted(case.perhaps_files)
        # Whatever a user trusts may do more than read.
        self.needs |= {"everything"} if listed else case.needs
        self.directories.update(dict.fromkeys(places_of(case)))
        if case.args:
            argv = tuple(arg.value if arg.exact else None for arg in case.args)
            rating, wrappers = rating or Rating.SAFE, case.where.wrappers
            self.judged.append(Judged(argv, rating, case.span, wrappers, listed))

    def _is_trusted(self, case: Inspection) -> bool:
        if not case.args or not case.args[0].exact:
            return False
        path = case.args[0].value or ""
        if self.mode == "listed" and "/" not in path and is_listed(path):
            return True
        return self.lists.trusts(" ".join(arg.text or arg.shape for arg in case.args))


def _chosen(reasons: Sequence[Reason]) -> list[Reason]:
    """Of each kind at least one; what is dangerous and left out may stand anywhere in the text."""
    bad = [it for it in reasons if it.rating is Rating.DANGEROUS]
    told = foremost(bad, _DANGERS_MAX)
    if len(told) < len(bad):
        whole = Span(0, max(it.span.end for it in bad))
        more = f"and {len(bad) - len(told)} more that are dangerous"
        told.append(Reason(Code.TOO_LONG, Rating.DANGEROUS, more, whole))
    others = [it for it in reasons if it.rating is not Rating.DANGEROUS]
    return [*told, *foremost(others, _REASONS_MAX - len(told))]
