"""What can be said before anything is imported: who we are, and the usual listing, written down.

`manifest.json` holds the listing under default settings. `scripts/reference.py` writes it from the
declared tools and routes, and fails the build when it is not what they say.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol

LIST_TTL_MS = 300_000
"""How long a client may keep the list; it never changes while a server runs."""

INSTRUCTIONS = """\
sonde searches the code and documents of projects on this machine and answers with exact file \
paths and line numbers, in pieces small enough for a context window. Nothing leaves the machine.

Which tool:
- search_code: where or how something is done in the code, in plain words or by identifier. Start \
here instead of reading whole files.
- search_docs: the same for prose (.md, .txt and other documentation); also for follow-up \
questions about a document that is already in the conversation.
- search_by_path: files by name or glob, when the name is known and the content is not needed.
- regex_search: exact lines by regular expression in the files as they are; needs no index.
- semantic_search, lexical_search, hybrid_search: all matches in pages, by meaning, words or \
both, with filters (include, exclude, language) and byte spans. Pass next_cursor back as cursor.
- cortex_search: overviews of files, signatures, constants or docs alone, filtered by tags.
- search, fetch: everything at once: kept notes, media, chats and prompts beside code and docs; \
fetch reads a result whole.
- get_index_status: whether the project is indexed, how much of it, and how fresh.
- create_index: once per project, when a search says INDEX_NOT_FOUND. Later edits are picked up \
by themselves; reindex_file and reindex_project are for when something looks wrong.
- list_projects: what else on this machine is indexed.

A short, concrete query works best ("where are retries configured", "parse_header"). Open only \
the lines a result names. When an answer says there is more, pass its cursor back instead of \
asking again. create_index, reindex_project and delete_index change things and ask the user \
first; if the client cannot ask, the answer carries a token to repeat the call with. Every error \
says in nextAction what to do about it."""

MANIFEST = Path(__file__).with_name("manifest.json")


class ManifestEntry(Protocol):
    """The answers to what a client asks first."""

    @property
    def entries(self) -> list[dict[str, Any]]:
        """The tools."""

    @property
    def resources(self) -> list[dict[str, Any]]:
        """The resources."""

    @property
    def templates(self) -> list[dict[str, Any]]:
        """The templates of resources."""


class Manifest:
    """The listing as it was written down."""

    def __init__(self, data: dict[str, Any]) -> None:
        self.entries: list[dict[str, Any]] = data["tools"]
        self.resources: list[dict[str, Any]] = data["resources"]
        self.templates: list[dict[str, Any]] = data["templates"]
        self.toolsets: list[str] = data["toolsets"]


def load_manifest(toolsets: Sequence[str], spelling: str, *, enhanced: bool) -> Manifest | None:
    """The listing that was written down, if it is the one that is asked for."""
    if spelling != "portable" or enhanced:
        return None
    try:
        manifest = Manifest(json.loads(MANIFEST.read_text("utf-8")))
    except (OSError, ValueError, KeyError):
        return None
    return manifest if list(toolsets) == manifest.toolsets else None


def write_manifest(shown: ManifestEntry, toolsets: Sequence[str]) -> str:
    """The text of the file: one line for each thing, so that changes are easy to read."""
    parts = {"tools": shown.entries, "resources": shown.resources, "templates": shown.templates}
    lists = (
        f'"{name}": [\n' + ",\n".join(json.dumps(row, ensure_ascii=False) for row in rows) + "\n]"
        for name, rows in parts.items()
    )
    return "{\n" + ",\n".join((f'"toolsets": {json.dumps(list(toolsets))}', *lists)) + "\n}\n"
