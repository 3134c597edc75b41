"""The files that `sonde grep` searches: rg's choice, minus what is never read.

An index leaves out more than rg does: folders of dependencies, locks, large files. What rg would
have searched is counted, so that the command can say so; `-u` searches it. Secrets are never read.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import NamedTuple

from sonde.cli.arguments import Arguments
from sonde.cli.session import Session
from sonde.errors import InvalidRequest, OutsideRoots, PermissionDenied, SondeError
from sonde.indexing.sources import Tree, exclude_folder
from sonde.policy.admit import Rules, Source, find_denied
from sonde.projects.lines import choose_files, look_around
from sonde.projects.project import Project
from sonde.stores.chunks.base import ChunkStore
from sonde.text.globs import Glob, compile_glob
from sonde.text.languages import NAMES, find_language, language_of
from sonde.types import ListedFile, Needs, Skipped

_LARGEST_BYTES = 1 << 30  # of a file that is searched although no index holds it: memory bounds it
_DEEPEST = 200  # folders, without the limit of an index; each takes a descriptor
_NOT_TEXT = ("binary", "too_large")
_SILENT = ("ignored", "symlink", "special", "binary", "folder", "missing", "same_name", "mount")
"""Reasons for which rg skips a file too."""


@dataclass(frozen=True, slots=True)
class SearchPlace:
    """A folder or file to search: as typed, and where it is."""

    label: str
    """As typed; empty for the working directory."""
    tree: Tree
    under: str
    project: Project | None
    """The project whose index can narrow the search."""
    named_file: bool = False


class SearchedFile(NamedTuple):
    """A file to search."""

    shown: str
    """Its path as it is printed."""
    entry: ListedFile
    place: SearchPlace
    trusted: bool = False
    """Whether its content was admitted earlier and is in the index."""


@dataclass(slots=True)
class Selection:
    """The files to search, and what was skipped or could not be read."""

    files: list[SearchedFile] = field(default_factory=list)
    """Files that can match, according to the index."""
    counted: int = 0
    counted_bytes: int = 0
    """The number of all files, if `count` was requested."""
    stores: Collection[ChunkStore] = ()
    left_out: Counter[str] = field(default_factory=Counter)
    """Files that rg would have searched, by the reason for skipping them."""
    secrets: int = 0
    errors: list[SondeError] = field(default_factory=list)

    def take_refusal(self, shown: str, refusal: Skipped) -> None:
        """Record a file with a secret, or a file or folder that cannot be read."""
        if refusal.reason == "secret_content":
            self.secrets += 1
        elif refusal.reason == "unreadable":
            error = PermissionDenied(
                f"{shown}: {refusal.detail}",
                user_message=f"'{shown}' cannot be read: {refusal.detail}.",
                next_action="Give read access to it, or leave it out with -g.",
            )
            self.errors.append(error)


class Names:
    """The options that choose files by their names: -g, -t, -T, --hidden."""

    def __init__(self, args: Arguments) -> None:
        self._globs = [
            (not text.startswith("!"), compile_glob(text.removeprefix("!"), fold_case=fold))
            for fold, texts in ((False, args.glob or ()), (True, args.iglob or ()))
            for text in texts
        ]
        self.any_wanted = any(wanted for wanted, _ in self._globs)
        """Whether a glob includes files that would otherwise be left out."""
        self._types = {_check_language(name) for name in args.type or ()}
        self._not_types = {_check_language(name) for name in args.type_not or ()}
        self._hidden = args.hidden or args.unrestricted >= 2
        self._enters = lru_cache(maxsize=None)(self._judge_folders)

    def names(self, path: str) -> bool:
        """Whether a glob asks for this file, whatever an ignore file says."""
        return self.any_wanted and self._decide(path, folder=False) is True

    def takes(self, path: str, below: str, *, folder: bool = False) -> bool:
        """Whether a file is searched, by its path from here and below the place that was named;
        whether a folder is entered."""
        above, _, name = (below + "/" * folder).rpartition("/")
        if not self._enters(path.removesuffix(below), above):
            return False
        if folder:
            return True
        verdict = self._decide(path, folder=False)
        if verdict is not None or self.any_wanted:
            return bool(verdict)
        kind = language_of(name).name if self._types or self._not_types else ""
        if kind in self._not_types or (self._types and kind not in self._types):
            return False
        return self._hidden or not name.startswith(".") or bool(self._types)

    def _judge_folders(self, start: str, below: str) -> bool:
        """Whether a folder is entered, and all those above it, up to the place that was named."""
        above, _, name = below.rpartition("/")
        if not below or not self._enters(start, above):
            return not below
        verdict = self._decide(start + below, folder=True)
        return self._hidden or not name.startswith(".") if verdict is None else verdict

    def _decide(self, path: str, *, folder: bool) -> bool | None:
        """The decision of the last matching glob; None if none matches."""
        for wanted, glob in reversed(self._globs):
            if _matches(glob, path, folder=folder):
                return wanted
        return None


def _matches(glob: Glob, path: str, *, folder: bool) -> bool:
    """Whether a glob matches this path itself: `src` is the folder, not what is in it."""
    name = glob.pattern.strip("/")
    if any(char in "*?[{\\" for char in name):
        return glob.matches(path) or (folder and glob.matches(f"{path}/"))
    whole = "/" in glob.pattern.removesuffix("/")
    is_same = name == (path if whole else path.rpartition("/")[2])
    return is_same and (folder or not glob.pattern.endswith("/"))


def _check_language(name: str) -> str:
    language = find_language(name)
    if language in NAMES:
        return language
    raise InvalidRequest(
        f"no language {name!r}",
        user_message=f"There is no language '{name}'.",
        next_action="Name it as in `-t python`, by an extension (`-t ts`), or use -g '*.x'.",
    )


def choose_searched(
    session: Session, check: Callable[[], None], needs: Needs | None = None, *, count: bool = True
) -> Selection:
    """Every file that the arguments ask for and that can contain a match, in search order. With
    `count`, the others are counted."""
    args = session.args
    names, chosen = Names(args), Selection()
    for place in _open_places(session, chosen):
        listed = []
        for found in _list_place(session, place, names, chosen, needs, count=count):
            check()
            listed.append(found)
        # NUL: no name holds it, and it comes first
        chosen.files += sorted(listed, key=lambda found: found.shown.replace("/", "\0"))
    order = args.sortr or args.sort or "path"
    keys: dict[str, Callable[[SearchedFile], object]] = {
        "modified": lambda found: found.entry.mtime_ns,
        "accessed": lambda found: session.at(found.shown).stat().st_atime_ns,
        "created": lambda found: session.at(found.shown).stat().st_ctime_ns,
    }
    if order in keys:
        chosen.files.sort(key=keys[order])  # type: ignore[arg-type]
    if args.sortr:
        chosen.files.reverse()
    return chosen


def _open_places(session: Session, chosen: Selection) -> Iterator[SearchPlace]:
    if not session.is_inside_project():
        session.choose_project(str(session.here))  # as it is
    args, project = session.args, session.opened
    tree = _free(session, project.tree) if args.unrestricted or args.no_ignore else project.tree
    if not args.paths:
        under = "" if args.project else session.inside(".")
        yield SearchPlace("", tree, under, project)
    for path in args.paths:
        try:
            yield _open_place(session, tree, path)
        except InvalidRequest as error:
            chosen.errors.append(error)


def _open_place(session: Session, tree: Tree, path: str) -> SearchPlace:
    try:
        under = session.inside(path)
    except OutsideRoots:
        return _open_elsewhere(session, tree, path)
    verdict = tree.check(under) if under else Skipped("", "folder")
    if isinstance(verdict, ListedFile) or verdict.reason == "folder":
        named_file = isinstance(verdict, ListedFile)
        return SearchPlace(path, tree, under, session.opened, named_file=named_file)
    return _open_elsewhere(session, tree, path)


def _open_elsewhere(session: Session, tree: Tree, path: str) -> SearchPlace:
    """A named place that is in no project, or that the project leaves out."""
    given = session.at(path)
    is_file = given.is_file()
    if denial := find_denied(given.as_posix() + "/" * (not is_file), secrets_only=True):
        raise InvalidRequest(
            f"{given}: {denial}",
            user_message=f"'{path}' is never read: it is a customary place of secrets.",
            next_action="Use another tool if you must.",
        )
    root = (given.parent if is_file else given).resolve()
    rules = Rules(protect_only=True, max_file_bytes=_LARGEST_BYTES, owner=root.stat().st_uid)
    own = replace(tree, sources=(Source("", root, rules),))
    if is_file or session.args.unrestricted or session.args.no_ignore:
        own = _free(session, own)
    return SearchPlace(path, own, given.name if is_file else "", None, named_file=is_file)


def _free(session: Session, tree: Tree, *, ignoring: bool = False) -> Tree:
    """The tree with only never-read files left out and, if `ignoring`, what ignore files match."""

    def lift(source: Source) -> Source:
        rules = Rules(
            exclude=exclude_folder(session.settings.home.resolve(), source.root),
            respect_gitignore=ignoring,
            protect_only=True,
            max_file_bytes=_LARGEST_BYTES,
            max_depth=_DEEPEST,
            owner=source.rules.owner,
        )
        return source._replace(rules=rules)

    return replace(tree, sources=tuple(map(lift, tree.sources)))


def _list_place(
    session: Session,
    place: SearchPlace,
    names: Names,
    chosen: Selection,
    needs: Needs | None,
    *,
    count: bool,
) -> Iterator[SearchedFile]:
    sight, skipped = look_around(place.project, place.tree, [place.under])
    start = f"{place.under}/" if place.under else ""
    files, trusted, stores = choose_files(place.project, sight, needs)
    chosen.stores = stores or chosen.stores
    for each in sight.entries if count else files:
        if not each.startswith(start) and each != place.under:
            continue
        shown, below = _spell(session, place, each)
        if place.named_file or names.takes(shown.removeprefix("./"), below):
            entry = sight.entries[each]
            chosen.counted += 1
            chosen.counted_bytes += entry.size
            if each in files:
                yield SearchedFile(shown, entry, place, each in trusted)
    inside = [one for one in skipped if one.path.startswith(start) or one.path == place.under]
    yield from _list_skipped(session, place, names, chosen, inside)


def _list_skipped(
    session: Session,
    place: SearchPlace,
    names: Names,
    chosen: Selection,
    skipped: Sequence[Skipped],
) -> Iterator[SearchedFile]:
    """Left-out files that the options include after all; counts what rg would have searched."""
    args, free = session.args, _free(session, place.tree)
    asked = names.any_wanted or args.files
    left: list[tuple[Skipped, str, str]] = []
    for each in skipped:
        if each.reason == "symlink" and args.follow:
            yield from _follow(place, each.path, names)
            continue
        if each.reason in _SILENT and not asked:
            continue
        shown, below = _spell(session, place, each.path)
        path = shown.removeprefix("./")
        if each.reason == "denied" and each.detail.endswith("secrets)"):
            chosen.secrets += names.takes(path, below)
            continue
        again: ListedFile | Skipped = each
        if names.names(path) or (args.files and each.reason in _NOT_TEXT):
            again = free.check(each.path)
            if isinstance(again, Skipped) and args.files and again.reason == "binary":
                again = ListedFile(each.path, 0, 0)
        if isinstance(again, ListedFile):
            if names.takes(path, below):
                yield SearchedFile(shown, again, replace(place, tree=free))
        elif each.reason == "unreadable" and names.takes(path, below, folder=True):
            chosen.take_refusal(shown, each)
        elif each.reason not in _SILENT:
            left.append((each, path, below))
    # as if only ignore files counted: whether rg would have searched what is denied
    verdicts = _free(session, place.tree, ignoring=True).check_all(each.path for each, _, _ in left)
    chosen.left_out.update(
        _name_reason(each)
        for each, path, below in left
        if _would_search(names, verdicts[each.path], path, below)
    )


def _would_search(names: Names, verdict: ListedFile | Skipped, path: str, below: str) -> bool:
    folder = isinstance(verdict, Skipped) and verdict.reason == "folder"
    takes = folder or isinstance(verdict, ListedFile)
    return takes and names.takes(path, below, folder=folder)


def _name_reason(each: Skipped) -> str:
    if each.reason == "denied":
        return each.detail.partition(" (")[0]
    return {
        "too_large": "too large for an index",
        "excluded": "excluded by config.json",
        "not_included": "not included by config.json",
    }.get(each.reason, each.reason.replace("_", " "))


def _spell(session: Session, place: SearchPlace, path: str) -> tuple[str, str]:
    """A path as printed, and its part below the named place."""
    if place.named_file:
        return place.label, path.rpartition("/")[2]
    below = path[len(place.under) + 1 :] if place.under else path
    if place.label:
        return f"{place.label.rstrip('/')}/{below}" if place.label != "/" else f"/{below}", below
    source, _ = place.tree.locate(path)
    return session.show_path(path) if source.prefix or session.args.project else below, below


def _follow(place: SearchPlace, link: str, names: Names) -> Iterator[SearchedFile]:
    """A link's target, if it is inside the same folder and admitted under its own name."""
    source, below = place.tree.locate(link)
    target = (source.root / below).resolve()
    if not target.is_relative_to(source.root) or (source.root / below).is_relative_to(target):
        return
    real = source.prefix + target.relative_to(source.root).as_posix()
    verdict = place.tree.check(real)
    for each in place.tree.walk(real) if isinstance(verdict, Skipped) else [verdict]:
        if isinstance(each, ListedFile):
            rest = link[len(place.under) + 1 :] if place.under else link
            rest += each.path.removeprefix(real)
            shown = f"{place.label.rstrip('/')}/{rest}" if place.label else rest
            if names.takes(shown.removeprefix("./"), rest):
                yield SearchedFile(shown, each, place)
