"""Config → a running Supervisor."""

import resource
import signal
from contextlib import suppress
from pathlib import Path

from shelltie.config import Config
from shelltie.events import Event, Publish
from shelltie.model import EscalationStep, Resources, RunId, Survivors
from shelltie.output.spool import Spool
from shelltie.output.store import Store
from shelltie.policy.load import PolicyFile, find
from shelltie.providers.local import LocalProvider
from shelltie.running.login_path import LoginPath
from shelltie.running.supervisor import Habits, Supervisor

# The newest stay; older output leaves the disk when a supervisor starts.
_KEEP_SPOOLS = 200
_KEEP_BYTES = 1024 * 1024 * 1024


def ignore(event: Event) -> None:
    """Nobody watches."""


def policy_file(config: Config, project: Path) -> PolicyFile:
    """The timeout policy in force."""
    return find(project, Path(config.policy_path) if config.policy_path else None)


def shell_of(config: Config) -> tuple[str, ...]:
    """The shell for texts, without anybody's start-up files."""
    shell = config.shell or next(
        (path for path in ("/bin/bash", "/usr/bin/bash") if Path(path).exists()), "/bin/sh"
    )
    return (shell, "--noprofile", "--norc") if Path(shell).name == "bash" else (shell,)


def assemble(
    config: Config,
    policy: PolicyFile,
    publish: Publish = ignore,
    *,
    serves: bool = False,
) -> Supervisor:
    """Everything put together; call it where the event loop runs.

    A process that `serves` may be started by a desktop and holds many commands: it asks the login
    shell for its PATH and takes all the descriptors it may have.
    """
    spools = Path(config.state_dir) / "output"
    _sweep(spools)
    resources = _resources(config, serves=serves)
    habits = Habits(
        shell=shell_of(config),
        escalation=(
            EscalationStep(signal.SIGTERM, config.grace),
            EscalationStep(signal.SIGKILL, 2.0),
        ),
        survivors=Survivors(config.survivors),
        warn_lead=config.warn_lead,
        idle_evidence=config.idle_evidence,
        resources=resources,
    )

    def new_output(run: RunId) -> Store:
        threshold = min(config.shown, config.kept_head + config.kept_tail)
        spool = Spool(spools / f"{run}.log", cap=config.spool_cap, threshold=threshold)
        return Store(head=config.kept_head, tail=config.kept_tail, spool=spool)

    wants_login = config.path == "login" or (config.path == "auto" and serves)
    return Supervisor(
        habits,
        LocalProvider(None if config.keeper == "auto" else config.keeper),
        policy.current,
        new_output,
        publish,
        LoginPath() if wants_login else None,
    )


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
    )


def _sweep(spools: Path) -> None:
    """Keep the newest files only. Their names are ids, which sort by time."""
    kept = 0
    with suppress(OSError):
        for place, path in enumerate(sorted(spools.glob("*.log"), reverse=True)):
            kept += path.stat().st_size
            if place >= _KEEP_SPOOLS or kept > _KEEP_BYTES:
                path.unlink(missing_ok=True)
