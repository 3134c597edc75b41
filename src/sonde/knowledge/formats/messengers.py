"""Exports of messengers.

Slack, Telegram (JSON and HTML), Signal, Discord, Messenger, Instagram and WhatsApp.
"""

from __future__ import annotations

import html
import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from itertools import groupby, pairwise
from typing import Any

from sonde.knowledge.formats import (
    LEFT_OUT,
    File,
    RefusedFormat,
    decode_bytes,
    list_dicts,
    make_chat,
)
from sonde.knowledge.formats.pages import read_html
from sonde.stores.knowledge.base import Entry, Piece
from sonde.text.formats import read_time

PEOPLE = "users.json"
EMPTY = "message without text"
EDITED = " (edited)"
_MARK = re.compile(r"<([@#!]?)([^<>|]*+)(?:\|([^<>]*+))?>")
_TELEGRAM_PAGE = re.compile(
    r'(?s)<div class="message [^"]*" id="message(-?\d+)">(.*?)(?=<div class="message |\Z)'
)
_SIGNAL_STEMS = ("data", "chat", "messages", "index")  # then the folder has the chat's name
_SIGNAL_LINE = re.compile(r"\[(\d{4}-\d\d-\d\d[ T]\d\d:\d\d(?::\d\d)?)\] ([^:\n]{1,80}): ?(.*)")


def make_talk(file: File, app: str, title: str, rows: Iterator[Piece], key: str = "") -> Entry:
    """A conversation; messages without text are counted and left out."""
    every = list(rows)
    messages = [row for row in every if row.text.strip()]
    if not messages:
        raise RefusedFormat("no_text")
    lost = Counter({EMPTY: len(every) - len(messages)})
    facts = {"app": app, LEFT_OUT: dict(+lost)}
    return make_chat(title, messages, file, path=key, facts=facts)


def make_slack(file: File, rows: Any) -> Iterator[Entry]:
    """A day of a channel, which the folder is named after."""
    names = _read_people(file.beside)
    channel = file.folder or "Slack"

    def read() -> Iterator[Piece]:
        for row in rows:
            if not isinstance(row, dict) or str(row.get("subtype") or "").endswith(
                ("_join", "_leave")
            ):
                continue
            profile = row.get("user_profile") or row.get("bot_profile") or {}
            user = str(row.get("user") or "")
            known = profile.get("real_name") or names.get(user) or row.get("username") or user
            stamp = str(row.get("ts"))
            when = read_time(float(stamp)) if re.fullmatch(r"\d+(\.\d+)?", stamp) else None
            key = str(row.get("client_msg_id") or row.get("ts") or "")
            yield Piece(_read_slack(row, names), uuid=key, sender=str(known), created_at=when)

    yield make_talk(file, "Slack", f"#{channel} {file.stem}", read())


def _read_slack(row: Mapping[str, Any], names: Mapping[str, str]) -> str:
    """The text of a message or of its blocks, then attachments and names of files."""
    parts = [str(row.get("text") or "") or "".join(_list_block_texts(row.get("blocks")))]
    for each in list_dicts(row.get("attachments")):
        said = each.get("text") or each.get("fallback")
        shown = [each.get("title"), said, each.get("title_link")]
        parts += [str(text) for text in shown if text]
    for each in list_dicts(row.get("files")):
        named = each.get("title") or each.get("name")
        parts += [f"[{named}]"] if named else []
        parts += [str(each["plain_text"])] if each.get("plain_text") else []
    text = _write_plain("\n".join(filter(None, parts)), names)
    return text + EDITED if text and row.get("edited") else text


def _list_block_texts(value: Any) -> Iterator[str]:
    for each in value if isinstance(value, list) else [value]:
        if not isinstance(each, dict):
            continue
        if isinstance(each.get("text"), str):
            yield each["text"]
        elif each.get("type") == "link":
            yield str(each.get("url") or "")
        elif each.get("type") == "user":
            yield f"<@{each.get('user_id')}>"
        for name in ("text", "elements", "fields"):
            if isinstance(each.get(name), dict | list):
                yield from _list_block_texts(each[name])
        if each.get("type") in ("rich_text_section", "section", "rich_text_preformatted"):
            yield "\n"


def _read_people(data: bytes) -> Mapping[str, str]:
    try:
        rows = json.loads(decode_bytes(data) or "[]")
    except (ValueError, RecursionError):
        return {}
    names: dict[str, str] = {}
    for row in list_dicts(rows):
        if isinstance(row.get("id"), str):
            profile: Any = row.get("profile") if isinstance(row.get("profile"), dict) else {}
            named = profile.get("real_name") or row.get("real_name") or row.get("name")
            names[row["id"]] = str(named or row["id"])
    return names


def _write_plain(text: str, names: Mapping[str, str]) -> str:
    """Replace Slack's markup: @name, #channel, label (address)."""

    def show(found: re.Match[str]) -> str:
        mark, what, label = found.groups()
        if mark == "@":
            return f"@{label or names.get(what, what)}"
        if mark:
            return f"{'#' if mark == '#' else '@'}{label or what}"
        return f"{label} ({what})" if label and label not in what else what

    return html.unescape(_MARK.sub(show, text))


def make_telegram(file: File, row: Mapping[str, Any]) -> Iterator[Entry]:
    """A conversation of Telegram, or all of an account."""
    one = isinstance(row.get("messages"), list)
    chats = row.get("chats")
    listed = list_dicts(chats.get("list")) if isinstance(chats, dict) else []
    for chat in [*listed, *([row] if one else [])]:  # both, if an account's export is damaged
        rows = (_read_telegram(message) for message in list_dicts(chat.get("messages"))
                if message.get("type", "message") == "message")  # fmt: skip
        title = str(chat.get("name") or "Telegram")
        try:
            yield make_talk(file, "Telegram", title, rows, str(chat.get("id") or title))
        except RefusedFormat:
            if one and not listed:
                raise


def _read_telegram(message: Mapping[str, Any]) -> Piece:
    text = _join_telegram(message.get("text"))
    poll = message.get("poll")
    if isinstance(poll, dict):
        listed = list_dicts(poll.get("answers"))
        answers = [f"- {each.get('text')} ({each.get('voters', 0)})" for each in listed]
        text = "\n".join(filter(None, [text, f"Poll: {poll.get('question')}", *answers]))
    files = (str(message.get(name) or "") for name in ("file_name", "title", "file", "photo"))
    named = next((each.rsplit("/", 1)[-1] for each in files if each and each[0] != "("), "")
    known = message.get("contact_information") or message.get("location_information")
    others = [str(each) for each in known.values() if each] if isinstance(known, dict) else []
    parts = [text, f"[{named}]" if named else "", " ".join(others)]
    text = "\n".join(filter(None, parts))
    if text and message.get("forwarded_from"):
        text = f"Forwarded from {message['forwarded_from']}:\n{text}"
    text += EDITED if text and message.get("edited") else ""
    when = read_time(message.get("date_unixtime") or message.get("date"))
    key, sender = str(message.get("id") or ""), str(message.get("from") or "")
    return Piece(text, uuid=key, sender=sender, created_at=when)


def _join_telegram(text: Any) -> str:
    parts = []
    for each in text if isinstance(text, list) else [text]:
        shown = str(each.get("text") or "") if isinstance(each, dict) else str(each or "")
        target = each.get("href") if isinstance(each, dict) else None
        parts.append(f"[{shown}]({target})" if target else shown)
    return "".join(parts)


def is_telegram_page(data: bytes) -> bool:
    """Whether a page is part of an HTML export of Telegram."""
    return b'class="message default' in data and b'class="page_body chat_page"' in data


def parse_telegram_page(file: File) -> list[Entry]:
    """A page of a conversation that Telegram exported as HTML."""
    text = file.text()
    sender = ""

    def find(body: str, name: str) -> str:
        found = re.search(rf'(?s)<div class="{name}[^"]*">(.*?)</div>', body)
        return read_html(found[1])[1].strip() if found else ""

    def read() -> Iterator[Piece]:
        nonlocal sender
        for key, body in _TELEGRAM_PAGE.findall(text):
            when = re.search(
                r'title="(\d\d)\.(\d\d)\.(\d{4}) (\d\d:\d\d:\d\d)(?: UTC([+-]\d\d:\d\d))?', body
            )
            if when is None:
                continue  # a service message, such as a date
            day, month, year, hour, zone = when.groups()
            at = read_time(f"{year}-{month}-{day}T{hour}{zone or '+00:00'}")
            sender = find(body, "from_name") or sender
            named = find(body, "title bold")
            said = "\n".join(filter(None, [find(body, "text"), f"[{named}]" if named else ""]))
            yield Piece(said, uuid=key, sender=sender, created_at=at)

    title = re.search(r'(?s)<div class="text bold">(.*?)</div>', text)
    name = read_html(title[1])[1].strip() if title else ""
    return [make_talk(file, "Telegram", name or file.stem, read())]


def make_discord(file: File, row: Mapping[str, Any]) -> Iterator[Entry]:
    """A channel exported by DiscordChatExporter."""
    guild, channel = row.get("guild") or {}, row.get("channel") or {}

    def read() -> Iterator[Piece]:
        for message in list_dicts(row.get("messages")):
            author = message.get("author") or {}
            parts = [str(message.get("content") or "")]
            attached = list_dicts(message.get("attachments"))
            parts += [f"[{each.get('fileName')}]({each.get('url')})" for each in attached]
            for each in list_dicts(message.get("embeds")):
                shown = [each.get(name) for name in ("title", "description", "url")]
                shown += [field.get(name) for field in list_dicts(each.get("fields"))
                          for name in ("name", "value")]  # fmt: skip
                parts += [str(text) for text in shown if text]
            parts += [f"[{each.get('name')}]" for each in list_dicts(message.get("stickers"))]
            sender = str(author.get("nickname") or author.get("name") or "")
            text = "\n".join(filter(None, parts))
            text += EDITED if text and message.get("timestampEdited") else ""
            yield Piece(text, uuid=str(message.get("id") or ""), sender=sender,
                        created_at=read_time(message.get("timestamp")))  # fmt: skip

    named = [guild.get("name"), channel.get("category"), f"#{channel.get('name') or file.stem}"]
    title, key = " ".join(map(str, filter(None, named))), str(channel.get("id") or "")
    yield make_talk(file, "Discord", title, read(), key)


def make_messenger(file: File, row: Mapping[str, Any]) -> Iterator[Entry]:
    """A conversation of Messenger or Instagram, whose JSON has UTF-8 bytes as Latin-1."""

    def read() -> Iterator[Piece]:
        for message in reversed(list_dicts(row.get("messages"))):  # the newest is the first
            parts = [_mend(message.get("content"))]
            share = message.get("share") or {}
            parts += [_mend(share.get("share_text")), _mend(share.get("link"))]
            for name in ("photos", "videos", "files", "audio_files"):
                addresses = (each.get("uri", "") for each in list_dicts(message.get(name)))
                parts += [f"[{address.rsplit('/', 1)[-1]}]" for address in addresses]
            yield Piece("\n".join(filter(None, parts)), sender=_mend(message.get("sender_name")),
                        created_at=read_time(message.get("timestamp_ms")))  # fmt: skip

    path = str(row.get("thread_path") or "")
    names = ", ".join(_mend(each.get("name")) for each in list_dicts(row.get("participants")))
    yield make_talk(file, "Messenger", _mend(row.get("title")) or names or file.stem, read(), path)


def _mend(value: Any) -> str:
    text = str(value or "")
    try:
        return text.encode("latin-1").decode("utf-8")
    except UnicodeError:
        return text


def make_signal(file: File, rows: Sequence[Mapping[str, Any]]) -> Iterator[Entry]:
    """A conversation exported by signal-export or sigtop as JSON."""

    def read() -> Iterator[Piece]:
        for row in list_dicts(rows):
            sender = row.get("sender") or row.get("from") or row.get("source") or ""
            when = read_time(row.get("sent_at") or row.get("date") or row.get("timestamp"))
            attached = list_dicts(row.get("attachments"))
            files = [f"[{each.get('fileName') or each.get('name')}]" for each in attached]
            text = "\n".join(filter(None, [str(row.get("body") or ""), *files]))
            yield Piece(text, uuid=str(row.get("id") or ""), sender=str(sender), created_at=when)

    yield make_talk(file, "Signal", _name_signal(file), read())


def _name_signal(file: File) -> str:
    return file.folder if file.stem in _SIGNAL_STEMS and file.folder else file.stem


def is_signal(text: str) -> bool:
    """Whether a text is a conversation exported by signal-export."""
    lines = [line for line in text[:4_000].split("\n") if line.strip()][:5]
    return bool(lines) and bool(_SIGNAL_LINE.match(lines[0]))


def parse_signal(file: File) -> list[Entry]:
    """A conversation of Signal with lines `[time] sender: text`."""
    rows: list[Piece] = []
    for line in file.text().split("\n"):
        if found := _SIGNAL_LINE.match(line):
            rows.append(Piece(found[3], sender=found[2], created_at=read_time(found[1])))
        elif rows and line.strip():
            rows[-1] = replace(rows[-1], text=f"{rows[-1].text}\n{line}")
    return [make_talk(file, "Signal", _name_signal(file), iter(rows))]


# WhatsApp exports text, with dates in the order of the phone's locale.
_MEDIA = re.compile(
    r"(?i)^\u200e?<(?:media omitted|medien ausgeschlossen|medien weggelassen|médias omis|"
    r"multimedia omitido|media omessi|arquivo de mídia oculto)>$|"
    r"^\u200e?(?:image|video|audio|sticker|GIF|document|Contact card) omitted$"
)
_LINE = re.compile(r"[^\n]+")
_WHATSAPP = re.compile(
    r"\u200e?\[?(\d{1,4})[./-](\d{1,2})[./-](\d{2,4}),? +(\d{1,2})[:.](\d{2})(?:[:.](\d{2}))?"
    r"[ \u00a0\u202f]?([AaPp]\.?[ \u00a0\u202f]?[Mm]\.?)?\]?(?: -)? (?:([^:\n]{1,80}): )?(.*)"
)
_CHAT_NAME = re.compile(
    r"^(?:WhatsApp[ -]Chat (?:with|-|mit)|Chat de WhatsApp con|Discussion WhatsApp avec|"
    r"Conversa do WhatsApp com|Chat WhatsApp con) +"
)


def is_whatsapp(text: str) -> bool:
    """Whether a text begins with messages of WhatsApp."""
    lines = [line for line in text[:4_000].split("\n") if line.strip()][:5]
    return bool(lines) and sum(bool(_WHATSAPP.match(line)) for line in lines) * 2 > len(lines)


def parse_whatsapp(file: File) -> list[Entry]:
    """A conversation of WhatsApp; lines without a date continue the previous message."""
    messages: list[Piece] = []
    text = file.text()
    dated = filter(None, (_WHATSAPP.match(line[0]) for line in _LINE.finditer(text)))
    days = [next(rows) for _, rows in groupby(dated, key=lambda found: found.group(1, 2, 3))]
    month_first = _is_month_first(days)
    for line in _LINE.finditer(text):
        if not (found := _WHATSAPP.match(line[0])):
            if messages and line[0].strip():
                messages[-1] = replace(messages[-1], text=f"{messages[-1].text}\n{line[0]}")
        elif found[8] is not None:
            when = _read_whatsapp(found, month_first=month_first)
            said = "" if _MEDIA.match(found[9].strip()) else found[9].strip()
            messages.append(Piece(said, sender=found[8].strip(), created_at=when))
    title = _CHAT_NAME.sub("", file.stem)
    if title == "_chat":  # of iOS, in an archive or folder with the name
        people = dict.fromkeys(message.sender for message in messages)
        title = _CHAT_NAME.sub("", file.folder) or ", ".join(people)
    return [make_talk(file, "WhatsApp", title, iter(messages))]


def _is_month_first(rows: Sequence[re.Match[str]]) -> bool:
    """Whether the month comes first in these dates.

    A number above 12 is a day. Without one, the order is right under which times increase; if they
    do under both, twelve-hour times with slashes are American.
    """
    if any(int(found[2]) > 12 for found in rows):
        return True
    if any(12 < int(found[1]) <= 31 for found in rows) or not rows:
        return False
    times = [
        [when for found in rows if (when := _read_whatsapp(found, month_first=month_first))]
        for month_first in (False, True)
    ]
    backwards = [sum(b < a for a, b in pairwise(each)) for each in times]
    if backwards[0] != backwards[1]:
        return backwards[1] < backwards[0]
    spans = [max(each) - min(each) if each else 0 for each in times]
    is_american = bool(rows[0][7]) and "/" in rows[0][0][:12]
    return is_american if spans[0] == spans[1] or is_american else spans[1] < spans[0] / 4


def _read_whatsapp(found: re.Match[str], *, month_first: bool) -> int | None:
    first, second, third = int(found[1]), int(found[2]), int(found[3])
    day, month, year = (second, first, third) if month_first else (first, second, third)
    if first > 31:
        year, month, day = first, second, third
    year += 2000 if year < 100 else 0
    hour = int(found[4])
    if half := re.sub(r"[^apm]", "", (found[7] or "").lower()):
        hour = hour % 12 + (12 if half == "pm" else 0)
    try:
        when = datetime(year, month, day, hour, int(found[5]), int(found[6] or 0), tzinfo=UTC)
    except ValueError:
        return None
    return read_time(when)
