"""Download of a model that the user names, once, from a hub.

Files are checked against the hub's checksums (SHA-256, or Git's for small ones), and the folder
is moved into place only when it is complete.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import shutil
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from http.client import HTTPException
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.parse import quote
from urllib.request import urlopen

from sonde.embedding.services import MALFORMED
from sonde.errors import InvalidRequest, ModelDownloadFailed

HUB = "https://huggingface.co"
GRAPHS = ("onnx/model.onnx", "model.onnx")
_SMALL = (
    "config.json", "modules.json", "sentence_bert_config.json", "tokenizer.json",
    "tokenizer_config.json", "vocab.txt", "config_sentence_transformers.json",
    "1_Pooling/config.json",
)  # fmt: skip
_NAME = re.compile(r"[A-Za-z0-9][\w.-]{0,95}/[A-Za-z0-9][\w.-]{0,95}")
_REVISION = re.compile(r"[0-9a-f]{7,64}")
_MAX_MODEL_BYTES = 4 << 30
_READ_AT_ONCE = 1 << 18
_TIMEOUT_S = 30.0
_TRIES = 3
_PROGRESS_STEPS = 10
_ABANDONED_S = 24 * 3600.0
"""A partial download older than this was killed."""

Report = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class _File:
    path: str
    size: int
    sha256: str
    blob: str


class _BrokenError(Exception):
    """The answer is not what the hub announced."""


def is_hub_name(text: str) -> bool:
    """Whether this is `owner/model`, not a path."""
    return bool(_NAME.fullmatch(text)) and ".." not in text


def find_cached(name: str, folder: Path, cache: Path | None) -> Path | None:
    """The folder of a model that was downloaded before, by us or by Hugging Face's own tools."""
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
    """Download and check a model. Returns its folder; raises `ModelDownloadFailed`."""
    if not is_hub_name(name):
        raise InvalidRequest(f"{name!r} is no name of a model", user_message="Name a model: a/b.")
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
            target.parent.mkdir(parents=True, exist_ok=True)
            _try(lambda at=address, to=target, one=file: _save(at, to, one, show), pause_s)  # type: ignore[misc]
        try:
            beside.rename(place)
        except OSError:
            if not place.is_dir():  # else another process was faster
                raise
    except (OSError, HTTPException, *MALFORMED, _BrokenError) as error:
        raise ModelDownloadFailed(f"{type(error).__name__}: {error}") from error
    finally:
        shutil.rmtree(beside, ignore_errors=True)
    report("Done! Model cached for future use.")
    return place


def _choose_files(about: Mapping[str, Any]) -> tuple[str, Sequence[_File]]:
    """The revision, and the files of it that embedding needs."""
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
    """Download a file and check its size and checksum."""
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
