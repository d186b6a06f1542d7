"""Dependency injection: builds a running Supervisor from a Config."""

import asyncio
import os
import resource
import signal
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path

import anyio

from shelltie.approval.always import Approved
from shelltie.approval.broker import Broker
from shelltie.environment import child
from shelltie.errors import ConfigWrong
from shelltie.events import Publish
from shelltie.keeper.hardening import hide_this_process
from shelltie.limits.policy_file import PolicyFile, find
from shelltie.model import Adaptive, Command, EscalationStep, Resources, RunId, Survivors
from shelltie.output.spool_folder import Spools
from shelltie.output.store import Store
from shelltie.providers.bubblewrap.mounts import SandboxPolicy
from shelltie.providers.bubblewrap.provider import BubblewrapProvider
from shelltie.providers.container.mounts import ContainerPolicy
from shelltie.providers.container.provider import ContainerProvider
from shelltie.providers.local import LocalProvider
from shelltie.providers.provider import Provider
from shelltie.record.history import History
from shelltie.record.journal import Journal
from shelltie.record.queries import largest_session_number
from shelltie.record.retention import Retention
from shelltie.record.writer import Terms
from shelltie.running.admission import Admission, Decisions, Patience
from shelltie.running.login_path import LoginPath
from shelltie.running.options import RunDefaults
from shelltie.running.placement import Demands, Placement
from shelltie.running.ports import Bus, OutputFactory
from shelltie.running.supervisor import Supervisor
from shelltie.safety.judge import Judge, find_shfmt
from shelltie.safety.name_lists import lists_of
from shelltie.safety.rating import RatingMode
from shelltie.safety.rule_examples import open_rules
from shelltie.safety.rule_set import RuleFile
from shelltie.sessions.id_counter import SessionNumbers
from shelltie.settings import paths as whereabouts
from shelltie.settings import trust
from shelltie.settings.config import Config
from shelltie.shell import shape
from shelltie.telemetry.alerts import Alerts, Measured, Thresholds
from shelltie.telemetry.metrics import Metrics
from shelltie.verdict import Decision, Rating


def policy_file(config: Config, project: Path) -> PolicyFile:
    """The timeout policy in force."""
    return find(project, Path(config.policy_path) if config.policy_path else None)


def shell_of(config: Config) -> tuple[str, ...]:
    """The shell for texts, without anybody's start-up files."""
    shell = config.shell or next(
        (path for path in ("/bin/bash", "/usr/bin/bash") if Path(path).exists()), "/bin/sh"
    )
    return (shell, "--noprofile", "--norc") if Path(shell).name == "bash" else (shell,)


def profiles(config: Config) -> dict[str, Decisions]:
    """What follows from each rating: for one-shot commands, for sessions, for agents of editors."""
    return {
        "run": _decisions(config.run_unknown, config.run_dangerous),
        "session": _decisions(config.session_unknown, config.session_dangerous),
        "acp": _decisions(config.acp_unknown, config.acp_dangerous),
    }


def _decisions(unknown: str, dangerous: str) -> Decisions:
    return {
        Rating.SAFE: Decision.ALLOW,
        Rating.UNKNOWN: Decision(unknown),
        Rating.DANGEROUS: Decision(dangerous),
    }


def demands(config: Config) -> dict[str, Demands]:
    """Where a command of each rating must run, by profile."""
    return {
        "run": _levels(config.run_safe_in, config.run_unknown_in, config.run_dangerous_in),
        "session": _levels(
            config.session_safe_in, config.session_unknown_in, config.session_dangerous_in
        ),
        "acp": _levels(config.acp_safe_in, config.acp_unknown_in, config.acp_dangerous_in),
    }


def _levels(safe: str, unknown: str, dangerous: str) -> Demands:
    return {Rating.SAFE: safe, Rating.UNKNOWN: unknown, Rating.DANGEROUS: dangerous}


async def session_numbers(config: Config) -> SessionNumbers:
    """Numbers for the sessions of all servers that keep their state here."""
    look = partial(largest_session_number, config.journal)
    used = await anyio.to_thread.run_sync(look)
    return SessionNumbers(Path(config.state_dir) / "session-numbers", used, look)


def _providers(config: Config) -> tuple[Provider, ...]:
    keeper = None if config.keeper == "auto" else config.keeper
    return (
        LocalProvider(keeper),
        BubblewrapProvider(sandbox_policy(config), keeper),
        ContainerProvider(container_policy(config)),
    )


def sandbox_policy(config: Config) -> SandboxPolicy:
    """What holds in every sandbox, by the settings."""
    environ = child.inherited()
    return SandboxPolicy(
        home=Path(os.path.realpath(whereabouts.home_dir(environ))),
        network=config.sandbox_network,
        writable=_real(config.sandbox_writable),
        readable=_real(config.sandbox_readable),
        hidden=_own_places(config, environ),
        own=_own_code(),
        path=environ.get("PATH", ""),
        idle=config.sandbox_idle,
        tmp_size=config.sandbox_tmp,
        bwrap=config.sandbox_bwrap or "",
    )


def container_policy(config: Config) -> ContainerPolicy:
    """What holds in every container, by the settings."""
    environ = child.inherited()
    return ContainerPolicy(
        home=Path(os.path.realpath(whereabouts.home_dir(environ))),
        image=config.container_image or "",
        engines=(config.container_engine,) if config.container_engine else engines(environ),
        user=config.container_user or "",
        network=config.container_network,
        mounts=config.container_mounts,
        memory=config.container_memory,
        cpus=config.container_cpus,
        processes=config.container_processes,
        hidden=_own_places(config, environ),
        own=_own_code(),
        outside=environ,
        passed=config.passed,
        shell=shell_of(config)[0],
        idle=config.sandbox_idle,
        tmp_size=config.sandbox_tmp,
    )


def engines(environ: Mapping[str, str]) -> tuple[str, ...]:
    """Where the socket of a container engine may be: one that is named, a user's own, root's."""
    named = environ.get("DOCKER_HOST") or environ.get("CONTAINER_HOST")
    if named:
        return (named,)
    own = whereabouts.user_runtime_dir(environ)
    root = ("/var/run/docker.sock", "/run/podman/podman.sock")
    return (f"{own}/docker.sock", f"{own}/podman/podman.sock", *root)


def _own_places(config: Config, environ: Mapping[str, str]) -> tuple[Path, ...]:
    return _real(
        (
            config.state_dir,
            str(whereabouts.state_dir(environ)),
            str(whereabouts.user_file(environ).parent),
            *map(str, whereabouts.runtime_dirs(environ)),
            *map(str, whereabouts.usual_runtime_dirs(environ)),  # of other servers
        )
    )


def _own_code() -> tuple[Path, ...]:
    """What runs as shelltie: its package, and the environment with all that it imports."""
    package = os.path.dirname(os.path.realpath(__file__))  # noqa: PTH120  of a text
    return Path(package), Path(os.path.realpath(sys.prefix))


def _real(paths: Sequence[str]) -> tuple[Path, ...]:
    return tuple(Path(os.path.realpath(Path(path).expanduser())) for path in paths if path)


def judge_of(config: Config, project: Path) -> Judge:
    """Who rates commands here.

    Raises: ConfigWrong if a rule file or a pattern of the user's cannot be used.
    """
    mode: RatingMode = "listed" if config.rating == "listed" else "proven"
    try:
        lists = lists_of(config.safe_commands, config.dangerous_commands)
    except ValueError as error:
        raise ConfigWrong(f"safety.safeCommands or safety.dangerousCommands: {error}") from error
    return Judge(
        open_rules(_rule_files(project)),
        mode=mode,
        lists=lists,
        path=child.inherited().get("PATH", ""),
        shell=shell_of(config)[0],
        shfmt=find_shfmt(),
    )


def _rule_files(project: Path) -> list[RuleFile]:
    """The user's own, and the project's, which only tighten until the project is trusted."""
    own = [RuleFile(path) for path in sorted(whereabouts.rules_dir().glob("*.toml"))]
    snapshot = trust.look(project)
    tight = not trust.is_trusted(snapshot, whereabouts.trust_file())
    return [
        *own,
        *(
            RuleFile(snapshot.project / name, tighten_only=tight)
            for name in sorted(snapshot.files)
            if name.startswith(f"{trust.RULES}/rules/") and name.endswith(".toml")
        ),
    ]


def assemble(
    config: Config,
    policy: PolicyFile,
    publish: Publish | None = None,
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
    spools = Path(config.state_dir) / "output"
    habits = _habits(config, _resources(config, serves=serves))
    bus = Bus()
    journal = _journal(config, spools, bus) if config.audit_enabled else None
    if publish is not None:
        bus.subscribe(publish)
    history = _history(config, habits, bus)
    metrics = Metrics(config.shown)
    bus.subscribe(metrics.hear)
    _trace(bus)
    alerts = _alerts(config, metrics, bus)
    wants_login = config.path == "login" or (config.path == "auto" and serves)
    supervisor = Supervisor(
        defaults=habits,
        admission=_admission(config, providers, bus),
        policy=policy.current,
        new_output=_outputs(config, spools),
        bus=bus,
        login_path=LoginPath() if wants_login else None,
        record=journal,
        measures=Measured(metrics, alerts),
        memory=history,
    )
    bus.subscribe(alerts.hear)  # last: whoever is told of an alert has heard what led to it
    if config.alerts_command is not None:
        alerts.notify = partial(_notify, supervisor, config.alerts_command)
    return supervisor


def _habits(config: Config, resources: Resources) -> RunDefaults:
    return RunDefaults(
        shell=shell_of(config),
        escalation=(
            EscalationStep(signal.SIGTERM, config.grace),
            EscalationStep(signal.SIGKILL, 2.0),
        ),
        survivors=Survivors(config.survivors),
        warn_lead=config.warn_lead,
        idle_evidence=config.idle_evidence,
        resources=resources,
        passed=config.passed,
        adaptive=Adaptive(config.adaptive),
        min_samples=config.min_samples,
        failures=config.breaker_failures,
        pause=config.breaker_pause,
    )


def _outputs(config: Config, folder: Path) -> OutputFactory:
    # The loop waits for its threads when it is closed.
    aside = partial(asyncio.get_running_loop().run_in_executor, None)
    spools = Spools(folder, config.spool_cap, aside)

    def new_output(run: RunId, *, stays: bool) -> Store:
        # A session may be read after a crash, so all of it is in its file from the first byte on.
        whole = stays or config.keep == "all"
        shown = min(config.shown, config.crop_output)  # by `run`, and by `bash`
        threshold = 0 if whole else min(shown, config.kept_head + config.kept_tail)
        spool = spools.new(run, threshold, timed=whole)
        return Store(head=config.kept_head, tail=config.kept_tail, spool=spool)

    return new_output


def _admission(config: Config, providers: Sequence[Provider], bus: Bus) -> Admission:
    approved = Approved(whereabouts.approved_file())
    placement = Placement(
        (*_providers(config), *providers),
        demands(config),
        workspace=config.workspace or str(whereabouts.here()),
        instead_of_asking=config.unasked == "isolate",
    )
    return Admission(
        judge=judge_of(config, whereabouts.here()),
        profiles=profiles(config),
        broker=Broker(approved, approve_unknown_on_timeout=config.on_timeout == "approve"),
        placement=placement,
        publish=bus.publish,
        patience=Patience(config.unknown_wait, config.dangerous_wait),
    )


def _history(config: Config, habits: RunDefaults, bus: Bus) -> History | None:
    if habits.adaptive is Adaptive.OFF:
        return None
    history = History(config.journal if config.audit_enabled else None)
    bus.subscribe(history.hear)
    return history


def _trace(bus: Bus) -> None:
    if "opentelemetry.sdk.trace" in sys.modules:
        # Whoever wants spans has loaded the SDK. Others do not pay 40 ms for the import.
        from shelltie.telemetry.spans import Spans

        bus.subscribe(Spans(shape.program).hear)


def _alerts(config: Config, metrics: Metrics, bus: Bus) -> Alerts:
    thresholds = Thresholds(
        config.alert_sessions,
        config.alert_success,
        config.alert_violations,
        config.alert_duration,
        config.alert_truncated,
    )
    return Alerts(metrics, thresholds, config.alerts, bus.publish)


def _notify(supervisor: Supervisor, command: str, said: bytes) -> RunId | None:
    """Start somebody's own command with what happened as its input."""
    run = supervisor.start_internal(Command(command, stdin=said))
    return run.id if run.outcome is None else None


def _journal(config: Config, spools: Path, bus: Bus) -> Journal:
    """It hears of everything, and before anybody else."""
    environ = child.inherited()
    journal = Journal(
        Terms(
            config.journal,
            spools,
            required=config.audit_required,
            retention=Retention(config.audit_days, config.audit_size),
            anchor=Path(config.audit_anchor) if config.audit_anchor else None,
            inside=environ.get(child.RUN_MARK),
        ),
        child.sift(environ, config.passed).secrets,
        bus.publish,
    )
    bus.subscribe(journal.publish)
    return journal


def _resources(config: Config, *, serves: bool) -> Resources:
    """The limits for commands. They get the soft limit of descriptors that we were given."""
    open_files = config.open_files
    if serves:
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        with suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
            open_files = soft if open_files is None and soft != hard else open_files
    return Resources(
        open_files=open_files,
        core=config.core,
        processes=config.processes,
        address_space=config.address_space,
        cpu_seconds=config.cpu_seconds,
        memory=config.memory,
        tasks=config.tasks,
        cpus=config.cpus,
    )
