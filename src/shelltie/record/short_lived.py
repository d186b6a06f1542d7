"""Journal of a short-lived program: a few events, written in its own thread before it leaves.

It has the same entries and does the same house keeping as `journal`, without an event loop.
"""

from collections.abc import Iterable, Mapping
from functools import partial
from pathlib import Path

from shelltie.environment import child
from shelltie.events import Event
from shelltie.keeper.stay_folder import staying_runs
from shelltie.record.facts import FactMaker
from shelltie.record.writer import Terms, Writer
from shelltie.settings.config import Config

_LEAVING = 3.0  # seconds to wait for others who write


def terms_of(config: Config) -> tuple[Terms, Mapping[str, str]]:
    """Where and how this process records, and the secrets that no record may have."""
    environ = child.inherited()
    inside, staying = environ.get(child.RUN_MARK), partial(staying_runs, config)
    spools = Path(config.state.dir) / "output"
    terms = Terms(config.journal, spools, config.audit, inside, staying)
    return terms, child.sift(environ, config.environment.passed).secrets


def record(config: Config, events: Iterable[Event]) -> str | None:
    """Put these on record, if anything is; or say why that cannot be done. Blocks for seconds."""
    if not config.audit.enabled:
        return None
    terms, secrets = terms_of(config)
    writer, facts = Writer(terms), map(FactMaker(secrets).fact, events)
    writer.take([fact for fact in facts if fact is not None])
    if writer.write(patient=True) is None:
        writer.keep_house()
    return writer.close(_LEAVING)
