"""Whatever a file or a caller says, nothing passes that the allowlist does not allow."""

import json
import re
import string
import tempfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shelltie.basics.validate import InvalidValue
from shelltie.contexts.allowlist import AllowlistFile, parse
from shelltie.contexts.argument_filter import ArgumentRules, Denied, FilterLevel, refusal
from shelltie.contexts.program_access import Access
from shelltie.errors import CannotStart, CommandDenied, InvalidParameters

RULES = ["allow", "allow_exactly", "deny", "free_text_after"]
KEYS = [*RULES, "commands", "name", "path", "allow_relative_path", "note"]
WORDS = st.sampled_from(["git", "ls", "rm", "", "*", "-c", "--eval", "-c x", "status", "/bin/ls"])
JSON = st.recursive(
    st.none() | st.booleans() | st.floats() | st.integers() | WORDS | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(KEYS) | st.text(max_size=5), inner, max_size=4)
    ),
    max_leaves=8,
)
ENTRY = st.fixed_dictionaries(
    {"name": st.sampled_from(["git", "ls"])},
    optional={
        **{key: st.lists(WORDS, max_size=3) | JSON for key in RULES},
        "allow_relative_path": st.booleans(),
        "path": WORDS,
    },
)
DOCUMENT = JSON | st.fixed_dictionaries({"commands": st.lists(ENTRY | WORDS, max_size=4)})
SYNTAX = st.sampled_from([*";|&<>\n\r\0`$(){}[]?*~/-=", "$(", "${", "$HOME", "a", "-m", "--x", " "])
ARGUMENTS = st.lists(st.lists(SYNTAX, max_size=5).map("".join) | st.text(max_size=8), max_size=5)
LETTERS = st.text(string.ascii_letters, max_size=4)


@pytest.mark.proves("C-66")
@given(ARGUMENTS, st.booleans())
def test_nothing_passes_that_has_what_is_refused(args: list[str], exempt: bool) -> None:
    rules = ArgumentRules(free_text_after=("-m", "--message") if exempt else ())

    if refusal(args, rules, FilterLevel.DEFAULT) is None:
        for before, text in zip(["", *args], args, strict=False):
            assert "\0" not in text
            free = exempt and (
                re.fullmatch("-[a-zA-Z]*m|--message", before)
                or text.startswith(("-m", "--message="))
            )
            assert free or not set(text) & set(";|&<>\n\r`")
            assert free or not re.search(r"\$[({A-Za-z_]", text)
    if refusal(args, ArgumentRules(), FilterLevel.STRICT) is None:
        assert not set("".join(args)) & set(";|&<>\n\r\0`{}[]?*~")
        assert not {"/", "/*", "/**"} & set(args)


@given(ARGUMENTS)
def test_a_stricter_level_never_lets_more_pass(args: list[str]) -> None:
    refused = [
        refusal(args, ArgumentRules(), level) is not None
        for level in (FilterLevel.OFF, FilterLevel.DEFAULT, FilterLevel.STRICT)
    ]

    assert refused == sorted(refused)


@given(ARGUMENTS, st.lists(WORDS.filter(bool), max_size=2))
def test_a_rule_more_never_lets_more_pass(args: list[str], words: list[str]) -> None:
    deny = tuple(Denied(*word.split()[:2]) for word in words)
    plain = refusal(args, ArgumentRules(), FilterLevel.DEFAULT)

    for rules in (ArgumentRules(deny=deny), ArgumentRules(allow=(("status",),), deny=deny)):
        assert plain is None or refusal(args, rules, FilterLevel.DEFAULT) is not None


@pytest.mark.proves("C-67")
@given(before=LETTERS, after=LETTERS, words=st.lists(st.text(max_size=4), max_size=2))
def test_no_spelling_hides_a_denied_option(before: str, after: str, words: list[str]) -> None:
    rules = ArgumentRules(deny=(Denied("-e"), Denied("--eval")))

    for option in (f"-{before}e{after}", "--eval", f"--eval={after}", "--ev", f"-e={after}"):
        assert refusal([*words, option, *words], rules, FilterLevel.OFF) is not None


@given(DOCUMENT)
def test_any_document_is_read_as_written_or_refused(document: object) -> None:
    try:
        found = parse(json.dumps(document))
    except InvalidValue:
        return

    assert isinstance(document, list | dict)
    listed = document if isinstance(document, list) else document["commands"]
    items = [{"name": item} if isinstance(item, str) else item for item in listed]
    assert list(found.entries) == list(dict.fromkeys(item["name"] for item in items))
    for item in items:
        entry = found.entries[item["name"]]
        assert {key for key in RULES if getattr(entry.arguments, key)} == item.keys() & set(RULES)
        assert entry.path == item.get("path")
        assert entry.relative_path == item.get("allow_relative_path", False)


@given(st.text() | st.binary() | DOCUMENT.map(json.dumps), st.text(), ARGUMENTS)
def test_no_file_and_no_call_starts_what_is_not_listed(
    content: str | bytes, command: str, args: list[str]
) -> None:
    raw = content if isinstance(content, bytes) else content.encode("utf-8", "surrogatepass")
    with tempfile.TemporaryDirectory() as place:
        file = Path(place) / "allow.json"
        file.write_bytes(raw)
        allowlist = AllowlistFile(file, "allow.json")
        access = Access(allowlist, "/usr/bin:/bin")

        for name in (command, "rm", "ls", "/bin/ls", "./ls", "/tmp/ls", "LS"):
            try:
                argv = access.check(name, args, cwd=place)
            except (CommandDenied, CannotStart, InvalidParameters):
                continue
            assert str(Path(argv[0]).parent) in ("/usr/bin", "/bin")
            assert any(
                Path(argv[0]).name in (entry.name, Path(entry.path or "").name)
                and refusal(argv[1:], entry.arguments, FilterLevel.DEFAULT) is None
                for entry in allowlist.current().entries.values()
            )
