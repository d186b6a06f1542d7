"""Hints after a bad end: what to try next, and what isolation blocked. Pure."""

import re
import signal
from collections.abc import Collection, Sequence, Set

from shelltie.basics.lazy_regex import lazy
from shelltie.basics.times import human_duration
from shelltie.environment.masked_places import IN_HOME, IN_SYSTEM
from shelltie.model import Bar, Ended, Limit, Limits, Outcome, RefusedHost, State
from shelltie.providers.proxy.addresses import is_private_host
from shelltie.shell.split import segments, strip_prefixes

_SERVER = lazy(
    r"\b(runserver|http\.server|uvicorn|gunicorn|nodemon|flask run|rails s(erver)?|ng serve|--watch"
    r"|tail -[fF]|docker compose up|webpack serve"
    r"|(npm|pnpm|yarn|bun)( run)? (dev|start|serve|watch)|next dev|vite( dev)?$)"
)
_QUESTION = lazy(
    r"(\[y/n\]|\(y/n\)|\[yes/no\]|\(yes/no.*\)|password.*:|passphrase.*:|\?|:|>)\s*$", re.IGNORECASE
)
# Programs, and the variables in which they look for what lets them in.
_WANTED = (
    ("gh", "GH_* GITHUB_TOKEN GITHUB_ENTERPRISE_TOKEN"),
    ("glab", "GITLAB_*"),
    ("git.{0,80}(?:push|pull|fetch|clone|ls-remote|submodule)", "SSH_AUTH_SOCK *_TOKEN"),
    ("ssh|scp|sftp|rsync|mosh|ssh-add|ansible(?:-playbook)?", "SSH_AUTH_SOCK"),
    ("gpg|git.{0,80}(?:commit|tag)", "GPG_AGENT_INFO"),
    ("busctl|gdbus|notify-send|secret-tool|systemctl", "DBUS_SESSION_BUS_ADDRESS"),
    ("aws|sam|cdk|eksctl|terraform|tofu|pulumi|packer|serverless", "AWS_*"),
    ("gcloud|gsutil|bq|terraform|tofu|pulumi", "GOOGLE_* CLOUDSDK_*"),
    ("az|azd|terraform|tofu|pulumi", "AZURE_* ARM_*"),
    ("terraform|tofu", "TF_*"),
    ("pulumi", "PULUMI_*"),
    ("vault", "VAULT_*"),
    ("npm|pnpm|yarn|bun|npx", "NPM_* NODE_AUTH_TOKEN YARN_*"),
    ("twine|uv|poetry|hatch|flit|pip", "TWINE_* UV_* POETRY_* PYPI_* HATCH_* FLIT_* PIP_*"),
    ("cargo", "CARGO_*"),
    ("gem|bundle", "GEM_* RUBYGEMS_* BUNDLE_*"),
    ("psql|pg_dump|pg_restore|pgcli|createdb|dropdb", "PGPASSWORD POSTGRES* PG_* *DATABASE_URL"),
    ("mysql|mysqldump|mariadb", "MYSQL_* MARIADB_* *DATABASE_URL"),
    ("redis-cli", "REDISCLI_AUTH REDIS_*"),
    ("mongosh|mongodump|mongorestore", "MONGO*"),
    (
        "prisma|rails|rake|alembic|sqlx|diesel|knex|flyway|dbmate|drizzle-kit|manage.py",
        "*DATABASE_URL DB_* DATABASE_* PGPASSWORD SECRET_KEY*",
    ),
    ("docker|podman|skopeo|buildah|helm", "DOCKER_* REGISTRY_* CR_PAT"),
    ("heroku", "HEROKU_*"),
    ("vercel", "VERCEL_*"),
    ("netlify", "NETLIFY_*"),
    ("fly|flyctl", "FLY_*"),
    ("wrangler", "CLOUDFLARE_* CF_*"),
    ("doctl", "DIGITALOCEAN_*"),
    ("railway", "RAILWAY_*"),
    ("supabase", "SUPABASE_*"),
    ("stripe", "STRIPE_*"),
    ("sentry-cli", "SENTRY_*"),
    ("openai|codex|aider|llm", "OPENAI_*"),
    ("anthropic|claude|aider|llm", "ANTHROPIC_*"),
    ("gemini", "GEMINI_* GOOGLE_*"),
    ("huggingface-cli|hf", "HF_* HUGGING*"),
    ("wandb", "WANDB_*"),
    ("restic", "RESTIC_*"),
    ("borg", "BORG_*"),
    ("rclone", "RCLONE_*"),
    ("sops", "SOPS_*"),
    ("snyk", "SNYK_*"),
    ("kaggle", "KAGGLE_*"),
)
_NAMED_MAX = 4
_SESSION = "what should stay needs a session (terminal_start)"


_MORE = {
    "memory": (
        "It used up its memory and was ended for it by the kernel, in part or all",
        "resources.memory, or container.memory,",
    ),
    "tasks": ("It met its limit of processes", "resources.tasks, or container.processes,"),
}


def hint(
    outcome: Outcome, limits: Limits, text: str, last_line: str, *, kept: bool = False
) -> str | None:
    """One or two sentences that help the next attempt, or nothing where the output says it all.

    Who was left in the background was ended, unless they were `kept`.
    """
    if outcome.exhausted and not outcome.ok:
        met, setting = _MORE[outcome.exhausted[0]]
        return f"{met}: let it do less at once, or have {setting} raised."
    match outcome.state:
        case State.TIMED_OUT:
            return _after_timeout(outcome, limits, text, last_line)
        case State.SPAWN_FAILED if outcome.may_pass:
            return "Nothing was run, and perhaps the command is not to blame: the error says why."
        case State.SPAWN_FAILED:
            return "Nothing was run. Check the program's name, its permissions and the directory."
        case State.KILLED:
            if outcome.leaked:
                return _after_leak(outcome)
            how = "with SIGKILL" if outcome.ended is Ended.HARD else "politely"
            return f"Ended {how}: {outcome.stop_reason or 'asked to stop'}. Nothing of it is left."
        case _ if outcome.ok:
            return _after_success(outcome, kept=kept)
        case _:
            return _after_failure(outcome, last_line)


def _after_timeout(outcome: Outcome, limits: Limits, text: str, last_line: str) -> str:
    if outcome.leaked:
        return _after_leak(outcome)
    seen = outcome.sighting
    if seen is not None and seen.password:
        return (
            f"It waits for a password ({last_line!r}). Use a key, a token or a credential helper."
        )
    if seen is not None and seen.waits_for_input:
        return (
            f"It waits for input; last line: {last_line!r}. Answer through stdin, or use its"
            " non-interactive flag (--yes, -y, --no-input)."
        )
    if _SERVER.search(text):
        return f"This looks like a server or a watcher, which does not end by itself: {_SESSION}."
    if outcome.limit is Limit.SILENCE:
        return _after_silence(outcome, limits, last_line)
    longer = limits.names.passed(Limit.TOTAL, _longer(limits.total))
    if outcome.idle < min(5, (limits.total or 0) / 2):
        return f"It was still printing when its time was over: pass {longer}, or do less at once."
    silent = human_duration(outcome.idle)
    return f"It had been silent for {silent} at the end; if it works, pass {longer}."


def _after_silence(outcome: Outcome, limits: Limits, last_line: str) -> str:
    silence = human_duration(limits.silence or 0)
    if last_line and _QUESTION.search(last_line):
        return (
            f"The last line looks like a question: {last_line!r}. Answer through stdin, or use its"
            " non-interactive flag (--yes, -y, --no-input)."
        )
    longer = limits.names.passed(Limit.SILENCE, _longer(limits.silence))
    if outcome.cpu_while_silent is not None and outcome.cpu_while_silent >= 0.02:
        return (
            f"It printed nothing for {silence} but used the CPU; if that is normal, pass {longer}."
        )
    return (
        f"No output and no work for {silence}: it slept, or waited for a network, a lock or another"
        f" process. Make it say what it does (-v), or pass {longer} if silence is normal."
    )


def _longer(limit: float | None) -> int:
    return max(2, round((limit or 60) * 2))


def _after_success(outcome: Outcome, *, kept: bool) -> str | None:
    count = outcome.survivors
    if not count:
        return None
    what = "1 background process" if count == 1 else f"{count} background processes"
    if kept:
        return f"It left {what} running."
    was = "was" if count == 1 else "were"
    return f"{what} of it {was} ended with it: {_SESSION}."


def _after_failure(outcome: Outcome, last_line: str) -> str | None:
    code, number = outcome.exit.code, outcome.exit.signal
    if number == signal.SIGKILL:
        return "SIGKILL came from outside shelltie: often the kernel, when memory runs out."
    if number is not None:
        return f"It died of {outcome.exit.signal_name}, which shelltie did not send."
    if code == 127:
        return "A program was not found: check its name, or install it."
    if code == 126:
        return (
            "It was found but cannot be executed: check its permissions (chmod +x) and its format."
        )
    if last_line:
        return None
    return f"It failed with code {code} and printed nothing: try its verbose flag."


def _after_leak(outcome: Outcome) -> str:
    if outcome.leaked_pids:
        pids = ", ".join(map(str, outcome.leaked_pids))
        return f"Processes {pids} could not be ended: look at them before you go on."
    return (
        "Its keeper (shelltie-keeper, which starts and ends commands) did not answer: was it"
        " stopped or killed? Look whether something of this command still runs before you go on."
    )


def withheld_hint(
    text: str, withheld: Collection[str], said: str = "", where: str = "the user's configuration"
) -> str | None:
    """For a command that failed: which of the variables it did not get it seems to have wanted.

    It names one, or runs a program that looks for one, or complained of one in what it `said` last.
    """
    wanted = [name for name in sorted(withheld) if _named(name, text) or name in said]
    for programs, patterns in _WANTED:
        names = [name for name in withheld if any(_like(name, p) for p in patterns.split())]
        if names and re.search(rf"(?<![\w.-])(?:{programs})(?![\w.-])", text):
            wanted += names
    if not wanted:
        return None
    names = list(dict.fromkeys(wanted))[:_NAMED_MAX]
    was = "was" if len(names) == 1 else "were"
    it = "it" if len(names) == 1 else "them"
    return (
        f"{' and '.join(names)} {was} withheld from the command, as secrets are. If it needs {it},"
        f" ask the user to add {it} to environment.pass in {where}."
    )


def _named(name: str, text: str) -> bool:
    """In the text, and not just set there."""
    if name not in text:
        return False
    return re.search(rf"(?<![\w]){re.escape(name)}(?!\w|=[^=])", text) is not None


def _like(name: str, pattern: str) -> bool:
    if pattern.startswith("*"):
        return name.endswith(pattern[1:])
    return name.startswith(pattern[:-1]) if pattern.endswith("*") else name == pattern


# A name at which something is mounted, such as git's settings, cannot be replaced: it is busy.
_READ_ONLY = lazy(r"read-only file ?system|EROFS|device or resource busy|EBUSY", re.IGNORECASE)
_STAYS = (
    "only its workspace and /tmp can be written there, and in it not what git, editors and agents"
)
_NO_NETWORK = lazy(
    r"network is unreachable|could(?:n't| not) resolve|temporary failure in name resolution"
    r"|name or service not known|failed to lookup address|no address associated with hostname"
    r"|ENETUNREACH|EAI_AGAIN|ENOTFOUND|getaddrinfo|network access is (?:denied|disabled)"
    r"|unable to resolve|temporary failure resolving|no such host|UnknownHostException",
    re.IGNORECASE,
)
# What does nothing useful without a network, whether or not it says so: some just wait.
_ONLINE = lazy(
    r"(?:\S*/)?(?:(?:curl|wget|aria2c|ping|ssh|scp|sftp|npx|bunx|uvx|twine)"
    r"|(?:npm|pnpm|yarn|bun) (?:i|install|ci|add|update|up|upgrade|audit|publish|view|create)"
    r"|(?:yarn|pnpm)$"
    r"|(?:pip3?|pipx|poetry|conda|mamba|gem|brew|cargo|bundle|composer|python3? -m pip)"
    r" (?:install|add|update|download|fetch|publish)"
    r"|uv (?:sync|add|lock|pip install|tool install)|go (?:get|install|mod download|mod tidy)"
    r"|(?:apt|apt-get|dnf|yum|apk) (?:-\S+ )*(?:update|install|upgrade|download|add)"
    r"|git (?:-[cC] \S+ |-\S+ )*(?:clone|fetch|pull|push|ls-remote|submodule)"
    r"|(?:docker|podman) (?:pull|push|login))(?!\S)"
)
# What such a program fetches from: groups of `sandbox.network_allow`.
_FETCHES = (
    ("pypi", lazy(r"\b(?:pip3?|pipx|poetry|uvx?|twine|hatch|pdm)\b")),
    ("conda", lazy(r"\b(?:conda|mamba)\b")),
    ("npm", lazy(r"\b(?:npm|npx|pnpm|yarn|bunx?)\b")),
    ("crates", lazy(r"\bcargo\b")),
    ("go", lazy(r"\bgo (?:get|install|mod|build|run|test)\b")),
    ("maven", lazy(r"\b(?:mvnw?|gradlew?)\b")),
    ("rubygems", lazy(r"\b(?:gem|bundle)\b")),
    ("packagist", lazy(r"\bcomposer\b")),
    ("debian", lazy(r"\bapt(?:-get)?\b")),
    ("alpine", lazy(r"\bapk\b")),
    ("fedora", lazy(r"\b(?:dnf|yum)\b")),
    ("github", lazy(r"\bgithub\.com\b")),
)
_URL_HOST = lazy(r"\bhttps?://([a-z0-9-]+(?:\.[a-z0-9-]+)+)", re.IGNORECASE)
# What is not there, by what programs say that miss it.
_ABSENT = (
    (
        lazy(
            r"gpg failed to sign|gpg: signing failed|no secret key|couldn't load public key"
            r"|no private key found|failed to write commit object",
            re.IGNORECASE,
        ),
        "keys for signing are not there; git commit --no-gpg-sign, and sign outside",
    ),
    (
        lazy(
            r"cannot connect to the docker daemon|docker\.sock|podman\.sock"
            r"|connection to your authentication agent|can't connect to the agent",
            re.IGNORECASE,
        ),
        "sockets of daemons and agents (Docker, ssh, gpg) are not there",
    ),
    (
        lazy(
            r"no usable sandbox|creating new namespace failed"
            r"|no permissions to create new namespace"
            r"|unshare(?: failed)?: operation not permitted",
            re.IGNORECASE,
        ),
        "no further namespaces can be made there; a browser needs --no-sandbox",
    ),
)
_BUSY_SETTINGS = lazy(r"config.{0,80}: device or resource busy", re.IGNORECASE)
_OWN_NETWORK = lazy(r"\blocalhost\b|\b127\.0\.0\.1\b|\[::1\]")
_MISSING = lazy(r"no such file or directory|ENOENT|not found|cannot find", re.IGNORECASE)
# Every place to run has these, so a file that is missing there is missing. A /tmp is its own.
_SHOWN = (
    *("/usr", "/bin", "/sbin", "/lib", "/lib64", "/etc", "/opt", "/nix", "/gnu"),
    *("/dev", "/proc", "/sys"),
)
_ABSOLUTE = lazy(r"(?<![\w.~-])(/[\w.+@/-]+)")


def blocked(said: str, bars: Set[Bar], cwd: str, text: str = "") -> tuple[Bar, ...]:
    """Which bars a command with this `text` ran into, in that directory.

    Nobody looks whether a file exists outside: the answer would tell a command what is hidden.
    """
    found = []
    if Bar.WRITE in bars and _READ_ONLY.search(said):
        found.append(Bar.WRITE)
    if Bar.NETWORK in bars and (_NO_NETWORK.search(said) or _needs_network(text)):
        found.append(Bar.NETWORK)
    if Bar.HOSTS in bars and _NO_NETWORK.search(said):
        found.append(Bar.HOSTS)
    shown = (*_SHOWN, cwd)
    if Bar.FILES in bars and (
        _absent(said) or not all(_within(path, shown) for path in _missing(said))
    ):
        found.append(Bar.FILES)
    return tuple(found)


def blocked_by_place(
    outcome: Outcome, said: str, bars: Set[Bar], cwd: str, text: str
) -> tuple[Bar, ...]:
    """Which bars an isolated command ran into that ended, or is, like this: by its last words, and
    by what its place has seen.
    """
    found: tuple[Bar, ...] = ()
    if not outcome.ok:
        known = outcome.state in (State.FINISHED, State.TIMED_OUT)
        found = blocked(said, bars, cwd, text if known else "")
    elif not_configured(said):
        found = (Bar.WRITE,)
    if outcome.undone is not None:
        found = (Bar.WRITE, *found)
    if outcome.refused_hosts:
        found = (*found, Bar.HOSTS)
    return tuple(dict.fromkeys(found))


def not_configured(said: str) -> bool:
    """Whether git could not write its settings, after which it goes on and ends well."""
    return _BUSY_SETTINGS.search(said) is not None


def _absent(said: str) -> list[str]:
    return [reason for pattern, reason in _ABSENT if pattern.search(said)]


def _needs_network(text: str) -> bool:
    commands = (" ".join(strip_prefixes(one).split()) for one in segments(text))
    return any(_ONLINE.match(one) and not _OWN_NETWORK.search(one) for one in commands)


_DENIED = lazy(r"permission denied|EACCES", re.IGNORECASE)


_NOBODY_LISTENS = lazy(
    r"connection refused|ECONNREFUSED|could(?:n't| not) connect to", re.IGNORECASE
)


def stopped_by_view(
    said: str, bars: Set[Bar], home: str, needs: Set[str] = frozenset()
) -> tuple[Bar, ...]:
    """What a read-only view for these needs kept a command from that ended badly."""
    found = list(blocked(said, bars - {Bar.FILES}, "/"))
    if Bar.NETWORK in bars and needs and _NOBODY_LISTENS.search(said):
        found.append(Bar.NETWORK)  # what it needs does listen there: it wanted something else
    denied = [line for line in said.splitlines() if _DENIED.search(line)]
    if Bar.NETWORK in bars and denied and "socket" in said.lower():
        found.append(Bar.NETWORK)
    masked = (*(f"{home}/{name}" for name in IN_HOME), *IN_SYSTEM)
    paths = (path.rstrip(".:") for line in denied for path in _ABSOLUTE.findall(line))
    if any(_within(path, masked) for path in paths):
        found.append(Bar.FILES)
    return tuple(dict.fromkeys(found))


def _within(path: str, roots: tuple[str, ...]) -> bool:
    return any(f"{path}/".startswith(f"{root}/") for root in roots)


def _missing(said: str) -> list[str]:
    lines = [line for line in said.splitlines() if _MISSING.search(line)]
    return [path.rstrip(".:") for line in lines[-5:] for path in _ABSOLUTE.findall(line)]


_ANOTHER_WAY = (
    "hosts are reached there only through the proxy in HTTPS_PROXY, and it did not use it"
)
_HINTS = {
    Bar.WRITE: f"{_STAYS} obey (hooks, settings); sandbox.writable adds more",
    Bar.HOSTS: _ANOTHER_WAY,
    Bar.FILES: "it asked for a file that is not shown there; sandbox.readable adds more",
}
_CONTAINER_HINTS = {
    Bar.WRITE: f"{_STAYS} obey (hooks, settings); container.mounts adds more",
    Bar.HOSTS: _ANOTHER_WAY,
    Bar.FILES: "it asked for a file of this machine; container.mounts shows it",
}


def blocked_hint(
    found: tuple[Bar, ...],
    provider: str,
    refused: Sequence[RefusedHost] = (),
    text: str = "",
    said: str = "",
) -> str | None:
    """Why a command with this `text` may have failed, and who can change that, by what it `said`
    last. It was `refused` these hosts.
    """
    if not found:
        return None
    if provider == "local":
        return (
            "It was rated safe, so it ran in a read-only view of this machine, which kept it from"
            f" what it wanted ({', '.join(found)}): nothing was changed. Its text is unknown from"
            " now on: run it again, and it runs outside of the view, or a person is asked."
        )
    hints = _CONTAINER_HINTS if provider == "container" else _HINTS
    section = "container" if provider == "container" else "sandbox"
    hints = {**hints, Bar.NETWORK: _no_network_hint(section, f"{text}\n{said}")}
    hints |= {Bar.HOSTS: _refused_hint(refused)} if refused else {}
    absent = _absent(said)
    hints |= {Bar.FILES: "; ".join(absent)} if absent else {}
    reasons = "; ".join(hints[bar] for bar in found)
    return f"It ran isolated ({provider}): {reasons}. Only the user can: ask for it, or do without."


def _no_network_hint(section: str, words: str) -> str:
    """With the lines that would let it reach what it seems to want."""
    groups = [group for group, pattern in _FETCHES if pattern.search(words)]
    named = [] if groups else [host.lower() for host in _URL_HOST.findall(words)]
    hosts = [host for host in named if not is_private_host(host)]
    entries = " ".join(dict.fromkeys((groups or hosts or ["HOST"])[:_NAMED_MAX]))
    return (
        f"there is no network there; `shelltie config set {section}.network allow` and"
        f" `shelltie config add sandbox.network_allow {entries}` let it reach that, from the next"
        f" start on; {section}.network = 'on' allows everything"
    )


def _refused_hint(refused: Sequence[RefusedHost]) -> str:
    names = ", ".join(one.host for one in refused)
    entries = " ".join(dict.fromkeys(one.entry for one in refused if one.entry))
    told = f"its network list does not allow {names}"
    if entries:
        told += (
            f"; `shelltie config add sandbox.network_allow {entries}` does, from the next start on"
        )
    if not all(one.entry for one in refused):
        told += "; a private address is reached only where the list names it with its port"
    return told
