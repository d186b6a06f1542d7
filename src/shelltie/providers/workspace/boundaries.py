"""Workspace directory: which one an isolated command may write, and what in it is read-only.

What is in it and is run later by another program, outside, would be a way out. So what git,
editors and agents run or obey by themselves is read-only in it, as far as it is there.
"""

import os
from collections.abc import Callable, Iterable
from contextlib import suppress
from itertools import islice
from pathlib import Path

from shelltie.errors import CannotStart

# Nobody works in these, and to write there is to change the machine.
_SYSTEM = (
    *("/bin", "/boot", "/dev", "/etc", "/lib", "/lib32", "/lib64", "/libx32"),
    *("/nix", "/proc", "/run", "/sbin", "/sys", "/usr"),
)
_TOO_WIDE = ("/", "/home", "/mnt", "/media", "/opt", "/root", "/srv", "/tmp", "/var", "/var/tmp")  # noqa: S108  only compared
# Agents, editors, debuggers, shells and package managers obey these by themselves.
OBEYED_HERE = (
    *(".shelltie.toml", ".shelltie", "config/terminal_timeout_policy.json"),
    *(".mcp.json", ".claude", ".codex", ".cursor", ".gemini", ".windsurf", ".continue", ".roo"),
    *(".clinerules", ".aider.conf.yml", "opencode.json", ".agents", ".kiro", ".opencode"),
    *(".amazonq", ".junie", ".cursorrules", ".windsurfrules", ".goosehints"),
    *("CLAUDE.md", "CLAUDE.local.md", "AGENTS.md", "AGENTS.override.md", "GEMINI.md"),
    *(".github/copilot-instructions.md", ".github/instructions", ".github/prompts"),
    *(".vscode", ".idea", ".zed", ".devcontainer", ".devcontainer.json", ".dir-locals.el"),
    *(".exrc", ".nvimrc", ".nvim.lua", ".vimrc", ".gdbinit", ".lldbinit", ".pdbrc", ".Rprofile"),
    *(".envrc", "mise.toml", ".mise.toml", ".config/mise", ".tool-versions"),
    *(".bashrc", ".bash_profile", ".profile", ".zshrc", ".zshenv"),
    *(".husky", ".pre-commit-config.yaml", ".overcommit.yml"),
    *("lefthook.yml", ".lefthook.yml", "lefthook.yaml", ".lefthook.yaml", "lefthook.toml"),
    *("lefthook-local.yml", ".lefthook-local.yml"),
    *(".npmrc", ".yarnrc", ".yarnrc.yml", ".yarn/releases", ".yarn/plugins"),
    *(".pnpmfile.cjs", ".pnpmfile.mjs", "bunfig.toml", ".cargo/config.toml", ".cargo/config"),
)
# A CI service obeys these once somebody has pushed them. No mount guards them: `git switch` could
# not write them, and there is a person in between.
_OBEYED_BY_CI = (
    *(".github/workflows", ".github/actions", ".gitlab-ci.yml", ".circleci", ".travis.yml"),
    *(".buildkite", ".woodpecker", ".woodpecker.yml", ".forgejo/workflows", ".gitea/workflows"),
    *("azure-pipelines.yml", "bitbucket-pipelines.yml", "Jenkinsfile"),
)
OBEYED = (*OBEYED_HERE, *_OBEYED_BY_CI)

_INSTALLED = (
    ".venv/lib/python*/site-packages/*.py",
    ".venv/lib/python*/site-packages/*/__init__.py",
    "node_modules/.pnpm/*/node_modules/*/package.json",
)
_SAMPLES = 20


def checked(given: str, home: Path, ours: tuple[Path, ...]) -> Path:
    """The real directory, if one may let commands write there. `ours` are shelltie's own.

    Raises: CannotStart.
    """
    advice = "start shelltie in the project's directory, or set sandbox.workspace to it"
    try:
        path = Path(os.path.realpath(given or "."))
        inside = path.is_dir() and os.access(path, os.R_OK | os.X_OK)
    except (OSError, ValueError) as error:  # a NUL, or a directory above it that we may not enter
        raise CannotStart(f"the workspace {given!r} cannot be entered: {advice}") from error
    if not path.is_dir():
        raise CannotStart(f"the workspace {path} is no directory: {advice}")
    if not inside:
        raise CannotStart(f"the workspace {path} cannot be read by this user: {advice}")
    unfit = _unfit(path, home, ours)
    if unfit:
        raise CannotStart(f"{path} {unfit}: {advice}")
    return path


def _unfit(path: Path, home: Path, ours: tuple[Path, ...]) -> str:
    if str(path) in _TOO_WIDE or path == home or path in home.parents:
        return "is too wide for a workspace, all of it could be written"
    if within(map(Path, _SYSTEM))(path):
        return "belongs to the system and is no workspace"
    return "is shelltie's own and is no workspace" if within(ours)(path) else ""


def within(roots: Iterable[Path]) -> Callable[[Path], bool]:
    """Whether a path is one of these directories, or in one."""
    tops = frozenset(roots)
    return lambda path: path in tops or not tops.isdisjoint(path.parents)


def obeyed(workspace: Path) -> tuple[Path, ...]:
    """What programs here obey by themselves, by its names: it may not be there."""
    return tuple(workspace / name for name in OBEYED_HERE)


def hard_linked(workspace: Path) -> Path | None:
    """An installed file that is elsewhere, too: uv and pnpm link to a cache that all projects use.

    Whoever writes to it here changes it for them, and no mount is in the way.
    """
    for pattern in _INSTALLED:
        with suppress(OSError):
            for file in islice(workspace.glob(pattern), _SAMPLES):
                if file.lstat().st_nlink > 1:
                    return file
    return None


def guardable(path: Path) -> bool:
    """Whether it is there, under its own name: on a link there can be no mount."""
    return os.path.lexists(path) and os.path.realpath(path) == str(path)
