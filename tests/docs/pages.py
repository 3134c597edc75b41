"""The pages of the documentation taken apart: code blocks, their marks, and inline commands."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted(
    str(path.relative_to(ROOT))
    for path in (*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"))
    if path.name not in ("CHANGELOG.md", "ARCHITECTURE.md")
)
SHELLS = ("console", "sh")
DATA = ("json", "jsonl", "toml", "yaml", "text")
NOT_RUN = {
    "another program": "a program of others that the tests do not install",
    "another machine": "addresses, files or keys that only the reader has",
    "a choice": "alternatives of which the reader takes one",
}
"""Why a block may be left out: `<!-- not run: REASON -->` on the line before it."""
_FENCE = re.compile(r"^(?P<indent> *)(?P<fence>```+)(?P<language>.*)$")
_MARK = re.compile(r"<!-- not run: (?P<reason>.+?) -->\s*$")
_SPAN = re.compile(r"(?<!`)`([^`\n]+)`(?!`)")


@dataclass(frozen=True)
class Block:
    """A fenced block of a page."""

    page: str
    line: int
    language: str
    text: str
    reason: str
    """Why it is not run; empty if it is."""

    @property
    def place(self) -> str:
        return f"{self.page}:{self.line}"


@dataclass(frozen=True)
class Typed:
    """A command of a block and the lines that the page shows below it."""

    place: str
    command: str
    shown: tuple[str, ...] = ()


def read_blocks(page: str, text: str | None = None) -> Iterator[Block]:
    lines = (text if text is not None else (ROOT / page).read_text("utf-8")).splitlines()
    at = 0
    while at < len(lines):
        if not (opened := _FENCE.match(lines[at])):
            at += 1
            continue
        mark = _MARK.match(lines[at - 1].strip()) if at else None
        begins, fence = at + 1, opened["fence"]
        at = next(n for n in range(begins, len(lines)) if lines[n].strip() == fence)
        body = [line.removeprefix(opened["indent"]) for line in lines[begins:at]]
        reason = mark["reason"] if mark else ""
        yield Block(page, begins, opened["language"].strip(), "\n".join(body) + "\n", reason)
        at += 1


def read_commands(block: Block) -> Iterator[Typed]:
    """Commands of a shell block. With `$ ` in front, other lines are what they print."""
    has_prompts = any(line.startswith("$ ") for line in block.text.splitlines())
    lines = iter(block.text.splitlines())
    command, shown = "", list[str]()
    for line in lines:
        if has_prompts and not line.startswith("$ "):
            shown.append(line)
            continue
        if command:
            yield Typed(block.place, command, tuple(shown))
        command, shown = line.removeprefix("$ ") if has_prompts else line, []
        while command.endswith("\\"):
            command += "\n" + next(lines).removeprefix("> ")
        if ending := re.search(r"<<\s*'?(\w+)'?", command):
            for more in lines:
                command += "\n" + more
                if more == ending[1]:
                    break
        if not command.strip() or command.lstrip().startswith("#"):
            command = ""
    if command:
        yield Typed(block.place, command, tuple(shown))


def read_inline_commands(page: str) -> Iterator[tuple[int, str]]:
    """`sonde …` in the prose of a page, with the line it stands on."""
    fenced = ""
    for number, line in enumerate((ROOT / page).read_text("utf-8").splitlines(), 1):
        if opened := _FENCE.match(line):
            fenced = "" if fenced else opened["fence"]
        elif not fenced:
            for span in _SPAN.findall(line):
                if re.match(r"sonde [a-z]+( |$)", span):
                    yield number, span
