"""What agents are taught about sonde: a section of their instructions, and a skill of their own."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

from sonde.agents.configs import Change, plan_change

START = "<!-- sonde: start -->"
END = "<!-- sonde: end -->"
_SECTION = re.compile(re.escape(START) + r".*?" + re.escape(END), re.DOTALL)

GUIDE = """\
## Searching with sonde

The MCP server `sonde` has an index of the project. Ask it before opening or grepping files: it
answers with exact paths and line numbers, so that only those lines need to be read.

| to find | call |
|---|---|
| where or how something is done | `search_code` with a short question or an identifier |
| what the documentation says | `search_docs` |
| a file by its name | `search_by_path` with a glob |
| every line that matches a pattern | `regex_search` |
| all matches by meaning, words or both | `semantic_search`, `lexical_search`, `hybrid_search` |

- Ask one thing at a time; a name, a path or a pasted error finds more than a long sentence.
- A note that a word occurs nowhere means that it is not there: say so, or ask once more.
- When an answer has `next_cursor`, call the same tool with nothing but `cursor` to read on.
- "There is no index yet": call `create_index` once; later edits are picked up by themselves.
- Without the server, in a shell: `sonde search QUESTION`, `sonde grep -n PATTERN` (as `rg`).
- Every error says in `nextAction` what to do about it."""
"""At most twenty lines, to be pasted into the instructions of any agent."""
SKILL = f"""\
---
name: sonde
description: Search the project's code and documents by question, name, path or pattern, with \
exact lines. Use it before opening or grepping files to find where something is done or said.
---

{GUIDE.replace("## ", "# ", 1)}
"""
"""A file of our own, read by an agent when its description fits the task."""


def put_section(text: str) -> str:
    """The text with our section, in its old place or at the end."""
    end = "\r\n" if "\r\n" in text else "\n"
    section = f"{START}\n{GUIDE}\n{END}".replace("\n", end)
    if _SECTION.search(text):
        return _SECTION.sub(lambda _: section, text, count=1)
    gap = "" if not text else end if text.endswith("\n") else end * 2
    return text + gap + section + end


def drop_section(text: str) -> str:
    """The text without our section and the empty line before it."""
    found = _SECTION.search(text)
    if not found:
        return text
    head, rest = text[: found.start()], text[found.end() :]
    rest = re.sub(r"\A\r?\n", "", rest)
    if not rest:
        head = re.sub(r"(\A|\n)\r?\n\Z", r"\1", head)
    return head + rest


def plan_guide(path: Path, *, remove: bool, backups: Path) -> Change:
    """The change that adds our section to a file of instructions, or removes it."""
    return plan_change(
        path,
        put_section,
        drop_section,
        lambda text: drop_section(text) != text,
        remove=remove,
        backups=backups,
    )


def plan_skill(path: Path, *, remove: bool, backups: Path) -> Change:
    """The change that writes our skill, or deletes it; one of that name that is not ours stays."""

    def is_ours(text: str) -> bool:
        return text.startswith("---\nname: sonde\n") or not text

    change = plan_change(
        path,
        lambda text: SKILL if is_ours(text) else text,
        lambda text: "" if is_ours(text) else text,
        lambda text: bool(text) and is_ours(text),
        remove=remove,
        backups=backups,
    )
    return replace(change, after=None) if change.action == "remove" else change
