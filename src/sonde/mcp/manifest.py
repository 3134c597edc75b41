"""The listing under default settings, stored in `manifest.json` so that no tool is imported for it.

`scripts/reference.py` writes the file from the declared tools and routes; the build fails if it
is out of date.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

from sonde.types import Json

LIST_TTL_MS = 300_000
"""How long a client may cache a listing; it never changes while a server runs."""

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
- create_index: once per project, when a search notes that there is no index. Later edits are \
picked up by themselves; reindex_file and reindex_project are for when something looks wrong.
- list_projects: what else on this machine is indexed.

A short, concrete query works best ("where are retries configured", "parse_header"). Open only \
the lines a result names. When an answer says there is more, pass its cursor back instead of \
asking again. create_index, reindex_project and delete_index change things and ask the user \
first; if the client cannot ask, the answer carries a token to repeat the call with. Every error \
says in nextAction what to do about it."""

Lists = Mapping[str, Json]
"""The answer to each listing request: `tools/list` -> `{"tools": [...]}`."""

MANIFEST = Path(__file__).with_name("manifest.json")


def load_manifest(toolsets: Sequence[str], spelling: str, *, enhanced: bool) -> Lists | None:
    """The stored answers to listing requests, if they are those for these settings."""
    if spelling != "portable" or enhanced:
        return None
    try:
        data = json.loads(MANIFEST.read_text("utf-8"))
        lists: Lists = data["lists"]
        return lists if list(toolsets) == data["toolsets"] else None
    except (OSError, ValueError, KeyError):
        return None
