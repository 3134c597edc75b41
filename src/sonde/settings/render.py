"""Settings -> the config.json that a project gets when it is first indexed."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from sonde.settings.load import UNEDITED
from sonde.settings.rules import RULES, Settings

CONFIG_VERSION = 1

_GROUPS = (
    ("include", "exclude"),
    ("respect_gitignore", "max_file_size", "max_files"),
    ("doc_patterns", "index_docs"),
    ("enhanced_tool_descriptions",),
    ("indexing_strategy", "lazy_idle_threshold"),
    ("watching", "roots", "chunking", "store", "embedding"),
    ("tool_names", "toolsets", "max_tokens"),
)
_UNEDITED_NOTE = (
    "A value that still equals its default yields to ~/.mcp/search/config.json. "
    "Remove this line to make every value here binding."
)


def render_config(settings: Settings, hardcoded_excludes: Sequence[str]) -> str:
    """The text of a commented config.json; the excludes are the lines shown as such."""
    groups: list[list[tuple[str, Any]]] = [
        [
            ("_comment", "Search MCP Configuration - Edit to customize indexing behavior"),
            ("_version", CONFIG_VERSION),
            (UNEDITED, _UNEDITED_NOTE),
        ]
    ]
    groups += [[(RULES[name].key, _write(settings, name)) for name in names] for names in _GROUPS]
    groups.append([("_hardcodedExcludes", list(hardcoded_excludes))])
    groups.append([("_availableOptions", {rule.key: rule.about for rule in RULES.values()})])
    body = ",\n\n".join(",\n".join(_render(*entry) for entry in group) for group in groups)
    return f"{{\n{body}\n}}\n"


def _write(settings: Settings, name: str) -> Any:
    value = getattr(settings, name)
    if name != "max_file_size":
        return value
    kilobytes = -(-value // 1024)
    return f"{kilobytes // 1024}MB" if kilobytes and kilobytes % 1024 == 0 else f"{kilobytes}KB"


def _render(key: str, value: Any) -> str:
    long = key in ("_hardcodedExcludes", "_availableOptions")
    text = json.dumps(value, ensure_ascii=False, indent=2 if long else None)
    return f"  {json.dumps(key)}: " + text.replace("\n", "\n  ")
