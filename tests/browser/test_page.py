"""The page in a real browser: what a person sees inside the window, and what they do with it."""

import re
import signal
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import pytest
from playwright.sync_api import (
    Browser,
    BrowserContext,
    Locator,
    Page,
    Route,
    expect,
    sync_playwright,
)

from tests.asking import ROOT, not_on_a_leash
from tests.web_page import Agent, WebPage, agent, own_environment, web_page

pytestmark = [not_on_a_leash, pytest.mark.needs("chromium"), pytest.mark.xdist_group("page")]

Colours = Literal["dark", "light"]
PATIENCE = 50_000  # milliseconds
WIDE, PHONE = (1280, 800), (390, 844)
SCREENSHOTS = ROOT / "build" / "screenshots"
FLAGS = ("--no-sandbox", "--disable-gpu", "--disable-quic", "--disable-background-networking")
HOSTILE = r"""
printf '<img src=x onerror="window.hacked=1"><script>window.hacked=2</script>\n'
printf '\033]8;;javascript:window.hacked=3\033\\click me\033]8;;\033\\\n'
printf '\033]0;another title\007\033]52;c;aGk=\007'
printf 'access \342\200\256 lla\n'
printf '\033]4;1;#ffffff\007\033[38;2;1;2;3mbarely there\033[0m\033[6n\033[c\033]11;?\007\n'
yes 'flood flood flood flood flood' | head -c 20000000
printf '\n\033[32mthe end\033[0m\n'
sleep 300
"""
# What was printed before is still to be drawn when something else is shown.
ANOTHER = """async () => {
  const { terminal } = await import("/page/terminal.js");
  const bytes = (text) => new TextEncoder().encode(text);
  terminal().feed(bytes("of the one before\\r\\n\\x1b]0;and half a title"));
  terminal().reset();
  terminal().feed(bytes("of this one\\r\\n"));
}"""
# How many widths the terminal has had in some frames, after it had some to settle.
WIDTHS = """() => new Promise((done) => {
  const seen = [];
  const look = () => {
    seen.push(document.querySelector(".xterm-screen").style.width);
    if (seen.length < 40) requestAnimationFrame(look);
    else done(new Set(seen.slice(20)).size);
  };
  look();
})"""
LUMINANCE = """(colour) => {
  const [r, g, b] = colour.match(/[\\d.]+/g).slice(0, 3).map((one) => one / 255)
    .map((one) => (one <= 0.03928 ? one / 12.92 : ((one + 0.055) / 1.055) ** 2.4));
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
}"""


@dataclass
class Opened:
    """A browser beside a page and its agent. Whatever a page complains of is remembered."""

    page: WebPage
    agent: Agent
    work: Path
    env: dict[str, str]
    browser: Browser
    contexts: list[BrowserContext] = field(default_factory=list)
    complaints: list[str] = field(default_factory=list)

    def open(
        self,
        link: str = "steer",
        size: tuple[int, int] = WIDE,
        colours: Colours = "dark",
        page: WebPage | None = None,
        without: str | None = None,
    ) -> Page:
        """The page by one of its links, in a window of this size."""
        where = page or self.page
        context = self.browser.new_context(
            viewport={"width": size[0], "height": size[1]},
            color_scheme=colours,
            reduced_motion="reduce",
        )
        context.set_default_timeout(PATIENCE)
        self.contexts.append(context)
        tab = context.new_page()
        if without is not None:
            tab.route(without, lambda route: route.abort())
        tab.on("console", lambda said: self.complaints.append(said.text))
        tab.on("pageerror", lambda error: self.complaints.append(str(error)))
        tab.on("dialog", lambda dialog: self.complaints.append(dialog.message))
        tab.goto(f"{where.url}#{link}={getattr(where, link)}")
        expect(tab.locator("#live")).to_have_text("live")
        return tab


@pytest.fixture(scope="module")
def together() -> Iterator[Opened]:
    expect.set_options(timeout=PATIENCE)
    SCREENSHOTS.mkdir(parents=True, exist_ok=True)
    with (
        own_environment() as env,
        agent(env) as one,
        web_page(env, "--allow-input") as page,
        sync_playwright() as driver,
        driver.chromium.launch(executable_path="/usr/bin/chromium", args=[*FLAGS]) as browser,
    ):
        yield Opened(page, one, Path(env["WORK"]), env, browser)


@pytest.fixture
def opened(together: Opened) -> Iterator[Opened]:
    """The same for one test: its windows are closed, and what ran is ended."""
    yield together
    for context in together.contexts:
        context.close()
    together.contexts.clear()
    assert together.page.post("/api/stop-all", {}, together.page.steer)[0] == 200
    complaints, together.complaints = together.complaints, []
    assert complaints == []


def inside(element: Locator, size: tuple[int, int] = WIDE) -> bool:
    """Whether all of it is in the window."""
    expect(element).to_be_visible()
    box = element.bounding_box()
    assert box is not None
    right, bottom = box["x"] + box["width"], box["y"] + box["height"]
    return box["x"] >= 0 and box["y"] >= 0 and right <= size[0] and bottom <= size[1]


def card(tab: Page, text: str) -> Locator:
    found = tab.locator(".card").filter(has_text=text)
    expect(found).to_be_visible()
    tab.wait_for_timeout(600)  # what has just appeared cannot be answered yet: nobody has read it
    return found


def row(tab: Page, text: str) -> Locator:
    return tab.locator(".row").filter(has_text=text)


def shows(tab: Page, name: str) -> None:
    """Keep a picture, for people to look at."""
    tab.screenshot(path=SCREENSHOTS / f"{name}.png")


@pytest.mark.proves("D14")
def test_what_runs_and_what_waits_is_in_the_window_and_can_be_answered(opened: Opened) -> None:
    victim = opened.work / "victim"
    victim.mkdir()
    opened.agent.start(r"printf '\033[32mCompiling\033[0m serde\n'; sleep 301")
    opened.agent.send("run", command=f"rm -rf {victim}", cwd=str(opened.work))
    tab = opened.open()
    asked = card(tab, "rm -rf")

    assert tab.url == opened.page.url
    assert inside(asked)
    assert inside(asked.get_by_role("button", name="Allow once"))
    assert inside(asked.get_by_role("button", name="Deny"))
    assert inside(row(tab, "sleep 301"))
    expect(asked).to_contain_text("deletes whole trees")
    expect(asked).to_contain_text("files/rm")
    expect(asked).to_contain_text(str(opened.work))
    expect(asked).to_contain_text("claude-code")
    expect(asked.locator(".expires")).to_contain_text("no in")
    expect(tab).to_have_title("(1) shelltie")
    assert "circle" in (tab.locator("#favicon").get_attribute("href") or "")
    expect(tab.locator(".term .xterm-fg-2")).to_have_text("Compiling")
    expect(tab.locator(".process").first).to_be_visible()
    shows(tab, "live-dark")

    asked.get_by_role("button", name="Always").click()
    expect(asked.locator(".rule")).to_contain_text("[[approved]]")
    expect(asked.locator(".rule")).to_contain_text(f'text = "rm -rf {victim}"')
    asked.get_by_role("button", name="Back").click()
    assert victim.exists()
    asked.get_by_role("button", name="Allow once").click()
    expect(tab.locator(".card")).to_have_count(0)
    expect(tab).to_have_title("shelltie")
    assert opened.agent.answer()["exitCode"] == 0
    assert not victim.exists()


def test_two_pages_answer_and_the_first_counts(opened: Opened) -> None:
    opened.agent.send("run", command=f"rm -rf {opened.work}/both", cwd=str(opened.work))
    one, other = opened.open(), opened.open()
    mine, theirs = card(one, "both"), card(other, "both")
    expect(theirs).to_be_visible()

    mine.get_by_role("button", name="Deny").click()

    expect(other.locator(".card")).to_have_count(0)
    assert "refused" in opened.agent.answer()["error"]


def test_a_yes_that_comes_too_late_is_told_and_counts_for_nothing(opened: Opened) -> None:
    kept = opened.work / "kept"
    kept.mkdir(exist_ok=True)
    opened.agent.send("run", command=f"rm -rf {kept}", cwd=str(opened.work))
    one, other = opened.open(), opened.open()
    mine, theirs = card(one, "kept"), card(other, "kept")
    sent: list[Route] = []
    # A yes that takes its time on the way.
    other.route("**/api/answer", lambda route: sent.append(route))  # noqa: PLW0108  it must be ours

    with other.expect_request("**/api/answer"):
        theirs.get_by_role("button", name="Allow once").click()
    mine.get_by_role("button", name="Deny").click()
    answer = opened.agent.answer()
    sent[0].continue_()

    expect(other.locator("#notice")).to_contain_text("waits for an answer here")
    assert "refused" in answer["error"]
    assert kept.exists()
    opened.complaints[:] = _but(opened.complaints, "Failed to load resource")


def test_the_tab_counts_what_waits(opened: Opened) -> None:
    tab = opened.open()
    expect(tab).to_have_title("shelltie")
    calm = tab.locator("#favicon").get_attribute("href") or ""
    with agent(opened.env, "codex") as other:
        opened.agent.send("run", command=f"rm -rf {opened.work}/one", cwd=str(opened.work))
        other.send("run", command=f"rm -rf {opened.work}/two", cwd=str(opened.work))
        expect(tab).to_have_title("(2) shelltie")
        counting = tab.locator("#favicon").get_attribute("href") or ""
        for name, asker in (("one", opened.agent), ("two", other)):
            card(tab, f"/{name}").get_by_role("button", name="Deny").click()
            assert "refused" in asker.answer()["error"]

    expect(tab).to_have_title("shelltie")
    assert "circle" in counting
    assert tab.locator("#favicon").get_attribute("href") == calm != counting


def test_stop_all_is_held_and_ends_everything_in_every_server(opened: Opened) -> None:
    with agent(opened.env, "codex") as other:
        opened.agent.start("sleep 371")
        other.start("sleep 372")
        tab = opened.open()
        both = row(tab, "sleep 37")
        expect(both).to_have_count(2)
        stop = tab.locator("#stop-all")
        assert inside(stop)

        stop.click()  # not held: nothing happens
        for n in range(2):
            expect(both.nth(n)).to_have_attribute("data-mood", "runs")
        stop.hover()
        tab.mouse.down()
        for n in range(2):
            expect(both.nth(n)).to_have_attribute("data-mood", "cut")
        tab.mouse.up()
        expect(tab.locator("#notice")).to_contain_text("Everything was ended")


def test_an_empty_page_says_so_and_shows_the_first_server_by_itself(opened: Opened) -> None:
    with own_environment() as env, web_page(env) as alone:
        tab = opened.open(page=alone, colours="light")
        nothing = tab.locator(".empty").filter(has_text="Nothing runs.")
        assert inside(nothing)
        expect(tab).to_have_title("shelltie")
        expect(tab.locator(".card")).to_have_count(0)
        shows(tab, "empty-light")
        for number in ("2", "3", "4", "1"):  # no view of it stumbles over nothing
            tab.keyboard.press(number)
        with agent(env, "codex") as first:
            first.start("sleep 373")
            expect(row(tab, "sleep 373")).to_have_count(1)
        expect(row(tab, "sleep 373")).not_to_have_attribute("data-mood", "runs")
        tab.context.close()
    opened.complaints[:] = _but(opened.complaints, "Failed to load resource")


def test_keys_alone_are_enough(opened: Opened) -> None:
    for number in (311, 312):
        opened.agent.start(f"sleep {number}")
    opened.agent.send("run", command=f"rm -rf {opened.work}/keys", cwd=str(opened.work))
    tab = opened.open()
    card(tab, "keys")
    expect(row(tab, "sleep 31")).to_have_count(2)
    chosen = tab.locator('.row[aria-selected="true"]')
    first = chosen.get_attribute("data-key")

    tab.keyboard.press("?")
    expect(tab.locator("#help")).to_be_visible()
    tab.keyboard.press("Escape")
    expect(tab.locator("#help")).to_be_hidden()
    tab.keyboard.press("j")
    assert chosen.get_attribute("data-key") != first
    tab.keyboard.press("k")
    assert chosen.get_attribute("data-key") == first
    tab.keyboard.press("/")
    tab.keyboard.type("312")
    expect(row(tab, "sleep 311")).to_have_count(0)
    tab.keyboard.press("Escape")
    tab.keyboard.press("Tab")
    ring = tab.evaluate("() => getComputedStyle(document.activeElement).outlineStyle")
    assert ring == "solid"
    tab.keyboard.press("d")
    expect(tab.locator(".card")).to_have_count(0)
    assert "refused" in opened.agent.answer()["error"]
    row(tab, "sleep 312").click()
    tab.keyboard.press("x")  # not held: nothing happens
    expect(row(tab, "sleep 312")).to_have_attribute("data-mood", "runs")
    tab.keyboard.down("x")
    expect(row(tab, "sleep 312")).to_have_attribute("data-mood", "cut")
    tab.keyboard.up("x")


def test_a_limit_is_extended_and_a_run_is_killed_by_holding(opened: Opened) -> None:
    opened.agent.send(
        "run", command="echo begun; sleep 321", timeout_sec=900, no_output_timeout_sec=500
    )
    tab = opened.open()
    row(tab, "sleep 321").click()
    bar = tab.locator("#detail .leash-text")
    expect(bar).to_contain_text("silence limit 8 m 20 s")

    tab.get_by_role("button", name="+5 min").click()

    expect(bar).to_contain_text("silence limit 13 m 20 s")
    expect(tab.locator("#detail .warnings")).to_contain_text("longer by 5m")
    expect(tab.locator("#detail")).to_contain_text("total 20 m, silence 13 m 20 s")
    kill = tab.locator("#detail").get_by_role("button", name="Kill")
    kill.click()  # not held: nothing happens
    expect(row(tab, "sleep 321")).to_have_attribute("data-mood", "runs")
    kill.hover()
    tab.mouse.down()
    expect(tab.locator("#detail .why")).to_contain_text("a person ended it")
    tab.mouse.up()
    answer = opened.agent.answer()
    assert "a person ended it" in str(answer)
    assert any("longer by 5m" in warning for warning in answer["warnings"])


def test_the_bar_turns_amber_says_when_and_why_it_ended(opened: Opened) -> None:
    tab = opened.open()
    opened.agent.send("run", command=f"rm -rf {opened.work}/waits", cwd=str(opened.work))
    card(tab, "waits").get_by_role("button", name="Deny").click()
    assert "refused" in opened.agent.answer()["error"]
    opened.agent.send(
        "run",
        command="echo working; sleep 2; echo half way; sleep 331",
        timeout_sec=300,
        no_output_timeout_sec=40,
    )
    row(tab, "sleep 331").click()

    expect(tab.locator("#detail .leash")).to_have_attribute("data-state", re.compile("warn|end"))
    expect(tab.locator("#detail .leash-text")).to_have_text(re.compile(r"ends in \d+ s"))
    expect(tab.locator("#detail .why")).to_contain_text("it printed nothing for 40 s")
    assert opened.agent.answer()["status"] == "timeout"
    tab.get_by_role("button", name="Why, and replay").click()
    past = tab.locator("#past-one")
    expect(past).to_contain_text("Timeout (silence)")
    expect(past).to_contain_text("a silence limit of 1 m 20 s")
    expect(past.locator(".tree")).to_contain_text("sleep")
    expect(past.locator(".output")).to_contain_text("half way")
    shows(tab, "history-dark")
    _search(tab)
    _replay_from_the_timeline(tab)
    _policy_and_health(tab)


def _search(tab: Page) -> None:
    tab.locator("#past-text").fill("no such command")
    expect(tab.locator("#past-rows")).to_contain_text("Nothing on record matches")
    tab.locator("#past-text").fill("sleep 331")
    expect(tab.locator(".past-row")).to_have_count(1)


def _replay_from_the_timeline(tab: Page) -> None:
    tab.get_by_role("button", name="Timeline").click()
    tab.get_by_role("button", name="10 min").click()
    lane = tab.locator(".lane").filter(has_text="claude-code")
    bar = lane.locator(".bar").filter(has_text="sleep 331")
    expect(lane.locator(".moment.warned").first).to_be_visible()
    expect(lane.locator(".moment.ended").first).to_be_visible()
    expect(lane.locator(".bar.wait").first).to_be_visible()
    assert inside(tab.locator(".brand"))
    assert inside(tab.locator(".brand .mark"))
    shows(tab, "timeline-dark")
    box = bar.bounding_box()
    assert box is not None
    bar.click(position={"x": box["width"] - 4, "y": 8}, force=True)

    replayed = tab.locator(".replayed")
    second = tab.get_by_label("Second")
    expect(replayed).to_contain_text("half way")
    assert float(second.input_value()) > 20
    pause = tab.get_by_role("button", name=re.compile("Pause|Play"))
    if "Pause" in (pause.text_content() or ""):
        pause.click()
    second.fill("0.5")
    expect(replayed).not_to_contain_text("half way")
    expect(replayed).to_contain_text("working")
    shows(tab, "replay-dark")
    pause.click()
    expect(replayed).to_contain_text("half way")


def _policy_and_health(tab: Page) -> None:
    tab.get_by_role("button", name="Policy").click()
    tab.locator("#explain-text").fill("rm -rf /")
    tab.keyboard.press("Enter")
    expect(tab.locator(".explained")).to_contain_text("a person must say yes first")
    ended = tab.locator(".categories .cut")
    expect(ended.first).to_have_text(re.compile(r"[1-9]"))
    expect(tab.locator(".figures")).to_contain_text("destroys_data")
    expect(tab.locator(".checks li").first).to_be_visible()
    shows(tab, "policy-dark")


@pytest.mark.needs("bwrap")
def test_a_trial_is_read_applied_and_asked_about(opened: Opened) -> None:
    made = opened.work / "made.txt"
    for name in range(10, 22):  # more than may be changed unasked
        text = "".join(f"{name}: line {n} as it was\n" for n in range(20))
        (opened.work / f"many-{name}.txt").write_text(text, encoding="utf-8")
    tab = opened.open()
    opened.agent.send("run", command=f"echo tried > {made}", cwd=str(opened.work), trial=True)
    tried = opened.agent.answer()
    assert not made.exists(), tried
    row(tab, "echo tried").click()
    box = tab.locator("#detail .trial")
    expect(box).to_contain_text("+tried")
    assert inside(box.get_by_role("button", name="Apply"))
    box.get_by_role("button", name="Apply").click()
    expect(box).to_contain_text("applied")
    assert made.read_text(encoding="utf-8") == "tried\n"
    box.get_by_role("button", name="Undo").click()
    expect(box).to_contain_text("undone")
    assert not made.exists()

    change = f"sed -i 's/was/is now/' {opened.work}/many-*.txt"
    opened.agent.send("run", command=change, cwd=str(opened.work), trial=True)
    asked = str(opened.agent.answer()["trial"]["id"])
    opened.agent.send("trial", action="apply", id=asked)
    for size in (WIDE, PHONE):
        window = tab if size == WIDE else opened.open(size=size)
        question = card(window, f"shelltie apply {asked}")
        diff = question.locator(".diff")
        expect(diff).to_contain_text("+10: line 0 as it is now")
        diff.evaluate("(one) => { one.scrollTop = one.scrollHeight; }")
        assert inside(diff.get_by_text("+21: line 19 as it is now"), size)
        question.get_by_role("button", name="Deny").scroll_into_view_if_needed()
        assert inside(question.get_by_role("button", name="Apply"), size)
        assert window.evaluate("() => document.documentElement.scrollWidth") == size[0]
        shows(window, f"trial-{size[0]}")
    card(tab, asked).get_by_role("button", name="Deny").click()
    assert "refused" in str(opened.agent.answer())


def test_input_reaches_a_session_and_a_link_to_look_reaches_nothing(opened: Opened) -> None:
    opened.agent.start("read -r line; echo got:$line; sleep 341")
    opened.agent.send("run", command=f"rm -rf {opened.work}/seen", cwd=str(opened.work))
    tab, looking = opened.open(), opened.open("view")
    row(tab, "got:").click()
    field_to_type = tab.get_by_label("Type into it")
    expect(field_to_type).to_be_visible()
    field_to_type.fill("hello there")
    tab.keyboard.press("Enter")
    expect(tab.locator(".term")).to_contain_text("got:hello there")

    row(looking, "got:").click()
    asked = card(looking, "seen")
    expect(looking.locator(".term")).to_contain_text("got:hello there")
    expect(looking.locator("#role")).to_have_text("view only")
    for button in asked.get_by_role("button").all():
        expect(button).to_be_disabled()
    expect(looking.locator("#detail").get_by_role("button", name="Kill")).to_be_disabled()
    expect(looking.locator("#stop-all")).to_be_hidden()
    expect(looking.get_by_label("Type into it")).to_be_hidden()
    looking.keyboard.press("a")
    expect(looking.locator(".card")).to_have_count(1)
    card(tab, "seen").get_by_role("button", name="Deny").click()
    assert "refused" in opened.agent.answer()["error"]


def test_a_full_screen_program_is_seen_as_its_screen_and_typed_into(opened: Opened) -> None:
    text = opened.work / "poem"
    text.write_text("first line\n", encoding="utf-8")
    opened.agent.start(f"vi -u NONE {text}", pty=True)
    tab = opened.open()
    row(tab, "vi -u NONE").click()
    rows = tab.locator(".xterm-rows > div")
    expect(rows.nth(0)).to_contain_text("first line")
    expect(rows.nth(1)).to_have_text(re.compile("^~"))  # what only an editor's screen has
    expect(rows).to_have_count(24)
    for width, height in ((1280, 560), (1180, 620), (1440, 900), (1040, 700), WIDE):
        tab.set_viewport_size({"width": width, "height": height})
        assert tab.evaluate(WIDTHS) == 1, f"letters change their size at {width} x {height}"

    tab.locator(".term").click()
    tab.keyboard.type("Osecond\u00fc")  # a letter that is no shortcut of the page
    expect(rows.nth(0)).to_contain_text("secondü")
    tab.keyboard.press("Escape")
    tab.keyboard.press("Control+]")
    tab.keyboard.press("?")  # the page's again
    expect(tab.locator("#help")).to_be_visible()
    tab.keyboard.press("Escape")
    tab.get_by_role("button", name="Fit").click()
    expect(rows).not_to_have_count(24)
    shows(tab, "editor-dark")
    tab.locator(".term").click()
    tab.keyboard.type(":wq\n")

    expect(tab.locator("#detail .why")).to_contain_text("Ended well")
    assert text.read_text(encoding="utf-8") == "secondü\nfirst line\n"


def test_where_the_terminal_does_not_load_output_is_text(opened: Opened) -> None:
    opened.agent.start(r"printf '\033[32mgreen\033[0m <b>text</b>\n'; sleep 342")
    tab = opened.open(without="**/page/xterm.mjs")
    row(tab, "sleep 342").click()

    expect(tab.locator(".output .f2")).to_have_text("green")
    expect(tab.locator(".output")).to_contain_text("<b>text</b>")
    expect(tab.locator(".skipped")).to_contain_text("Shown as text")
    opened.complaints[:] = _but(opened.complaints, "Failed to load resource")


def test_hostile_output_is_text_and_a_flood_leaves_the_page_alive(opened: Opened) -> None:
    script = opened.work / "hostile.sh"
    script.write_text(HOSTILE, encoding="utf-8")
    tab = opened.open()
    opened.agent.start(f"bash {script} < /dev/null")
    row(tab, "hostile.sh").click()
    expect(tab.locator(".term .xterm-fg-2")).to_have_text("the end")
    expect(tab.locator(".skipped")).to_contain_text("are not shown")
    quiet = opened.work / "quiet.sh"
    quiet.write_text(HOSTILE.replace("20000000", "200"), encoding="utf-8")
    opened.agent.start(f"bash {quiet} < /dev/null")
    row(tab, "quiet.sh").click()
    rows = tab.locator(".xterm-rows")
    expect(rows.locator(".xterm-fg-2")).to_have_text("the end")
    expect(tab.locator(".skipped")).to_be_empty()
    expect(rows).to_contain_text("<script>window.hacked=2</script>")

    expect(rows).to_contain_text("access ⟨RLO⟩ lla")
    faint = rows.get_by_text("barely there")
    panel = _colour(tab, "#inbox", "backgroundColor")
    painted = faint.evaluate("(one) => getComputedStyle(one).color")
    assert _contrast(float(tab.evaluate(LUMINANCE, painted)), panel) >= 4.5
    rows.get_by_text("click me").click(force=True)  # as a person does
    assert tab.locator(".term :is(a, img, script)").count() == 0
    assert len(tab.context.pages) == 1
    assert tab.evaluate("() => window.hacked") is None
    tab.evaluate(ANOTHER)
    expect(rows).to_contain_text("of this one")
    expect(rows).not_to_contain_text("of the one before")
    expect(tab).to_have_title("shelltie")


@pytest.mark.parametrize("colours", ["dark", "light"])
def test_a_phone_shows_what_waits_first_in_both_colours(opened: Opened, colours: Colours) -> None:
    opened.agent.start(f"echo on the phone, {colours}; sleep 351")
    opened.agent.send("run", command=f"rm -rf {opened.work}/{colours}", cwd=str(opened.work))
    tab = opened.open(size=PHONE, colours=colours)
    asked = card(tab, colours)

    assert inside(asked.locator("pre"), PHONE)
    assert inside(asked.get_by_role("button", name="Allow once"), PHONE)
    assert inside(asked.get_by_role("button", name="Deny"), PHONE)
    assert tab.evaluate("() => document.documentElement.scrollWidth") == PHONE[0]
    background = _colour(tab, "body", "backgroundColor")
    for name in ("body", ".dim", ".card .tag", ".card .reasons"):
        assert _contrast(_colour(tab, name, "color"), background) >= 4.5, name
    shows(tab, f"phone-{colours}")
    asked.get_by_role("button", name="Deny").click()
    expect(tab.locator(".card")).to_have_count(0)
    assert "refused" in opened.agent.answer()["error"]
    row(tab, f"on the phone, {colours}").click()
    expect(tab.locator(".term")).to_contain_text(f"on the phone, {colours}")
    assert inside(tab.locator("#detail .leash"), PHONE)
    heights = {button.bounding_box()["y"] for button in tab.locator(".leash-row button").all()}  # type: ignore[index]
    assert len(heights) == 1  # in one row
    shows(tab, f"phone-run-{colours}")
    tab.get_by_role("button", name="Back").click()
    expect(tab.locator("#detail")).to_be_hidden()


def _colour(tab: Page, selector: str, name: str) -> float:
    element = tab.locator(selector).first
    colour = element.evaluate(f"(one) => getComputedStyle(one).{name}")
    return float(tab.evaluate(LUMINANCE, colour))


def _contrast(one: float, other: float) -> float:
    return (max(one, other) + 0.05) / (min(one, other) + 0.05)


def test_a_server_that_dies_and_a_page_that_ends_are_told(opened: Opened) -> None:
    with agent(opened.env, "codex") as dying, web_page(opened.env) as other:
        dying.start("sleep 361")
        dying.send("run", command=f"rm -rf {opened.work}/dying", cwd=str(opened.work))
        tab, own = opened.open(), opened.open(page=other)
        card(tab, "dying")

        dying.process.kill()

        expect(tab.locator(".card")).to_have_count(0)
        expect(row(tab, "sleep 361")).to_contain_text("lost with its server")
        other.process.send_signal(signal.SIGSTOP)  # it says nothing, as when a tunnel hangs
        expect(own.locator("#live")).to_have_text("reconnecting")
        expect(own.locator("#notice")).to_contain_text("shelltie web does not answer")
        other.process.send_signal(signal.SIGCONT)
        expect(own.locator("#live")).to_have_text("live")
        expect(own.locator("#notice")).to_be_hidden()
    expect(own.locator("#notice")).to_contain_text("shelltie web does not answer")
    with web_page(opened.env, "--port", str(other.port)):
        expect(own.locator("#notice")).to_contain_text("This link does not work")
    opened.complaints[:] = _but(opened.complaints, "Failed to load resource")


def _but(complaints: list[str], expected: str) -> list[str]:
    found: Callable[[str], bool] = lambda one: expected not in one  # noqa: E731  it has a type
    return list(filter(found, complaints))
