"""`sonde daemon`: the background processes of this storage folder, shown or stopped."""

from __future__ import annotations

import os
import signal
import socket
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from sonde.cli.background.front import Line
from sonde.cli.background.place import Place, find_place
from sonde.cli.parse import FOUND, NOTHING
from sonde.cli.session import Session
from sonde.runtime.system import try_lock
from sonde.text.formats import count_of, format_bytes, format_moment
from sonde.types import Json

_ANSWER_S = 2.0  # a process that lives answers at once
_STOP_S = 5.0  # then it is killed: stores survive that


def run_daemon(session: Session) -> int:
    """Show the background processes, or stop them."""
    stops = session.args.action == "stop"
    found = stop_processes(session) if stops else [*_ask_all(session, "status")]
    lines = [f"{'stopped: ' if stops else ''}{_describe(one)}" for one in found]
    session.print_answer({"processes": found}, lines or [describe_background(session)])
    return FOUND if found else NOTHING


def describe_background(session: Session) -> str:
    """One line on the process that serves commands like this one."""
    place = find_place(session.environ, wanted=True)
    if place is None:
        return "off; every command and agent has a process of its own"
    found = [*_ask_all(session, "status")]
    return "; ".join(map(_describe, found)) or "not running; it starts with the next quick command"


def stop_processes(session: Session) -> list[Json]:
    """Stop every background process of this storage folder, a stuck one by force."""
    found = [*_ask_all(session, "stop")]
    for one in found:
        deadline = time.monotonic() + (_STOP_S if "version" in one else 0.0)
        while not (is_gone := _is_free(Path(one["lock"]))) and time.monotonic() < deadline:
            time.sleep(0.02)
        if not is_gone and one["pid"]:
            with suppress(OSError):
                os.kill(one["pid"], signal.SIGKILL)
    return found


def _describe(process: Json) -> str:
    if "version" not in process:
        return f"process {process['pid']} does not answer; `sonde daemon stop` ends it"
    agents, memory = count_of(process["agents"], "agent"), format_bytes(process["memory"])
    since = format_moment(process["began"], time.time())
    return f"process {process['pid']} of sonde {process['version']}: {agents}, {memory}, {since}"


def _ask_all(session: Session, kind: str) -> Iterator[Json]:
    """The answer of each process that runs for this storage folder."""
    place = find_place({**session.environ, "SONDE_DAEMON": "on"}, wanted=True)
    for path in sorted(Path(place.folder).glob("*.sock")) if place else ():
        assert place
        lock = path.with_suffix(".lock")
        if not _is_free(lock) and (answer := _ask(path, kind, place)):
            yield {**answer, "lock": str(lock)}


def _ask(path: Path, kind: str, place: Place) -> Json | None:
    """The answer of one process; only its number if it does not answer."""
    try:
        with socket.socket(socket.AF_UNIX) as connection:
            connection.settimeout(_ANSWER_S)
            connection.connect(str(path))
            line = Line(connection)
            line.send({"kind": "status"})
            found = line.receive()
        if found and found["home"] != place.home:
            return None
        if kind == "status" and found:
            return found
        with socket.socket(socket.AF_UNIX) as connection:
            connection.connect(str(path))
            Line(connection).send({"kind": kind})
    except OSError:
        found = None
    with suppress(OSError, ValueError):
        return found or {"pid": int(path.with_suffix(".lock").read_text())}
    return None


def _is_free(lock: Path) -> bool:
    """Whether no process holds a lock."""
    try:
        with lock.open("rb+") as file:
            return try_lock(file.fileno())
    except OSError:
        return True
