"""What each model saw, checked and put into a table."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from talk import FIRST_USE, NONE, PAGE, Talk, read_token
from wire import STRUCTURED_MARK, TEXT_MARK

START, END = "<!-- make agents: start -->", "<!-- make agents: end -->"
COLUMNS = (
    "agent", "revision", "tools", "listing", "half read", "answer", "page 2", "bad cursor",
    "over 1 MB", "huge answer", "search after", "first index", "guide", "scopes",
)  # fmt: skip
FOUND = ["billing.py", "send_invoice"]


@dataclass
class Outcome:
    """One agent in one scope."""

    agent: str
    version: str
    scope: str
    talk: Talk
    exit_code: int | None
    """None: it had to be ended."""
    wire: list[tuple[str, Any]] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)

    @property
    def ok(self) -> bool:
        return not self.faults


def read_wire(log: Path) -> list[tuple[str, Any]]:
    """Every message that passed: `>` from the agent, `<` from the server; `!` is no message."""
    messages: list[tuple[str, Any]] = []
    for line in log.read_bytes().split(b"\n") if log.exists() else []:
        try:
            messages.append((line[:1].decode(), json.loads(line[2:])))
        except ValueError:
            if line.strip():
                messages.append(("!", {"line": line.decode("utf-8", "replace")}))
    return messages


def find_revision(wire: list[tuple[str, Any]]) -> str:
    """The revision of the protocol that the tools were called in."""
    for mark, message in wire:
        meta = (message.get("params") or {}).get("_meta") or {}
        if mark == ">" and message.get("method") == "tools/call":
            modern = meta.get("io.modelcontextprotocol/protocolVersion")
            if modern:
                return str(modern)
    greetings = (m["result"]["protocolVersion"] for s, m in wire if s == "<" and _greets(m))
    return str(next(greetings, "none"))


def _greets(message: Any) -> bool:
    return "protocolVersion" in (message.get("result") or {})


def check(outcome: Outcome, tools: set[str]) -> None:
    """Compare what the model read with what it should have read."""
    talk = outcome.talk
    if talk.problem:
        outcome.faults.append(talk.problem)
    if outcome.exit_code != 0:
        outcome.faults.append(f"the agent left with {outcome.exit_code}")
    if missing := tools - talk.named:
        outcome.faults.append(f"not named to the model: {', '.join(sorted(missing))}")
    if not talk.guided:
        outcome.faults.append("guide: the model did not get it")
    if not talk.at_once:
        outcome.faults.append("no tool of ours in the first request")
    outcome.faults.extend(f"not protocol: {m['line']}" for mark, m in outcome.wire if mark == "!")
    first = [f"handler_{number:04}" for number in range(PAGE)]
    second = [f"handler_{number:04}" for number in range(PAGE, 2 * PAGE)]
    _expect(outcome, "search", first, lacks=second)
    _expect(outcome, "page 2", second, lacks=first)
    if talk.steps is FIRST_USE:
        _check_first_use(outcome)
    else:
        _check_limits(outcome)


def _check_limits(outcome: Outcome) -> None:
    _expect(outcome, "bad cursor", ["Repeat the search without a cursor"])
    _expect(outcome, "too large", ["larger than 1 MB", "smaller page_size"])
    _expect(outcome, "huge")
    _expect(outcome, "search after", FOUND)
    if len(outcome.talk.seen.get("huge", "")) >= measure_sent(outcome, "HUGE"):
        outcome.faults.append("huge: not more than the agent lets through, so nothing is shown")
    if tell_half(outcome.talk) == "neither":
        outcome.faults.append("which half: neither came back whole")


def _check_first_use(outcome: Outcome) -> None:
    _expect(outcome, "no index", ["There is no index yet", "create_index"])
    if tell_first_index(outcome.talk) == "by token":
        _expect(outcome, "create", ["CONFIRMATION_REQUIRED"])
        _expect(outcome, "confirm", ["filesIndexed"])
        _expect(outcome, "search after", FOUND)
    else:
        _expect(outcome, "create", ["Nothing was changed", "regex_search"])
        _expect(outcome, "search after", ["There is no index yet"])


def _expect(
    outcome: Outcome, name: str, holds: Sequence[str] = (), *, lacks: Sequence[str] = ()
) -> None:
    text = outcome.talk.seen.get(name)
    if text is None:
        outcome.faults.append(f"{name}: never came back")
        return
    outcome.faults.extend(f"{name}: without {part!r}" for part in holds if part not in text)
    outcome.faults.extend(f"{name}: with {part!r}" for part in lacks if part in text)


def tell_first_index(talk: Talk) -> str:
    """How an agent without a person came by its first index."""
    token = read_token(talk.seen.get("create", ""))
    return "by token" if token != NONE else "declined"


def tell_half(talk: Talk) -> str:
    text = talk.seen.get("which half", "")
    halves = [
        name
        for name, mark in (("text", TEXT_MARK), ("structured", STRUCTURED_MARK))
        if mark in text
    ]
    if len(halves) > 1 and talk.seen["search"].count('"matches"') == 1:
        return "text; both where they differ"
    return " and ".join(halves) or "neither"


def measure_sent(outcome: Outcome, word: str) -> int:
    """Characters of the text half of the answer to the question that holds a word."""
    for mark, message in outcome.wire:
        result = message.get("result") or {}
        content = result.get("content") if isinstance(result, dict) else None
        if mark == "<" and content and f'"query":"{word}"' in content[0].get("text", ""):
            return len(content[0]["text"])
    return 0


def make_row(outcomes: list[Outcome]) -> list[str]:
    """One agent; the first outcome is the one with the whole conversation."""
    main = outcomes[0]
    talk = main.talk
    listing = len(json.dumps(list(talk.offered.values()), separators=(",", ":")))
    held_back = len(talk.named) - len(talk.offered)
    tools = f"{len(talk.offered)}" + (f" and {held_back} by name" if held_back > 0 else "")

    def mark(name: str) -> str:
        return "no" if any(fault.startswith(f"{name}:") for fault in main.faults) else "yes"

    sent, read = measure_sent(main, "HUGE"), len(talk.seen.get("huge", ""))
    scopes = ", ".join(f"{each.scope}{'' if each.ok else ' (no)'}" for each in outcomes)
    return [
        f"{main.agent} {main.version}", find_revision(main.wire), tools, f"{listing:,}",
        tell_half(talk), f"{len(talk.seen.get('search', '')):,}", mark("page 2"),
        mark("bad cursor"), mark("too large"), f"{sent:,} → {read:,}", mark("search after"),
        tell_first_index(outcomes[-1].talk),
        ", ".join(each.scope for each in outcomes if each.talk.guided) or "no", scopes,
    ]  # fmt: skip


def render_table(rows: list[list[str]], faults: list[str]) -> str:
    lines = [" | ".join(COLUMNS), "|".join(["---"] * len(COLUMNS)), *(" | ".join(r) for r in rows)]
    table = "\n".join(f"| {line} |" if "---" not in line else f"|{line}|" for line in lines)
    return "\n\n".join([table, *(["\n".join(f"- {fault}" for fault in faults)] if faults else [])])


def write_table(page: Path, table: str) -> None:
    """Put the table between its markers."""
    text = page.read_text("utf-8")
    new = re.sub(f"{START}.*?{END}", lambda _: f"{START}\n{table}\n{END}", text, flags=re.DOTALL)
    page.write_text(new, "utf-8")
