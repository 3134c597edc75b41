"""Places in entries: what a result points at is what is read, or it is an error."""

from __future__ import annotations

import pytest

from sonde.errors import EntryMissing, InvalidRequest
from sonde.tools.knowledge import chats_get, knowledge_get, media_get, media_search, notes_get

from .shelf import text_entry, work


@pytest.fixture
def sections(filled):
    """A document of three hundred short sections."""
    text = "".join(f"Section {n}: roots need air {n}, and so on. \n\n" for n in range(300))
    store = filled.knowledge.of("local")
    (key,) = store.put("media", [text_entry("media", "Garden", text, media_type="txt")])
    return filled, key


@pytest.mark.row("004-75", "004-82")
@pytest.mark.parametrize("mode", ["chunk", "chunk_with_siblings", "snippet"])
@pytest.mark.parametrize("parts", ["all", "chunk_uuid", "chunk_index"])
def test_the_passage_that_was_found_is_read_however_it_is_cut(sections, mode, parts):
    app, key = sections
    hit = media_search(app, "roots need air 250", work=work())["results"][0]
    loc = hit["loc"] if parts == "all" else {parts: hit["loc"][parts]}
    options = {"mode": mode, "loc": loc, "chunk_size_tokens": 40, "sibling_window": 1}
    options |= {"prefer_prechunked": False, "max_tokens": 150}
    if parts != "all":  # a chunk is larger than what is cut from it: the question says where
        options["query"] = "air 250"
    got = media_get(app, key, options, work=work())
    assert "roots need air 250" in got["content"]
    assert len(got["content"]) <= 600


@pytest.mark.row("004-81", "004-84")
@pytest.mark.parametrize(("source", "id_", "loc", "word"), [
    ("media", "1", {"chunk_uuid": "no-such-chunk"}, "chunk"),
    ("media", "1", {"chunk_index": 999}, "chunk"),
    ("chats", "c1", {"message_id": "no-such-message"}, "message"),
    ("chats", "c1", {"message_index": 999}, "message"),
])  # fmt: skip
def test_a_place_that_is_not_there_is_an_error(filled, source, id_, loc, word):
    options = {"mode": "chunk", "loc": loc}
    with pytest.raises(EntryMissing) as caught:
        knowledge_get(filled, id_, source, options, work=work())
    assert f"There is no {word} " in caught.value.user_message


@pytest.mark.row("004-81")
def test_a_place_in_another_entry_is_an_error(filled):
    for loc in ({"media_id": 2, "chunk_index": 0}, {"media_id": "99"}):
        with pytest.raises(InvalidRequest):
            media_get(filled, "1", {"mode": "chunk", "loc": loc}, work=work())
    with pytest.raises(InvalidRequest):
        chats_get(filled, "c1", retrieval={"loc": {"conversation_id": "c2"}}, work=work())
    own = {"mode": "chunk", "loc": {"media_id": 1, "chunk_index": 0}}
    assert media_get(filled, "1", own, work=work())["content"]


@pytest.mark.row("004-93", "004-112")
def test_an_entry_is_read_by_its_id_or_its_uri(filled):
    plain = notes_get(filled, "n2", work=work())
    assert notes_get(filled, "notes://n2", work=work()) == plain
    assert knowledge_get(filled, "notes://n2", work=work())["content"] == plain["content"]
    chat = knowledge_get(filled, "chats://c1#m2", retrieval={"mode": "full"}, work=work())
    assert chat["content"]["total_messages"] == 6
