"""Models by name, from a server on loopback that answers as the hub does."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.embedding.model_folders import write_model
from tests.loopback import Exchange, LoopbackServer, running

from sonde.embedding.model import ModelEmbedder, fetch_model, find_cached, is_hub_name
from sonde.errors import InvalidRequest, ModelDownloadFailed

NAME, REVISION = "someone/toy-model", "0123456789abcdef0123456789abcdef01234567"


class _Exchange(Exchange):
    server: Hub

    def answer(self) -> None:
        hub = self.server
        hub.seen.append(self.path)
        if hub.failures:
            self.reply(hub.failures.pop(0), b"")
        elif self.path == f"/api/models/{NAME}?blobs=true":
            found = hub.describe() if hub.description is None else hub.description
            self.reply(200, json.dumps(found).encode())
        elif self.path.startswith(f"/{NAME}/resolve/{REVISION}/"):
            file = self.path.removeprefix(f"/{NAME}/resolve/{REVISION}/")
            if file.endswith(".onnx"):  # large files lie elsewhere
                self.reply(302, b"", Location=f"{hub.address}/cdn/{file}")
            else:
                self.reply(200, hub.read(file))
        elif self.path.startswith("/cdn/"):
            self.reply(200, hub.read(self.path.removeprefix("/cdn/")))
        else:
            self.reply(404, b"")


class Hub(LoopbackServer):
    def __init__(self, folder: Path) -> None:
        super().__init__(_Exchange)
        self.folder = folder
        self.seen: list[str] = []
        self.failures: list[int] = []
        self.spoilt = ""
        self.description: Any = None

    def read(self, file: str) -> bytes:
        data = (self.folder / file).read_bytes()
        return b"X" + data[1:] if file == self.spoilt else data

    def describe(self) -> dict[str, Any]:
        rows: list[dict[str, Any]] = [{"rfilename": "../../evil", "size": 3, "blobId": "0"}]
        for path in sorted(self.folder.rglob("*")):
            if path.is_file():
                data = path.read_bytes()
                blob = hashlib.sha1(b"blob %d\0" % len(data) + data).hexdigest()
                row = {"rfilename": str(path.relative_to(self.folder)), "size": len(data)}
                rows.append(row | {"blobId": blob})
                if path.suffix == ".onnx":
                    rows[-1]["lfs"] = {
                        "sha256": hashlib.sha256(data).hexdigest(),
                        "size": len(data),
                    }
        return {"id": NAME, "sha": REVISION, "siblings": rows}


@pytest.fixture
def hub(tmp_path: Path) -> Iterator[Hub]:
    write_model(tmp_path / "hub")
    (tmp_path / "hub" / "pytorch_model.bin").write_bytes(b"not needed")
    with running(Hub(tmp_path / "hub")) as started:
        yield started


def fetch(hub: Hub, folder: Path, told: list[str] | None = None) -> Path:
    tell = told.append if told is not None else lambda _text: None
    return fetch_model(NAME, folder, tell, hub.address, pause_s=0.001)


@pytest.mark.row("001-91")
def test_a_model_is_fetched_once_with_the_documented_messages(hub: Hub, tmp_path: Path) -> None:
    told: list[str] = []
    models = tmp_path / "models"
    embedder = ModelEmbedder(NAME, models, told.append, hub=hub.address, threads=1)
    assert embedder.name == f"model:{NAME}"
    assert hub.seen == []  # asking for the name asks nobody
    first = embedder.embed(["walrus"], "query")
    assert told[0] == "Downloading embedding model... (one-time, ~1MB)"
    assert told[-1] == "Done! Model cached for future use."
    assert any(text.endswith(" %") for text in told)
    assert embedder.name.startswith(f"model:{NAME}-")
    assert not any("pytorch" in path or "evil" in path for path in hub.seen)
    asked = len(hub.seen)
    again = ModelEmbedder(NAME, models, told.append, hub=hub.address, threads=1)
    assert (again.embed(["walrus"], "query") == first).all()
    assert len(hub.seen) == asked
    assert [path.name for path in models.iterdir()] == ["someone--toy-model"]


@pytest.mark.parametrize("file", ["onnx/model.onnx", "tokenizer.json"])
@pytest.mark.row("001-92", "001-115", "001-154")
def test_a_wrong_checksum_leaves_nothing_behind(hub: Hub, tmp_path: Path, file: str) -> None:
    hub.spoilt = file
    with pytest.raises(ModelDownloadFailed, match=f"{file}: the checksum does not fit") as caught:
        fetch(hub, tmp_path / "models")
    assert caught.value.code == "MODEL_DOWNLOAD_FAILED"
    assert caught.value.user_message == (
        "Couldn't set up the search engine. Please check your internet connection and try again."
    )
    assert list((tmp_path / "models").iterdir()) == []
    hub.spoilt = ""
    assert (fetch(hub, tmp_path / "models") / file).is_file()


def test_a_busy_hub_is_asked_again_and_a_missing_model_is_not(hub: Hub, tmp_path: Path) -> None:
    hub.failures = [503, 429]
    assert fetch(hub, tmp_path / "models").is_dir()
    hub.seen.clear()
    with pytest.raises(ModelDownloadFailed, match="404"):
        fetch_model("someone/else", tmp_path / "models", print, hub.address)
    assert len(hub.seen) == 1


def test_what_cannot_embed_is_refused_before_it_is_downloaded(hub: Hub, tmp_path: Path) -> None:
    (hub.folder / "onnx" / "model.onnx").unlink()
    with pytest.raises(ModelDownloadFailed, match="no ONNX file"):
        fetch(hub, tmp_path / "models")
    assert len(hub.seen) == 1


@pytest.mark.parametrize("shape", [[], {"sha": REVISION, "siblings": ["x"]}, {"sha": REVISION}])
def test_a_hub_that_answers_in_another_shape_is_a_failed_download(
    hub: Hub, tmp_path: Path, shape: Any
) -> None:
    hub.description = shape
    with pytest.raises(ModelDownloadFailed):
        fetch(hub, tmp_path / "models")


def test_what_a_killed_download_left_is_removed_in_time(hub: Hub, tmp_path: Path) -> None:
    models = tmp_path / "models"
    left, going = models / ".someone--toy-model-7-8", models / ".someone--toy-model-7-9"
    for folder in (left, going):
        folder.mkdir(parents=True)
        (folder / "model.onnx").write_bytes(b"half")
    os.utime(left, (1_600_000_000, 1_600_000_000))
    fetch(hub, models)
    assert (left.exists(), going.exists()) == (False, True)


def test_a_model_that_other_programs_fetched_is_used(hub: Hub, tmp_path: Path) -> None:
    theirs = tmp_path / "cache" / "models--someone--toy-model"
    (theirs / "refs").mkdir(parents=True)
    (theirs / "refs" / "main").write_text(REVISION)
    assert find_cached(NAME, tmp_path / "models", tmp_path / "cache") is None
    write_model(theirs / "snapshots" / REVISION)
    found = find_cached(NAME, tmp_path / "models", tmp_path / "cache")
    assert found == theirs / "snapshots" / REVISION


@pytest.mark.parametrize("name", ["plain", "a/b/c", "../b", "a/..", "a/b?x", "/etc/passwd", ""])
def test_what_is_no_name_is_never_asked_for(name: str, tmp_path: Path) -> None:
    assert not is_hub_name(name)
    with pytest.raises(InvalidRequest):
        fetch_model(name, tmp_path, print, "http://127.0.0.1:1")


def run_sonde(
    project: Path, hub: str, *argv: str, **changed: str
) -> subprocess.CompletedProcess[str]:
    home = project.parent / "home"
    environ = {
        "HOME": str(home), "SONDE_HOME": str(home / "sonde"), "PATH": os.environ["PATH"],
        "SONDE_EMBEDDING": "model", "SONDE_EMBEDDING_MODEL": NAME, "SONDE_EMBEDDING_HUB": hub,
    } | changed  # fmt: skip
    environ = {name: value for name, value in environ.items() if value}
    command = [sys.executable, "-m", "sonde.cli.main", *argv]
    return subprocess.run(command, cwd=project, env=environ, capture_output=True, text=True)


def test_one_command_fetches_a_model_saves_it_and_lets_it_read_what_is_there(
    hub: Hub, tmp_path: Path
) -> None:
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "sea.md").write_text("The walrus and the otter share the sea.")
    without = {"SONDE_EMBEDDING": "", "SONDE_EMBEDDING_MODEL": ""}
    assert run_sonde(tmp_path / "notes", hub.address, "knowledge", "import", ".").returncode == 0
    done = run_sonde(tmp_path / "notes", hub.address, "model", NAME, "--json", **without)
    assert done.returncode == 0, done.stderr
    assert "Done! Model cached for future use." in done.stderr
    said = json.loads(done.stdout)
    assert (said["read"], said["of"]) == (1, 1)
    config = json.loads(Path(said["settings"]).read_text())
    assert config == {"embedding": "model", "embeddingModel": NAME}
    asked = json.loads(
        run_sonde(
            tmp_path / "notes", hub.address, "knowledge", "search", "otter", "--json", **without
        ).stdout
    )
    assert asked["results"][0]["score_type"] == "fts+vector"
    assert run_sonde(tmp_path / "notes", hub.address, "model", "a b", **without).returncode == 2
    assert json.loads(Path(said["settings"]).read_text()) == config


@pytest.mark.row("001-91", "001-92")
def test_the_first_run_tells_and_a_failure_leaves_words(hub: Hub, tmp_path: Path) -> None:
    project = tmp_path / "project"
    (project / ".git").mkdir(parents=True)
    (project / "sea.py").write_text("def feed(walrus):\n    '''Fish for the walrus.'''\n")
    failed = run_sonde(project, "http://127.0.0.1:1", "index", "--json")
    assert failed.returncode == 2
    assert json.loads(failed.stdout)["code"] == "MODEL_DOWNLOAD_FAILED"
    found = json.loads(
        run_sonde(project, "http://127.0.0.1:1", "search", "walrus", "--json").stdout
    )
    assert [row["path"] for row in found["results"]] == ["sea.py"]
    done = run_sonde(project, hub.address, "index")
    assert done.returncode == 0
    assert "Downloading embedding model... (one-time, ~1MB)" in done.stderr
    assert "Done! Model cached for future use." in done.stderr
    asked = len(hub.seen)
    found = json.loads(
        run_sonde(project, hub.address, "search", "walrus", "--mode", "semantic", "--json").stdout
    )
    assert found["results"][0]["path"] == "sea.py"
    assert "note" not in found["metadata"]
    assert len(hub.seen) == asked
