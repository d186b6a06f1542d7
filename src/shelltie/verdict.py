"""Safety verdict: Rating, Decision, reason Codes and spans. Pure."""

from collections.abc import Iterable, Sequence
from enum import StrEnum

from shelltie.basics.frozen import frozen


class Rating(StrEnum):
    """What we think of a command; the strictest of its parts wins."""

    SAFE = "safe"
    UNKNOWN = "unknown"
    DANGEROUS = "dangerous"

    @property
    def rank(self) -> int:
        """0 for safe, 2 for dangerous."""
        return _RATING_RANKS[self]


_RATING_RANKS = {rating: rank for rank, rating in enumerate(Rating)}


class Decision(StrEnum):
    """What follows from a rating, from the mildest to the strictest."""

    ALLOW = "allow"
    TRIAL = "trial"
    ASK = "ask"
    DENY = "deny"

    @property
    def rank(self) -> int:
        """0 for allow, 3 for deny."""
        return _DECISION_RANKS[self]


_DECISION_RANKS = {decision: rank for rank, decision in enumerate(Decision)}


class Code(StrEnum):
    """Why a command is not safe. The list is closed: programs may rely on it."""

    PARSE_ERROR = "parse_error"
    PARSER_DISAGREEMENT = "parser_disagreement"
    DYNAMIC_PROGRAM = "dynamic_program"
    DYNAMIC_ARGUMENT = "dynamic_argument"
    UNKNOWN_PROGRAM = "unknown_program"
    UNTRUSTED_PROGRAM = "untrusted_program"
    UNKNOWN_FLAG = "unknown_flag"
    EXEC_FLAG = "exec_flag"
    WRITE_FLAG = "write_flag"
    WRITES_FILES = "writes_files"
    WRITE_REDIRECT = "write_redirect"
    PROTECTED_PATH = "protected_path"
    SECRET_READ = "secret_read"  # noqa: S105  a name, no password
    NETWORK = "network"
    NETWORK_EXFIL = "network_exfil"
    PRIVILEGE = "privilege"
    PERSISTENCE = "persistence"
    DESTROYS_DATA = "destroys_data"
    REMOTE_CODE = "remote_code"
    RUNS_CODE = "runs_code"
    ENV_INJECTION = "env_injection"
    CHANGES_STATE = "changes_state"
    CHANGES_SYSTEM = "changes_system"
    INTERPRETER = "interpreter"
    INTERACTIVE = "interactive"
    FOREIGN_SHELL = "foreign_shell"
    INVISIBLE_CHARACTERS = "invisible_characters"
    TOO_LONG = "too_long"
    TOO_DEEP = "too_deep"
    LISTED = "listed"
    NOT_READ_ONLY = "not_read_only"
    TRIAL_CHANGES = "trial_changes"


@frozen
class Span:
    """A piece of the judged text: code points, the end not included."""

    start: int
    end: int

    def with_all(self, others: "Iterable[Span]") -> "Span":
        """From the first of them to the last."""
        every = (self, *others)
        return Span(min(it.start for it in every), max(it.end for it in every))


@frozen
class Reason:
    """One thing that keeps a command from being safe, and where it stands.

    `wrappers` are the programs around it, outermost first: `("sudo", "bash -c")`.
    """

    code: Code
    rating: Rating
    message: str
    span: Span
    program: str = ""
    rule: str = ""
    wrappers: tuple[str, ...] = ()


def foremost(reasons: Sequence[Reason], most: int) -> list[Reason]:
    """So many of them, the strictest first, and of each kind at least one."""
    if not reasons:
        return []
    ordered = sorted(reasons, key=lambda reason: -reason.rating.rank)
    kinds = dict[tuple[Rating, Code], int]()
    for place, reason in enumerate(ordered):
        kinds.setdefault((reason.rating, reason.code), place)
    places = dict.fromkeys((*kinds.values(), *range(len(ordered))))
    return [ordered[place] for place in sorted([*places][: max(most, len(kinds))])]


@frozen
class Judged:
    """One command that was found; a word that is known only at run time is `None`.

    `listed`: what speaks against it does not count, for it is on a list of trusted commands.
    """

    argv: tuple[str | None, ...]
    rating: Rating
    span: Span
    wrappers: tuple[str, ...] = ()
    listed: bool = False


@frozen
class Verdict:
    """What the rules say about a whole command. Safe needs `agreed`: two parsers saw the same.

    `needs` is what its commands need beyond reading files: see `safety/rules.schema.json`.
    """

    rating: Rating
    reasons: tuple[Reason, ...] = ()
    commands: tuple[Judged, ...] = ()
    agreed: bool = False
    needs: frozenset[str] = frozenset()
