"""Who said what in a chat, and what a note is called, as its file or its app says."""

from __future__ import annotations

import json

import pytest

from sonde.knowledge.formats import File
from sonde.knowledge.parsing import parse_file


def test_a_chat_of_ai_studio_keeps_its_senders_and_leaves_thoughts_out():
    chunks = [
        {"text": "Why is the sea salty?", "role": "user"},
        {"text": "The user asks about salt.", "role": "model", "isThought": True},
        {"text": "Rivers carry salt into it.", "role": "model"},
        {"text": "A line without a sender."},
    ]
    data = json.dumps({"chunkedPrompt": {"chunks": chunks}}).encode()
    (chat,) = parse_file(File("Salt.json", data, 1))
    assert [(piece.sender, piece.text) for piece in chat.pieces] == [
        ("user", "Why is the sea salty?"),
        ("model", "Rivers carry salt into it."),
        ("", "A line without a sender."),
    ]
    assert (chat.title, chat.facts["app"]) == ("Salt", "Gemini")


@pytest.mark.parametrize(("named", "title"), [({"name": "Friends"}, "Friends"), ({}, "Telegram")])
def test_a_chat_of_telegram_has_its_own_name_or_that_of_the_app(named, title):
    messages = [{"id": 1, "type": "message", "from": "Ann", "text": "See you at sea."}]
    data = json.dumps({"type": "personal_chat", "id": 7, "messages": messages, **named}).encode()
    (chat,) = parse_file(File("result.json", data, 1))
    assert (chat.title, chat.pieces[0].sender) == (title, "Ann")


@pytest.mark.parametrize(
    ("path", "title"),
    [
        ("graph/pages/Trips___Sea%3A north.md", "Trips/Sea: north"),
        ("journals/2024_05_01___evening.md", "2024_05_01/evening"),
        ("notes/Trips___Sea%3A north.md", "Trips___Sea%3A north"),
    ],
)
def test_slashes_in_titles_are_read_where_logseq_writes_them(path, title):
    (note,) = parse_file(File(path, b"We saw a walrus.\n", 1))
    assert note.title == title
