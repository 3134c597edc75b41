"""`sonde push`: add the commit that is checked out to a shared index; show it; clean it."""

from __future__ import annotations

import time

from sonde.cli.parse import FOUND, NOTHING
from sonde.cli.session import Session
from sonde.cli.terminal import escape_controls, render_table
from sonde.errors import InvalidRequest
from sonde.text.formats import count_of, format_bytes, format_moment, format_seconds


def run_push(session: Session) -> int:
    """Push the commit that is checked out, or show or clean what was pushed."""
    args = session.args
    url = args.url or session.settings.shared_index
    if not url:
        raise InvalidRequest(
            "neither URL nor sharedIndex is given",
            user_message="Which shared index? Its address is not given.",
            next_action="Name it: `sonde push s3://bucket/path`, or a folder.",
        )
    if args.list:
        return _list(session, url)
    if args.clean:
        return _clean(session, url)
    from sonde.shared.push import push_project

    with session.working() as work:
        report = push_project(
            session.app.workspace,
            session.opened,
            url,
            work,
            repository=args.repository or "",
            branch=args.branch or "",
            complete=not args.first_stage,
        )
    if args.json:
        session.print_json(report.as_dict())
        return FOUND
    place = f"{report.repository} {report.branch} {report.commit[:12]}".replace("  ", " ")
    added = report.added
    new = (
        f"new: {count_of(added.files, 'file')}, {count_of(added.chunks, 'chunk')}, "
        f"{count_of(added.vectors, 'vector')}, {format_bytes(report.snapshot_bytes)} of snapshot"
    )
    total = f"{count_of(report.files, 'file')}, {count_of(report.chunks, 'chunk')}"
    session.print_done(
        report.as_dict(), f"{place}: {total}; {new}; in {format_seconds(report.seconds)}"
    )
    have, chunks = report.deep
    if have < chunks:
        session.note(f"{chunks - have:,} chunks have no deep vector")
    if report.left_out:
        session.note(f"left out: {count_of(report.left_out, 'file')} that are not committed")
    if report.note:
        session.note(escape_controls(report.note))
    return FOUND


def _list(session: Session, url: str) -> int:
    from sonde.shared.index import SharedIndex

    found = SharedIndex.open(url).repositories()
    rows = [
        (one.name, branch + ("*" if branch == one.default else ""), head.commit, head.pushed_ms)
        for one in found
        for branch, head in sorted(one.heads.items())
    ]
    names = ("repository", "branch", "commit", "pushedMs")
    if session.args.json:
        listed = [dict(zip(names, (n, b.rstrip("*"), c, ms), strict=True)) for n, b, c, ms in rows]
        session.print_json({"url": url, "branches": listed})
    else:
        now = time.time()
        shown = [
            (escape_controls(name), escape_controls(branch), commit[:12], _show_moment(ms, now))
            for name, branch, commit, ms in rows
        ]
        head = ("REPOSITORY", "BRANCH", "COMMIT", "PUSHED")
        session.print_lines(render_table(head, shown, session.out))
    return FOUND if rows else NOTHING


def _show_moment(ms: int, now_s: float) -> str:
    from datetime import UTC, datetime

    return format_moment(datetime.fromtimestamp(ms / 1000, UTC).isoformat(), now_s)


def _clean(session: Session, url: str) -> int:
    from sonde.shared.cleaning import clean_index
    from sonde.shared.index import SharedIndex

    with session.working() as work:
        done = clean_index(SharedIndex.open(url), work)
    removed = ", ".join(f"{count:,} {what}" for what, count in done.items() if count)
    session.print_done({"url": url, "removed": done}, f"removed: {removed or 'nothing'}")
    return FOUND
