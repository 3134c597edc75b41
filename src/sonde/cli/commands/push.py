"""`sonde push`: add the checked-out commit to a shared index, list the index, or clean it."""

from __future__ import annotations

import time

from sonde.cli.session import Session
from sonde.cli.terminal import escape_controls, render_table
from sonde.errors import InvalidRequest
from sonde.text.formats import count_of, format_bytes, format_moment, format_seconds, show_time


def run_push(session: Session) -> int:
    """Push the checked-out commit, or list or clean the shared index."""
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
            session.app.workspace, session.opened, url, work, repository=args.repository or "",
            branch=args.branch or "", complete=not args.first_stage,
        )  # fmt: skip
    added, (have, chunks) = report.added, report.deep
    words = [f"{report.repository} {report.branch or '-'} {report.commit[:12]}:"]
    words += [f"{count_of(report.files, 'file')}, {count_of(report.chunks, 'chunk')};", "new:"]
    counts = ((added.files, "file"), (added.chunks, "chunk"), (added.vectors, "vector"))
    words += [f"{count_of(number, noun)}," for number, noun in counts]
    words.append(f"{format_bytes(report.snapshot_bytes)} of snapshot;")
    line = " ".join([*words, f"in {format_seconds(report.seconds)}"])
    code = session.print_done(report.as_dict(), line)
    notes = (
        f"{count_of(chunks - have, 'chunk')} without a deep vector" if have < chunks else "",
        f"left out, as not committed: {report.left_out:,} files" if report.left_out else "",
        report.note,
    )
    for note in filter(None, notes if not args.json else ()):
        session.note(escape_controls(note))
    return code


def _list(session: Session, url: str) -> int:
    from sonde.shared.index import SharedIndex

    found, now = SharedIndex(url).list_branches(), time.time()
    shown = [
        (escape_controls(one.repository), escape_controls(one.branch) + "*" * one.is_default,
         one.commit[:12], format_moment(show_time(one.pushed_ms), now))
        for one in found
    ]  # fmt: skip
    rows = [
        {"repository": one.repository, "branch": one.branch, "commit": one.commit,
         "pushedMs": one.pushed_ms, "isDefault": one.is_default}
        for one in found
    ]  # fmt: skip
    answer = {"url": url, "branches": rows}
    head = ("REPOSITORY", "BRANCH", "COMMIT", "PUSHED")
    lines = render_table(head, shown, session.out)
    return session.print_answer(answer, lines, found=bool(rows))


def _clean(session: Session, url: str) -> int:
    from sonde.shared.cleanup import clean_index
    from sonde.shared.index import SharedIndex

    with session.working() as work:
        done = clean_index(SharedIndex(url), work)
    removed = ", ".join(f"{count:,} {what}" for what, count in done.items() if count)
    return session.print_done({"url": url, "removed": done}, f"removed: {removed or 'nothing'}")
