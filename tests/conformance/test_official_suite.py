"""The official conformance suite, both versions, against our server with its fixtures beside it."""

import re
import subprocess
import sys
from pathlib import Path

import anyio
import pytest

from tests.conformance.http_mcp import listening
from tests.node_tools import NODE, node_environment, node_package

FIXTURE = [sys.executable, "-m", "tests.conformance.fixture.server"]
EXPECTED = Path(__file__).with_name("expected-failures.yml")
RUNS = [
    ("0.1.16", []),
    ("0.2.0-alpha.12", ["--requirements", "2025-11-25"]),
    ("0.2.0-alpha.12", ["--requirements", "2026-07-28", "--expected-failures", str(EXPECTED)]),
]
LEAST = [30, 30, 40]  # scenarios; a suite that runs nothing proves nothing


@pytest.mark.timeout(600)
@pytest.mark.proves("TX-4")
async def test_the_official_suite_finds_nothing_that_is_not_written_down(tmp_path: Path) -> None:
    for (version, options), least in zip(RUNS, LEAST, strict=True):
        suite = node_package("@modelcontextprotocol/conformance", version) / "dist" / "index.js"
        async with listening(FIXTURE, tmp_path / "tokens", PYTHONWARNINGS="ignore") as server:
            command = [str(NODE), str(suite), "server", "--url", server.url, *options]
            with anyio.fail_after(300):
                ended = await anyio.run_process(
                    command,
                    check=False,
                    cwd=tmp_path,
                    env=node_environment(),
                    stdin=subprocess.DEVNULL,
                    stderr=subprocess.STDOUT,
                )
        said = ended.stdout.decode()

        assert ended.returncode == 0, f"{version} {options}\n{said}"
        assert len(set(re.findall(r"^✓ ([\w-]+): \d+ passed", said, re.MULTILINE))) >= least, said
