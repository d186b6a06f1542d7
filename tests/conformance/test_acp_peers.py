"""Other people's ACP: the official SDKs for Python (two of them) and TypeScript, and acpx."""

import json
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.node_tools import NODE, node_environment, node_package, python_package
from tests.requirements_table import ROOT

PROGRAM = [sys.executable, "-m", "shelltie", "acp", "--"]
EDITOR = ROOT / "examples" / "acp_editor.py"
EXAMPLE = [sys.executable, str(ROOT / "examples" / "acp_agent.py")]
PYTHON_AGENT = [sys.executable, str(ROOT / "tests" / "programs" / "sdk_agent.py")]
TS_AGENT = ROOT / "tests" / "programs" / "ts_agent.mjs"
PRE_RELEASE = "1.0.0rc3"

pytestmark = pytest.mark.timeout(600)  # the first one to come installs what it needs

Step = dict[str, Any]


def sdk(version: str) -> str:
    """The import path of an SDK: the locked one, or the pre-release, installed once."""
    if version == "stable":
        return ""
    return str(python_package("agent-client-protocol", PRE_RELEASE))


def typescript_agent() -> list[str]:
    return [str(NODE), str(TS_AGENT), str(node_package("@agentclientprotocol/sdk", "2.4.0"))]


def run(*argv: str, **variables: str) -> str:
    env = {**node_environment(), "SHELLTIE_ENVIRONMENT_PATH": "inherit", **variables}
    done = subprocess.run(argv, env=env, capture_output=True, text=True, timeout=150, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def with_path(path: str, argv: list[str]) -> list[str]:
    return ["env", f"PYTHONPATH={path}", *argv]


def edited(editor: str, steps: list[Step], agent: list[str]) -> list[Step]:
    """The answers that an agent gets from the example of an editor."""
    said = run(sys.executable, str(EDITOR), json.dumps(steps), "--", *agent, PYTHONPATH=editor)
    return list(json.loads(said))


def under_acpx(steps: list[Step], agent: list[str], place: Path) -> list[Step]:
    """The answers that an agent gets when acpx started it."""
    acpx = [str(NODE), str(node_package("acpx", "0.19.1") / "dist" / "cli.js")]
    options = ["--agent", shlex.join(agent), "--cwd", str(place), "--approve-all"]
    options += ["--format", "json", "exec", json.dumps(steps)]
    lines = [json.loads(line) for line in run(*acpx, *options, HOME=str(place)).splitlines()]
    updates = [line["params"]["update"] for line in lines if line.get("method") == "session/update"]
    return list(json.loads(updates[-1]["content"]["text"]))


def step(method: str, until: str = "", **params: object) -> Step:
    return {"method": f"terminal/{method}", "params": params, "until": until}


@pytest.mark.proves("T1-29", "S1-1", "S1-3", "S1-52")
def test_the_example_shows_the_five_steps() -> None:
    prompts = ["echo quick", "echo so far; sleep 300", "exit 3"]
    env = {"PYTHONPATH": sdk("pre"), "ACP_EXAMPLE_TIMEOUT": "6"}

    said = run(sys.executable, str(EDITOR), *prompts, "--", *with_path("", EXAMPLE), **env)

    assert said.splitlines() == [
        "exit 0: 'quick\\n'",
        "timed out; so far: 'so far\\n'",
        "exit 3: ''",
    ]


EVERYTHING = [
    step("create", command="sh", args=["-c", "printf out; printf err >&2; exit 3"]),
    step("wait_for_exit", terminalId="@0"),
    step("output", terminalId="@0"),
    step("kill", terminalId="@0"),
    step("wait_for_exit", terminalId="@0"),
    step("release", terminalId="@0"),
    step("create", command="sh", args=["-c", "echo up; exec sleep 300"], outputByteLimit=2),
    step("output", until="p\n", terminalId="@6"),
    step("kill", terminalId="@6"),
    step("wait_for_exit", terminalId="@6"),
    step("output", terminalId="@6"),
    step("release", terminalId="@6"),
    step("create", command="printf", args=["%s", "€€€€"], outputByteLimit=7),
    step("wait_for_exit", terminalId="@12"),
    step("output", terminalId="@12"),
    step("release", terminalId="@12"),
    step("create", command="printf", args=["<%s>", "a b", "$HOME", "*"], env=[]),
    step("wait_for_exit", terminalId="@16"),
    step("output", terminalId="@16"),
    step("release", terminalId="@16"),
    step("create", command="sh", args=["-c", "echo $A"], env=[{"name": "A", "value": "b c"}]),
    step("wait_for_exit", terminalId="@20"),
    step("output", terminalId="@20"),
    step("release", terminalId="@20"),
    step("create", command="no-such-program-anywhere", args=[]),
    step("create", command="pwd", cwd="/none/such"),
    step("create", command="pwd", cwd="/"),
    step("wait_for_exit", terminalId="@26"),
    step("output", terminalId="@26"),
    step("create", command="echo one && echo two"),
    step("wait_for_exit", terminalId="@29"),
    step("output", terminalId="@29"),
]
MEANT = [
    {"result": {"terminalId": "T"}},
    {"result": {"exitCode": 3}},
    {"result": {"output": "outerr", "truncated": False, "exitStatus": {"exitCode": 3}}},
    {"result": {}},
    {"result": {"exitCode": 3}},
    {"result": {}},
    {"result": {"terminalId": "T"}},
    {"result": {"output": "p\n", "truncated": True}},
    {"result": {}},
    {"result": {"signal": "SIGTERM"}},
    {"result": {"output": "p\n", "truncated": True, "exitStatus": {"signal": "SIGTERM"}}},
    {"result": {}},
    {"result": {"terminalId": "T"}},
    {"result": {"exitCode": 0}},
    {"result": {"output": "€€", "truncated": True, "exitStatus": {"exitCode": 0}}},
    {"result": {}},
    {"result": {"terminalId": "T"}},
    {"result": {"exitCode": 0}},
    {"result": {"output": "<a b><$HOME><*>", "truncated": False, "exitStatus": {"exitCode": 0}}},
    {"result": {}},
    {"result": {"terminalId": "T"}},
    {"result": {"exitCode": 0}},
    {"result": {"output": "b c\n", "truncated": False, "exitStatus": {"exitCode": 0}}},
    {"result": {}},
    {"error": -32603},
    {"error": -32603},
    {"result": {"terminalId": "T"}},
    {"result": {"exitCode": 0}},
    {"result": {"output": "/\n", "truncated": False, "exitStatus": {"exitCode": 0}}},
    {"result": {"terminalId": "T"}},
    {"result": {"exitCode": 0}},
    {"result": {"output": "one\ntwo\n", "truncated": False, "exitStatus": {"exitCode": 0}}},
]

DEAF = "trap '' TERM; echo up; while :; do sleep 0.1; done"
# What only we promise: extensions, errors, and what happens when calls meet.
MORE = [
    step("create", command="sh", args=["-c", DEAF]),
    step("output", until="up", terminalId="@0"),
    step("wait_for_exit", terminalId="@0", _meta={"timeoutMs": 20}),
    {
        "all": [
            step("wait_for_exit", terminalId="@0"),
            step("kill", terminalId="@0", _meta={"graceMs": 100}),
            step("wait_for_exit", terminalId="@0"),
        ]
    },
    step("wait_for_exit", terminalId="@0"),
    step("create", command="sleep", args=["300"]),
    step("kill", terminalId="@5", _meta={"signal": "SIGINT"}),
    step("wait_for_exit", terminalId="@5"),
    step("create", command="sh", args=["-c", "echo x; exec sleep 300"], outputByteLimit=0),
    {"all": [step("wait_for_exit", terminalId="@8"), step("release", terminalId="@8")]},
    step("output", terminalId="@8"),
    step("release", terminalId="@8"),
    step("output", terminalId="@0", sessionId="sess_2"),
    step("create", command="pwd", cwd="relative"),
    step("create", command="true", env=[{"name": "", "value": "x"}]),
    step("create", command="sleep", args=["300"], _meta={"timeoutMs": 100}),
    step("wait_for_exit", terminalId="@15"),
]
KILLED = {"result": {"signal": "SIGKILL"}}
WRONG = {"error": -32602}
MORE_MEANT = [
    {"result": {"terminalId": "T"}},
    {"result": {"output": "up\n", "truncated": False}},
    {"result": {}},
    {"all": [KILLED, {"result": {}}, KILLED]},
    KILLED,
    {"result": {"terminalId": "T"}},
    {"result": {}},
    {"result": {"signal": "SIGINT"}},
    {"result": {"terminalId": "T"}},
    {"all": [{"result": {"signal": "SIGTERM"}}, {"result": {}}]},
    *[WRONG] * 5,
    {"result": {"terminalId": "T"}},
    {"result": {"signal": "SIGTERM"}},
]


def plain(answer: Step) -> Step:
    """Without ids, extensions, texts of errors, and nulls, which an SDK may leave out."""
    if "all" in answer:
        return {"all": list(map(plain, answer["all"]))}
    if "error" in answer:
        return {"error": answer["error"]["code"]}
    result = {k: v for k, v in answer["result"].items() if k != "_meta" and v is not None}
    if "terminalId" in result:
        result["terminalId"] = "T"
    if "exitStatus" in result:
        result["exitStatus"] = {k: v for k, v in result["exitStatus"].items() if v is not None}
    return {"result": result}


def placed(steps: list[Step], offset: int) -> list[Step]:
    """The same steps behind others."""
    return [_moved(one, offset) for one in steps]


def _moved(one: Step, offset: int) -> Step:
    if "all" in one:
        return {"all": placed(one["all"], offset)}
    name = str(one["params"].get("terminalId", ""))
    if not name.startswith("@"):
        return one
    return {**one, "params": one["params"] | {"terminalId": f"@{int(name[1:]) + offset}"}}


@pytest.mark.proves("T1-2", "T1-3", "T1-4", "T1-5", "T1-6", "T1-7", "T1-8", "T1-9", "T1-10")
@pytest.mark.proves("T1-11", "T1-13", "T1-14", "T1-15", "T1-16", "T1-17", "T1-18", "T1-19", "T1-28")
@pytest.mark.proves("T1-29", "S1-3")
@pytest.mark.parametrize(
    ("editor", "agent"), [("stable", "pre"), ("pre", "stable"), ("stable", "typescript")]
)
def test_the_host_answers_every_sdk_alike(editor: str, agent: str) -> None:
    argv = typescript_agent() if agent == "typescript" else with_path(sdk(agent), PYTHON_AGENT)

    answers = edited(sdk(editor), [*EVERYTHING, *placed(MORE, len(EVERYTHING))], argv)

    assert list(map(plain, answers)) == [*MEANT, *MORE_MEANT]


# Where acpx differs, and why we do not follow it.
DIFFERENCES: list[tuple[str, list[Step], Step, Step]] = [
    (
        "an unknown id is the caller's mistake (-32602), not a fault of ours (-32603)",
        [step("output", terminalId="term_none")],
        {"error": -32603},
        {"error": -32602},
    ),
    (
        "after release an id is invalid for all methods, release included (C-80)",
        [
            step("create", command="true"),
            step("release", terminalId="@0"),
            step("release", terminalId="@0"),
        ],
        {"result": {}},
        {"error": -32602},
    ),
    (
        "a relative directory is an error: ACP says it must be absolute (T1-16)",
        [step("create", command="pwd", cwd="tmp")],
        {"error": -32603},
        {"error": -32602},
    ),
    (
        "a variable without a name is an error, not left out or passed on (T1-17)",
        [step("create", command="true", env=[{"name": "", "value": "x"}])],
        {"result": {"terminalId": "T"}},
        {"error": -32602},
    ),
    (
        "a terminal belongs to its session",
        [
            step("create", command="sleep", args=["300"]),
            step("output", terminalId="@0", sessionId="sess_2"),
        ],
        {"result": {"output": "", "truncated": False}},
        {"error": -32602},
    ),
]


@pytest.mark.proves("T1-2", "T1-3", "T1-6", "T1-10", "T1-11", "T1-13", "T1-15", "T1-16", "T1-17")
def test_acpx_answers_as_we_do_but_where_we_know_why(tmp_path: Path) -> None:
    steps, last = list(EVERYTHING), []
    for _, some, _, _ in DIFFERENCES:
        steps += placed(some, len(steps))
        last.append(len(steps) - 1)

    theirs = list(map(plain, under_acpx(steps, typescript_agent(), tmp_path)))
    told = under_acpx(steps, [*PROGRAM, *typescript_agent()], tmp_path)
    ours = list(map(plain, told))

    assert theirs[: len(MEANT)] == MEANT
    assert ours[: len(MEANT)] == MEANT
    for (why, _, acpx, shelltie), place in zip(DIFFERENCES, last, strict=True):
        assert (theirs[place], ours[place]) == (acpx, shelltie), why
    assert "_meta" in told[0]["result"], "it was acpx that answered"
