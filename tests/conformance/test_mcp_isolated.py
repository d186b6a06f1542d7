"""Isolation as an agent sees it over MCP: refused hosts, and a shell that stays in a sandbox."""

from collections.abc import Iterator
from pathlib import Path

import anyio
import jsonschema
import pytest

from shelltie.frontends.mcp.tools.run import RUN
from tests.sandboxes import project_away_from_home
from tests.served import served

pytestmark = pytest.mark.needs("bwrap", "curl")


@pytest.fixture
def workspace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    with project_away_from_home(tmp_path, monkeypatch) as path:
        (path / "sub").mkdir()
        yield path


async def test_an_agent_is_told_of_refused_hosts_and_can_have_an_isolated_shell(
    workspace: Path,
) -> None:
    listed = {"SHELLTIE_SANDBOX_NETWORK": "allow", "SHELLTIE_SANDBOX_NETWORK_ALLOW": "npm"}
    with anyio.fail_after(150):
        async with served(**listed) as server:
            refused = await server.call(
                "run", command="curl -sS https://files.pythonhosted.org/", isolation="sandbox"
            )
            first = await server.call(
                "terminal_start", command="cd sub; hostname", mode="shell", isolation="sandbox"
            )
            second = await server.call(
                "terminal_continue", sessionId=first["id"], command="pwd; (exit 3)", maxWait=50
            )

    entry = {"host": "files.pythonhosted.org:443", "entry": "pypi"}
    assert (refused["refusedHosts"], refused["blocked"]) == ([entry], ["hosts"])
    assert "`shelltie config add sandbox.network_allow pypi`" in refused["hint"]
    assert RUN.output_schema is not None
    jsonschema.validate(refused, RUN.output_schema)
    assert (first["isolation"], "sandbox" in first["output"]) == ("sandbox", True)
    assert (str(workspace / "sub") in second["output"], second["exitCode"]) == (True, 3)
