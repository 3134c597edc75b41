"""Exports of Slack: a folder a channel, a file a day, and `users.json` with who is who."""

from __future__ import annotations

import html
import json
import re
from collections.abc import Mapping
from typing import Any

from sonde.knowledge.formats.reading import File, Refused, make_chat
from sonde.knowledge.times import read_time
from sonde.policy.decode import decode_text
from sonde.stores.knowledge_base import Entry, Piece

PEOPLE = "users.json"
_MARK = re.compile(r"<([@#!]?)([^<>|]*+)(?:\|([^<>]*+))?>")


def make_slack(file: File, rows: list[Any]) -> Entry:
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
        raise Refused("no_text")
    return make_chat(f"#{channel} {file.stem}", messages, file, facts={"app": "Slack"})


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
    """Slack's own marks as they are read: @name, #channel, label (address)."""

    def show(found: re.Match[str]) -> str:
        mark, what, label = found.groups()
        if mark == "@":
            return f"@{label or names.get(what, what)}"
        if mark:
            return f"{'#' if mark == '#' else '@'}{label or what}"
        return f"{label} ({what})" if label and label not in what else what

    return html.unescape(_MARK.sub(show, text))
