"""An index that has drifted, from its files or within itself, is found out and repaired."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import apsw
import pytest
from tests.backends import STORES, needs_lance
from tests.contents import STATIC
from tests.trees import write_files
from tests.waiting import PATIENCE_S

from sonde.app import App
from sonde.errors import Cancelled
from sonde.indexing.integrity import check_index
from sonde.projects.maintenance import check_project, check_soon
from sonde.projects.project import Project
from sonde.projects.update import update_project
from sonde.runtime.work import Work, WriterLock
from sonde.stores.records import Findings
from sonde.text.words import index_terms
from sonde.tools.code import search_code
from sonde.tools.index import create_index, delete_index, get_index_status
from sonde.types import Progress


@pytest.fixture
def root(tmp_path: Path) -> Path:
    modules = {
        f"m{n}.py": f"import os{n}\n\n\ndef function_{n}(value):\n    return value + {n}\n"
        for n in range(12)
    }
    guide = {"guide.md": "# Guide\n\nHow the functions are called.\n", "pyproject.toml": ""}
    return write_files(tmp_path / "project", modules | guide)


@pytest.fixture(params=STORES)
def app(request: pytest.FixtureRequest, open_app: Callable[..., App], root: Path) -> App:
    app = open_app(start=root, store=request.param)
    create_index(app, work=Work())
    return app


@pytest.fixture
def project(app: App, root: Path) -> Project:
    return app.workspace.projects.get(root)


def read_all(project: Project) -> dict[str, Any]:
    """What the index holds and finds, apart from how it came to hold it."""
    known: dict[str, Any] = {}
    for kind, store in project.stores().items():
        assert store.verify() == []
        for path, state in store.files().items():
            chunks = store.chunks_of(path)
            (stem,) = {state.stem}
            known[f"{kind}:{path}"] = (
                state.hash,
                [(c.text, c.span, c.header, c.symbol) for c in chunks],
                list(store.symbols_of([path])[path]),
                sorted(store.paths_named([stem])),
                [path in store.trigram_candidates(c.text.strip()) for c in chunks],
            )
            for chunk in chunks:
                terms = index_terms(chunk.text)
                best = store.chunks([each.id for each in store.lexical(terms, 20)])
                known[f"{kind}:{path}:{chunk.span}"] = [(c.path, c.span) for c in best]
        known[f"{kind}:vectors"] = store.coverage(STATIC[kind])
    return known


def database_of(project: Project, kind: str = "code") -> Path:
    stem = "index" if kind == "code" else "docs"
    sqlite = project.settings.store_name == "sqlite"
    return project.folder / (f"{stem}.db" if sqlite else f"{stem}.lance.db")


def alter(project: Project, statements: str, kind: str = "code") -> None:
    connection = apsw.Connection(str(database_of(project, kind)))
    connection.execute(statements)
    connection.close()


def check(app: App, project: Project, **options: bool) -> Findings:
    return check_project(app.workspace, project, Work(), **({"thorough": True} | options))


def drift_of(findings: Findings) -> dict[str, int]:
    names = ("changed", "missing", "gone", "broken", "strays", "vectors")
    return {name: getattr(findings, name) for name in names if getattr(findings, name)}


def test_an_index_in_step_with_its_files_is_found_to_be(app: App, project: Project) -> None:
    before = {kind: store.generation() for kind, store in project.stores().items()}
    found = check(app, project)
    assert drift_of(found) == {}
    assert found.files == 14
    assert {kind: store.generation() for kind, store in project.stores().items()} == before


def test_what_others_have_mended_meanwhile_takes_no_lock(
    app: App, project: Project, root: Path
) -> None:
    (root / "m3.py").write_text("def edited(): pass\n")
    with ExitStack() as stack:

        def mend_and_hold(progress: Progress) -> None:
            # files have been compared, the stores not yet
            if progress.message == "code":
                update_project(app.workspace, project, Work(), existing=True)
                stack.enter_context(WriterLock(project.folder).held())

        work = Work(report=mend_and_hold)
        giving_up = threading.Timer(PATIENCE_S, work.cancel)
        giving_up.start()
        stack.callback(giving_up.cancel)
        lock = WriterLock(project.folder)
        found = check_index(project.tree, project.stores(), app.workspace.static, lock, work)
    assert drift_of(found) == {}


@pytest.mark.row("001-102")
def test_files_that_changed_behind_size_and_time_are_indexed_again(
    app: App, project: Project, root: Path
) -> None:
    for path, text in ((root / "m3.py", "import os9"), (root / "guide.md", "# Other")):
        facts = path.stat()
        path.write_text(text + path.read_text()[len(text) :])
        os.utime(path, ns=(facts.st_atime_ns, facts.st_mtime_ns))
    (root / "new.py").write_text("def newcomer(): pass\n")
    (root / "m5.py").unlink()
    assert drift_of(check(app, project)) == {"changed": 2, "missing": 1, "gone": 1}
    assert drift_of(check(app, project)) == {}
    assert search_code(app, "newcomer", work=Work())["results"][0]["path"] == "new.py"
    code, docs = (project.stores()[kind] for kind in ("code", "docs"))
    assert code.chunks_of("m3.py")[0].text.startswith("import os9")
    assert docs.chunks_of("guide.md")[0].text.startswith("# Other")


ALTERATIONS = {
    "a file is lost": "DELETE FROM files WHERE path = 'm1.py'",
    "all files are lost": "DELETE FROM files",
    "chunks are lost": "DELETE FROM chunks WHERE id % 3 = 0",
    "a chunk has other lines": "UPDATE chunks SET start_line = start_line + 7 WHERE id = 4",
    "a chunk has another name": "UPDATE chunks SET symbol = 'other' WHERE id = 4",
    "a chunk belongs elsewhere": "UPDATE chunks SET file_id = file_id + 1 WHERE id = 4",
    "a file has other symbols": "UPDATE files SET symbols = '[]' WHERE path = 'm1.py'",
    "a file has another hash": "UPDATE files SET hash = 'x' WHERE path = 'm1.py'",
    "words are lost": "DELETE FROM lex WHERE rowid IN (2, 3)",
    "all words are lost": "DELETE FROM lex",
    "words of nothing": "INSERT INTO lex (rowid, path, name, body) VALUES (900, 'a', 'b', 'value')",
    "names are lost": "DELETE FROM names WHERE rowid = 2",
    "names of nothing": "INSERT INTO names (rowid, known, imports) VALUES (900, 'm1', 'x')",
    "trigrams are lost": "DELETE FROM grams",
    "trigrams of nothing": "INSERT INTO grams (rowid, held) VALUES (900, 'abc')",
    "counters are wrong": "UPDATE state SET value = 77 WHERE key = 'chunks'",
    "chunk numbers start over": "UPDATE state SET value = 1 WHERE key = 'next_chunk'",
    "vectors are lost": "DELETE FROM vectors WHERE slot % 2 = 0",
    "vectors are mixed up": "UPDATE vectors SET slot = -1 - slot;"
    " UPDATE vectors SET slot = slot + (SELECT count(*) FROM vectors)",
    "a model is lost": "DELETE FROM models",
}


SHARED = {"chunks are lost", "a file is lost", "vectors are lost", "vectors are mixed up"}
"""What concerns more than the tables that both stores have alike."""


@pytest.mark.parametrize(
    ("app", "name"),
    [("sqlite", name) for name in ALTERATIONS]
    + [pytest.param("lance", name, marks=needs_lance) for name in sorted(SHARED)],
    indirect=["app"],
)
@pytest.mark.row("001-102")
def test_whatever_is_altered_inside_the_index_is_repaired(
    app: App, project: Project, name: str
) -> None:
    before = read_all(project)
    alter(project, ALTERATIONS[name])
    check(app, project, thorough=False)
    assert read_all(project) == before
    assert drift_of(check(app, project)) == {}


OTHER_WORDS = {
    "lex": "DELETE FROM lex WHERE rowid = 3;"
    " INSERT INTO lex (rowid, path, name, body) VALUES (3, 'm1', 'x', 'entirely other words')",
    "names": "DELETE FROM names WHERE rowid = 3;"
    " INSERT INTO names (rowid, known, imports) VALUES (3, 'somethingelse', 'x')",
    "grams": "DELETE FROM grams WHERE rowid = 3; INSERT INTO grams (rowid, held) VALUES (3, 'abc')",
}


@pytest.mark.parametrize("app", ["sqlite"], indirect=True)
@pytest.mark.parametrize("table", OTHER_WORDS)
def test_words_that_are_not_those_of_the_text_are_found_by_a_thorough_check(
    app: App, project: Project, table: str
) -> None:
    before = read_all(project)
    alter(project, OTHER_WORDS[table])
    assert drift_of(check(app, project)) == {"broken": 1}
    assert read_all(project) == before
    assert drift_of(check(app, project)) == {}


def test_a_text_that_rotted_is_found(app: App, project: Project) -> None:
    before = read_all(project)
    if project.settings.store_name == "sqlite":
        alter(project, "UPDATE chunks SET text = replace(text, 'value', 'vblue') WHERE id = 5")
    else:
        import lancedb

        table = lancedb.connect(str(project.folder / "index.lancedb")).open_table("project_docs")
        table.update(where="chunk = 5", values={"text": "rotten"})
    assert drift_of(check(app, project, thorough=False)) == {"broken": 1}
    assert read_all(project) == before


def test_the_docs_index_is_looked_after_as_well(app: App, project: Project) -> None:
    before = read_all(project)
    alter(project, "DELETE FROM lex; DELETE FROM names", "docs")
    assert drift_of(check(app, project)) == {"broken": 1}
    assert read_all(project) == before


@pytest.mark.parametrize("app", ["sqlite"], indirect=True)
@pytest.mark.parametrize("suffix", ["i8", "bits"])
def test_a_single_flipped_bit_in_a_vector_is_noticed(
    app: App, project: Project, suffix: str
) -> None:
    before = read_all(project)
    (path,) = (project.folder / "index.vectors").glob(f"*.{suffix}")
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 4
    path.write_bytes(data)
    assert drift_of(check(app, project, thorough=False)) == {"vectors": 1}
    assert drift_of(check(app, project)) == {}
    assert read_all(project) == before


def test_what_was_found_is_counted_in_the_status(app: App, project: Project, root: Path) -> None:
    assert "integrity" not in get_index_status(app, work=Work())["details"]
    (root / "new.py").write_text("x = 1\n")
    (root / "m0.py").unlink()
    check(app, project)
    (root / "newer.py").write_text("x = 2\n")
    check(app, project, thorough=False)
    told = get_index_status(app, work=Work())["details"]["integrity"]
    assert told["checks"] == 2
    assert told["last"]["missing"] == 1
    assert told["repaired"] == {
        "changed": 0, "missing": 2, "gone": 1, "broken": 0, "strays": 0, "vectors": 0,
    }  # fmt: skip
    assert told["rebuilt"] == 0
    assert told["lastThorough"] <= told["lastCheck"]


@pytest.mark.parametrize("app", ["sqlite"], indirect=True)
@pytest.mark.parametrize("torn", [b"", b"[1]", b'{"checks": "x", "repaired": 3}', b"\xff"])
def test_a_torn_record_of_checks_is_begun_anew(app: App, project: Project, torn: bytes) -> None:
    (project.folder / "integrity.json").write_bytes(torn)
    check_project(app.workspace, project, Work())
    assert get_index_status(app, work=Work())["details"]["integrity"]["checks"] == 1


@pytest.mark.parametrize("app", ["sqlite"], indirect=True)
@pytest.mark.parametrize(
    ("stamp", "thorough"),
    [("2000-01-01T00:00:00Z", True), ("2999-01-01T00:00:00Z", True), ("yesterday", True)],
)
def test_a_clock_that_jumped_does_not_put_a_thorough_check_off(
    app: App, project: Project, stamp: str, thorough: bool
) -> None:
    check(app, project)
    record = project.folder / "integrity.json"
    assert check_project(app.workspace, project, Work()).thorough is False
    last = get_index_status(app, work=Work())["details"]["integrity"]["lastThorough"]
    record.write_text(record.read_text().replace(last, stamp))
    assert check_project(app.workspace, project, Work()).thorough is thorough


@pytest.mark.parametrize("app", ["sqlite"], indirect=True)
@pytest.mark.parametrize("torn", ["{}", "[", '{"m1.py": "' + "0" * 64 + '"}'])
def test_fingerprints_that_were_torn_or_edited_are_written_again(
    app: App, project: Project, torn: str
) -> None:
    path = project.folder / "fingerprints.json"
    good = path.read_text()
    path.write_text(torn)
    assert drift_of(check(app, project)) == {}
    assert path.read_text() == good


@pytest.mark.parametrize("app", ["sqlite"], indirect=True)
def test_a_check_can_be_called_off_and_holds_nobody_up(
    app: App, project: Project, root: Path
) -> None:
    (root / "new.py").write_text("def newcomer(): pass\n")
    reached, go_on = threading.Event(), threading.Event()

    def stop(_progress: Any) -> None:
        reached.set()
        assert go_on.wait(30)

    work = Work(report=stop)
    ended: list[BaseException] = []

    def run() -> None:
        try:
            check_project(app.workspace, project, work)
        except Cancelled as error:
            ended.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    assert reached.wait(30)
    # in the middle of a check, searching and writing go on
    update_project(app.workspace, project, Work(), paths={"new.py"})
    assert search_code(app, "newcomer", work=Work())["results"][0]["path"] == "new.py"
    work.cancel()
    go_on.set()
    thread.join(30)
    assert len(ended) == 1
    assert "integrity" not in get_index_status(app, work=Work())["details"]


@pytest.mark.parametrize("app", ["sqlite"], indirect=True)
def test_a_background_check_ends_with_its_project(app: App, project: Project) -> None:
    job = check_soon(app.workspace, project)
    assert delete_index(app, work=Work())["status"] == "success"
    assert job.wait(timeout_s=30)
