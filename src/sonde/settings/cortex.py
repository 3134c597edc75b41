"""`.cortex/config.yml` of a project: the few lines of it that mean something here."""

from __future__ import annotations

import re
from pathlib import Path

_LINE = re.compile(r"^(?P<indent> *)(?P<key>[\w-]+):(?:[ \t]+(?P<value>[^#\n]*?))?[ \t]*(?:#.*)?$")
_MEANING = {
    "server.chunks_dir": "chunks_dir",
    "embedding.endpoint": "embedding_endpoint",
    "embedding.dimensions": "embedding_dimensions",
}
_MOST = 100_000


def read_cortex_config(root: Path) -> tuple[Path, dict[str, str]]:
    """The file and the settings it holds, by our names, as text; nothing where there is none."""
    path = root / ".cortex" / "config.yml"
    try:
        if path.parent.is_symlink() or path.is_symlink() or not path.is_file():
            return path, {}
        with path.open(encoding="utf-8") as file:
            text = file.read(_MOST)
    except (OSError, ValueError):
        return path, {}
    found: dict[str, str] = {}
    section = ""
    for line in text.splitlines():
        match = _LINE.match(line)
        if match is None:
            continue
        value = (match["value"] or "").strip().strip("\"'")
        if not match["indent"]:
            section = match["key"]
        name = _MEANING.get(f"{section}.{match['key']}")
        if match["indent"] and name and value:
            found[name] = value
    return path, found
