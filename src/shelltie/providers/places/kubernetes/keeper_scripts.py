"""Shell scripts that run in a pod: its own process, and what puts the keeper there. Pure.

A pod has a volume of its own at PLACE, which works where the image is read-only. The keeper's
directory in it says everything: while it is there the pod goes on, and the keeper removes it when
its lease is over or it is told to finish. So a pod ends without anybody's help.
"""

from shelltie.errors import CannotStart
from shelltie.providers.places.payload import BRIDGE, MARK, Payload, payload_for, told

PLACE = "/.shelltie"
NO_KEEPER = 4  # what a bridge exits with where nobody listens
_DIRECTORY = f"{PLACE}/keeper"

# PID 1 of the pod. Its arguments: for how many seconds it waits for a keeper.
# `sleep & wait`, because a shell runs its trap only after what it has in the foreground.
_WATCH = f"""
trap 'exit 0' TERM INT
turns=0
until [ -d {_DIRECTORY} ]; do
  turns=$((turns + 1))
  [ $turns -le $1 ] || exit 0
  sleep 1 & wait $!
done
while [ -d {_DIRECTORY} ]; do sleep 1 & wait $!; done
"""

# Says what machine it is on, and is then sent a line with the token, the size and the name of the
# program and what runs it; then the program. Not as arguments: they are in the API server's log.
# `head -c`, because exec cannot close stdin everywhere.
_PUT = f"""
umask 077
fail() {{ rm -rf {_DIRECTORY}; echo "{MARK}failed $*"; exit 1; }}
mkdir {_DIRECTORY} || fail "{PLACE} is not writable"
python=
for one in python3 python3.14 python3.13 python3.12 python3.11 python3.10 python3.9; do
  if [ -z "$python" ] && command -v $one >/dev/null 2>&1 &&
    $one -I -S -c 'import sys; sys.exit(sys.version_info < (3, 9))' 2>/dev/null
  then python=$(command -v $one); fi
done
echo "{MARK}python $python"
echo "{MARK}machine $(uname -s) $(uname -m)"
IFS=' ' read -r token size name run || fail "the connection broke"
head -c "$size" >"{PLACE}/$name"
[ "$(wc -c <"{PLACE}/$name")" -eq "$size" ] || fail "no room for the keeper in {PLACE}"
chmod 700 "{PLACE}/$name"
printf %s "$token" >{_DIRECTORY}/token
echo "cd / && exec $run {PLACE}/$name {BRIDGE} {_DIRECTORY}" >{PLACE}/bridge
said=$(cd / && $run "{PLACE}/$name" --stay {_DIRECTORY} - $1 2>&1 </dev/null) ||
  fail "the keeper does not start: $said"
echo "{MARK}stays"
"""


def watch_command(patience: float) -> list[str]:
    """What a pod runs: waits so many seconds for a keeper, and then for its end."""
    return ["sh", "-c", _WATCH, "sh", str(round(patience))]


def put_command(lease: float) -> list[str]:
    """What puts a keeper into it and starts it; `put_reply` says what it is sent."""
    return ["sh", "-c", _PUT, "sh", str(round(lease * 1000))]


def bridge_command() -> list[str]:
    """What carries a stream to the keeper."""
    return ["sh", f"{PLACE}/bridge"]


def put_reply(output: str, token: str) -> bytes:
    """What `put_command` is sent once it has said where it is; empty before.

    Raises: CannotStart, if there is no keeper for that machine.
    """
    if f"{MARK}machine" not in output or not output.endswith("\n"):
        return b""
    machine, python = next(told(output, "machine")), next(told(output, "python"), "")
    payload: Payload = payload_for(machine, python)
    words = (token, str(len(payload.content)), payload.name, *payload.runner)
    return f"{' '.join(words)}\n".encode() + payload.content


def put_complaint(output: str, complaints: str) -> str:
    """Why it did not come to stay; empty if it did."""
    try:
        if any(True for _ in told(output, "stays")):
            return ""
    except CannotStart as error:
        return str(error)
    return complaints.strip() or "the connection broke"
