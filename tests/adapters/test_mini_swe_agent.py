"""mini-swe-agent with its own deterministic model: whole loops on our environment."""

import os
from pathlib import Path
from typing import Any

os.environ["MSWEA_SILENT_STARTUP"] = "1"
os.environ["MSWEA_GLOBAL_CONFIG_DIR"] = os.environ["XDG_CONFIG_HOME"]  # it makes it at import

import pytest
from minisweagent.agents.default import DefaultAgent
from minisweagent.environments import get_environment
from minisweagent.models.test_models import DeterministicModel, make_output

from shelltie.adapters.mini_swe_agent import ShelltieEnvironment
from tests.adapters.conftest import HOSTILE, run_example

DONE = "echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT; echo all is well"


@pytest.mark.usefixtures("nobody_left")
def test_an_agent_goes_on_after_a_hostile_command() -> None:
    steps = ["echo one", HOSTILE, DONE]
    model = DeterministicModel(outputs=[make_output("n", [{"command": step}]) for step in steps])
    with ShelltieEnvironment(timeout=3) as environment:
        agent = DefaultAgent(
            model, environment, system_template="s", instance_template="{{task}}", cost_limit=0
        )

        ended = agent.run("try")

    told = "\n".join(str(message["content"]) for message in agent.messages)
    assert ended["exit_status"] == "Submitted"
    assert ended["submission"] == "all is well\n"
    assert "one" in told
    assert "begun" in told  # what a command printed before it was ended is not lost
    assert "An error occurred while executing the command" in told


@pytest.mark.usefixtures("nobody_left")
def test_a_child_that_holds_the_pipe_holds_up_nobody() -> None:
    with ShelltieEnvironment(timeout=60) as environment:
        answer = environment.execute({"command": "sleep 600 & echo started; exit 3"})

    assert answer == {"output": "started\n", "returncode": 3, "exception_info": ""}


def test_a_refused_command_is_an_answer() -> None:
    with ShelltieEnvironment() as environment:
        answer: dict[str, Any] = environment.execute({"command": "rm -rf /"})

    assert answer["returncode"] == -1
    assert answer["extra"]["exception_type"] == "ConfirmationRequired"  # there is nobody to ask


def test_a_program_is_asked_about_what_needs_a_yes(tmp_path: Path) -> None:
    (tmp_path / "gone").mkdir()
    asked = []

    def approve(question: Any) -> bool:
        asked.append(question.command.text)
        return True

    with ShelltieEnvironment(approve=approve, cwd=str(tmp_path)) as environment:
        answer = environment.execute({"command": "rm -rf ~/there-is-no-such-thing; rmdir gone"})

    assert answer["returncode"] == 0
    assert len(asked) == 1
    assert not (tmp_path / "gone").exists()


def test_it_is_found_by_its_name_and_obeys_its_settings(tmp_path: Path) -> None:
    name = "shelltie.adapters.mini_swe_agent.ShelltieEnvironment"
    settings = {"cwd": str(tmp_path), "env": {"WHO": "me"}, "max_output": 4}
    environment = get_environment({"environment_class": name, **settings})
    with environment:
        answer = environment.execute({"command": 'pwd >&2; printf "%s" "$WHO"'})
        template = environment.get_template_vars(more=1)

    assert answer["output"].endswith(f"{tmp_path.name[-1]}\nme")
    assert answer["output"].startswith("[the first ")
    assert (template["cwd"], template["more"]) == (str(tmp_path), 1)
    assert environment.serialize()["info"]["config"]["environment_type"] == name


def test_the_example_runs_as_it_stands() -> None:
    assert run_example("mini-swe-agent") == "Submitted"
