"""Pictures of the page for the documentation: index this repository, serve it, look at it.

python scripts/screenshots.py [FOLDER]      (docs/ by default; needs chromium and playwright)
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from urllib.parse import urlencode

from playwright.sync_api import Page, sync_playwright

ROOT = Path(__file__).resolve().parent.parent
FLAGS = "--no-sandbox --disable-gpu --no-first-run --disable-background-networking --disable-sync"
DESK, PHONE = (1120, 760), (390, 760)
SHOTS = {
    "page-light": ("light", DESK, "/?" + urlencode({"q": "what keeps secrets out of the index"})),
    "page-dark": ("dark", DESK, "/view?path=src/sonde/web/guard.py&lines=79-91#L79"),
    "page-disk": ("light", (1240, 760), "/disk"),
    "page-query": ("dark", DESK, "/queries"),
    "page-report": ("light", DESK, "/disk"),
    "page-phone": ("light", PHONE, "/?" + urlencode({"q": "rate limit", "tab": "code"})),
}


def scan(page: Page) -> None:
    page.fill("#root", "src/sonde")
    page.get_by_role("button", name="Scan", exact=True).click()
    page.locator(".map a").first.wait_for()
    page.locator("[data-job]").first.wait_for(state="detached")


def show_report(page: Page) -> None:
    page.locator(".cards a.open").first.click()
    page.get_by_role("link", name="by extension").click()
    page.locator(".bars").wait_for()


def run_query(page: Page) -> None:
    page.fill("#filter", "size>10KB ext:py not path:**/static/**")
    page.get_by_label("Name").fill("large modules")
    page.get_by_role("button", name="Save and run").click()
    page.locator("td a.open").first.wait_for()


PREPARE = {"page-disk": scan, "page-report": show_report, "page-query": run_query}
"""What is done on a page before its picture is taken; in the order of `SHOTS`."""


def main() -> None:
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else ROOT / "docs").absolute()
    with tempfile.TemporaryDirectory() as home:
        project = Path(home) / "sonde"
        kept_out = shutil.ignore_patterns("__pycache__", "models")
        shutil.copytree(ROOT / "src", project / "src", ignore=kept_out)
        shutil.copytree(ROOT / "docs", project / "docs")
        shutil.copy(ROOT / "pyproject.toml", project)
        environ = {**os.environ, "SONDE_HOME": f"{home}/home", "SONDE_FILE_ROOTS": home,
                   "HOME": home}  # fmt: skip
        sonde = [sys.executable, "-m", "sonde.cli.main", "--yes"]
        subprocess.run([*sonde, "index", "--quiet"], cwd=project, env=environ, check=True)
        server = subprocess.Popen(
            [*sonde, "--json", "serve", "--port", "0"],
            cwd=project, env=environ, stdout=subprocess.PIPE,
        )  # fmt: skip
        try:
            assert server.stdout
            facts = json.loads(server.stdout.readline())
            take_shots(facts["url"], facts["key"], folder)
        finally:
            server.terminate()
            server.wait()


def take_shots(url: str, key: str, folder: Path) -> None:
    with sync_playwright() as playwright:
        chromium = shutil.which("chromium")
        browser = playwright.chromium.launch(executable_path=chromium, args=FLAGS.split())
        for name, (scheme, (width, height), address) in SHOTS.items():
            context = browser.new_context(
                color_scheme=scheme,
                viewport={"width": width, "height": height},
                extra_http_headers={"Authorization": f"Bearer {key}"},
            )
            page = context.new_page()
            page.goto(url + address)
            page.reload()  # the first search of a server loads its models
            PREPARE.get(name, lambda _page: None)(page)
            page.screenshot(path=str(folder / f"{name}.png"))
            print(f"{name}.png  {(folder / f'{name}.png').stat().st_size:,} bytes")
            context.close()
        browser.close()


if __name__ == "__main__":
    main()
