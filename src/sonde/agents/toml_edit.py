"""Edits TOML where it stands: a new table goes to the end, an old one is changed in its place."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import MutableMapping
from typing import Any

from sonde.agents.json_edit import Malformed

_BARE = re.compile(r"[A-Za-z0-9_-]+")
_HEADER = re.compile(r"[ \t]*\[")


def load(text: str) -> Any:
    """The values in a text."""
    try:
        return tomllib.loads(text.replace("\r\n", "\n"))
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise Malformed(str(error)) from error


def put(text: str, path: tuple[str, ...], value: dict[str, Any]) -> str:
    """The text with the table at the path; what else stands in the table stays."""
    here: Any = load(text)
    for key in path:
        here = _expect_table(here.get(key, {}), key)
    if not here:
        appended = _append(text, path, value)
        try:
            load(appended)
        except Malformed:
            return _put_inside(text, path, value)
        return appended
    return _put_inside(text, path, value)


def _append(text: str, path: tuple[str, ...], value: dict[str, Any]) -> str:
    """A table at the end is right whatever table comes before it."""
    lines = [f"[{_name(path)}]", *(f"{_name((key,))} = {_show(v)}" for key, v in value.items()), ""]
    end = "\r\n" if "\r\n" in text else "\n"
    gap = "" if not text else end if text.endswith("\n") else end * 2
    return text + gap + end.join(lines)


def _put_inside(text: str, path: tuple[str, ...], value: dict[str, Any]) -> str:
    import tomlkit

    document = _parse(text)
    here: Any = document
    for key in path:
        if key not in here:
            here[key] = tomlkit.inline_table()
        here = here[key]
    _merge(here, value)
    return tomlkit.dumps(document)


def _merge(table: Any, values: dict[str, Any]) -> None:
    import tomlkit

    for key, value in values.items():
        if not isinstance(value, dict):
            if key not in table or table[key] != value:
                table[key] = value
            continue
        if key not in table:
            table[key] = tomlkit.inline_table()
        _merge(_expect_table(table[key], key), value)


def drop(text: str, path: tuple[str, ...]) -> str:
    """The text without the table at the path; the same text where there is none."""
    expected = load(text)
    here: Any = expected
    for key in path[:-1]:
        here = _expect_table(here.get(key, {}), key)
    if path[-1] not in here:
        return text
    del here[path[-1]]
    cut = _cut(text, path)
    try:
        if _prune(load(cut)) == _prune(expected):
            return cut
    except Malformed:
        pass
    import tomlkit

    document = _parse(text)
    parent: Any = document
    for key in path[:-1]:
        parent = parent[key]
    del parent[path[-1]]
    return tomlkit.dumps(document)


def _cut(text: str, path: tuple[str, ...]) -> str:
    """Without the lines from our headers to the last key below them; comments after it stay."""
    ours = re.compile(rf"[ \t]*\[{re.escape(_name(path))}[\].]")
    kept: list[str] = []
    lines = text.splitlines(keepends=True)
    position = 0
    while position < len(lines):
        if not ours.match(lines[position]):
            kept.append(lines[position])
            position += 1
            continue
        position += 1
        last = position
        while position < len(lines) and not _HEADER.match(lines[position]):
            position += 1
            if lines[position - 1].strip() and not lines[position - 1].lstrip().startswith("#"):
                last = position
        rest = lines[last:position]
        if position == len(lines) and not rest and kept and not kept[-1].strip():
            kept.pop()  # the empty line that set our table apart
        kept += rest
    return "".join(kept)


def _parse(text: str) -> Any:
    import tomlkit
    from tomlkit.exceptions import TOMLKitError

    try:
        return tomlkit.parse(text)
    except (TOMLKitError, RecursionError) as error:
        raise Malformed(str(error)) from error


def _prune(value: Any) -> Any:
    """Without empty tables: whether `[a]` is spelled out says nothing."""
    if not isinstance(value, dict):
        return value
    pruned = {key: _prune(each) for key, each in value.items()}
    return {key: each for key, each in pruned.items() if each != {}}


def _name(path: tuple[str, ...]) -> str:
    return ".".join(key if _BARE.fullmatch(key) else json.dumps(key) for key in path)


def _show(value: Any) -> str:
    """A value as TOML; strings, numbers, booleans and lists are spelled as in JSON."""
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{_name((k,))} = {_show(v)}" for k, v in value.items()) + " }"
    return json.dumps(value, ensure_ascii=False)


def _expect_table(value: Any, key: str) -> Any:
    if not isinstance(value, MutableMapping):
        raise Malformed(f"{key} is not a table")
    return value
