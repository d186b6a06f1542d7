"""Text of `--help`: the groups of commands, and examples for each of them."""

from collections.abc import Mapping

GROUPS: Mapping[str, tuple[str, ...]] = {
    "run": ("run", "check", "demo"),
    "see what happens": ("web", "top", "ps", "monitor", "logs", "attach", "pending"),
    "on trial": ("changes", "apply", "discard", "undo"),
    "step in": ("approve", "deny", "approvals", "send", "kill"),
    "look back": ("history", "stats", "report", "export", "replay", "audit", "metrics"),
    "serve agents": ("mcp", "acp", "install", "uninstall", "hook"),
    "set up": ("doctor", "config", "policy", "trust", "places", "paths", "completion"),
}

EXAMPLES: Mapping[str, tuple[str, ...]] = {
    "": (
        "shelltie run --total 10m -- make test",
        "shelltie check 'rm -rf build'",
        "shelltie ps",
        "shelltie history --failed",
    ),
    "run": (
        "shelltie run -- npm test",
        "shelltie run --total 10m --silence 1m -- 'make && make install'",
        "shelltie run --isolation sandbox -- ./untrusted.sh",
        "shelltie run --trial -- npm run migrate",
    ),
    "changes": ("shelltie changes", "shelltie changes t1 --diff"),
    "apply": ("shelltie apply t1", "shelltie apply t1 src README.md"),
    "discard": ("shelltie discard t1",),
    "undo": ("shelltie undo t1",),
    "check": (
        "shelltie check 'rm -rf build'",
        "shelltie check --exit-code 'git push --force' || echo 'not without a person'",
        """echo '{"command": "ls"}' | shelltie check --jsonl""",
    ),
    "web": ("shelltie web", "shelltie web --port 8022 --allow-input"),
    "top": ("shelltie top",),
    "ps": ("shelltie ps", "shelltie ps --watch"),
    "monitor": ("shelltie monitor", "shelltie monitor --json | jq .type"),
    "logs": (
        "shelltie logs 01M7HZQ89VAA",
        "shelltie logs -f term-1",
        "shelltie logs --tail 20 01M7",
    ),
    "attach": ("shelltie attach term-1", "shelltie attach --write term-1"),
    "send": ("shelltie send term-1 y", "shelltie send term-1 --key ctrl-c"),
    "kill": ("shelltie kill term-1", "shelltie kill --all --yes"),
    "pending": ("shelltie pending", "shelltie pending --watch"),
    "approve": ("shelltie approve JAFV60", "shelltie approve JAFV60 --always"),
    "deny": ("shelltie deny JAFV60 --reason 'use a branch'",),
    "approvals": ("shelltie approvals", "shelltie approvals revoke 3"),
    "history": (
        "shelltie history --failed --since 2h",
        "shelltie history --client claude --text npm",
        "shelltie history show 01M7HZQ89VAA",
    ),
    "stats": ("shelltie stats --here",),
    "report": ("shelltie report --open", "shelltie report -o report.html --here"),
    "export": ("shelltie export 01M7HZQ89VAA --html > run.html",),
    "replay": ("shelltie replay 01M7HZQ89VAA --speed 2",),
    "audit": ("shelltie audit tail", "shelltie audit verify"),
    "metrics": ("shelltie metrics", "shelltie metrics --health"),
    "mcp": ("claude mcp add shelltie -- shelltie mcp", "shelltie mcp --http 127.0.0.1:8021"),
    "acp": ("shelltie acp -- claude-code-acp",),
    "hook": ("shelltie hook claude < what-claude-code-sent.json",),
    "install": ("shelltie install claude --hook", "shelltie install zed --print"),
    "uninstall": ("shelltie uninstall claude",),
    "doctor": ("shelltie doctor",),
    "demo": ("shelltie demo",),
    "config": ("shelltie config list output", "shelltie config set limits.grace 10"),
    "policy": ("shelltie policy show", "shelltie policy init"),
    "trust": ("shelltie trust .", "shelltie trust --list"),
    "places": ("shelltie places apply agents | kubectl apply -f -",),
    "paths": ("shelltie paths",),
    "completion": ("source <(shelltie completion bash)",),
}


def examples(command: str) -> str:
    """The examples of a command, as a block; nothing where there are none."""
    lines = EXAMPLES.get(command, ())
    return "\n".join(["examples:", *(f"  {line}" for line in lines)]) if lines else ""


def grouped(helps: Mapping[str, str]) -> str:
    """All commands with what they do, by group; what is in no group comes last."""
    listed = {name for names in GROUPS.values() for name in names}
    rest = tuple(name for name in helps if name not in listed)
    blocks = []
    for title, names in (*GROUPS.items(), ("others", rest)):
        lines = [f"  {name:<11} {helps[name]}" for name in names if name in helps]
        if lines:
            blocks.append("\n".join([f"{title}:", *lines]))
    return "\n\n".join(blocks)
