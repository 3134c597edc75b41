"""`sonde daemon`: the background processes of this storage folder, shown or stopped."""

from __future__ import annotations

import os
import signal
import socket
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from sonde.cli.background.address import find_address
from sonde.cli.background.front import Channel
from sonde.cli.session import Session
from sonde.runtime.system import try_lock
from sonde.text.formats import count_of, format_bytes, format_moment
from sonde.types import Json

_ANSWER_S = 2.0  # a process that lives answers at once
_STOP_S = 5.0  # then it is killed: stores survive that
_POLL_S = 0.02  # nobody notices it


def run_daemon(session: Session) -> int:
    """Show the background processes, or stop them."""
    stops = session.args.action == "stop"
    found = stop_processes(session) if stops else [*_list_processes(session)]
    lines = [f"{'stopped: ' if stops else ''}{_describe(one)}" for one in found]
    lines = lines or [describe_background(session)]
    return session.print_answer({"processes": found}, lines, found=bool(found))


def describe_background(session: Session) -> str:
    """One line on the processes that serve quick commands and agents."""
    if find_address(session.environ, wanted=True) is None:
        return "off; every command and agent runs in its own process"
    found = map(_describe, _list_processes(session))
    return "; ".join(found) or "not running; it starts with the next quick command"


def stop_processes(session: Session) -> list[Json]:
    """Stop every background process of this storage folder, a stuck one by force."""
    found = [*_list_processes(session)]
    for one in found:
        path, is_stuck = Path(one["socket"]), "version" not in one
        deadline = time.monotonic() + (0.0 if is_stuck or not _ask(path, "stop") else _STOP_S)
        while not (is_gone := _is_free(path)) and time.monotonic() < deadline:
            time.sleep(_POLL_S)
        if not is_gone:
            with suppress(OSError):
                os.kill(one["pid"], signal.SIGKILL)
    return found


def _describe(process: Json) -> str:
    if "version" not in process:
        return f"process {process['pid']} does not answer; stop it with `sonde daemon stop`"
    agents, memory = count_of(process["agents"], "agent"), format_bytes(process["memory"])
    started = f"started {format_moment(process['began'], time.time())}"
    return f"process {process['pid']} of sonde {process['version']}: {agents}, {memory}, {started}"


def _list_processes(session: Session) -> Iterator[Json]:
    """The state that each background process reports; only the process ID if one is stuck."""
    address = find_address({**session.environ, "SONDE_DAEMON": "on"}, wanted=True)
    for path in sorted(Path(address.folder).glob("*.sock")) if address else ():
        with suppress(OSError, ValueError):
            if not _is_free(path):
                number = {"pid": int(path.with_suffix(".lock").read_text())}
                found = _ask(path, "describe") or number
                if address and found.get("home", address.home) == address.home:
                    yield {**found, "socket": str(path)}


def _ask(path: Path, kind: str) -> Json | None:
    with socket.socket(socket.AF_UNIX) as connection, suppress(OSError):
        connection.settimeout(_ANSWER_S)
        connection.connect(str(path))
        channel = Channel(connection)
        with channel.stream:
            channel.send({"kind": kind})
            return channel.receive()
    return None


def _is_free(path: Path) -> bool:
    """Whether no process holds the lock next to a socket."""
    with suppress(FileNotFoundError), path.with_suffix(".lock").open("rb+") as file:
        return try_lock(file.fileno())
    return True
