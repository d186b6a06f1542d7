"""What others install shelltie from: checked by the real tools, and alike in what they say."""

import json
import tomllib
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from shelltie.frontends.clients.registry import CLIENTS
from tests.conformance.test_other_clients import on_linux, run
from tests.node_tools import NODE, node_package

ROOT = Path(__file__).resolve().parents[2]
PACKAGING = ROOT / "packaging"
PLUGIN, EXTENSION = PACKAGING / "claude-plugin", PACKAGING / "gemini-extension"
FILES = {
    "plugin": PLUGIN / ".claude-plugin" / "plugin.json",
    "extension": EXTENSION / "gemini-extension.json",
    "bundle": PACKAGING / "mcpb" / "manifest.json",
    "server": PACKAGING / "server.json",
}
# What the MCP registry is documented to refuse; its own schema is not on npm or PyPI.
REGISTRY = {
    "type": "object",
    "required": ["$schema", "name", "description", "version", "packages"],
    "additionalProperties": False,
    "properties": {
        "$schema": {"pattern": r"^https://static\.modelcontextprotocol\.io/schemas/.+\.json$"},
        "name": {"pattern": r"^[a-zA-Z0-9.-]+/[a-zA-Z0-9._-]+$", "maxLength": 200},
        "title": {"type": "string", "maxLength": 100},
        "description": {"type": "string", "minLength": 1, "maxLength": 100},
        "version": {"type": "string"},
        "packages": {
            "type": "array",
            "items": {
                "required": ["registryType", "identifier", "version", "transport"],
                "properties": {"transport": {"properties": {"type": {"const": "stdio"}}}},
            },
        },
    },
}

pytestmark = pytest.mark.timeout(600)


def read(path: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return found


def test_every_file_has_our_version_and_starts_our_server() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    files = {name: read(path) for name, path in FILES.items()}
    server = {"command": "shelltie", "args": ["mcp"]}

    assert {one["version"] for one in files.values()} == {project["version"]}
    assert files["server"]["packages"][0]["version"] == project["version"]
    assert {one["name"].rpartition("/")[2] for one in files.values()} == {project["name"]}
    assert read(PLUGIN / ".mcp.json")["mcpServers"]["shelltie"] == server
    assert files["extension"]["mcpServers"]["shelltie"] == server
    assert files["bundle"]["server"]["mcp_config"] == {**server, "env": {}}
    assert files["server"]["packages"][0]["packageArguments"][0]["value"] == "mcp"


@pytest.mark.parametrize(("client", "place"), [("claude", PLUGIN), ("gemini", EXTENSION)])
def test_their_hooks_are_those_that_install_writes(client: str, place: Path) -> None:
    hooks = CLIENTS[client].hooks
    assert hooks is not None
    expected = {event: [entry] for event, entry in hooks.entries(["shelltie"]).items()}

    assert read(place / "hooks" / "hooks.json") == {"hooks": expected}


def test_the_registry_would_take_our_server_file() -> None:
    jsonschema.validate(read(FILES["server"]), REGISTRY)


@on_linux
async def test_the_real_tools_accept_plugin_extension_and_bundle(tmp_path: Path) -> None:
    claude = node_package("@anthropic-ai/claude-code", "2.1.325").parent / "claude-code-linux-x64"
    gemini = node_package("@google/gemini-cli", "0.61.0").parents[1] / ".bin" / "gemini"
    bundle = node_package("@anthropic-ai/mcpb", "2.1.2") / "dist" / "cli" / "cli.js"
    broken = tmp_path / "manifest.json"
    broken.write_text("{}", encoding="utf-8")

    plugin = await run([claude / "claude", "plugin", "validate", "--strict", PLUGIN], tmp_path)
    extension = await run([gemini, "extensions", "validate", EXTENSION], tmp_path)
    good = await run([NODE, bundle, "validate", FILES["bundle"]], tmp_path)
    bad = await run([NODE, bundle, "validate", broken], tmp_path)

    assert plugin.returncode == 0, plugin
    assert b"Validation passed" in plugin.stdout
    assert extension.returncode == 0, extension
    assert (good.returncode, bad.returncode != 0) == (0, True), (good, bad)
