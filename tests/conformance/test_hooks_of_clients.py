"""Our hook, called by the real Claude Code, Codex and Gemini CLI, with a model on loopback."""

import json
import os
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.cli import SHELLTIE
from tests.conformance.test_other_clients import on_linux, run
from tests.fake_model import FakeModel, fake_model
from tests.node_tools import node_environment, node_package

SAFE, DANGEROUS = r"printf 'safe-%d\n' 42", "rm -rf kept"

pytestmark = [on_linux, pytest.mark.timeout(600)]


def claude_run(model: FakeModel, _: Path) -> tuple[list[str | Path], dict[str, str]]:
    package = node_package("@anthropic-ai/claude-code", "2.1.325").parent / "claude-code-linux-x64"
    options = ["-p", "go", "--output-format", "stream-json", "--verbose"]
    return [package / "claude", *options], {
        "ANTHROPIC_BASE_URL": model.url,
        "ANTHROPIC_API_KEY": "dummy",
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        "DISABLE_AUTOUPDATER": "1",
    }


def codex_run(model: FakeModel, home: Path) -> tuple[list[str | Path], dict[str, str]]:
    package = node_package("@openai/codex", "0.166.0").parent / "codex-linux-x64" / "vendor"
    codex = package / "x86_64-unknown-linux-musl" / "bin" / "codex"
    config = home / ".codex" / "config.toml"
    provider = (
        f'[model_providers.fake]\nname = "fake"\nbase_url = "{model.url}/v1"\n'
        'wire_api = "responses"\nrequires_openai_auth = false\n'
    )
    chosen = 'model = "fake"\nmodel_provider = "fake"\n'
    config.write_text(f"{chosen}{config.read_text(encoding='utf-8')}\n{provider}", encoding="utf-8")
    # Nobody is here to trust the hook in its window, as a person must.
    options = ["--skip-git-repo-check", "--dangerously-bypass-hook-trust", "--json"]
    return [codex, "exec", *options, "-s", "danger-full-access", "go"], {}


def gemini_run(model: FakeModel, home: Path) -> tuple[list[str | Path], dict[str, str]]:
    gemini = node_package("@google/gemini-cli", "0.61.0").parents[1] / ".bin" / "gemini"
    settings = home / ".gemini" / "settings.json"
    known = json.loads(settings.read_text(encoding="utf-8"))
    known |= {
        "security": {"auth": {"selectedType": "gemini-api-key"}},
        "general": {"enableAutoUpdate": False},
        "privacy": {"usageStatisticsEnabled": False},
        "mcpServers": {},
    }
    settings.write_text(json.dumps(known), encoding="utf-8")
    # Its router would ask a second model which one to take.
    options = ["-m", "gemini-2.5-flash", "--yolo", "-p", "go"]
    return [gemini, *options], {
        "GEMINI_API_KEY": "dummy",
        "GOOGLE_GEMINI_BASE_URL": model.url,
        "GEMINI_CLI_TRUST_WORKSPACE": "true",
    }


RUNS = {"claude": claude_run, "codex": codex_run, "gemini": gemini_run}


def own_places(home: Path) -> Mapping[str, str]:
    """Nothing of the user who runs the tests; the client's own programs are not on the PATH."""
    return {
        "SHELLTIE_SAFETY_PROFILES_RUN_DANGEROUS": "ask",
        "HOME": str(home),
        "CODEX_HOME": str(home / ".codex"),
        "XDG_STATE_HOME": str(home / "state"),
        "XDG_CONFIG_HOME": str(home / "config"),
        "PATH": f"{node_environment()['PATH'].partition(':')[0]}:{os.defpath}",
    }


@pytest.mark.parametrize("client", RUNS)
async def test_a_safe_command_runs_and_a_dangerous_one_is_kept_from_it(
    client: str, tmp_path: Path
) -> None:
    kept = tmp_path / "kept"
    kept.mkdir()
    for place in (".claude", ".codex", ".gemini"):
        (tmp_path / place).mkdir()
    (tmp_path / ".claude.json").write_text("{}", encoding="utf-8")
    env = own_places(tmp_path)
    installed = await run([*SHELLTIE, "install", client, "--hook"], tmp_path, **env)
    with fake_model(SAFE, DANGEROUS) as model:
        command, own = RUNS[client](model, tmp_path)
        ended = await run(command, tmp_path, **{**env, **own})
    recorded = await run([*SHELLTIE, "audit", "tail", "--json"], tmp_path, **env)

    assert installed.returncode == 0, installed
    assert len(model.results) == 2, (model.results, ended)
    assert "safe-42" in model.results[0]
    assert "deletes whole trees" in model.results[1]
    assert kept.exists()
    assert DANGEROUS in recorded.stdout.decode()
