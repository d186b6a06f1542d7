import os
from pathlib import Path

import pytest

from shelltie.contexts.allowlist import PROJECT_FILE
from shelltie.errors import ConfigWrong
from shelltie.settings import layers, trust
from shelltie.settings.all_settings import PRESETS
from shelltie.settings.config import Config
from shelltie.verdict import Decision, Rating


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine with three empty layers of settings."""
    for name in ("etc", "user/shelltie", "project"):
        (tmp_path / name).mkdir(parents=True)
    monkeypatch.setattr(layers, "system_file", lambda: tmp_path / "etc/config.toml")
    return tmp_path


def load(home: Path, overrides: dict[str, object] | None = None, **environ: str) -> Config:
    variables = {"HOME": "/home/me", "XDG_CONFIG_HOME": str(home / "user"), **environ}
    return layers.load(home / "project", overrides, variables)


def test_without_files_the_defaults_hold(home: Path) -> None:
    config = load(home)

    assert (config.limits.grace, config.output.shown, config.keeper) == (5.0, 40_000, "auto")
    assert config.state.dir == "/home/me/.local/state/shelltie"
    assert config.origins == {}


@pytest.mark.proves("C-70", "C-41")
def test_each_layer_wins_over_the_one_below(home: Path) -> None:
    layers = {"etc/config.toml": 1, "user/shelltie/config.toml": 2, "project/.shelltie.toml": 1.5}
    seen = [load(home).limits.grace]
    for name, grace in layers.items():
        (home / name).write_text(f"[limits]\ngrace = {grace}\n", encoding="utf-8")
        seen.append(load(home).limits.grace)
    seen.append(load(home, SHELLTIE_LIMITS_GRACE="4").limits.grace)
    seen.append(load(home, {"limits.grace": 5.5}, SHELLTIE_LIMITS_GRACE="4").limits.grace)

    assert seen == [5.0, 1.0, 2.0, 1.5, 4.0, 5.5]


def test_each_value_knows_its_origin(home: Path) -> None:
    (home / "user/shelltie/config.toml").write_text("shell = '/bin/sh'\n", encoding="utf-8")

    rows = {
        key: (value, origin) for key, value, origin in load(home, SHELLTIE_KEEPER="python").rows()
    }

    assert rows["shell"] == ("/bin/sh", str(home / "user/shelltie/config.toml"))
    assert rows["keeper"] == ("python", "SHELLTIE_KEEPER")
    assert rows["limits.grace"] == (5.0, "default")


def test_the_system_may_lock_a_key(home: Path) -> None:
    system = 'locked = ["run.background_survivors"]\n[run]\nbackground_survivors = "kill"\n'
    (home / "etc/config.toml").write_text(system, encoding="utf-8")

    config = load(home, SHELLTIE_RUN_BACKGROUND_SURVIVORS="keep")

    assert config.run.background_survivors == "kill"
    assert "locked" in config.ignored[0]


def test_a_project_may_not_loosen_anything(home: Path) -> None:
    text = "keeper = 'python'\n[run]\nbackground_survivors = 'keep'\n[limits]\ngrace = 1\n"
    (home / "project/.shelltie.toml").write_text(text, encoding="utf-8")

    config = load(home)

    assert (config.keeper, config.run.background_survivors, config.limits.grace) == (
        "auto",
        "kill",
        1.0,
    )
    assert len(config.ignored) == 2


@pytest.mark.parametrize(("wish", "holds"), [(1, 1), (100, 10)])
def test_a_project_has_fewer_deletions_applied_unasked_and_never_more(
    home: Path, wish: int, holds: int
) -> None:
    (home / "project/.shelltie.toml").write_text(f"[trial]\ndeletions = {wish}\n", "utf-8")

    assert load(home).trial.deletions == holds


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("[limits]\ngarce = 1\n", "did you mean limits.grace?"),
        ("colour = 1\n", "unknown key colour"),
        ("[limits]\ngrace = true\n", "limits.grace"),
        ("[limits]\ngrace = -1\n", "limits.grace"),
        ("[limits]\ngrace = nan\n", "limits.grace"),
        ("[limits]\nidle_evidence = 'some'\n", "any, none"),
        ("[output]\nshown = 1.5\n", "whole number"),
        ("shell = ''\n", "shell"),
        ("[terminal.agentDefaults.bash]\ntimeout = 5\n", "did you mean"),
        ("bash.cropOutput = 1\n[terminal.agentDefaults.bash]\ncropOutput = 2\n", "keep one"),
        ("[container]\nprocesses = 1\n", "from 8 to"),
        ("[container]\nmemory = 1\n", "a number of bytes from"),
        ("[container]\ncpus = nan\n", "a number of CPUs from 0.01"),
        ("[container]\ncpus = 1e-12\n", "a number of CPUs from 0.01"),
        ("not toml at all\n", "cannot be read"),
        ("x = '" + "x" * 2_000_000 + "'\n", "1 MiB"),
    ],
)
def test_a_wrong_file_is_named_with_its_key(home: Path, text: str, says: str) -> None:
    path = home / "user/shelltie/config.toml"
    path.write_text(text, encoding="utf-8")

    with pytest.raises(ConfigWrong) as caught:
        load(home)

    assert str(path) in str(caught.value)
    assert says in str(caught.value)


@pytest.mark.proves("S2-57", "S2-62")
def test_the_section_of_a_service_is_understood_in_a_file_of_settings(home: Path) -> None:
    (home / "user/shelltie/config.toml").write_text(
        "[terminal]\nsafeCommands = ['^make$']\n"
        "[terminal.agentDefaults.bash]\ntimeoutSeconds = 5\n"
        "[terminal.agentDefaults.persistent]\nmaxInterval = 9\n",
        encoding="utf-8",
    )

    config = load(home)

    assert (config.safety.safe_commands, config.bash.timeout, config.persistent.most) == (
        ("^make$",),
        5,
        9,
    )


@pytest.mark.parametrize(
    ("variable", "values"),
    [
        ("SHELLTIE_SANDBOX_TMP_SIZE", ("0", "1000", "1e20", "9" * 20)),
        ("SHELLTIE_SANDBOX_READABLE", ("/", "//", "/proc", "/run/", "/usr/..", "/srv,/dev")),
        ("SHELLTIE_SANDBOX_BWRAP", ("bwrap", "./bwrap")),
        ("SHELLTIE_CONTAINER_PROCESSES", ("1", "7", "-1", "x", "9" * 20)),
        ("SHELLTIE_CONTAINER_MEMORY", ("1", "1e20", "9" * 20, "-1")),
        ("SHELLTIE_CONTAINER_CPUS", ("nan", "inf", "1e-12", "-1", "x", "1e9")),
    ],
)
def test_what_no_sandbox_could_be_made_with_is_told_at_once(
    home: Path, variable: str, values: tuple[str, ...]
) -> None:
    for value in values:
        with pytest.raises(ConfigWrong, match=variable):
            load(home, None, **{variable: value})


def test_the_least_that_a_container_may_have_is_taken_and_0_is_no_limit(home: Path) -> None:
    path = home / "user/shelltie/config.toml"
    path.write_text("[container]\nprocesses = 8\nmemory = 6291456\ncpus = 0.01\n", "utf-8")
    least = load(home)
    path.write_text("[container]\nprocesses = 0\nmemory = 0\ncpus = 0\n", "utf-8")
    none = load(home)

    told = [
        (one.container.processes, one.container.memory, one.container.cpus) for one in (least, none)
    ]
    assert told == [(8, 6291456, 0.01), (0, 0, 0.0)]


def test_a_wrong_variable_is_named(home: Path) -> None:
    with pytest.raises(ConfigWrong, match="SHELLTIE_LIMITS_GRACE"):
        load(home, SHELLTIE_LIMITS_GRACE="soon")


def test_a_pipe_in_place_of_a_file_hangs_nobody(home: Path) -> None:
    os.mkfifo(home / "project/.shelltie.toml")

    with pytest.raises(ConfigWrong, match="not a regular file"):
        load(home)


def test_endless_nesting_is_an_error_like_any_other(home: Path) -> None:
    (home / "project/.shelltie.toml").write_text("a=" + "[" * 5000, encoding="utf-8")

    with pytest.raises(ConfigWrong, match="cannot be read"):
        load(home)


def test_a_project_may_only_make_decisions_stricter(home: Path) -> None:
    text = """
    [safety.profiles.run]
    unknown = "ask"
    dangerous = "allow"
    [safety]
    dangerousCommands = ["deploy"]
    safeCommands = ["./build.sh"]
    """
    (home / "project/.shelltie.toml").write_text(text, encoding="utf-8")

    config = load(home)

    assert (config.safety.profiles.run.unknown, config.safety.profiles.run.dangerous) == (
        "ask",
        "ask",
    )
    assert (config.safety.dangerous_commands, config.safety.safe_commands) == (("deploy",), ())
    assert [text.split(":")[1].split()[0] for text in config.ignored] == [
        "safety.profiles.run.dangerous",
        "safety.safeCommands",
    ]


def test_a_trusted_project_may_loosen_until_its_file_changes(home: Path) -> None:
    file = home / "project/.shelltie.toml"
    file.write_text('[safety.profiles.run]\ndangerous = "allow"\n', encoding="utf-8")
    trust.trust(trust.look(home / "project"), home / "user/shelltie/trusted.toml")
    trusted = load(home).safety.profiles.run.dangerous
    file.write_text('[safety.profiles.run]\ndangerous = "allow" # more\n', encoding="utf-8")

    assert (trusted, load(home).safety.profiles.run.dangerous) == ("allow", "ask")


@pytest.mark.proves("S4-38", "S4-39", "S4-40", "S4-41", "S4-42", "S4-43", "T4-10", "T4-15")
def test_task_contexts_are_set_up_by_their_own_variables(home: Path) -> None:
    config = load(
        home,
        ENABLE_TERMINAL_ACCESS="yes",
        TERMINAL_ALLOWLIST_PATH="./allow.json",
        TERMINAL_DEFAULT_TIMEOUT="30000",
        TERMINAL_MAX_TIMEOUT="120000",
        TERMINAL_MAX_OUTPUT_SIZE="4096",
        TERMINAL_MAX_SESSIONS="7",
    )

    assert (config.tools.access, config.access.allowlist_path) == (True, "./allow.json")
    assert (config.access.limits.default, config.access.limits.most) == (30, 120)
    assert (config.access.limits.output, config.access.limits.sessions) == (4096, 7)
    assert config.origins["access.max_timeout"] == "TERMINAL_MAX_TIMEOUT"
    with pytest.raises(ConfigWrong, match="TERMINAL_MAX_TIMEOUT"):
        load(home, TERMINAL_MAX_TIMEOUT="abc")
    assert load(home, ENABLE_TERMINAL_ACCESS="false").tools.access is False


@pytest.mark.proves("S4-4", "S4-38", "S4-39", "S4-40", "S4-41", "S4-42", "S4-43", "S4-20", "C-78")
def test_without_them_task_contexts_are_off_and_have_the_limits_of_s4(home: Path) -> None:
    config = load(home)

    assert (config.tools.access, config.access.allowlist_path) == (False, None)  # the project's own
    assert PROJECT_FILE == "apps/tools/caws/tools-allow.json"
    assert (config.access.limits.default, config.access.limits.most) == (60, 300)
    assert (config.access.limits.output, config.access.limits.sessions) == (1_048_576, 50)
    assert config.access.limits.ttl == 3600


def test_what_is_kept_is_kept_in_one_place_unless_somebody_says_otherwise(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", "/somewhere")

    assert Config().state.dir == "/somewhere/shelltie"
    assert Config.of(state_dir="/elsewhere").state.dir == "/elsewhere"


@pytest.mark.parametrize("environ", [{}, {"HOME": ""}, {"HOME": "relative"}])
def test_without_any_home_there_are_no_settings_to_run_with(
    environ: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unknown(user: int) -> None:
        raise KeyError(user)

    monkeypatch.setattr("pwd.getpwuid", unknown)

    with pytest.raises(ConfigWrong, match="has no home in the password database; set HOME"):
        layers.load(tmp_path, environ=environ)


def test_in_python_a_key_has_underscores_for_its_dots_and_is_checked_as_in_a_file() -> None:
    config = Config.of(
        sandbox_network="off", safety_profiles_run_unknown="ask", environment_pass=["API_*"]
    )

    assert (config.sandbox.network, config.environment.passed) == ("off", ("API_*",))
    assert config.safety.profiles.run.unknown is Decision.ASK
    assert config.safety.profiles.session == Config().safety.profiles.session
    with pytest.raises(ConfigWrong, match=r"Config\.of: sandbox\.network: must be one of"):
        Config.of(sandbox_network="sometimes")
    with pytest.raises(ConfigWrong, match="sandbox_netwrk; did you mean sandbox_network"):
        Config.of(sandbox_netwrk="off")


def test_no_two_settings_have_one_name_in_python_or_the_environment() -> None:
    names = [key.replace(".", "_").upper() for key, _, _ in Config().rows()]

    assert len(set(names)) == len(names)


@pytest.mark.proves("D12")
def test_a_preset_sets_every_decision_and_a_key_of_its_own_overrides_it(home: Path) -> None:
    (home / "user/shelltie/config.toml").write_text(
        '[safety]\npreset = "strict"\nprofiles.acp.unknown = "deny"\n', encoding="utf-8"
    )

    strict = load(home)
    relaxed = load(home, SHELLTIE_SAFETY_PRESET="relaxed")
    usual = Config().safety.profiles

    assert strict.safety.profiles.run.unknown is Decision.ASK
    assert strict.safety.profiles.acp.unknown is Decision.DENY
    origins = {key: origin for key, _, origin in strict.rows()}
    assert origins["safety.profiles.run.unknown"] == "safety.preset = strict"
    assert relaxed.safety.profiles.session == PRESETS["relaxed"].session
    assert relaxed.safety.profiles.acp.unknown is Decision.DENY
    assert usual == PRESETS["balanced"]
    assert usual.run == usual.session
    assert (usual.run.unknown, usual.run.dangerous) == (Decision.ALLOW, Decision.ASK)
    assert usual.bash.unknown is Decision.ASK


@pytest.mark.proves("D12")
@pytest.mark.parametrize("order", [("safety_preset", "safety_profiles_run_unknown"), ()])
def test_in_python_a_key_overrides_the_preset_wherever_it_stands(order: tuple[str, ...]) -> None:
    values = {"safety_profiles_run_unknown": "allow", "safety_preset": "strict"}

    config = Config.of(**{name: values[name] for name in order or values})

    assert config.safety.profiles.run.unknown is Decision.ALLOW
    assert config.safety.profiles.session.unknown is Decision.ASK


def test_a_project_gives_no_more_time_to_end_until_it_is_trusted(home: Path) -> None:
    (home / "project/.shelltie.toml").write_text("[limits]\ngrace = 999999\n", encoding="utf-8")
    config = load(home)

    assert config.limits.grace == 5.0
    assert any("limits.grace may only tighten" in note for note in config.ignored)


@pytest.mark.proves("D12")
def test_a_preset_of_a_project_may_only_tighten_until_it_is_trusted(home: Path) -> None:
    user, project = home / "user/shelltie/config.toml", home / "project/.shelltie.toml"
    project.write_text('[safety]\npreset = "relaxed"\n', encoding="utf-8")
    loosened = load(home)
    project.write_text('[safety]\npreset = "strict"\n', encoding="utf-8")
    tightened = load(home)
    user.write_text('[safety]\npreset = "relaxed"\n', encoding="utf-8")
    both = load(home)
    project.write_text('[safety.profiles.run]\nunknown = "ask"\n', encoding="utf-8")
    one_key = load(home)

    assert loosened.safety == Config().safety
    assert any("safety.preset may only tighten" in note for note in loosened.ignored)
    assert tightened.safety.profiles == PRESETS["strict"]
    # What cannot be undone was refused; to be asked about it would be milder.
    assert both.safety.profiles.run.irreversible is Decision.DENY
    assert both.safety.profiles.run.unknown is Decision.ASK
    assert one_key.safety.profiles.run.unknown is Decision.ASK
    assert one_key.safety.profiles.run.dangerous is Decision.ALLOW


@pytest.mark.proves("D12")
def test_a_locked_preset_locks_its_decisions(
    home: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    system = tmp_path / "system.toml"
    system.write_text('locked = ["safety.preset"]\nsafety.preset = "strict"\n', encoding="utf-8")
    monkeypatch.setattr(layers, "system_file", lambda: system)

    config = load(home, SHELLTIE_SAFETY_PROFILES_RUN_UNKNOWN="allow")

    assert config.safety.profiles.run.unknown is Decision.ASK


@pytest.mark.parametrize(
    ("user", "project", "holds"),
    [
        ("auto", "sandbox", "auto"),  # which may be a container
        ("sandbox", "auto", "sandbox"),  # where there is no sandbox, auto is none
        ("none", "auto", "auto"),
        ("auto", "container", "container"),
        ("container", "auto", "container"),
        ("sandbox", "none", "sandbox"),
    ],
)
def test_a_project_that_nobody_trusts_lowers_no_level_of_isolation(
    home: Path, user: str, project: str, holds: str
) -> None:
    section = '[isolation.profiles.run]\nunknown = "{}"\n'
    (home / "user/shelltie/config.toml").write_text(section.format(user), encoding="utf-8")
    (home / "project/.shelltie.toml").write_text(section.format(project), encoding="utf-8")

    rows = {key: value for key, value, _ in load(home).rows()}

    assert rows["isolation.profiles.run.unknown"] == holds


def test_a_time_of_0_for_an_answer_is_one_that_was_set() -> None:
    timeouts = Config.of(safety_unknown_timeout=0).safety.approval_timeouts.unless_set(600)

    assert (timeouts.unknown, timeouts.dangerous) == (0, 600)
    assert timeouts.for_rating(Rating.UNKNOWN, "run") == 0
