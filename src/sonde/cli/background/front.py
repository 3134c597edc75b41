"""The front: hands a command or an agent's stream to the background process.

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

from sonde.cli.background import find_command

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from sonde.cli.background.address import Address

_FAILED, _INTERRUPTED = 2, 130  # as in `sonde.cli.parse`, which loads more than the front needs
_TRIES = 3  # a process may end just when it is called; one that ends this often will again
_START_S = 5.0  # for another front to have started it, or for an old process to be gone
_READY_S = 3.0  # a process that lives takes a call at once, even on a busy machine
_STARTED_READY_S = 10.0  # the same for one that starts
_STOP_S = 1.5  # after Ctrl-C, for running work to end cleanly
_POLL_S = 0.02  # shorter than a start of Python
_BACKLOG = 128  # callers that wait while the process starts
_PRIVATE_FOLDER, _KIND_AND_MODE = 0o040700, 0o170777  # of a mode: a folder of its user alone


class Channel:
    """Messages over a connection, one JSON object a line."""

    def __init__(self, connection: socket.socket) -> None:
        self.socket, self.stream = connection, connection.makefile("rb")

    def send(self, message: object) -> None:
        """Send one message."""
        self.socket.sendall(json.dumps(message).encode() + b"\n")

    def receive(self) -> dict[str, Any] | None:
        """The next message; None when the connection ends for any reason."""
        try:
            data = self.stream.readline()
            found = json.loads(data) if data.endswith(b"\n") else None
        except ConnectionError:
            return None
        return found if isinstance(found, dict) else None


def call(address: Address, argv: Sequence[str]) -> Channel | None:
    """A connection to a process that accepted the call; None if there is none."""
    try:
        for stream in (0, 1, 2):
            os.fstat(stream)  # one that is closed cannot be handed over
        hello = {
            "kind": find_command(argv), "argv": list(argv), "here": os.getcwd(),  # noqa: PTH109
            "facts": address.facts, "environ": address.handed,
            "encoding": getattr(sys.stdout, "encoding", "utf-8"),
        }  # fmt: skip
        for _ in range(_TRIES):
            connection, patience_s = _connect(address)
            if connection is None:
                break
            connection.settimeout(patience_s)
            channel = Channel(connection)
            channel.send(hello)
            answer = channel.receive()
            if answer and "ready" in answer:
                connection.settimeout(None)
                return channel
            connection.close()
            if answer:
                break
    except (OSError, ValueError):  # nobody answers in time, or there is no room for a socket
        pass
    return None


def _connect(address: Address) -> tuple[socket.socket | None, float]:
    """A connection, and how long its process may take to answer."""
    deadline, patience_s = time.monotonic() + _START_S, _READY_S
    while time.monotonic() < deadline:
        found = socket.socket(socket.AF_UNIX)
        try:
            found.connect(address.socket)
            if is_same_user(found):
                return found, patience_s
        except (FileNotFoundError, ConnectionRefusedError):
            pass
        found.close()
        if _start(address):
            patience_s = _STARTED_READY_S
        else:
            time.sleep(_POLL_S)
    return None, 0.0


def is_same_user(connection: socket.socket) -> bool:
    """Whether the other end is a process of this user, if the system can tell."""
    if not hasattr(socket, "SO_PEERCRED"):
        return True  # the folder is this user's alone
    found = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12)  # three integers
    return int.from_bytes(found[4:8], sys.byteorder) == os.getuid()


def _start(address: Address) -> bool:
    """Start the process under its lock; false if another caller does, or an old one is ending.

    The process inherits the lock, held until it listens no more, and the listening socket, so that
    callers can connect from here on. Where the lock is free, nobody listens: a socket is stale.
    """
    from sonde.runtime.system import try_lock

    before = os.umask(0o077)  # for the folders above, which `makedirs` gives no mode
    os.makedirs(address.folder, 0o700, exist_ok=True)  # noqa: PTH103
    os.umask(before)
    facts = os.lstat(address.folder)
    if facts.st_uid != os.getuid() or facts.st_mode & _KIND_AND_MODE != _PRIVATE_FOLDER:
        raise OSError(f"{address.folder} is not a folder of this user alone")
    lock = os.open(address.lock, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
    try:
        if not try_lock(lock) or not _is_at(address.lock, lock):
            return False
        if os.path.lexists(address.socket):
            os.unlink(address.socket)  # noqa: PTH108
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(address.socket)
            os.chmod(address.socket, 0o600)  # noqa: PTH101
            listener.listen(_BACKLOG)
            _launch(address, listener.fileno(), lock)
    finally:
        os.close(lock)
    return True


def _is_at(path: str, file: int) -> bool:
    """Whether an open file is still the one at a path: an ending process removes its lock file."""
    try:
        return os.path.samestat(os.stat(path), os.fstat(file))  # noqa: PTH116
    except FileNotFoundError:
        return False


def _launch(address: Address, *files: int) -> None:
    """Start the process with these files open; `subprocess` would take longer to import."""
    for file in files:
        os.set_inheritable(file, True)  # noqa: FBT003
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW
    streams = [
        (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
        (os.POSIX_SPAWN_OPEN, 1, address.log, flags, 0o600),
        (os.POSIX_SPAWN_DUP2, 1, 2),
    ]
    command = [sys.executable, "-P", "-m", "sonde.cli.background.process", *map(str, files)]
    command.append(address.socket)
    os.posix_spawn(sys.executable, command, address.started_with, file_actions=streams)


def run_command(address: Address, argv: Sequence[str]) -> int | None:
    """Run a command in the background process, on our streams. Returns its exit code; None if
    there is no process, or the command needs a terminal of its own."""
    interrupted, channel = False, None
    while True:
        try:
            if channel is None:
                channel = call(address, argv)
                if channel is None:
                    return None
                # only now: streams on their way to a stuck process would stay open
                socket.send_fds(channel.socket, [b"-"], (0, 1, 2))
            answer = channel.receive()
            if answer is None:
                sys.stderr.write("sonde: the background process ended\n  → Repeat the command.\n")
                return _FAILED
            if "run" not in answer:
                return answer.get("code")
            channel.send({"code": _run_program(answer)})
        except KeyboardInterrupt:
            if interrupted or channel is None:
                return _INTERRUPTED
            interrupted = True
            channel.send({"interrupt": True})
            channel.socket.settimeout(_STOP_S)
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
