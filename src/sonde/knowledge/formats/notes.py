"""Notes: Markdown with front matter, Obsidian, Logseq, Joplin, Notion; Evernote's exports."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import date, datetime
from typing import Any
from urllib.parse import unquote

from sonde.knowledge.formats import File, RefusedFormat, make_entry, parse_xml, read_html
from sonde.stores.knowledge.base import Entry
from sonde.text.formats import read_time

_FRONT = re.compile(r"\A---[ \t]*\n(.*?\n)?(?:---|\.\.\.)[ \t]*(?:\n|\Z)", re.DOTALL)
_PROPERTY = re.compile(r"\A(?:[ \t]*[\w-]+:: .*\n)+")
_FENCED = re.compile(r"(?ms)^(`{3,}+|~{3,}+).*?^\1[^\n]*$|`[^`\n]+`")
# Possessive, and none runs over its own beginning: a hostile line takes no longer than another.
_TAG = re.compile(r"(?<![\w#&/])#([\w/-]++)")
_LINK = re.compile(r"(!?)\[\[([^\[\]|#\n]++)(?:[|#][^\[\]\n]*+)?\]\]")
_MARKDOWN_LINK = re.compile(r"!\[[^\[\]\n]*+\]\(([^()\s]++)[^()\n]*+\)")
_HEADING = re.compile(r"\A\s*# +(.+)")
_NOTION = re.compile(r" [0-9a-f]{32}$")
MAX_FRONT_MATTER_CHARS = 1 << 16
MAX_NESTING = 200
"""Of YAML; the parser would run out of stack."""
_NESTING = re.compile(r"[\[\]{}]")
_DASHES = re.compile(r"(?:[-?:][ \t]+){200}")
_CREATED = ("created", "date", "created_at", "creation_date", "date created", "created time")
_MODIFIED = ("updated", "modified", "last_modified", "updated_at", "date modified")


def parse_note(file: File) -> list[Entry]:
    """One Markdown or text file as one note."""
    text = file.text()
    front, body = split_front(text)
    properties = _PROPERTY.match(body)
    if properties:  # Logseq writes them as `key:: value`
        for line in properties.group().splitlines():
            key, _, value = line.partition("::")
            front.setdefault(key.strip(), value.strip())
    prose = _FENCED.sub(" ", body)
    links = [(bool(mark), target.strip()) for mark, target in _LINK.findall(prose)]
    attached = [target for is_file, target in links if is_file]
    attached += [unquote(target) for target in _MARKDOWN_LINK.findall(prose)]
    linked = [target for is_file, target in links if not is_file]
    facts: dict[str, object] = {}
    if front:
        facts["front_matter"] = front
    if linked:
        facts["links"] = list(dict.fromkeys(linked))
    if attached:
        facts["attachments"] = list(dict.fromkeys(attached))
    created = next((read_time(front[key]) for key in _CREATED if key in front), None)
    modified = next((read_time(front[key]) for key in _MODIFIED if key in front), None)
    return [
        make_entry(
            "notes",
            _find_title(file, front, body),
            body,
            file,
            tags=tuple(_list_tags(front, prose)),
            created_at=created or file.modified,
            last_modified=modified or file.modified,
            facts=facts,
        )
    ]


def split_front(text: str) -> tuple[dict[str, Any], str]:
    """Front matter and the rest; front matter that is no mapping stays in the text."""
    found = _FRONT.match(text)
    if not found or len(found[0]) > MAX_FRONT_MATTER_CHARS:
        return {}, text
    try:
        import yaml
    except ImportError:
        return _read_plain(found[1] or ""), text[found.end() :]
    try:
        front = load_yaml(found[1] or "")
    except (yaml.YAMLError, ValueError, RecursionError):
        return {}, text
    if not isinstance(front, dict):
        return {}, text
    return {str(key): front_matter_to_json(value) for key, value in front.items()}, text[
        found.end() :
    ]


def load_yaml(text: str) -> Any:
    """YAML as plain values, by libyaml where it is installed: ten times as fast."""
    import yaml

    depth = deepest = 0
    for mark in _NESTING.findall(text):
        depth += 1 if mark in "[{" else -1 if mark in "]}" else 0
        deepest = max(deepest, depth)
    if deepest > MAX_NESTING or _DASHES.search(text):
        raise ValueError("nested too deeply")
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    return yaml.load(text, loader)  # noqa: S506 - both are safe


def _read_plain(text: str) -> dict[str, str | list[str]]:
    """Front matter of plain `key: value` lines, where YAML is not installed."""
    front: dict[str, str | list[str]] = {}
    key = ""
    for line in text.splitlines():
        if re.match(r"\s*- ", line) and key:
            front[key] = [*([] if isinstance(front[key], str) else front[key]), line.strip()[2:]]
        elif ":" in line and not line.startswith((" ", "#")):
            key, _, value = (part.strip() for part in line.partition(":"))
            front[key] = (
                [item.strip() for item in value[1:-1].split(",")]
                if value.startswith("[") and value.endswith("]")
                else value.strip("\"'")
            )
    return front


def front_matter_to_json(value: Any) -> Any:
    """A YAML value as JSON can hold it."""
    if isinstance(value, Mapping):
        return {str(key): front_matter_to_json(each) for key, each in value.items()}
    if isinstance(value, list | tuple | set):
        return [front_matter_to_json(each) for each in value]
    if isinstance(value, datetime | date):
        return value.isoformat()
    return value if isinstance(value, str | int | float | bool) or value is None else str(value)


def _find_title(file: File, front: Mapping[str, Any], body: str) -> str:
    title = front.get("title")
    if isinstance(title, str) and title.strip():
        return title
    stem = _NOTION.sub("", file.stem)
    if stem != file.stem:
        heading = _HEADING.match(body)
        return heading[1] if heading else stem
    if "/pages/" in f"/{file.path}" or "/journals/" in f"/{file.path}":
        stem = unquote(stem).replace("___", "/")  # Logseq's way to write a slash
    return stem


def _list_tags(front: Mapping[str, Any], prose: str) -> list[str]:
    tags: list[str] = []
    for key in ("tags", "tag", "keywords"):
        given = front.get(key) or []
        if isinstance(given, str):
            given = re.split(r"[,;]\s*|\s(?=#)", given) if "," in given else given.split()
        tags += [str(tag) for tag in given] if isinstance(given, list) else []
    tags += [tag for tag in _TAG.findall(prose) if any(map(str.isalpha, tag))]
    cleaned = (tag.strip().strip("#[]").strip() for tag in tags)
    return list(dict.fromkeys(tag for tag in cleaned if tag))


def is_notion(file: File) -> bool:
    """Whether a page of HTML is one that Notion exported."""
    return bool(_NOTION.search(file.stem)) and b'<article id="' in file.data


def parse_notion(file: File) -> list[Entry]:
    """A page that Notion exported as HTML; Markdown is read like any other."""
    title, text = read_html(file.text())
    facts = {"app": "Notion", "id": file.stem[-32:]}
    return [make_entry("notes", title or _NOTION.sub("", file.stem), text, file, facts=facts)]


def parse_enex(file: File) -> list[Entry]:
    """Notes exported by Evernote."""
    root = parse_xml(file.data)
    if root.tag != "en-export":
        raise RefusedFormat("unknown", "not an Evernote export")
    notes = []
    for number, note in enumerate(root.iter("note")):
        _, text = read_html(note.findtext("content") or "")
        url = note.findtext("note-attributes/source-url") or ""
        notes.append(
            make_entry(
                "notes",
                note.findtext("title") or f"{file.stem} {number + 1}",
                text,
                file,
                path=str(number),
                url=url,
                tags=tuple(tag.text or "" for tag in note.iter("tag") if tag.text),
                created_at=read_time(note.findtext("created") or "") or file.modified,
                last_modified=read_time(note.findtext("updated") or "") or file.modified,
            )
        )
    return notes
