"""Exports of assistants: ChatGPT, Claude, Gemini."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from sonde.knowledge.formats import LEFT_OUT, File, list_dicts, make_chat, make_entry
from sonde.knowledge.formats.pages import read_html
from sonde.knowledge.formats.transcripts import TITLE_CHARS, read_content
from sonde.knowledge.identity import DERIVED
from sonde.stores.knowledge.base import Entry, Piece
from sonde.text.formats import read_time

_SAID = ("title", "url", "text", "result", "user_profile", "user_instructions")
"""Fields with text in a message of ChatGPT: quotes, output of tools, custom instructions."""
_MADE = ("title", "description", "path", "content", "file_text", "new_str", "query", "code")
"""Fields with text in a tool call of Claude."""


class MessageNode(NamedTuple):
    """A node of a conversation: its parent, and its message if it has one."""

    parent: str
    said: tuple[Piece, ...]


def make_branches(
    title: str, nodes: Mapping[str, MessageNode], shown: str, file: File, **facts: Any
) -> Iterator[Entry]:
    """The branch that ends in the leaf `shown`, then the other branches from their forks on."""
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
            known.pop(LEFT_OUT, None)  # counted with the first
            own = facts | {"path": f"{key}/{leaf}", "facts": known}
            yield make_chat(f"{title} (branch {number})", said, file, **own)


def _climb(nodes: Mapping[str, MessageNode], leaf: str, taken: set[str]) -> tuple[list[Piece], str]:
    """The messages from a leaf up to the first taken node, and that node."""
    said: list[Piece] = []
    while leaf in nodes and leaf not in taken:
        taken.add(leaf)
        said += reversed(nodes[leaf].said)
        leaf = nodes[leaf].parent
    return said[::-1], leaf


def is_gemini(row: Any) -> bool:
    """Whether a record of Google's activity log is of Gemini."""
    return isinstance(row, dict) and str(row.get("header", "")) in ("Gemini Apps", "Bard")


def make_chatgpt(file: File, row: Mapping[str, Any]) -> Iterator[Entry]:
    """A conversation with ChatGPT: the branch shown last, then the others."""
    nodes: dict[str, MessageNode] = {}
    lost: Counter[str] = Counter()
    for key, node in (row.get("mapping") or {}).items():
        if isinstance(node, dict):
            said = tuple(_read_chatgpt(key, node.get("message"), lost))
            nodes[str(key)] = MessageNode(str(node.get("parent") or ""), said)
    key = str(row.get("conversation_id") or row.get("id") or row.get("create_time") or "")
    title, shown = str(row.get("title") or "ChatGPT"), str(row.get("current_node") or "")
    created, modified = read_time(row.get("create_time")), read_time(row.get("update_time"))
    times = {"created_at": created, "last_modified": modified}
    facts = {"app": "ChatGPT", LEFT_OUT: dict(+lost)}
    yield from make_branches(title, nodes, shown, file, path=key, facts=facts, **times)


def _read_chatgpt(key: str, message: Any, lost: Counter[str]) -> Iterator[Piece]:
    if not isinstance(message, dict):
        return
    content = message.get("content") or {}
    texts = [_read_chatgpt_part(part, lost) for part in content.get("parts") or []]
    texts += [str(content[name]) for name in _SAID if isinstance(content.get(name), str)]
    for thought in list_dicts(content.get("thoughts")):
        texts += [str(thought.get("summary") or ""), str(thought.get("content") or "")]
    given = message.get("metadata") or {}
    texts += [f"[{each['name']}]" for each in list_dicts(given.get("attachments"))
              if each.get("name")]  # fmt: skip
    text = "\n".join(filter(None, texts))
    author = message.get("author") or {}
    hidden = given.get("is_visually_hidden_from_conversation")
    if text.strip() and not hidden and author.get("role") != "system":
        sender = str(author.get("name") or author.get("role") or "")
        yield Piece(text, uuid=key, sender=sender, created_at=read_time(message.get("create_time")))


def _read_chatgpt_part(part: Any, lost: Counter[str]) -> str:
    """The text of a part of a message; counts pictures and recordings."""
    if isinstance(part, str):
        return part
    kind = str(part.get("content_type") or "") if isinstance(part, dict) else ""
    if kind == "audio_transcription":
        return str(part.get("text") or "")
    if "image" in kind:
        lost["picture"] += 1
    elif "audio" in kind or "video" in kind:
        lost["recording"] += "audio_transcription" not in kind and "asset" not in kind
    return str(part.get("text") or "") if kind else ""


def make_claude(file: File, row: Mapping[str, Any]) -> Iterator[Entry]:
    """A conversation with Claude, branch by branch."""
    nodes: dict[str, MessageNode] = {}
    lost: Counter[str] = Counter()
    last = ""
    for at, message in enumerate(list_dicts(row["chat_messages"])):
        text = _read_claude(message, lost)
        when = read_time(message.get("created_at"))
        key, sender = str(message.get("uuid") or ""), str(message.get("sender") or "")
        said = (Piece(text, uuid=key, sender=sender, created_at=when),) if text.strip() else ()
        lost["message without text"] += not said
        # in older exports, a message answers the one before it
        parent = str(message.get("parent_message_uuid") or last)
        last = key or f"message {at}"
        nodes[last] = MessageNode(parent, said)
    title, shown = str(row.get("name") or "Claude"), row.get("current_leaf_message_uuid") or last
    created, modified = read_time(row.get("created_at")), read_time(row.get("updated_at"))
    known = {"path": str(row.get("uuid") or ""), "created_at": created, "last_modified": modified}
    facts = {"app": "Claude", LEFT_OUT: dict(+lost)}
    yield from make_branches(title, nodes, str(shown), file, facts=facts, **known)


def _read_claude(message: Mapping[str, Any], lost: Counter[str]) -> str:
    """The text of a message, its artifacts and attachments, and the names of its files."""
    texts: list[str] = []
    for part in list_dicts(message.get("content")):
        if part.get("type") in ("text", "thinking"):
            texts.append(str(part.get(part["type"]) or ""))
        elif part.get("type") == "tool_use" and isinstance(part.get("input"), dict):
            given = part["input"]
            texts += [given[name] for name in _MADE if isinstance(given.get(name), str)]
        elif part.get("type") == "tool_result":
            found = (each.get(name) for each in list_dicts(part.get("content"))
                     for name in ("title", "url", "text"))  # fmt: skip
            texts += [text for text in found if isinstance(text, str) and text != "OK"]
        elif part.get("type") == "voice_note":
            texts.append(str(part.get("text") or part.get("transcript") or ""))
    text = "\n".join(filter(None, texts)) or str(message.get("text") or "")
    parts = [text]
    for each in list_dicts(message.get("attachments")):
        named, inside = each.get("file_name"), str(each.get("extracted_content") or "")
        parts += [f"[{named}]" if named else "", inside]
        lost["attached file"] += not inside
    parts += [f"[{each['file_name']}]" for each in list_dicts(message.get("files"))
              if each.get("file_name")]  # fmt: skip
    return "\n\n".join(filter(None, parts))


def make_claude_project(file: File, row: Mapping[str, Any]) -> Iterator[Entry]:
    """A project of Claude as notes: its instructions, and each document."""
    name, key = str(row.get("name") or "Claude"), str(row.get("uuid") or "")
    times = {"created_at": read_time(row.get("created_at")) or file.modified,
             "last_modified": read_time(row.get("updated_at")) or file.modified}  # fmt: skip
    facts = {"app": "Claude", "project": name}
    parts = filter(None, [row.get("description"), row.get("prompt_template")])
    if text := "\n\n".join(map(str, parts)):
        yield make_entry("notes", name, text, file, path=key, facts=facts, **times)
    for doc in list_dicts(row.get("docs")):
        if doc.get("content"):
            title, text = str(doc.get("filename") or name), str(doc["content"])
            own = str(doc.get("uuid") or f"{key}/{title}")
            yield make_entry("notes", title, text, file, path=own, facts=facts, **times)


def make_claude_memory(file: File, row: Mapping[str, Any]) -> Iterator[Entry]:
    """The memories of Claude as notes, of the user and of each project."""
    own = str(row.get("account_uuid") or "")
    rows = {"": row.get("conversations_memory"), **(row.get("project_memories") or {})}
    for key, text in rows.items():
        if isinstance(text, str) and text.strip():
            yield make_entry("notes", "Memories of Claude", text, file, path=f"{own}/{key}",
                             facts={"app": "Claude"})  # fmt: skip


def make_studio(file: File, row: Mapping[str, Any]) -> Iterator[Entry]:
    """A conversation in AI Studio."""
    messages = [
        Piece(str(chunk["text"]), sender=str(chunk.get("role") or ""))
        for chunk in list_dicts(row["chunkedPrompt"].get("chunks"))
        if chunk.get("text") and not chunk.get("isThought")
    ]
    yield make_chat(file.stem, messages, file, facts={"app": "Gemini"})


def make_messages(file: File, row: Mapping[str, Any]) -> Iterator[Entry]:
    """A conversation in the format of model APIs: messages with role and content."""
    messages = [
        Piece(text, sender=str(each["role"]), created_at=read_time(each.get("created_at")))
        for each in list_dicts(row.get("messages"))
        if each.get("role") and (text := read_content(each.get("content"))).strip()
    ]
    first = next((each.text for each in messages if each.sender == "user"), file.stem)
    title = str(row.get("title") or " ".join(first.split())[:TITLE_CHARS])
    key = str(row.get("id") or "") or DERIVED + title
    yield make_chat(title, messages, file, path=key)


def make_gemini(file: File, row: Mapping[str, Any]) -> Iterator[Entry]:
    """A record of the activity log: a prompt and its answers."""
    if not is_gemini(row):
        return
    when = read_time(row.get("time"))
    asked = re.sub(r"^Prompted\s+", "", str(row.get("title") or ""))
    messages = [Piece(asked, sender="user", created_at=when)] if asked else []
    pages = (str(item.get("html") or "") for item in list_dicts(row.get("safeHtmlItem")))
    answers = filter(None, (read_html(page)[1] for page in pages))
    messages += [Piece(text, sender="Gemini", created_at=when) for text in answers]
    key = str(row.get("time") or "")
    yield make_chat(asked[:80] or "Gemini", messages, file, path=key, facts={"app": "Gemini"})
