"""A short section for agents in a file of instructions, between two markers."""

from __future__ import annotations

import re

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

- When an answer has `next_cursor`, call the same tool with nothing but `cursor` to read on.
- `INDEX_NOT_FOUND`: call `create_index` once; later edits are picked up by themselves.
- Every error says in `nextAction` what to do about it."""


def put_section(text: str) -> str:
    """The text with our section: in its old place, else at the end."""
    end = "\r\n" if "\r\n" in text else "\n"
    section = f"{START}\n{GUIDE}\n{END}".replace("\n", end)
    if _SECTION.search(text):
        return _SECTION.sub(lambda _: section, text, count=1)
    gap = "" if not text else end if text.endswith("\n") else end * 2
    return text + gap + section + end


def drop_section(text: str) -> str:
    """The text without our section and the empty line that set it apart."""
    found = _SECTION.search(text)
    if not found:
        return text
    head, rest = text[: found.start()], text[found.end() :]
    rest = re.sub(r"\A\r?\n", "", rest)
    if not rest:
        head = re.sub(r"(\A|\n)\r?\n\Z", r"\1", head)
    return head + rest
