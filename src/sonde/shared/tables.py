"""The Lance tables of a shared index: addresses, schemas, retries and errors.

| table | one row for each |
|---|---|
| `refs` | branch of a repository: the commit it is at |
| `commits` | pushed commit: its files, and the snapshot of its index |
| `texts` | content of a file |
| `files` | path and content, under one recipe: what is defined there, names, trigrams |
| `chunks` | chunk of such a file: its text and words |
| `vectors_<model>` | chunk's text that was embedded |
| `pack_<time>_<name>` | block of snapshots; one table for each push |

Rows are addressed by content and only added, so pushes do not disturb each other. A push writes
everything else before the row of its commit, and moves the branch last.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import timedelta
from operator import methodcaller
from pathlib import Path
from typing import Any

from sonde.errors import (
    DiskFull,
    IndexTooNew,
    InvalidRequest,
    SharedIndexMissing,
    SharedIndexRefused,
    SharedIndexUnreachable,
)

FORMAT = 1
"""The layout of all tables; an empty table `format_1` says which one it is."""
_REMOTE = re.compile(r"(?:s3|gs|az)://[^/\s]+(?:/\S*)?")
_OPTIONS = {
    "connect_timeout": "5s",
    "timeout": "60s",  # of one request: a block of some MB over a slow line
    "client_retry_timeout": "20",  # in seconds; longer means that it is down
}
"""How patient the client of an object store is."""
_LONGEST_READ = timedelta(minutes=15)  # Lance 13 can lose a wake-up and then waits for ever
_REFUSALS = re.compile(
    r"\b40[13]\b|forbidden|access ?denied|unauthori[sz]ed|signature|invalidaccesskey|credential",
    re.IGNORECASE,
)
_NO_BUCKET = re.compile(r"nosuchbucket|bucket not found|container ?not ?found", re.IGNORECASE)
_CONFLICT = re.compile("conflict|too many concurrent writers", re.IGNORECASE)
_FULL = re.compile(r"no space left|quota exceeded|os error 28", re.IGNORECASE)
_ATTEMPTS = 8  # of a change that meets another one: each of them sees the table as it is then
_MANY = 4  # rows for each that is wanted, up to which reading all of them takes fewer requests
_AMONG = 1_000  # values in one condition: longer ones are slow to parse
LEAST_ROWS = {"key": 1_000, "words": 200, "vector": 20_000}
"""With fewer rows, reading all of them is as fast as an index of that kind."""


def name_place(url: str) -> str:
    """The address to open: the absolute path of a folder, or the URL of an object store."""
    if _REMOTE.fullmatch(url):
        return url.rstrip("/")
    if "://" in url.removeprefix("file://"):
        raise InvalidRequest(
            f"url={url!r}",
            user_message=f"'{url}' is no address of a shared index.",
            next_action="Name a folder, or s3://bucket/path, gs://bucket/path, az://container/path.",
        )
    return str(Path(url.removeprefix("file://")).expanduser().absolute())


class SharedTables:
    """The tables at one address, each opened on first use."""

    def __init__(self, url: str, *, create: bool = False) -> None:
        from sonde.stores.chunks.lance_tables import load_lance  # numpy is slow to import

        lancedb = load_lance()
        self.url = url
        place = name_place(url)
        self._remote = "://" in place
        if not self._remote and not (Path(place).parent if create else Path(place)).is_dir():
            raise SharedIndexMissing(f"{place} is no folder", url=url)
        with self.translating():
            # the first look is impatient: without the network, the answer comes at once
            for retries in ("2", "6") if self._remote else ("0",):
                self._database = lancedb.connect(
                    place,
                    read_consistency_interval=timedelta(0),
                    storage_options={**_OPTIONS, "client_max_retries": retries},
                )
        self._opened: dict[str, Any] = {}
        self._require_format(create=create)

    @contextlib.contextmanager
    def translating(self) -> Iterator[None]:
        """Turn errors of Lance and of the object store into ours."""
        try:
            yield
        except (RuntimeError, ValueError, OSError) as error:
            text = str(error)
            if _FULL.search(text):
                raise DiskFull(text) from error
            if _NO_BUCKET.search(text):
                raise SharedIndexMissing(
                    text,
                    user_message="There is no bucket or container for '{url}'.",
                    next_action="Check the address, or make the bucket.",
                    url=self.url,
                ) from error
            if self._remote and _REFUSALS.search(text):
                raise SharedIndexRefused(text, url=self.url) from error
            raise SharedIndexUnreachable(text, url=self.url) from error

    def list_names(self) -> set[str]:
        """The names of all tables."""
        names: list[str] = []
        token = None
        with self.translating():
            while True:
                page = self._database.list_tables(page_token=token, limit=_AMONG)
                names += page.tables
                token = page.page_token
                if not token:
                    return set(names)

    def _require_format(self, *, create: bool) -> None:
        """Raise unless there is an index that this version can read; with `create`, make one."""
        names = self.list_names()
        formats = {int(name[7:]) for name in names if re.fullmatch(r"format_\d{1,9}", name)}
        if max(formats, default=0) > FORMAT:
            found = max(formats)
            raise IndexTooNew(
                f"{self.url} has format {found}, this version of sonde reads up to {FORMAT}",
                user_message="The shared index was written by a newer version of sonde.",
                next_action="Upgrade sonde; local indexes work without it.",
            )
        if not formats:
            if not create:
                raise SharedIndexMissing(f"no table format_{FORMAT} there", url=self.url)
            for name in SCHEMAS:
                self.open(name, create=True)
            self.open(f"format_{FORMAT}", create=True)

    def open(self, name: str, *, create: bool = False, dimensions: int = 0) -> Any:
        """A table; None if there is none, unless it is to be created."""
        if name not in self._opened:
            with self.translating():
                table = self._find(name)
                if table is None and create:
                    table = self._create(name, dimensions)
            if table is None:
                return None
            self._opened[name] = table
        return self._opened[name]

    def _find(self, name: str) -> Any:
        try:
            return self._database.open_table(name)
        except ValueError as error:
            if "was not found" not in str(error):
                raise
            return None

    def _create(self, name: str, dimensions: int) -> Any:
        schema = _make_schema(name, dimensions)
        try:
            return self._database.create_table(name, schema=schema, exist_ok=True)
        except (RuntimeError, ValueError, OSError) as error:
            if not is_conflict(error):
                raise
            return self._find(name)  # another push has just made it

    def change(self, name: str, action: Callable[[Any], object]) -> None:
        """Change a table, if it exists; retry if another writer was faster."""
        table = self.open(name)
        for left in reversed(range(_ATTEMPTS if table is not None else 0)):
            try:
                with self.translating():
                    action(table)
                return
            except SharedIndexUnreachable as error:
                if not left or not is_conflict(error):
                    raise

    def add(self, name: str, rows: Sequence[Sequence[Any]]) -> None:
        """Append rows, whose values come in the order of the columns; a vector comes last."""
        size = len(rows[0][-1]) if name.startswith("vectors_") else 0
        self.open(name, create=True, dimensions=size)
        data = _make_table(name, rows, size)
        self.change(name, lambda table: table.add(data))

    def put(self, name: str, keys: Sequence[str], row: Sequence[Any]) -> None:
        """Insert a row, or replace the one with the same keys; safe with concurrent writers."""
        data = _make_table(name, [row], 0)
        self.change(
            name,
            lambda table: (
                table.merge_insert(list(keys))
                .when_matched_update_all()
                .when_not_matched_insert_all()
                .execute(data)
            ),
        )

    def read(self, name: str, columns: Sequence[str], where: str = "") -> Iterator[Any]:
        """Rows as record batches, in the order they were written."""
        table = self.open(name)
        if table is None:
            return
        with self.translating():
            query = table.search()
            if where:
                query = query.where(where)
            yield from query.select(list(columns)).limit(None).to_batches(timeout=_LONGEST_READ)

    def read_rows(self, name: str, columns: Sequence[str], where: str = "") -> Iterator[Any]:
        """Rows one by one, as mappings."""
        for batch in self.read(name, columns, where):
            yield from batch.to_pylist()

    def read_among(
        self, name: str, columns: Sequence[str], key: str, values: Iterable[str]
    ) -> Iterator[Any]:
        """The rows whose key is one of these values."""
        wanted, table = set(values), self.open(name)
        many = len(wanted) > _AMONG and table is not None
        if many and len(wanted) * _MANY > table.count_rows():
            yield from (row for row in self.read_rows(name, columns) if row[key] in wanted)
            return
        for condition in split_among(key, wanted):
            yield from self.read_rows(name, columns, condition)

    def read_column(self, name: str, key: str, where: str = "") -> set[str]:
        """The different values of a column."""
        return {v for batch in self.read(name, [key], where) for v in batch[key].to_pylist()}

    def touch(self, name: str, key: str, values: Iterable[str], now_ms: int) -> None:
        """Mark rows as needed now, so that no cleanup removes them before a commit names them."""
        for where in split_among(key, values):
            self.change(name, methodcaller("update", where=where, values={"seen_ms": now_ms}))

    def optimize(self, name: str, *, kept: timedelta) -> None:
        """Compact, update indexes, and remove versions older than `kept`."""
        self.change(name, lambda table: table.optimize(cleanup_older_than=kept))

    def maintain(self, name: str, least: Mapping[str, int] = LEAST_ROWS) -> None:
        """Create the indexes of a table, or update them once they lag behind."""
        wanted = INDEXES.get(name) or INDEXES.get(name.partition("_")[0], {})
        table = self.open(name) if wanted else None
        if table is None:
            return
        with self.translating():
            rows = int(table.count_rows())
            made = {index.columns[0]: index.name for index in table.list_indices()}

            def lags(column: str) -> bool:
                left = table.index_stats(made[column]).num_unindexed_rows
                return bool(left > max(_LEAST_TAIL, rows * _MOST_TAIL))

            if any(map(lags, made)):
                self.optimize(name, kept=_KEPT_VERSIONS)
            for column, kind in wanted.items():
                # one that still lags is damaged: concurrent pushes can do that
                if lags(column) if column in made else rows >= least[kind]:
                    table.create_index(column, config=_choose_index(kind))

    def drop(self, name: str) -> None:
        """Remove a whole table, which is there."""
        self._opened.pop(name, None)
        with self.translating():
            self._database.drop_table(name)


def is_conflict(error: Exception) -> bool:
    """Whether an error is a conflict with a concurrent change of the same table."""
    return _CONFLICT.search(str(error)) is not None


def split_among(key: str, values: Iterable[str]) -> Iterator[str]:
    """Conditions `key IN (…)` over these texts, each short enough to be parsed."""
    wanted = list(values)
    for start in range(0, len(wanted), _AMONG):
        yield f"{key} IN ({', '.join(map(quote_text, wanted[start : start + _AMONG]))})"


def quote_text(text: str) -> str:
    """A text as an SQL literal."""
    return "'" + text.replace("'", "''") + "'"


_LEAST_TAIL, _MOST_TAIL = 2_000, 0.3
"""Rows beyond an index, in number and as a share, that are not worth writing it again."""
_KEPT_VERSIONS = timedelta(days=1)  # a reader that is on an older version has long finished
INDEXES: Mapping[str, Mapping[str, str]] = {
    "texts": {"digest": "key"},
    "files": {"key": "key", "names": "words", "imports": "words", "grams": "words"},
    "chunks": {"file": "key", "path_words": "words", "name_words": "words", "words": "words"},
    "vectors": {"digest": "key", "vector": "vector"},
}
"""The indexed columns of each table, and how."""


def _choose_index(kind: str) -> Any:
    from lancedb.index import FTS, BTree, IvfRq

    if kind == "key":
        return BTree()
    if kind == "vector":
        return IvfRq(distance_type="dot")
    # terms come split and folded: the tokenizer only has to look for spaces
    off = ("lower_case", "stem", "remove_stop_words", "ascii_folding")
    options: Any = {**dict.fromkeys(off, False), "max_token_length": None}
    return FTS(base_tokenizer="whitespace", **options)


SCHEMAS: Mapping[str, str] = {
    "refs": "repository branch commit pushed_ms:int is_default:bool",
    "commits": "repository commit pushed_ms:int recipe models files:int chunks:int"
    " manifest:blob snapshot:blob",
    "texts": "digest seen_ms:int data:bytes",
    "files": "key path hash size:int language kind symbols tags names imports grams seen_ms:int",
    "chunks": "file place:int start_line:int end_line:int start_byte:int end_byte:int digest"
    " symbol header text path_words name_words words seen_ms:int",
}
"""The columns of each table; texts unless they say otherwise."""
_OTHERS = {"vectors": "digest seen_ms:int vector:vector", "pack": "digest data:blob", "format": "x"}


def _make_schema(name: str, dimensions: int = 0) -> Any:
    import pyarrow as pa

    kinds = {"": pa.string(), "int": pa.int64(), "bool": pa.bool_(), "blob": pa.large_binary()}
    kinds |= {"bytes": pa.large_binary(), "vector": pa.list_(pa.float16(), dimensions)}
    columns = (SCHEMAS.get(name) or _OTHERS[name.partition("_")[0]]).split()
    # texts are kept compressed; blobs come compressed
    packed = {"lance-encoding:compression": "zstd"}
    pairs = ((field, kind) for field, _, kind in (each.partition(":") for each in columns))
    return pa.schema(
        pa.field(field, kinds[kind], metadata=packed if kind in ("", "bytes") else None)
        for field, kind in pairs
    )


def _make_table(name: str, rows: Sequence[Sequence[Any]], dimensions: int) -> Any:
    import numpy as np
    import pyarrow as pa

    columns: list[Any] = [list(values) for values in zip(*rows, strict=True)]
    if dimensions:
        flat = pa.array(np.stack(columns[-1]).astype(np.float16).reshape(-1))
        columns[-1] = pa.FixedSizeListArray.from_arrays(flat, dimensions)
    return pa.table(columns, schema=_make_schema(name, dimensions))
