"""What a person who runs servers can see of them: figures, health, and alerts as they happen."""

import json
from pathlib import Path
from typing import cast

import anyio.to_thread
import pytest
from prometheus_client.parser import text_string_to_metric_families

from shelltie.errors import ConfigWrong
from shelltie.events import Alerted, Event
from shelltie.frontends.control import client
from shelltie.settings.layers import load
from tests.asking import shelltie
from tests.conftest import Open
from tests.served import served, socket_of
from tests.tree import QUICK, until

STUBBORN = "trap '' TERM; while :; do sleep 0.1; done"


async def alerts_of(command: str, open_terminal: Open, **settings: object) -> list[Alerted]:
    events: list[Event] = []
    async with open_terminal(events.append, **settings) as terminal:
        await terminal.run(command, timeout=5, silence=0, escalation=QUICK)  # it is deaf by then
    return [event for event in events if isinstance(event, Alerted)]


@pytest.mark.proves("T1-30", "S1-29")
async def test_a_command_that_must_be_killed_alerts_twice(open_terminal: Open) -> None:
    told = await alerts_of(STUBBORN, open_terminal)

    assert [one.alert for one in told] == ["timeout", "sigkill"]
    assert told[0].run == told[1].run


@pytest.mark.proves("S1-32")
async def test_alerts_that_nobody_wants_are_not_told(open_terminal: Open) -> None:
    told = await alerts_of(STUBBORN, open_terminal, alerts_on=("sigkill",))

    assert [one.alert for one in told] == ["sigkill"]


async def test_a_command_of_ones_own_is_told_of_an_alert(
    open_terminal: Open, tmp_path: Path
) -> None:
    file = tmp_path / "alerts"
    async with open_terminal(alerts_command=f"cat >> {file}") as terminal:
        result = await terminal.run("sleep 30", timeout=0.5, silence=0)
        await until(lambda: file.exists() and file.read_bytes().endswith(b"\n"))

    said = json.loads(file.read_text(encoding="utf-8"))
    assert (said["alert"], said["runId"], said["over"]) == ("timeout", result.run_id, False)


async def test_a_command_for_alerts_that_does_not_exist_harms_nobody(open_terminal: Open) -> None:
    async with open_terminal(alerts_command="/no/such/program") as terminal:
        late = await terminal.run("sleep 30", timeout=0.5, silence=0)
        after = await terminal.run("echo fine")

    assert (late.status, after.stdout) == ("timeout", "fine\n")


@pytest.mark.proves("T4-20", "S4-36", "S4-58")
async def test_figures_and_health_follow_what_really_ran(open_terminal: Open) -> None:
    async with open_terminal() as terminal:
        for number in range(20):
            await terminal.run(["true"] if number else ["false"])
        measures = terminal.supervisor.measures
        assert measures is not None
        health = {str(check["name"]): check for check in measures.health()}
        text = measures.text()

    assert (health["success"]["value"], health["success"]["ok"]) == (0.95, False)
    assert all(check["ok"] for name, check in health.items() if name != "success")
    found = {
        (sample.name, sample.labels.get("outcome")): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }
    assert found[("shelltie_runs_total", "success")] == 19
    assert found[("shelltie_runs_total", "error")] == 1
    assert found[("shelltie_run_duration_seconds_count", "success")] == 19
    assert found[("shelltie_runs_active", None)] == 0


@pytest.mark.proves("S4-47")
async def test_the_figures_of_all_servers_are_one_text() -> None:
    async with served() as one, served() as other:
        await one.call("run", command="true")
        await other.start("sleep 60")
        _, text, _ = await shelltie("metrics")
        health = await anyio.to_thread.run_sync(client.ask, socket_of(other.pid), "health")

    active = {
        sample.labels["server"]: sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
        if sample.name == "shelltie_sessions_active"
    }
    assert active == {str(one.pid): 0, str(other.pid): 1}
    checks = cast(list[dict[str, object]], health["checks"])
    assert {check["name"]: check["value"] for check in checks}["sessions"] == 1


async def test_without_a_server_there_are_no_figures_and_that_is_said() -> None:
    code, text, told = await shelltie("metrics")

    assert (code, text) == (0, "")
    assert "no server runs here" in told


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("alerts.success", "1.5"),
        ("alerts.success", "nan"),
        ("alerts.truncated", "often"),
        ("alerts.on", "timeout,earthquake"),
        ("alerts.duration", "-1"),
        ("alerts.command", ""),
    ],
)
def test_a_threshold_that_is_none_is_refused(tmp_path: Path, key: str, value: str) -> None:
    with pytest.raises(ConfigWrong, match=key):
        load(tmp_path, {key: value})
