import pytest

from shelltie.environment.child import (
    RUN_MARK,
    Environment,
    Sifted,
    build,
    hardened_git,
    join_paths,
    sift,
    with_chosen_programs,
)
from shelltie.errors import InvalidParameters


def names(text: str) -> list[str]:
    return text.split()


NOTHING = Sifted({}, (), {}, ())


def built(
    variables: dict[str, str] | None = None,
    changes: dict[str, str | None] | None = None,
    passed: tuple[str, ...] = (),
    own: dict[str, str] | None = None,
    path: str | None = None,
) -> Environment:
    base = sift(variables or {}, passed)
    return build(base, changes or {}, path=path, pty=False, run="01RUN", own=own or {})


@pytest.mark.parametrize(
    "name",
    names(
        "LD_PRELOAD LD_LIBRARY_PATH DYLD_INSERT_LIBRARIES NODE_OPTIONS PYTHONPATH BASH_ENV ENV"
        " GIT_SSH GIT_SSH_COMMAND GIT_CONFIG_COUNT BASH_FUNC_ls%% PAGER EDITOR PATH npm_config_x"
    ),
)
@pytest.mark.proves("C-68")
def test_a_call_may_not_decide_which_code_runs(name: str) -> None:
    with pytest.raises(InvalidParameters, match=r"environment\.pass") as refusal:
        built(changes={name: "/tmp/evil"})

    assert name in str(refusal.value)


def test_a_call_may_not_take_the_path_away() -> None:
    with pytest.raises(InvalidParameters, match="PATH"):
        built(changes={"PATH": None})


def test_a_call_may_take_other_hooks_away_or_leave_them_as_they_are() -> None:
    env = built({"LD_PRELOAD": "/lib/x.so"}, {"LD_PRELOAD": None, "PAGER": "cat"}).env

    assert "LD_PRELOAD" not in env
    assert env["PAGER"] == "cat"


@pytest.mark.proves("C-68")
def test_what_the_user_passes_a_call_may_set() -> None:
    env = built(changes={"PYTHONPATH": "src", "GIT_PAGER": "less"}, passed=("PYTHONPATH", "GIT_*"))

    assert (env.env["PYTHONPATH"], env.env["GIT_PAGER"]) == ("src", "less")


@pytest.mark.parametrize(
    ("name", "value"), [("PATH", "/a:/b"), ("PYTHONPATH", "src"), ("PAGER", "less -R")]
)
def test_a_call_may_hand_on_what_it_inherited_and_gets_what_everybody_gets(
    name: str, value: str
) -> None:
    usual = built({name: value})

    handed_on = built({name: value}, {name: value})

    assert handed_on == usual
    with pytest.raises(InvalidParameters, match=f"env: {name} decides"):
        built({name: value}, {name: f"{value}x"})


@pytest.mark.parametrize("value", ["", "cat"])
def test_a_call_may_want_no_pager(value: str) -> None:
    assert built({}, {"GIT_PAGER": value, "GH_PAGER": value}) == built({})


def test_a_passed_name_is_exact_unless_it_ends_with_a_star() -> None:
    with pytest.raises(InvalidParameters):
        built(changes={"PYTHONPATH": "src"}, passed=("PYTHON", "YTHONPATH", "*PATH"))


@pytest.mark.proves("T4-5", "C-68", "S4-19")
@pytest.mark.parametrize(
    "name",
    names(
        "AWS_SECRET_ACCESS_KEY AWS_ACCESS_KEY_ID DATABASE_PASSWORD DATABASE_URL DB_PASSWORD API_KEY"
        " Api_Key AUTH_TOKEN GITHUB_TOKEN SECRET_KEY"
    ),
)
def test_a_secret_is_withheld_whoever_gives_it(name: str) -> None:
    for environment in (built({name: "value"}), built({}, {name: "value"})):
        assert name not in environment.env
        assert environment.withheld == (name,)
        assert environment.secrets == {name: "value"}


def test_a_secret_in_place_of_a_value_of_ours_is_withheld_and_ours_stays() -> None:
    token = "ghp_" + "aB3" * 12

    environment = built({"NOTES": "ours"}, {"NOTES": token})

    assert (environment.env["NOTES"], environment.withheld) == ("ours", ("NOTES",))


@pytest.mark.proves("T4-5", "S4-19", "C-68")
@pytest.mark.parametrize("name", ["NODE_ENV", "CI", "KEYBOARD_LAYOUT", "AUTHOR", "CAWS_TASK_ID"])
def test_what_is_no_secret_arrives_whoever_gives_it(name: str) -> None:
    for environment in (built({name: "value"}), built({}, {name: "value"})):
        assert environment.env[name] == "value"
        assert environment.withheld == ()


@pytest.mark.proves("T4-5")
@pytest.mark.parametrize("name", ["CAWS_TASK_ID", "CAWS_AGENT_ID", "CAWS_SESSION_ID"])
def test_who_asked_is_said_by_us_alone(name: str) -> None:
    for change in ("evil", None):
        assert built({}, {name: change}, own={name: "ours"}).env[name] == "ours"
        assert built({name: "inherited"}, {name: change}).env[name] == "inherited"
        assert built({name: "inherited"}, {name: change}, own={name: "ours"}).env[name] == "ours"


@pytest.mark.proves("C-68")
def test_a_name_that_only_resembles_ours_is_filtered_like_any_other() -> None:
    assert "CAWS_SECRET_TOKEN" not in built({}, {"CAWS_SECRET_TOKEN": "x"}).env


def test_no_call_changes_the_mark_of_its_run() -> None:
    assert built({}, {RUN_MARK: "another"}).env[RUN_MARK] == "01RUN"
    assert built({}, {RUN_MARK: None}).env[RUN_MARK] == "01RUN"


def test_a_secret_under_an_innocent_name_is_withheld_by_its_shape() -> None:
    environment = built({"NOTES": "use ghp_" + "a1B2" * 9}, {"MORE": "https://me:hunter2@host/"})

    assert environment.withheld == ("MORE", "NOTES")


def test_ways_to_the_users_keys_are_withheld_but_are_no_secrets() -> None:
    environment = built({"SSH_AUTH_SOCK": "/tmp/ssh-x/agent.1"})

    assert environment.withheld == ("SSH_AUTH_SOCK",)
    assert environment.secrets == {}


def test_which_cluster_and_which_account_stays_as_the_user_chose_it() -> None:
    chosen = {"KUBECONFIG": "/k", "DOCKER_HOST": "unix:///d", "AWS_PROFILE": "dev"}

    assert chosen.items() <= built(chosen).env.items()


def test_a_passed_secret_arrives_and_is_still_a_secret() -> None:
    environment = built(
        {"GITHUB_TOKEN": "tok"}, {"MY_TOKEN": "own"}, passed=("GITHUB_*", "MY_TOKEN")
    )

    assert (environment.env["GITHUB_TOKEN"], environment.env["MY_TOKEN"]) == ("tok", "own")
    assert environment.withheld == ()
    assert environment.secrets == {"GITHUB_TOKEN": "tok", "MY_TOKEN": "own"}


@pytest.mark.parametrize(
    "name",
    ["BASH_ENV", "ENV", "SHELLOPTS", "BASHOPTS", "CDPATH", "POSIXLY_CORRECT", "BASH_FUNC_ls%%"],
)
def test_nothing_inherited_makes_the_shell_read_a_text_differently(name: str) -> None:
    environment = built({name: "x"})

    assert name not in environment.env
    assert environment.withheld == (name,)
    assert environment.secrets == {}


@pytest.mark.parametrize("name", ["LD_PRELOAD", "PYTHONPATH", "NODE_OPTIONS", "EDITOR"])
def test_what_the_user_has_set_for_programs_stays(name: str) -> None:
    assert built({name: "/own"}).env[name] == "/own"


@pytest.mark.parametrize("name", ["HTTPS_PROXY", "https_proxy", "ALL_PROXY"])
@pytest.mark.parametrize(
    ("value", "given"),
    [
        ("http://me:hunter2@proxy:3128/", "http://proxy:3128/"),
        ("http://token@proxy:3128", "http://proxy:3128"),
        ("me:hunter2@proxy:3128", "proxy:3128"),
        ("socks5h://me:p%40ss@proxy", "socks5h://proxy"),
        ("http://me:p@ss@proxy:3128", "http://proxy:3128"),
        ("http://proxy:3128", "http://proxy:3128"),
    ],
)
def test_a_proxy_stays_without_its_password(name: str, value: str, given: str) -> None:
    assert built({name: value}).env[name] == given
    assert built({}, {name: value}).env[name] == given


def test_the_password_of_a_proxy_is_known_as_a_secret() -> None:
    assert "HTTPS_PROXY" in sift({"HTTPS_PROXY": "http://me:hunter2@proxy"}).secrets


@pytest.mark.proves("C-56")
def test_the_environment_is_prompt_free_unless_the_call_says_otherwise() -> None:
    env = built(
        {"NO_COLOR": "", "TERM": "foot"}, {"NO_COLOR": None, "GIT_TERMINAL_PROMPT": "1"}
    ).env

    assert "NO_COLOR" not in env
    assert (env["GIT_TERMINAL_PROMPT"], env["PAGER"], env["TERM"]) == ("1", "cat", "dumb")
    assert build(NOTHING, {}, path=None, pty=True, run="").env["TERM"] == "xterm-256color"


def test_the_path_is_the_one_found_then_the_inherited_then_the_usual() -> None:
    assert built({"PATH": "/inherited"}, path="/found").env["PATH"] == "/found"
    assert built({"PATH": "/inherited"}).env["PATH"] == "/inherited"
    assert "/usr/bin" in built().env["PATH"]


@pytest.mark.parametrize(
    ("name", "value"), [("", "x"), ("A=B", "x"), ("A\0", "x"), (3, "x"), ("A", "\0"), ("A", 3)]
)
def test_what_no_environment_can_hold_is_refused(name: object, value: object) -> None:
    with pytest.raises(InvalidParameters, match="env"):
        built(changes={name: value})  # type: ignore[dict-item]  # that is the point


def test_hardened_git_counts_its_settings() -> None:
    variables = hardened_git()
    count = int(variables["GIT_CONFIG_COUNT"])

    for place in range(count):
        assert variables[f"GIT_CONFIG_KEY_{place}"]
        assert f"GIT_CONFIG_VALUE_{place}" in variables
    assert f"GIT_CONFIG_KEY_{count}" not in variables


def test_join_paths_repeats_nothing() -> None:
    assert join_paths("/a:/b", "/b::/c") == "/a:/b:/c"


def test_whoever_prints_an_environment_prints_no_secret() -> None:
    assert "s3cret" not in repr(sift({"API_KEY": "s3cret"}))
    assert "s3cret" not in repr(built({"API_KEY": "s3cret"}))


def test_what_may_ask_has_the_users_own_editor_pager_and_prompts() -> None:
    users = {"EDITOR": "nano", "GIT_EDITOR": "vim", "PAGER": "less", "DEBIAN_FRONTEND": "dialog"}
    base = sift(users)

    asking = build(base, {}, path=None, pty=True, run="1", interactive=True).env
    running = build(base, {}, path=None, pty=True, run="1").env

    assert {name: asking.get(name) for name in users} == users
    assert not asking.keys() & {"GIT_TERMINAL_PROMPT", "PIP_NO_INPUT", "MANPAGER"}
    assert (asking["NO_COLOR"], asking["PYTHONUNBUFFERED"]) == ("1", "1")
    assert (running["GIT_EDITOR"], running["PAGER"], running["PIP_NO_INPUT"]) == (
        "true",
        "cat",
        "1",
    )


def test_the_editor_of_a_call_becomes_part_of_the_text_that_is_judged() -> None:
    changes = {"GIT_EDITOR": "vim -c 'set nu'", "LD_PRELOAD": "x.so", "CI": "1", "PAGER": None}

    text, rest = with_chosen_programs("git commit", changes)

    assert text == "export GIT_EDITOR='vim -c '\"'\"'set nu'\"'\"''; git commit"
    assert rest == {"LD_PRELOAD": "x.so", "CI": "1", "PAGER": None}
    assert with_chosen_programs("ls", {"CI": "1"}) == ("ls", {"CI": "1"})
