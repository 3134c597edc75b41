"""What `sonde tree` finds by filter, and its reports."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from sonde.cli.render import format_bytes
from sonde.cli.session import Session
from sonde.cli.terminal import escape_controls

if TYPE_CHECKING:
    from sonde.stores.saved_base import DiskIndex

FOUND, NOTHING = 0, 1
_LIMIT = 50


def show_matches(session: Session, index: DiskIndex) -> int:
    """The largest of what fits a filter."""
    from sonde.filters import parse_filter
    from sonde.tools.file_queries import find_matches

    where, limit = parse_filter(session.args.where), session.args.limit or _LIMIT
    with session.working() as work:
        answer = find_matches(session.app, index, where, limit, work)
    count, shown = answer["matches"], answer["entries"]
    if session.args.json:
        session.print_json(answer)
        return FOUND if count else NOTHING
    session.print_lines(_draw_entry(session, row) for row in shown)
    more = f"; {count - len(shown):,} more are not shown" if count > len(shown) else ""
    session.note(f"{count:,} found, {format_bytes(answer['totalSize'])}{more}")
    return FOUND if count else NOTHING


def show_report(session: Session, index: DiskIndex) -> int:
    """One report."""
    from sonde.tools.file_content import compare_copies
    from sonde.tools.file_reports import read_report
    from sonde.types import Caller

    app, args = session.app, session.args
    if args.report == "duplicates":
        with session.working() as work:
            compare_copies(app, index).join(work)
    answer = read_report(
        app, index, args.report, Caller(), limit=args.limit or _LIMIT, since=args.since
    )
    if args.json:
        session.print_json(answer)
    else:
        session.print_lines(_draw_report(session, args.report, answer["rows"]))
        if args.report == "growth":
            since = answer.get("since")
            session.note(f"since {since}" if since else "there is no earlier scan to compare with")
    return FOUND if answer["rows"] else NOTHING


def _draw_report(session: Session, report: str, rows: list[dict[str, Any]]) -> Iterator[str]:
    paint = session.out.paint
    for row in rows:
        if report == "by-extension":
            name = f".{escape_controls(row['extension'])}" if row["extension"] else "(none)"
            yield f"{format_bytes(row['size']):>10}  {row['files']:>9,} files  {name}"
        elif report == "by-age":
            yield f"{format_bytes(row['size']):>10}  {row['files']:>9,} files  {row['age']}"
        elif report == "duplicates":
            copies = paint("dim", f"{row['copies']} x {format_bytes(row['size'])}")
            yield f"{format_bytes(row['wasted']):>10}  {copies}"
            yield from (f"{'':>12}{_name(session, entry)}" for entry in row["entries"])
        elif report == "growth":
            sign = "+" if row["growth"] > 0 else "-"
            size = f"{sign}{format_bytes(abs(row['growth']))}"
            gone = paint("dim", "  gone") if row.get("state") == "gone" else ""
            yield f"{size:>11}  {_name(session, row)}{gone}"
        else:
            yield _draw_entry(session, row)


def _draw_entry(session: Session, row: Mapping[str, Any]) -> str:
    when = session.out.paint("dim", row["modifiedAt"][:10])
    return f"{format_bytes(row['size']):>10}  {when}  {_name(session, row)}"


def _name(session: Session, row: Mapping[str, Any]) -> str:
    name = escape_controls(row.get("path") or row["name"])
    return session.out.paint("path", f"{name}/") if row.get("kind") == "directory" else name
