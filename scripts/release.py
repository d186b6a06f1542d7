"""Builds and checks the sdist and the wheels of a release; `scripts/release` gives it its tools.

The keeper is linked statically, so it needs no C library of the system: the same wheel is for glibc
and for musl. Whether it is static, stripped and for the right machine is read from its ELF header
before the wheel is tagged so.
"""

import argparse
import hashlib
import os
import shutil
import struct
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
KEEPER = Path("src/shelltie/keeper/shelltie-keeper")
XTERM = Path("shelltie/frontends/web/xterm/xterm.mjs")
_INTERPRETER, _SYMBOLS = 3, 2  # PT_INTERP, SHT_SYMTAB


@dataclass(frozen=True)
class Machine:
    """A kind of computer that wheels are built for."""

    name: str
    elf: int  # e_machine
    compiler: str
    emulator: str

    @property
    def platforms(self) -> str:
        """Tags of systems that run a static program: glibc 2.17 and newer, musl 1.1 and newer."""
        tags = (f"manylinux_2_17_{self.name}", f"manylinux2014_{self.name}")
        return ".".join((*tags, f"musllinux_1_1_{self.name}"))


MACHINES = (
    Machine("x86_64", 62, "x86_64-linux-gnu-gcc", "qemu-x86_64"),
    Machine("aarch64", 183, "aarch64-linux-gnu-gcc", "qemu-aarch64"),
)


@dataclass(frozen=True)
class Elf:
    """What the header of a program says."""

    machine: int
    is_static: bool
    is_stripped: bool


def read_elf(data: bytes) -> Elf:
    """The header of a 64-bit little-endian program.

    Raises: ValueError if it is none.
    """
    if data[:6] != b"\x7fELF\x02\x01":
        raise ValueError("no 64-bit little-endian ELF program")
    (machine,) = struct.unpack_from("<H", data, 18)
    programs, sections = struct.unpack_from("<QQ", data, 32)
    program_size, programs_count, section_size, sections_count = struct.unpack_from("<4H", data, 54)
    kinds = _first_words(data, programs, program_size, programs_count, 0)
    types = _first_words(data, sections, section_size, sections_count, 4)
    return Elf(machine, _INTERPRETER not in kinds, _SYMBOLS not in types)


def _first_words(data: bytes, start: int, size: int, count: int, at: int) -> set[int]:
    return {struct.unpack_from("<I", data, start + size * n + at)[0] for n in range(count)}


def problems(elf: Elf, machine: Machine) -> Iterator[str]:
    """Why a wheel with this keeper must not have the tags of that machine."""
    if elf.machine != machine.elf:
        yield f"it is for machine {elf.machine}, not for {machine.name}"
    if not elf.is_static:
        yield "it needs the C library of the system it was built on: link it statically"
    if not elf.is_stripped:
        yield "it carries symbols"


def run(words: Sequence[str | Path], cwd: Path, **env: str) -> str:
    """Run a program that must succeed; what it printed."""
    done = subprocess.run(
        [str(word) for word in words],
        cwd=cwd,
        env={**os.environ, **env},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        sys.exit(f"{' '.join(map(str, words))} failed:\n{done.stdout}")
    return done.stdout


def compiler_for(machine: Machine) -> str | None:
    """The system's own compiler on such a machine, elsewhere a cross compiler."""
    if os.uname().machine == machine.name:
        return shutil.which("cc")
    return shutil.which(machine.compiler)


def build_keeper(source: Path, machine: Machine, compiler: str) -> bytes:
    """The keeper for that machine, in its place in the source; it is what it must be."""
    build = "import hatch_build, sys; sys.exit(hatch_build.compile_keeper('-static'))"
    run([sys.executable, "-c", build], source, CC=f"{compiler} -s")
    content = (source / KEEPER).read_bytes()
    found = [*problems(read_elf(content), machine)]
    if found:
        sys.exit(f"the keeper for {machine.name} cannot be released: {'; '.join(found)}")
    return content


def build_wheel(source: Path, machine: Machine, keeper: bytes, dist: Path) -> Path:
    """A wheel for that machine, with exactly this keeper in it."""
    with tempfile.TemporaryDirectory() as name:
        place = Path(name)
        run([sys.executable, "-m", "build", "--wheel", "--outdir", place, source], place)
        (built,) = place.glob("*.whl")
        run([sys.executable, "-m", "wheel", "unpack", built], place)
        built.unlink()
        (folder,) = place.glob("shelltie-*")
        if not (folder / XTERM).exists():
            sys.exit("the wheel has no xterm.js: npm is out of reach")
        inside = folder / KEEPER.relative_to("src")
        inside.write_bytes(keeper)
        inside.chmod(0o755)
        run([sys.executable, "-m", "wheel", "pack", folder], place)
        (packed,) = place.glob("*.whl")
        tags = ["--python-tag", "py3", "--abi-tag", "none", "--platform-tag", machine.platforms]
        run([sys.executable, "-m", "wheel", "tags", "--remove", *tags, packed], place)
        (tagged,) = place.glob("*.whl")
        return Path(shutil.move(tagged, dist / tagged.name))


def use(file: Path, place: Path) -> str:
    """Install it into a bare environment, and use it there; the keeper in use must be the C one."""
    run([sys.executable, "-m", "venv", place / "venv"], place)
    run([place / "venv/bin/python", "-m", "pip", "install", "-qq", file], place)
    home = {
        "HOME": str(place),
        **dict.fromkeys(("XDG_CONFIG_HOME", "XDG_STATE_HOME", "XDG_RUNTIME_DIR"), ""),
    }
    shelltie = place / "venv/bin/shelltie"
    run([shelltie, "doctor"], place, **home)
    said = run([shelltie, "run", "--", "echo $((6 * 7))"], place, SHELLTIE_KEEPER="c", **home)
    if said != "42\n":
        sys.exit(f"{file.name}: a command printed {said!r}")
    return "installed; doctor and a command run"


def try_keeper(machine: Machine, keeper: Path) -> str:
    """Under an emulator, where one is: a machine of that kind has the last word."""
    emulator = shutil.which(machine.emulator) or shutil.which(f"{machine.emulator}-static")
    if emulator is None:
        return f"header read; not run: no {machine.emulator} here"
    return (
        f"not installed; keeper runs under {machine.emulator}: "
        + run([emulator, keeper, "--version"], keeper.parent).strip()
    )


def main(argv: Sequence[str] | None = None) -> int:
    """Build, check, use; a line for each file."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--dist", type=Path, default=ROOT / "dist", help="where to (dist)")
    parser.add_argument("--commit", default="HEAD", help="what is released (HEAD)")
    args = parser.parse_args(argv)
    dist: Path = args.dist.resolve()
    shutil.rmtree(dist, ignore_errors=True)
    dist.mkdir(parents=True)
    results: dict[Path, str] = {}
    with tempfile.TemporaryDirectory() as name:
        place = Path(name)
        source = _checkout(args.commit, place)
        run([sys.executable, "-m", "build", "--sdist", "--outdir", dist, source], place)
        (sdist,) = dist.glob("*.tar.gz")
        results[sdist] = use(sdist, _folder(place, "use-sdist"))
        for machine in MACHINES:
            results |= _build_for(machine, source, dist, place)
    run([sys.executable, "-m", "twine", "check", "--strict", *results], dist)
    for file, result in results.items():
        digest = hashlib.sha256(file.read_bytes()).hexdigest()
        print(f"{file.name}\n  {file.stat().st_size} bytes, sha256 {digest}\n  {result}")
    return 0


def _checkout(commit: str, place: Path) -> Path:
    """The files of a commit: nothing that lies about gets in."""
    archive, source = place / "source.tar", _folder(place, "source")
    run(["git", "archive", "--output", archive, commit], ROOT)
    with tarfile.open(archive) as files:
        files.extractall(source, filter="data")
    return source


def _folder(place: Path, name: str) -> Path:
    made = place / name
    made.mkdir()
    return made


def _build_for(machine: Machine, source: Path, dist: Path, place: Path) -> dict[Path, str]:
    compiler = compiler_for(machine)
    if compiler is None:
        print(f"no wheel for {machine.name}: there is no {machine.compiler}")
        return {}
    keeper = build_keeper(source, machine, compiler)
    copy = place / f"keeper-{machine.name}"
    copy.write_bytes(keeper)
    copy.chmod(0o755)
    wheel = build_wheel(source, machine, keeper, dist)
    if os.uname().machine == machine.name:
        return {wheel: use(wheel, _folder(place, f"use-{machine.name}"))}
    return {wheel: try_keeper(machine, copy)}


if __name__ == "__main__":
    sys.exit(main())
