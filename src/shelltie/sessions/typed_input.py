"""Judges lines that an agent types into a shell or interpreter.

A line counts when it may be run: then all of it is judged that has been sent and not been finished
yet, in each of its readings.
"""

from collections.abc import Sequence
from dataclasses import replace
from itertools import product

from anyio import to_thread
from anyio.lowlevel import checkpoint

from shelltie.model import Command
from shelltie.running.interfaces import CommandJudge
from shelltie.running.options import Requester
from shelltie.running.supervisor import Supervisor
from shelltie.sessions.line_readings import (
    LINE_MAX,
    Pieces,
    Unfinished,
    edits_unseen,
    may_run,
    readings,
)
from shelltie.sessions.session import Session
from shelltie.verdict import Code, Rating, Reason, Span, Verdict

_LONG = 512  # bytes; the event loop goes on while more is read in all its ways
_SHELL_DANGER = b"rm -rf x\n"
_CODE_DANGER = b"shutil.rmtree('x')\n"
_NOT_FOLLOWED = (
    "keys that edit a line in a way that is not followed (alt-backspace, ctrl-t, or erasing where"
    " there are letters outside ASCII): type the line whole"
)
_TOO_MUCH = (
    "more lines are open than are followed (a quote, a bracket or a command without its end): type"
    " the command whole in one input, or in another session"
)


async def admit(
    supervisor: Supervisor,
    session: Session,
    reader: Command,
    data: bytes,
    requester: Requester,
    *,
    end: bool = False,
    in_shell: bool = False,
) -> None:
    """Let this be typed for the command that reads it; `end` is the end of all input.

    `in_shell`: that command may be another one than the shell it was given to makes of it.
    Whoever calls holds `session.typing` until it has been sent.
    Raises: CommandDenied; then it may not.
    """
    unfinished = await session.unfinished()
    texts = unfinished.texts(data)
    whole = b"".join(texts[0])
    if not (end or len(whole) > LINE_MAX or may_run(data)) or not whole.strip():
        return
    reader = replace(reader, cwd=session.run.foreground_directory or reader.cwd, stdin=whole)
    judge = supervisor.admission.judge
    verdict = await rate(judge, reader, unfinished, data, in_shell=in_shell)
    if verdict is not None:
        await supervisor.admission.let_type(session.run, reader, verdict, requester)


async def rate(
    judge: CommandJudge,
    reader: Command,
    unfinished: Unfinished,
    data: bytes,
    *,
    in_shell: bool = False,
) -> Verdict | None:
    """What is dangerous about the input of a command beside the command itself, if anything is.

    Where a shell reads it, every program that the shell starts may be the one that does: then it
    is judged as text for a shell and as code as well. All readings count. Where there are several,
    a reason is about the whole input, and whoever is asked must be shown all of it: its place in
    one of them says nothing.
    """
    quiet = await judge.look(replace(reader, stdin=None))
    texts = unfinished.texts(data)
    long = unfinished.size + len(data) > _LONG
    found = await to_thread.run_sync(_all_readings, texts) if long else _all_readings(texts)
    reasons = await _dangers(judge, [reader], found, quiet)
    if reasons and len(found) == 1:
        return replace(quiet, rating=Rating.DANGEROUS, reasons=tuple(reasons))
    in_shell = in_shell or bool(await _dangers(judge, [reader], [_SHELL_DANGER], quiet))
    if in_shell:
        others = [Command(name, cwd=reader.cwd) for name in ("bash", "python3")]
        reasons += await _dangers(judge, others, found, quiet)
    if in_shell or await _dangers(judge, [reader], [_CODE_DANGER], quiet):
        reasons += _doubts(unfinished, texts[0])
    if not reasons:
        return None
    typed = (reader.stdin or b"").decode("utf-8", "surrogateescape")
    shown = Span(0, len(reader.text) + 1 + len(typed))
    every = dict.fromkeys(replace(reason, span=shown) for reason in reasons)
    return replace(quiet, rating=Rating.DANGEROUS, reasons=tuple(every))


def _all_readings(texts: Sequence[Pieces]) -> list[bytes]:
    return [*dict.fromkeys(reading for text in texts for reading in readings(text))]


async def _dangers(
    judge: CommandJudge, readers: Sequence[Command], found: Sequence[bytes], quiet: Verdict
) -> list[Reason]:
    reasons = list[Reason]()
    for reader, reading in product(readers, found):
        verdict = await judge.look(replace(reader, stdin=reading))
        reasons += [
            reason
            for reason in verdict.reasons
            if reason.rating is Rating.DANGEROUS and reason not in quiet.reasons
        ]
        await checkpoint()  # each look is short, but there may be many
    return reasons


def _doubts(unfinished: Unfinished, typed: Pieces) -> list[Reason]:
    """Why what runs may be something else than all that was looked at."""
    reasons = list[Reason]()
    if edits_unseen(b"".join(typed)):
        reasons.append(_danger(Code.PARSER_DISAGREEMENT, _NOT_FOLLOWED))
    if unfinished.is_too_much:
        reasons.append(_danger(Code.TOO_LONG, _TOO_MUCH))
    return reasons


def _danger(code: Code, message: str) -> Reason:
    return Reason(code, Rating.DANGEROUS, message, Span(0, 0))
