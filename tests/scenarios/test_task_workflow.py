"""The work of a task as an agent does it, with the real npm."""

import json
from pathlib import Path

import pytest

from tests.node_tools import NODE, NPM
from tests.task_project import Caller, Project

SCRIPTS = {
    "lint": "node --check index.js",
    "test": "node test.js",
    "build": "node -e \"require('fs').writeFileSync('out.js', '1')\"",
}


@pytest.fixture
def package(project: Project) -> Path:
    """A package without dependencies, so that no registry is needed."""
    project.tool("npm", f'PATH={NODE.parent}:$PATH exec {NODE} {NPM} --offline --no-audit "$@"')
    place = project.place / "package"
    place.mkdir()
    about = {"name": "sample", "version": "1.0.0", "scripts": SCRIPTS}
    lock = {"name": "sample", "version": "1.0.0", "lockfileVersion": 3, "packages": {"": about}}
    (place / "package.json").write_text(json.dumps(about), encoding="utf-8")
    (place / "package-lock.json").write_text(json.dumps(lock), encoding="utf-8")
    (place / "index.js").write_text("module.exports = 42\n", encoding="utf-8")
    (place / "test.js").write_text(
        "console.log(require('./index') === 42 ? 'ok' : 'no', process.argv.slice(2).join(' '))\n",
        encoding="utf-8",
    )
    return place


@pytest.mark.proves("S4-5", "S4-10", "S4-21", "S4-1")
@pytest.mark.timeout(180)
async def test_a_package_is_installed_checked_tested_and_built(call: Caller, package: Path) -> None:
    session = await call.create(workingDirectory="./package")
    try:
        installed = [await call.execute(session, "npm", word) for word in ("install", "ci")]
        linted = await call.execute(session, "npm", "run", "lint")
        tested = await call.execute(session, "npm", "test", "--", "--coverage", timeout=120_000)
        built = await call.execute(session, "npm", "run", "build")
        status = await call.status(session)
    finally:
        closed = await call.close(session)

    assert [one["success"] for one in installed] == [True, True], installed
    assert linted["success"], linted
    assert (tested["success"], tested["exitCode"], tested["truncated"]) == (True, 0, False)
    assert tested["stdout"].endswith("ok --coverage\n")
    assert isinstance(tested["duration"], int)
    assert built["success"], built
    assert (package / "out.js").read_text(encoding="utf-8") == "1"
    assert (status["state"], status["commandCount"]) == ("completed", 5)
    assert closed["success"]
