"""The picture of the page in the README: real servers, real runs, a real browser."""

import sys
from pathlib import Path

from playwright.sync_api import expect, sync_playwright

from tests.asking import ROOT
from tests.web_page import agent, own_environment, web_page

PICTURE = ROOT / "docs" / "page.png"
LARGEST = 150_000  # bytes
TESTS = r"""
for n in $(seq 1 600); do
  printf '\033[32m✓\033[0m cart/%03d adds up\n' $n
  sleep 0.2
done
"""
BUILD = r"""
printf '\033[32m   Compiling\033[0m tokio v1.44.1\n'
printf '\033[32m   Compiling\033[0m shop v0.3.0\n'
printf '\033[33mwarning\033[0m: unused variable: `total`\n'
sleep 400
"""


def main() -> int:
    """Write it; the exit code."""
    with (
        own_environment() as env,
        agent(env, "claude-code") as claude,
        agent(env, "codex") as codex,
        agent(env, "gemini-cli") as gemini,
        web_page(env) as page,
        sync_playwright() as driver,
    ):
        shop = Path(env["WORK"])
        scripts = {"npm-test.sh": TESTS, "cargo-build.sh": BUILD}
        for name, text in scripts.items():
            (shop / name).write_text(text, encoding="utf-8")
        codex.send("run", command="bash npm-test.sh", timeout_sec=600)
        claude.send("run", command="bash cargo-build.sh", timeout_sec=900, no_output_timeout_sec=34)
        gemini.send("run", command="git push --force origin main && rm -rf build")
        browser = driver.chromium.launch(executable_path="/usr/bin/chromium", args=["--no-sandbox"])
        tab = browser.new_page(viewport={"width": 1240, "height": 640}, color_scheme="dark")
        tab.goto(f"{page.url}#steer={page.steer}")
        expect.set_options(timeout=50_000)
        expect(tab.locator(".card")).to_be_visible()
        tab.locator(".row").filter(has_text="cargo-build").click()
        expect(tab.locator("#detail .leash")).to_have_attribute("data-state", "warn")
        tab.screenshot(path=PICTURE)
        browser.close()
    size = PICTURE.stat().st_size
    sys.stdout.write(f"wrote {PICTURE.relative_to(ROOT)}, {size} bytes\n")
    return int(size > LARGEST)


if __name__ == "__main__":
    sys.exit(main())
