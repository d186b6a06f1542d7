"""Hook requests over the control socket: the verdict about a command of an agent's own shell tool.

The agent runs such a command itself. Here it is judged by the settings of the directory that it
runs in, and put on record with what the agent is told. A server that would read other settings than
the hook itself does not answer it, nor does one that a command of ours started.
"""

import time
from collections import OrderedDict
from collections.abc import Mapping
from pathlib import Path

import anyio.to_thread

from shelltie.approval.decision import decide_by_profile
from shelltie.assemble_parts import judge_of, profiles
from shelltie.basics.validate import text
from shelltie.environment import child
from shelltie.errors import InvalidParameters, parameter
from shelltie.events import CommandAsked, CommandJudged, CommandRefused, HookAnswered
from shelltie.frontends.control.line_format import MessageFields
from shelltie.frontends.control.peer import Peer
from shelltie.frontends.control.server import Perform
from shelltie.model import Caller, Command
from shelltie.running.options import new_run_id
from shelltie.running.supervisor import Supervisor
from shelltie.safety.judge import Judge
from shelltie.settings import paths
from shelltie.settings.config import Config
from shelltie.settings.layers import from_environment, load
from shelltie.verdict import Decision, Rating, Verdict, foremost

_REASONS_MAX = 3
_JUDGES_MAX = 16
DENIED = "HOOK_DENIED"
# Which clients have a person asked when a hook says so. Codex runs what is to be asked about, and
# Gemini CLI hangs: there it is denied, with the reason.
_ASKS = {"claude": True, "cursor": True, "codex": False, "gemini": False}


def commands(supervisor: Supervisor) -> dict[str, Perform]:
    """What the socket can do about them."""
    judges = HookJudge(supervisor)

    async def hook(_: Peer, given: MessageFields) -> MessageFields:
        _must_see_our_settings(given.get("environ"))
        return await judges.answer(given)

    return {"hook": hook}


def _must_see_our_settings(environ: object) -> None:
    """Refuse a hook whose own variables lead to other settings than ours do.

    Raises: InvalidParameters, ConfigWrong.
    """
    ours = child.inherited()
    if child.RUN_MARK in ours:
        raise InvalidParameters("a server that a command started answers no hooks")
    theirs = environ if isinstance(environ, dict) else {}
    if _settings_seen({str(k): str(v) for k, v in theirs.items()}) != _settings_seen(ours):
        raise InvalidParameters("this server has other settings")


def _settings_seen(environ: Mapping[str, str]) -> list[object]:
    """What of the environment decides about a verdict; `hook_program` sends it."""
    places = [find(environ) for find in (paths.home_dir, paths.user_file, paths.state_dir)]
    return [environ.get("PATH"), *places, *from_environment(environ)]


class HookJudge:
    """Answers the hooks of agents, and records each command that they are about to run."""

    def __init__(self, supervisor: Supervisor) -> None:
        self._supervisor = supervisor
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
        config, judge = await anyio.to_thread.run_sync(self._judge_in, cwd)
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
            known = config, judge_of(config, Path(cwd))
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
        publish, run, now = self._supervisor.bus.publish, new_run_id(), time.time()
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
