"""Reads many files of a project in a row: each folder on the way is opened once.

The same is asked of a file as in `read.read_file`. Only what an index has already read, and that
has not changed since, is not looked through for secrets again.
"""

from __future__ import annotations

from dataclasses import dataclass
from types import TracebackType
from typing import Self

from sonde.policy.admit import compile_rules, has_binary_suffix
from sonde.policy.census import Place
from sonde.policy.folder import Folder, open_root, tell_reason
from sonde.policy.read import decode_text, read_opened
from sonde.policy.roots import show_path, split_inside
from sonde.policy.secrets import secret_in
from sonde.types import Skipped

_SNIFFED = 8192
_UNPLAIN = frozenset(("", ".", ".."))
"""Names that make a path more than names with slashes between."""
_MARKED = (b"\xef\xbb\xbf", b"\xff\xfe", b"\xfe\xff", b"\0\0\xfe\xff")


@dataclass(frozen=True, slots=True)
class FileText:
    """A file's text as UTF-8, without a byte order mark, and the file's own size and time."""

    path: str
    data: bytes
    size: int
    mtime_ns: int


class Reader:
    """Reads files of one place, best in the order of their paths. Use it in a `with`."""

    def __init__(self, place: Place) -> None:
        self._place = place
        self._gate = compile_rules(place.rules)
        self._open: list[tuple[str, Folder]] = []

    def read(self, path: str, *, vouched: tuple[int, int] | None = None) -> FileText | Skipped:
        """The text of the file with this path below the place.

        `vouched` is the size and time of a state whose content is known to be admitted.
        """
        named = self._place.prefix + path
        try:
            names = path.split("/")
            if not _UNPLAIN.isdisjoint(names) or "\0" in path or "\\" in path:
                names = list(split_inside(self._place.root, path))
            *folders, name = names
            refusal = self._refuse(path, name, len(folders))
            if refusal is not None:
                return Skipped(named, *refusal)
            folder = self._enter(folders)
            if isinstance(folder, str):
                return Skipped(named, "denied", folder)
            descriptor, facts = folder.open_file(name)
        except OSError as error:
            return Skipped(named, tell_reason(error), error.strerror or "")
        data = read_opened(named, descriptor, facts, self._place.rules)
        if isinstance(data, Skipped):
            return data
        known = vouched == (len(data), facts.st_mtime_ns)
        text = _encode(data)
        if text is None:
            return Skipped(named, "binary")
        if not known:
            secret = secret_in(text.decode("utf-8", "surrogatepass"))
            if secret is not None:
                return Skipped(named, "secret_content", secret)
        return FileText(named, text, len(data), facts.st_mtime_ns)

    def close(self) -> None:
        """Let go of every folder."""
        while self._open:
            self._open.pop()[1].close()

    def _refuse(self, path: str, name: str, depth: int) -> tuple[str, str] | None:
        if show_path(path) != path:
            return "bad_name", ""
        denial = self._gate.find_denial(name, folder=False)
        if denial is not None:
            return "denied", denial
        if depth > self._place.rules.max_depth:
            return "too_deep", f"more than {self._place.rules.max_depth} folders deep"
        return ("binary", "") if has_binary_suffix(name) else None

    def _enter(self, folders: list[str]) -> Folder | str:
        """The open folder, or the row of the deny list that keeps it shut."""
        if not self._open:
            self._open.append(("", open_root(self._place.root)))
        shared = 1
        while (
            shared < len(self._open)
            and shared <= len(folders)
            and self._open[shared][0] == folders[shared - 1]
        ):
            shared += 1
        while len(self._open) > shared:
            self._open.pop()[1].close()
        for name in folders[shared - 1 :]:
            denial = self._gate.find_denial(name, folder=True)
            if denial is not None:
                return denial
            self._open.append((name, self._open[-1][1].enter(name)))
        return self._open[-1][1]

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None
    ) -> None:
        self.close()


def _encode(data: bytes) -> bytes | None:
    """The text of a file as UTF-8; mostly the very bytes."""
    if not data.startswith(_MARKED) and b"\0" not in data[:_SNIFFED]:
        if data.isascii():
            return data
        try:
            data.decode("utf-8")
        except UnicodeDecodeError:
            pass
        else:
            return data
    text = decode_text(data)
    return None if text is None else text.encode("utf-8", "surrogatepass")
