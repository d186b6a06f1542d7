"""What both keepers promise where it is easily forgotten; and what a link makes of strange ones."""

import errno
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path

import anyio
import psutil
import pytest

from shelltie.keeper.binaries import KeeperKind
from shelltie.keeper.link import Link
from shelltie.keeper.protocol import Exited, Failed, Gone, Lost, Started, Stuck
from shelltie.model import Resources
from tests.leashes import PATH, Told, output_of, read, start, start_printing
from tests.providers.conftest import argv_of, process_of, stop
from tests.tree import new_tag, nobody_left, tagged, until

Strange = Callable[..., AbstractAsyncContextManager[Link]]


@pytest.mark.usefixtures("current_binary")
@pytest.mark.parametrize("keeper", ["c", "python", "portable"])
async def test_no_descriptor_that_a_keeper_was_given_reaches_a_command(keeper: str) -> None:
    secret = os.open(os.devnull, os.O_RDONLY)
    link = Link(*argv_of(keeper), passed=(secret,))

    printed = await output_of(link, "ls", "/proc/self/fd")

    os.close(secret)
    await link.close()
    assert printed.split() == [b"0", b"1", b"2", b"3"]  # 3 is what ls reads


async def test_nothing_starts_for_a_server_that_is_gone(any_link: Link, tmp_path: Path) -> None:
    await start(any_link, "true").last()
    stop(any_link)
    ran = tmp_path / "ran"
    ran.mkdir()
    for number in range(30):
        start(any_link, "touch", str(ran / str(number))).leash._hang_up()
    after = start(any_link, "true")

    process_of(any_link).send_signal(signal.SIGCONT)
    await after.last()

    assert list(ran.iterdir()) == []


async def test_a_leash_holds_none_of_its_commands_streams(any_link: Link) -> None:
    tag = new_tag()
    told, reader = start_printing(any_link, "sh", "-c", f"exec sleep 300.{tag} >/dev/null 2>&1")

    assert await read(reader) == b""

    os.close(reader)
    assert not any(isinstance(word, Exited) for word in told.words)
    told.leash.signal(signal.SIGKILL)
    await told.last()


async def test_who_cannot_join_its_cgroup_is_not_started(link: Link, tmp_path: Path) -> None:
    told = Told()
    null = os.open(os.devnull, os.O_RDWR)
    closed = os.open(os.devnull, os.O_RDONLY)  # nothing can be written to it

    told.leash = link.spawn(
        ("touch", str(tmp_path / "ran")),
        PATH,
        "/",
        (null, null, null),
        tty=False,
        resources=Resources(),
        listen=told.hear,
        joins=(closed,),
    )
    await told.last()

    os.close(closed)
    os.close(null)
    assert [type(word) for word in told.words] == [Failed, Gone]
    assert told.words[0] == Failed("join", errno.EBADF)
    assert not (tmp_path / "ran").exists()


async def test_a_group_is_killed_at_once_and_not_one_parent_after_the_other(link: Link) -> None:
    tag, depth = new_tag(), 40
    nest = f'[ $1 = 0 ] && exec sleep 300.{tag}; sh -c "$0" "$0" $(($1 - 1)); :'
    told = start(link, "sh", "-c", nest, nest, str(depth))
    await until(lambda: bool(tagged(f"300.{tag}", "sleep")))

    told.leash.signal(signal.SIGKILL)
    gone = await told.last()

    assert isinstance(gone, Gone)
    assert gone.rounds < depth
    await nobody_left(tag)


async def test_a_leash_that_is_stopped_says_its_last_word_when_its_keeper_ends(link: Link) -> None:
    told = start(link, "sleep", "300")
    leash = (await told.word(Started)).leash
    process_of(link).send_signal(signal.SIGSTOP)
    os.kill(leash, signal.SIGSTOP)

    await link.close()

    (gone,) = (word for word in told.words if isinstance(word, Gone))
    assert gone.rounds >= 1  # who was swept after says 0


@pytest.mark.usefixtures("current_binary")
async def test_who_is_in_a_hurry_does_not_wait_until_all_are_counted() -> None:
    tag, many = new_tag(), 200
    link = Link(*argv_of("c"))
    told = start(link, "bash", "-c", f"for i in {{1..{many}}}; do sleep 300.{tag} & done; wait")
    started = await told.word(Started)
    await until(lambda: len(tagged(f"300.{tag}", "sleep")) == many)
    stop(link)  # or it would continue the leash
    os.kill(started.leash, signal.SIGSTOP)

    os.kill(started.pid, signal.SIGKILL)
    await until(lambda: psutil.Process(started.pid).status() == psutil.STATUS_ZOMBIE)
    told.leash.close()
    os.kill(started.leash, signal.SIGCONT)
    exited = await told.word(Exited)

    assert exited.left < many
    assert isinstance(await told.last(), Gone)
    await link.close()
    await nobody_left(tag)


SUDO = """
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>
int main(int argc, char **argv) {
    uid_t user = getuid();
    if (setuid(0)) return 1;
    pid_t child = fork();
    if (child == 0) {
        setsid(); /* it is not in the group that is killed with its parent */
        if (setresuid(user, user, user)) return 1;
        execv(argv[1], argv + 1);
    }
    return waitpid(child, NULL, 0) != child || argc < 2;
}
"""


@pytest.mark.usefixtures("current_binary")
@pytest.mark.skipif(os.getuid() != 0, reason="needs root, to be somebody else")
@pytest.mark.needs("setpriv", "cc")
@pytest.mark.parametrize("keeper", ["c", "python"])
async def test_who_may_not_be_killed_ends_with_its_children_who_may(
    keeper: str, public_path: Path
) -> None:
    (public_path / "sudo.c").write_text(SUDO)
    subprocess.run(["cc", "-o", public_path / "sudo", public_path / "sudo.c"], check=True)
    (public_path / "sudo").chmod(0o4755)
    argv, kind = argv_of(keeper)
    link = Link(("setpriv", "--reuid", "65534", "--clear-groups", *argv), kind)
    tag = new_tag()
    told = start(link, str(public_path / "sudo"), "/bin/sleep", f"300.{tag}")
    await until(lambda: bool(tagged(tag, "sleep")))

    told.leash.signal(signal.SIGKILL)

    assert isinstance(await told.last(), Gone)
    await nobody_left(tag)
    await link.close()


@pytest.mark.usefixtures("current_binary")
@pytest.mark.skipif(os.getuid() != 0, reason="needs root, to be somebody else")
@pytest.mark.needs("setpriv")
async def test_a_keeper_that_is_told_to_end_says_so_before_its_leashes_do(own_sleeper: str) -> None:
    argv, kind = argv_of("c")
    link = Link(("setpriv", "--reuid", "65534", "--clear-groups", *argv), kind)
    resists = start(link, own_sleeper, "300")  # so that the keeper cannot end yet
    sleeper = (await resists.word(Started)).pid
    await until(lambda: psutil.Process(sleeper).uids().real == 0)
    served: list[bool] = []
    told = start(link, "sleep", "300")
    await told.word(Started)
    told.leash._listen = lambda _: served.append(link.serves)

    process_of(link).terminate()
    await until(lambda: told.leash.silent)

    alive = link.alive
    os.kill(sleeper, signal.SIGKILL)
    await link.close()
    assert alive
    assert served
    assert not any(served)


# A keeper that says what it is told to: it takes one command, and its words are for the leash.
STRANGE = """
import os, socket, sys
words, more, fd = sys.argv[1], sys.argv[2], int(sys.argv[3])
server = socket.socket(fileno=fd)
_, descriptors, _, _ = socket.recv_fds(server, 8, 8)
control = socket.socket(fileno=descriptors[3])
reader, writer = os.pipe()
if os.fork() == 0:  # somebody who ends with us
    os.dup2(reader, 0)
    os.execlp("cat", "cat")
control.send(words.encode())
server.send(more.encode())
server.recv(1 << 20)
while server.recv(1 << 20):
    pass
"""


@pytest.fixture
def strange() -> Strange:
    @asynccontextmanager
    async def made(
        words: str, more: str = "", before: tuple[str, ...] = (), *, contained: bool = False
    ) -> AsyncIterator[Link]:
        argv = (*before, sys.executable, "-c", STRANGE, words, more)
        link = Link(argv, KeeperKind.PYTHON, contained=contained)
        try:
            yield link
        finally:
            await link.close()

    return made


async def test_a_leash_that_talks_nonsense_is_not_believed_any_more(strange: Strange) -> None:
    async with strange("nonsense\nstarted 7 7\nexited 0 0\ngone 0 0\n") as link:
        told = start(link, "true")
        await until(lambda: told.leash.silent)
        words = list(told.words)
        process_of(link).kill()

        assert isinstance(await told.last(), Lost)

    assert words == []


async def test_a_keeper_that_talks_nonsense_is_taken_for_dead(strange: Strange) -> None:
    async with strange("", "swept x\n") as link:
        start(link, "true")

        await until(lambda: not link.alive)


async def test_a_keeper_that_ends_takes_no_more_commands(strange: Strange) -> None:
    async with strange("", "ending\n") as link:
        start(link, "true")

        await until(lambda: not link.serves)

        assert link.alive


@pytest.mark.skipif(os.getuid() != 0, reason="needs root, to make a pid namespace")
@pytest.mark.needs("unshare")
async def test_who_is_stuck_inside_is_named_by_the_numbers_of_this_side(strange: Strange) -> None:
    inside = ("unshare", "--pid", "--fork", "--mount-proc")
    async with strange("started 2 1\nstuck 2\n", before=inside, contained=True) as link:
        told = start(link, "true")
        stuck = await told.word(Stuck)
        cats: list[psutil.Process] = []

        def is_there() -> bool:
            everybody = psutil.Process(process_of(link).pid).children(recursive=True)
            cats[:] = [one for one in everybody if one.name() == "cat"]
            return bool(cats)

        await until(is_there)  # it was a shell when it was told of
        (other,) = cats

        assert stuck.pids == (other.pid,)
        assert (await told.word(Started)).pid == other.pid


# Root may send any number of descriptors, unless it has lost two of its capabilities.
CROWDED = """
import anyio, os, resource, signal, sys
import psutil
from shelltie.keeper.link import Link
from shelltie.keeper.protocol import Gone
from tests.leashes import start
from tests.providers.conftest import argv_of, process_of, stop
from tests.tree import until

async def main():
    link = Link(*argv_of(sys.argv[1]))
    await start(link, "true").last()
    before = psutil.Process().num_fds()
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    stop(link)
    resource.setrlimit(resource.RLIMIT_NOFILE, (before + 400, hard))
    commands = []
    while not link._parcels and len(commands) < 200:  # all processes of a user count together
        commands.append(start(link, "true", env={"PATH": "/bin"}))
    waiting = bool(link._parcels)
    commands += [start(link, "true", env={"PATH": "/bin"}) for _ in range(5)]
    process_of(link).send_signal(signal.SIGCONT)
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    ends = [isinstance(await command.last(), Gone) for command in commands]
    await until(lambda: psutil.Process().num_fds() == before)
    await link.close()
    print(waiting, all(ends))

anyio.run(main)
"""


@pytest.mark.usefixtures("current_binary")
@pytest.mark.needs("setpriv")
@pytest.mark.parametrize("keeper", ["c", "python"])
async def test_more_descriptors_than_may_be_on_their_way_wait_their_turn(keeper: str) -> None:
    without = "-sys_resource,-sys_admin"
    as_others = ["setpriv", f"--inh-caps={without}", f"--bounding-set={without}"]
    command = [*(as_others if os.getuid() == 0 else ()), sys.executable, "-c", CROWDED, keeper]
    root = Path(__file__).resolve().parents[2]

    with anyio.fail_after(100):
        done = await anyio.run_process(command, cwd=root, check=False)

    assert done.stdout.split() == [b"True", b"True"], done.stderr.decode()
