"""A shared index on an object store: all of it, and what goes wrong there."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.loopback import running
from tests.shared.conftest import FILES, Clone, run_git
from tests.shared.object_store import BUCKET, ObjectStore
from tests.trees import write_files

from sonde.app import App
from sonde.errors import SharedIndexMissing, SharedIndexRefused, SharedIndexUnreachable
from sonde.projects.update import update_project
from sonde.runtime.work import Work
from sonde.shared.cleanup import clean_index
from sonde.shared.index import SharedIndex
from sonde.stores.chunks.sqlite import SqliteChunkStore

URL = f"s3://{BUCKET}/index"
GOOGLE = f"gs://{BUCKET}/index"


def use(store: ObjectStore, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in store.environ.items():
        monkeypatch.setenv(name, value)


@pytest.fixture(params=[URL, GOOGLE])
def url(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[str]:
    """An address in a store of each kind, which answers after some milliseconds."""
    is_google = request.param == GOOGLE
    with running(ObjectStore(delay_s=0.002, key="" if is_google else "dev")) as store:
        use(store, monkeypatch)
        address = f"http://127.0.0.1:{store.server_port}"
        account = {"gcs_base_url": address, "disable_oauth": True}
        account |= dict.fromkeys(("client_email", "private_key", "private_key_id"), "")
        (tmp_path / "account.json").write_text(json.dumps(account))
        if is_google:
            monkeypatch.setenv("GOOGLE_SERVICE_ACCOUNT", str(tmp_path / "account.json"))
        yield request.param


def check_commit(commit: str, folder: Path, url: str = URL, *, rows: bool = False) -> None:
    folder.mkdir()
    shared = SharedIndex(url)
    assert shared.fill("shop", commit, folder, rows=rows).note == ""
    store = SqliteChunkStore(folder, "code")
    assert store.verify() == []
    assert store.files().keys() == {"src/orders.py", "src/users.py", "run.sh"}
    store.close()
    facts = shared.read_commit("shop", commit).files
    texts = dict(shared.read_texts(fact.digest for fact in facts.values()))
    assert {path: texts[fact.digest].decode() for path, fact in facts.items()} == FILES


def test_everything_works_on_an_object_store(ci: Clone, tmp_path: Path, url: str) -> None:
    commit = ci.push(url).commit
    check_commit(commit, tmp_path / "one", url)
    check_commit(commit, tmp_path / "two", url, rows=True)
    assert ci.push(url).added.files == 0
    assert not any(clean_index(SharedIndex(url), Work()).values())
    app, project = ci.open(shared_index=url)
    report = update_project(app.workspace, project, Work())
    assert (report.files_indexed, commit[:12] in report.note) == (0, True)


def test_a_store_that_fails_now_and_then_is_used_all_the_same(
    ci: Clone, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with running(ObjectStore(failing=0.05, delay_s=0.005)) as store:
        use(store, monkeypatch)
        commit = ci.push(URL).commit
        check_commit(commit, tmp_path / "one")
        assert store.failed > 3


def test_what_keeps_us_from_a_store_is_said(ci: Clone, monkeypatch: pytest.MonkeyPatch) -> None:
    with running(ObjectStore()) as store:
        use(store, monkeypatch)
        with pytest.raises(SharedIndexMissing):
            SharedIndex("s3://other/index")
        with pytest.raises(SharedIndexMissing):
            SharedIndex(URL)
        monkeypatch.setenv("AWS_ACCESS_KEY_ID", "wrong")
        with pytest.raises(SharedIndexRefused):
            ci.push(URL)
        app, project = ci.open(shared_index=URL)
        refused = update_project(app.workspace, project, Work())
        assert "refused the credentials" in refused.note
        assert len(project.stores()["code"].files()) == 3
    with pytest.raises(SharedIndexUnreachable):  # nothing listens there any more
        SharedIndex(URL)


def test_many_repositories_are_pushed_at_the_same_time(
    tmp_path: Path, open_app: Callable[..., App], url: str
) -> None:
    clones = []
    for number in range(8):
        root = write_files(tmp_path / f"repo{number}", {**FILES, "own.py": f"n = {number}\n"})
        run_git(root, "init", "-q", "-b", "main")
        clone = Clone(root, open_app, f"home{number}")
        clone.commit()
        clone.open()
        clones.append(clone)
    failed: list[BaseException] = []

    def push(clone: Clone) -> None:
        try:
            clone.push(url)
        except Exception as error:  # noqa: BLE001 - raised by the assertion below
            failed.append(error)

    threads = [threading.Thread(target=push, args=(clone,)) for clone in clones]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failed == []
    shared = SharedIndex(url)
    assert [one.name for one in shared.list_branches()] == [f"repo{n}@main" for n in range(8)]
    for name in (f"repo{n}" for n in range(8)):
        facts = shared.read_commit(name, shared.find_head(name)).files
        assert len(dict(shared.read_texts(f.digest for f in facts.values()))) == len(facts) == 5
        folder = tmp_path / f"filled-{name}"
        folder.mkdir()
        assert shared.fill(name, shared.find_head(name), folder, rows=True)
        code = SqliteChunkStore(folder, "code")
        assert len(code.files()) == 4
        code.close()
