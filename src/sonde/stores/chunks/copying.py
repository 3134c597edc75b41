"""Copies of the stores of an index, taken while other processes read and write them."""

from __future__ import annotations

import shutil
from pathlib import Path

import apsw

from sonde.errors import IndexCorrupt, SondeError
from sonde.stores.chunks.tables import CHUNK_FORMAT, read_state
from sonde.stores.database import translate_errors

STEMS = ("index", "docs")
_ATTEMPTS = 3


def copy_stores(source: Path, target: Path, name: str) -> bool:
    """Copy both stores of a backend into a folder that has none.

    Returns false when there is nothing to copy, or it keeps changing. Modification times are
    reset, because the files of the copy are others, which must be read before they are trusted.
    """
    suffixes = (".db", ".vectors") if name == "sqlite" else (".lance.db", ".lancedb")
    if any((target / f"{stem}{suffixes[0]}").exists() for stem in STEMS):
        return False
    temporary = target / "seed.tmp"
    shutil.rmtree(temporary, ignore_errors=True)
    try:
        with translate_errors(target):
            temporary.mkdir(parents=True)
            whole = all(_copy_store(source, temporary, stem, *suffixes) for stem in STEMS)
            # databases last: files without one are ignored
            for suffix in reversed(suffixes) if whole else ():
                for stem in STEMS:
                    made = temporary / f"{stem}{suffix}"
                    if made.exists():
                        _move(made, target)
        return whole
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def _move(path: Path, folder: Path) -> None:
    there = folder / path.name
    if there.is_dir():
        shutil.rmtree(there)
    path.replace(there)


def _copy_store(source: Path, target: Path, stem: str, database: str, vectors: str) -> bool:
    """Copy one store; retried if it was changed meanwhile."""
    path, copied = source / f"{stem}{database}", target / f"{stem}{database}"
    if not path.is_file():
        return False
    for _ in range(_ATTEMPTS):
        try:
            with translate_errors(path):
                generation = _copy_database(path, copied)
                _copy_folder(source / f"{stem}{vectors}", target / f"{stem}{vectors}")
                if _read_generation(path) == generation:
                    return True
        except SondeError:
            continue  # something was moved or removed in between
    return False


def _copy_folder(source: Path, target: Path) -> None:
    shutil.rmtree(target, ignore_errors=True)
    if source.is_dir():
        shutil.copytree(source, target, copy_function=shutil.copyfile)


def _copy_database(source: Path, target: Path) -> int:
    target.unlink(missing_ok=True)
    original = apsw.Connection(str(source), flags=apsw.SQLITE_OPEN_READONLY)
    copy = apsw.Connection(str(target))
    try:
        with copy.backup("main", original, "main") as backup:
            backup.step()
        if copy.pragma("application_id") != CHUNK_FORMAT.application_id or (
            copy.pragma("user_version") != CHUNK_FORMAT.version
        ):
            raise IndexCorrupt(f"{source} has another format")
        copy.execute("PRAGMA journal_mode = DELETE; PRAGMA synchronous = FULL")
        copy.execute("UPDATE files SET mtime_ns = 0")
        return read_state(copy, "generation")
    finally:
        copy.close()
        original.close()


def _read_generation(path: Path) -> int:
    connection = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY)
    try:
        return read_state(connection, "generation")
    finally:
        connection.close()
