"""The user's own model: a folder in the layout of sentence-transformers, with an ONNX graph.

A model given by name is downloaded from a hub once: its files are verified by the hub's checksums
(SHA-256, or Git's for small ones), and the folder is moved into place when it is complete.

Read are `onnx/model.onnx` or `model.onnx`, `tokenizer.json` or `vocab.txt`, and pooling, length and
prompts in the JSON files beside them. Unknown modules are refused.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import shutil
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from http.client import HTTPException
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.parse import quote
from urllib.request import urlopen

import numpy as np

from sonde.embedding.base import Mode, Vectors, make_units, plan_batches
from sonde.embedding.onnx import OnnxEmbedder, open_session, pad_rows, run_session
from sonde.embedding.services import MALFORMED
from sonde.errors import EmbeddingFailed, InvalidRequest, MissingExtra, ModelDownloadFailed
from sonde.runtime.private import make_folder

HUB = "https://huggingface.co"
GRAPHS = ("onnx/model.onnx", "model.onnx")
_SMALL = (
    "config.json", "modules.json", "sentence_bert_config.json", "tokenizer.json",
    "tokenizer_config.json", "vocab.txt", "config_sentence_transformers.json",
    "1_Pooling/config.json",
)  # fmt: skip
_NAME = re.compile(r"[A-Za-z0-9][\w.-]{0,95}/[A-Za-z0-9][\w.-]{0,95}")
_REVISION = re.compile(r"[0-9a-f]{7,64}")
_MAX_MODEL_BYTES = 4 << 30  # larger models are too slow on a CPU
_READ_AT_ONCE = 1 << 18  # bytes, small enough for frequent progress
_TIMEOUT_S = 30.0  # without a byte, after which the connection is dead
_TRIES = 3  # enough for an unreliable connection
_PROGRESS_STEPS = 10  # a message per 10 % of a download
_ABANDONED_S = 24 * 3600.0  # an older partial download was killed

Report = Callable[[str], None]
_DEFAULT_TOKENS, _MAX_TOKENS = 512, 8_192  # of a text: without a configured length; at most
_KNOWN_MODULES = ("Transformer", "Pooling", "Normalize")
_HASHED_BYTES = 1 << 20  # at both ends of a graph; hashing all of it takes seconds


class ModelEmbedder(OnnxEmbedder):
    """An `Embedder` with a model in a folder, or downloaded from a hub on first use."""

    def __init__(
        self,
        model: str,
        folder: Path,
        report: Report = lambda _text: None,
        *,
        hub: str = "",
        cache: Path | None = None,
        path: Path | None = None,
        threads: int | None = None,
    ) -> None:
        super().__init__(threads, name=f"model:{model}")
        self._model, self._models, self._report = model, folder, report
        self._hub, self._cache, self._path = hub or HUB, cache, path
        self._fetching = threading.Lock()
        self._named = ""

    @property
    def name(self) -> str:
        if not self._named:
            place = self._path or find_cached(self._model, self._models, self._cache)
            if place is None:
                return self._name
            self._named = f"{self._name}-{_identify(place)}"
        return self._named

    @property
    def dimensions(self) -> int:
        sizes = _read_json(self._place() / "config.json")
        size = sizes.get("hidden_size") or sizes.get("dim") or sizes.get("n_embd")
        return int(size) if size else int(self.embed(["size"], "query").shape[1])

    def embed(self, texts: Sequence[str], mode: Mode) -> Vectors:
        session, recipe = self._load()
        filled = [at for at, text in enumerate(texts) if text.strip()]
        encoded = recipe.encode([texts[at] for at in filled], mode)
        made: dict[int, Any] = {}
        for rows in plan_batches([len(ids) for ids in encoded]):
            vectors = recipe.run(session, [encoded[row] for row in rows])
            made |= zip((filled[row] for row in rows), vectors, strict=True)
        size = len(next(iter(made.values()))) if made else self.dimensions
        units = make_units(made, len(texts), size)
        if not np.isfinite(units).all():
            raise EmbeddingFailed(f"{self._model} gave vectors that are no numbers")
        return units

    def _open(self) -> tuple[Any, Any]:
        place = self._place()
        graph = next((place / one for one in GRAPHS if (place / one).is_file()), None)
        if graph is None:
            raise _refuse(place, "there is neither onnx/model.onnx nor model.onnx")
        recipe = _Recipe(place)
        return open_session(graph, self._threads), recipe

    def _place(self) -> Path:
        """The folder of the model, which is downloaded if needed."""
        if self._path:
            if not self._path.is_dir():
                raise _refuse(self._path, "there is no such folder")
            return self._path
        with self._fetching:
            found = find_cached(self._model, self._models, self._cache)
            return found or fetch_model(self._model, self._models, self._report, self._hub)


class _Recipe:
    """Tokenizing and pooling as the model's files configure them."""

    def __init__(self, place: Path) -> None:
        modules = _read_json(place / "modules.json", list)
        for module in (one for one in modules if isinstance(one, dict)):
            kind = str(module.get("type", "")).rpartition(".")[2]
            if kind not in _KNOWN_MODULES:
                raise _refuse(place, f"modules.json has {kind}, which is not supported")
        pooling = _read_json(place / "1_Pooling" / "config.json").items()
        modes = {key for key, on in pooling if key.startswith("pooling_mode") and on is True}
        if modes - {"pooling_mode_cls_token", "pooling_mode_mean_tokens"} or len(modes) > 1:
            raise _refuse(place, f"its pooling {', '.join(sorted(modes))} is not supported")
        self._by_first = modes == {"pooling_mode_cls_token"}
        """Whether the vector is that of the first token, not the mean of all."""
        prompts = _read_json(place / "config_sentence_transformers.json").get("prompts") or {}
        self._prompts: dict[Mode, str] = {
            "query": str(prompts.get("query") or ""),
            "passage": str(prompts.get("passage") or prompts.get("document") or ""),
        }
        self._tokenizer = _open_tokenizer(place)
        self._tokenizer.no_padding()
        length = _read_json(place / "sentence_bert_config.json").get("max_seq_length")
        length = length or _read_json(place / "tokenizer_config.json").get("model_max_length")
        usable = isinstance(length, int) and 2 < length <= _MAX_TOKENS
        self._tokenizer.enable_truncation(length if usable else _DEFAULT_TOKENS)

    def encode(self, texts: Sequence[str], mode: Mode) -> list[list[int]]:
        """The tokens of each text, with special ones."""
        prompt = self._prompts["query" if mode == "query" else "passage"]
        plain = [(prompt + text).encode("utf-8", "replace").decode() for text in texts]
        return [one.ids for one in self._tokenizer.encode_batch(plain)]

    def run(self, session: Any, batch: Sequence[Sequence[int]]) -> Vectors:
        """One vector per row of tokens."""
        ids, mask = pad_rows(batch)
        given = {"input_ids": ids, "attention_mask": mask, "token_type_ids": np.zeros_like(ids)}
        wanted = [one.name for one in session.get_inputs()]
        if unknown := set(wanted) - given.keys():
            raise EmbeddingFailed(f"the model wants {', '.join(sorted(unknown))}")
        states = run_session(session, {name: given[name] for name in wanted})[0]
        if states.ndim == 2:
            return states
        if self._by_first:
            first: Vectors = states[:, 0]
            return first
        weights = mask[:, :, None].astype(np.float32)
        mean: Vectors = (states * weights).sum(1) / np.maximum(weights.sum(1), 1e-9)
        return mean


def _open_tokenizer(place: Path) -> Any:
    try:
        from tokenizers import BertWordPieceTokenizer, Tokenizer
    except ImportError as error:
        raise MissingExtra(
            f"tokenizers cannot be imported: {error}",
            user_message="A model of your own needs the extra `model`.",
            extra="model",
        ) from error
    whole, words = place / "tokenizer.json", place / "vocab.txt"
    if not whole.is_file() and not words.is_file():
        raise _refuse(place, "there is neither tokenizer.json nor vocab.txt")
    try:
        if whole.is_file():
            return Tokenizer.from_file(str(whole))
        lower = _read_json(place / "tokenizer_config.json").get("do_lower_case", True)
        return BertWordPieceTokenizer(str(words), lowercase=bool(lower))
    except Exception as error:  # `tokenizers` raises no other class
        raise _refuse(place, f"its tokenizer cannot be read: {error}") from error


def _identify(place: Path) -> str:
    """A short hash of the configuration, and of the graph's size and ends."""
    digest = hashlib.sha256()
    for path in sorted(place.glob("*.json")) + sorted(place.glob("1_Pooling/*.json")):
        digest.update(path.name.encode() + path.read_bytes())
    for path in (place / one for one in GRAPHS):
        if path.is_file():
            size = path.stat().st_size
            with path.open("rb") as file:
                digest.update(f"{size}".encode() + file.read(_HASHED_BYTES))
                file.seek(max(0, size - _HASHED_BYTES))
                digest.update(file.read(_HASHED_BYTES))
            break
    return digest.hexdigest()[:12]


def _read_json(path: Path, kind: type = dict) -> Any:
    """The value in a JSON file; empty if it is missing or of another type."""
    try:
        found = json.loads(path.read_text("utf-8"))
    except FileNotFoundError:
        found = None
    except (OSError, ValueError) as error:
        raise _refuse(path, str(error)) from error
    return found if isinstance(found, kind) else kind()


def _refuse(place: Path, why: str) -> EmbeddingFailed:
    return EmbeddingFailed(
        f"{place}: {why}",
        user_message="The embedding model cannot be used.",
        next_action="Set `embeddingModel` to a sentence-transformers folder with an ONNX file.",
    )


@dataclass(frozen=True, slots=True)
class _File:
    path: str
    size: int
    sha256: str
    blob: str


class _BrokenError(Exception):
    """The downloaded data differ from what the hub announced."""


def is_hub_name(text: str) -> bool:
    """Whether a text is a name `owner/model`, not a path."""
    return bool(_NAME.fullmatch(text)) and ".." not in text


def find_cached(name: str, folder: Path, cache: Path | None) -> Path | None:
    """The folder of a model downloaded earlier, by sonde or by Hugging Face's tools."""
    plain = name.replace("/", "--")
    if (folder / plain).is_dir():
        return folder / plain
    if cache is None:
        return None
    theirs = cache / f"models--{plain}"
    try:
        revision = (theirs / "refs" / "main").read_text().strip()
    except (OSError, ValueError):
        return None
    found = theirs / "snapshots" / revision
    whole = _REVISION.fullmatch(revision) and any((found / graph).is_file() for graph in GRAPHS)
    return found if whole and (found / "tokenizer.json").is_file() else None


def fetch_model(
    name: str, folder: Path, report: Report, hub: str = HUB, pause_s: float = 1.0
) -> Path:
    """Download and verify a model. Returns its folder. Raises `ModelDownloadFailed`."""
    if not is_hub_name(name):
        raise InvalidRequest(
            f"{name!r} is no name of a model",
            user_message="This is not the name of a model.",
            next_action="Name a model as owner/model.",
        )
    plain = name.replace("/", "--")
    place, beside = folder / plain, folder / f".{plain}-{os.getpid()}-{time.monotonic_ns()}"
    for left in folder.glob(f".{plain}-*"):
        with contextlib.suppress(OSError):
            if time.time() - left.stat().st_mtime > _ABANDONED_S:
                shutil.rmtree(left, ignore_errors=True)
    try:
        about = json.loads(
            _try(lambda: _read(f"{hub}/api/models/{quote(name)}?blobs=true"), pause_s)
        )
        revision, files = _choose_files(about)
        total = sum(file.size for file in files)
        report(f"Downloading embedding model... (one-time, ~{max(1, round(total / 1e6))}MB)")
        show = _count(total, report)
        for file in files:
            address = f"{hub}/{quote(name)}/resolve/{revision}/{quote(file.path)}"
            target = beside / file.path
            make_folder(target.parent)
            _try(lambda at=address, to=target, one=file: _save(at, to, one, show), pause_s)  # type: ignore[misc]
        try:
            beside.rename(place)
        except OSError:
            if not place.is_dir():  # unless another process downloaded it
                raise
    except (OSError, HTTPException, *MALFORMED, _BrokenError) as error:
        raise ModelDownloadFailed(f"{type(error).__name__}: {error}") from error
    finally:
        shutil.rmtree(beside, ignore_errors=True)
    report("Done! Model cached for future use.")
    return place


def _choose_files(about: Mapping[str, Any]) -> tuple[str, Sequence[_File]]:
    """The revision of a model, and its files that are needed."""
    revision = str(about["sha"])
    if not _REVISION.fullmatch(revision):
        raise _BrokenError("the hub names no revision")
    known: dict[str, _File] = {}
    for row in about["siblings"]:
        lfs = row.get("lfs") or {}
        size = int(lfs.get("size") or row.get("size") or 0)
        path = str(row["rfilename"])
        known[path] = _File(path, size, str(lfs.get("sha256") or ""), str(row.get("blobId") or ""))
    graph = next((path for path in GRAPHS if path in known), None)
    if graph is None:
        raise _BrokenError("the model has no ONNX file (onnx/model.onnx)")
    if "tokenizer.json" not in known and "vocab.txt" not in known:
        raise _BrokenError("the model has neither tokenizer.json nor vocab.txt")
    chosen = [known[path] for path in (graph, f"{graph}_data", *_SMALL) if path in known]
    if sum(file.size for file in chosen) > _MAX_MODEL_BYTES:
        raise _BrokenError("the model is over 4 GB")
    return revision, chosen


def _count(total: int, report: Report) -> Callable[[int], None]:
    done, shown = 0, 0

    def show(more: int) -> None:
        nonlocal done, shown
        done += more
        step = min(_PROGRESS_STEPS, _PROGRESS_STEPS * done // max(total, 1))
        if shown < step < _PROGRESS_STEPS:
            report(f"Downloading embedding model... {100 * step // _PROGRESS_STEPS} %")
        shown = max(shown, step)

    return show


def _try(do: Callable[[], Any], pause_s: float) -> Any:
    for attempt in range(_TRIES):
        try:
            return do()
        except HTTPError as error:
            error.close()
            if error.code < 500 and error.code != 429:
                raise
            last: Exception = error
        except (OSError, HTTPException, _BrokenError) as error:
            last = error
        if attempt + 1 < _TRIES:
            time.sleep(pause_s * 2**attempt)
    raise last


def _read(address: str) -> bytes:
    with urlopen(address, timeout=_TIMEOUT_S) as answer:  # noqa: S310 - the rule wants http(s)
        data: bytes = answer.read(64 << 20)
    return data


def _save(address: str, target: Path, file: _File, show: Callable[[int], None]) -> None:
    """Download a file and verify its size and checksum."""
    whole = hashlib.sha256()
    git = hashlib.sha1(f"blob {file.size}\0".encode(), usedforsecurity=False)
    size = 0
    with urlopen(address, timeout=_TIMEOUT_S) as answer, target.open("wb") as out:  # noqa: S310
        while part := answer.read(_READ_AT_ONCE):
            size += len(part)
            if size > file.size:
                raise _BrokenError(f"{file.path}: more than {file.size} bytes came")
            whole.update(part)
            git.update(part)
            out.write(part)
            show(len(part))
    digest = whole if file.sha256 else git
    fits = digest.hexdigest() == (file.sha256 or file.blob)
    if size != file.size or not fits:
        show(-size)
        raise _BrokenError(f"{file.path}: the checksum does not fit")
