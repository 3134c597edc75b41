"""Pictures of the pages for the documentation: index this repository, serve it, look at it.

It lies in a home folder of its own, so that pages show `~/sonde` and no path of this machine; take
them on a quiet machine, since some show how long a search took.

python scripts/pictures.py [FOLDER] [NAME...]   (docs/pictures; needs chromium, playwright, pillow)
"""

from __future__ import annotations

import io
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlencode

from PIL import Image
from playwright.sync_api import Page, expect, sync_playwright

ROOT = Path(__file__).resolve().parent.parent
FLAGS = "--no-sandbox --disable-gpu --no-first-run --disable-background-networking --disable-sync"
SONDE = (sys.executable, "-m", "sonde.cli.main", "--yes")
SIZES = {"light": (1280, 800), "dark": (1280, 800), "phone": (390, 780)}
BUSY = 0.5  # of the processors: from then on searches wait for others
QUALITY = 80  # of WebP: text stays sharp, a picture takes 40 kB
SHOWN = "src/sonde/web/guard.py"
LINE = (ROOT / SHOWN).read_text().splitlines().index("class Guard:") + 1


def address(way: str = "/", /, **query: str) -> str:
    return f"{way}?{urlencode(query)}" if query else way


def scan(page: Page) -> None:
    if page.locator(".cards a.open").count():
        page.locator(".cards a.open").first.click()
    else:
        page.fill("#folder", "src/sonde")
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


def complete(page: Page) -> None:
    page.locator("#q").press_sequentially("rate limit lang:py")
    page.locator("#completions li").first.wait_for()
    expect(page).to_have_title("rate limit lang:py · sonde")
    page.locator("#results:not([aria-busy]) .hits").wait_for()


def open_palette(page: Page) -> None:
    page.keyboard.press("Control+k")
    page.keyboard.type("guard")
    page.locator("dialog [aria-selected=true]", has_text="uard").wait_for()


def show_names(page: Page) -> None:
    page.keyboard.press("d")
    page.locator("#names a.open").first.wait_for()


def open_conversation(page: Page) -> None:
    page.locator(".entries a.open").first.click()
    page.locator(".message").first.wait_for()


def show_setup(page: Page) -> None:
    """The agents found, with the program where people have it."""
    page.locator(".agent .diff").first.wait_for()
    page.evaluate("""([from, to]) => {
        for (const line of document.querySelectorAll(".diff span"))
            line.textContent = line.textContent.replaceAll(from, to);
    }""", [sys.prefix, "/home/you/.local"])  # fmt: skip


SHOTS: dict[str, tuple[str, Callable[[Page], None] | None]] = {
    "search": (address(q="what keeps secrets out of the index"), None),
    "facets": (address(q="rate limit lang:python -kind:test"), None),
    "completion": (address(), complete),
    "lines": (address(q=r"class \w+Error lang:python", tab="lines"), None),
    "nothing": (address(q="frobnicator lang:haskell"), None),
    "viewer": (address("/view", path=SHOWN, lines=f"{LINE}-{LINE + 14}") + f"#L{LINE}", None),
    "names": (address("/view", path=SHOWN, lines=str(LINE)) + f"#L{LINE}", show_names),
    "document": (address("/view", path="docs/page.md"), None),
    "folder": (address("/view", path="src/sonde"), None),
    "home": ("/", None),
    "palette": ("/", open_palette),
    "keys": ("/keys", None),
    "knowledge": ("/knowledge", None),
    "conversation": (address("/knowledge", source="chats"), open_conversation),
    "jobs": ("/jobs", None),
    "disk": ("/disk", scan),
    "report": ("/disk", show_report),
    "query": ("/queries", run_query),
    "setup": ("/setup", show_setup),
}
"""Name -> address, and what is done there before the picture is taken; in this order."""
FIRST_SHOTS: dict[str, tuple[str, Callable[[Page], None] | None]] = {"first-run": ("/", None)}
"""The same on a machine where nothing is indexed."""


NOTES = {
    "rollout.md": "---\ntags: [work, release]\n---\n# Rollout\n\nShip on **Tuesday**.\n",
    "soup.md": "---\ntags: [home]\n---\n# Pea soup\n\nPeas, water, salt. Simmer for 40 minutes.\n",
    "reading.md": "---\ntags: [work, papers]\n---\n# To read\n\nRank fusion, and why it works.\n",
}
ANSWER = """Refuse them **before** they are read:

```python
if secret_in(text, path):
    return Skipped(path, "secret_content")
```

Then there is nothing to leak."""
TALK = (
    ("user", "How do I keep secrets out of an index?"),
    ("assistant", ANSWER),
    ("user", "And names that look like secrets?"),
    ("assistant", "Those are never opened at all."),
)


def write_notes(folder: Path) -> None:
    """A few notes, and a conversation as a chat program exports it."""
    folder.mkdir()
    for name, text in NOTES.items():
        (folder / name).write_text(text)
    mapping = {
        str(at): {"id": str(at), "parent": str(at - 1) if at else None,
                  "children": [str(at + 1)] if at + 1 < len(TALK) else [],
                  "message": {"id": str(at), "author": {"role": who}, "create_time": 1.79e9 + at,
                              "content": {"content_type": "text", "parts": [text]}}}
        for at, (who, text) in enumerate(TALK)
    }  # fmt: skip
    chat = {"title": "Secrets and indexes", "create_time": 1.79e9, "update_time": 1.79e9,
            "mapping": mapping}  # fmt: skip
    (folder / "conversations.json").write_text(json.dumps([chat]))


def main() -> None:
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else ROOT / "docs" / "pictures").absolute()
    folder.mkdir(parents=True, exist_ok=True)
    names = set(sys.argv[2:]) or {*SHOTS, *FIRST_SHOTS}
    if (load := os.getloadavg()[0]) > BUSY * (os.cpu_count() or 1):
        print(f"This machine is busy (load {load:.1f}): the times shown will be too long.")
    with tempfile.TemporaryDirectory() as place:
        home = Path(place).resolve()
        if names & FIRST_SHOTS.keys():
            with serve(home / "new", home / "new") as link:
                take_pictures(link, folder, FIRST_SHOTS, names)
        if names & SHOTS.keys():
            project = home / "you" / "sonde"
            kept_out = shutil.ignore_patterns("__pycache__", "models")
            shutil.copytree(ROOT / "src", project / "src", ignore=kept_out)
            shutil.copytree(ROOT / "docs", project / "docs")
            shutil.copy(ROOT / "pyproject.toml", project)
            run_sonde(project.parent, project, "index", "--quiet")
            write_notes(project.parent / "notes")
            run_sonde(project.parent, project, "knowledge", "import", "../notes")
            with serve(project.parent, project) as link:
                take_pictures(link, folder, SHOTS, names)
    for path in sorted(folder.glob("*.webp")):
        print(f"{path.name}  {path.stat().st_size:,} bytes")


def make_environ(home: Path) -> dict[str, str]:
    """The environment of a person whose home folder this is; an agent is installed there."""
    (home / ".cursor").mkdir(parents=True, exist_ok=True)
    ours = {key: value for key, value in os.environ.items()
            if not key.startswith(("SONDE_", "XDG_"))}  # fmt: skip
    return {**ours, "HOME": str(home), "SONDE_FILE_ROOTS": str(home), "PATH": os.defpath}


def run_sonde(home: Path, cwd: Path, *command: str) -> None:
    environ = make_environ(home)
    subprocess.run([*SONDE, *command], cwd=cwd, env=environ, check=True, capture_output=True)


@contextmanager
def serve(home: Path, cwd: Path) -> Iterator[str]:
    """A server of this home folder; the link that signs a person in, once."""
    environ = make_environ(home)
    command = [*SONDE, "--json", "serve", "--port", "0"]
    server = subprocess.Popen(command, cwd=cwd, env=environ, stdout=subprocess.PIPE)
    try:
        assert server.stdout
        yield json.loads(server.stdout.readline())["link"]
    finally:
        server.terminate()
        server.wait()


def take_pictures(
    link: str,
    folder: Path,
    shots: dict[str, tuple[str, Callable[[Page], None] | None]],
    names: set[str],
) -> None:
    with sync_playwright() as playwright:
        chromium = shutil.which("chromium")
        browser = playwright.chromium.launch(executable_path=chromium, args=FLAGS.split())
        person = browser.new_context()
        person.new_page().goto(link)
        signed_in = person.storage_state()
        for name, (way, prepare) in shots.items():
            for look, (width, height) in SIZES.items() if name in names else ():
                context = browser.new_context(
                    base_url=link,
                    color_scheme="dark" if look == "dark" else "light",
                    viewport={"width": width, "height": height},
                    storage_state=signed_in,
                )
                page = context.new_page()
                page.goto(way)
                page.reload()  # the first search of a server loads its models
                if prepare:
                    prepare(page)
                picture = Image.open(io.BytesIO(page.screenshot(animations="disabled")))
                picture.convert("RGB").save(folder / f"{name}-{look}.webp", quality=QUALITY)
                context.close()
        browser.close()


if __name__ == "__main__":
    main()
