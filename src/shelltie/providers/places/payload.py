"""Payload of a place: the keeper that is copied there (upload by digest), and how it starts.

The C keeper where ours is static and for the far processor, else the Python keepers in one file,
for Python 3.9 or newer. Everything on the far side is done by `sh`: the scripts here find a
directory of mode 0700, put the program there once, and start it. What they print begins with MARK,
for the start-up files of an account may print, too.
"""

import hashlib
import io
import secrets
import shlex
import zipfile
from collections.abc import Iterator
from functools import cache

from shelltie.basics.frozen import frozen
from shelltie.errors import CannotStart
from shelltie.keeper.binaries import BINARY, PYTHON_FILES, KeeperKind

MARK = "shelltie:"
BRIDGE = "--bridge"  # and the keeper's directory: stdin and stdout to its socket
# Places for it, until one is ours alone and programs may run there. Not XDG_RUNTIME_DIR, which
# goes when the last login does; the home comes late, as NFS has no sockets.
_FIND = r"""
may_run() { # not where file systems are mounted with noexec
  printf '#!/bin/sh\nexit 0\n' >"$1" && chmod 700 "$1" && "$1" 2>/dev/null
  set -- $? "$1"
  rm -f "$2"
  return $1
}
umask 077
for top in "${TMPDIR:-/tmp}" /tmp /var/tmp "$HOME/.cache" "$HOME"; do
  place=$top/shelltie-$(id -u)
  mkdir -m 700 "$place" 2>/dev/null
  if [ ! -L "$place" ] && [ -d "$place" ] && [ -O "$place" ] && [ -w "$place" ] &&
    [ "$(ls -ld "$place" | cut -c1-10)" = drwx------ ] && may_run "$place/try.$$"; then break; fi
  place=
done
[ -n "$place" ] || { echo "MARKfailed no directory there that is this user's alone: /tmp, /var/tmp\
 and the home are not writable, or may run no programs"; exit 3; }
"""
_LOOK = r"""
python=
for one in python3 python3.14 python3.13 python3.12 python3.11 python3.10 python3.9; do
  # Its own path: a shim of pyenv before it would take a lock each time.
  [ -n "$python" ] || python=$($one -I -S -c \
    'import sys; sys.exit(1) if sys.version_info < (3, 9) else print(sys.executable)' 2>/dev/null)
done
echo "MARKmachine $(uname -s) $(uname -m)"
echo "MARKpython $python"
echo "MARKplace $place"
ls -p "$place" | sed 's/^/MARKhas /'
"""
# It is complete, and runs, before it has its name.
_PUT = r"""
fresh=$place/$NAME.$$
trap 'rm -f "$fresh"' EXIT
cat >"$fresh" || { echo "MARKfailed no room for the keeper in $place"; exit 4; }
chmod 700 "$fresh"
said=$($RUN "$fresh" --version 2>&1) || {
  echo "MARKfailed the keeper does not run there: $said"; exit 5; }
mv -f "$fresh" "$place/$NAME" && echo "MARKput"
"""
_TOKEN = 48
# The token comes on stdin: whoever lists processes does not see it.
_LAUNCH = r"""
dir=$place/$KEEPER
mkdir -m 700 "$dir" || { echo "MARKfailed no directory $dir"; exit 4; }
head -c TOKEN >"$dir/token"
said=$(cd / && $RUN "$place/$NAME" --stay "$dir" - $LEASE 2>&1 </dev/null) || {
  rm -rf "$dir"; echo "MARKfailed the keeper does not start there: $said"; exit 5; }
echo "MARKstays $dir"
"""
# SIGTERM has a keeper end everything it holds, and remove its directory.
_REMOVE = r"""
dir=$place/$KEEPER
[ -d "$dir" ] || exit 0
pids=$(grep -lzxF -e "$dir" /proc/[0-9]*/cmdline 2>/dev/null | tr -dc '0-9\n')
if [ -n "$pids" ]; then
  kill $pids 2>/dev/null
  for turn in 1 2 3 4 5 6 7 8 9 10; do [ -d "$dir" ] || exit 0; sleep 0.$turn; done
fi
rm -rf "$dir"
"""


@frozen
class Payload:
    """A keeper program: what it is called there, what it is, and what runs it (`python3 -I -S`)."""

    name: str
    content: bytes
    runner: tuple[str, ...] = ()

    def argv(self, place: str) -> tuple[str, ...]:
        """How it is started when it lies in that directory there."""
        return (*self.runner, f"{place}/{self.name}")


@frozen
class FarMachine:
    """What a look there has found: `uname`, a Python, our directory, and what lies in it."""

    system: str
    machine: str
    python: str
    place: str
    payloads: frozenset[str]
    keepers: frozenset[str]


def payload_for(machine: str, python: str = "", wanted: str = "auto") -> Payload:
    """The keeper for a far side that says it is a `machine` (`Linux x86_64`), and has that Python.

    Raises: CannotStart if there is none that would run there.
    """
    system, _, processor = machine.partition(" ")
    binaries = _static_binaries() if system == "Linux" and wanted != KeeperKind.PYTHON else {}
    if processor in binaries:
        return Payload(_named("c", binaries[processor]), binaries[processor])
    if wanted != KeeperKind.C and python:
        return Payload(_named("py", _bundle()), _bundle(), (python, "-I", "-S"))
    have = ", ".join(sorted(binaries)) or "none"
    raise CannotStart(
        f"there is no keeper for {machine or 'that machine'}: the C program is here for {have}, and"
        " the one in Python needs Python 3.9 or newer there: install python3, or say what is"
        " there with `keeper`"
    )


def look_script() -> str:
    """Prints what `read_machine` reads."""
    return _marked(_FIND + _LOOK)


def put_script(payload: Payload, place: str) -> str:
    """Reads the program on stdin, and puts it in place once it runs; prints `put`."""
    return _marked(_settings(place, payload) + _PUT)


def launch_script(payload: Payload, place: str, keeper: str, lease: float) -> str:
    """Starts a keeper of that name, its token on stdin; prints `stays` and its directory."""
    own = f"KEEPER={keeper}\nLEASE={round(lease * 1000)}\n"
    return _marked(_settings(place, payload) + own + _LAUNCH)


def remove_script(place: str, keeper: str) -> str:
    """Ends a keeper, with all it holds, and removes what it left."""
    return _marked(_settings(place) + f"KEEPER={keeper}\n" + _REMOVE)


def new_token() -> str:
    """What whoever connects to a keeper shows; `launch_script` reads so many bytes."""
    return secrets.token_hex(_TOKEN // 2)


def told(output: str, word: str) -> Iterator[str]:
    """What the scripts said with that word, each time.

    Raises: CannotStart for what failed there.
    """
    for line in output.splitlines():
        _, mark, said = line.partition(MARK)
        name, _, rest = said.partition(" ")
        if mark and name == "failed":
            raise CannotStart(rest)
        if mark and name == word:
            yield rest


def read_machine(output: str) -> FarMachine:
    """What the look has found.

    Raises: CannotStart, also where nothing of it was said.
    """
    machine, place = next(told(output, "machine"), ""), next(told(output, "place"), "")
    if not machine or not place:
        raise CannotStart(f"the other side has no shell that can be used: it says {output[:200]!r}")
    system, _, processor = machine.partition(" ")
    python = next(told(output, "python"), "")
    names = tuple(told(output, "has"))
    keepers = frozenset(name[:-1] for name in names if name.endswith("/"))
    return FarMachine(system, processor, python, place, frozenset(names), keepers)


def _settings(place: str, payload: Payload | None = None) -> str:
    found = f"umask 077\nplace={shlex.quote(place)}\n"
    if payload is None:
        return found
    return f"{found}NAME={payload.name}\nRUN={shlex.quote(' '.join(payload.runner))}\n"


def _marked(script: str) -> str:
    # A python3 that is a script of bash's (pyenv) would run and print what BASH_ENV names.
    script = f"unset BASH_ENV ENV\n{script}"
    return script.replace("MARK", MARK).replace("TOKEN", str(_TOKEN))


def _named(kind: str, content: bytes) -> str:
    return f"keeper-{kind}-{hashlib.sha256(content).hexdigest()[:16]}"


@cache
def _bundle() -> bytes:
    """The Python keepers in one file that Python runs (zipapp), the same bytes each time."""
    whole = io.BytesIO()
    with zipfile.ZipFile(whole, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, path in PYTHON_FILES.items():
            entry = zipfile.ZipInfo(name)
            entry.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(entry, path.read_bytes())
    return whole.getvalue()


_MACHINES = {  # e_machine of ELF, and what `uname -m` says
    3: ("i386", "i586", "i686"),
    22: ("s390x",),
    40: ("armv6l", "armv7l"),
    62: ("x86_64",),
    183: ("aarch64",),
    243: ("riscv64",),
}
_PT_INTERP = 3


@cache
def _static_binaries() -> dict[str, bytes]:
    """The C keepers that we have, by what `uname -m` says where they run.

    Ours, and those that lie beside it as `shelltie-keeper-aarch64`. One that needs a loader is
    none of them: what it would be linked to there is not known.
    """
    found: dict[str, bytes] = {}
    for path in (*sorted(BINARY.parent.glob(f"{BINARY.name}-*")), BINARY):
        content = path.read_bytes() if path.is_file() else b""
        for machine in _machines(content):
            found[machine] = content
    return found


def _machines(elf: bytes) -> tuple[str, ...]:
    if elf[:4] != b"\x7fELF" or len(elf) < 64:
        return ()
    wide, order = elf[4] == 2, "little" if elf[5] == 1 else "big"

    def number(at: int, size: int) -> int:
        return int.from_bytes(elf[at : at + size], order)  # type: ignore[arg-type]

    start, size, count = (
        (number(32, 8), number(54, 2), number(56, 2))
        if wide
        else (number(28, 4), number(42, 2), number(44, 2))
    )
    if any(number(start + size * i, 4) == _PT_INTERP for i in range(count)):
        return ()
    return _MACHINES.get(number(18, 2), ())
