"""`sonde users`: the keys of the server's users, and what the operator gives them."""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path
from typing import get_args

from sonde.cli.session import Session
from sonde.cli.terminal import escape_controls, render_table
from sonde.errors import InvalidRequest
from sonde.stores.users import Gift, Users
from sonde.text.formats import count_of, format_moment, show_time
from sonde.types import LOCAL

_LABELS: Mapping[str, str] = {
    "fileRoots": "may use", "knowledge": "sees the knowledge of",
    "collections": "adds to the knowledge of", "agentNotes": "lets agents add notes:",
}  # fmt: skip


def run_users(session: Session) -> int:
    """Create a key, list all, or revoke those of a user; give a user folders and projects."""
    users = Users(session.settings.home / "users.json")
    action, name = session.args.action, session.args.name
    if action == "list":
        return _list(session, users)
    if action in ("key", "link"):
        return _show_own_key(session, users, action)
    if not name:
        raise InvalidRequest(
            f"users {action} without a name",
            user_message="Whom? Name a user.",
            next_action=f"Run `sonde users {action} NAME`.",
        )
    if action == "add":
        key, secret = users.add_key(name)
        note = f"This is the key of {name}; it is shown only once. Send it as a bearer token."
        answer = {"user": key.user, "id": key.id, "key": secret}
        return session.print_answer(answer, [secret], note)
    if action != "revoke":
        return _give(session, users, action, name)
    ended = users.revoke(name)
    line = f"{count_of(ended, 'key')} revoked; their signed tokens are refused too"
    return session.print_done({"revoked": ended}, line)


def _show_own_key(session: Session, users: Users, action: str) -> int:
    """Print the key of this installation, or a link that signs a browser in with it."""
    from sonde.team_server import read_signing_key
    from sonde.web.accounts import make_login_code

    settings = session.settings
    signing_key = read_signing_key(settings)
    if action == "key":
        key = users.make_own_key(signing_key)
        return session.print_answer({"user": LOCAL, "key": key}, [key])
    host = f"[{settings.host}]" if ":" in settings.host else settings.host
    address = settings.public_url.rstrip("/") or f"http://{host}:{settings.port}"
    link = f"{address}/login?code={make_login_code(signing_key)}"
    note = "The link signs in one browser, once, within 10 minutes, while `sonde serve` runs."
    return session.print_answer({"link": link}, [link], note)


def _give(session: Session, users: Users, action: str, name: str) -> int:
    """Give a user a folder, a project or a collection of knowledge, or withdraw it."""
    knowledge: str = session.args.knowledge or ""
    what = knowledge or _find_folder(session, action, name)
    row = {"user": name, "knowledge" if knowledge else "folder": what}
    shown = f"the knowledge of {knowledge}" if knowledge else what
    if action == "withdraw":
        ended = users.withdraw(name, what)
        done = f"{shown} withdrawn from {name}" if ended else f"{name} was not given {shown}"
        return session.print_done(row | {"withdrawn": ended}, done, found=bool(ended))
    if knowledge and action == "share" and not _has_knowledge(session, knowledge):
        raise InvalidRequest(
            f"users {action} {name} --knowledge {knowledge!r}",
            user_message=f"There is no knowledge of '{knowledge}' to share.",
            next_action=f"Run `sonde knowledge import FOLDER --user {knowledge}` first.",
        )
    fills = action == "allow"
    kind: Gift = "fileRoots" if fills else "projects"
    may = "index, scan and read what is below" if fills else "search and read"
    if knowledge:
        kind, may = ("collections", "read and add to") if fills else ("knowledge", may)
    users.give(kind, name, what)
    return session.print_done(row | {"given": kind}, f"{name} may {may} {shown}")


def _has_knowledge(session: Session, owner: str) -> bool:
    from sonde.stores.knowledge.base import SOURCES

    store = session.app.knowledge.of(owner)
    return any(store.count(source)[0] for source in SOURCES)


def _find_folder(session: Session, action: str, name: str) -> str:
    """The folder on the command line; it must exist unless it is being withdrawn."""
    text = session.args.folder
    folder = Path(text).expanduser().resolve() if text else None
    if folder is None or (action != "withdraw" and not folder.is_dir()):
        raise InvalidRequest(
            f"users {action} {name} {text!r}",
            user_message="This needs a folder that exists.",
            next_action=f"Run `sonde users {action} {name} FOLDER`.",
        )
    return str(folder)


def _list(session: Session, users: Users) -> int:
    rows, cells = [], []
    for key in users.list_keys():
        created, revoked = show_time(key.created_at), show_time(key.revoked_at)
        rows.append({"user": key.user, "id": key.id, "created": created, "revoked": revoked})
        state = f"{'revoked' if revoked else 'created'} "
        state += format_moment(revoked or created, time.time())
        cells.append(tuple(map(escape_controls, (key.user, key.id, state))))
    lines = [*render_table(("USER", "KEY", "STATE"), cells, session.out)]
    given = {kind: users.list_all_given(kind) for kind in get_args(Gift)}
    for kind, holders in given.items():
        for user, places in holders.items():
            label = _LABELS.get(kind, "sees")
            lines += [escape_controls(f"{user}  {label}  {place}") for place in places]
    shown = {k: {u: [*p] for u, p in each.items()} for k, each in given.items()}
    if not rows:
        session.note("there are no keys yet; `sonde users add NAME` creates one")
    return session.print_answer({"keys": rows, **shown}, lines, found=bool(rows))
