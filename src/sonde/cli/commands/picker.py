"""The picker, `sonde` without a command: type, see results with a preview, open one in the editor.

Uses plain escape codes, and draws the first frame before importing anything that searches. A thread
searches; newer input replaces the query it is working on.
"""

from __future__ import annotations

import os
import select
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from sonde.cli.colors import color_code
from sonde.cli.parse import NOTHING
from sonde.cli.session import Session
from sonde.cli.terminal import cut_line, prepare_line
from sonde.errors import Cancelled, SondeError
from sonde.runtime.work import Work
from sonde.text.highlight import find_query_words
from sonde.text.languages import language_of

if TYPE_CHECKING:
    from sonde.types import HitRow

KINDS = ("code", "docs", "lines", "files")
_PROJECTS = "projects"
_HITS = 50  # of one question: what a person looks through, and what the verbs rank at most
_LINES = 200  # matching lines: more are not looked through one by one
_PAUSE_S = 0.06  # without a key: shorter than between two letters of a fast typist twice over
_ESCAPE_S = 0.03  # after an escape, the rest of an arrow key has come by then
_AROUND = 40  # lines of a file before and after a match, for the preview
_KEYS = {
    b"\x1b[A": "up", b"\x1bOA": "up", b"\x10": "up", b"\x1b[B": "down", b"\x1bOB": "down",
    b"\x0e": "down", b"\x1b[5~": "page up", b"\x1b[6~": "page down", b"\t": "kind",
    b"\x1b[Z": "kind back", b"\x14": "project", b"\r": "open", b"\n": "open", b"\x7f": "erase",
    b"\x08": "erase", b"\x17": "erase word", b"\x15": "clear", b"\x03": "quit", b"\x04": "quit",
    b"\x1b": "quit",
}  # fmt: skip
_HELP = "↑↓ choose · Enter open · Tab kind · Ctrl-T project · Esc leave"


@dataclass(frozen=True, slots=True)
class Pick:
    """One row of the list: a place, its description, and its lines if known."""

    path: str
    line: int = 1
    label: str = ""
    text: str = ""
    first: int = 1
    """The number of the first line of the text."""


@dataclass(frozen=True, slots=True)
class Asked:
    """A query: the words, the kind of result, the project."""

    words: str = ""
    kind: str = KINDS[0]
    project: str = ""

    def is_like(self, other: Asked) -> bool:
        """Whether at most the words differ, so that old results can stay until new ones come."""
        return (self.kind, self.project) == (other.kind, other.project)


def run_picker(session: Session) -> int:
    """Show the picker until something is opened or the user leaves."""
    picker = Picker(session)
    with _screen() as size:
        chosen = picker.run(size)
    return session.open_place(picker.locate(chosen), chosen.line) if chosen else NOTHING


@contextmanager
def _screen() -> Iterator[Callable[[], os.terminal_size]]:
    """The terminal's alternate screen without echo; restores the terminal afterwards."""
    import termios
    import tty

    before = termios.tcgetattr(0)
    tty.setraw(0)
    os.write(1, b"\x1b[?1049h")
    try:
        yield lambda: os.get_terminal_size(1)
    finally:
        os.write(1, b"\x1b[?25h\x1b[?1049l")
        termios.tcsetattr(0, termios.TCSADRAIN, before)


class Picker:
    """The state of the picker: input, results, selection."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._question = Asked()
        self._entries: list[Pick] = []
        self._at = 0
        self._note = _HELP
        self._back = KINDS[0]
        """The kind to return to from the list of projects."""
        self._searcher = Searcher(session)

    def run(self, size: Callable[[], os.terminal_size]) -> Pick | None:
        """Handle keys until an entry is chosen; None if the person leaves."""
        wake, waken = os.pipe()
        os.set_blocking(waken, False)
        before = signal.signal(signal.SIGWINCH, lambda *_: os.write(waken, b"r"))
        self._searcher.start(lambda: os.write(waken, b"s"))
        try:
            pending, asked = b"", self._question
            while True:
                self._draw(*size())
                timeout = _ESCAPE_S if pending else _PAUSE_S if asked != self._question else None
                ready, _, _ = select.select([0, wake], [], [], timeout)
                if wake in ready:
                    os.read(wake, 4096)
                    self._take()
                if 0 in ready:
                    pending += os.read(0, 4096)
                elif asked != self._question and not pending:
                    asked = self._question
                    self._searcher.ask(asked)
                whole = 0 not in ready or not pending.startswith(b"\x1b") or len(pending) > 1
                for key in split_keys(pending) if whole else ():
                    if key == "quit" or (key == "open" and self._open()):
                        return None if key == "quit" else self._entries[self._at]
                    self._press(key)
                pending = b"" if whole else pending
        finally:
            signal.signal(signal.SIGWINCH, before)
            self._searcher.stop()

    def locate(self, entry: Pick) -> str:
        """The path to open, as seen from here."""
        root = self._searcher.root or "."
        return os.path.relpath(Path(root) / entry.path)

    def _open(self) -> bool:
        """Whether there is a place to open; in the list of projects, Enter chooses one instead."""
        if not self._entries:
            return False
        if self._question.kind != _PROJECTS:
            return True
        self._ask(Asked("", self._back, self._entries[self._at].path))
        return False

    def _press(self, key: str) -> None:
        question, last = self._question, max(len(self._entries) - 1, 0)
        if key in ("up", "down", "page up", "page down"):
            step = {"up": -1, "down": 1, "page up": -10, "page down": 10}[key]
            self._at = min(max(self._at + step, 0), last)
        elif key in ("kind", "kind back"):
            kinds = KINDS if key == "kind" else KINDS[::-1]
            at = kinds.index(question.kind) if question.kind in kinds else -1
            self._ask(replace(question, kind=kinds[(at + 1) % len(kinds)]))
        elif key == "project":
            self._back = question.kind if question.kind in KINDS else self._back
            self._ask(Asked("", _PROJECTS, question.project))
        elif key.startswith("text "):
            self._ask(replace(question, words=question.words + key[5:]))
        elif key in ("erase", "erase word", "clear"):
            words = question.words
            head = {"erase": words[:-1], "clear": ""}.get(key, words.rstrip().rpartition(" ")[0])
            self._ask(replace(question, words=head))

    def _ask(self, question: Asked) -> None:
        if not question.is_like(self._question):
            self._entries = []  # Enter must not take them for entries of another kind
        self._question, self._at = question, 0

    def _take(self) -> None:
        asked, entries, note = self._searcher.found
        if asked.is_like(self._question):
            self._entries, self._note = entries, note or _HELP
            self._at = min(self._at, max(len(entries) - 1, 0))

    def _draw(self, width: int, height: int) -> None:
        screen = replace(self._session.out, tty=True, width=width)
        rows = max(3, (height - 3) * 2 // 5)
        top = max(0, min(self._at - rows // 2, len(self._entries) - rows))
        kinds = " ".join(
            screen.paint("match" if kind == self._question.kind else "dim", kind)
            for kind in (*KINDS, _PROJECTS)
        )
        place = Path(self._question.project or self._searcher.root or ".").absolute().name
        head = f"{screen.paint('bold', '> ')}{prepare_line(self._question.words)[0]}"
        lines = [head, f"{kinds}  {screen.paint('dim', place)}"]
        if not self._question.words and not self._entries:
            lines.append(
                screen.paint("dim", "  type a question, a name, a path or an error message")
            )
        lines += [
            self._draw_entry(entry, width, is_chosen=at == self._at)
            for at, entry in enumerate(self._entries[top : top + rows], top)
        ]
        lines += [""] * (rows + 2 - len(lines)) + [screen.paint("dim", "─" * width)]
        lines += self._preview(width, height - len(lines) - 1)
        lines += [""] * (height - 1 - len(lines))
        lines = [*lines[: height - 1], screen.paint("dim", cut_line(self._note, width))]
        column = len(prepare_line(self._question.words)[0]) + 3
        body = "\x1b[K\r\n".join(lines)
        os.write(
            1, f"\x1b[?25l\x1b[H{body}\x1b[K\x1b[1;{column}H\x1b[?25h".encode("utf-8", "replace")
        )

    def _draw_entry(self, entry: Pick, width: int, *, is_chosen: bool) -> str:
        where = f"{entry.path}:{entry.line}" if self._question.kind != _PROJECTS else entry.path
        where = prepare_line(where)[0]
        label = cut_line(prepare_line(entry.label.strip())[0], max(width - len(where) - 5, 1))
        if is_chosen:
            return f"\x1b[7m{cut_line(f'▌ {where}  {label}', width - 1)}\x1b[0m"
        return f"  {self._session.out.paint('path', cut_line(where, width - 2))}  {label}"

    def _preview(self, width: int, height: int) -> Iterator[str]:
        if not self._entries or self._question.kind == _PROJECTS or height < 1:
            return
        entry = self._searcher.read(self._entries[self._at])
        lines = entry.text.removesuffix("\n").split("\n")
        first = max(0, min(entry.line - entry.first - height // 3, len(lines) - height))
        find = find_query_words(self._question.words)
        colored = color_code(entry.text, language_of(entry.path).name, self._session.out)
        gutter = len(str(entry.first + len(lines)))
        for at in range(first, min(first + height, len(lines))):
            number = self._session.out.paint("dim", f"{entry.first + at:>{gutter}} │ ")
            yield number + colored.draw(at, find(lines[at]), width - gutter - 3)


def split_keys(data: bytes) -> Iterator[str]:
    """The keys in what the terminal sent: names, and `text ` with what was typed."""
    while data:
        codes = sorted(_KEYS, key=len, reverse=True)
        known = next((code for code in codes if data.startswith(code)), None)
        if known and not (known == b"\x1b" and len(data) > 1):
            yield _KEYS[known]
            data = data[len(known) :]
            continue
        if data.startswith(b"\x1b"):  # a key that means nothing here
            return
        text = data.decode("utf-8", "ignore")
        letters = next((text[:at] for at, char in enumerate(text) if not char.isprintable()), text)
        if letters:
            yield f"text {letters}"
        data = data[len(letters.encode()) :] if letters else data[1:]


class Searcher:
    """Answers the latest query in a thread of its own."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._ready = threading.Condition()
        self._question: Asked | None = None
        self._work: Work | None = None
        self._ended = False
        self.found: tuple[Asked, list[Pick], str] = (Asked(), [], "")
        self.root = ""
        self._thread: threading.Thread | None = None
        self._texts: dict[tuple[str, int], Pick] = {}

    def start(self, done: Callable[[], object]) -> None:
        """Begin to answer; `done` is called from the thread after each answer."""
        self._thread = threading.Thread(target=self._run, args=(done,), daemon=True)
        self._thread.start()

    def ask(self, question: Asked) -> None:
        """Answer this query next; the one in progress is cancelled."""
        with self._ready:
            self._question = question
            if self._work:
                self._work.cancel()
            self._ready.notify()

    def stop(self) -> None:
        """End the thread, waiting for the query in progress."""
        with self._ready:
            self._ended = True
            if self._work:
                self._work.cancel()
            self._ready.notify()
        if self._thread:
            self._thread.join()

    def read(self, entry: Pick) -> Pick:
        """The entry with the lines around its place, read if it has none."""
        if entry.text or not self.root:
            return entry
        from sonde.projects.index import read_current_text

        key = (entry.path, entry.line)
        if key not in self._texts:
            first = max(1, entry.line - _AROUND)
            try:
                span = f"{first}-{entry.line + _AROUND}"
                text = read_current_text(self._session.app.workspace, self.root, entry.path, span)
                self._texts[key] = replace(entry, text=text, first=first)
            except SondeError as error:
                self._texts[key] = replace(entry, text=error.user_message)
        return self._texts[key]

    def _run(self, done: Callable[[], object]) -> None:
        while True:
            with self._ready:
                while self._question is None and not self._ended:
                    self._ready.wait()
                if self._ended:
                    return
                question, self._question = self._question, None
                assert question is not None
                self._work = Work(caller=self._session.caller)
            picks: list[Pick] = []
            try:
                picks, note = self._answer(question, self._work)
            except Cancelled:
                continue
            except SondeError as error:
                note = error.user_message
            except Exception as error:  # noqa: BLE001 - shown; a picker must not die of one question
                note = f"{type(error).__name__}: {error}"
            self.found = question, picks, note
            done()

    def _answer(self, question: Asked, work: Work) -> tuple[list[Pick], str]:
        from sonde.cli.commands.search import widen_name
        from sonde.projects.find import find_project
        from sonde.tools.code import grep, search_by_path, search_code, search_docs
        from sonde.tools.index import list_projects

        app, words = self._session.app, question.words.strip()
        if question.kind == _PROJECTS:
            rows = (row["projectPath"] for row in list_projects(app, work=work)["projects"])
            picks = [Pick(path) for path in rows if words.lower() in path.lower()]
            return picks, "" if picks else "no project is indexed"
        root = str(find_project(app.workspace, question.project or self._session.args.project).root)
        if root != self.root:
            self.root, self._texts = root, {}
        if not words:
            return [], ""
        if question.kind == "lines":
            fold = words == words.lower()
            found = grep(app, words, ignore_case=fold, limit=_LINES, project=root, work=work)
            return [Pick(row["path"], row["line"], row["text"]) for row in found["matches"]], ""
        if question.kind == "files":
            glob = widen_name(words)
            files = search_by_path(app, glob, limit=_LINES, project=root, work=work)["matches"]
            return [Pick(path) for path in files], ""
        verb = search_docs if question.kind == "docs" else search_code
        answer = verb(app, words, top_k=_HITS, project=root, max_tokens=_TOKENS, work=work)
        return list(map(_read_row, answer["results"])), answer["metadata"].get("note", "")


_TOKENS = 40_000  # of one answer: fifty hits with their lines


def _read_row(row: HitRow) -> Pick:
    text, label = row["text"], row.get("symbol", "")
    label = label or next((line for line in text.split("\n") if line.strip()), "")
    return Pick(
        row["path"], row["startLine"], label, text if not row.get("parts") else "", row["startLine"]
    )
