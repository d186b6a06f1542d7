"""Limits are measured by a clock that nobody can set."""

import os
import select
import subprocess
import sys
from pathlib import Path

import pytest

from shelltie import Terminal
from shelltie.model import State
from shelltie.running.run import Run
from tests.tree import until

# The clock on the wall jumps by ten years with every look at it, forth and back.
JUMPING = """
#define _GNU_SOURCE
#include <dlfcn.h>
#include <sys/time.h>
#include <time.h>
static time_t jump(void) {
    static int looks;
    return (looks++ % 2 ? 1 : -1) * 10L * 365 * 24 * 3600;
}
int clock_gettime(clockid_t clock, struct timespec *now) {
    static int (*real)(clockid_t, struct timespec *);
    if (!real) real = dlsym(RTLD_NEXT, "clock_gettime");
    int result = real(clock, now);
    if (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE) now->tv_sec += jump();
    return result;
}
int gettimeofday(struct timeval *restrict now, void *restrict zone) {
    struct timespec spec;
    (void)zone;
    int result = clock_gettime(CLOCK_REALTIME, &spec);
    now->tv_sec = spec.tv_sec, now->tv_usec = spec.tv_nsec / 1000;
    return result;
}
time_t time(time_t *now) {
    struct timespec spec;
    clock_gettime(CLOCK_REALTIME, &spec);
    if (now) *now = spec.tv_sec;
    return spec.tv_sec;
}
"""
PROGRAM = """
import anyio, sys, time
from shelltie import Config, Terminal

async def main():
    assert abs(time.time() - time.time()) > 1e8, "the clock does not jump"
    config = Config.of(state_dir=sys.argv[1], keeper=sys.argv[2], limits_grace=0.2)
    async with Terminal(config) as terminal:
        told = []
        for command, options in (
            ("echo quick", {"timeout": 100, "silence": 50}),
            ("sleep 300", {"timeout": 1, "silence": 0}),
            ("sleep 300", {"timeout": 100, "silence": 1}),
            ("trap '' TERM; while :; do sleep 0.1; done", {"timeout": 5, "silence": 0}),
        ):
            result = await terminal.run(command, **options)
            told.append((result.status, result.timeout_reason, result.termination_mode))
            assert 0 <= result.duration_ms < 10**9, "measured by the clock on the wall"
    print(told)

anyio.run(main)
"""


@pytest.mark.needs("cc")
@pytest.mark.proves("T0-32", "C-3")
def test_limits_hold_however_the_clock_on_the_wall_jumps(tmp_path: Path, keeper: str) -> None:
    source, library = tmp_path / "jumping.c", tmp_path / "jumping.so"
    source.write_text(JUMPING)
    subprocess.run(["cc", "-shared", "-fPIC", "-o", library, source, "-ldl"], check=True)
    state = tmp_path / "state"

    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(state), keeper],
        env={**os.environ, "LD_PRELOAD": str(library)},
        capture_output=True,
        timeout=100,
        check=False,
    )

    assert done.returncode == 0, done.stderr.decode()
    assert done.stdout.decode().strip() == str(
        [
            ("success", None, None),
            ("timeout", "exec_timeout", "soft"),
            ("timeout", "no_output_timeout", "soft"),
            ("timeout", "exec_timeout", "hard"),
        ]
    )


@pytest.mark.proves("C-18")
async def test_a_command_that_has_ended_when_its_time_is_over_was_in_time(
    terminal: Terminal,
) -> None:
    run = await terminal.start("sleep 0.2; exit 3", timeout=600)
    await until(lambda: run.state is State.RUNNING)
    wait_for_the_last_word(run)  # which the loop has not heard yet

    run._wake(run._watchdog.started + 600)
    outcome = await run.wait()

    assert (outcome.state, outcome.exit.code) == (State.FINISHED, 3)


def wait_for_the_last_word(run: Run) -> None:
    leash = run._process._leash  # type: ignore[union-attr]
    ready, _, _ = select.select([leash._control], [], [], 20)
    assert ready
