"""`shelltie ps`: every run and session of every running server."""

import sys
from argparse import Namespace

from shelltie.basics import visible_text
from shelltie.basics.times import human_duration, human_size
from shelltie.frontends.cli import past_output
from shelltie.frontends.cli.find_run import FoundRun, as_json, list_runs, names
from shelltie.frontends.cli.terminal import print_error, print_json, table, width
from shelltie.model import State

_CLIENT_MAX = 10
_COMMAND_MIN = 12
_HEAD = ("ID", "SERVER", "CLIENT", "STATE", "TIME", "IDLE", "OUTPUT", "COMMAND")
_CLIENT = _HEAD.index("CLIENT")
_STATES = {State.CREATED: "starting", State.TIMED_OUT: "timeout", State.SPAWN_FAILED: "failed"}


def main(args: Namespace) -> int:
    """Print them."""
    servers, found, told = list_runs(look=True)
    gone = past_output.lost()
    for problem in told:
        print_error(problem)
    if args.json:
        print_json([*map(as_json, found), *map(past_output.as_json, gone)])
        return 0
    if found:
        show(found)
        _tell_ports(found)
        if any(one.listed.waiting_for_input for one in found):
            print("\nwaiting: for input; answer with shelltie send ID TEXT.", file=sys.stderr)
    else:
        count = f"{len(servers)} server{'s' * (len(servers) != 1)}" if servers else "no server"
        print(f"Nothing runs; {count} running.")
    past_output.tell(gone)
    return 0


def _tell_ports(found: list[FoundRun]) -> None:
    """Where what sandboxed sessions listen on can be reached."""
    ports = [(name, one.listed.ports) for one, name in zip(found, names(found), strict=True)]
    lines = [f"{name}: {visible_text.inline(port)}" for name, here in ports for port in here]
    if lines:
        print("\n".join(["\nPorts, inside → outside:", *lines]))


def show(found: list[FoundRun]) -> None:
    """Print them as a table."""
    rows = [_HEAD, *(_row(one, name) for one, name in zip(found, names(found), strict=True))]
    if not any(one.server.client for one in found):  # nobody said who they are
        rows = [row[:_CLIENT] + row[_CLIENT + 1 :] for row in rows]
    columns = list(zip(*rows, strict=True))[:-1]
    taken = sum(max(map(visible_text.cells, column)) + 2 for column in columns)
    room = max(width() - taken, _COMMAND_MIN)
    table([rows[0], *((*row[:-1], visible_text.brief(row[-1], room)) for row in rows[1:])])


def _row(found: FoundRun, name: str) -> tuple[str, ...]:
    one = found.listed
    return (
        name,
        str(found.server.pid),
        visible_text.brief(found.server.client or "-", _CLIENT_MAX),
        _state(found),
        human_duration(one.elapsed_seconds).split()[0],
        "-" if one.ended else human_duration(one.idle_seconds).split()[0],
        human_size(one.output_bytes).replace(" ", ""),
        one.command,
    )


def _state(found: FoundRun) -> str:
    one = found.listed
    if one.left:
        return "leaving"
    if one.waiting_for_input:
        return "password" if one.password else "waiting"
    if one.state is State.FINISHED and one.exit_code is not None:
        return f"exit {one.exit_code}"
    return _STATES.get(one.state, str(one.state))
