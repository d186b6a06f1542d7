"""Single parts of the engine, each made from a Config: judge, profiles, timeout policy.

`assemble` puts all of them together. Who asks for one alone, as most subcommands do, starts without
an engine and without an event loop.
"""

from pathlib import Path

from shelltie.basics.frozen import fields
from shelltie.basics.worker_threads import Threads
from shelltie.environment import child
from shelltie.errors import ConfigWrong
from shelltie.limits.policy_file import PolicyFile, find
from shelltie.safety.command_lists import lists_of
from shelltie.safety.judge import Judge, find_shfmt
from shelltie.safety.rule_examples import open_rules
from shelltie.safety.rule_set import RuleFile
from shelltie.settings import paths, trust
from shelltie.settings.all_settings import SafetyProfile
from shelltie.settings.config import Config


def policy_file(config: Config, project: Path) -> PolicyFile:
    """The timeout policy in force."""
    return find(project, Path(config.policy.path) if config.policy.path else None)


def shell_of(config: Config) -> tuple[str, ...]:
    """The shell for texts, without anybody's start-up files."""
    shell = config.shell or next(
        (path for path in ("/bin/bash", "/usr/bin/bash") if Path(path).exists()), "/bin/sh"
    )
    return (shell, "--noprofile", "--norc") if Path(shell).name == "bash" else (shell,)


def keeper_of(config: Config) -> str | None:
    """The kind of keeper that is asked for, if any is."""
    return None if config.keeper == "auto" else config.keeper


def profiles(config: Config) -> dict[str, SafetyProfile]:
    """What follows from each rating, by profile."""
    section = config.safety.profiles
    return {f.name: getattr(section, f.name) for f in fields(section)}


def judge_of(
    config: Config, project: Path, *, stays: bool = False, threads: Threads | None = None
) -> Judge:
    """Who rates commands here. One that `stays` for many of them is to be closed.

    Raises: ConfigWrong if a rule file or a pattern of the user's cannot be used.
    """
    safety = config.safety
    try:
        lists = lists_of(safety.safe_commands, safety.dangerous_commands)
    except ValueError as error:
        raise ConfigWrong(f"safety.safeCommands or safety.dangerousCommands: {error}") from error
    return Judge(
        open_rules(_rule_files(project)),
        mode=safety.rating_mode,
        lists=lists,
        path=child.inherited().get("PATH", ""),
        shell=shell_of(config)[0],
        shfmt=find_shfmt(),
        stays=stays,
        threads=threads,
    )


def _rule_files(project: Path) -> list[RuleFile]:
    """The user's own, and the project's, which only tighten until the project is trusted."""
    own = [RuleFile(path) for path in sorted(paths.rules_dir().glob("*.toml"))]
    snapshot = trust.look(project)
    tight = not trust.is_trusted(snapshot, paths.trust_file())
    return [
        *own,
        *(
            RuleFile(snapshot.project / name, tighten_only=tight)
            for name in sorted(snapshot.files)
            if name.startswith(f"{trust.RULES}/rules/") and name.endswith(".toml")
        ),
    ]
