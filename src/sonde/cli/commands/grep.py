"""The command `grep`: matching lines, with rg's options and output formats."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace

from sonde.cli.arguments import Arguments
from sonde.cli.grep.files import SearchedFile, Selection, choose_searched
from sonde.cli.grep.printing import Form, Part, Printer, pick_lines
from sonde.cli.parse import FAILED, FOUND, NOTHING
from sonde.cli.session import Session
from sonde.errors import InvalidRequest
from sonde.indexing.sources import TreeReader
from sonde.runtime.work import Work
from sonde.searching.lines.candidates import sift_files
from sonde.searching.lines.grep import ByteLine, Expression, compile_pattern
from sonde.text.formats import count_of
from sonde.types import FileText

_STDIN = "<stdin>"
_PIPE_BYTES = 1 << 16  # what a pipe holds at once
_MOST_HELD_BYTES = 1 << 28  # of standard input: a line, its context, or what is searched as a whole
_ESCAPE = re.compile(r"\\(?:[pP]\{[^}]*\}|[pP]\w|.)")
"""What stands for a set in a pattern: in `\\S`, there is no capital."""


def run_grep(session: Session) -> int:
    """Print matching lines. Exits with 0 if found, 1 if not, 2 on any error."""
    args = session.args
    patterns = _read_patterns(session)
    reads_stdin = args.paths == ["-"] or (
        not (args.paths or args.files or args.project) and _has_input(session)
    )
    if args.files:
        return _list_files(session)
    expression = compile_pattern(
        *patterns,
        ignore_case=_ignores_case(args, patterns),
        whole_word=args.whole == "word",
        whole_line=args.whole == "line",
        fixed_string=args.fixed_strings,
        multiline=args.multiline,
        dot_all=args.multiline_dotall,
    )
    form = _read_form(session, expression, reads_stdin=reads_stdin)
    printer = Printer(form, session.out, session.console.stdout.buffer)
    if reads_stdin:
        parts = _read_stdin(session, printer, expression, form)
        any_found = printer.print_file(_STDIN, parts, expression)
        return _finish(session, printer, form, Selection(), any_found=any_found)
    with session.working() as work:
        narrows = not form.invert and form.mode != "without"
        needs, counted = expression.needs if narrows else None, form.stats or form.mode == "json"
        chosen = choose_searched(session, work.check, needs, count=counted)
        session.console.stdout.flush()
        any_found = False
        counts = form.mode == "count" and not (form.stats or args.limit or expression.breaks)
        for found, text, at in _read(chosen, expression if narrows else None, work):
            if counts:
                count = expression.count_lines(text.data, work.check, at=at)
                if form.invert:
                    count = text.data.count(b"\n") + (text.data[-1:] not in (b"", b"\n")) - count
                count = count if form.most is None else min(count, form.most)
                any_found |= printer.print_count(found.shown, count)
                continue
            lines = pick_lines(expression, text.data, form, work.check, at=at)
            lines = lines[: args.limit - printer.totals.lines] if args.limit else lines
            any_found |= printer.print_file(found.shown, [Part(text.data, lines)], expression)
            if args.limit and printer.totals.lines >= args.limit:
                break
        printer.totals.searched = chosen.counted
        printer.totals.searched_bytes = chosen.counted_bytes
    return _finish(session, printer, form, chosen, any_found=any_found)


def _finish(
    session: Session, printer: Printer, form: Form, chosen: Selection, *, any_found: bool
) -> int:
    if form.mode == "json":
        printer.print_summary()
    elif session.args.stats:
        session.console.stdout.buffer.write(("\n".join(printer.totals.render()) + "\n").encode())
    session.console.stdout.buffer.flush()
    _note(session, chosen)
    return FAILED if chosen.errors else FOUND if any_found else NOTHING


def _note(session: Session, chosen: Selection) -> None:
    """Report on stderr which files rg would have searched, and which arguments do not exist."""
    for error in chosen.errors:
        session.show_error(error)
    notes = []
    if chosen.left_out:
        counts = (f"{count:,} {what}" for what, count in chosen.left_out.most_common())
        notes.append(f"not searched: {', '.join(counts)}; -u searches them")
    if chosen.secrets:
        notes.append(f"{count_of(chosen.secrets, 'file')} with secrets not read")
    if notes:
        session.note(" · ".join(notes))


def _list_files(session: Session) -> int:
    """`--files`: the names of the files that would be searched."""
    printer = Printer(Form(), session.out, session.console.stdout.buffer)
    if session.args.paths == ["-"]:
        printer.print_path(_STDIN)
        return FOUND
    with session.working() as work:
        chosen = choose_searched(session, work.check)
    for found in chosen.files:
        printer.print_path(found.shown)
    session.console.stdout.buffer.flush()
    _note(session, chosen)
    return FAILED if chosen.errors else FOUND if chosen.files else NOTHING


def _read(
    chosen: Selection, narrow: Expression | None, work: Work
) -> Iterator[tuple[SearchedFile, FileText, int]]:
    """The texts of the files that can match, in order, and where to begin."""
    every = ((found.entry, found.trusted, found) for found in chosen.files)
    find = narrow.find_among if narrow else lambda texts: ((at, 0) for at in range(len(texts)))
    with ExitStack() as stack:
        readers: dict[int, TreeReader] = {}
        for (entry, _, found), held, at in sift_files(every, chosen.stores, find):
            work.check()
            tree = found.place.tree
            if held is None and id(tree) not in readers:
                readers[id(tree)] = stack.enter_context(TreeReader(tree))
            text = held or readers[id(tree)].read_utf8(entry.path)
            if isinstance(text, FileText):
                yield found, text, at
            else:
                chosen.take_refusal(found.shown, text)


def _read_stdin(
    session: Session, printer: Printer, expression: Expression, form: Form
) -> Iterator[Part]:
    """Standard input as it arrives, up to the last line that is asked for; all of it at once if a
    match may go over several lines."""
    source, out = session.console.stdin, session.console.stdout
    assert source  # `_has_input`, or - was named
    rest, above = bytearray(), b""  # a line that is not whole, and lines that may become context
    number, offset, most, owed, more = 1, 0, form.most, 0, True
    while more and (most != 0 or owed > 0):
        out.buffer.flush()
        # what has come in by now; it waits for the first byte
        arrived = source.buffer.read1(_PIPE_BYTES)  # type: ignore[attr-defined]
        more = bool(arrived)
        rest += arrived
        end = rest.rfind(b"\n", -len(arrived)) + 1 if more else len(rest)
        if len(rest) + len(above) > _MOST_HELD_BYTES:
            raise InvalidRequest(
                f"{len(rest)} bytes without an end",
                user_message="Standard input has more to hold at once than 256 MB.",
                next_action="Save it to a file and search that, or search it without -U.",
            )
        if more and (not end or expression.breaks):
            continue
        data = bytes(rest[:end])
        del rest[:end]
        lines = pick_lines(expression, data, replace(form, most=most), lambda: None)
        if lines:
            most, owed = most and most - len(lines), form.after + 1
        owed -= data.count(b"\n", lines[-1].end if lines else 0)
        size, first = len(above), number - above.count(b"\n")
        moved = [ByteLine(n + number - 1, a + size, b + size, spans) for n, a, b, spans in lines]
        number, offset, data = number + data.count(b"\n"), offset + len(data), above + data
        printer.totals.searched, printer.totals.searched_bytes = 1, offset
        yield Part(data, moved, first, offset - len(data))
        above = b"\n".join(data.rsplit(b"\n", form.before + 1)[-form.before - 1 :])


def _has_input(session: Session) -> bool:
    """Whether something is piped in: a file, a pipe or a socket, as rg decides it."""
    source = session.console.stdin
    if source is None:
        return False
    try:
        mode = os.fstat(source.fileno()).st_mode
    except (OSError, ValueError):
        return False
    return stat.S_ISREG(mode) or stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode)


def _read_patterns(session: Session) -> tuple[str, ...]:
    """The patterns of -e and -f; without them, the first word is the pattern."""
    args = session.args
    patterns = list(args.regexp or ())
    for name in args.file or ():
        try:
            source = session.console.stdin
            piped = name == "-" and source
            data = piped.buffer.read() if piped else session.at(name).read_bytes()
            patterns += data.decode("utf-8").removesuffix("\n").split("\n") if data else []
        except (OSError, UnicodeDecodeError) as error:
            reason = getattr(error, "strerror", None) or "it is not UTF-8"
            raise InvalidRequest(
                f"{name}: {error}",
                user_message=f"The patterns in '{name}' cannot be read: {reason}.",
                next_action="Name a text file with one pattern per line, or - for standard input.",
            ) from error
    words = [word for word in (args.pattern, *args.paths) if word is not None]
    if not (args.regexp or args.file or args.files):
        patterns, words = words[:1], words[1:]
    args.paths = words
    if not patterns and not (args.files or args.file):
        raise InvalidRequest(
            "no pattern",
            user_message="There is no pattern to search for.",
            next_action="Run `sonde grep PATTERN [PATH ...]`, or give patterns with -e or -f.",
        )
    return tuple(patterns)


def _ignores_case(args: Arguments, patterns: tuple[str, ...]) -> bool:
    """The last of -i, -s and -S decides; smart case looks for a capital in any pattern."""
    if args.case == "smart":
        text = "".join(_ESCAPE.sub("", pattern) for pattern in patterns)
        return any(map(str.isalpha, text)) and not any(map(str.isupper, text))
    return bool(args.case == "ignore")


def _read_form(session: Session, expression: Expression, *, reads_stdin: bool) -> Form:
    args, tty = session.args, session.out.tty
    around = args.context or 0
    mode = "matches" if args.mode == "count" and args.only_matching else args.mode or "lines"
    one = reads_stdin or (len(args.paths) == 1 and session.at(args.paths[0]).is_file())
    shown = not one or args.vimgrep if args.with_filename is None else args.with_filename
    numbers = args.line_number
    if numbers is None:
        numbers = mode == "json" or (tty and not reads_stdin) or args.column or args.vimgrep
    return Form(
        mode=mode,
        paths=shown,
        numbers=numbers,
        column=(args.column or args.vimgrep) and not args.invert_match,
        each=args.vimgrep,
        only=args.only_matching,
        heading=(tty if args.heading is None else args.heading)
        and (shown or not reads_stdin)
        and not args.vimgrep,
        before=around if args.before_context is None else args.before_context,
        after=around if args.after_context is None else args.after_context,
        invert=args.invert_match,
        most=args.max_count,
        replace=expression.make_replacer(args.replace) if args.replace is not None else None,
        stats=args.stats,
        full=args.full,
    )
