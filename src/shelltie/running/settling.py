"""When what a session printed is an answer: the wait rule of sessions. Pure.

Not before `least`; then as soon as nothing was printed for `settle`; at `most` in any case, counted
from the call. A process that has ended is never waited for.
"""

import math

from shelltie.frozen import frozen


@frozen
class Waiting:
    """Seconds. A `most` of 0 answers at once, `None` waits without end; but no wait goes on after
    the moment `until`.
    """

    least: float = 1.0
    settle: float = 2.0
    most: float | None = 30.0
    until: float = math.inf

    def ends(self, called: float) -> float:
        """When a wait that began at `called` is over."""
        return min(math.inf if self.most is None else called + self.most, self.until)


AT_ONCE = Waiting(0.0, 0.0, 0.0)


def answer_at(waiting: Waiting, called: float, printed: float | None, *, ended: bool) -> float:
    """The moment to answer at, if nothing more is printed; a moment that has passed means now.

    `printed` is when the last byte since the call came, `ended` that the process has ended and all
    it printed was read.
    """
    if ended:
        return called
    settled = max(called + waiting.least, printed or called) + waiting.settle
    return min(settled, waiting.ends(called))
