"""The front: hands a command line or an agent's stream to the background process.

It starts that process when there is none. Whatever goes wrong before the process has taken the
call, the caller's own process does the work instead. Standard library only: a command from the
shell should cost no more than a start of Python.
"""

from __future__ import annotations

import json
import os
import socket
import sys
import time

from sonde.cli.background.place import Place, find_place

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

QUICK = frozenset(("search", "grep", "related", "history", "files", "status", "projects"))
"""Commands that run in the background process: short, asking nothing, changing no setting."""
_TAKING = ("-p", "--project", "--color")  # options before the command that have a value
_FAILED, _INTERRUPTED = 2, 130  # as in `sonde.cli.parse`, which loads more than the front needs
_TRIES = 3  # a process may end just when it is called; one that ends this often will again
_START_S = 5.0  # for another front to have started it, or for an old process to be gone
_READY_S = 3.0  # a process that lives takes a call at once, even on a busy machine
_STARTED_READY_S = 10.0  # the same for one that starts
_STOP_S = 1.5  # after Ctrl-C, for running work to end cleanly
_POLL_S = 0.02  # shorter than a start of Python
_BACKLOG = 128  # callers that wait while the process starts
_GONE = "sonde: the background process ended during this command\n  → Repeat it.\n"


def ask_background(argv: Sequence[str], environ: Mapping[str, str], *, wanted: bool) -> int | None:
    """The exit code of a command that the background process ran; None: run it here.

    Unless it is `wanted`, only if a setting says so.
    """
    command = _find_command(argv)
    if command not in QUICK and (command != "mcp" or os.isatty(0)):
        return None
    place = find_place(environ, wanted=wanted)
    if place is None:
        return None
    if command == "mcp":
        from sonde.cli.background.relay import relay

        return relay(place, argv)
    try:
        return _run_command(place, argv)
    except KeyboardInterrupt:
        return _INTERRUPTED


def _find_command(argv: Sequence[str]) -> str:
    words = iter(argv)
    for word in words:
        if not word.startswith("-"):
            return word
        if word in _TAKING:
            next(words, "")
    return ""


def call(place: Place, kind: str, argv: Sequence[str] = (), *, start: bool = True) -> Line | None:
    """A connection to the process, which has taken the call; None if there is none."""
    try:
        here = os.getcwd()  # noqa: PTH109
        hello: dict[str, Any] = {
            "kind": kind, "argv": list(argv), "here": here, "facts": place.facts,
            "environ": place.handed, "encoding": getattr(sys.stdout, "encoding", "utf-8"),
        }  # fmt: skip
        for _ in range(_TRIES):
            connection, is_new = _connect(place, start=start)
            if connection is None:
                return None
            connection.settimeout(_STARTED_READY_S if is_new else _READY_S)
            line = Line(connection)
            line.send(hello)
            answer = line.receive()
            if answer and "ready" in answer:
                connection.settimeout(None)
                return line
            connection.close()
            if answer and "alone" in answer:
                return None
    except (OSError, ValueError):  # nobody answers in time, or there is no room for a socket
        pass
    return None


class Line:
    """Messages over a connection, one JSON object a line."""

    def __init__(self, connection: socket.socket) -> None:
        self.connection = connection
        self.stream = connection.makefile("rb")

    def send(self, message: object) -> None:
        """Send one message."""
        self.connection.sendall(json.dumps(message).encode() + b"\n")

    def receive(self) -> dict[str, Any] | None:
        """The next message; None at the end, however it came."""
        try:
            data = self.stream.readline()
            found = json.loads(data) if data.endswith(b"\n") else None
        except ConnectionError:
            return None
        return found if isinstance(found, dict) else None


def _connect(place: Place, *, start: bool) -> tuple[socket.socket | None, bool]:
    """A connection, and whether the process was started for it."""
    deadline = time.monotonic() + _START_S
    while True:
        found = socket.socket(socket.AF_UNIX)
        try:
            found.connect(place.socket)
            if is_same_user(found):
                return found, False
        except (FileNotFoundError, ConnectionRefusedError):
            pass
        found.close()
        if not start or time.monotonic() > deadline:
            return None, False
        if _start(place):
            found = socket.socket(socket.AF_UNIX)
            found.connect(place.socket)
            return found, True
        time.sleep(_POLL_S)


def is_same_user(connection: socket.socket) -> bool:
    """Whether the other end is a process of this user, as far as the system tells."""
    if not hasattr(socket, "SO_PEERCRED"):
        return True  # the folder is this user's alone
    import struct

    form = struct.Struct("3i")
    found = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, form.size)
    return bool(form.unpack(found)[1] == os.getuid())


def _start(place: Place) -> bool:
    """Start the process under its lock; false if another front does, or an old one still ends.

    The process inherits the lock, held until it listens no more, and the listening socket, so that
    callers can connect from here on. Where the lock is free, nobody listens: a socket is stale.
    """
    import fcntl

    os.makedirs(place.folder, 0o700, exist_ok=True)  # noqa: PTH103
    facts = os.lstat(place.folder)
    if facts.st_uid != os.getuid() or facts.st_mode & 0o170777 != 0o040700:
        raise OSError(f"{place.folder} is not a folder of this user alone")
    lock = os.open(place.lock, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
    try:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        if os.path.exists(place.socket):  # noqa: PTH110
            os.unlink(place.socket)  # noqa: PTH108
        with socket.socket(socket.AF_UNIX) as listener:
            before = os.umask(0o177)
            try:
                listener.bind(place.socket)
            finally:
                os.umask(before)
            listener.listen(_BACKLOG)
            _launch(place, listener.fileno(), lock)
    finally:
        os.close(lock)
    return True


def _launch(place: Place, listener: int, lock: int) -> None:
    """Start the process with these files open; `subprocess` would take longer to import."""
    command = [sys.executable, "-P", "-m", "sonde.cli.background.process"]
    for file in (listener, lock):
        os.set_inheritable(file, True)  # noqa: FBT003
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW
    streams = [
        (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
        (os.POSIX_SPAWN_OPEN, 1, place.log, flags, 0o600),
        (os.POSIX_SPAWN_DUP2, 1, 2),
    ]
    os.posix_spawn(
        sys.executable,
        [*command, str(listener), str(lock), place.socket],
        place.started_with,
        file_actions=streams,
    )


def _run_command(place: Place, argv: Sequence[str]) -> int | None:
    """Let the process run a command on the streams of this one. Returns its exit code."""
    line = call(place, "command", argv)
    if line is None:
        return None
    try:
        # not before it is ready: streams on their way to a stuck process would stay open
        socket.send_fds(line.connection, [b"-"], (0, 1, 2))
    except OSError:
        return None
    interrupted = False
    while True:
        try:
            answer = line.receive()
            if answer is None:
                sys.stderr.write(_GONE)
                return _FAILED
            if "run" in answer:
                line.send({"code": _run_program(answer)})
            elif "code" in answer:
                return int(answer["code"])
            else:
                return None
        except KeyboardInterrupt:
            if interrupted:
                return _INTERRUPTED
            interrupted = True
            line.send({"interrupt": True})
            line.connection.settimeout(_STOP_S)
        except OSError:  # it does not stop in time, or is gone
            return _INTERRUPTED if interrupted else _FAILED


def _run_program(asked: Mapping[str, Any]) -> int:
    from sonde.cli.terminal import run_program

    text = asked["text"]
    data = None if text is None else text.encode("utf-8", "surrogateescape")
    try:
        return run_program(asked["run"], data, asked["environ"])
    except OSError:
        return -1
