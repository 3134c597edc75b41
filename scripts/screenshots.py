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

from playwright.sync_api import sync_playwright

ROOT = Path(__file__).resolve().parent.parent
FLAGS = "--no-sandbox --disable-gpu --no-first-run --disable-background-networking --disable-sync"
DESK, PHONE = (1120, 760), (390, 760)
SHOTS = {
    "page-light": ("light", DESK, "/?" + urlencode({"q": "who may come in over http"})),
    "page-dark": ("dark", DESK, "/view?path=src/sonde/web/guard.py&lines=79-91#L79"),
    "page-disk": ("light", (1240, 760), "/disk"),
    "page-phone": ("light", PHONE, "/?" + urlencode({"q": "rate limit", "tab": "code"})),
}


def main() -> None:
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else ROOT / "docs").absolute()
    with tempfile.TemporaryDirectory() as home:
        project = Path(home) / "sonde"
        kept_out = shutil.ignore_patterns("__pycache__", "models")
        shutil.copytree(ROOT / "src", project / "src", ignore=kept_out)
        shutil.copytree(ROOT / "docs", project / "docs")
        shutil.copy(ROOT / "pyproject.toml", project)
        environ = {**os.environ, "SONDE_HOME": f"{home}/home", "SONDE_FILE_ROOTS": home}
        sonde = [sys.executable, "-m", "sonde.cli.main", "--yes"]
        subprocess.run([*sonde, "index", "--quiet"], cwd=project, env=environ, check=True)
        server = subprocess.Popen(
            [*sonde, "--json", "serve", "--port", "0"],
            cwd=project, env=environ, stdout=subprocess.PIPE,
        )  # fmt: skip
        try:
            assert server.stdout
            take_shots(json.loads(server.stdout.readline())["url"], folder)
        finally:
            server.terminate()
            server.wait()


def take_shots(url: str, folder: Path) -> None:
    with sync_playwright() as playwright:
        chromium = shutil.which("chromium")
        browser = playwright.chromium.launch(executable_path=chromium, args=FLAGS.split())
        for name, (scheme, (width, height), address) in SHOTS.items():
            context = browser.new_context(
                color_scheme=scheme, viewport={"width": width, "height": height}
            )
            page = context.new_page()
            if name == "page-disk":
                page.goto(f"{url}/disk")
                page.fill("#root", "src/sonde")
                page.get_by_role("button", name="Scan").click()
                page.locator(".map a").first.wait_for()
                address = page.url.removeprefix(url)
            page.goto(url + address)
            page.screenshot(path=str(folder / f"{name}.png"))
            print(f"{name}.png  {(folder / f'{name}.png').stat().st_size:,} bytes")
            context.close()
        browser.close()


if __name__ == "__main__":
    main()
