"""RunOptions and the Requester of a call; with RunDefaults they become RunTerms; run ids (ULID)."""

import signal
from collections.abc import Mapping
from dataclasses import field, fields

from shelltie.approval.broker import Channel
from shelltie.basics.frozen import frozen
from shelltie.basics.ids import ulid
from shelltie.limits.experience import Experience, proposed
from shelltie.limits.policy import TimeoutPolicy
from shelltie.limits.resolve import AskedLimits, resolve
from shelltie.model import (
    UNLIMITED,
    Adaptive,
    Caller,
    Command,
    Escalation,
    EscalationStep,
    Limits,
    Resources,
    RunId,
    Survivors,
)
from shelltie.running.terms import RunTerms
from shelltie.settings.all_settings import AdaptiveSettings, BreakerSettings, LimitSettings


@frozen
class RunDefaults:
    """What holds for every run unless a call says otherwise."""

    shell: tuple[str, ...]
    resources: Resources
    passed: tuple[str, ...]
    survivors: Survivors
    limits: LimitSettings
    adaptive: AdaptiveSettings
    breaker: BreakerSettings


@frozen
class Requester:
    """Who wants a command to run, how they can be asked for a yes, and how many seconds they wait
    for it at most, whatever else is configured.
    """

    caller: Caller = field(default_factory=Caller)
    channel: Channel | None = None
    answer_timeout: float | None = None


@frozen
class RunOptions:
    """What a call may ask beside the command; `None` leaves it to the policy.

    `profile` is whose rules decide whether it may run; `None` is for what was allowed already.
    `Limits` hold as they are, while `AskedLimits` still go through the policy. `own` are variables
    that no caller can change. `isolation` is a level, "auto", or "outside", which asks a person;
    `provider` is a name; where it is isolated, it may write in `workspace`. `one_output`: stderr
    goes where stdout goes, so that both are read in the order in which they were written.
    `commands` is a descriptor that a shell reads its commands from, `stdin_from` one that is its
    input in place of `stdin`. On `trial` it runs on a copy-on-write view of the workspace, and what
    it changed is applied or discarded afterwards. What `stays` outlives this process.
    `at` is a place of the settings.
    """

    profile: str | None = "run"
    limits: AskedLimits | Limits = field(default_factory=AskedLimits)
    own: Mapping[str, str] = field(default_factory=dict)
    escalation: Escalation | None = None
    survivors: Survivors | None = None
    requester: Requester = field(default_factory=Requester)
    isolation: str | None = None
    provider: str | None = None
    workspace: str | None = None
    one_output: bool = False
    commands: int | None = None
    stdin_from: int | None = None
    trial: bool = False
    stays: bool = False
    at: str | None = None


def terms_for(
    command: Command,
    options: RunOptions,
    experience: Experience,
    policy: TimeoutPolicy,
    defaults: RunDefaults,
) -> RunTerms:
    """By which rules it runs: what the call asks for, else the policy, else our defaults."""
    limits, usual = options.limits, defaults.limits
    idle_evidence = usual.idle_evidence or policy.idle_evidence
    if not isinstance(limits, Limits):
        limits = resolve(policy, command.text, limits)
    if defaults.adaptive.mode is Adaptive.APPLY and experience.usual is not None:
        limits = proposed(limits, experience.usual, policy.max_total)
    return RunTerms(
        limits=limits,
        experience=experience,
        escalation=with_sigkill(options.escalation or policy.escalation or usual.escalation),
        survivors=options.survivors or defaults.survivors,
        warn_lead=policy.warn_lead if usual.warn_lead is None else usual.warn_lead,
        evidence=idle_evidence != "none",
    )


def with_sigkill(escalation: Escalation) -> Escalation:
    """With SIGKILL as its last step, whatever else was configured."""
    if escalation[-1].signal == signal.SIGKILL:
        return escalation
    return (*escalation, EscalationStep(signal.SIGKILL, 2.0))


def merge_resources(asked: Resources, usual: Resources) -> Resources:
    """What a call asks for, and what is usual where it says nothing."""
    if asked is UNLIMITED or asked == UNLIMITED:
        return usual
    names = [f.name for f in fields(Resources)]
    both = {name: (getattr(asked, name), getattr(usual, name)) for name in names}
    return Resources(**{name: b if a is None else a for name, (a, b) in both.items()})


def new_run_id() -> RunId:
    """A ULID, so that ids sort by time."""
    return RunId(ulid())
