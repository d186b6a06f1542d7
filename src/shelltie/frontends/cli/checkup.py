"""Diagnostics of `shelltie doctor`: the machine, keeper, policy, settings and clients."""

import errno
import platform
import resource
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path

import anyio

from shelltie.approval.always import Approved
from shelltie.assemble import assemble
from shelltie.assemble_parts import policy_file, shell_of
from shelltie.basics.times import human_duration
from shelltie.basics.visible_text import brief
from shelltie.environment import child
from shelltie.errors import ConfigWrong, NotSetUp, TerminalError
from shelltie.frontends.cli.client_checkup import clients
from shelltie.frontends.cli.finding import BAD, GOOD, POOR, UNUSED, Finding
from shelltie.keeper.stay_folder import StayFolder, stay_folder, staying_runs
from shelltie.limits.policy_file import SHIPPED_FILE
from shelltie.limits.resolve import AskedLimits
from shelltie.model import Caller, Command, RunId, State
from shelltie.providers.local import LocalProvider
from shelltie.providers.provider import Provider
from shelltie.record import anchor
from shelltie.record.queries import tail
from shelltie.running.login_path import LoginPath
from shelltie.running.options import Requester, RunOptions
from shelltie.running.staying_note import StayingNote
from shelltie.running.supervisor import Supervisor
from shelltie.settings import paths, trust
from shelltie.settings.config import Config
from shelltie.settings.layers import load

_FEW_DESCRIPTORS = 1024  # a command takes three while it runs
_FEW_PIDS = 200
_FAR_WITHIN = 40.0  # seconds, for a place on another machine
_SHOWN = 60  # characters of a command
_WRITTEN = 64 * 1024  # bytes, to see whether there is room
_FIX = "fix it; shelltie refuses to run anything until then"


async def examine() -> list[Finding]:
    """Everything, in the order in which people read it."""
    wrong = None
    try:
        config = load(paths.here())
    except ConfigWrong as error:
        config, wrong = Config(), str(error)
    return [
        *_machine(config),
        *(() if paths.is_deleted() else await _keeper(config)),
        *_staying(config),
        *_policy(config),
        *settings_of(config, wrong),
        *await _clients(config),
    ]


def _machine(config: Config) -> Iterator[Finding]:
    found = partial(Finding, "machine")
    yield found("python", GOOD, f"{platform.python_version()} at {sys.executable}")
    yield _platform(found)
    if paths.is_deleted():
        text = f"{paths.here()}: nothing can be started in it"
        yield found("directory", BAD, text, "cd to another one")
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    few = hard != resource.RLIM_INFINITY and hard < _FEW_DESCRIPTORS
    remedy = "raise it: ulimit -Hn 4096" if few else None
    yield found("descriptors", POOR if few else GOOD, f"{soft}, at most {hard}", remedy)
    yield _pids(found)
    shell = shell_of(config)[0]
    there = shutil.which(shell) is not None
    remedy = None if there else "set shell to one that exists"
    yield found("shell", GOOD if there else BAD, shell, remedy)


def _platform(found: Callable[..., Finding]) -> Finding:
    name = f"{platform.system()} {platform.release()}, {platform.machine()}"
    match platform.system():
        case "Linux":
            return found("platform", GOOD, name)
        case "Darwin":
            return found("platform", POOR, name, "no subreapers here: processes may hide")
        case _:
            return found("platform", BAD, name, "use Linux, or WSL on Windows")


def _pids(found: Callable[..., Finding]) -> Finding:
    """The kernel counts against several limits; the tightest is the one that hurts."""
    used = sum(1 for _ in Path("/proc").glob("[0-9]*"))
    rooms = [(limit - count, name) for name, limit, count in _pid_limits(used)]
    if not rooms:
        return found("free pids", GOOD, "no limit found")
    room, name = min(rooms)
    few = room < _FEW_PIDS
    remedy = "end something, or raise it" if few else None
    return found("free pids", POOR if few else GOOD, f"{room} ({name})", remedy)


def _pid_limits(used: int) -> Iterator[tuple[str, int, int]]:
    soft, _ = resource.getrlimit(resource.RLIMIT_NPROC)
    if soft != resource.RLIM_INFINITY:
        yield "ulimit -u", soft, used
    with suppress(OSError, ValueError):
        yield "kernel.pid_max", int(_word("/proc/sys/kernel/pid_max")), used
    with suppress(OSError, ValueError):  # "max", and other cgroup versions, are no number
        group = _word("/proc/self/cgroup").rpartition("::")[2]
        place = f"/sys/fs/cgroup{group}"
        yield (
            "cgroup pids.max",
            int(_word(f"{place}/pids.max")),
            int(_word(f"{place}/pids.current")),
        )


def _word(path: str) -> str:
    return Path(path).read_text(encoding="utf-8").strip()


async def _keeper(config: Config) -> list[Finding]:
    """Not whether it should work: whether it does. Nothing of it is recorded."""
    probes = config.changed("audit.enabled", False).changed("place.demand", ())
    try:
        async with assemble(probes, policy_file(config, paths.here())) as supervisor:
            return [
                _kind(supervisor),
                await _real_command(supervisor),
                await _hidden_process(supervisor),
                await _login_path(supervisor),
                *[await _place(supervisor, one) for one in supervisor.placement.providers.values()],
                await _view(supervisor),
                await _trial(supervisor),
                *await _far_places(supervisor),
            ]
    except TerminalError as error:
        return [Finding("keeper", "keeper", BAD, str(error), "reinstall shelltie")]


async def _far_places(supervisor: Supervisor) -> list[Finding]:
    """Whether each place can be reached, all at once: one that does not answer takes a while."""
    found: dict[str, Finding] = {}

    async def look(name: str) -> None:
        found[name] = await _far_place(supervisor, name)

    async with anyio.create_task_group() as tasks:
        for name in supervisor.placement.places:
            tasks.start_soon(look, name)
    return [found[name] for name in supervisor.placement.places]


async def _far_place(supervisor: Supervisor, name: str) -> Finding:
    found = partial(Finding, "places", name)
    try:
        with anyio.fail_after(_FAR_WITHIN):
            run = await supervisor.run(Command("true"), replace(_short_limits(), at=name))
            keepers = await supervisor.placement.places[name].made.keepers()
    except (TerminalError, TimeoutError) as error:
        told = str(error) or f"no answer within {human_duration(_FAR_WITHIN)}"
        return found(BAD, told, f"commands at {name} are refused until then")
    assert run.outcome is not None
    if not run.outcome.ok:
        return found(BAD, f"`true` did not run there: {run.outcome.error or run.outcome.state}")
    took, others = human_duration(run.outcome.duration), len(keepers) - 1
    more = f"; {others} keepers of other servers" if others > 0 else ""
    return found(GOOD, f"reached, `true` took {took}{more}")


def _staying(config: Config) -> Iterator[Finding]:
    """What outlives its program; whoever looks can end it."""
    for run in sorted(staying_runs(config)):
        text = "runs, and nothing is known of it"
        with suppress(OSError, ValueError):  # it begins or ends just now
            note = StayingNote.of_bytes(StayFolder(stay_folder(config)).about(run))
            age = human_duration(max(0.0, time.time() - note.began))
            text = f"{brief(note.command, _SHOWN)} in {note.cwd}, for {age}"
        yield Finding("staying", run, GOOD, text, f"to end it: shelltie kill {run}")


def _kind(supervisor: Supervisor) -> Finding:
    provider = supervisor.placement.default
    kind = provider.kind if isinstance(provider, LocalProvider) else provider.name
    if kind == "c":
        return Finding("keeper", "keeper", GOOD, "the C program is in use")
    remedy = "install a C compiler, then shelltie again; or unset the setting keeper"
    return Finding("keeper", "keeper", POOR, "the slower one in Python is in use", remedy)


async def _real_command(supervisor: Supervisor) -> Finding:
    run = await supervisor.run(Command("echo ready"), _short_limits())
    said = run.output.view(None, 100, 0).head
    assert run.outcome is not None
    if said == b"ready\n" and run.outcome.ok:
        took = human_duration(run.outcome.duration)
        return Finding("keeper", "real command", GOOD, f"test command finished in {took}")
    text = run.outcome.error or f"{run.outcome.state}, said {said!r}"
    return Finding("keeper", "real command", BAD, text, "try the shell by itself")


async def _hidden_process(supervisor: Supervisor) -> Finding:
    """A grandchild whose parent is gone stays ours only through a subreaper."""
    text = "(sleep 60 >/dev/null 2>&1 &); exit 0"
    run = await supervisor.run(Command(text), _short_limits())
    outcome = run.outcome
    assert outcome is not None
    if outcome.state is State.FINISHED and outcome.survivors and not outcome.leaked:
        return Finding("keeper", "subreaper", GOOD, "an orphan was found and ended")
    remedy = "processes that hide may survive: use Linux, outside of such a sandbox"
    return Finding("keeper", "subreaper", BAD, "an orphan was lost", remedy)


async def _place(supervisor: Supervisor, provider: Provider) -> Finding:
    """Whether something runs there: in a directory that nobody needs."""
    found = partial(Finding, "isolation", provider.name)
    with tempfile.TemporaryDirectory() as workspace:
        try:
            await provider.ready(workspace)
            wish = replace(_short_limits(), provider=provider.name, workspace=workspace)
            run = await supervisor.run(Command("true", cwd=workspace), wish)
        except NotSetUp as error:
            return found(UNUSED, str(error))
        except TerminalError as error:
            return found(POOR, str(error), "without it, isolation is refused")
    assert run.outcome is not None
    if not run.outcome.ok:
        text = f"`true` did not run: {run.outcome.error or run.outcome.state}"
        return found(POOR, text, "try the shell there")
    return found(GOOD, f"isolation {provider.isolation}: works")


async def _view(supervisor: Supervisor) -> Finding:
    """Whether what is rated safe is made safe."""
    found, views = partial(Finding, "isolation", "read-only view"), supervisor.placement.views
    if views is None:
        return found(UNUSED, "safety.enforce is off: safe is only a judgement")
    try:
        await views.enter(frozenset(), "/")
    except TerminalError as error:
        remedy = "what is rated safe runs as you: install bubblewrap, or mend this"
        return found(POOR, f"safe is only a judgement here: {error}", remedy)
    return found(GOOD, "what is rated safe can change nothing")


async def _trial(supervisor: Supervisor) -> Finding:
    """Whether a copy-on-write view can be had: one is mounted, and nothing is left of it."""
    found, trials = partial(Finding, "isolation", "trial"), supervisor.trials
    if trials is None:
        return found(UNUSED, "there are no sandboxes here")
    who = Requester(Caller(client="shelltie doctor"))
    with tempfile.TemporaryDirectory() as workspace:
        try:
            made = await trials.open(
                RunId("doctor"), Command("true"), workspace, who, by_rule=False
            )
            await trials.abandon(made)
        except NotSetUp as error:
            return found(UNUSED, str(error))
        except TerminalError as error:
            return found(POOR, str(error), "without it, nothing runs on trial")
    return found(GOOD, "changes can be kept apart: shelltie run --trial")


async def _login_path(supervisor: Supervisor) -> Finding:
    probe = LoginPath()
    probe.ask(supervisor.start_internal)
    await probe.wait()
    if probe.path is None:
        remedy = "find what its profile waits for"
        return Finding("keeper", "login PATH", POOR, probe.source, remedy)
    known = child.inherited().get("PATH", "").split(":")
    more = [part for part in probe.path.split(":") if part not in known]
    what = "directory" if len(more) == 1 else "directories"
    added = f"adds {len(more)} {what} to ours" if more else "adds nothing to ours"
    return Finding("keeper", "login PATH", GOOD, f"PATH of {probe.source} {added}")


def _short_limits() -> RunOptions:
    return RunOptions(profile=None, limits=AskedLimits(total=10.0))


def _policy(config: Config) -> Iterator[Finding]:
    file = policy_file(config, paths.here())
    loaded = file.status == "loaded"
    remedy = None if loaded else "fix it: shelltie policy check"
    name = "the one that shelltie comes with" if file.origin == str(SHIPPED_FILE) else file.origin
    yield Finding("policy", "file", GOOD if loaded else POOR, f"{name}: {file.status}", remedy)
    for problem in file.problems if loaded else ():
        yield Finding("policy", "problem", POOR, problem, "fix it: shelltie policy check")


def settings_of(config: Config, wrong: str | None = None) -> Iterator[Finding]:
    """Where settings are, what is wrong with them, and whether what they name can be used."""
    found = partial(Finding, "settings")
    project = paths.project_file(paths.here())
    files = {
        "system": paths.system_file(),
        "user": paths.user_file(),
        "project": project,
    }
    for name, path in files.items():
        if wrong and wrong.startswith(f"{path}: "):
            yield found(name, BAD, wrong, _FIX)
        elif path.exists():
            yield found(name, GOOD, str(path))
        else:
            yield found(name, UNUSED, f"no {path}")
    if wrong and not any(wrong.startswith(f"{path}: ") for path in files.values()):
        yield found("wrong", BAD, wrong, _FIX)
    for ignored in config.ignored:
        yield found("ignored", POOR, ignored, "move it to your own file, or remove it")
    yield from _decisions()
    yield _state_directory(Path(config.state.dir))
    yield from _journal(config)


def _decisions() -> Iterator[Finding]:
    """What stands in the files of a person's decisions that nobody decided."""
    approved = Approved(paths.approved_file())
    if approved.problem:
        yield Finding("settings", "approved", POOR, approved.problem)
    store = paths.trust_file()
    try:
        foreign = [str(one.project) for one in trust.listed(store) if not one.ours]
    except ConfigWrong as error:
        yield Finding("settings", "trusted", POOR, f"{error}; nothing is trusted by it")
        return
    if foreign:
        text = f"{store} was changed, and not by shelltie: {', '.join(foreign)} does not count"
        yield Finding("settings", "trusted", POOR, text, "shelltie trust DIR, or delete the entry")


def _state_directory(place: Path) -> Finding:
    """Really written to, or to the first directory above that exists."""
    there = place
    try:
        while not _is_there(there):
            there = there.parent
        with tempfile.TemporaryFile(dir=there) as file:
            file.write(bytes(_WRITTEN))  # a full disk still has room for a name
            file.flush()
    except OSError as error:
        text = f"{place} cannot be written: {error.strerror}"
        full = error.errno in (errno.ENOSPC, errno.EDQUOT)
        remedy = "make room there" if full else "set state.dir to one that can"
        return Finding("settings", "state", BAD, text, remedy)
    return Finding("settings", "state", GOOD, f"{place} can be written")


def _is_there(path: Path) -> bool:
    """Raises: OSError if it can never be, as with links in a circle or a file above it."""
    try:
        path.stat()
    except FileNotFoundError:
        return False
    return True


def _journal(config: Config) -> Iterator[Finding]:
    found = partial(Finding, "settings", "journal")
    if not config.audit.enabled:
        yield found(POOR, "switched off", "shelltie config set audit.enabled true")
        return
    try:
        if _is_there(config.journal):
            last = tail(config.journal, 1)
            count = last[0].entry.seq if last else 0
            yield found(GOOD, f"{config.journal}, {count} entries so far")
        else:
            yield found(UNUSED, f"no {config.journal} yet")
    except (TerminalError, OSError) as error:
        yield found(BAD, str(error), "see docs/operations.md")
    if config.audit.anchor is not None:
        yield _anchor(Path(config.audit.anchor))


def _anchor(path: Path) -> Finding:
    try:
        anchor.check(path)
    except OSError as error:
        text, remedy = f"{path}: {error.strerror}", "set audit.anchor to a file that can be written"
        return Finding("settings", "anchor", BAD, text, remedy)
    return Finding("settings", "anchor", GOOD, f"{path} can be written")


async def _clients(config: Config) -> list[Finding]:
    if paths.is_deleted():
        return [finding async for finding in clients(None)]
    probes = config.changed("audit.enabled", False)
    try:
        async with assemble(probes, policy_file(config, paths.here())) as supervisor:
            return [finding async for finding in clients(supervisor)]
    except TerminalError:
        return [finding async for finding in clients(None)]
