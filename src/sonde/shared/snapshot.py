"""Snapshots of an index: its files as blocks, each stored once and verified when read.

A database or vector file changes in few places between commits. Files are split into blocks of a
fixed size, named by their digest. A push stores the blocks that its base commit lacks, compressed,
in one table (a pack). A snapshot lists its blocks and the packs that hold them. If there are too
many packs, or they are mostly unused, all blocks are written into a new one.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import zlib
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path

from sonde.errors import IndexCorrupt
from sonde.runtime.private import make_folder
from sonde.runtime.work import Work
from sonde.shared.manifest import unpacking
from sonde.shared.tables import SharedTables
from sonde.stores.files import translate_os_errors
from sonde.types import Progress

BLOCK = 64 << 10  # bytes: a changed page costs little, and a block still compresses well
_MOST_PACKS = 12  # of one snapshot: each costs some requests
_LEAST_USED = 0.5  # the share of a snapshot's packs that it must need
_BLOCKS_AT_ONCE = 512  # compressed in memory before they are written: 32 MB at most
_DATABASES = ("index.db", "docs.db")
_FOLDERS = ("index.vectors", "docs.vectors")
_PATHS = (*_DATABASES, *_FOLDERS)
_PLAIN = re.compile(r"[\w-][\w.-]{0,199}", re.ASCII)  # of a file of vectors
_MAX_BYTES = 64 << 30  # of one file: a size beyond it is no index


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The blocks of each file in order, and what is in each pack."""

    files: Mapping[str, tuple[int, tuple[str, ...]]] = field(default_factory=dict)
    """Path in the index folder -> size and blocks."""
    packs: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def pack(self) -> bytes:
        """The snapshot as a commit's row holds it."""
        value = {"files": dict(self.files), "packs": dict(self.packs)}
        return zlib.compress(json.dumps(value).encode())

    @classmethod
    def unpack(cls, data: bytes) -> Snapshot:
        """A snapshot from a commit's row; raises `IndexCorrupt`."""
        with unpacking(data, "a snapshot") as value:
            rows = value["files"].items()
            files = {str(path): (int(size), tuple(map(str, held))) for path, (size, held) in rows}
            packs = {str(name): tuple(map(str, held)) for name, held in value["packs"].items()}
        if any(
            not _is_ours(path) or not 0 <= size <= _MAX_BYTES for path, (size, _) in files.items()
        ):
            raise IndexCorrupt("a snapshot names files that are no part of an index")
        return cls(files, packs)


def _is_ours(path: str) -> bool:
    folder, _, name = path.rpartition("/")
    return path in _DATABASES or (folder in _FOLDERS and _PLAIN.fullmatch(name) is not None)


def _list_files(folder: Path) -> Iterator[str]:
    yield from (name for name in _DATABASES if (folder / name).is_file())
    for name in _FOLDERS:
        yield from sorted(f"{name}/{path.name}" for path in (folder / name).glob("*"))


def _cut(folder: Path, path: str) -> Iterator[bytes]:
    """The blocks of a file; the last one is padded, because unpacking must know the length."""
    with (folder / path).open("rb") as file:
        while block := file.read(BLOCK):
            yield block.ljust(BLOCK, b"\0")


def _name_block(block: bytes) -> str:
    return hashlib.sha256(block).hexdigest()[:32]


def save_snapshot(
    tables: SharedTables, folder: Path, before: Snapshot, name: str, work: Work
) -> tuple[Snapshot, int]:
    """Store an index folder that nobody writes to. Returns its snapshot and the bytes written."""
    with translate_os_errors(folder):
        files = {
            path: ((folder / path).stat().st_size, tuple(map(_name_block, _cut(folder, path))))
            for path in _list_files(folder)
        }
        needed = {block for _, blocks in files.values() for block in blocks}
        kept = {pack: held for pack, held in before.packs.items() if needed & set(held)}
        stored = {block for held in kept.values() for block in held}
        if len(kept) >= _MOST_PACKS or len(needed & stored) < _LEAST_USED * len(stored):
            kept, stored = {}, set()
        fresh, done, written = needed - stored, 0, 0
        packed = _pack_blocks(folder, files, fresh)
        while part := list(islice(packed, _BLOCKS_AT_ONCE)):
            tables.add(name, part)
            done, written = done + len(part), written + sum(len(data) for _, data in part)
            work.report(Progress("pushing", done, len(fresh)))
    packs = {**kept, name: tuple(sorted(fresh))} if fresh else kept
    return Snapshot(files, packs), written


def _pack_blocks(
    folder: Path, paths: Iterable[str], fresh: Collection[str]
) -> Iterator[tuple[str, bytes]]:
    import pyarrow as pa

    left = set(fresh)
    for block in (block for path in paths for block in _cut(folder, path)):
        if (digest := _name_block(block)) in left:
            left.discard(digest)
            yield digest, pa.compress(block, "zstd", asbytes=True)


def load_snapshot(
    tables: SharedTables, snapshot: Snapshot, folder: Path, work: Work, seed: Path | None
) -> None:
    """Write the files of a snapshot into a folder.

    Blocks that `seed`, the folder of a similar index, has are taken from there. Raises
    `IndexCorrupt` if a block is missing or is not as it was written; nothing is there then.
    """
    from sonde.stores.chunks.integrity import require_schema

    temporary = folder / "fill.tmp"
    with translate_os_errors(folder):
        shutil.rmtree(temporary, ignore_errors=True)
        make_folder(temporary)
        try:
            _restore(tables, snapshot, temporary, work, seed)
            for path in snapshot.files.keys() & {*_DATABASES}:
                require_schema(temporary / path)
            # databases last: files without one are ignored
            for path in reversed(_PATHS):
                if (temporary / path).exists():
                    if (folder / path).is_dir():
                        shutil.rmtree(folder / path)
                    (temporary / path).replace(folder / path)
        finally:
            shutil.rmtree(temporary, ignore_errors=True)


def _restore(
    tables: SharedTables, snapshot: Snapshot, target: Path, work: Work, seed: Path | None
) -> None:
    places: dict[str, list[tuple[Path, int]]] = {}  # of blocks that are not written yet
    for path, (_, blocks) in snapshot.files.items():
        make_folder((target / path).parent)
        (target / path).touch(0o600)
        for number, block in enumerate(blocks):
            places.setdefault(block, []).append((target / path, number * BLOCK))

    total = len(places)
    for digest, data in _list_blocks(tables, snapshot.packs, places, seed):
        for file_path, at in places.pop(digest):
            with file_path.open("r+b") as file:
                file.seek(at)
                file.write(data)
        work.report(Progress("fetching", total - len(places), total))
    if places:
        raise IndexCorrupt(f"{len(places)} blocks of the snapshot are missing")
    for path, (size, _) in snapshot.files.items():
        os.truncate(target / path, size)


def _list_blocks(
    tables: SharedTables,
    packs: Mapping[str, Collection[str]],
    wanted: Collection[str],
    seed: Path | None,
) -> Iterator[tuple[str, bytes]]:
    """The wanted blocks, from the seed and then from packs."""
    if seed:
        for data in (block for path in _list_files(seed) for block in _cut(seed, path)):
            if (digest := _name_block(data)) in wanted:
                yield digest, data
    for pack, held in packs.items():
        needed = any(block in wanted for block in held)
        for row in tables.read_rows(pack, ["digest", "data"]) if needed else ():
            if (digest := row["digest"]) in wanted:
                if _name_block(data := _unpack_block(row["data"])) != digest:
                    raise IndexCorrupt(f"block {digest} is not as it was written")
                yield digest, data


def _unpack_block(packed: bytes) -> bytes:
    import pyarrow as pa

    try:
        return bytes(pa.decompress(packed, BLOCK, "zstd", asbytes=True))
    except (OSError, ValueError) as error:
        raise IndexCorrupt(f"a block cannot be unpacked: {error}") from error
