"""Editing TOML in place: a new table goes to the end, an existing one is changed where it is."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Mapping, MutableMapping
from contextlib import suppress
from typing import Any

from sonde.agents.json_edit import Malformed

_BARE = re.compile(r"[A-Za-z0-9_-]+")
_HEADER = re.compile(r"[ \t]*\[")


def load_toml(text: str) -> dict[str, object]:
    """The values of a text."""
    try:
        return tomllib.loads(text.replace("\r\n", "\n"))
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise Malformed(str(error)) from error


def put_toml(text: str, path: tuple[str, ...], value: Mapping[str, object]) -> str:
    """The text with the values merged into the table at the path."""
    here: Any = load_toml(text)
    for key in path:
        here = _expect_table(here.get(key, {}), key)
    if not here:
        with suppress(Malformed):
            appended = _append(text, path, value)
            load_toml(appended)
            return appended
    import tomlkit

    here = document = _parse(text)
    for key in path:
        if key not in here:
            here[key] = tomlkit.inline_table()
        here = here[key]
    _merge(here, value)
    return tomlkit.dumps(document)


def _append(text: str, path: tuple[str, ...], value: Mapping[str, object]) -> str:
    """The text with a new table at its end, where it is valid after any other table."""
    lines = [f"[{_name(path)}]", *(f"{_name((key,))} = {_show(v)}" for key, v in value.items()), ""]
    end = "\r\n" if "\r\n" in text else "\n"
    gap = "" if not text else end if text.endswith("\n") else end * 2
    return text + gap + end.join(lines)


def _merge(table: Any, values: Mapping[str, object]) -> None:
    import tomlkit

    for key, value in values.items():
        if not isinstance(value, Mapping):
            if key not in table or table[key] != value:
                table[key] = value
            continue
        if key not in table:
            table[key] = tomlkit.inline_table()
        _merge(_expect_table(table[key], key), value)


def drop_toml(text: str, path: tuple[str, ...]) -> str:
    """The text without the table at the path; unchanged if there is none."""
    expected = load_toml(text)
    here: Any = expected
    for key in path[:-1]:
        here = _expect_table(here.get(key, {}), key)
    if path[-1] not in here:
        return text
    del here[path[-1]]
    cut = _cut(text, path)
    with suppress(Malformed):
        if _prune(load_toml(cut)) == _prune(expected):
            return cut
    import tomlkit

    parent = document = _parse(text)
    for key in path[:-1]:
        parent = parent[key]
    del parent[path[-1]]
    return tomlkit.dumps(document)


def _cut(text: str, path: tuple[str, ...]) -> str:
    """The text without our headers and the keys below them; comments after the last key stay."""
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
            kept.pop()  # the empty line before our table
        kept += rest
    return "".join(kept)


def _parse(text: str) -> Any:
    import tomlkit
    from tomlkit.exceptions import TOMLKitError

    try:
        return tomlkit.parse(text)
    except (TOMLKitError, RecursionError) as error:
        raise Malformed(str(error)) from error


def _prune(value: object) -> object:
    """The value without empty tables: writing `[a]` or leaving it out means the same."""
    if not isinstance(value, dict):
        return value
    pruned = {key: _prune(each) for key, each in value.items()}
    return {key: each for key, each in pruned.items() if each != {}}


def _name(path: tuple[str, ...]) -> str:
    return ".".join(key if _BARE.fullmatch(key) else json.dumps(key) for key in path)


def _show(value: object) -> str:
    """A value as TOML; strings, numbers, booleans and lists are spelled as in JSON."""
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{_name((k,))} = {_show(v)}" for k, v in value.items()) + " }"
    return json.dumps(value, ensure_ascii=False)


def _expect_table(value: object, key: str) -> Any:
    if not isinstance(value, MutableMapping):
        raise Malformed(f"{key} is not a table")
    return value
