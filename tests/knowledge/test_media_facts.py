"""What documents and transcripts say of themselves: address, kind, tags and times."""

from __future__ import annotations

import json
from typing import Any

import pytest

from sonde.knowledge.editing import import_knowledge
from sonde.knowledge.formats import File
from sonde.knowledge.parsing import parse_file
from sonde.text.formats import read_time
from sonde.tools.knowledge import knowledge_get, knowledge_search, media_search

from .shelf import work

ARTICLE = """<!doctype html><html><head><title>Walruses</title>
<link rel="canonical" href="https://sea.example/walrus">
<meta property="og:type" content="article"><meta name="keywords" content="sea, ice">
<meta property="article:published_time" content="2024-05-01T10:00:00Z">
</head><body><p>A walrus on the ice.</p></body></html>"""
FRONT = """---
title: Walruses
url: https://sea.example/walrus
type: article
tags: [sea, ice]
date: 2024-05-01T10:00:00Z
---
A walrus on the ice.
"""
MOMENT = read_time("2024-05-01T10:00:00Z")


def parse(name: str, text: str) -> Any:
    (entry,) = parse_file(File(name, text.encode(), 5), "media")
    return entry


@pytest.mark.row("004-49", "004-50", "004-45", "004-48")
@pytest.mark.parametrize(("name", "text"), [("a.html", ARTICLE), ("a.md", FRONT)])
def test_a_document_says_where_it_is_from_and_what_it_is(name, text):
    entry = parse(name, text)
    assert (entry.title, entry.url) == ("Walruses", "https://sea.example/walrus")
    assert (entry.media_type, entry.tags) == ("article", ("sea", "ice"))
    assert entry.created_at == MOMENT
    assert entry.last_modified == 5


@pytest.mark.row("004-50")
@pytest.mark.parametrize("head", [
    "<!-- saved from url=(0026)https://sea.example/walrus -->\n",
    "<!--\n Page saved with SingleFile \n url: https://sea.example/walrus \n saved date: x\n-->",
])  # fmt: skip
def test_a_page_that_a_browser_saved_keeps_its_address(head):
    entry = parse("a.html", f"<!doctype html>{head}<p>A walrus</p>")
    assert (entry.url, entry.media_type) == ("https://sea.example/walrus", "html")


@pytest.mark.row("004-50")
def test_only_addresses_of_the_web_are_taken_for_one():
    entry = parse("a.md", "---\nurl: javascript:alert(1)\nsource: my shelf\n---\ntext\n")
    assert (entry.url, entry.media_type) == ("", "markdown")


@pytest.mark.row("004-50")
@pytest.mark.parametrize("odd", [{"a": 1}, [1, 2], 10**400, 1e308, True, "x" * 10_000, -1])
def test_odd_values_are_no_facts(odd):
    names = ("url", "type", "media_type", "date", "updated", "title")
    said = dict.fromkeys(names, odd) | {"segments": [{"start": 0, "text": "Hello walrus"}]}
    entry = parse("talk.json", json.dumps(said))
    assert (entry.url, entry.created_at, entry.last_modified) == ("", 5, 5)
    assert len(entry.media_type) <= 40


def test_a_date_without_dashes_is_a_date():
    assert parse("a.md", "---\ndate: 20240501\n---\ntext\n").created_at == read_time("2024-05-01")


CUES = "00:00.000 --> 00:01.000\nHello walrus\n"


@pytest.mark.row("004-49", "004-50")
@pytest.mark.parametrize(("name", "text", "kind", "url"), [
    ("talk.vtt", f"WEBVTT\n\n{CUES}", "video", ""),
    ("talk.mp3.vtt", f"WEBVTT\n\n{CUES}", "audio", ""),
    ("podcasts/1.vtt", f"WEBVTT\n\n{CUES}", "podcast", ""),
    ("talk.vtt", f"WEBVTT\n\nNOTE url: https://t.example/1\n\nNOTE type: podcast\n\n{CUES}",
     "podcast", "https://t.example/1"),
    ("talk.json", ('{"webpage_url": "https://t.example/2", "media_type": "lecture", '
     '"segments": [{"start": 0, "end": 1, "text": "Hello walrus"}]}'),
     "lecture", "https://t.example/2"),
])  # fmt: skip
def test_a_transcript_says_what_it_is_of(name, text, kind, url):
    entry = parse(name, text)
    assert (entry.media_type, entry.url) == (kind, url)


@pytest.mark.row("004-50", "004-94", "004-95")
def test_what_is_imported_is_found_by_kind_and_date_with_its_address(app, tmp_path):
    (tmp_path / "walrus.html").write_text(ARTICLE)
    import_knowledge(app.knowledge, str(tmp_path / "walrus.html"), work=work())
    found = media_search(
        app, "walrus", media_types=("article",), date_from="2024-05-01", date_to="2024-05-01",
        work=work(),
    )["results"]  # fmt: skip
    assert [row["url"] for row in found] == ["https://sea.example/walrus"]


@pytest.mark.parametrize("query", ["Trevorrow", "Skagerrak", "https://sea.example/straits"])
def test_a_note_is_found_by_its_author_its_other_names_and_its_address(app, tmp_path, query):
    front = (
        "---\nauthor: Anna Trevorrow\naliases: [Skagerrak, The sound]\n"
        "source: https://sea.example/straits\n---\n"
    )
    (tmp_path / "strait.md").write_text(f"{front}A strait between two coasts.\n")
    (tmp_path / "other.md").write_text("A walrus on the ice.\n")
    import_knowledge(app.knowledge, str(tmp_path), work=work())
    first = knowledge_search(app, query, work=work())["results"][0]
    assert first["title"] == "strait"
    meta = knowledge_get(app, first["uri"], work=work())["meta"]
    assert (meta["author"], meta["url"]) == ("Anna Trevorrow", "https://sea.example/straits")
