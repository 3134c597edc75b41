"""Keys of configuration and data files, qualified by the keys around them (`jobs.build.steps`)."""

from __future__ import annotations

import re
from collections.abc import Iterator

from sonde.chunking.patterns import MAX_SYMBOLS, Found, place_names
from sonde.types import Symbol

_MAX_DEPTH = 3  # of keys with a plain value; deeper ones are data
_MAX_CHARS = 80  # of a key that is a name
_YAML = re.compile(
    rb"""(?mx)^(?P<indent>[ \t]*+)(?P<item>(?:-[ \t]+)*)
    (?:"(?P<quoted>[^"\n]+)"|'(?P<single>[^'\n]+)'
    |(?P<bare>[^\s#&*!|>'"%@`{}\[\],:-](?:[^:#\n]*[^:#\n \t])?))
    [ \t]*:(?=[ \t\r\n]|\Z)[ \t]*(?P<value>[^\n]*)"""
)
_BLOCK = re.compile(rb"[|>][+-]?\d*[+-]?[ \t]*(?:\#[^\n]*)?\r?$")
_JSON = re.compile(
    rb"""(?m)^(?P<indent>[ \t]*+)(?P<item>\{?[ \t]*)"(?P<quoted>(?:[^"\\\n]|\\.)+)"[ \t]*:"""
    rb"[ \t]*(?P<value>[^\n]*)"
)
_SECTIONS = re.compile(
    rb"""(?mx)^[ \t]*+(?:\[\[?[ \t]*+(?P<section>[^\]\n]+)\]
    |(?:export[ \t]+)?(?P<key>[A-Za-z_"'][^\s=:#;\[\]]*)[ \t]*[=:])"""
)
_NAMES_ITEM = frozenset({b"name", b"id"})
"""Keys whose value names the item of a list that they begin (`- name: Build`)."""


def find_keys(data: bytes, language: str) -> tuple[Symbol, ...]:
    """The keys of a file, each with its lines; of repeated ones the first."""
    if language in ("yaml", "json"):
        found = list(_read_nested(data, _YAML if language == "yaml" else _JSON))
    else:
        found = list(_read_sections(data))
    kept: dict[str, Symbol] = {}
    for one in place_names(data, found[:MAX_SYMBOLS]):
        kept.setdefault(one.name, one)
    return tuple(kept.values())


def _read_nested(data: bytes, pattern: re.Pattern[bytes]) -> Iterator[Found]:
    outer: list[int] = []  # the columns of the keys around
    block = -1  # the column of a key whose value is text
    for match in pattern.finditer(data):
        groups = match.groupdict()
        name = groups["quoted"] or groups.get("single") or groups["bare"]
        column = len(match["indent"]) + len(match["item"])
        if block >= 0 and column > block:
            continue
        value = match["value"]
        block = len(match["indent"]) if pattern is _YAML and _BLOCK.match(value) else -1
        while outer and outer[-1] >= column:
            outer.pop()
        outer.append(column)
        opens = not value.strip() or value[:1] in (b"{", b"[")
        indent = column
        if match["item"] and name in _NAMES_ITEM:
            name, indent = value.strip(b" \t\r\"',"), len(match["indent"]) + 1
        elif not opens and len(outer) > _MAX_DEPTH:
            continue
        if 0 < len(name) <= _MAX_CHARS and b": " not in name:
            at = match.start()
            text = name.decode("utf-8", "replace")
            yield Found(at, indent, text, "key", at, flat=pattern is _YAML)


def _read_sections(data: bytes) -> Iterator[Found]:
    for match in _SECTIONS.finditer(data):
        section = match["section"]
        name = (section or match["key"]).strip(b" \t\"'").replace(b'"', b"")
        if 0 < len(name) <= _MAX_CHARS:
            text = name.decode("utf-8", "replace")
            at = data.rfind(b"\n", 0, match.end()) + 1
            yield Found(at, 0 if section else 1, text, "key", at, flat=True)
