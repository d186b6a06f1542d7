"""200 sessions, one of which floods, watched in a real browser: CPU, and an event to its pixels."""

import time
from statistics import median

import psutil
from playwright.sync_api import Page, sync_playwright

from benchmarks.measuring import percentile, rounds_of
from benchmarks.rows import Goal, Of, Row
from tests.web_page import Agent, agent, own_environment, web_page

_SESSIONS = 200
_STARTED = 40  # sessions whose way to the screen is timed
_SPAN = 5.0  # seconds of each look
_FLOOD = "while :; do seq 1 40000; sleep 0.05; done"  # some megabytes a second
_BROWSER = "/usr/bin/chromium"
_FLAGS = ("--no-sandbox", "--disable-gpu", "--disable-quic", "--disable-background-networking")
# The first frame after the row has come shows it; when the next one begins, it has been drawn.
_ARRIVES = """async (mark) => {
  const { run } = await import("/page/state.js");
  window.arrives = new Promise((done) => new MutationObserver((changes, observer) => {
    for (const row of changes.flatMap((change) => [...change.addedNodes])) {
      if (!row.textContent.includes(mark)) continue;
      observer.disconnect();
      const began = run(row.dataset.key).startedAt * 1000;
      requestAnimationFrame(() => requestAnimationFrame(() => done(Date.now() - began)));
    }
  }).observe(document.getElementById("rows"), { childList: true }));
}"""


def measure() -> list[Row]:
    """The server with a page and without, `shelltie web`, the browser, and an event to pixels."""
    with own_environment(SHELLTIE_SESSIONS_MAX="500") as env, agent(env) as one:
        for _ in range(_SESSIONS - 1):
            one.start("sleep 900")
        one.start(_FLOOD)
        server = psutil.Process(one.process.pid)
        alone = _used([server])[0]
        with (
            web_page(env) as page,
            sync_playwright() as driver,
            driver.chromium.launch(executable_path=_BROWSER, args=[*_FLAGS]) as browser,
        ):
            tab = browser.new_page(viewport={"width": 1280, "height": 800})
            tab.goto(f"{page.url}#steer={page.steer}")
            tab.locator(".row").filter(has_text="seq 1 40000").click()
            tab.locator(".term").get_by_text("39999").first.wait_for()
            watched, pages, *browsers = _used(
                [server, psutil.Process(page.process.pid), *_processes_of_browser()]
            )
            took = [_to_pixels(one, tab, number) for number in range(rounds_of(_STARTED))]
    what = f"{_SESSIONS} sessions, one floods"
    return [
        Row(f"{what}: CPU of the server with a page", "%", watched, alone, goal=Goal(Of.MORE, 15)),
        Row(f"{what}: CPU of shelltie web", "%", pages, goal=Goal(Of.OURS, 25)),
        Row(f"{what}: CPU of the browser", "%", sum(browsers), goal=Goal(Of.OURS, 100)),
        Row(
            f"{what}: from the start of a session to its pixels, median",
            "ms",
            median(took),
            ours_p95=percentile(took, 95),
            goal=Goal(Of.OURS, 250),
        ),
    ]


def _to_pixels(one: Agent, tab: Page, number: int) -> float:
    """Milliseconds from the start of a session until the browser has drawn its row."""
    mark = f"echo number-{number}-;"
    tab.evaluate(_ARRIVES, mark)
    one.start(f"{mark} sleep 900")
    return float(tab.evaluate("window.arrives"))


def _processes_of_browser() -> list[psutil.Process]:
    ours = psutil.Process().children(recursive=True)
    return [process for process in ours if process.exe() and "chrom" in process.exe()]


def _used(processes: list[psutil.Process]) -> list[float]:
    """Per cent of a core that each used for a while."""
    before, began = [_cpu(process) for process in processes], time.monotonic()
    time.sleep(_SPAN)
    span = time.monotonic() - began
    return [
        (_cpu(process) - used) / span * 100 for process, used in zip(processes, before, strict=True)
    ]


def _cpu(process: psutil.Process) -> float:
    times = process.cpu_times()
    return float(times.user + times.system)
