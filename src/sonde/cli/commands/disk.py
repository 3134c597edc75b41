"""The commands about disks and jobs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sonde.cli.session import Session
from sonde.cli.terminal import escape_controls
from sonde.text.sizes import count_of, format_bytes
from sonde.text.times import format_seconds

if TYPE_CHECKING:
    from sonde.stores.disk.base import DiskIndex
if TYPE_CHECKING:
    from sonde.stores.disk.base import DiskIndex, Node, Sort


_LIMIT = 50


def show_matches(session: Session, index: DiskIndex) -> int:
    """The largest of what fits a filter."""
    from sonde.disk.queries import find_matches
    from sonde.stores.disk.filters import parse_filter

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


def print_report(session: Session, index: DiskIndex) -> int:
    """One report."""
    from sonde.disk.contents import compare_copies
    from sonde.disk.reports import read_disk_report
    from sonde.types import Caller

    app, args = session.app, session.args
    if args.report == "duplicates":
        with session.working() as work:
            compare_copies(app, index).join(work)
    answer = read_disk_report(
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


FOUND, NOTHING = 0, 1
_MARKS = {"linked": "counted elsewhere", "outside": ""}


def run_tree(session: Session) -> int:
    """Scan a folder and show what is in it, the largest first."""
    from sonde.errors import NodeMissing
    from sonde.tools.disk import start_scan
    from sonde.types import Caller

    app, args = session.app, session.args
    root = Path(args.path or ".").expanduser().resolve()
    if not root.is_dir():
        raise NodeMissing(
            f"{root} is no folder",
            user_message="There is no {what} '{path}'.",
            next_action="Name a folder that is there; without one, this one is scanned.",
            what="folder",
            path=str(root),
        )
    caller = Caller()
    known = [i for i in app.disk.saved.indexes(caller.user) if i.root == str(root)]
    report: Any = None
    if not (known and args.no_scan):
        with session.working() as work:
            # typing the command is consent: fileRoots are for agents
            report = start_scan(
                app, caller, root, depth_limit=args.max_depth, follow=args.follow_symlinks
            ).join(work)
        known = [i for i in app.disk.saved.indexes(caller.user) if i.root == str(root)]
    if args.where is not None:
        return show_matches(session, known[0])
    if args.report:
        return print_report(session, known[0])
    if args.json:
        session.print_json(_describe(session, known[0], report))
    else:
        session.print_lines(_draw(session, known[0]))
        if report:
            session.note(_sum_up(report.as_dict()))
    return FOUND


def _rows(session: Session, index: DiskIndex) -> Iterator[tuple[int, Node | int]]:
    """Depth and node; a number stands for so many that are not shown."""
    from sonde.stores.disk.base import ROOT_ID

    tree = session.app.disk.tree(index.id)
    sort: Sort = session.args.sort or "size"
    most, deepest = session.args.limit or 10, session.args.depth or 1

    def below(node: Node, depth: int) -> Iterator[tuple[int, Node | int]]:
        children = tree.children(node.id, most, sort)
        for child in children:
            yield depth, child
            if depth < deepest and child.children:
                yield from below(child, depth + 1)
        if node.children > len(children):
            yield depth, node.children - len(children)

    root = tree.get(ROOT_ID)
    if root:
        yield 0, root
        yield from below(root, 1)


def _draw(session: Session, index: DiskIndex) -> Iterator[str]:
    from sonde.policy.roots import show_path
    from sonde.stores.disk.base import FOLDER, STATES

    paint = session.out.paint
    for depth, node in _rows(session, index):
        if isinstance(node, int):
            yield paint("dim", f"{'':>10}  {'  ' * depth}… {node:,} more")
            continue
        name = escape_controls(show_path(node.name)) if depth else escape_controls(index.root)
        folder = node.kind == FOLDER
        shown = paint("path", name + "/" * (depth > 0)) if folder else name
        notes = [count_of(node.files, "file")] if folder and node.files else []
        if STATES[node.state] not in ("ok", "pending"):
            notes.append(_MARKS.get(STATES[node.state], STATES[node.state].replace("_", " ")))
        tail = paint("dim", f"  {', '.join(filter(None, notes))}") if any(notes) else ""
        yield f"{format_bytes(node.size):>10}  {'  ' * depth}{shown}{tail}"


def _describe(session: Session, index: DiskIndex, report: Any) -> dict[str, Any]:
    from sonde.tools.shapes.shell import show_listing_entry
    from sonde.types import Caller

    caller = Caller()
    entries = [
        {**show_listing_entry(index.id, node, caller), "depth": depth, "sizeOnDisk": node.disk}
        for depth, node in _rows(session, index)
        if not isinstance(node, int)
    ]
    answer: dict[str, Any] = {"indexId": index.id, "root": index.root, "entries": entries}
    return answer | ({"report": report.as_dict()} if report else {})


def _sum_up(report: dict[str, Any]) -> str:
    changes = ", ".join(f"{report[k]:,} {k}" for k in ("added", "changed", "removed") if report[k])
    seconds = format_seconds(report["seconds"])
    files, folders = count_of(report["files"], "file"), count_of(report["folders"], "folder")
    line = f"{files}, {folders} in {seconds}"
    problems = ", ".join(
        f"{count:,} {name.replace('_', ' ')}"
        for name, count in report.get("problems", {}).items()
        if name != "linked"
    )
    return "; ".join(part for part in (line, changes, problems) if part)


def run_jobs(session: Session) -> int:
    """List jobs, the newest first, or stop one."""
    from sonde.tools.disk import find_job
    from sonde.tools.shapes.shell import show_job
    from sonde.types import Caller

    app, caller = session.app, Caller()
    if session.args.stop:
        record = find_job(app, caller, session.args.stop)
        stopped = app.workspace.jobs.stop(record.id)
        session.note("it will stop within a second" if stopped else "it was not running")
        return FOUND if stopped else NOTHING
    records = [
        r
        for r in app.workspace.jobs.recent(session.args.limit or 20)
        if r.owner in ("", caller.user)
    ]
    if session.args.json:
        session.print_json({"jobs": [show_job(record, caller) for record in records]})
        return FOUND if records else NOTHING
    paint = session.out.paint
    scanned = {index.id: index.root for index in app.disk.saved.indexes(caller.user)}
    for record in records:
        row = show_job(record, caller)
        share = row.get("progress", {}).get("progressPct")
        subject = scanned.get(record.subject, record.subject)
        style = {"done": "good", "running": "bold"}.get(record.status, "warn")
        parts = [record.id, f"{record.kind:<10}", paint(style, f"{record.status:<11}")]
        parts += [row["startedAt"], f"{share:5.1f}%" if share is not None else "      "]
        session.print_lines(["  ".join([*parts, escape_controls(subject)]).rstrip()])
    if not records:
        session.note("no job was run yet")
    return FOUND if records else NOTHING
