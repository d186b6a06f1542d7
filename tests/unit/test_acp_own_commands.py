"""The MCP server that an agent's sessions get, and what is said of its commands at the end."""

import pytest

from shelltie.frontends.acp.own_commands import mcp_server, summary, with_server

OURS = mcp_server({"HOME": "/h", "XDG_STATE_HOME": "/s", "SHELLTIE_SHELL": "sh"}, "01MARK")
OTHER = {"name": "other", "command": "other", "args": [], "env": []}


@pytest.mark.parametrize("given", [None, [], [OTHER], ["nonsense", 5]])
def test_a_session_gets_our_server_beside_its_own(given: list[object] | None) -> None:
    params = {"cwd": "/", "mcpServers": given}

    served = with_server(params, OURS)

    assert served == {"cwd": "/", "mcpServers": [*(given or []), OURS]}


@pytest.mark.parametrize(
    "given",
    [
        [{"name": "shelltie", "type": "http", "url": "http://127.0.0.1:1/mcp"}],
        [{"name": "terminal", "command": "/opt/bin/shelltie", "args": ["mcp"], "env": []}],
        [{"name": "t", "command": "python3", "args": ["-m", "shelltie", "mcp"], "env": []}],
        "nonsense",
    ],
)
def test_a_session_that_has_one_stays_as_it_is(given: object) -> None:
    assert with_server({"mcpServers": given}, OURS) is None


def test_our_server_keeps_our_directories_settings_and_the_agents_mark() -> None:
    env = {one["name"]: one["value"] for one in OURS["env"]}

    assert env == {"XDG_STATE_HOME": "/s", "SHELLTIE_SHELL": "sh", "SHELLTIE_RUN": "01MARK"}
    assert OURS["args"][-1] == "mcp"


@pytest.mark.parametrize(
    ("terminals", "others", "said"),
    [
        (1, {}, "1 command of the agent through terminals, 0 through MCP; it"),
        (2, {"claude": 2, "x": 1}, "2 commands of the agent through terminals, 3 through MCP; it"),
        (0, {"shelltie run": 4}, "0 commands of the agent through terminals, 0 through MCP, 4"),
        (0, None, "not recorded; it may have run others by itself"),
    ],
)
def test_the_summary_says_what_was_seen_and_what_was_not(
    terminals: int, others: dict[str, int] | None, said: str
) -> None:
    assert said in summary(terminals, others)
