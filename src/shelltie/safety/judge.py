"""Judge: the verdict about a command, by the rules, by shfmt as second parser, and by the disk.

Safe needs two parsers that read the same commands, and surroundings in which the programs are what
they seem. Doubt, a missing tool or a slow one makes it unknown.
"""

import sys
import sysconfig
import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence
from functools import lru_cache
from itertools import islice
from pathlib import Path
from typing import TypeVar, TypeVarTuple

from shelltie.basics.frozen import replace
from shelltie.basics.memo import memoized
from shelltie.basics.worker_threads import Threads, WorkerThreads
from shelltie.model import Command
from shelltie.safety.command_lists import Lists
from shelltie.safety.disk_checks import CommandPlace, are_near, doubts
from shelltie.safety.file_reads import secrets_among
from shelltie.safety.protected_names import Effect, effect, is_secret_path
from shelltie.safety.rating import Examined, Most, RatingMode, examine
from shelltie.safety.rule_set import RuleSet
from shelltie.safety.second_parser import SecondParser
from shelltie.shell.parse import READ_MAX, of_argv, parse
from shelltie.shell.shfmt import agree
from shelltie.verdict import Code, Rating, Reason, Span, Verdict

_REMEMBERED = 1024
_REMEMBERED_LENGTH = 4096
_SHOWN_MAX = 20
# What the event loop may look at itself, which takes 20 ms at most.
_SHORT = 512
_FEW = Most(commands=30, words=300, characters=_SHORT)
_ALL = Most()
_SYSTEM_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

Ts = TypeVarTuple("Ts")
T = TypeVar("T")


def find_shfmt() -> str | None:
    """The second parser, which is installed beside us."""
    usual = Path(sys.prefix, "bin", "shfmt")  # the same, without what `sysconfig` loads for it
    if usual.is_file():
        return str(usual)
    for name in ("shfmt", "shfmt.exe"):
        file = Path(sysconfig.get_path("scripts")) / name
        if file.is_file():
            return str(file)
    return None


class Judge:
    """Judges commands; what the rules say of a text is remembered.

    `path` is where programs are looked up unless the command says otherwise. Texts for another
    `shell` than bash are never safe; without `shfmt` only the plainest stay so. One that `stays`
    for many commands has a shfmt wait for the next text, and is to be closed. What takes long is
    done in `threads`.
    """

    def __init__(
        self,
        rules: RuleSet,
        *,
        mode: RatingMode = "proven",
        lists: Lists | None = None,
        path: str = _SYSTEM_PATH,
        shell: str = "/bin/bash",
        shfmt: str | None = None,
        stays: bool = False,
        threads: Threads | None = None,
    ) -> None:
        self._rules, self._mode, self._lists = rules, mode, lists or Lists()
        self._path, self._shell = path, Path(shell).name
        self._parser = None if shfmt is None else SecondParser(shfmt)
        self._stays = stays
        self._agreed: OrderedDict[str, bool] = OrderedDict()
        self._remembered = memoized(self._examine)
        self._threads = threads or WorkerThreads()

    def first(self, command: Command) -> Verdict:
        """What the rules say. Safe must be confirmed before anything relies on it.

        It may take a second: `look` is for event loops.
        """
        verdict = self._examined(command, _ALL).verdict
        return _with(verdict, _from_environment(command))

    async def look(self, command: Command) -> Verdict:
        """The same, and where the names of files lead; the event loop goes on meanwhile.

        What a link means makes a command dangerous, so it is known before anybody decides.
        """
        reasons = await self._beside(command, _from_environment, command) if command.env else ()
        examined = await self._look(command)
        verdict = _with(examined.verdict, reasons)
        if verdict.rating is not Rating.SAFE or not (examined.files or examined.perhaps_files):
            return verdict
        place = self._place(command, examined)
        return _with(verdict, await self._threads.run(_shown, command, place, examined))

    async def confirm(self, command: Command, verdict: Verdict) -> Verdict:
        """The verdict, made unknown if something speaks against safe. It may take milliseconds."""
        if verdict.rating is not Rating.SAFE:
            return verdict
        examined = await self._look(command)
        own = () if command.argv is not None else (command.text,)
        for text in (*own, *examined.texts):
            if not await self._agrees(text):
                return _with(verdict, [_reason(Code.PARSER_DISAGREEMENT, _NOT_AGREED, command)])
        looks = self._place(command, examined), examined.conditions, examined.programs
        if not _is_long(command) and are_near(*looks):
            found = doubts(*looks)
        else:
            found = await self._threads.run(doubts, *looks)
        reasons = [_reason(code, message, command) for code, message in found]
        return replace(_with(verdict, reasons), agreed=True)

    async def judge(self, command: Command) -> Verdict:
        """Both, one after the other."""
        return await self.confirm(command, await self.look(command))

    async def judge_elsewhere(self, command: Command) -> Verdict:
        """The verdict of what is to run on another machine, with its usual PATH: what depends on
        its disk, at which nobody looks, is unknown.
        """
        reasons = await self._beside(command, _from_environment, command) if command.env else ()
        examined = await self._look(command)
        verdict = _with(examined.verdict, reasons)
        if verdict.rating is not Rating.SAFE:
            return verdict
        if examined.files or examined.conditions or any(examined.directories):
            return _with(verdict, [_reason(Code.UNTRUSTED_PROGRAM, _ELSEWHERE, command)])
        own = () if command.argv is not None else (command.text,)
        for text in (*own, *examined.texts):
            if not await self._agrees(text):
                return _with(verdict, [_reason(Code.PARSER_DISAGREEMENT, _NOT_AGREED, command)])
        return replace(verdict, agreed=True)

    async def close(self) -> None:
        """Nothing of it is left."""
        if self._parser is not None and self._stays:
            await self._threads.run(self._parser.close)

    async def _look(self, command: Command) -> Examined:
        """A short text may hold much as well: who reads it one way has to read it in others."""
        if not _is_long(command):
            examined = self._examined(command, _FEW)
            if examined.complete:
                return examined
        return await self._threads.run_in_turn(self._examined, command, _ALL)

    async def _beside(self, command: Command, work: Callable[[*Ts], T], *given: *Ts) -> T:
        """Work on a command; on a long one in a thread."""
        if _is_long(command):
            return await self._threads.run_in_turn(work, *given)
        return work(*given)

    def _examined(self, command: Command, most: Most) -> Examined:
        # The input as far as it is looked at, and a little more: so that it is seen to be too long.
        stdin = (
            None
            if not command.stdin
            else command.stdin[: 4 * READ_MAX + 4].decode("utf-8", "surrogateescape")
        )
        read = self._remembered if len(stdin or "") <= _REMEMBERED_LENGTH else self._examine
        return read(command.text, command.argv, stdin, most)

    def _examine(
        self, text: str, argv: tuple[str, ...] | None, stdin: str | None, most: Most
    ) -> Examined:
        script = parse(text) if argv is None else of_argv(argv)
        return examine(script, self._rules, self._mode, self._lists, stdin, most)

    def _place(self, command: Command, examined: Examined) -> CommandPlace:
        path = command.env.get("PATH") or self._path
        return CommandPlace(_path(command.cwd), path, command.pty is not None, examined.directories)

    async def _agrees(self, text: str) -> bool:
        """Whether another parser reads the text as we do, and the shell as both of them."""
        if self._shell != "bash":
            return False
        if (known := self._agreed.get(text)) is not None:
            self._agreed.move_to_end(text)
            return known
        command = Command(text)
        script = await self._beside(command, parse, text)
        agreed = script.plain
        if self._parser is not None and not agreed:
            # In a thread: asyncio takes twice as long to start a process.
            given = script.text.encode("utf-8", "surrogatepass")
            output = await self._threads.run(self._parser.tree, given)
            if self._stays:
                threading.Thread(target=self._parser.start_ahead, daemon=True).start()
            if output is not None:
                agreed = await self._beside(command, agree, script, output) is None
        if len(text) <= _REMEMBERED_LENGTH:
            self._agreed[text] = agreed
        if len(self._agreed) > _REMEMBERED:
            self._agreed.popitem(last=False)
        return agreed


_path = lru_cache(64)(Path)  # to make one takes longer than to look at the program


def _shown(command: Command, place: CommandPlace, examined: Examined) -> list[Reason]:
    """Which files it would show that hold credentials. Blocks."""
    perhaps = secrets_among(place, examined.perhaps_files)
    found = [
        *islice(secrets_among(place, examined.files), _SHOWN_MAX),
        *((Rating.UNKNOWN, why) for _, why in islice(perhaps, _SHOWN_MAX)),
    ]
    whole = Span(0, len(command.text))
    return [Reason(Code.SECRET_READ, rating, why, whole) for rating, why in found]


_ELSEWHERE = "whether it is safe depends on files of another machine, which nobody has looked at"
_NOT_AGREED = "two parsers, or the shell, may not read the same commands in it"


def _is_long(command: Command) -> bool:
    """Whether it may take longer than others shall wait for their turn."""
    length = len(command.text) + len(command.stdin or b"") + sum(map(len, command.argv or ()))
    if command.env:
        length += sum(map(len, (*command.env, *filter(None, command.env.values()))))
    return length > _SHORT


def _from_environment(command: Command) -> list[Reason]:
    """The variables that the caller sets can change what runs as well."""
    whole = Span(0, len(command.text))
    reasons = []
    for name, value in command.env.items():
        what = effect(name, value or "")
        if what is not Effect.NONE or _is_more_than_text(value or ""):
            rating = Rating.DANGEROUS if what is Effect.LOADS else Rating.UNKNOWN
            message = f"{name} can change what runs"
            reasons.append(Reason(Code.ENV_INJECTION, rating, message, whole))
    return reasons


def _is_more_than_text(value: str) -> bool:
    """A text may use a variable before it sets it: as a file, or in arithmetic, which runs code."""
    return "$(" in value or "`" in value or is_secret_path(value)


def _reason(code: Code, message: str, command: Command) -> Reason:
    return Reason(code, Rating.UNKNOWN, message, Span(0, len(command.text)))


def _with(verdict: Verdict, reasons: Sequence[Reason]) -> Verdict:
    """The verdict with more against it."""
    if not reasons:
        return verdict
    every = sorted((*verdict.reasons, *reasons), key=lambda reason: -reason.rating.rank)
    return replace(verdict, rating=every[0].rating, reasons=tuple(every))
