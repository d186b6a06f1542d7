"""`shelltie paths`: every file and directory in use, and whether it exists."""

import sys
from argparse import Namespace
from collections.abc import Iterator
from pathlib import Path

from shelltie.assemble_parts import keeper_of, policy_file
from shelltie.frontends.cli.console import Style, print_json
from shelltie.keeper.binaries import choose
from shelltie.limits.policy_file import SCHEMA_FILE, SHIPPED_FILE
from shelltie.settings import paths
from shelltie.settings.layers import load
from shelltie.settings.trust import RULES


def main(args: Namespace) -> int:
    """Print them all."""
    found = [(name, path, path.exists()) for name, path in _paths()]
    if args.json:
        print_json({name: {"path": str(path), "exists": there} for name, path, there in found})
        return 0
    ink = Style(sys.stdout, args.color)
    # Paths are there to be copied, so they are not folded and the width of no terminal matters.
    for name, path, there in found:
        print(f"{name:<18}{ink('green', '✓') if there else ink('dim', '-')} {path}")
    return 0


def _paths() -> Iterator[tuple[str, Path]]:
    project = paths.here()
    yield "systemConfig", paths.system_file()
    yield "userConfig", paths.user_file()
    yield "projectConfig", paths.project_file(project)
    yield "trustedProjects", paths.trust_file()
    yield "approvedCommands", paths.approved_file()
    yield "approvedKinds", paths.approved_kinds_file()
    yield "rules", paths.rules_dir()
    yield "projectRules", project / RULES
    config = load(project)
    yield "policyInForce", Path(policy_file(config, project).origin)
    yield "projectPolicy", policy_file(config, project).path
    yield "shippedPolicy", SHIPPED_FILE
    yield "policySchema", SCHEMA_FILE
    yield "httpTokens", paths.tokens_file()
    yield "state", Path(config.state.dir)
    yield "output", Path(config.state.dir) / "output"
    yield "journal", config.journal
    for number, place in enumerate(paths.runtime_dirs(), start=1):
        yield f"sockets{number}", place  # the first that can be used is
    yield "keeper", Path(choose(keeper_of(config))[0][-1])
