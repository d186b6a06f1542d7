"""Inspect with its own mockllm: whole evaluations in our sandbox, and its check of sandboxes."""

import gc
import shutil
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import anyio
import pytest
from inspect_ai import Task
from inspect_ai import eval as evaluate
from inspect_ai.dataset import Sample
from inspect_ai.log import EvalLog
from inspect_ai.model import ModelOutput, get_model
from inspect_ai.solver import generate, solver, use_tools
from inspect_ai.tool import bash
from inspect_ai.util import (
    OutputLimitExceededError,
    SandboxEnvironmentSpec,
    SandboxUnavailableError,
    sandbox,
)
from inspect_ai.util._sandbox.limits import override_max_read_file_size
from inspect_ai.util._sandbox.self_check import *  # noqa: F403  Inspect's own tests

from shelltie.adapters.inspect_ai import SampleConfig, ShelltieSandbox
from tests.adapters.conftest import HOSTILE, run_example

# Inspect calls a library in an older way, and leaves streams to the garbage collector.
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::ResourceWarning")
CANNOT = {
    "test_exec_as_user": "the user of Inspect is the only one, and nobody can be added",
    "test_exec_large_command": "a megabyte of words is more than can be judged",
}
ISOLATED = pytest.mark.skipif(shutil.which("bwrap") is None, reason="needs bwrap")


@pytest.fixture(autouse=True)
def offline(monkeypatch: pytest.MonkeyPatch) -> None:
    """Inspect counts tokens by a table that it downloads."""
    for name, module in list(sys.modules.items()):
        if name.startswith("inspect_ai.") and hasattr(module, "count_text_tokens"):
            monkeypatch.setattr(module, "count_text_tokens", len)


@pytest.fixture
def left_over(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Path]:
    """Fails a test that leaves a sample's directory behind."""
    places = tmp_path / "samples"
    places.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(places))
    yield places
    assert list(places.glob("shelltie-sample-*")) == []


@pytest.fixture(params=[pytest.param("sandbox", marks=ISOLATED)])
async def sandbox_env(
    request: pytest.FixtureRequest, left_over: Path
) -> AsyncIterator[ShelltieSandbox]:
    assert left_over.is_dir()
    if request.node.originalname in CANNOT:
        reason = CANNOT[request.node.originalname]
        request.node.add_marker(pytest.mark.xfail(reason=reason, strict=True))
    config = SampleConfig(isolation=request.param)
    environments = await ShelltieSandbox.sample_init("check", config, {})
    yield environments["default"]
    await ShelltieSandbox.sample_cleanup("check", config, environments, False)


def calls(*commands: str) -> list[ModelOutput]:
    name = "mockllm/model"
    return [
        *(ModelOutput.for_tool_call(name, "bash", {"command": command}) for command in commands),
        ModelOutput.from_content(name, "done"),
    ]


def run_task(tmp_path: Path, outputs: list[ModelOutput], **task: Any) -> EvalLog:
    samples = task.pop("samples", [Sample("try")])
    steps = task.pop("solver", [use_tools(bash(timeout=4)), generate()])
    model = get_model("mockllm/model", custom_outputs=outputs)
    (log,) = evaluate(
        Task(dataset=samples, solver=steps, **{"sandbox": "shelltie", **task}),
        model=model,
        display="none",
        log_dir=str(tmp_path / "logs"),
    )
    gc.collect()
    assert log.status == "success", log.error
    return log


def answers(log: EvalLog) -> list[str]:
    assert log.samples
    return [
        f"{message.error.message if message.error else ''}{message.text}"
        for message in log.samples[0].messages
        if message.role == "tool"
    ]


@ISOLATED
@pytest.mark.usefixtures("nobody_left", "left_over")
def test_an_evaluation_goes_on_after_a_hostile_command(tmp_path: Path) -> None:
    log = run_task(tmp_path, calls("echo one > file; pwd", HOSTILE, "cat file; ls /root /home"))

    first, hostile, last = answers(log)
    assert "shelltie-sample-" in first
    assert "timed out" in hostile.lower()
    assert "one\n" in last


@ISOLATED
@pytest.mark.usefixtures("nobody_left", "left_over")
def test_samples_do_not_see_one_another(tmp_path: Path) -> None:
    @solver
    def look() -> Any:
        async def solve(state: Any, _: Any) -> Any:
            place = sandbox()
            await place.write_file("mine", state.input_text)
            await place.write_file("/tmp/shared", state.input_text)
            await place.exec(["sh", "-c", "ls -d /tmp/shelltie-sample-* > places; sleep 0.5"])
            tmp, mine = await place.read_file("/tmp/shared"), await place.read_file("mine")
            places = (await place.exec(["sh", "-c", "ls -d $PWD/../*/ | wc -l"])).stdout
            state.output = ModelOutput.from_content("m", f"{tmp} {mine} {places.strip()}")
            return state

        return solve

    samples = [Sample(f"sample-{number}") for number in range(3)]
    log = run_task(tmp_path, [], samples=samples, solver=[look()])

    assert log.samples
    found = sorted(sample.output.completion for sample in log.samples)
    assert found == [f"sample-{number} sample-{number} 1" for number in range(3)]


@pytest.mark.usefixtures("nobody_left", "left_over")
def test_without_isolation_the_policy_refuses_as_everywhere(tmp_path: Path) -> None:
    log = run_task(tmp_path, calls("rm -rf /", "echo still here"), sandbox=("shelltie", "none"))

    refused, last = answers(log)
    assert "person" in refused or "approve" in refused
    assert last == "still here\n"


@pytest.mark.usefixtures("nobody_left", "left_over")
async def test_cancel_ends_the_tree(mark: str) -> None:
    assert mark
    config = SampleConfig(isolation="none")
    environments = await ShelltieSandbox.sample_init("cancel", config, {})
    place = environments["default"]
    try:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(
                place.exec, ["sh", "-c", "echo x > begun; setsid sleep 600 & sleep 600"]
            )
            with anyio.fail_after(60):
                while "begun" not in (await place.exec(["ls"])).stdout:
                    await anyio.sleep(0.02)
            tasks.cancel_scope.cancel()
    finally:
        await ShelltieSandbox.sample_cleanup("cancel", config, environments, True)


@pytest.mark.usefixtures("left_over")
async def test_output_has_the_last_bytes_and_files_have_limits() -> None:
    environments = await ShelltieSandbox.sample_init("o", SampleConfig(isolation="none"), {})
    place = environments["default"]
    try:
        result = await place.exec(
            ["sh", "-c", "head -c 20000000 /dev/zero | tr '\\0' x; echo end; echo err >&2"]
        )
        with override_max_read_file_size(10):
            await place.write_file("large", "x" * 11)
            with pytest.raises(OutputLimitExceededError):
                await place.read_file("large")
            with pytest.raises(OutputLimitExceededError):
                await place.read_file("/etc/passwd")
    finally:
        await ShelltieSandbox.sample_cleanup("o", None, environments, False)

    assert len(result.stdout) == 10 * 1024 * 1024
    assert result.stdout.endswith("xend\n")
    assert result.stderr == "err\n"


@pytest.mark.usefixtures("left_over")
async def test_an_isolation_that_cannot_be_had_starts_nothing() -> None:
    for isolation in ("vault", "container"):
        with pytest.raises(SandboxUnavailableError):
            await ShelltieSandbox.sample_init("x", isolation, {})


@pytest.mark.usefixtures("left_over")
async def test_variables_that_choose_code_are_judged_with_the_command() -> None:
    config = SampleConfig(isolation="none")
    environments = await ShelltieSandbox.sample_init("env", config, {})
    place = environments["default"]
    try:
        result = await place.exec(
            ["sh", "-c", "echo $PATH $WHO"], env={"PATH": "/usr/bin:/bin", "WHO": "me"}
        )
        with pytest.raises(PermissionError):
            await place.exec(["ls"], env={"LD_PRELOAD": "/tmp/evil.so"})
    finally:
        await ShelltieSandbox.sample_cleanup("env", config, environments, False)

    assert result.stdout == "/usr/bin:/bin me\n"


def test_settings_survive_the_log() -> None:
    spec = SandboxEnvironmentSpec("shelltie", SampleConfig(isolation="none", timeout=5))

    again = SandboxEnvironmentSpec.model_validate_json(spec.model_dump_json())

    assert again.config == spec.config


def test_the_example_runs_as_it_stands() -> None:
    assert run_example("Inspect") == "success"
