"""Import of a folder or a file: new, changed, moved and deleted files change the entries.

`knowledge.identity` decides which entry of a file is which stored one.
"""

from __future__ import annotations

import contextlib
import hashlib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

from sonde.embedding.base import Embedder
from sonde.errors import FileMissing
from sonde.knowledge.formats import LEFT_OUT, UNREAD, File, RefusedFormat
from sonde.knowledge.formats.mail import is_mailbox, split_mailbox
from sonde.knowledge.formats.messengers import PEOPLE
from sonde.knowledge.formats.pdf import has_tesseract
from sonde.knowledge.identity import Known, Mark, match_entries, name_entries
from sonde.knowledge.library import Refusals
from sonde.knowledge.parsing import Parsers
from sonde.knowledge.reconcile import PART, Reconciler, is_whole
from sonde.knowledge.vectors import embed_missing
from sonde.policy.read import read_document, read_document_parts
from sonde.policy.walk import walk_documents
from sonde.runtime.work import Work
from sonde.stores.knowledge.base import SOURCES, KnowledgeStore, Source
from sonde.types import ListedFile, Progress, Skipped

MAX_FILE_BYTES = 256 << 20  # of a file read whole: an eighth of a parser's memory
MAX_MAILBOX_BYTES = 1 << 40  # more than a lifetime of mail; mailboxes are read in parts
STREAMED_BYTES = 16 << 20  # size of these parts; smaller mailboxes are read whole
MAX_PEOPLE_BYTES = 1 << 20  # of `users.json` in an export of Slack
MAX_EXAMPLES = 10_000  # skipped files that a report lists; the rest is counted

REASONS: Mapping[str, str] = {
    "unknown": "no known format: export it as one that is read (docs/formats.md)",
    "broken": "it cannot be read as what its name says: open it in its program and save it again",
    "damaged": "a part of it is damaged; the rest is imported",
    "too_large": "it is too large to be read at once: split it, or export it in parts",
    "encrypted": "it needs a password: save it without one",
    "bomb": "it unpacks to far more than it is: unpack it and import the folder",
    "hostile": "it has the structure of an attack, such as extreme nesting: check its source",
    "too_slow": "reading it took too long: split it, or export it in parts",
    "crashed": "the parser crashed: open it in its program and save it again",
    "no_text": "it has no text",
    "scanned": "its pages are pictures: install tesseract",
    "missing_extra": "it needs the extra `documents`",
}


@dataclass(frozen=True, slots=True)
class ImportReport:
    """The result of an import, in numbers of entries."""

    added: int = 0
    updated: int = 0
    moved: int = 0
    removed: int = 0
    unchanged: int = 0
    deleted: int = 0
    """Not imported, because the user deleted them."""
    copied: int = 0
    """Edited texts kept as separate entries, because their files changed as well."""
    redacted: int = 0
    """Secrets removed from texts."""
    skipped: Mapping[str, int] = field(default_factory=dict)
    """Number of files that were not imported, by reason."""
    examples: tuple[Skipped, ...] = ()
    left_out: Mapping[str, int] = field(default_factory=dict)
    """Number of unreadable parts of imported entries, by kind (`formats.LOSSES`)."""

    def as_dict(self) -> Mapping[str, object]:
        """The report as a job carries it."""
        return asdict(self)


def import_source(
    store: KnowledgeStore, root: Path, work: Work, *, wanted: Source | None = None,
    embedder: Embedder | None = None, restore: bool = False, refused: Refusals | None = None,
    parsers: Parsers | None = None, origin: str = "",
) -> ImportReport:  # fmt: skip
    """Import a folder or a file; a second run processes only what changed.

    `restore` also imports entries that the user deleted. `refused` has the files that earlier runs
    could not read. `parsers` stay open for the next run. With an `origin`, the folder is one of
    several parts of it, and entries of other parts stay.
    """
    try:
        root = root.expanduser().resolve(strict=True)
    except (OSError, RuntimeError) as error:
        raise FileMissing(f"{root}: {error}", path=str(root)) from error
    is_part, origin = bool(origin), origin or str(root)
    if restore:
        for source in SOURCES:
            store.unbury(source, [at for at in store.list_buried(source) if at[0] == origin])
    with contextlib.ExitStack() as stack:
        parsers = parsers or stack.enter_context(contextlib.closing(Parsers()))
        reconciler = Reconciler(store, origin, is_part)
        run = _Run(reconciler, root, work, wanted, parsers, {} if refused is None else refused)
        run.import_files()
    for source in SOURCES:
        embed_missing(store, source, embedder, work=work)
    lost = dict(reconciler.left_out)
    skipped, examples = dict(run.skipped), tuple(run.examples)
    return ImportReport(**reconciler.counts, skipped=skipped, examples=examples, left_out=lost)


def _waits_for_tesseract(known: Sequence[Known]) -> bool:
    """Whether a file has pages that were skipped before tesseract was installed."""
    facts = (each.entry.facts.get(LEFT_OUT) or {} for each in known if each.entry)
    return any(kind in lost for lost in facts for kind in UNREAD) and has_tesseract()


def _is_resolved(reason: str) -> bool:
    """Whether a program that a file was refused for may be installed by now."""
    return reason == "missing_extra" or (reason == "scanned" and has_tesseract())


@dataclass(slots=True)
class _Run:
    """The state of one import."""

    reconciler: Reconciler
    root: Path
    work: Work
    wanted: Source | None
    parsers: Parsers
    refused: Refusals
    skipped: Counter[str] = field(default_factory=Counter)
    examples: list[Skipped] = field(default_factory=list)
    people: dict[str, bytes] = field(default_factory=dict)

    def import_files(self) -> None:
        listed: list[ListedFile] = []
        unread: set[str] = set()
        for found in walk_documents(self.root, MAX_MAILBOX_BYTES):
            self.work.check()
            if isinstance(found, Skipped):
                self._skip(found)
                unread.add(found.path)
            else:
                listed.append(found)
        stamps = {one.path: (str(one.size), str(one.stamp)) for one in listed}
        self.reconciler.compare(stamps, unread)
        for at, one in enumerate(listed):
            self.work.report(Progress("importing", at, len(listed), one.path))
            self._take(one)
            self.reconciler.finish_file(one.path)
        self.reconciler.finish()
        self.work.report(Progress("importing", len(listed), len(listed)))

    def _skip(self, skipped: Skipped) -> None:
        self.skipped[skipped.reason] += 1
        if len(self.examples) < MAX_EXAMPLES:
            self.examples.append(skipped)

    def _take(self, one: ListedFile) -> None:
        known = self.reconciler.known.get(one.path, [])
        stamp = str(one.size), str(one.stamp)
        is_done = (
            is_whole(known)
            and not _waits_for_tesseract(known)
            and all(each.source == (self.wanted or each.source) for each in known if each.entry)
        )
        if is_done and known[0].mark[1:3] == stamp:
            self.reconciler.pass_over(known)
            return
        before = self.refused.get(one.path)
        if before and before[0] == ":".join(stamp) and not _is_resolved(before[1].reason):
            self._refuse(before[1])
            return
        try:
            digest, parts = self._open(one)
            mark = Mark(digest, *stamp)
            if is_done and known[0].mark.file == digest:
                self.reconciler.pass_over(known, mark)
                return
            self._read_parts(one.path, known, mark, parts)
        except RefusedFormat as error:
            skipped = Skipped(one.path, error.reason, error.detail)
            self.refused[one.path] = ":".join(stamp), skipped
            self._refuse(skipped)

    def _refuse(self, skipped: Skipped) -> None:
        self._skip(skipped)
        self.reconciler.kept.add(skipped.path)

    def _open(self, one: ListedFile) -> tuple[str, Iterator[File]]:
        """The digest of a file, and its content in parts that a parser takes."""
        when = one.mtime_ns // 1_000_000

        def read() -> Iterator[bytes]:
            return read_document_parts(self.root, one.path, STREAMED_BYTES)

        if one.size > STREAMED_BYTES:
            with contextlib.suppress(OSError):  # `read_document` reports the reason
                if is_mailbox(one.path, next(read(), b"")):
                    digest = hashlib.sha256()
                    for part in read():
                        self.work.check()
                        digest.update(part)
                    mails = split_mailbox(read(), STREAMED_BYTES)
                    return digest.hexdigest(), (File(one.path, part, when) for part in mails)
        data = read_document(self.root, one.path, MAX_FILE_BYTES)
        # parts are uploads: files, or a folder
        is_named = self.root.is_file() or (self.reconciler.is_part and "/" not in one.path)
        if isinstance(data, Skipped):
            raise RefusedFormat(data.reason, data.detail)
        file = File(one.path, data, when, self._read_beside(one.path), is_named)
        return hashlib.sha256(data).hexdigest(), iter([file])

    def _read_parts(
        self, path: str, known: Sequence[Known], mark: Mark, parts: Iterator[File]
    ) -> None:
        """Store the entries of a file's parts; skips and reports unreadable ones."""
        used: set[tuple[Source, str]] = set()
        left = list(known)
        part: File | None = next(parts, File(path, b""))
        is_only = True
        while part is not None:
            self.work.check()
            behind = next(parts, None)
            is_only = is_only and behind is None
            try:
                parsed = self.parsers.parse(part, self.wanted)
            except RefusedFormat as error:
                if is_only:
                    raise
                self._refuse(Skipped(path, "damaged", f"{error.reason} {error.detail}".strip()))
            else:
                self.reconciler.counts["redacted"] += parsed.redacted
                for each in parsed.skipped:
                    self._skip(each)
                count = str(len(parsed.heads)) if is_only else PART
                ours = mark._replace(entries=count)
                heads = [replace(each, hash=ours._replace(text=each.hash).write())
                         for each in parsed.heads]  # fmt: skip
                found = match_entries(left, heads)
                matched = set(found)
                left = [each for each in left if each not in matched]
                keys = name_entries(heads, found, used)
                rows = zip(keys, heads, found, parsed.read(), strict=True)
                for key, head, old, entry in rows:
                    self.reconciler.settle(path, key, replace(entry, hash=head.hash), old)
            part = behind
        if not used:
            self._skip(Skipped(path, "no_text"))
        elif not is_only:
            self.reconciler.streamed[path] = mark

    def _read_beside(self, path: str) -> bytes:
        """The list of users of an export of Slack, if this file may be one of its channels."""
        if not path.endswith(".json") or path.count("/") < 1:
            return b""
        people = "/".join([*path.split("/")[:-2], PEOPLE])
        if people not in self.people:
            data = read_document(self.root, people, MAX_PEOPLE_BYTES)
            self.people[people] = b"" if isinstance(data, Skipped) else data
        return self.people[people]
