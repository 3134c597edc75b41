"""The same text from several files is one result that names the others."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import pytest
from docx import Document
from tests.contracts.postgres import needs_postgres, run_postgres

from sonde.app import App
from sonde.errors import InvalidRequest
from sonde.knowledge.editing import import_knowledge
from sonde.runtime.work import Work
from sonde.settings import load_settings
from sonde.tools.knowledge import knowledge_get, knowledge_search
from sonde.tools.research import fetch, search
from sonde.types import Caller
from sonde.wiring import build_app

from .shelf import text_entry, work
from .test_fidelity import MADE

HEADING = "Otters at sea"
SLEEP = "Otters don't sleep alone: they hold hands, so that no current parts them."
LATER = [f"Day {day}. The raft of {day + 7} drifts by the kelp, well fed." for day in range(120)]


def write_formats(folder: Path, paragraphs: list[str]) -> None:
    """One text as Markdown, HTML and DOCX, each in its own spelling."""
    folder.mkdir(parents=True)
    body = "\n\n".join(paragraphs).replace("hold hands", "hold *hands*")
    (folder / "otters.md").write_text(f"# {HEADING}\n\n{body}\n")
    rows = "".join(f"<p>{each.replace(chr(39), '’')}</p>\n" for each in paragraphs)
    (folder / "page.html").write_text(
        f"<html><head><title>{HEADING}</title></head><body><h1>{HEADING}</h1>{rows}</body></html>"
    )
    letter = Document()
    letter.add_heading(HEADING, 1)
    for each in paragraphs:
        letter.add_paragraph(each)
    letter.save(str(folder / "letter.docx"))


def bring_in(app: App, folder: Path, user: str = "local") -> None:
    import_knowledge(app.knowledge, str(folder), work=Work(caller=Caller(user)))


def find(app: App, query: str, user: str = "local", **more: Any) -> Any:
    return knowledge_search(app, query, max_tokens=20_000, work=work(user), **more)


@pytest.mark.parametrize("embedding", ["none", "static"])
@pytest.mark.parametrize("paragraphs", [[SLEEP], [SLEEP, *LATER]], ids=["short", "long"])
def test_one_text_in_three_formats_is_one_result_that_names_the_other_two(
    open_app: Callable[..., App], tmp_path: Path, embedding: str, paragraphs: list[str]
) -> None:
    app = open_app(embedding=embedding)
    write_formats(tmp_path / "in", paragraphs)
    bring_in(app, tmp_path / "in")
    asked = "otters hold hands" if len(paragraphs) == 1 else "raft of 90 drifts by"
    answer = find(app, asked)
    (row,) = answer["results"]
    assert answer["total_estimated"] == 1
    assert row["duplicates_total"] == 2
    entries = [(row["uri"], None), *((each["uri"], each["file"]) for each in row["duplicates"])]
    assert len({uri for uri, _ in entries}) == 3
    assert {file for _, file in entries[1:]} < {"otters.md", "page.html", "letter.docx"}
    for uri, _ in entries:
        assert (
            "parts them" in knowledge_get(app, uri, None, {"mode": "full"}, work=work())["content"]
        )
    everything = search(app, asked, work=work())
    assert [each["duplicates_total"] for each in everything["results"]] == [2]
    compact = search(app, asked, mode="compact", work=work())
    assert len(compact["results"][0]["metadata"]["duplicates"]) == 2


def test_a_text_as_programs_write_it_in_all_their_formats_is_one_result(
    app: App, tmp_path: Path
) -> None:
    """Footnotes stand elsewhere, lists are numbered or not, titles and page numbers are added."""
    for text in ("rich", "prose", "chinese"):
        names = [name for name in MADE.namelist() if name.startswith(f"{text}.")]
        MADE.extractall(tmp_path / text, names)
        bring_in(app, tmp_path / text)
        query = {"rich": "Port Ellery", "prose": "Wattenmeer", "chinese": "灯塔"}[text]
        rows = [row for row in find(app, query)["results"] if row.get("duplicates")]
        assert [row["duplicates_total"] for row in rows] == [len(names) - 1], text


@pytest.mark.parametrize(
    ("one", "two"),
    [
        ("Otter 12 weighs 5 kilos. " * 9, "Otter 12 weighs 6 kilos. " * 9),
        ("The otter sleeps with Anna. " * 9, "The otter sleeps with Bob. " * 9),
        (" ".join(LATER), " ".join(LATER[:-4])),
    ],
    ids=["number", "word", "part"],
)
def test_two_texts_in_two_formats_stay_two(app: App, tmp_path: Path, one: str, two: str) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "one.md").write_text(f"otter {one}")
    (tmp_path / "in" / "two.html").write_text(f"<p>otter {two}</p>")
    bring_in(app, tmp_path / "in")
    rows = find(app, "otter")["results"]
    assert len(rows) == 2
    assert not any("duplicates" in row for row in rows)


@pytest.mark.parametrize(
    ("one", "two"),
    [
        ("The otter weighs -5 less.", "The otter weighs 5 less."),
        ("An otter in C", "An otter in C++"),
        ("The otter 😀", "The otter 😢"),
        ("See [the otter](https://a.example)", "See [the otter](https://b.example)"),
        ("\n\n".join(["otter", *LATER, "an end"]), "\n\n".join(["otter", *LATER, "another"])),
    ],
    ids=["sign", "name", "picture", "link", "end"],
)
def test_two_texts_stay_two(app: App, tmp_path: Path, one: str, two: str) -> None:
    (tmp_path / "in").mkdir()
    for name, text in (("one.md", one), ("two.md", two)):
        (tmp_path / "in" / name).write_text(text)
    bring_in(app, tmp_path / "in")
    rows = find(app, "otter")["results"]
    assert len(rows) == 2
    assert not any("duplicates" in row for row in rows)


def test_what_was_written_here_is_never_joined(app: App) -> None:
    notes = [text_entry("notes", f"n{at}", "An otter.", id=f"n{at}") for at in range(3)]
    app.knowledge.of("local").put("notes", notes)
    assert find(app, "otter")["total_estimated"] == 3


def test_files_without_text_are_not_the_same(app: App, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    for name in ("otter one.md", "otter two.md"):
        (tmp_path / "in" / name).write_text("***\n")
    bring_in(app, tmp_path / "in")
    assert not any("duplicates" in row for row in find(app, "otter")["results"])


@pytest.mark.parametrize("order", ["relevance", "recent"])
def test_pages_neither_overlap_nor_skip(app: App, tmp_path: Path, order: Any) -> None:
    for at in range(7):
        write_formats(tmp_path / "in" / str(at), [f"{SLEEP} Number {at} of them."])
    bring_in(app, tmp_path / "in")
    seen: list[str] = []
    offset: int | None = 0
    while offset is not None:
        page = find(app, "otters", limit=3, offset=offset, order_by=order)
        assert page["total_estimated"] == 7
        seen += [row["uri"] for row in page["results"]]
        seen += [each["uri"] for row in page["results"] for each in row["duplicates"]]
        offset = page["next_offset"]
    assert len(seen) == len(set(seen)) == 21


def test_a_session_that_has_seen_one_has_seen_the_others(app: App, tmp_path: Path) -> None:
    write_formats(tmp_path / "in", [SLEEP])
    (tmp_path / "in" / "more.md").write_text("Otters hold shells.")
    bring_in(app, tmp_path / "in")
    first = knowledge_search(app, "otters hold hands", 1, work=work(session="s"))
    assert first["results"][0]["duplicates_total"] == 2
    later = knowledge_search(app, "letter page otters", work=work(session="s"))
    assert [row["title"] for row in later["results"]] == ["more"]


def test_a_duplicate_is_named_by_its_file_or_the_member_of_an_archive(
    app: App, tmp_path: Path
) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "Otters!.md").write_text(SLEEP)
    (tmp_path / "in" / "a.md").write_text(SLEEP)
    mail = f"From a Mon Jan  1 00:00:00 2024\nMessage-ID: <1@a>\nFrom: a\nTo: b\n\n{SLEEP}\n"
    for name in ("one.mbox", "two.mbox"):
        (tmp_path / "in" / name).write_text(mail)
    with ZipFile(tmp_path / "in" / "old.zip", "w") as archive:
        archive.writestr("kept/b.md", SLEEP)
    bring_in(app, tmp_path / "in")
    rows = find(app, "otters hold hands")["results"]
    named = {each["file"] for row in rows for each in row["duplicates"]}
    assert len(named) == 3  # of five: the first note and the first mail are the results
    assert named < {"Otters!.md", "a.md", "old.zip//kept/b.md", "one.mbox", "two.mbox"}


def test_many_are_counted_and_a_few_are_named(app: App, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    for at in range(17):
        (tmp_path / "in" / f"copy {at}.txt").write_text(SLEEP)
    bring_in(app, tmp_path / "in")
    (row,) = find(app, "otters")["results"]
    assert (len(row["duplicates"]), row["duplicates_total"]) == (5, 16)


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=needs_postgres)])
def shared(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[App]:
    """Anna reads a collection that has her text too."""

    def run(store: str) -> Iterator[App]:
        settings = load_settings(
            {}, home=tmp_path / "home", embedding="none", knowledge_store=store
        )
        app = build_app(settings, start=tmp_path)
        write_formats(tmp_path / "in", [SLEEP])
        for user in ("anna", "handbook"):
            bring_in(app, tmp_path / "in", user)
        app.grounds.users.give("knowledge", "anna", "handbook")
        yield app
        app.close()

    if request.param == "postgres":
        with run_postgres() as address:
            yield from run(address)
    else:
        yield from run("sqlite")


def test_a_shared_collection_is_compared_with_ones_own(shared: App, tmp_path: Path) -> None:
    (tmp_path / "in" / "more.md").write_text("Otters hold shells.")
    bring_in(shared, tmp_path / "in", "anna")
    first = find(shared, "otters hold", "anna", limit=1)
    second = find(shared, "otters hold", "anna", limit=1, offset=1)
    rows = first["results"] + second["results"]
    assert (first["total_estimated"], first["next_offset"], second["next_offset"]) == (2, 1, None)
    (joined,) = [row for row in rows if "duplicates" in row]
    assert joined["duplicates_total"] == 5
    uris = [joined["uri"], *(each["uri"] for each in joined["duplicates"])]
    assert sum(uri.endswith("@handbook") for uri in uris) == 3


def test_a_result_is_read_by_its_uri_alone(filled: App) -> None:
    for row in find(filled, "walrus")["results"]:
        got = knowledge_get(filled, row["uri"], work=work())
        assert got["meta"]["uri"] == row["uri"]
        assert fetch(filled, row["uri"], work=work())["meta"]["uri"] == row["uri"]
    with pytest.raises(InvalidRequest, match="source"):
        knowledge_get(filled, "n1", work=work())
