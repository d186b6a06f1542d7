"""RunTerms: limits, escalation and survivors policy that hold for one run. Pure."""

import signal
from dataclasses import field

from shelltie.basics.frozen import frozen
from shelltie.limits.experience import Experience
from shelltie.model import Escalation, EscalationStep, Limits, Survivors

DRAIN_QUIET = 0.2  # how long a pipe that somebody still holds must be silent to count as read
DRAIN_MAX = 2.0
SHOT_WAIT = 1.0  # for the keeper to sweep after a leash that had to be shot
HANG_UP = EscalationStep(signal.SIGHUP, 0.5)  # then whoever ignores that, too, is ended as usual
# Whoever outlives its command has had its time.
FOR_SURVIVORS: Escalation = (
    EscalationStep(signal.SIGTERM, 0.5),
    EscalationStep(signal.SIGKILL, 2.0),
)


@frozen
class RunTerms:
    """What holds for one run, and what is known of others like it."""

    limits: Limits
    escalation: Escalation
    survivors: Survivors = Survivors.KILL
    warn_lead: float = 30.0
    evidence: bool = True
    experience: Experience = field(default_factory=Experience)
