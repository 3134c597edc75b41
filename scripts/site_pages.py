"""The web site of the documentation: `make site` puts it into site/, to open from disk or serve.

The pages are those of the repository. They are copied into .site/pages, where the README is the
home page, links point to copies, and what is no page of the site is named without a link. Then
mkdocs builds the site, strictly; nothing in it may load anything from another host.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PAGES = ROOT / ".site" / "pages"
MOVED = {
    "README.md": "index.md",
    "src/sonde/embedding/models/MODEL_CARD.md": "model-card.md",
    "training/README.md": "training.md",
    **{
        name: name for name in ("ARCHITECTURE.md", "SECURITY.md", "CONTRIBUTING.md", "CHANGELOG.md")
    },
}
"""Pages outside docs/ -> their name on the site."""
LINK = re.compile(r"(!?)\[((?:[^\[\]]|\[[^\]]*\])*)\]\(([^)\s:]+?)(#[^)\s]*)?\)")
LOADED = re.compile(
    r"<(?:script|link|img|iframe|source)\b[^>]*?\b(?:src|href)=[\"']?(https?:)?//", re.IGNORECASE
)
SHIM = "https://unpkg.com/iframe-worker/shim"
"""What mkdocs-material's offline search loads by default."""
STYLED = re.compile(r"(?:@import\s+|url\()[\"']?(?:https?:)?//", re.IGNORECASE)


def list_pages() -> dict[str, str]:
    """Path in the repository -> name on the site, of every page and picture."""
    docs = {
        str(path.relative_to(ROOT)): str(path.relative_to(ROOT / "docs"))
        for path in sorted((ROOT / "docs").rglob("*"))
        if path.is_file()
    }
    return docs | MOVED


def stage(pages: dict[str, str], folder: Path) -> None:
    """Copy every page into a folder, with its links as they are there."""
    shutil.rmtree(folder, ignore_errors=True)
    for source, name in pages.items():
        target = folder / name
        target.parent.mkdir(parents=True, exist_ok=True)
        if source.endswith(".md"):
            target.write_text(
                move_links((ROOT / source).read_text("utf-8"), source, pages), "utf-8"
            )
        else:
            shutil.copy(ROOT / source, target)


def move_links(text: str, source: str, pages: dict[str, str]) -> str:
    """The text of a page with links that lead to the same pages on the site."""
    here = Path(pages[source]).parent

    def move(link: re.Match[str]) -> str:
        picture, words, target, anchor = link[1], link[2], link[3], link[4] or ""
        if target.startswith("#"):
            return link[0]
        meant = os.path.normpath(Path(source).parent / target)
        if meant not in pages:
            return words
        return f"{picture}[{words}]({os.path.relpath(pages[meant], here)}{anchor})"

    parts = re.split(r"(?ms)(^```.*?^```)", text)
    return "".join(part if part.startswith("```") else LINK.sub(move, part) for part in parts)


def use_local_shim(site: Path) -> None:
    """Load what lets the search run from a file from the site itself."""
    for path in site.rglob("*.html"):
        shim = os.path.relpath(site / "assets" / "iframe-worker.js", path.parent)
        path.write_text(path.read_text("utf-8").replace(SHIM, shim), "utf-8")


def find_foreign(site: Path) -> list[str]:
    """Files of the site that load something from another host."""
    found = []
    for path in sorted(site.rglob("*")):
        if path.suffix in (".html", ".css", ".svg"):
            text = path.read_text("utf-8", "replace")
            pattern = LOADED if path.suffix == ".html" else STYLED
            if loaded := pattern.search(text):
                found.append(f"{path.relative_to(site)}: {loaded[0]}")
    return found


def main() -> None:
    began = time.monotonic()
    stage(list_pages(), PAGES)
    build = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--clean"]
    environ = {**os.environ, "NO_MKDOCS_2_WARNING": "1", "DISABLE_MKDOCS_2_WARNING": "true"}
    subprocess.run(build, cwd=ROOT, check=True, env=environ)
    site = ROOT / "site"
    use_local_shim(site)
    if foreign := find_foreign(site):
        sys.exit("loaded from elsewhere:\n" + "\n".join(foreign))
    size = sum(path.stat().st_size for path in site.rglob("*") if path.is_file())
    count = len(list(site.rglob("*.html")))
    print(f"site/index.html: {count} pages, {size:,} bytes, {time.monotonic() - began:.1f} s")


if __name__ == "__main__":
    main()
