"""The JSON files of a project's index, as the RFC names them."""

from __future__ import annotations

import contextlib
import hashlib
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, astuple, dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TypeVar

from sonde.errors import SondeError
from sonde.policy.roots import detect_root
from sonde.stores.files import read_json, refuse_newer, write_json
from sonde.types import FileState, Kind, StoreCounts
from sonde.values import to_snake

VERSION = "1.0.0"  # what `metadata.json` gives as the version of the stored format
_FINGERPRINTS: Mapping[Kind, str] = {"code": "fingerprints.json", "docs": "docs-fingerprints.json"}
_CODE_COUNTS = ("totalFiles", "totalChunks", "storageSizeBytes")
_DOCS_COUNTS = ("totalDocs", "totalDocChunks", "docsStorageSizeBytes")
_TEXTS = ("projectPath", "createdAt", "store", "recipe")
_TIMES = ("lastFullIndex", "lastIncrementalUpdate", "lastDocsIndex")
_OTHERS = ("generation", "skippedExamples")
"""Keys of `metadata.json` whose snake_case is a field of `Metadata`."""
_HASH = re.compile(r"[0-9a-f]{64}")
_EMPTY = StoreCounts(files=0, chunks=0, bytes=0)
T = TypeVar("T")
Json = Mapping[str, object]  # an object of a JSON file, before it is checked
Refusals = dict[str, tuple[int, str, str]]  # refused files: path -> stamp, reason, detail
_CHECKS_FILE = "integrity.json"
LEADER_FILE = "watcher.json"
_REPAIRED = ("changed", "missing", "gone", "broken", "strays", "vectors")


def project_folder(home: Path, root: Path) -> Path:
    """The folder of a project's index, named by a hash of its real path; old short names stay."""
    real = str(root.resolve()).encode("utf-8", "surrogateescape")
    digest = hashlib.sha256(real).hexdigest()
    folder, legacy = home / "indexes" / digest[:32], home / "indexes" / digest[:16]
    return legacy if legacy.is_dir() and not folder.is_dir() else folder


def list_recorded(home: Path) -> Iterator[tuple[Path, Path]]:
    """The folder of every index, and the recorded root of its project."""
    for path in sorted((home / "indexes").glob("*/metadata.json")):
        with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
            yield path.parent, Path((read_json(path) or {})["projectPath"])


def has_index(home: Path, root: Path) -> bool:
    """Whether the project at this root has an index, complete or not."""
    return (project_folder(home, root) / "metadata.json").exists()


def find_config(home: Path, start: Path) -> Path | None:
    """The path of `config.json` of the project around a folder; None outside of projects."""
    marked = None
    with contextlib.suppress(OSError, SondeError):
        marked = detect_root(start)
    with contextlib.suppress(OSError):
        for above in (start, *start.parents):
            folder = project_folder(home, above)
            if above == marked or (folder / "metadata.json").exists():
                return folder / "config.json"
    return None


@dataclass(frozen=True, slots=True)
class Metadata:
    """The contents of `metadata.json`; times are ISO 8601 in UTC."""

    project_path: str
    created_at: str = ""
    store: str = "sqlite"
    last_full_index: str | None = None
    last_incremental_update: str | None = None
    last_docs_index: str | None = None
    code: StoreCounts = _EMPTY
    docs: StoreCounts = _EMPTY
    generation: int = 0  # of both stores together, as of this file
    recipe: str = ""  # the version and settings of chunking
    skipped: Mapping[str, int] = field(default_factory=dict)
    skipped_examples: tuple[Mapping[str, str], ...] = ()

    @property
    def last_updated(self) -> str | None:
        """When the index last changed."""
        return self.last_incremental_update or self.last_full_index

    @property
    def total_files(self) -> int:
        """Files of code and docs."""
        return self.code.files + self.docs.files

    @property
    def total_chunks(self) -> int:
        """Chunks of code and docs."""
        return self.code.chunks + self.docs.chunks


def _drop_progress(value: Json) -> Json:
    """Format 0 has fingerprints but no tables, so the project must be indexed again."""
    return {key: value[key] for key in ("projectPath", "createdAt") if key in value}


_STEPS: tuple[Callable[[Json], Json], ...] = (_drop_progress,)
"""Step n turns format n into n + 1; a released step never changes."""


def save_metadata(folder: Path, metadata: Metadata) -> None:
    """Write `metadata.json`."""
    known = {key: getattr(metadata, to_snake(key)) for key in (*_TEXTS, *_TIMES, *_OTHERS)}
    counts = {
        "stats": dict(zip(_CODE_COUNTS, astuple(metadata.code), strict=True)),
        "docsStats": dict(zip(_DOCS_COUNTS, astuple(metadata.docs), strict=True)),
    }
    head = {"version": VERSION, "formatVersion": len(_STEPS)}
    write_json(
        folder / "metadata.json", head | known | {"skipped": dict(metadata.skipped)} | counts
    )


_read_before: dict[Path, tuple[tuple[int, ...], Metadata]] = {}
"""Cache of `load_metadata` by path, with the file's stamp: every search loads it three times."""


def load_metadata(folder: Path) -> Metadata | None:
    """The contents of `metadata.json`, upgraded from an older format; None if there are none."""
    path = folder / "metadata.json"
    stamp = _stamp(path)
    known, metadata = _read_before.get(path, (None, None))
    if stamp is None or known != stamp:
        _read_before.pop(path, None)
        metadata = _read_metadata(path)
        if stamp and metadata:  # a failure may be temporary
            _read_before[path] = stamp, metadata
    return metadata


def _read_metadata(path: Path) -> Metadata | None:
    value = _load_object(path)
    if not _get(value, "projectPath", str):
        return None
    found = _number(value, "formatVersion")
    major = _get(value, "version", str).split(".")[0]
    by_version = int(major) if major.isascii() and major.isdigit() else 0
    refuse_newer(path, max(found, by_version), len(_STEPS))
    for step in _STEPS[found:]:
        value = step(value)
    skipped = _get(value, "skipped", dict)
    texts = {to_snake(key): _get(value, key, str) for key in (*_TEXTS, *_TIMES)}
    metadata = Metadata(
        **{name: text for name, text in texts.items() if text},
        code=_counts(value, "stats", _CODE_COUNTS),
        docs=_counts(value, "docsStats", _DOCS_COUNTS),
        generation=_number(value, "generation"),
        skipped={reason: _number(skipped, reason) for reason in skipped},
        skipped_examples=tuple(
            {str(key): str(text) for key, text in each.items()}
            for each in _get(value, "skippedExamples", list)
            if isinstance(each, dict)
        ),
    )
    if found < len(_STEPS):
        # in a read-only home, the upgrade is repeated every time
        with contextlib.suppress(SondeError):
            save_metadata(path.parent, metadata)
    return metadata


def save_fingerprints(folder: Path, kind: Kind, files: Mapping[str, FileState]) -> None:
    """Write the hashes of the indexed files, by path."""
    hashes = {path: files[path].hash for path in sorted(files)}
    write_json(folder / _FINGERPRINTS[kind], hashes)


def load_fingerprints(folder: Path, kind: Kind) -> dict[str, str]:
    """The valid hashes of indexed files, by path."""
    pairs = _load_object(folder / _FINGERPRINTS[kind]).items()
    return {path: h for path, h in pairs if path and isinstance(h, str) and _HASH.fullmatch(h)}


def save_dirty(
    folder: Path, paths: Collection[str], heads: Mapping[str, str] | None = None
) -> None:
    """Write the files that wait to be indexed, and the commits of the repositories."""
    value = {"formatVersion": 1, "files": sorted(paths), "heads": dict(heads or {})}
    write_json(folder / "dirty-files.json", value)


def load_dirty(folder: Path) -> set[str]:
    """The files that wait to be indexed."""
    value = _load_versioned(folder / "dirty-files.json")
    return {each for each in _get(value, "files", list) if isinstance(each, str) and each}


def load_heads(folder: Path) -> dict[str, str]:
    """Repository -> its commit when its files were last indexed."""
    heads = _get(_load_object(folder / "dirty-files.json"), "heads", dict)
    return {name: head for name, head in heads.items() if isinstance(head, str)}


def load_leader(folder: Path) -> dict[str, object]:
    """The state that the process watching a project has written."""
    return {"watching": "starting"} | dict(_load_object(folder / LEADER_FILE))


def save_refused(folder: Path, refused: Refusals) -> None:
    """Write the refused files with their stamps."""
    files = {path: list(refused[path]) for path in sorted(refused)}
    write_json(folder / "refused-files.json", {"formatVersion": 1, "files": files})


def load_refused(folder: Path) -> Refusals:
    """Refused files by path, to be read again once their stamps change."""
    found: Refusals = {}
    for name, fact in _get(_load_versioned(folder / "refused-files.json"), "files", dict).items():
        match fact:
            case [int(stamp), str(reason), *rest]:
                found[name] = (stamp, reason, "".join(map(str, rest)))
    return found


def stamp_refused(folder: Path) -> tuple[int, ...] | None:
    """A stamp that changes whenever the result of `load_refused` does."""
    return _stamp(folder / "refused-files.json")


def _stamp(path: Path) -> tuple[int, ...] | None:
    """Values that change with a file; None if it is missing."""
    try:
        facts = path.stat()
    except OSError:
        return None
    return facts.st_ino, facts.st_size, facts.st_mtime_ns, facts.st_ctime_ns


def _load_object(path: Path) -> Json:
    """The object in a JSON file; empty if the file is missing or torn."""
    value = read_json(path)
    return value if isinstance(value, dict) else {}


def _load_versioned(path: Path) -> Json:
    """A JSON object of format 1; empty when there is none."""
    value = _load_object(path)
    refuse_newer(path, _number(value, "formatVersion"), 1)
    return value


def _get(value: Json, key: str, kind: type[T]) -> T:
    """The value of a key if it is of this kind, else an empty one."""
    found = value.get(key)
    return found if isinstance(found, kind) else kind()


def _number(value: Json, key: str) -> int:
    found = value.get(key)
    return found if isinstance(found, int) and not isinstance(found, bool) and found > 0 else 0


def _counts(value: Json, key: str, names: Sequence[str]) -> StoreCounts:
    return StoreCounts(*(_number(_get(value, key, dict), name) for name in names))


@dataclass(frozen=True, slots=True)
class Findings:
    """What one check of an index found and repaired."""

    files: int = 0  # how many were compared
    changed: int = 0  # files whose content is not what is indexed
    missing: int = 0  # files that should be indexed and were not
    gone: int = 0  # indexed files that are no longer there, or no longer admitted
    broken: int = 0  # files whose chunks, words, names or trigrams were not as written
    strays: int = 0  # rows of the index that belonged to no file
    vectors: int = 0  # vectors that were lost or damaged
    thorough: bool = False
    seconds: float = 0.0

    @property
    def drift(self) -> int:
        """Everything that was not as it should be."""
        return self.changed + self.missing + self.gone + self.broken + self.strays + self.vectors

    def as_dict(self) -> dict[str, object]:
        """The shape every surface shows."""
        return {**asdict(self), "seconds": round(self.seconds, 1)}


def is_check_due(folder: Path, age: timedelta, *, thorough: bool = False) -> bool:
    """Whether the last check, or the last `thorough` one, is at least this old."""
    stamp = _load_object(folder / _CHECKS_FILE).get("lastThorough" if thorough else "lastCheck")
    with contextlib.suppress(ValueError, TypeError):
        # in the future if the clock was set back
        return abs(datetime.now(UTC) - datetime.fromisoformat(str(stamp))) >= age
    return True


def describe_checks(folder: Path) -> dict[str, object]:
    """When the index was last checked, with findings of that check and of all; may be empty."""
    known = _load_object(folder / _CHECKS_FILE)
    kept = ("lastCheck", "lastThorough", "checks", "rebuilt", "repaired", "last")
    return {key: known[key] for key in kept if key in known}


def record_check(folder: Path, findings: Findings, *, rebuilt: bool = False) -> None:
    """Add what a check found to the record."""
    past = _load_object(folder / _CHECKS_FILE)
    now = stamp_now()
    facts = asdict(findings)
    total = _get(past, "repaired", dict)
    write_json(
        folder / _CHECKS_FILE,
        {
            "formatVersion": 1,
            "lastCheck": now,
            "lastThorough": now if findings.thorough else past.get("lastThorough"),
            "checks": _number(past, "checks") + 1,
            "rebuilt": _number(past, "rebuilt") + rebuilt,
            "repaired": {name: _number(total, name) + facts[name] for name in _REPAIRED},
            "last": {name: facts[name] for name in ("files", *_REPAIRED)}
            | {"seconds": round(findings.seconds, 1)},
        },
    )


def stamp_now() -> str:
    """The current time in the form of the records."""
    return datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
