"""mini-swe-agent: an `Environment` whose commands run on leashes.

    environment:
      environment_class: shelltie.adapters.mini_swe_agent.ShelltieEnvironment
      timeout: 60

mini-swe-agent is synchronous, has no cancel and no files: what it offers is `execute`.
"""

import platform
from typing import Any, Self

from minisweagent.environments.local import LocalEnvironment
from pydantic import BaseModel

from shelltie.adapters.raw_output import RawResult, run_raw
from shelltie.approval.broker import Callback
from shelltie.environment.child import inherited
from shelltie.errors import TerminalError
from shelltie.frontends.api import Options, Terminal
from shelltie.frontends.terminal_thread import TerminalThread
from shelltie.model import Caller
from shelltie.output.text import decode


class EnvironmentConfig(BaseModel):
    """What stands below `environment:` in the YAML.

    `timeout` and `silence` are seconds; `silence: null` leaves it to the policy. `max_output` is
    how many bytes an answer has at most: the last ones.
    """

    cwd: str = ""
    env: dict[str, str] = {}
    timeout: float = 30
    silence: float | None = None
    isolation: str | None = None
    max_output: int = 1024 * 1024


class ShelltieEnvironment(LocalEnvironment):
    """Commands run here, in a terminal of their own thread; `close` it, or use it as `with`.

    An environment that nobody closes ends with its program: so does everything it started.
    `approve` is asked about commands that need a yes, in that thread.
    """

    def __init__(
        self,
        *,
        approve: Callback | None = None,
        **settings: Any,  # noqa: ANN401  as the YAML has them
    ) -> None:
        super().__init__(config_class=EnvironmentConfig, **settings)
        terminal = Terminal(approve=approve, caller=Caller(client="mini-swe-agent"))
        self._terminal = TerminalThread(terminal)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End whatever still runs, and the thread."""
        self._terminal.close()

    def execute(
        self, action: dict[str, Any], cwd: str = "", *, timeout: float | None = None
    ) -> dict[str, Any]:
        """Run `action["command"]`; what goes wrong is in the answer, as LocalEnvironment has it.

        Raises: Submitted when the command says that the task is done.
        """
        options = Options(
            cwd=cwd or self.config.cwd or None,
            env=dict(self.config.env),
            timeout=timeout or self.config.timeout,
            silence=self.config.silence,
            isolation=self.config.isolation,
            one_output=True,  # as theirs
        )
        try:
            done = self._terminal.call(
                lambda terminal: run_raw(
                    terminal, action.get("command", ""), self.config.max_output, **options
                )
            )
        except TerminalError as error:
            return _failure("", type(error).__name__, str(error))
        answer = _answer(done)
        self._check_finished(answer)
        return answer

    def get_template_vars(self, **kwargs: Any) -> dict[str, Any]:  # noqa: ANN401  theirs
        """What their templates may use: settings, the machine, and our variables."""
        known = {**self.config.model_dump(), **platform.uname()._asdict(), **inherited()}
        return {**known, **kwargs}


def _answer(done: RawResult) -> dict[str, Any]:
    output = decode(done.both)
    if done.lost:
        output = f"[the first {done.lost} bytes are left out]\n{output}"
    if done.timed_out:
        return _failure(output, "TimeoutExpired", done.why)
    if done.result.error is not None:
        return _failure(output, "CannotStart", done.result.error)
    return {"output": output, "returncode": done.exit_code, "exception_info": ""}


def _failure(output: str, kind: str, why: str) -> dict[str, Any]:
    return {
        "output": output,
        "returncode": -1,
        "exception_info": f"An error occurred while executing the command: {why}",
        "extra": {"exception_type": kind, "exception": why},
    }
