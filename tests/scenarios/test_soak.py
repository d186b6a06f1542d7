"""Promise: a server that works for long does not grow."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.alone  # hundreds of processes

ROOT = Path(__file__).resolve().parent.parent.parent


@pytest.mark.proves("TX-7")
@pytest.mark.timeout(180)
def test_descriptors_processes_and_memory_stay_while_it_works() -> None:
    """The short form; `python -m benchmarks.soak 30` is the long one, and stricter on memory."""
    command = [sys.executable, "-m", "benchmarks.soak", "0.15", "--growth", "24"]

    done = subprocess.run(command, cwd=ROOT, capture_output=True, timeout=170, check=False)

    found = json.loads(done.stdout)
    assert found["wrong"] == [], found
    assert found["late"]["zombies"] == 0
    assert found["late"]["processes"] == 0
