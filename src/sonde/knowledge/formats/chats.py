"""Conversations as people export them: ChatGPT, Claude, Gemini, Telegram, Slack, WhatsApp."""

from __future__ import annotations

import html
import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, NamedTuple

from sonde.knowledge.formats import File, RefusedFormat, load_json, make_chat, read_html
from sonde.policy.read import decode_text
from sonde.stores.knowledge.base import Entry, Piece
from sonde.text.formats import read_time

PEOPLE = "users.json"
_MARK = re.compile(r"<([@#!]?)([^<>|]*+)(?:\|([^<>]*+))?>")


def _make_slack(file: File, rows: Any) -> Iterator[Entry]:
    """A day of a channel; the folder is the channel's name."""
    names = _read_people(file.beside)
    messages = []
    for row in rows:
        if not isinstance(row, dict) or not str(row.get("text") or "").strip():
            continue
        if str(row.get("subtype") or "").endswith(("_join", "_leave")):
            continue
        profile = row.get("user_profile") or {}
        user = str(row.get("user") or "")
        known = profile.get("real_name") or names.get(user) or row.get("username") or user
        stamp = str(row.get("ts"))
        when = read_time(float(stamp)) if re.fullmatch(r"\d+(\.\d+)?", stamp) else None
        key = str(row.get("client_msg_id") or row.get("ts") or "")
        text = _write_plain(str(row["text"]), names)
        messages.append(Piece(text, uuid=key, sender=str(known), created_at=when))
    channel = file.path.split("/")[-2] if "/" in file.path else "Slack"
    if not messages:
        raise RefusedFormat("no_text")
    yield make_chat(f"#{channel} {file.stem}", messages, file, facts={"app": "Slack"})


def _read_people(data: bytes) -> Mapping[str, str]:
    try:
        rows = json.loads(decode_text(data) or "[]")
    except (ValueError, RecursionError):
        return {}
    names: dict[str, str] = {}
    for row in rows if isinstance(rows, list) else []:
        if isinstance(row, dict) and isinstance(row.get("id"), str):
            profile = row.get("profile") if isinstance(row.get("profile"), dict) else {}
            assert isinstance(profile, dict)
            named = profile.get("real_name") or row.get("real_name") or row.get("name")
            names[row["id"]] = str(named or row["id"])
    return names


def _write_plain(text: str, names: Mapping[str, str]) -> str:
    """Slack's markup as plain text: @name, #channel, label (address)."""

    def show(found: re.Match[str]) -> str:
        mark, what, label = found.groups()
        if mark == "@":
            return f"@{label or names.get(what, what)}"
        if mark:
            return f"{'#' if mark == '#' else '@'}{label or what}"
        return f"{label} ({what})" if label and label not in what else what

    return html.unescape(_MARK.sub(show, text))


class MessageNode(NamedTuple):
    """A message, or an empty node, and the one before it."""

    parent: str
    said: tuple[Piece, ...]


def make_branches(
    title: str, nodes: Mapping[str, MessageNode], shown: str, file: File, **facts: Any
) -> Iterator[Entry]:
    """The branch that ends in the leaf `shown`, then each other one from its fork on."""
    parents = {node.parent for node in nodes.values()}
    leaves = [key for key in nodes if key not in parents]
    taken: set[str] = set()
    first = shown if shown in nodes else next(iter(leaves), "")
    yield make_chat(title, _climb(nodes, first, taken)[0], file, **facts)
    key, number = facts.get("path", ""), 1
    for leaf in leaves:
        if leaf in taken:
            continue
        said, fork = _climb(nodes, leaf, taken)
        if said:
            number += 1
            known = {**facts.get("facts", {}), "branch_of": key, "branches_from": fork}
            own = facts | {"path": f"{key}/{leaf}", "facts": known}
            yield make_chat(f"{title} (branch {number})", said, file, **own)


def _climb(nodes: Mapping[str, MessageNode], leaf: str, taken: set[str]) -> tuple[list[Piece], str]:
    """The messages on the way to a leaf, and the one that they branch off from."""
    said: list[Piece] = []
    while leaf in nodes and leaf not in taken:
        taken.add(leaf)
        said += reversed(nodes[leaf].said)
        leaf = nodes[leaf].parent
    return said[::-1], leaf


_WHATSAPP = re.compile(
    r"\u200e?\[?(\d{1,4})[./-](\d{1,2})[./-](\d{2,4}),? +(\d{1,2})[:.](\d{2})(?:[:.](\d{2}))?"
    r"[ \u00a0\u202f]?([AaPp]\.?[ \u00a0\u202f]?[Mm]\.?)?\]?(?: -)? (?:([^:\n]{1,80}): )?(.*)"
)


def find_chat_maker(value: Any) -> Callable[[File, Any], Iterator[Entry]] | None:
    """What makes conversations of the rows of a JSON export; None when it is none."""
    first = value[0] if isinstance(value, list) and value else value
    if not isinstance(first, dict):
        return None
    if isinstance(first.get("mapping"), dict):
        return _make_chatgpt
    if isinstance(first.get("chat_messages"), list):
        return _make_claude
    if isinstance(first.get("chunkedPrompt"), dict):
        return _make_studio
    if isinstance(value, list) and any(_is_gemini(row) for row in value):
        return _make_gemini
    if first is value and (
        isinstance(first.get("messages"), list) or isinstance(first.get("chats"), dict)
    ):
        return _make_telegram
    if isinstance(value, list) and first.get("type") == "message" and "ts" in first:
        return _make_slack
    return None


def _is_gemini(row: Any) -> bool:
    """Whether a record of an activity log is Gemini's; other products write to it too."""
    return isinstance(row, dict) and str(row.get("header", "")) in ("Gemini Apps", "Bard")


def parse_chat_export(file: File) -> list[Entry]:
    """Every conversation of an export in JSON."""
    value = load_json(file)
    make = find_chat_maker(value)
    if make is None:
        raise RefusedFormat("unknown", "not a known export")
    if make is _make_slack:  # its rows are messages of one conversation
        return list(make(file, value))
    rows = [row for row in (value if isinstance(value, list) else [value]) if isinstance(row, dict)]
    return [chat for row in rows for chat in make(file, row) if chat.pieces]


def _make_chatgpt(file: File, row: Mapping[str, Any]) -> Iterator[Entry]:
    """The branch shown last, from its leaf up to the root, then every other branch."""
    nodes: dict[str, MessageNode] = {}
    for key, node in (row.get("mapping") or {}).items():
        if isinstance(node, dict):
            said = tuple(_read_chatgpt(key, node.get("message")))
            nodes[str(key)] = MessageNode(str(node.get("parent") or ""), said)
    key = str(row.get("conversation_id") or row.get("id") or row.get("create_time") or "")
    title, shown = str(row.get("title") or "ChatGPT"), str(row.get("current_node") or "")
    created, modified = read_time(row.get("create_time")), read_time(row.get("update_time"))
    times = {"created_at": created, "last_modified": modified}
    yield from make_branches(title, nodes, shown, file, path=key, facts={"app": "ChatGPT"}, **times)


def _read_chatgpt(key: str, message: Any) -> Iterator[Piece]:
    if not isinstance(message, dict):
        return
    content = message.get("content") or {}
    parts = [part for part in content.get("parts") or [] if isinstance(part, str)]
    text = "\n".join(parts) or str(content.get("text") or "")
    author = message.get("author") or {}
    hidden = (message.get("metadata") or {}).get("is_visually_hidden_from_conversation")
    if text.strip() and not hidden and author.get("role") != "system":
        sender = str(author.get("name") or author.get("role") or "")
        when = read_time(message.get("create_time"))
        yield Piece(text, uuid=key, sender=sender, created_at=when)


def _make_claude(file: File, row: Mapping[str, Any]) -> Iterator[Entry]:
    nodes: dict[str, MessageNode] = {}
    last = ""
    for at, message in enumerate(row["chat_messages"]):
        if not isinstance(message, dict):
            continue
        parts = message.get("content")
        listed = parts if isinstance(parts, list) else []
        spoken = [e for e in listed if isinstance(e, dict) and e.get("type") == "text"]
        texts = [str(part.get("text") or "") for part in spoken]
        text = "\n".join(filter(None, texts)) or str(message.get("text") or "")
        when = read_time(message.get("created_at"))
        key, sender = str(message.get("uuid") or ""), str(message.get("sender") or "")
        said = (Piece(text, uuid=key, sender=sender, created_at=when),) if text.strip() else ()
        # older exports do not say what a message answers: the one before it
        parent = str(message.get("parent_message_uuid") or last)
        last = key or f"message {at}"
        nodes[last] = MessageNode(parent, said)
    title, shown = str(row.get("name") or "Claude"), row.get("current_leaf_message_uuid") or last
    created, modified = read_time(row.get("created_at")), read_time(row.get("updated_at"))
    known = {"path": str(row.get("uuid") or ""), "created_at": created, "last_modified": modified}
    yield from make_branches(title, nodes, str(shown), file, facts={"app": "Claude"}, **known)


def _make_studio(file: File, row: Mapping[str, Any]) -> Iterator[Entry]:
    chunks = row["chunkedPrompt"].get("chunks") or []
    messages = [
        Piece(str(chunk["text"]), sender=str(chunk.get("role") or ""))
        for chunk in chunks
        if isinstance(chunk, dict) and chunk.get("text") and not chunk.get("isThought")
    ]
    yield make_chat(file.stem, messages, file, facts={"app": "Gemini"})


def _make_gemini(file: File, row: Mapping[str, Any]) -> Iterator[Entry]:
    """One record of the activity log: a prompt and its answers."""
    if not _is_gemini(row):
        return
    when = read_time(row.get("time"))
    asked = re.sub(r"^Prompted\s+", "", str(row.get("title") or ""))
    messages = [Piece(asked, sender="user", created_at=when)] if asked else []
    for item in row.get("safeHtmlItem") or []:
        text = read_html(str(item.get("html") or ""))[1] if isinstance(item, dict) else ""
        if text:
            messages.append(Piece(text, sender="Gemini", created_at=when))
    key = str(row.get("time") or "")
    yield make_chat(asked[:80] or "Gemini", messages, file, path=key, facts={"app": "Gemini"})


def _make_telegram(file: File, row: Mapping[str, Any]) -> Iterator[Entry]:
    """One exported conversation, or all of an account."""
    one = isinstance(row.get("messages"), list)
    for chat in [row] if one else (row.get("chats") or {}).get("list") or []:
        if not isinstance(chat, dict):
            continue
        messages = []
        for message in chat.get("messages") or []:
            text = _join_telegram(message.get("text")) if isinstance(message, dict) else ""
            if text.strip() and message.get("type", "message") == "message":
                when = read_time(message.get("date_unixtime") or message.get("date"))
                key, sender = str(message.get("id") or ""), str(message.get("from") or "")
                messages.append(Piece(text, uuid=key, sender=sender, created_at=when))
        title = str(chat.get("name") or "Telegram")
        key = str(chat.get("id") or title)
        yield make_chat(title, messages, file, path=key, facts={"app": "Telegram"})


def _join_telegram(text: Any) -> str:
    parts = text if isinstance(text, list) else [str(text or "")]
    return "".join(each if isinstance(each, str) else str(each.get("text") or "") for each in parts)


def is_whatsapp(text: str) -> bool:
    """Whether a text begins like an export of WhatsApp."""
    lines = [line for line in text[:4_000].split("\n") if line.strip()][:5]
    return bool(lines) and sum(bool(_WHATSAPP.match(line)) for line in lines) * 2 > len(lines)


def parse_whatsapp(file: File) -> list[Entry]:
    """A conversation exported as text; lines without a date continue the message before."""
    messages: list[Piece] = []
    rows = [(_WHATSAPP.match(line), line) for line in file.text().split("\n")]
    month_first = any(int(found[2]) > 12 for found, _ in rows if found)
    for found, line in rows:
        if found is None:
            if messages and line.strip():
                messages[-1] = replace(messages[-1], text=f"{messages[-1].text}\n{line}")
        elif found[8] is not None and found[9].strip():
            when = _read_whatsapp(found, month_first=month_first)
            messages.append(Piece(found[9].strip(), sender=found[8].strip(), created_at=when))
    if not messages:
        raise RefusedFormat("no_text")
    title = re.sub(r"^WhatsApp Chat (with|-) ", "", file.stem)
    return [make_chat(title, messages, file, facts={"app": "WhatsApp"})]


def _read_whatsapp(found: re.Match[str], *, month_first: bool) -> int | None:
    first, second, third = int(found[1]), int(found[2]), int(found[3])
    day, month, year = (second, first, third) if month_first else (first, second, third)
    if first > 31:
        year, month, day = first, second, third
    year += 2000 if year < 100 else 0
    hour = int(found[4])
    half = re.sub(r"[^apm]", "", (found[7] or "").lower())
    if half:
        hour = hour % 12 + (12 if half == "pm" else 0)
    try:
        when = datetime(year, month, day, hour, int(found[5]), int(found[6] or 0), tzinfo=UTC)
    except ValueError:
        return None
    return read_time(when)
