"""What agents are taught about sonde: a section of their instructions, and a skill of their own."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

from sonde.agents.configs import Change, plan_change

START = "<!-- sonde: start -->"
END = "<!-- sonde: end -->"
_SECTION = re.compile(re.escape(START) + r".*?" + re.escape(END), re.DOTALL)

SKILL = Path(__file__).with_name("SKILL.md").read_text("utf-8")
"""A file of our own, read by an agent when its description fits the task."""
GUIDE = "#" + SKILL[SKILL.index("# ") :].removesuffix("\n")
"""At most twenty lines, to be pasted into the instructions of any agent."""


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
