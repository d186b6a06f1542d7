"""`shelltie run --detach`: starts a command that outlives the terminal (nohup); prints its id."""

import sys
from argparse import Namespace

import anyio

from shelltie.basics.json_codec import as_json
from shelltie.basics.pulse import Pulse
from shelltie.basics.times import human_duration
from shelltie.environment import child
from shelltie.errors import CannotStart, InvalidParameters
from shelltie.events import Event, RunEnded, RunStarted
from shelltie.frontends.api import Options, Terminal
from shelltie.frontends.cli.console import Style, marked, print_json
from shelltie.frontends.cli.tty_prompt import TerminalChannel
from shelltie.frontends.reports.verdict_report import limits_report
from shelltie.model import Caller, LimitNames, State
from shelltie.running.run import Run


def run_detached(
    args: Namespace, command: str | list[str], options: Options, names: LimitNames
) -> int:
    """Start it, say what it is called, and leave it to its keeper.

    Raises: TerminalError; then nothing was started.
    """
    if wrong := [
        name for name in ("stdin", "trial", "isolation", "provider", "at") if vars(args)[name]
    ]:
        raise InvalidParameters(
            f"--detach does not go with --{wrong[0]}: it runs here, without isolation, and takes"
            " its input from shelltie send and attach"
        )
    if child.inherited().get(child.RUN_MARK):
        raise InvalidParameters(
            "--detach: this is itself run by shelltie, and whatever it starts ends with it"
        )
    run = anyio.run(_start, command, options, names)
    limits = run.rules.limits
    if args.json:
        told = {"status": "running", "id": run.id, "runId": run.id, "pid": run.pid}
        print_json({**told, "command": run.command.text, "limits": as_json(limits_report(limits))})
        return 0
    print(run.id)
    ends = "" if limits.total is None else f"; it is ended after {human_duration(limits.total)}"
    follow = f"it goes on without this terminal{ends}: shelltie logs -f, send, attach or kill ID"
    print(marked(Style(sys.stderr, args.color), "·", follow, before="shelltie: "), file=sys.stderr)
    return 0


async def _start(command: str | list[str], options: Options, names: LimitNames) -> Run:
    begun, turn = set[str](), Pulse()

    def publish(event: Event) -> None:
        if isinstance(event, RunStarted | RunEnded):
            begun.add(event.run)
            turn.beat()

    caller = Caller(client="shelltie run")
    async with Terminal(publish=publish, caller=caller, limit_names=names) as terminal:
        terminal.supervisor.admission.broker.add(TerminalChannel())
        run = await terminal.start(command, stays=True, **options)
        while run.id not in begun:
            await turn.wait()
        if run.outcome is not None and run.outcome.state is State.SPAWN_FAILED:
            raise CannotStart(str(run.outcome.error), run.outcome.exit.number or 0)
        return run
