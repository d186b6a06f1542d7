"""Files of a workspace: no way leads out, nothing hangs, and all of it is on record."""

import json
import os
import socket
import stat
import subprocess
import sys
import tempfile
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import anyio
import pytest
from anyio import fail_after

from shelltie import Caller, FileError, Files, InvalidParameters, Terminal, TreeCopied
from shelltie.events import Event, FilesUsed
from shelltie.model import Isolation
from shelltie.providers.local import LocalProvider
from shelltie.settings.config import Config
from tests.cli import text_of
from tests.conftest import Open

SECRET = "hunter2-hunter2-hunter2"


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A workspace where we are, with something secret beside it; the home is elsewhere."""
    (tmp_path / "home").mkdir()
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    (tmp_path / "outside").write_text(SECRET)
    place = tmp_path / "place"
    place.mkdir()
    monkeypatch.chdir(place)
    return place


@pytest.fixture
async def told() -> list[Event]:
    return []


@pytest.fixture
async def files(place: Path, open_terminal: Open, told: list[Event]) -> AsyncIterator[Files]:
    assert Path.cwd() == place
    async with open_terminal(publish=told.append) as terminal:
        yield terminal.files


def names(place: Path) -> list[str]:
    return sorted(one.name for one in place.iterdir())


def start_python(script: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE)


@contextmanager
def refused(code: str) -> Iterator[None]:
    with pytest.raises(FileError) as error:
        yield
    assert error.value.code == code
    assert SECRET not in str(error.value)
    # Whoever wants an error of Python's own gets the fitting one.
    assert OSError(error.value.errno, "").errno == error.value.errno


async def test_what_is_written_is_read_and_listed(files: Files, place: Path) -> None:
    await files.write("src/main.py", "print('ü')\n")
    await files.write(place / "run.sh", b"#!/bin/sh\n\xff\0", mode=0o755)
    await files.make_directory("empty/inner")

    assert await files.read("src/../src//main.py") == "print('ü')\n".encode()
    assert await files.read(str(place / "run.sh")) == b"#!/bin/sh\n\xff\0"
    entries = [(one.name, str(one.kind), one.size, oct(one.mode)) for one in await files.list()]
    assert [one[:2] for one in entries] == [
        ("empty", "directory"),
        ("run.sh", "file"),
        ("src", "directory"),
    ]
    assert entries[1][2:] == (12, "0o755")
    assert (await files.stat("src/main.py")).size == 12
    assert [one.name for one in await files.list("src")] == ["main.py"]


async def test_a_file_is_replaced_at_once_and_keeps_its_mode(files: Files, place: Path) -> None:
    (place / "old").write_text("old")
    (place / "old").chmod(0o640)
    os.link(place / "old", place / "other name")
    with (place / "old").open() as reader:
        await files.write("old", "new")

        assert reader.read() == "old"  # whole, as it was
    assert (place / "old").read_text() == "new"
    assert stat.S_IMODE((place / "old").stat().st_mode) == 0o640
    assert (place / "other name").read_text() == "old"
    assert names(place) == ["old", "other name"]


@pytest.mark.parametrize(
    ("path", "code"),
    [
        ("nothing", "FILE_NOT_FOUND"),
        ("nothing/below", "FILE_NOT_FOUND"),
        ("nothing/../file", "FILE_NOT_FOUND"),
        ("", "IS_A_DIRECTORY"),
        ("directory", "IS_A_DIRECTORY"),
        ("file/below", "FILE_NOT_FOUND"),
        ("../outside", "OUTSIDE_WORKSPACE"),
        ("directory/../../outside", "OUTSIDE_WORKSPACE"),
        ("/etc/passwd", "OUTSIDE_WORKSPACE"),
        ("/proc/self/environ", "OUTSIDE_WORKSPACE"),
        ("out", "OUTSIDE_WORKSPACE"),
        ("out-by-dots", "OUTSIDE_WORKSPACE"),
        ("through/outside", "OUTSIDE_WORKSPACE"),
        ("magic/environ", "OUTSIDE_WORKSPACE"),
        ("loop", "FILE_ERROR"),
        ("dangling", "FILE_NOT_FOUND"),
        ("pipe", "NOT_A_FILE"),
        ("socket", "NOT_A_FILE"),
        ("x" * 300, "FILE_ERROR"),
        ("large", "FILE_TOO_LARGE"),
        (".env", "FILE_PROTECTED"),
        ("to-env", "FILE_PROTECTED"),
    ],
)
async def test_what_cannot_be_read_is_refused(
    path: str, code: str, files: Files, place: Path, tmp_path: Path
) -> None:
    (place / "file").write_text("x")
    (place / "directory").mkdir()
    (place / "out").symlink_to(tmp_path / "outside")
    (place / "out-by-dots").symlink_to("directory/../../outside")
    (place / "through").symlink_to("..")
    (place / "magic").symlink_to("/proc/self")
    (place / "loop").symlink_to("loop")
    (place / "dangling").symlink_to("nowhere")
    os.mkfifo(place / "pipe")
    listener = socket.socket(socket.AF_UNIX)
    listener.bind("socket")
    with (place / "large").open("wb") as large:
        large.truncate(1024 * 1024)
    (place / ".env").write_text(SECRET)
    (place / "to-env").symlink_to(".env")

    with fail_after(30), refused(code):
        await files.read(path, limit=1024)
    listener.close()


async def test_links_that_stay_inside_are_followed(files: Files, place: Path) -> None:
    (place / "real").mkdir()
    (place / "real" / "file").write_text("old")
    (place / "short").symlink_to("real")
    (place / "long").symlink_to(place / "short" / ".." / "real" / "file")

    await files.write("long", "new")
    await files.write("short/more", "more")

    assert (place / "long").is_symlink()
    assert await files.read("long") == b"new" == (place / "real" / "file").read_bytes()
    assert (place / "real" / "more").read_text() == "more"
    assert str((await files.list())[0].kind) == "link"


@pytest.mark.parametrize(
    "path", ["../new", "out/new", "out", "hanging", "/tmp/shelltie-new", "a/../../new"]
)
async def test_nothing_is_written_outside(
    path: str, files: Files, place: Path, tmp_path: Path
) -> None:
    (tmp_path / "elsewhere").mkdir()
    (place / "a").mkdir()
    (place / "out").symlink_to(tmp_path / "elsewhere")
    (place / "hanging").symlink_to(tmp_path / "elsewhere" / "new")

    for act in (
        files.write(path, "x"),
        files.make_directory(path),
        files.upload(tmp_path / "home", path),
    ):
        with refused("OUTSIDE_WORKSPACE"):
            await act

    assert names(tmp_path / "elsewhere") == []
    assert not (tmp_path / "new").exists()


async def test_links_swapped_meanwhile_lead_nowhere(
    files: Files, place: Path, tmp_path: Path
) -> None:
    """A command swaps a directory for a link as fast as it can, while its files are used."""
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "file").write_text(SECRET)
    (place / "d").mkdir()
    (place / "d" / "file").write_text("inside")
    (place / "link").symlink_to(tmp_path / "elsewhere")
    swap = (
        "import os\n"
        "print(flush=True)\n"
        "while True:\n"
        "    os.rename('d', 'aside'); os.rename('link', 'd')\n"
        "    os.rename('d', 'link'); os.rename('aside', 'd')\n"
    )
    seen = set[bytes]()
    with start_python(swap) as swapping:
        try:
            assert swapping.stdout is not None
            swapping.stdout.readline()
            for _ in range(400):
                try:
                    seen.add(await files.read("d/file"))
                    await files.write("d/file", "inside")
                    await files.remove("d/new", tree=True)
                except FileError:
                    continue
        finally:
            swapping.kill()

    assert seen <= {b"inside"}
    assert (tmp_path / "elsewhere" / "file").read_text() == SECRET
    assert names(tmp_path / "elsewhere") == ["file"]


async def test_a_pipe_is_not_replaced_and_a_link_is_removed_as_itself(
    files: Files, place: Path, tmp_path: Path
) -> None:
    os.mkfifo(place / "pipe")
    (place / "out").symlink_to(tmp_path / "outside")
    (place / "tree" / "a" / "b").mkdir(parents=True)
    (place / "tree" / "a" / "out").symlink_to(tmp_path)

    with refused("NOT_A_FILE"):
        await files.write("pipe", "x")
    await files.remove("out")
    with refused("FILE_ERROR"):
        await files.remove("tree")  # it is not empty
    await files.remove("tree", tree=True)
    with refused("FILE_PROTECTED"):
        await files.remove(".", tree=True)

    assert names(place) == ["pipe"]
    assert (tmp_path / "outside").read_text() == SECRET


async def test_a_deep_tree_is_removed(files: Files, place: Path) -> None:
    script = "import os\nfor _ in range(300):\n    os.mkdir('d' * 20); os.chdir('d' * 20)\n"
    subprocess.run([sys.executable, "-c", script], cwd=place, check=True)  # longer than any path

    await files.remove("d" * 20, tree=True)

    assert names(place) == []


async def test_a_file_that_grows_ends_at_the_limit(files: Files, place: Path) -> None:
    grows = place / "log"
    grows.write_bytes(b"x")
    over = threading.Event()

    def grow() -> None:
        with grows.open("ab") as file:
            while not over.is_set() and file.tell() < 500_000_000:
                file.write(b"x" * 65536)

    thread = threading.Thread(target=grow)
    thread.start()
    try:
        with fail_after(60), refused("FILE_TOO_LARGE"):
            while True:
                await files.read("log", limit=1_000_000)
    finally:
        over.set()
        thread.join()


async def test_files_without_a_size_are_read(open_terminal: Open) -> None:
    async with open_terminal() as terminal:
        proc = terminal.files.at(f"/proc/{os.getpid()}")

        assert b"python" in await proc.read("cmdline")
        with refused("FILE_TOO_LARGE"):
            await proc.read("status", limit=10)
        with pytest.raises(FileError):
            await proc.read("mem", limit=10)
        with pytest.raises(FileError):
            await proc.write("new", "x")


async def test_names_that_are_no_text_are_names(files: Files, place: Path) -> None:
    name = os.fsdecode(b"caf\xe9\xff")
    (place / name).write_bytes(b"1")

    assert [one.name for one in await files.list()] == [name]
    assert await files.read(name) == b"1"
    await files.write(name + "2", b"2")
    assert os.fsencode(place / (name + "2")).endswith(b"caf\xe9\xff2")


async def test_a_hundred_thousand_entries_are_listed(open_terminal: Open) -> None:
    memory = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None  # a disk takes seconds
    with tempfile.TemporaryDirectory(dir=memory) as name:
        directory = os.open(name, os.O_RDONLY)
        for number in range(100_000):
            os.close(os.open(f"f{number}", os.O_CREAT | os.O_WRONLY, dir_fd=directory))
        os.close(directory)
        async with open_terminal() as terminal:
            files = terminal.files.at(name)

            with refused("FILE_TOO_LARGE"):
                await files.list(limit=99_999)
            entries = await files.list()

    assert len(entries) == 100_000
    assert entries[0].name == "f0"


@pytest.mark.skipif(os.geteuid() == 0, reason="root may enter everything")
async def test_closed_directories_are_denied(files: Files, place: Path) -> None:
    (place / "closed").mkdir()
    (place / "closed" / "file").write_text("x")
    (place / "closed").chmod(0o600)
    try:
        for act in (files.read("closed/file"), files.write("closed/new", "x")):
            with refused("FILE_ACCESS_DENIED"):
                await act
        with refused("FILE_ACCESS_DENIED"):
            await files.list("closed")
    finally:
        (place / "closed").chmod(0o700)


async def test_what_nobody_may_read_or_write_is_not_even_for_root(
    files: Files, place: Path
) -> None:
    (place / "closed").write_text("closed")
    (place / "closed").chmod(0o200)
    (place / "kept").write_text("kept")
    (place / "kept").chmod(0o444)

    with refused("FILE_ACCESS_DENIED"):
        await files.read("closed")
    with refused("FILE_ACCESS_DENIED"):
        await files.write("kept", "new")

    assert (place / "kept").read_text() == "kept"


async def test_a_full_disk_leaves_what_was_there(place: Path) -> None:
    script = """
import asyncio, os, shelltie, subprocess
async def main():
    async with shelltie.Terminal() as terminal:
        files = terminal.files.at("small")
        await files.write("file", "old")
        try:
            await files.write("file", b"x" * 2_000_000)
        except shelltie.FileNoSpace as error:
            print(error.code, (await files.read("file")).decode(), os.listdir("small"))
asyncio.run(main())
"""
    (place / "small").mkdir()
    (place / "script.py").write_text(script)
    mounted = "mount -t tmpfs -o size=1m tmpfs small && exec $0 script.py"
    done = subprocess.run(
        ["unshare", "-rm", "sh", "-c", mounted, sys.executable],
        capture_output=True,
        text=True,
        check=False,
    )

    if "unshare" in done.stderr:
        pytest.skip("needs namespaces")
    assert done.stdout == "NO_SPACE old ['file']\n", done.stderr


def _tree(place: Path, outside: Path) -> None:
    """A tree with something of everything."""
    (place / "sub" / "empty").mkdir(parents=True)
    (place / "sub" / "program").write_bytes(b"#!/bin/sh\n")
    (place / "sub" / "program").chmod(0o4755)
    (place / "text").write_text("text")
    os.utime(place / "text", (1_000_000_000, 1_000_000_000))
    (place / "sub" / "up").symlink_to("../text")
    (place / "sub" / "out").symlink_to("../../outside")
    (place / "absolute").symlink_to(outside)
    (place / "sub" / "sneaky").symlink_to("../sub/../../outside")
    os.mkfifo(place / "pipe")


def _check_copy(copied: TreeCopied, there: Path) -> None:
    assert (copied.files, copied.directories, copied.links, copied.size) == (2, 3, 1, 14)
    assert sorted(line.partition(":")[0] for line in copied.skipped) == [
        *("absolute", "pipe", "sub/out", "sub/sneaky"),
    ]
    assert copied.skipped_count == 4
    assert stat.S_IMODE((there / "sub" / "program").stat().st_mode) == 0o755
    assert (there / "text").stat().st_mtime == 1_000_000_000
    assert (there / "sub" / "up").readlink() == Path("../text")
    assert (there / "sub" / "empty").is_dir()
    assert names(there / "sub") == ["empty", "program", "up"]


async def test_a_tree_goes_in_and_out(files: Files, place: Path, tmp_path: Path) -> None:
    (tmp_path / "source").mkdir()
    _tree(tmp_path / "source", tmp_path / "outside")
    (place / "there").mkdir()
    (place / "there" / "text").write_text("old")
    (place / "there" / "stays").write_text("stays")

    _check_copy(await files.upload(tmp_path / "source", "there"), place / "there")
    assert (place / "there" / "text").read_text() == "text"
    assert (place / "there" / "stays").read_text() == "stays"
    await files.remove("there", tree=True)
    _tree(place, tmp_path / "outside")
    _check_copy(await files.download(".", tmp_path / "new" / "target"), tmp_path / "new" / "target")
    one = await files.download("text", tmp_path / "one")
    assert (one.files, (tmp_path / "one").read_text()) == (1, "text")
    assert (await files.upload(tmp_path / "one", "two/three")).size == 4
    assert (place / "two" / "three").read_text() == "text"


async def test_a_target_that_is_a_link_is_not_followed(
    files: Files, place: Path, tmp_path: Path
) -> None:
    """Of the tree that is downloaded to, what an earlier download could have left there."""
    (place / "sub").mkdir()
    (place / "sub" / "file").write_text("new")
    target, elsewhere = tmp_path / "target", tmp_path / "elsewhere"
    elsewhere.mkdir()
    target.mkdir()
    (target / "sub").symlink_to(elsewhere)

    with refused("NOT_A_DIRECTORY"):
        await files.download(".", target)

    assert names(elsewhere) == []


async def test_a_link_swapped_while_it_is_downloaded_leads_nowhere(
    files: Files, place: Path, tmp_path: Path
) -> None:
    """A command swaps a link that stays inside for one that leads out, after it was looked at."""
    (place / "a").symlink_to("z")
    for number in range(60):
        (place / f"file{number:02}").write_bytes(b"x")
    (place / "z").write_text("inside")
    (place / "out").symlink_to(tmp_path / "outside")
    swap = (
        "import os\n"
        "print(flush=True)\n"
        "while True:\n"
        "    os.rename('a', 'aside'); os.rename('out', 'a')\n"
        "    os.rename('a', 'out'); os.rename('aside', 'a')\n"
    )
    seen = set[str]()
    with start_python(swap) as swapping:
        try:
            assert swapping.stdout is not None
            swapping.stdout.readline()
            for number in range(25):
                copy = tmp_path / f"copy{number}"
                copy.mkdir()
                with suppress(FileError):
                    await files.download(".", copy)
                seen |= {str(one.readlink()) for one in copy.iterdir() if one.is_symlink()}
        finally:
            swapping.kill()

    assert seen == {"z"}


async def test_what_is_left_out_counts_too(files: Files, place: Path, tmp_path: Path) -> None:
    """A command makes a million pipes, and whoever downloads them has their names in memory."""
    for number in range(10):
        os.mkfifo(place / str(number))

    with refused("FILE_TOO_LARGE"):
        await files.download(".", tmp_path / "copy", entries=10)
    assert (await files.download(".", tmp_path / "copy", entries=11)).skipped_count == 10


async def test_nothing_is_made_for_what_is_not_there(files: Files, tmp_path: Path) -> None:
    with refused("FILE_NOT_FOUND"):
        await files.download("nothing", tmp_path / "new" / "target")

    assert not (tmp_path / "new").exists()


async def test_too_much_is_not_begun(files: Files, place: Path, tmp_path: Path) -> None:
    (tmp_path / "source").mkdir()
    for number in range(10):
        (tmp_path / "source" / str(number)).write_bytes(b"x" * 100)

    with refused("FILE_TOO_LARGE"):
        await files.upload(tmp_path / "source", "there", limit=999)
    with refused("FILE_TOO_LARGE"):
        await files.upload(tmp_path / "source", "there", entries=10)

    assert names(place) == []
    assert (await files.upload(tmp_path / "source", "there", 1000, 11)).size == 1000


async def test_cancelled_in_the_middle_nothing_half_is_left(
    files: Files, place: Path, tmp_path: Path
) -> None:
    source = tmp_path / "source"
    source.mkdir()
    for number in range(200):
        (source / f"f{number:03}").write_bytes(b"x" * 500_000)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(files.upload, source, "there")
        with fail_after(60):
            while (
                not (place / "there" / "f000").exists() and not (place / "there" / "f199").exists()
            ):
                await anyio.sleep(0.001)
        tasks.cancel_scope.cancel()

    left = names(place / "there")
    assert not [name for name in left if "shelltie-new" in name]
    assert {(place / "there" / name).stat().st_size for name in left} == {500_000}


@pytest.mark.needs("bwrap", "git")
async def test_isolated_files_are_what_isolated_commands_have(
    files: Files, place: Path, tmp_path: Path
) -> None:
    subprocess.run(["git", "init", "-q", str(place)], check=True)
    (place / "CLAUDE.md").write_text("obey\n")
    (place / ".env").write_text("A=1")
    (tmp_path / "hooks").mkdir()
    (tmp_path / "hooks" / "post-checkout").write_text("#!/bin/sh\n")
    isolated = files.at(place, isolation="sandbox")

    for path in (".git/config", ".git/hooks/post-checkout", "CLAUDE.md"):
        with refused("FILE_PROTECTED"):
            await isolated.write(path, "evil")
    with refused("FILE_PROTECTED"):
        await isolated.remove(".git", tree=True)
    with refused("FILE_PROTECTED"):
        await isolated.upload(tmp_path / "hooks", ".git/hooks")
    await isolated.write("src/file", "good")

    assert (await isolated.read("CLAUDE.md"), await isolated.read(".env")) == (b"obey\n", b"A=1")
    assert (place / "src" / "file").read_text() == "good"
    assert not (place / ".git" / "hooks" / "post-checkout").exists()
    assert await files.at(place, secrets=True).read(".env") == b"A=1"
    await files.write("CLAUDE.md", "as commands that are not isolated may")


@pytest.mark.needs("bwrap")
async def test_a_sandboxed_command_sees_the_same_files(place: Path, open_terminal: Open) -> None:
    async with open_terminal(safety_profiles_run_unknown="allow") as terminal:
        files = terminal.files.at(place, isolation="sandbox")
        await files.write("in", "from outside")
        result = await terminal.run(
            "cat in; echo from inside > out", cwd=place, isolation="sandbox"
        )

        assert result.stdout == "from outside"
        assert await files.read("out") == b"from inside\n"


async def test_what_is_shelltie_s_own_is_not_for_files(open_terminal: Open, tmp_path: Path) -> None:
    async with open_terminal() as terminal:
        files, own = terminal.files.at(tmp_path), "xdg-config/shelltie/config.toml"

        with refused("FILE_PROTECTED"):
            await files.write(own, "[safety]\nenforce = 'off'\n")
        with refused("FILE_PROTECTED"):
            await files.read(own)
        with refused("FILE_PROTECTED"):
            await files.remove("xdg-config", tree=True)


async def test_an_isolation_that_cannot_be_had_is_an_error(files: Files, place: Path) -> None:
    for isolation in ("outside", "vault"):
        with pytest.raises(InvalidParameters):
            files.at(place, isolation=isolation)
    with pytest.raises(InvalidParameters):
        await files.at(place, provider="moon").read("x")


@pytest.mark.parametrize("path", ["a\0b", "\ud800", None, 3, b"bytes"])
async def test_what_is_no_path_is_refused(path: object, files: Files) -> None:
    with pytest.raises(InvalidParameters):
        await files.read(path)  # type: ignore[arg-type]  # that is the test
    with pytest.raises(InvalidParameters):
        files.at(path)  # type: ignore[arg-type]  # that is the test


async def test_garbage_is_refused(files: Files) -> None:
    for act in (
        files.read("x", limit=-1),
        files.read("x", limit="many"),  # type: ignore[arg-type]  # that is the test
        files.write("x", 3),  # type: ignore[arg-type]  # that is the test
        files.write("x", "", mode=0o4755),
        files.write("x", "half a character: \ud800"),
        files.list(limit=True),
        files.upload("x", "y", entries=-1),
    ):
        with pytest.raises(InvalidParameters):
            await act


async def test_files_of_a_closed_terminal_are_not_changed_without_a_record(
    place: Path, open_terminal: Open
) -> None:
    async with open_terminal() as terminal:
        files = terminal.files

    for act in (files.write("late", "x"), files.make_directory("late"), files.read("x")):
        with pytest.raises(InvalidParameters, match="closed"):
            await act
    assert names(place) == []


async def test_a_place_without_files_says_so(place: Path) -> None:
    class Elsewhere(LocalProvider):
        name = "elsewhere"
        isolation = Isolation.NONE
        files = None  # type: ignore[assignment]  # as one that never heard of them

    async with Terminal(Config.of(), providers=[Elsewhere()]) as terminal:
        with pytest.raises(Exception, match="cannot be reached"):
            await terminal.files.at(place, provider="elsewhere").read("x")


async def test_the_record_has_who_and_what_but_no_content(
    place: Path, tmp_path: Path, told: list[Event]
) -> None:
    caller = Caller(client="frame", agent="a-1", task="T-1")
    config = Config.of(state_dir=str(tmp_path / "xdg-state" / "shelltie"))
    async with Terminal(config, told.append, caller=caller) as terminal:
        await terminal.files.write("notes", SECRET)
        await terminal.files.read("notes")
        with refused("OUTSIDE_WORKSPACE"):
            await terminal.files.read("../outside")
        await terminal.files.download(".", tmp_path / "copy")

    heard = [event for event in told if isinstance(event, FilesUsed)]
    assert [(one.action, one.path, one.size, one.problem) for one in heard] == [
        ("write", "notes", 23, ""),
        ("read", "notes", 23, ""),
        ("read", "../outside", 0, "OUTSIDE_WORKSPACE"),
        ("download", ".", 23, ""),
    ]
    assert {(one.provider, one.workspace) for one in heard} == {("local", str(place))}
    lines = [json.loads(line) for line in text_of("audit", "export").splitlines()]
    used = [line for line in lines if line["kind"] == "files"]
    assert [line["bytes"] for line in used] == [23, 23, 0, 23]
    assert {(line["client"], line["task"]) for line in used} == {("frame", "T-1")}
    assert SECRET not in str(lines)
    assert "✗ read ../outside · OUTSIDE_WORKSPACE" in text_of("audit", "tail")
