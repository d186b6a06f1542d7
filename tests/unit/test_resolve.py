import json
import re
from pathlib import Path

import pytest

from shelltie.basics.safe_regex import ShippedPattern
from shelltie.limits.policy import TimeoutPolicy, fallback, parse
from shelltie.limits.policy_file import SHIPPED_FILE
from shelltie.limits.resolve import AskedLimits, calculate_timeouts, resolve
from shelltie.model import Limit, LimitNames, Limits

SEED_FILE = Path(__file__).parent.parent / "corpus" / "terminal_timeout_policy.json"
SEED_TEXT = SEED_FILE.read_text(encoding="utf-8")
SEED, _ = parse(SEED_TEXT)
SHIPPED, _ = parse(SHIPPED_FILE.read_text(encoding="utf-8"))

EXTENDED = "category extended"


def test_what_comes_with_us_matches_as_if_it_were_compiled_at_once() -> None:
    corpus = (Path(__file__).parent.parent / "corpus" / "commands.jsonl").read_text("utf-8")
    commands = [json.loads(line)["command"] for line in corpus.split("\n")[:2000] if line]
    words = [
        word for entry in SHIPPED.patterns for word in re.findall(r"[\w./-]+", entry.pattern.text)
    ]
    texts = {
        *commands,
        *words,
        *map(str.upper, words),
        *(f"{word} test x" for word in words),
        "\u017fort",
    }
    later, problems = parse(SHIPPED_FILE.read_text(encoding="utf-8"), shipped=True)

    assert problems == ()
    for at_once, shipped in zip(SHIPPED.patterns, later.patterns, strict=True):
        assert isinstance(shipped.pattern, ShippedPattern)
        found = {text for text in texts if at_once.pattern.found_in(text)}
        assert {text for text in texts if shipped.pattern.found_in(text)} == found, at_once


def seed(**changes: object) -> TimeoutPolicy:
    return parse(json.dumps(json.loads(SEED_TEXT) | changes))[0]


def numbers(limits: Limits) -> tuple[float | None, float | None]:
    return limits.total, limits.silence


@pytest.mark.proves("T0-5", "S0-20", "S0-24", "S0-45")
@pytest.mark.parametrize(
    ("command", "total", "silence", "category"),
    [
        ("ls", 30, 10, "quick"),
        ("cargo test", 120, 30, "medium"),
        ("npm install", 600, 60, "long"),
        ("llamafactory-cli train x", 900, 120, "extended"),
        ("unknown", 120, 30, "medium"),
    ],
)
def test_the_seeds_file_gives_the_seeds_limits(
    command: str, total: float, silence: float, category: str
) -> None:
    limits = calculate_timeouts(SEED, command)

    assert numbers(limits) == (total, silence)
    assert limits.category == category
    assert not limits.literal


SEEDS_PATTERNS = [
    (
        "quick: ^(ls|dir|pwd|echo|cat|type|Get-ChildItem|Write-Host|Test-Path)",
        "ls -l; dir; pwd; echo x; cat f; type f; Get-ChildItem; Write-Host x; Test-Path x",
    ),
    (
        "quick: ^git (status|branch|log|diff)(?!.*push|pull|clone)",
        "git status; git branch; git log; git diff",
    ),
    ("quick: ^(whoami|hostname|date)", "whoami; hostname; date"),
    (r"medium: ^pwsh .+\.ps1", "pwsh ./x.ps1; pwsh -File x.ps1 a"),
    (
        "medium: ^(npm|cargo|dotnet) (test|run check)",
        "npm test; cargo test; dotnet test; npm run check; cargo run check; dotnet run check",
    ),
    (r"medium: ^python .+\.py(?!.*train)", "python x.py; python train.py"),
    (
        "long: ^(npm|cargo|dotnet) (install|build|publish)",
        "npm install; npm build; npm publish; cargo install x; cargo build; cargo publish;"
        "dotnet install; dotnet build; dotnet publish",
    ),
    ("long: ^git (clone|pull|push|fetch)", "git clone x; git pull; git push; git fetch"),
    ("long: ^pip install", "pip install x"),
    ("extended: llamafactory-cli train", "llamafactory-cli train; my llamafactory-cli train x"),
    ("extended: cargo build --release", "cargo build --release; my cargo build --release"),
    ("extended: npm run build:prod", "npm run build:prod; my npm run build:prod"),
    ("default", "git status push; git log origin/push; python x.py train; xls; my npm install"),
]


@pytest.mark.proves("S0-11", "S0-12", "S0-13", "S0-14", "S0-20", "S0-23")
@pytest.mark.parametrize(("pattern", "commands"), SEEDS_PATTERNS)
def test_every_word_of_the_seeds_patterns_counts(pattern: str, commands: str) -> None:
    category, _, text = pattern.partition(": ")
    expected = (f"category {category}", text) if text else ("default category medium", None)

    for command in commands.split(";"):
        for written in (command, command.upper()):
            limits = calculate_timeouts(SEED, written)
            assert (limits.source, limits.pattern) == expected, written


@pytest.mark.proves("S0-22")
def test_in_the_order_of_the_file_the_first_pattern_wins() -> None:
    patterns = {"long": ["nothing", "make.*", "make all"], "quick": ["make all", "make"]}
    backwards = dict(reversed(patterns.items()))

    found, turned = (
        calculate_timeouts(seed(match_strategy="first", command_patterns=given), "make all")
        for given in (patterns, backwards)
    )

    assert (found.source, found.pattern) == ("category long", "make.*")
    assert (turned.source, turned.pattern) == ("category quick", "make all")


@pytest.mark.proves("T0-5", "C-4", "S0-21", "D5", "D11", "S0-20", "S0-45", "S0-24")
@pytest.mark.parametrize(
    ("command", "given", "silence"),
    [
        ("unknown", 300, 60),
        ("unknown", 60, 30),
        ("unknown", 120, 30),
        ("unknown", 20, 20),
        ("unknown", 2, 2),
        ("unknown", 0.5, 0.5),
        ("echo x", 30, 10),
        ("echo x", 5, 5),
        ("llamafactory-cli train", 900, 120),
        ("llamafactory-cli train", 130, 120),
        ("llamafactory-cli train", 60, 60),
    ],
)
def test_a_total_limit_of_the_caller_brings_its_silence_limit(
    command: str, given: float, silence: float
) -> None:
    limits = calculate_timeouts(SEED, command, given)

    assert numbers(limits) == (given, silence)
    assert limits.source.startswith("timeout_sec")
    assert limits.notes == ()
    assert not limits.literal


def test_a_silence_limit_of_the_policy_is_not_told_as_the_callers() -> None:
    by_policy = calculate_timeouts(SEED, "unknown", 60)
    by_total = calculate_timeouts(SEED, "unknown", 300)

    assert by_policy.source == f"timeout_sec; silence: {calculate_timeouts(SEED, 'unknown').source}"
    assert by_total.source == "timeout_sec"


@pytest.mark.proves("D11")
def test_limits_are_named_as_their_caller_names_them() -> None:
    names = LimitNames("--total", "--silence", "{name} {seconds}s")

    limits = resolve(SEED, "ls", AskedLimits(total=9, silence=4, names=names))

    assert limits.source == "--total; silence: --silence"
    assert limits.names.passed(Limit.TOTAL, 18) == "--total 18s"
    assert limits.names.passed(Limit.SILENCE, 8) == "--silence 8s"
    assert LimitNames().passed(Limit.SILENCE, 8) == "no_output_timeout_sec=8"


@pytest.mark.proves("D5", "D11", "S0-21")
@pytest.mark.parametrize(("given", "silence"), [(300, 60), (121, 30), (3, 0)])
def test_the_literal_formula_is_a_knob(given: float, silence: float) -> None:
    policy = seed(explicit_silence={"mode": "literal"})

    assert calculate_timeouts(policy, "llamafactory-cli train", given).silence == silence


@pytest.mark.proves("C-4")
def test_the_fraction_may_hold_alone() -> None:
    policy = seed(explicit_silence={"mode": "fraction", "fraction": 0.5, "max_sec": 500})

    assert calculate_timeouts(policy, "llamafactory-cli train", 900).silence == 450
    assert calculate_timeouts(policy, "echo", 30).silence == 15


@pytest.mark.proves("T0-6", "C-6", "S0-22")
def test_of_several_categories_the_longest_wins_unless_the_file_says_otherwise() -> None:
    command = "cargo build --release"
    order = ["medium", "long", "extended"]

    assert numbers(calculate_timeouts(SEED, command)) == (900, 120)
    assert numbers(calculate_timeouts(seed(match_strategy="first"), command)) == (600, 60)
    by_order = seed(match_strategy="order", match_order=order)
    assert numbers(calculate_timeouts(by_order, command)) == (600, 60)


@pytest.mark.proves("T0-7", "C-7", "C-8", "S0-23")
@pytest.mark.parametrize(
    ("command", "expected"),
    [
        ("cd x && llamafactory-cli train", (900, 120)),
        ("ls; npm install", (600, 60)),
        ("echo hi && cargo build --release", (900, 120)),
        ("LS -la", (30, 10)),
        ("   ls", (30, 10)),
        ("xls", (120, 30)),
        ("sudo ls", (30, 10)),
        ("FOO=1 timeout 30 ls", (30, 10)),
        ("echo $(npm install)", (600, 60)),
        ("X=1; ls; ls -la", (30, 10)),
    ],
)
def test_every_command_of_a_text_is_looked_at(command: str, expected: tuple[float, float]) -> None:
    assert numbers(calculate_timeouts(SEED, command)) == expected


@pytest.mark.proves("C-8")
def test_a_command_nobody_knows_gets_its_default_beside_a_quick_one() -> None:
    limits = calculate_timeouts(SEED, "ls && ./build.sh")

    assert numbers(limits) == (120, 30)
    assert limits.source == "default category medium"


@pytest.mark.proves("C-7")
def test_a_pattern_may_be_about_the_whole_text() -> None:
    policy = seed(command_patterns={"extended": ["^sudo .*", "make && make check"]})

    assert calculate_timeouts(policy, "make && make check").category == "extended"
    assert calculate_timeouts(policy, "sudo x").category == "extended"
    assert calculate_timeouts(policy, "make").category == "medium"


@pytest.mark.proves("C-8", "C-5")
def test_no_limit_is_longer_than_any_and_silence_is_chosen_apart() -> None:
    categories = {
        "server": {"exec_timeout_sec": None, "no_output_timeout_sec": 5},
        "patient": {"exec_timeout_sec": 50, "no_output_timeout_sec": None},
    }
    policy = seed(
        categories=categories, command_patterns={"server": ["^serve"], "patient": ["^wait"]}
    )

    both = calculate_timeouts(policy, "wait & serve")

    assert numbers(both) == (None, None)
    assert (both.source, both.pattern) == ("category server", "^serve")
    assert both.notes == ("the silence limit comes from category patient",)
    assert numbers(calculate_timeouts(policy, "wait", 60)) == (60, 60)


@pytest.mark.proves("T0-8", "C-11")
def test_the_seeds_file_is_honoured_as_written_and_ours_is_corrected() -> None:
    assert calculate_timeouts(SEED, "lsof -i").category == "quick"
    assert calculate_timeouts(SHIPPED, "lsof -i").source == "default category medium"


TODAYS_TOOLS = {
    "quick": """
        ls -la; dir; echo x; git status; git -C x status; git log --grep=push; rg x; cd a && ls;
        sudo ls; stat f; /bin/cat f
    """,
    "medium": """
        catkin build; dirnamex; ./test; bin/test; scripts/ls; find . -name x; git commit -m x;
        python3 x.py
    """,
    "long": """
        npm ci; yarn; pnpm install; bun run build; cargo check; cargo clippy; pip3 install x;
        uv sync; poetry install; go test ./...; make -j4 2>&1 | tail; ./gradlew build; mvn -q test;
        git push; cmake --build .; docker compose up; pytest -q; python -m pytest; uv run pytest;
        npx jest; .venv/bin/pytest; node_modules/.bin/tsc; vite build; curl -O x; rsync -a a b;
        pg_dump x; sudo apt-get install x; kubectl apply -f x; npm run test:unit
    """,
    "extended": """
        llamafactory-cli train x; python train.py; cargo build --release; npm run build:prod;
        docker build .; terraform apply
    """,
}


@pytest.mark.proves("C-11", "S0-6", "S0-7", "S0-8", "S0-9")
@pytest.mark.parametrize("category", TODAYS_TOOLS)
def test_todays_tools_are_known(category: str) -> None:
    limits = SHIPPED.categories[category]

    assert (limits.total, limits.silence) == (
        SEED.categories[category].total,
        SEED.categories[category].silence,
    )
    for command in TODAYS_TOOLS[category].split(";"):
        assert calculate_timeouts(SHIPPED, command).category == category, command


@pytest.mark.proves("T0-9", "S0-18")
def test_the_fallback_is_medium_for_everything() -> None:
    limits = calculate_timeouts(fallback("no policy file"), "npm install")

    assert numbers(limits) == (120, 30)
    assert limits.source == "built-in fallback (no policy file)"
    assert limits.category == "medium"


@pytest.mark.proves("T0-24", "C-5")
@pytest.mark.parametrize("nothing", [0, None, 0.0])
def test_zero_and_null_leave_the_limits_to_the_policy(nothing: float | None) -> None:
    assert numbers(calculate_timeouts(SEED, "npm install", nothing)) == (600, 60)


@pytest.mark.proves("T0-23", "C-3")
@pytest.mark.parametrize("value", [-1, float("nan"), float("inf"), True, "10"])
def test_what_is_no_number_of_seconds_is_refused(value: object) -> None:
    with pytest.raises(ValueError, match="timeout_sec must be a number of seconds"):
        calculate_timeouts(SEED, "ls", value)
    with pytest.raises(ValueError, match="no_output_timeout_sec must be a number of seconds"):
        calculate_timeouts(SEED, "ls", 10, value)


@pytest.mark.proves("C-4", "C-14", "D10")
def test_a_silence_limit_of_the_caller_is_literal_and_may_be_off() -> None:
    given = calculate_timeouts(SEED, "npm install", None, 5)
    off = calculate_timeouts(SEED, "npm install", 300, 0)

    assert numbers(given) == (600, 5)
    assert given.literal
    assert given.source == "category long; silence: no_output_timeout_sec"
    assert numbers(off) == (300, None)
    assert not off.literal


@pytest.mark.proves("C-17")
def test_more_silence_than_time_is_noted() -> None:
    limits = calculate_timeouts(SEED, "ls", 10, 20)

    assert numbers(limits) == (10, 20)
    assert limits.notes == ("silence cannot end it before its total limit does",)


@pytest.mark.proves("C-21")
@pytest.mark.parametrize(("command", "given"), [("unknown", 3600), ("npm install", None)])
def test_a_limit_above_the_maximum_is_lowered_and_told(command: str, given: float | None) -> None:
    limits = calculate_timeouts(seed(max_exec_timeout_sec=300), command, given)

    assert numbers(limits) == (300, 60)
    assert limits.clamped
    assert limits.notes == ("max_exec_timeout_sec of the policy allows 300 s at most",)


@pytest.mark.proves("C-21")
def test_a_call_may_ask_for_a_day_unless_the_policy_allows_more() -> None:
    day = calculate_timeouts(SEED, "make", 86_400)
    more = calculate_timeouts(SEED, "make", 1e308)
    allowed = calculate_timeouts(seed(max_exec_timeout_sec=1_000_000), "make", 500_000)
    own = resolve(seed(command_timeouts={"serve": None}), "serve", AskedLimits())

    assert (day.total, day.clamped, day.notes) == (86_400, False, ())
    assert (more.total, more.clamped) == (86_400, True)
    assert "24 h at most" in more.notes[0]
    assert (allowed.total, allowed.clamped) == (500_000, False)
    assert own.total is None


def test_no_limit_is_lowered_to_the_maximum() -> None:
    policy = seed(max_exec_timeout_sec=50, command_timeouts={"serve": None})

    assert numbers(calculate_timeouts(policy, "serve")) == (50, None)
    assert not calculate_timeouts(policy, "ls").clamped


@pytest.mark.proves("T1-22", "S1-27", "S1-30")
@pytest.mark.parametrize(
    ("command", "expected", "source"),
    [
        ("cargo x", (600, 60), "command_timeouts.cargo"),
        ("cargo test", (600, 60), "command_timeouts.cargo"),
        ("/usr/bin/cargo x", (600, 60), "command_timeouts.cargo"),
        ("cd x && cargo test", (600, 60), "command_timeouts.cargo"),
        ("npm install && npm ci", (20, 20), "command_timeouts.npm"),
        ("cargo x && llamafactory-cli train", (900, 120), EXTENDED),
    ],
)
def test_a_programs_own_limit_beats_category_and_default(
    command: str, expected: tuple[float, float], source: str
) -> None:
    limits = calculate_timeouts(seed(command_timeouts={"cargo": 600, "npm": 20}), command)

    assert numbers(limits) == expected
    assert limits.source == source


@pytest.mark.proves("T1-22", "S1-31")
def test_the_session_beats_the_policy_and_the_call_beats_the_session() -> None:
    session = AskedLimits(total=40, silence=8)

    of_session = resolve(SEED, "npm install", AskedLimits(), session=session)
    of_call = resolve(SEED, "npm install", AskedLimits(total=80, silence_off=True), session=session)
    mixed = resolve(SEED, "npm install", AskedLimits(total=80), session=session)

    assert numbers(of_session) == (40, 8)
    assert of_session.source == "session policy; silence: session policy"
    assert numbers(of_call) == (80, None)
    assert numbers(mixed) == (80, 8)
    assert mixed.source == "timeout_sec; silence: session policy"


def test_an_endless_text_is_looked_at_only_so_far() -> None:
    limits = calculate_timeouts(SEED, "ls; " * 10_000 + "npm install")

    assert limits.category == "quick"
    assert limits.notes == ("only the first 32768 characters were looked at",)
    assert calculate_timeouts(SEED, "").source == "default category medium"


def test_exactly_the_maximum_is_not_clamped() -> None:
    policy = seed(max_exec_timeout_sec=100)

    limits = resolve(policy, "ls", AskedLimits(total=100.0))
    more = resolve(policy, "ls", AskedLimits(total=100.5))

    assert (limits.total, limits.clamped, limits.notes) == (100.0, False, ())
    assert (more.total, more.clamped) == (100.0, True)
