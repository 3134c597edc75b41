"""Notes asked for in other words: two stages of vectors, and what an answer says of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.loopback import running

from sonde.app import App
from sonde.embedding.base import load_provider
from sonde.embedding.nearness import find_nearness, measure_spread
from sonde.embedding.server import EmbeddingServer
from sonde.knowledge.editing import count_knowledge, import_knowledge
from sonde.knowledge.ranking import KnowledgeSearch, read_knowledge_query
from sonde.knowledge.vectors import KnowledgeModels, embed_missing, refine_knowledge
from sonde.ranking.evidence import NEAR_ENOUGH, READ_TEXTS, Evidence, weigh_evidence
from sonde.stores.knowledge.sqlite import SqliteKnowledge
from sonde.tools.code import search_docs
from sonde.tools.index import create_index
from sonde.tools.knowledge import knowledge_search
from sonde.wiring import build_app

from .shelf import text_entry, work

NOTES = {
    "bread": "Sourdough: feed the starter at 8, fold four times, bake covered at 240 C.",
    "knee": "Physiotherapy for the knee: three sets of wall sits, twice a day, ice afterwards.",
    "train": "Night train to Vienna leaves from platform 9, sleeper car 263.",
    "tax": "Tax return is due at the end of July, Ms Keller needs the receipts.",
    "roof": "Sold the fund shares to pay for the roof.",
    "garlic": "Plant garlic in October, harvest when half of the leaves are brown.",
}
QUESTIONS = {
    "exercises against pain in my leg joint": "knee",
    "when do we travel to Austria's capital by rail": "train",
    "deadline of the declaration for the revenue office": "tax",
    "making dough for a loaf": "bread",
}


@pytest.fixture(scope="module")
def deep_app(tmp_path_factory: pytest.TempPathFactory) -> Iterator[App]:
    """A server whose deep model has read every note."""
    from sonde.settings import load_settings

    folder = tmp_path_factory.mktemp("deep")
    settings = load_settings({}, home=folder / "home", assume_yes=True, embedding="auto")
    app = build_app(settings, start=folder)
    store, models = app.knowledge.of("local"), app.knowledge.models
    store.put("notes", [text_entry("notes", "", text, id=name) for name, text in NOTES.items()])
    assert models.deep
    assert refine_knowledge(models, models.deep, store, work()) == len(NOTES)
    yield app
    app.close()


def ask(app: App, query: str, **options: Any) -> dict[str, Any]:
    return dict(knowledge_search(app, query, dedupe=False, work=work(), **options))


def first(answer: dict[str, Any]) -> str:
    return str(answer["results"][0]["id"]) if answer["results"] else ""


@pytest.mark.parametrize("question", QUESTIONS)
def test_a_question_that_shares_no_word_finds_its_note(deep_app: App, question: str) -> None:
    answer = ask(deep_app, question)
    assert first(answer) == QUESTIONS[question]
    assert answer["results"][0]["score_type"] == "fts+vector"
    assert "note" not in answer


DIARY = [
    "Bought paint for the fence and two brushes.",
    "The cat slept on the piano all afternoon.",
    "Called grandmother, she told the story of the flood again.",
    "Watered the tomatoes, the first ones are red.",
    "The dentist wants to see me in March because of the crown.",
    "Read forty pages of the novel about the lighthouse.",
    "Lent the ladder to our neighbours until Sunday.",
]


@pytest.mark.parametrize(
    ("question", "line"),
    [("appointment for my teeth", 4), ("who has borrowed our steps", 6), ("garden vegetables", 3)],
)
@pytest.mark.parametrize("ending", ["\n", " "])
def test_a_snippet_shows_the_sentence_that_answers_in_other_words(
    open_app: Callable[..., App], question: str, line: int, ending: str
) -> None:
    app, text = open_app(embedding="static"), ending.join(DIARY)
    app.knowledge.of("local").put("notes", [text_entry("notes", "", text, id="diary")])
    (row,) = ask(app, question, snippet_length=100)["results"]
    assert DIARY[line] in row["snippet"]
    assert row["loc"]["approx_offset"] == text.index(DIARY[line])


def test_a_snippet_shows_the_words_rather_than_what_is_like_them(
    open_app: Callable[..., App],
) -> None:
    seat = "Seat 263 in car 9 of the night sleeper, with our blue bags and umbrellas."
    text = f"Numbers 262 and 264, numbers 8 and 10.\n{seat}"
    app = open_app(embedding="static")
    app.knowledge.of("local").put("notes", [text_entry("notes", "", text, id="numbers")])
    (row,) = ask(app, "263 9", snippet_length=80)["results"]
    assert seat in row["snippet"]


def test_a_long_note_is_shown_by_the_piece_that_answers_not_by_a_word_shared_by_chance(
    open_app: Callable[..., App],
) -> None:
    app, text = open_app(embedding="static"), " ".join([DIARY[1], *["Rain."] * 250, DIARY[4]])
    entry = text_entry("notes", "", text, id="diary")
    assert [DIARY[4] in piece.text for piece in entry.pieces] == [False, True]
    app.knowledge.of("local").put("notes", [entry])
    (row,) = ask(app, "appointment for my teeth in the afternoon", snippet_length=100)["results"]
    assert DIARY[4] in row["snippet"]
    (row,) = ask(app, "the cat on the piano", snippet_length=100)["results"]
    assert DIARY[1] in row["snippet"]


def test_of_a_sentence_too_long_to_be_shown_the_snippet_shows_the_words(
    open_app: Callable[..., App],
) -> None:
    app, text = open_app(embedding="static"), " and ".join(each.rstrip(".") for each in DIARY)
    app.knowledge.of("local").put("notes", [text_entry("notes", "", text, id="diary")])
    (row,) = ask(app, "piano", snippet_length=60)["results"]
    assert "piano" in row["snippet"]


def test_a_question_about_nothing_there_finds_nothing(deep_app: App) -> None:
    assert ask(deep_app, "OAuth2 password bearer")["results"] == []


def test_words_of_the_text_still_lead(deep_app: App) -> None:
    assert first(ask(deep_app, "platform 9")) == "train"
    assert first(ask(deep_app, "Keller receipts")) == "tax"


def test_an_answer_says_what_the_deep_model_has_not_read(
    open_app: Callable[..., App], tmp_path: Path
) -> None:
    app = open_app(embedding="auto")
    store = app.knowledge.of("local")
    store.put("notes", [text_entry("notes", "", text, id=name) for name, text in NOTES.items()])
    assert "has read 0 of 6 texts" in ask(app, "night train")["note"]
    counts = count_knowledge(app.knowledge, work=work())
    assert (counts["pieces"], counts["deep_vectors"]) == (6, 0)


def test_a_server_reads_what_is_new_in_the_background(
    open_app: Callable[..., App], tmp_path: Path
) -> None:
    folder = tmp_path / "vault"
    folder.mkdir()
    (folder / "knee.md").write_text(NOTES["knee"])
    (folder / "tax.md").write_text(NOTES["tax"])
    app = open_app(embedding="auto", stays=True)
    import_knowledge(app.knowledge, str(folder), work=work())
    job = app.workspace.jobs.find("refine:knowledge:local")
    assert job
    job.join(work())
    assert app.knowledge.models.deep
    assert app.knowledge.of("local").coverage("notes", app.knowledge.models.deep.name) == (2, 2)
    assert ask(app, "exercises against pain in my leg joint")["results"][0]["title"] == "knee"


def test_a_server_lets_the_deep_model_read_the_best_notes_at_once(tmp_path: Path) -> None:
    store = SqliteKnowledge(tmp_path)
    others = {f"bus-{at}": f"Bus {at} leaves from the airport every hour" for at in range(40)}
    notes = (NOTES | others).items()
    store.put("notes", [text_entry("notes", "", text, id=name) for name, text in notes])
    deep = load_provider("deep")
    query = read_knowledge_query("when do we travel to Austria's capital by rail")
    static = load_provider("everyday")
    for first, stays, read in ((static, False, 0), (None, True, 0), (static, True, READ_TEXTS)):
        models = KnowledgeModels(first, deep, lambda _check: deep, in_background=stays)
        search = KnowledgeSearch(store, query, models)
        found = search.rank("notes")
        assert store.coverage("notes", deep.name)[0] == read
    assert found[0].entry.id == "train"
    replace(search, sources=4).rank("notes")
    assert store.coverage("notes", deep.name)[0] == read + read // 4
    store.close()


def test_notes_and_documents_are_ranked_by_a_service_that_is_named(tmp_path: Path) -> None:
    """By the table at once and by the service afterwards, as by the bundled deep model."""
    from sonde.settings import load_settings

    folder = tmp_path / "project"
    (folder / ".git").mkdir(parents=True)
    for name, text in NOTES.items():
        (folder / f"{name}.md").write_text(text)
    with running(EmbeddingServer(load_provider("deep"), 0)) as server:
        service = {"embedding": "http", "embedding_endpoint": server.address}
        settings = load_settings({}, home=tmp_path / "home", assume_yes=True, **service)
        app = build_app(settings, start=folder)
        import_knowledge(app.knowledge, str(folder), work=work())
        models, store = app.knowledge.models, app.knowledge.of("local")
        assert models.static
        assert models.deep
        assert store.coverage("notes", models.static.name) == (len(NOTES), len(NOTES))
        assert refine_knowledge(models, models.deep, store, work()) == len(NOTES)
        create_index(app, work=work())
        for question, name in QUESTIONS.items():
            assert ask(app, question)["results"][0]["title"] == name
            found: Any = search_docs(app, question, work=work())
            assert found["results"][0]["path"] == f"{name}.md"
        app.close()


def test_damaged_deep_vectors_are_named_in_the_answer(deep_app: App) -> None:
    (path,) = [
        each
        for each in (deep_app.workspace.home / "knowledge" / "local").rglob("notes-*.i8")
        if each.stat().st_size == len(NOTES) * (384 + 4)
    ]
    data = bytearray(path.read_bytes())
    data[100] ^= 0x20
    path.write_bytes(bytes(data))
    note = ask(deep_app, "when do we travel to Austria's capital by rail")["note"]
    assert "1 vectors of notes were damaged" in note
    assert "has read 5 of 6 texts" in note
    models, store = deep_app.knowledge.models, deep_app.knowledge.of("local")
    assert models.deep
    assert refine_knowledge(models, models.deep, store, work()) == 1
    assert "note" not in ask(deep_app, "when do we travel to Austria's capital by rail")


@pytest.mark.parametrize(
    ("question", "language"),
    [
        ("wo ist der Schlüssel für das Auto", "German"),
        ("où est la clé de la voiture", "French"),
        ("¿dónde está la llave del coche?", "Spanish"),
        ("車の鍵はどこですか", "Japanese"),
        ("汽车钥匙在哪里", "Chinese"),
    ],
)
def test_an_answer_says_which_language_it_does_not_understand(
    deep_app: App, question: str, language: str
) -> None:
    assert f"seems to be in {language}" in ask(deep_app, question)["note"]


def test_nearness_means_the_same_in_a_model_that_is_not_bundled() -> None:
    static = load_provider("static")

    class Stretched:
        name, dimensions, is_loaded = "stretched", 257, True

        def embed(self, texts: list[str], mode: Any) -> Any:
            rows = static.embed(texts, mode)
            return np.hstack([rows, np.ones((len(rows), 1), np.float32)]) / np.sqrt(2)

        def close(self) -> None:
            pass

    other: Any = Stretched()
    measure_spread(other)
    alike = find_nearness(static.name, 0.4)
    assert find_nearness(other.name, (0.4 + 1) / 2) == pytest.approx(alike, abs=0.2)
    assert find_nearness(other.name, 0.5 + 0.03 / 2) < NEAR_ENOUGH


def test_what_is_weighed_by_several_stages_is_one_scale() -> None:
    read = Evidence(1.0, 1.0, static=4.0, deep=4.0)
    unread = Evidence(1.0, 1.0, static=4.0)
    unrelated = Evidence(0.0, 1.0, static=0.0, deep=0.0)
    scores = weigh_evidence([read, unread, unrelated, Evidence(0.5, 1.0)])
    assert scores[2] == 0.0
    assert all(0 < score < 1 for score in (scores[0], scores[1], scores[3]))


@pytest.mark.parametrize(
    ("title", "counts"), [("note-012", False), ("Untitled 3", False), ("Rail", True)]
)
def test_a_title_that_says_nothing_does_not_change_how_near_a_note_is(
    tmp_path: Path, title: str, *, counts: bool
) -> None:
    model = load_provider("everyday")
    store = SqliteKnowledge(tmp_path)
    named = [text_entry("notes", each, NOTES["train"], id=each or "none") for each in ("", title)]
    store.put("notes", named)
    embed_missing(store, "notes", model)
    question = read_knowledge_query("when do we travel by rail")
    found = KnowledgeSearch(store, question, KnowledgeModels(model)).gather("notes")
    bare, titled = sorted(found, key=lambda pair: pair[0].entry.id != "none")
    assert (bare[1].static != titled[1].static) == counts
    store.close()
