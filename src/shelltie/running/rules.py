"""How a run is watched and ended. Pure."""

import signal
from dataclasses import dataclass

from shelltie.model import Escalation, EscalationStep, Limits, Survivors

# Whoever outlives its command has had its time.
FOR_SURVIVORS: Escalation = (
    EscalationStep(signal.SIGTERM, 0.5),
    EscalationStep(signal.SIGKILL, 2.0),
)


@dataclass(frozen=True, slots=True)
class Rules:
    """How a run is watched and ended."""

    limits: Limits
    escalation: Escalation
    survivors: Survivors = Survivors.KILL
    warn_lead: float = 30.0
    evidence: bool = True
