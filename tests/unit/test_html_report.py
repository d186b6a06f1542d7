from dataclasses import replace
from html.parser import HTMLParser

import pytest

from shelltie.frontends.cli.html import kind, of_run
from shelltie.frontends.cli.html_report import report
from shelltie.limits.experience import Usual
from shelltie.record.past_runs import PastRun

EVIL = "\"'><script>alert(1)</script>\u202e\x1b[2J\n"
RUN = PastRun(
    *("01J", "finished", "make all", "/work", "me", "local", "long"),
    *(1_000_000.0, 2.0, 0, None, 10, 0, None),
)
DAY = 86400.0


class Page(HTMLParser):
    """What a browser would make of it; every tag that is opened must be closed."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.open: list[str] = []
        self.rows: list[str] = []
        self.feed(text)
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        if tag not in ("meta",):
            self.open.append(tag)
        if tag == "tr":
            self.rows.append("")
        assert not {name for name, _ in attrs} & {"src", "href", "onclick", "onload"}

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if "tr" in self.open:
            self.rows[-1] += f"{data} "

    def row(self, *words: str) -> bool:
        """Whether a line of a table has all of these."""
        return any(all(word in row for word in words) for row in self.rows)


def test_each_end_is_counted_and_says_why() -> None:
    ends = [
        replace(RUN, exit_code=127),
        replace(RUN, exit_code=143),
        replace(RUN, exit_code=3),
        replace(RUN, state="timed_out", exit_code=None, limit="total"),
        replace(RUN, state="timed_out", exit_code=None, limit="silence"),
        replace(RUN, state="lost", exit_code=None, duration=None),
        replace(RUN, state="killed", exit_code=None),
        replace(RUN, state="running", exit_code=None, duration=None),
    ]

    text = report([RUN, RUN, *ends], [], "all")

    page = Page(text)
    assert page.row("exit 0", "2", "went well")
    assert page.row("exit 127", "1", "no such program")
    assert page.row("exit 143", "1", "SIGTERM")
    assert page.row("exit 3", "1", "the command said so")
    assert page.row("timeout (total)", "longer than its limit")
    assert page.row("timeout (silence)", "printed nothing")
    assert page.row("lost", "server died")
    assert page.row("running", "it runs")
    assert page.row("4", "make all", "1 timeout (total), 1 timeout (silence), 1 lost, 1 stopped")
    assert "20%" in text
    assert "ended by a limit, a person or a crash" in text
    assert "the highest column is 10 commands" in text
    assert "not over" in text


def test_what_was_refused_is_said_with_who_wanted_it_and_why() -> None:
    no = replace(RUN, state="refused", exit_code=None, duration=None, client="claude-code 1")
    refused = [replace(no, command="rm -rf /", reason="a person said no")] * 3

    text = report([*refused, RUN], [], "all", {True: 2, False: 3})

    page = Page(text)
    assert page.row("3", "claude-code 1", "rm -rf /", "a person said no")
    assert page.row("refused", "a rule or a person said no")
    assert '<b class="bad">3</b>refused' in text
    assert '<b class="">2</b>approved by a person' in text


def test_a_quiet_week_between_two_runs_is_shown_as_one() -> None:
    later = replace(RUN, began=RUN.began + 7 * DAY, command="make later", exit_code=1)

    page = Page(report([later, RUN], [], "all"))

    assert page.tags.count("rect") == 2
    assert page.tags.count("details") == 2


def test_the_slowest_run_of_a_command_stands_for_it() -> None:
    runs = [replace(RUN, duration=float(number)) for number in range(1, 30)]

    page = Page(report([*runs, replace(RUN, command="other", duration=5.0)], [], "all"))

    slow = [row for row in page.rows if "1970-01-12" in row]
    assert [("29s" in row, "5s" in row) for row in slow] == [(True, False), (False, True)]


def test_what_is_usual_is_said_with_limits_that_would_fit() -> None:
    known = Usual("make all", 25, 100.0, 200.0, 900.0, 50.0, 400.0, 1.0)

    page = Page(report([RUN], [("/work", known, "1h/15m")], "all"))

    assert page.row("make all", "25", "1m 40s", "3m 20s", "15m", "1h/15m", "/work")


@pytest.mark.parametrize("field", ["command", "cwd", "client", "state", "provider", "id"])
def test_nothing_that_was_recorded_becomes_a_part_of_the_page(field: str) -> None:
    evil = replace(RUN, **{field: EVIL})  # type: ignore[arg-type]  # a field of texts
    known = Usual(EVIL, 25, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0)

    text = report([evil], [(EVIL, known, EVIL)], EVIL)

    assert "script" not in Page(text).tags
    assert "<script" not in text
    assert "\u202e" not in text.partition("<h1>")[2]


@pytest.mark.parametrize(
    "run",
    [
        replace(RUN, duration=1e12),
        replace(RUN, duration=0.0),
        replace(RUN, command=""),
        replace(RUN, command="x" * 16_000),
        replace(RUN, state="released", exit_code=None),
        replace(RUN, exit_code=99999),
        replace(RUN, exit_code=192),
        replace(RUN, exit_code=None),
    ],
)
def test_an_odd_run_does_not_spoil_the_page(run: PastRun) -> None:
    assert len(report([run, RUN], [], "all")) < 20_000
    assert Page(report([run], [], "all")).tags.count("details") == 1


def test_without_runs_it_says_so() -> None:
    assert "Nothing was recorded" in report([], [], "all")


def test_the_page_of_a_run_shows_no_place_that_plays_tricks() -> None:
    page = of_run(replace(RUN, cwd=EVIL), "printed")

    assert not {"\x1b", "\u202e"} & set(page)
    assert "script" not in Page(page).tags


def test_a_run_whose_server_died_is_not_shown_as_well() -> None:
    assert kind(replace(RUN, state="lost", exit_code=None)) == "late"
