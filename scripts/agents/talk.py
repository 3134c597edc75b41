"""What the scripted model does: search, read on, make mistakes, ask for too much, search again."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from dialects import Heard, Reply
from wire import PROBE

PAGE = 5
NONE = "there-was-none"
Arguments = dict[str, Any]


@dataclass(frozen=True)
class Step:
    """One call; its arguments may come from what the model has read before."""

    name: str
    tool: str
    arguments: Callable[[dict[str, str]], Arguments]


def read_cursor(text: str) -> str:
    """The cursor as the model finds it in what it was given, quoted once or twice."""
    found = re.search(r'next_cursor\\*"\s*:\s*\\*"([\w.=-]+)', text)
    return found[1] if found else NONE


def read_token(text: str) -> str:
    """The token to confirm with, as the model finds it."""
    found = re.search(r"confirm='([\w.=-]+)'", text)
    return found[1] if found else NONE


def _regex(name: str, **arguments: Any) -> Step:
    return Step(name, "regex_search", lambda _: arguments)


SEARCH = _regex("search", pattern=r"def handler_\d+", page_size=PAGE)
STEPS = (
    SEARCH,
    Step("page 2", "regex_search", lambda seen: {"cursor": read_cursor(seen["search"])}),
    _regex("bad cursor", cursor="bm90LWEtY3Vyc29y"),
    _regex("too large", pattern="WIDE", page_size=200, context_lines=10),
    _regex("huge", pattern="HUGE", page_size=200, context_lines=10),
    _regex("which half", pattern=PROBE),
    Step("search after", "search_code", lambda _: {"query": "where are invoices sent"}),
)
FIRST_USE = (
    *STEPS[:2],
    Step("no index", "search_code", lambda _: {"query": "where are invoices sent"}),
    Step("create", "create_index", lambda _: {}),
    Step("confirm", "create_index", lambda seen: {"confirm": read_token(seen["create"])}),
    STEPS[-1],
)
"""In a project that was never indexed."""


@dataclass
class Talk:
    """One conversation: which steps were taken, and what the model read after each."""

    steps: tuple[Step, ...] = STEPS
    seen: dict[str, str] = field(default_factory=dict)
    offered: dict[str, Any] = field(default_factory=dict)
    """Our tools as they were defined to the model, from the first request that had any."""
    named: set[str] = field(default_factory=set)
    """Names of our tools anywhere in that request: some agents send a definition when asked."""
    at_once: bool = False
    """Whether they were there in the first request."""
    guided: bool = False
    """Whether the guide that setup wrote was in a request."""
    fetched: list[str] = field(default_factory=list)
    problem: str = ""
    _requests: int = 0

    def answer(self, heard: Heard) -> Reply:
        """What the model says next."""
        if not heard.tools:
            return Reply(text="A short title")
        self._requests += 1
        self.guided |= "Searching with sonde" in str(heard.raw)
        self._look_at(heard)
        results = {result.call: result.text for result in heard.results}
        for number, step in enumerate(self.steps):
            call = f"call_step{number}"
            if call in results:
                self.seen[step.name] = results[call]
                continue
            name = find_tool(heard.tools, step.tool)
            if name is None:
                return self._fetch(heard, step.tool)
            return Reply(call=call, tool=name, arguments=step.arguments(self.seen))
        return Reply(text="FINISHED")

    def _look_at(self, heard: Heard) -> None:
        ours = {name: tool for name, tool in heard.tools.items() if "sonde" in name.lower()}
        if ours and not self.offered:
            self.offered, self.at_once = ours, self._requests == 1
            self.named = set(re.findall(r"sonde__([a-z_]+)", str(heard.raw)))
            self.named |= {re.split(r"sonde[\0_-]+", name)[-1] for name in ours}

    def _fetch(self, heard: Heard, tool: str) -> Reply:
        """Agents that hold tools back have a tool that brings one."""
        if "ToolSearch" in heard.tools and tool not in self.fetched:
            self.fetched.append(tool)
            call, wanted = f"call_fetch{len(self.fetched)}", {"query": f"select:mcp__sonde__{tool}"}
            return Reply(call=call, tool="ToolSearch", arguments=wanted)
        self.problem = f"{tool} was not offered, only {', '.join(sorted(heard.tools))}"
        return Reply(text="GIVING UP")


def find_tool(tools: dict[str, Any], wanted: str) -> str | None:
    """The agent's name for one of our tools: ours, with something before it."""
    for name in tools:
        if "sonde" in name.lower() and re.sub(r"\W", "_", name).endswith(f"_{wanted}"):
            return name
    return None
