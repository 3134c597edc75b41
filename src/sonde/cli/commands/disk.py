"""The commands `tree` and `jobs`: scanned folders and long work."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from sonde.cli.parse import FOUND, NOTHING
from sonde.cli.session import Session
from sonde.cli.terminal import escape_controls, render_table
from sonde.errors import NodeMissing
from sonde.policy.roots import show_path
from sonde.stores.disk.base import (
    FOLDER,
    ROOT_ID,
    STATES,
    AgeTotal,
    Copies,
    DiskIndex,
    ExtensionTotal,
    Growth,
    Node,
    Sort,
)
from sonde.stores.disk.filters import parse_filter
from sonde.text.formats import count_of, format_bytes, format_moment, format_seconds
from sonde.types import Caller, Json

if TYPE_CHECKING:
    from sonde.disk.reports import DiskReport
    from sonde.disk.trees import ScanReport

_LIMIT = 50  # matches, or rows of a report, without --limit: about a screen
_TREE_ROWS = 10  # children of a folder that `tree` shows
_JOB_ROWS = 20  # without --limit: the newest, less than a screen
_NAMES_KIND = re.compile(r"\bkind:|\bis:")
"""Filters that say themselves whether folders are meant."""
_STATE_NOTES = {"linked": "counted elsewhere", "outside": ""}


def run_tree(session: Session) -> int:
    """Scan a folder and show its contents, largest first."""
    from sonde.disk.indexes import find_index_of, start_scan

    disk, args = session.app.disk, session.args
    root = Path(args.path or ".").expanduser().resolve()
    if not root.is_dir():
        raise NodeMissing(
            f"{root} is no folder",
            user_message=f"There is no folder '{root}'.",
            next_action="Check the spelling. Without a folder, the current one is scanned.",
        )
    index = find_index_of(disk, Caller(), root)
    report: ScanReport | None = None
    if not (index and args.no_scan):
        with session.working() as work:
            # typing the command is consent: fileRoots are for agents
            report = start_scan(
                disk, Caller(), root, depth_limit=args.max_depth, follow=args.follow_symlinks
            ).join(work)
        index = find_index_of(disk, Caller(), root)
    assert index is not None
    if args.where is not None:
        return _print_matches(session, index)
    if args.report:
        return _print_report(session, index)
    answer = _describe(session, index, report) if args.json else {}
    return session.print_answer(answer, _draw(session, index), _sum_up(report) if report else "")


def _print_matches(session: Session, index: DiskIndex) -> int:
    from sonde.disk.sets import find_matches
    from sonde.tools.shapes.nodes import show_matches

    # the totals of a folder are those of what is in it: every folder above a large file is large
    text = session.args.where
    narrowed = text if _NAMES_KIND.search(text) else f"({text}) kind:file"
    parse_filter(text)  # a mistake is reported where it was typed
    where, limit = parse_filter(narrowed), session.args.limit or _LIMIT
    with session.working() as work:
        found = find_matches(session.app.disk, index, where, limit, work)
    count, shown = found.totals.entries, len(found.nodes)
    lines = (_draw_node(session, node, found.paths[node.id]) for node in found.nodes)
    more = f"; {count - shown:,} more not shown" if count > shown else ""
    note = f"{count:,} found, {format_bytes(found.totals.size)}{more}"
    return session.print_answer(show_matches(found, Caller()), lines, note, found=bool(count))


def _print_report(session: Session, index: DiskIndex) -> int:
    from sonde.disk.reports import compare_copies, read_disk_report
    from sonde.tools.shapes.nodes import show_disk_report
    from sonde.tools.shapes.shell import show_epoch

    disk, args = session.app.disk, session.args
    if args.report == "duplicates":
        with session.working() as work:
            compare_copies(disk, index).join(work)
    limit = args.limit or _LIMIT
    found = read_disk_report(disk, index, args.report, limit=limit, since=args.since)
    note = "there is no earlier scan to compare with" if found.kind == "growth" else ""
    if base := found.since_scan:
        moment = format_moment(show_epoch(base.started_ms), time.time())
        note = f"compared with the scan of {moment}"
    answer, lines = show_disk_report(found, Caller()), _draw_report(session, found)
    return session.print_answer(answer, lines, note, found=bool(found.page.rows))


def _draw_report(session: Session, report: DiskReport) -> Iterator[str]:
    paint = session.out.paint
    for row in report.page.rows:
        match row:
            case ExtensionTotal():
                name = f".{escape_controls(row.extension)}" if row.extension else "(none)"
                yield f"{format_bytes(row.size):>10}  {row.files:>9,} files  {name}"
            case AgeTotal():
                yield f"{format_bytes(row.size):>10}  {row.files:>9,} files  {row.age}"
            case Copies():
                copies = paint("dim", f"{row.copies} x {format_bytes(row.size)}")
                yield f"{format_bytes(row.size * (row.copies - 1)):>10}  {copies}"
                for node in row.nodes:
                    yield f"{'':>12}{_draw_name(session, node, report.paths[node.id])}"
            case Growth():
                change = row.now - row.before
                size = f"{'+' if change > 0 else '-'}{format_bytes(abs(change))}"
                if row.node:
                    name = _draw_name(session, row.node, report.paths[row.node.id])
                else:
                    name = escape_controls(show_path(row.name)) + paint("dim", "  gone")
                yield f"{size:>11}  {name}"
            case _:
                yield _draw_node(session, row.node, report.paths[row.node.id])


def _draw_node(session: Session, node: Node, path: str) -> str:
    from sonde.tools.shapes.shell import show_epoch

    when = session.out.paint("dim", show_epoch(node.mtime_ms)[:10])
    return f"{format_bytes(node.size):>10}  {when}  {_draw_name(session, node, path)}"


def _draw_name(session: Session, node: Node, path: str) -> str:
    name = escape_controls(path)
    return session.out.paint("path", f"{name}/") if node.kind == FOLDER else name


def _rows(session: Session, index: DiskIndex) -> Iterator[tuple[int, Node | int]]:
    """Depth and node; a number stands for that many nodes that are not shown."""
    tree = session.app.disk.tree(index.id)
    sort: Sort = session.args.sort or "size"
    most, deepest = session.args.limit or _TREE_ROWS, session.args.depth or 1

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
            notes.append(_STATE_NOTES.get(STATES[node.state], STATES[node.state].replace("_", " ")))
        tail = paint("dim", f"  {', '.join(filter(None, notes))}") if any(notes) else ""
        yield f"{format_bytes(node.size):>10}  {'  ' * depth}{shown}{tail}"


def _describe(session: Session, index: DiskIndex, report: ScanReport | None) -> Json:
    from sonde.tools.shapes.nodes import show_node_row

    entries = [
        {**show_node_row(index.id, node, Caller()), "depth": depth, "sizeOnDisk": node.disk}
        for depth, node in _rows(session, index)
        if not isinstance(node, int)
    ]
    answer: Json = {"indexId": index.id, "root": index.root, "entries": entries}
    return answer | ({"report": report.as_dict()} if report else {})


def _sum_up(report: ScanReport) -> str:
    counts = {"added": report.added, "changed": report.changed, "removed": report.removed}
    if report.added + 1 >= report.files + report.folders:  # the first scan: everything is new
        counts = {}
    changes = ", ".join(f"{number:,} {name}" for name, number in counts.items() if number)
    files, folders = count_of(report.files, "file"), count_of(report.folders, "folder")
    line = f"{files}, {folders} in {format_seconds(round(report.seconds, 2))}"
    rest = {name: count for name, count in report.problems.items() if name != "linked"}
    problems = ", ".join(f"{count:,} {name.replace('_', ' ')}" for name, count in rest.items())
    return "; ".join(part for part in (line, changes, problems) if part)


def run_jobs(session: Session) -> int:
    """List jobs, newest first, or stop one."""
    from sonde.projects.find import find_job, sees_job
    from sonde.tools.shapes.shell import compute_percent, show_epoch, show_job

    app, caller = session.app, Caller()
    if session.args.stop:
        record = find_job(app.workspace, session.args.stop)
        stopped = app.workspace.jobs.stop(record.id)
        session.note("stopping, within a second" if stopped else "the job was not running")
        return FOUND if stopped else NOTHING
    recent = app.workspace.jobs.recent(session.args.limit or _JOB_ROWS)
    records = [record for record in recent if sees_job(app.workspace, record)]

    def draw() -> Iterator[str]:
        scanned = {index.id: index.root for index in app.disk.list_indexes(caller.user)}
        rows = []
        for record in records:
            begun = record.total is not None and (record.done or record.status == "running")
            share = f"{compute_percent(record):.0f}%" if begun else ""
            subject = escape_controls(scanned.get(record.subject, record.subject))
            when = format_moment(show_epoch(record.started_ms), time.time())
            rows.append((record.id, record.kind, record.status, when, share, subject))
        head = ("JOB", "KIND", "STATUS", "STARTED", "DONE", "OF")
        yield from render_table(head, rows, session.out)

    answer = {"jobs": [show_job(record, caller) for record in records]}
    note = "" if records else "no job has run yet"
    return session.print_answer(answer, draw(), note, found=bool(records))
