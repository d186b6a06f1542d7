"""Dry run of a command: verdict, decision and limits, as a server would have them; nothing runs."""

from functools import cache
from pathlib import Path

from shelltie.approval.decision import decide_by_profile
from shelltie.assemble_parts import judge_of, policy_file, profiles
from shelltie.basics.frozen import frozen
from shelltie.basics.json_codec import as_json
from shelltie.basics.worker_threads import Threads, WorkerThreads
from shelltie.frontends.reports.verdict_report import (
    UsualReport,
    limits_report,
    reasons_report,
    usual_report,
)
from shelltie.limits.experience import Experience, proposed
from shelltie.limits.resolve import AskedLimits, resolve
from shelltie.model import Adaptive, Command, Limits, Sample
from shelltie.record.history import last, project_of
from shelltie.running.command_check import check_command
from shelltie.settings.config import Config
from shelltie.shell.shape import shape
from shelltie.verdict import Decision, Verdict


@frozen
class DryRunAnswer:
    """What would happen to a command, and why."""

    command: str
    verdict: Verdict
    decision: Decision
    key: str  # of the profile, that decided
    limits: Limits
    usual: UsualReport | None

    def to_json(self) -> dict[str, object]:
        """For programs."""
        usual = {} if self.usual is None else {"usual": as_json(self.usual)}
        return {
            "command": self.command,
            "verdict": str(self.verdict.rating),
            "decision": str(self.decision),
            "reasons": [as_json(reason) for reason in reasons_report(self.verdict)],
            "limits": as_json(limits_report(self.limits)),
            **usual,
        }


class _Learned:
    """What earlier runs say, as a server would use it."""

    def __init__(self, config: Config, place: Path, threads: Threads) -> None:
        self._threads = threads
        self._place = str(place)
        self._mode = Adaptive(config.adaptive.mode)
        self._least = config.adaptive.min_samples
        self._journal = config.journal if config.audit.enabled else None
        self._samples = cache(self._read)

    def _read(self, kind: str) -> tuple[str, list[Sample]]:
        project = project_of(self._place)
        return project, [] if self._journal is None else last(self._journal, kind, project)

    async def limits(
        self, text: str, limits: Limits, most: float | None
    ) -> tuple[Limits, UsualReport | None]:
        """The limits that would hold, and what is usual for such a command, if that is known."""
        kind = "" if self._mode is Adaptive.OFF else shape(text)
        if not kind:
            return limits, None
        project, samples = await self._threads.run(self._samples, kind)
        known = Experience(kind, project, samples, self._least).usual
        if known is None:
            return limits, None
        better = proposed(limits, known, most)
        held = better if self._mode is Adaptive.APPLY else limits
        return held, usual_report(known, held, better)


class DryRun:
    """Everything that decides about a command in a directory, and nothing that runs one."""

    def __init__(
        self,
        config: Config,
        place: Path,
        profile: str = "run",
        threads: Threads | None = None,
    ) -> None:
        threads = threads or WorkerThreads()
        self._judge = judge_of(config, place, threads=threads)
        self._profile = profiles(config)[profile]
        self._place = str(place)
        self._workspace = config.sandbox.workspace or str(place)
        self._policy = policy_file(config, place).current()
        self._learned = _Learned(config, place, threads)

    async def one(self, text: str) -> DryRunAnswer:
        """What would happen to it.

        Raises: InvalidParameters.
        """
        command = Command(text)
        check_command(command)
        verdict = await self._judge.judge(command)
        limits = resolve(self._policy, text, AskedLimits())
        limits, usual = await self._learned.limits(text, limits, self._policy.max_total)
        decision = decide_by_profile(self._profile, text, verdict, self._place, self._workspace)
        stricter = decision is not self._profile.for_rating(verdict.rating)
        key = "irreversible" if stricter else str(verdict.rating)
        return DryRunAnswer(text, verdict, decision, key, limits, usual)
