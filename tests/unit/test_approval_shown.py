"""What a person is shown cannot be forged, and no length hides what matters."""

from dataclasses import replace

import pytest

from shelltie.approval.card import card, card_lines, main_reason
from shelltie.approval.question import Kind, ProvedKind, Question
from shelltie.basics import visible_text
from shelltie.basics.visible_text import notes
from shelltie.frontends.cli.commands.pending import how_to_answer
from shelltie.model import Command
from shelltie.verdict import Code, Rating, Reason, Span, Verdict


def question(command: Command, *reasons: Reason, client: str = "a client") -> Question:
    asked = Question.about(command, Verdict(Rating.DANGEROUS, reasons), "local", client)
    return replace(asked, id="ABC123", asked_at=100.0)


def because(text: str, part: str, message: str = "deletes whole trees") -> Reason:
    start = text.index(part)
    span = Span(start, start + len(part))
    return Reason(Code.DESTROYS_DATA, Rating.DANGEROUS, message, span)


@pytest.mark.parametrize(
    ("text", "seen"),
    [
        ("rm -rf build", "│ rm -rf build"),
        ("ls \u202e txt", "│ ls ⟨U+202E⟩ txt"),
        ("ls\x1b[2K\rgit", "│ ls⟨U+001B⟩[2K⟨U+000D⟩git"),
        ("a\u200bb\ufe0fc\U000e0041", "│ a⟨U+200B⟩b⟨U+FE0F⟩c⟨U+E0041⟩"),
        ("a\u00a0b\u3000c\u3164d", "│ a⟨U+00A0⟩b⟨U+3000⟩c⟨U+3164⟩d"),
        ("ls" + " " * 120 + "; reboot", "│ ls⟨120 spaces⟩; reboot"),
        ("ls" + "\t" * 99 + "x", "│ ls⟨99*tab⟩x"),
        ("ls ", "│ ls⟨1 space⟩"),
        ("a\nb", "│ a\n│ b"),
        ("⟨U+202E⟩", "│ ⟨U+27E8⟩U+202E⟨U+27E9⟩"),
        ("\u05d0\u05d1 x", "│ ⟨U+05D0 U+05D1⟩ x"),
        ("caf\u00e9 हिन्दी 日本 🎉", "│ caf\u00e9 हिन्दी 日本 🎉"),
        ("e\u0301", "│ e⟨U+0301⟩"),
        ("x\udcff", "│ x⟨byte-FF⟩"),
        ("a" + "\n" * 50 + "b", "│ a\n│\n│ ⟨this line 48 more times⟩\n│ b"),
        ("", "│"),
    ],
)
def test_what_cannot_be_seen_is_named(text: str, seen: str) -> None:
    assert "\n".join(visible_text.lines(text)) == seen


def test_a_long_line_goes_on_behind_another_gutter() -> None:
    first, *more = visible_text.lines("x" * 200)

    assert first.startswith("│ x")
    assert more
    assert all(line.startswith("┊ x") for line in more)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("l\u0456st", "mixes CYRILLIC and LATIN letters: \u0456 (U+0456)"),
        ("\u0441\u043e\u0440\u0443", "looks Latin, but its letters are CYRILLIC"),
        ("ls \uff0fetc", "\uff0f (U+FF0F) is not /"),
        ("rm \u2010rf", "\u2010 (U+2010) is not -"),
        ("ls\u037e reboot", "⟨U+037E⟩ (U+037E) is not ;"),
    ],
)
def test_letters_that_pass_for_others_are_pointed_at(text: str, said: str) -> None:
    assert any(said in note for note in notes(text))


@pytest.mark.parametrize("text", ["ls -la", "caf\u00e9", "日本語ls", "git commit -m 'привет мир'"])
def test_honest_letters_are_not(text: str) -> None:
    assert notes(text) == []


def test_many_doubts_are_counted() -> None:
    assert notes("".join(map(chr, range(0xFF21, 0xFF3A))))[-1].endswith("more of this kind")


def test_a_card_shows_all_that_a_yes_is_bound_to() -> None:
    text = "rm -rf build"
    command = Command(text, cwd="/", env={"A": "1", "B": None}, stdin=b"one\ntwo")

    asked = question(command, because(text, text))
    lines = card(asked, now=112.0)
    full = card(replace(asked, provider="bubblewrap"), now=112.0, full=True)

    assert lines == [
        "  │ rm -rf build",
        "  ✗ deletes whole trees [destroys_data]",
        "  in /",
        "  ABC123 · dangerous · asked by a client 12s ago",
        "  set     A=1",
        "  unset   B",
        "  input (7 B)",
        "  │ one",
        "  │ two",
    ]
    assert {*lines} < {*full}
    for line in (
        "  by bubblewrap",
        "  on      bubblewrap",
        "  size    1 line, 12 characters",
        f"  digest  {asked.digest}",
    ):
        assert line in full


def test_arguments_are_shown_as_they_would_be_typed() -> None:
    command = Command("x", argv=("rm", "a b", "$HOME"), cwd="/")

    lines = card(question(command), now=100.0)

    assert "  │ rm 'a b' '$HOME'" in lines
    assert any("no shell" in line for line in lines)


def test_nothing_in_a_question_can_begin_a_line_of_ours() -> None:
    forged = "x\nABC123 · safe · asked by me 1s ago\n  ✗ nothing"
    directory = "/" + "a" * 70 + "ABC123 · safe · asked by me" * 20
    command = Command(
        forged, cwd=directory, env={forged: forged, "B" * 90: None}, stdin=b"\nABC123"
    )
    asked = question(command, because(forged, "x", forged), client=forged)

    lines = card(asked, now=100.0, full=True)

    heading = next(line for line in lines if line.startswith("  ABC123"))
    lines.remove(heading)
    assert heading.startswith("  ABC123 · dangerous · asked by ")
    assert not [line for line in lines if line.startswith("  ABC123") or "\n" in line]
    assert all(line.startswith("  ") for line in lines)
    assert not [
        line for line in lines if "safe ·" in line and line[2] not in "│┊╎" and "⟨" not in line
    ]
    assert all(visible_text.cells(line) <= 80 for line in lines)


def test_a_long_command_is_cut_openly_and_its_danger_is_still_seen() -> None:
    text = "\n".join(f"echo {n}" for n in range(500)) + "\nrm -rf ~\n"
    text += "\n".join(f"echo {n}" for n in range(500))
    asked = question(Command(text, cwd="/"), because(text, "rm -rf ~"))

    short, full = card(asked, now=100.0), card(asked, now=100.0, full=True)

    assert len(short) < 60
    assert any("more lines: shelltie pending ABC123 --full" in line for line in short)
    assert short.count("  │ rm -rf ~") == 2  # in its place, and with the reason
    assert sum("echo" in line for line in full) >= 1000


def test_a_judged_piece_that_is_long_itself_is_shown_at_both_ends() -> None:
    text = "rm -rf " + " ".join(f"file{n}" for n in range(2000))

    lines = card(question(Command(text, cwd="/"), because(text, text)), now=100.0)

    assert any("characters of it stand above" in line for line in lines)
    after = lines.index(next(line for line in lines if "stand above" in line))
    assert any(line.endswith("file1999") for line in lines[after:])


def test_input_that_is_not_shown_is_counted() -> None:
    lines = card(question(Command("sh", cwd="/", stdin=b"x\n" * 100_000)), now=100.0, full=True)

    assert any("more of the input are not shown" in line for line in lines)


def test_the_strictest_reason_follows_the_command_and_names_the_question() -> None:
    mild = Reason(Code.WRITES_FILES, Rating.UNKNOWN, "writes", Span(0, 1))
    many = [replace(mild, message=f"writes {n}") for n in range(20)]
    asked = question(Command("touch x; rm -rf y", cwd="/"), *many, because("rm -rf y", "rm"), mild)

    lines = card(asked, now=100.0)

    assert lines[:3] == [
        "  │ touch x; rm -rf y",
        "  ✗ deletes whole trees [destroys_data]",
        "  in /",
    ]
    assert "  · + 10 more: writes_files" in lines
    assert main_reason(asked) == "destroys_data"
    assert main_reason(question(Command("ls", cwd="/"))) == ""


@pytest.mark.proves("D13")
def test_the_command_is_bold_the_worst_of_it_red_and_said_once() -> None:
    text = "rm -rf build"
    reasons = (
        because(text, text, "rm: deletes whole trees"),
        because(text, text, "rm: deletes without asking"),
        replace(because(text, text, "rm removes files"), rating=Rating.UNKNOWN),
    )

    lines = card_lines(question(Command(text, cwd="/"), *reasons), now=100.0)

    assert [(line.text, line.style) for line in lines] == [
        ("  │ rm -rf build", "bold"),
        ("  ✗ rm: deletes whole trees; rm: deletes without asking [destroys_data]", "red"),
        ("  in /", ""),
        ("  ABC123 · dangerous · asked by a client 0ms ago", "dim"),
    ]


def test_a_long_command_is_broken_between_words_and_its_danger_shown_once() -> None:
    words = " ".join(f"--option-{n}=value" for n in range(30))
    text = f"cd app && export FOO=bar && make {words} && rm -rf build && echo done"
    reasons = [because(text, "rm -rf build", f"reason {n}") for n in range(4)]

    lines = card(question(Command(text, cwd="/"), *reasons), now=100.0)

    assert not any("space" in line for line in lines)
    whole = " ".join(line[4:] for line in lines if line[2] in "│╎")
    assert whole.startswith(text)
    (told,) = [line for line in lines if "rm -rf build" in line and line[2] == "│"]
    assert told.startswith("  │ --option-2")  # whole words before and after
    assert told.endswith(" && rm -rf build && echo")


def test_the_hint_names_a_flag_for_each_scope_that_is_offered() -> None:
    command = Command("rm -rf build", cwd="/")
    plain = Question.about(command, Verdict(Rating.DANGEROUS), "local")
    proved = replace(plain, kind=ProvedKind(Kind.DELETE_IGNORED, "/"))

    assert "[--session | --always]," in how_to_answer(plain)
    assert "[--session | --always | --kind]," in how_to_answer(proved)
