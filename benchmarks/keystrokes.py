"""From the last key to results on the screen: a real browser types into the page of a real server.

python benchmarks/keystrokes.py PROJECT [RUNS]      (indexed; needs chromium and playwright)

Prints for each query the time from the last key to the frame after the results are in the page,
and the part of it that the server took; then the medians.
"""

from __future__ import annotations

import json
import shutil
import statistics
import subprocess
import sys
from pathlib import Path

from playwright.sync_api import Page, sync_playwright

FLAGS = "--no-sandbox --disable-gpu --no-first-run --disable-background-networking --disable-sync"
QUERIES = (
    "migrations", "how are migrations ordered", "get_or_create", "csrf token", "template loader",
    "lang:python retry", "session backend", "where are signals sent", "QuerySet.filter",
)  # fmt: skip
BETWEEN_KEYS_MS = 110  # a quick typist
WATCH = """() => {
    window.painted = new Promise((done) => {
        const box = document.getElementById("q");
        const results = document.getElementById("results");
        let last = 0;
        box.addEventListener("keydown", () => (last = performance.now()), true);
        new MutationObserver(() => {
            if (document.title !== `${box.value} · sonde` || !window.whole) return;
            requestAnimationFrame(() =>
                requestAnimationFrame(() => done(performance.now() - last)));
        }).observe(document.querySelector("title"), { childList: true });
    });
}"""


def time_query(page: Page, query: str) -> tuple[float, float]:
    """Milliseconds to the paint, and of them in the server."""
    page.goto("/")
    page.evaluate(WATCH)
    page.locator("#q").press_sequentially(query[:-1], delay=BETWEEN_KEYS_MS)
    page.wait_for_timeout(BETWEEN_KEYS_MS)
    page.evaluate("window.whole = true")
    page.keyboard.press(query[-1])
    painted = page.evaluate("window.painted")
    said = page.locator(".summary").inner_text()
    served = said.partition(" ms")[0].rpartition(" ")[2]
    return painted, float(served)


def main() -> None:
    project, runs = Path(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 3
    command = [sys.executable, "-m", "sonde.cli.main", "--json", "serve", "--port", "0"]
    server = subprocess.Popen(command, cwd=project, stdout=subprocess.PIPE)
    try:
        assert server.stdout
        facts = json.loads(server.stdout.readline())
        with sync_playwright() as playwright:
            browser = playwright.chromium.launch(
                executable_path=shutil.which("chromium"), args=FLAGS.split()
            )
            page = browser.new_context(
                base_url=facts["url"],
                extra_http_headers={"Authorization": f"Bearer {facts['key']}"},
            ).new_page()
            page.goto("/?q=warm+up")  # the first search loads the models
            times: list[tuple[float, float]] = []
            for query in QUERIES * runs:
                times.append(time_query(page, query))
                print(f"{times[-1][0]:7.0f} ms, server {times[-1][1]:5.0f} ms   {query}")
            browser.close()
        painted, served = (statistics.median(each) for each in zip(*times, strict=True))
        print(f"p50: {painted:.0f} ms to the paint, {served:.0f} ms of them in the server")
    finally:
        server.terminate()
        server.wait()


if __name__ == "__main__":
    main()
