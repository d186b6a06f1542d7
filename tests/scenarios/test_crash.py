"""Promise: whenever the server dies, what it started is on record, settled, and gone."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.alone  # hundreds of processes

ROOT = Path(__file__).resolve().parent.parent.parent


@pytest.mark.proves("TX-6", "T1-25")
@pytest.mark.timeout(180)
def test_a_server_shot_twenty_times_under_load_loses_no_record_and_leaves_nobody() -> None:
    """The long form is `python -m benchmarks.crash 200`."""
    command = [sys.executable, "-m", "benchmarks.crash", "20"]

    done = subprocess.run(command, cwd=ROOT, capture_output=True, timeout=170, check=False)

    found = json.loads(done.stdout)
    assert found["wrong"] == [], found
    assert done.returncode == 0
    assert found["started"] > 0
    assert found["lost"] > 0
