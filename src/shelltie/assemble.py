"""Dependency injection: builds a running Supervisor from a Config.

What a process may never use is imported when it is used.
"""

import asyncio
import resource
import shutil
import sys
import time
from collections import deque
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

from shelltie.approval.always import Approved
from shelltie.approval.broker import Broker
from shelltie.approval.kind_rules import KindRules
from shelltie.approval.notice import (
    end_notice_argv,
    end_notice_json,
    notice_argv,
    notice_json,
)
from shelltie.approval.question import Question
from shelltie.assemble_parts import judge_of, keeper_of, profiles, shell_of
from shelltie.basics.frozen import fields, replace
from shelltie.environment import child
from shelltie.errors import CannotStart, NotSetUp, TerminalError
from shelltie.events import Event, Leaked, LimitReached, Publish
from shelltie.keeper.hardening import hide_this_process
from shelltie.keeper.stay_folder import StayFolder, stay_folder
from shelltie.limits.policy_file import PolicyFile
from shelltie.model import Adaptive, Command, Isolation, Resources, RunId, Survivors
from shelltie.output.redact import Redactor
from shelltie.output.short_output import ShortOutputs
from shelltie.output.spool_folder import Spools
from shelltie.output.store import Store
from shelltie.providers.lazy import LazyProvider, LazyViews
from shelltie.providers.local import LocalProvider
from shelltie.providers.places.engine import PlaceEngine
from shelltie.providers.policies import (
    ContainerPolicy,
    SandboxPolicy,
    container_policy,
    sandbox_policy,
)
from shelltie.providers.provider import STAYING, Provider, Views
from shelltie.record.history import History
from shelltie.record.journal import Journal
from shelltie.record.short_lived import terms_of
from shelltie.running.admission import Admission
from shelltie.running.interfaces import Bus, OutputFactory
from shelltie.running.login_path import LoginPath
from shelltie.running.on_trial import AskPerson, LazyTrials
from shelltie.running.options import RunDefaults
from shelltie.running.placement import Demands, Placement
from shelltie.running.supervisor import Supervisor
from shelltie.settings import paths
from shelltie.settings.config import Config
from shelltie.settings.places import KubernetesPlace, Place, RayPlace, SshPlace
from shelltie.shell import shape
from shelltie.telemetry.alerts import Alerts, Measured
from shelltie.telemetry.metrics import Metrics
from shelltie.verdict import Rating

_TOLD_MAX = 100
_QUIET = 10.0  # seconds in which nobody is told again of the same kind of end


def demands(config: Config) -> dict[str, Demands]:
    """Where a command of each rating must run, by profile."""
    section = config.isolation.profiles
    return {
        f.name: {rating: getattr(getattr(section, f.name), rating) for rating in Rating}
        for f in fields(section)
    }


def _providers(config: Config, *, serves: bool) -> tuple[Provider, ...]:
    """Ours. A server imports them at once: it may outlive the files that it was installed from."""
    environ, keeper = child.inherited(), keeper_of(config)
    sandboxes = sandbox_policy(config, environ)
    containers = container_policy(config, environ, shell_of(config)[0])
    local = LocalProvider(keeper, sandboxes.hidden)
    bubblewrap = partial(_bubblewrap, sandboxes, keeper)
    container = partial(_container, containers)
    if serves:
        return local, bubblewrap(), container()
    return (
        local,
        LazyProvider("bubblewrap", Isolation.SANDBOX, bubblewrap),
        LazyProvider("container", Isolation.CONTAINER, container),
    )


def _staying(config: Config) -> Provider:
    from shelltie.providers.staying import StayingProvider

    stay = config.stay
    return StayingProvider(
        StayFolder(stay_folder(config)),
        keeper_of(config),
        lease=stay.lease,
        bound=stay.output,
        most=stay.most,
    )


def _place(config: Config, name: str) -> Provider:
    from shelltie.providers.places.provider import PlaceProvider

    place = config.places[name]
    return PlaceProvider(name, place, _engine(name, place), config.environment.passed)


def _engine(name: str, place: Place) -> PlaceEngine:
    """What an engine needs is an extra. Raises: NotSetUp."""
    try:
        made: PlaceEngine
        match place:
            case SshPlace():
                from shelltie.providers.places.ssh import SshEngine

                made = SshEngine(name, place)
            case KubernetesPlace():
                from shelltie.providers.places.kubernetes.engine import KubernetesEngine

                made = KubernetesEngine(name, place)
            case _:
                from shelltie.providers.places.ray.engine import RayEngine

                assert isinstance(place, RayPlace)
                made = RayEngine(name, place)
    except ImportError as error:
        raise NotSetUp(
            f"{name}: a place of kind {place.kind} needs more: pip install"
            f" 'shelltie[{place.kind}]' ({error})"
        ) from error
    else:
        return made


def _bubblewrap(policy: SandboxPolicy, keeper: str | None) -> Provider:
    from shelltie.providers.bubblewrap.provider import BubblewrapProvider

    return BubblewrapProvider(policy, keeper)


def _container(policy: ContainerPolicy) -> Provider:
    from shelltie.providers.container.provider import ContainerProvider

    return ContainerProvider(policy)


def _read_only_views(config: Config) -> Views:
    if sys.platform != "linux":
        raise CannotStart("a read-only view needs Linux and bubblewrap")
    from shelltie.providers.bubblewrap.read_only_view import ReadOnlyViews

    return ReadOnlyViews(sandbox_policy(config, child.inherited()), keeper_of(config))


def assemble(
    config: Config,
    policy: PolicyFile,
    listener: Publish | None = None,
    *,
    serves: bool = False,
    providers: Sequence[Provider] = (),
) -> Supervisor:
    """Everything put together, with these providers beside ours; call it where the loop runs.

    A process that `serves` may be started by a desktop and holds many commands: it asks the login
    shell for its PATH and takes all the descriptors it may have.
    """
    if serves:
        hide_this_process()
    spools = Path(config.state.dir) / "output"
    resources = _resources(config.resources, serves=serves)
    bus = Bus()
    journal = _journal(config, bus) if config.audit.enabled else None
    if listener is not None:
        bus.subscribe(listener)
    history = _history(config, bus)
    metrics = Metrics(config.output.shown)
    bus.subscribe(metrics.hear, metrics.hears)
    _trace(bus)
    alerts = Alerts(metrics, config.alerts.thresholds, config.alerts.on, bus.publish)
    login = config.environment.path == "login" or (config.environment.path == "auto" and serves)
    supervisor = Supervisor(
        defaults=_run_defaults(config, resources),
        admission=_admission(config, (*_providers(config, serves=serves), *providers), bus),
        policy=policy.current,
        new_output=_outputs(config, spools),
        bus=bus,
        login_path=LoginPath() if login else None,
        record=journal,
        measures=Measured(metrics, alerts),
        memory=history,
    )
    bus.subscribe(
        alerts.hear, alerts.hears
    )  # last: whoever is told of an alert has heard what led to it
    if config.alerts.command is not None:
        alerts.notify = partial(_notify, supervisor, config.alerts.command)
    if serves:
        _notify_person(supervisor, config)
    return supervisor


def _notify_person(supervisor: Supervisor, config: Config) -> None:
    notifier = PersonNotifier(supervisor, config.notify.command)
    if config.notify.waiting:
        supervisor.admission.broker.on_waiting.append(notifier.hear)
    if config.notify.ended:
        supervisor.bus.subscribe(notifier.hear_end, frozenset({LimitReached, Leaked}))


class PersonNotifier:
    """Tells a person that something waits for their yes, of each question once, or was ended."""

    def __init__(self, supervisor: Supervisor, command: str | None) -> None:
        self._supervisor = supervisor
        self._command = command
        environ = child.inherited()
        display = environ.get("DISPLAY") or environ.get("WAYLAND_DISPLAY")
        self._desktop = bool(display) and shutil.which("notify-send") is not None
        bus = environ.get("DBUS_SESSION_BUS_ADDRESS")  # commands do not get it
        self._bus = ("env", f"DBUS_SESSION_BUS_ADDRESS={bus}") if bus else ()
        self._told: deque[str] = deque(maxlen=_TOLD_MAX)
        self._own: deque[RunId] = deque(maxlen=_TOLD_MAX)  # or one that hangs would tell of itself
        self._quiet_until: dict[type, float] = {}

    def hear(self, question: Question) -> None:
        """Start what tells of it; whether that works is nothing that a command waits for."""
        if question.digest in self._told:
            return
        self._told.append(question.digest)
        self._tell(notice_argv(question), notice_json(question))

    def hear_end(self, event: Event) -> None:
        """Tell that a limit ended a command, or that some of it is left; of many at once, once."""
        if not isinstance(event, LimitReached | Leaked) or event.run in self._own:
            return
        now = time.monotonic()
        if now >= self._quiet_until.get(type(event), now):
            self._quiet_until[type(event)] = now + _QUIET
            self._tell(end_notice_argv(event), end_notice_json(event))

    def _tell(self, desktop: tuple[str, ...], said: bytes) -> None:
        commands = []
        if self._desktop:
            commands.append(Command("notify-send", (*self._bus, *desktop)))
        if self._command is not None:
            commands.append(Command(self._command, stdin=said))
        for command in commands:
            with suppress(TerminalError):
                self._own.append(self._supervisor.start_internal(command).id)


def _run_defaults(config: Config, resources: Resources) -> RunDefaults:
    return RunDefaults(
        shell=shell_of(config),
        resources=resources,
        passed=config.environment.passed,
        survivors=config.run.background_survivors,
        limits=config.limits,
        adaptive=config.adaptive,
        breaker=config.breaker,
    )


def _outputs(config: Config, folder: Path) -> OutputFactory:
    # The loop waits for its threads when it is closed.
    aside = partial(asyncio.get_running_loop().run_in_executor, None)
    output = config.output
    spools = Spools(folder, output.spool_cap, aside)
    shown = min(output.shown, config.bash.crop_output)  # by `run`, and by `bash`

    redact = (lambda secrets: Redactor(secrets).text) if output.redact else None
    short = ShortOutputs(folder / "short", aside, redact)

    def new_output(run: RunId, *, stays: bool, outlives: bool, secrets: Mapping[str, str]) -> Store:
        # A session may be read after a crash, so all of it is in its file from the first byte on.
        whole = stays or outlives or output.keep == "all"
        threshold = 0 if whole else min(shown, output.kept_head + output.kept_tail)
        spool = spools.new(run, threshold, timed=whole, outlives=outlives)
        kept = short.new(run, secrets) if output.keep == "recent" and not whole else None
        return Store(head=output.kept_head, tail=output.kept_tail, spool=spool, kept=kept)

    return new_output


def _trials(config: Config, sandboxes: Any, publish: Publish, ask: AskPerson) -> Any:  # noqa: ANN401  as imported here
    from shelltie.running.sandbox_writes import SandboxWrites
    from shelltie.running.trial_runs import Trials
    from shelltie.trials.trial_store import TrialBounds, TrialStore

    kept = config.trial
    bounds = TrialBounds(kept.keep, kept.days * 86400, kept.size)
    store = TrialStore(Path(config.state.dir) / "trials", bounds)
    writes = SandboxWrites(store, sandboxes.enter_overlay, publish)
    return Trials(store, sandboxes.open_trial, publish, ask, kept.deletions, writes)


def _sandbox_writes(config: Config) -> str:
    """What goes on after its command writes to the workspace itself."""
    kept = config.run.background_survivors is not Survivors.KILL
    return "live" if kept else config.sandbox.writes


def _admission(config: Config, providers: Sequence[Provider], bus: Bus) -> Admission:
    approved, enforce = Approved(paths.approved_file()), config.safety.enforce
    sandboxes = next(one for one in providers if one.name == "bubblewrap")
    placement = Placement(
        providers,
        demands(config),
        workspace=config.sandbox.workspace or str(paths.here()),
        instead_of_asking=_isolated_unasked(config),
        # Where what is rated safe runs.
        views=None if enforce == "off" else LazyViews(partial(_read_only_views, config)),
        views_required=enforce == "required",
        sandbox_writes=_sandbox_writes(config),
        yes_lifts_demands=config.isolation.outside,
        staying=LazyProvider(STAYING, Isolation.NONE, partial(_staying, config)),
        places={
            name: LazyProvider(name, place.isolation, partial(_place, config, name))
            for name, place in config.places.items()
        },
        place_rules=config.place,
    )
    return Admission(
        judge=judge_of(config, paths.here(), stays=True),
        profiles=profiles(config),
        broker=Broker(
            approved,
            KindRules(paths.approved_kinds_file()),
            approve_unknown_on_timeout=config.safety.on_timeout == "approve",
            undelivered=config.safety.approval_timeouts.undelivered,
        ),
        placement=placement,
        publish=bus.publish,
        approval_timeouts=config.safety.approval_timeouts,
        trials=LazyTrials(partial(_trials, config, sandboxes, bus.publish)),
    )


def _isolated_unasked(config: Config) -> Collection[str]:
    """The profiles whose unknown commands run isolated where nobody can be asked about them."""
    if config.isolation.unasked != "isolate":
        return ()
    if config.safety.preset == "strict":
        return [f.name for f in fields(config.safety.profiles)]
    return ("bash", "session")


def _history(config: Config, bus: Bus) -> History | None:
    if config.adaptive.mode is Adaptive.OFF:
        return None
    history = History(config.journal if config.audit.enabled else None)
    bus.subscribe(history.hear, history.hears)
    return history


def _trace(bus: Bus) -> None:
    if "opentelemetry.sdk.trace" in sys.modules:
        # Whoever wants spans has loaded the SDK. Others do not pay 40 ms for the import.
        from shelltie.telemetry.spans import Spans

        bus.subscribe(Spans(shape.program).hear)


def _notify(supervisor: Supervisor, command: str, said: bytes) -> RunId | None:
    """Start somebody's own command with what happened as its input."""
    run = supervisor.start_internal(Command(command, stdin=said))
    return run.id if run.outcome is None else None


def _journal(config: Config, bus: Bus) -> Journal:
    """It hears of everything, and before anybody else."""
    terms, secrets = terms_of(config)
    journal = Journal(terms, secrets, bus.publish)
    bus.subscribe(journal.publish)
    return journal


def _resources(asked: Resources, *, serves: bool) -> Resources:
    """The limits for commands. They get the soft limit of descriptors that we were given."""
    open_files = asked.open_files
    if serves:
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        with suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
            open_files = soft if open_files is None and soft != hard else open_files
    return replace(asked, open_files=open_files)
