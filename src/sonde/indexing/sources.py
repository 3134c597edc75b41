"""Where a project's files come from: one or several folders under one set of names."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import Literal, Protocol

from sonde.errors import InvalidRequest, OutsideRoots
from sonde.policy.admit import Rules, Source, find_denied
from sonde.policy.read import FileReader
from sonde.policy.walk import Checker, check_path, walk_files, walk_folders
from sonde.runtime.work import Closing, Work
from sonde.text.globs import compose
from sonde.types import FileContent, FileText, Kind, ListedFile, Skipped

Identity = Mapping[Path, tuple[int, int] | None]


def identify_files(paths: Iterable[Path]) -> Identity:
    """Which files or folders lie under these names now; None for a name without one."""
    found: dict[Path, tuple[int, int] | None] = {}
    for path in paths:
        try:
            facts = os.stat(path)  # noqa: PTH116 - twice as fast, and done every second
            found[path] = (facts.st_dev, facts.st_ino)
        except OSError:
            found[path] = None
    return found


@dataclass(frozen=True, slots=True)
class Tree:
    """All the files of one project, whichever folders they lie in."""

    sources: tuple[Source, ...]
    is_docs: Callable[[str], bool]
    index_docs: bool
    chunking: Literal["syntax", "recursive"]

    def walk(self, under: str = "") -> Iterator[ListedFile | Skipped]:
        """Every file that may be indexed, and what was left out; `under` names one folder."""
        for source in self.sources:
            below = _below(under, source.prefix)
            if below is None:
                continue
            others = (other.prefix for other in self.sources if other.prefix != source.prefix)
            nested = tuple(prefix for prefix in others if prefix.startswith(source.prefix))
            for found in walk_files(source.root, source.rules, below):
                named = _prefixed(found, source.prefix)
                # what lies under a root inside this one comes from there, once
                if not (nested and named.path.startswith(nested)):
                    yield named

    def check(self, path: str) -> ListedFile | Skipped:
        """The verdict of `walk` on one file, as it is now."""
        source, below = self.locate(path)
        return _prefixed(check_path(source.root, below, source.rules), source.prefix)

    def check_all(self, paths: Iterable[str]) -> dict[str, ListedFile | Skipped]:
        """The verdicts on these files; cheaper than one by one."""
        verdicts: dict[str, ListedFile | Skipped] = {}
        with ExitStack() as stack:
            checkers: dict[str, Checker] = {}
            for path in sorted(paths):
                source, below = self.locate(path)
                checker = checkers.get(source.prefix)
                if checker is None:
                    checker = stack.enter_context(Checker(source.root, source.rules))
                    checkers[source.prefix] = checker
                verdicts[path] = _prefixed(checker.check(below), source.prefix)
        return verdicts

    def holds_files(self, under: str) -> bool:
        """Whether there is a file at or below a path."""
        entries = chain(self.walk(under), self.check_all([under]).values())
        return any(isinstance(entry, ListedFile) for entry in entries)

    def open_reader(self) -> TreeReader:
        """A reader of many files; close it."""
        return TreeReader(self)

    def read(self, path: str) -> FileContent | Skipped:
        """One file's text, if it may be read."""
        with self.open_reader() as reader:
            return reader.read(path)

    def read_utf8(self, path: str) -> FileText | Skipped:
        """The same as UTF-8, without a hash."""
        with self.open_reader() as reader:
            return reader.read_utf8(path)

    def kind_of(self, path: str) -> Kind | None:
        """The index a file belongs to; None for docs when docs are not indexed."""
        if not self.is_docs(path):
            return "code"
        return "docs" if self.index_docs else None

    def folders(self) -> Iterator[Path]:
        """Every folder whose files may be indexed."""
        for source in self.sources:
            for folder in walk_folders(source.root, source.rules):
                yield source.root / folder

    def name_of(self, place: str) -> str | None:
        """The project's name for an absolute path; None when no file there can be indexed."""
        for source in sorted(self.sources, key=lambda source: -len(str(source.root))):
            root = str(source.root)
            if place == root:
                return source.prefix
            if place.startswith(root.rstrip(os.sep) + os.sep):
                below = compose(place[len(root.rstrip(os.sep)) + 1 :].replace(os.sep, "/"))
                folder = below.rpartition("/")[0] + "/"
                return None if find_denied(folder, source.rules) else source.prefix + below
        return None

    def locate(self, path: str) -> tuple[Source, str]:
        """The folder a file lies in, and its path there."""
        for source in self.sources:
            if path.startswith(source.prefix):
                return source, path[len(source.prefix) :]
        raise OutsideRoots(f"{path!r} is in none of the project's folders")

    def find_path(self, path: str) -> Path:
        """Where a file is on the disk."""
        source, below = self.locate(path)
        return source.root / below


class TreeReader(Closing):
    """Reads files of a project, best in the order of their paths. Use it in a `with`, and close it
    whenever something else takes its time: what it holds open may be moved meanwhile."""

    def __init__(self, tree: Tree) -> None:
        self._tree = tree
        self._readers: dict[str, FileReader] = {}

    def read(self, path: str) -> FileContent | Skipped:
        """One file's text, if it may be read."""
        reader, below = self._find(path)
        return reader.read(below)

    def read_utf8(self, path: str, *, raw: bool = False) -> FileText | Skipped:
        """One file's text as UTF-8; a `raw` one may contain secrets, and is only counted."""
        reader, below = self._find(path)
        return reader.read_utf8(below, raw=raw)

    def close(self) -> None:
        """Let go of every folder; what is read next opens them again."""
        for reader in self._readers.values():
            reader.close()

    def _find(self, path: str) -> tuple[FileReader, str]:
        source, below = self._tree.locate(path)
        reader = self._readers.get(source.prefix)
        if reader is None:
            reader = self._readers[source.prefix] = FileReader(source)
        return reader, below


def _below(under: str, prefix: str) -> str | None:
    """Where in a source a folder of the project lies; empty when it holds the whole source."""
    if not under or f"{under}/".startswith(prefix):
        return under[len(prefix) :]
    return "" if prefix.startswith(f"{under}/") else None


def _prefixed(found: ListedFile | Skipped, prefix: str) -> ListedFile | Skipped:
    if not prefix:
        return found
    path = prefix + found.path
    return found._replace(path=path) if isinstance(found, ListedFile) else replace(found, path=path)


def list_sources(
    root: Path, roots: tuple[str, ...], rules: Rules, home: Path
) -> tuple[Source, ...]:
    """The project's folders: itself, or those that `roots` in its config.json names."""
    if not roots:
        return (Source("", root, _adapt_rules(home, root, rules)),)
    sources: dict[str, Source] = {}
    for text in roots:
        folder = _root_folder(root, text)
        inside = folder.is_relative_to(root)
        name = folder.relative_to(root).as_posix() if inside else folder.name
        prefix = "" if name == "." else f"{name}/"
        number = 2
        # a folder from elsewhere never takes the name of one that the project has itself
        while (prefix in sources and sources[prefix].root != folder) or (
            not inside and (root / prefix).exists()
        ):
            prefix, number = f"{name}-{number}/", number + 1
        sources[prefix] = Source(prefix, folder, _adapt_rules(home, folder, rules))
    # longer prefixes first, so that a file is found under the nearest of nested roots
    return tuple(sorted(sources.values(), key=lambda source: -len(source.prefix)))


def _root_folder(root: Path, text: str) -> Path:
    with suppress(OSError, RuntimeError, ValueError):
        folder = (root / Path(text).expanduser()).resolve()
        if folder.is_dir():
            return folder
    raise InvalidRequest(
        f"roots: {text!r} is not a folder",
        user_message="The project's config.json names a folder that does not exist.",
        next_action="Correct `roots` in config.json.",
    )


def _adapt_rules(home: Path, root: Path, rules: Rules) -> Rules:
    """The rules for one folder: its owner's, and without sonde's own storage, as indexing the index
    would never end."""
    excluded = (*rules.exclude, *exclude_folder(home.resolve(), root))
    return replace(rules, exclude=excluded, owner=root.stat().st_uid if root.exists() else None)


def exclude_folder(folder: Path | None, root: Path) -> tuple[str, ...]:
    """The pattern that excludes a folder inside another."""
    if folder is None or not folder.is_relative_to(root) or folder == root:
        return ()
    return (re.sub(r"([*?!\[\]{}\\])", r"\\\1", folder.relative_to(root).as_posix()),)


@dataclass(frozen=True, slots=True)
class Mirror:
    """A branch of a shared index at one commit; `bytes` is its size here, 0 until it is filled."""

    repository: str
    branch: str
    commit: str
    pushed_ms: int
    is_default: bool
    bytes: int = 0

    @property
    def name(self) -> str:
        """Its name as users write it."""
        return f"{self.repository}@{self.branch}"

    @property
    def path(self) -> str:
        """Its root below the folder of trees. git allows neither `~` nor `^` in a branch."""
        branch = self.branch.replace("/", "~").replace("@", "^")
        return f"{self.commit[:16]}/{self.repository}@{branch}"


def name_mirror(path: Path) -> str:
    """The name of a mirror by its root below the folder of trees; empty if it is none."""
    commit, *parts = (*path.parts, "")
    repository, _, branch = "/".join(parts).rstrip("/").partition("@")
    if not (commit and repository and branch) or "/" in branch:
        return ""
    return f"{repository}@{branch.replace('~', '/').replace('^', '@')}"


@dataclass(frozen=True, slots=True)
class MirrorsState:
    """What the page of the state, the metrics and readiness show."""

    mirrors: Sequence[tuple[Mirror, bool]]
    """Every branch as of the last look, and whether it is filled."""
    cache_bytes: int
    most_bytes: int
    seconds_since_poll: float
    """Infinite until the shared index was reached once."""
    fills: int
    evictions: int
    problem: str
    """Why the last look at the branches failed; empty if it did not."""

    @property
    def is_reached(self) -> bool:
        """Whether the shared index was reached once."""
        return self.seconds_since_poll != float("inf")

    def as_metrics(self) -> Mapping[str, float]:
        """The numbers by name; those that only grow end in `_total`."""
        filled = sum(ready for _, ready in self.mirrors)
        return {
            "cache_bytes": self.cache_bytes, "cache_limit_bytes": self.most_bytes,
            "refs_age_seconds": self.seconds_since_poll, "branches": len(self.mirrors),
            "branches_filled": filled, "branch_fills_total": self.fills,
            "cache_evictions_total": self.evictions,
        }  # fmt: skip


class MirrorSource(Protocol):
    """Projects that are written from a shared index on first use; see `shared.mirrors`."""

    def find(self, name: str | None, admits: Callable[[Path], bool], work: Work) -> Path:
        """The root of a repository or `repository@branch`; raises `ProjectNotDetected`."""

    def name_root(self, root: Path) -> str:
        """The name of the branch with this root; any other path as it is."""

    def find_fitting(
        self, fits: Callable[[str], bool], admits: Callable[[Path], bool], *, branches: bool
    ) -> list[str]:
        """The names that fit, of default branches or of all."""

    def list_defaults(
        self, admits: Callable[[Path], bool], wait_s: float = 0.0
    ) -> tuple[list[Path], int]:
        """The default branches that are here after a while, and how many there are."""

    def describe(self, admits: Callable[[Path], bool]) -> MirrorsState:
        """The state, of the branches that the caller may see."""

    def start(self) -> None:
        """Keep them current in the background."""

    def close(self) -> None:
        """Stop keeping them current."""


class Following(Protocol):
    """What keeps a project's index current in the background; see `projects.follow`."""

    def stop(self) -> None:
        """End it; what is pending is written down."""

    def is_alive(self) -> bool:
        """Whether it still runs."""

    def is_watched(self) -> bool:
        """Whether this process or another keeps the index current."""

    def is_current(self) -> bool:
        """Whether every change reaches the index without a search looking for it."""

    def describe(self) -> dict[str, object]:
        """How the project is followed, for the status."""

    def catch_up(self, timeout_s: float) -> None:
        """Index what is pending, and wait for that at most this long."""
