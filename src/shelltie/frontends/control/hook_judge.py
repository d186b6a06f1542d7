"""Verdicts for the hooks of agents about a command of their own shell tool; with or without a loop.

The agent runs such a command itself. Here it is judged by the settings of the directory that it
runs in, and what the agent is told is published.
"""

import time
from collections import OrderedDict
from pathlib import Path

from shelltie.approval.decision import decide_by_profile
from shelltie.assemble_parts import judge_of, profiles
from shelltie.basics.ids import ulid
from shelltie.basics.validate import text
from shelltie.basics.worker_threads import Threads, WorkerThreads
from shelltie.errors import InvalidParameters, parameter
from shelltie.events import CommandAsked, CommandJudged, CommandRefused, HookAnswered, Publish
from shelltie.frontends.control.line_format import MessageFields
from shelltie.model import Caller, Command, RunId
from shelltie.safety.judge import Judge
from shelltie.settings.config import Config
from shelltie.settings.layers import load
from shelltie.verdict import Decision, Rating, Verdict, foremost

_REASONS_MAX = 3
_JUDGES_MAX = 16
DENIED = "HOOK_DENIED"
# Which clients have a person asked when a hook says so. Codex runs what is to be asked about, and
# Gemini CLI hangs: there it is denied, with the reason.
_ASKS = {"claude": True, "cursor": True, "codex": False, "gemini": False}


class HookJudge:
    """Answers the hooks of agents, and records each command that they are about to run."""

    def __init__(self, publish: Publish, threads: Threads | None = None) -> None:
        self._publish = publish
        self._threads = threads or WorkerThreads()
        self._judges: OrderedDict[str, tuple[Config, Judge]] = OrderedDict()

    async def answer(self, given: MessageFields) -> MessageFields:
        """What the agent's hook is to say: `allow`, `ask`, `deny`, or nothing; and why.

        Raises: InvalidParameters, ConfigWrong.
        """
        command, cwd = (parameter(name, given.get(name), text) for name in ("command", "cwd"))
        client = str(given.get("client"))
        if client not in _ASKS:
            raise InvalidParameters(f"client must be one of {', '.join(_ASKS)}, not {client!r}")
        if not Path(cwd).is_absolute():
            raise InvalidParameters(f"cwd must be absolute, not {cwd!r}")
        config, judge = await self._threads.run(self._judge_in, cwd)
        verdict = await judge.judge(Command(command, cwd=cwd))
        profile = profiles(config)["run"]
        workspace = config.sandbox.workspace or cwd
        decision = decide_by_profile(profile, command, verdict, cwd, workspace)
        said = hook_answer(client, verdict.rating, decision)
        why = _reasons(verdict)
        caller = Caller(client=f"{client} hook", session=str(given.get("session") or ""))
        if given.get("recorded") is not True:
            self._record(Command(command, cwd=cwd), caller, verdict, decision, said, why)
        return {"answer": said, "rating": str(verdict.rating), "reasons": why}

    def _judge_in(self, cwd: str) -> tuple[Config, Judge]:
        """The settings that hold in a directory, and who judges by them: the same while they do."""
        config = load(Path(cwd))
        known = self._judges.pop(cwd, None)
        if known is None or known[0] != config:
            known = config, judge_of(config, Path(cwd), threads=self._threads)
        self._judges[cwd] = known
        if len(self._judges) > _JUDGES_MAX:
            self._judges.popitem(last=False)
        return known

    def _record(
        self,
        command: Command,
        caller: Caller,
        verdict: Verdict,
        decision: Decision,
        said: str,
        why: list[str],
    ) -> None:
        publish, run, now = self._publish, RunId(ulid()), time.time()
        publish(CommandAsked(run, now, command.text, command.cwd, caller))
        publish(CommandJudged(run, now, command.text, verdict, decision))
        publish(HookAnswered(run, now, command.text, said))
        if said == "deny":
            told = "; ".join(why) or "the policy says no"
            publish(CommandRefused(run, now, command.text, DENIED, told))


def hook_answer(client: str, rating: Rating, decision: Decision) -> str:
    """What a hook says. Nothing where the client's own rules should go on: what is not proved
    harmless is not allowed by us, though it may run.
    """
    if decision is Decision.DENY:
        return "deny"
    if decision is Decision.ALLOW:
        return "allow" if rating is Rating.SAFE else ""
    return "ask" if _ASKS[client] else "deny"


def _reasons(verdict: Verdict) -> list[str]:
    strictest = [reason for reason in verdict.reasons if reason.rating is verdict.rating]
    found = foremost(strictest, _REASONS_MAX)[:_REASONS_MAX]
    return list(dict.fromkeys(reason.message for reason in found))
