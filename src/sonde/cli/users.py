"""`sonde users`: who may use `sonde serve`."""

from __future__ import annotations

from sonde.cli.render import count_of
from sonde.cli.session import Session
from sonde.cli.terminal import escape_controls
from sonde.errors import InvalidRequest
from sonde.stores.users import Users

FOUND, NOTHING = 0, 1


def run_users(session: Session) -> int:
    """Give out a key, list them, or take them back."""
    users = Users(session.settings.home / "users.json")
    action, name = session.args.action, session.args.name
    if action == "list":
        return _list(session, users)
    if not name:
        raise InvalidRequest(
            f"users {action} without a name",
            user_message="Whom? Name a user.",
            next_action=f"Run `sonde users {action} NAME`.",
        )
    if action == "add":
        key, secret = users.add_key(name)
        if session.args.json:
            session.print_json({"user": key.user, "id": key.id, "key": secret})
        else:
            session.print_lines([secret])
            session.note(f"The key of {name}; it is shown this once. Send it as a bearer token.")
        return FOUND
    ended = users.revoke(name)
    if session.args.json:
        session.print_json({"revoked": ended})
    else:
        good = session.out.paint("good", "✓")
        told = f"{count_of(ended, 'key')} revoked; signed tokens of theirs end as well"
        session.print_lines([f"{good} {told}"])
    return FOUND


def _list(session: Session, users: Users) -> int:
    from sonde.knowledge.times import show_time

    rows = [
        {
            "user": key.user,
            "id": key.id,
            "created": show_time(key.created_at),
            "revoked": show_time(key.revoked_at),
        }
        for key in users.list_keys()
    ]
    if session.args.json:
        session.print_json({"keys": rows})
    for row in [] if session.args.json else rows:
        state = f"revoked {row['revoked']}" if row["revoked"] else f"since {row['created']}"
        session.print_lines([escape_controls(f"{row['user']}  {row['id']}  {state}")])
    if not rows:
        session.note("no key was given out yet; `sonde users add NAME` gives one")
    return FOUND if rows else NOTHING
