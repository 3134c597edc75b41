"""The background process: runs commands and serves agents, each on its own connection.

It ends after a while without connections, when its socket is gone, or when its sources change. It
then stops listening at once, so that the next caller starts a new process, and finishes serving
its open connections.
"""

from __future__ import annotations

import contextlib
import io
import json
import logging
import os
import queue
import select
import socket
import sys
import threading
import time
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from sonde.cli.background import QUICK, find_command
from sonde.cli.background.address import find_address
from sonde.cli.background.front import Channel, is_same_user
from sonde.runtime.private import hide_files
from sonde.runtime.processes import collect_rarely, spare_threads

if TYPE_CHECKING:
    from sonde.app import App
    from sonde.cli.arguments import Arguments
    from sonde.cli.session import Session
    from sonde.settings import Settings

_LOOK_S = 1.0  # how often it looks whether it may end
_STOP_LOOK_S = 0.1  # the same once it takes no more calls
_REST_S = 60.0  # how often unused projects are closed
_UNUSED_S = 1800.0  # a project that was not searched for this long is closed, with its watcher
_MAX_FILES = 1 << 16  # higher numbers are hardly ever given
_MAX_HELLO_BYTES = 8 << 20  # more than a system takes as arguments
_HELLO_S = 10.0  # a caller sends its first message at once

log = logging.getLogger(__name__)


class Background:
    """State shared by all callers, and the list of connections."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        address = find_address({**environ, "SONDE_DAEMON": "on"}, wanted=True)
        assert address
        self.facts = json.loads(json.dumps(address.facts))
        self.home = address.home
        self.leaving = self.ending = False
        """Whether it accepts no more calls, and whether it also drops running ones."""
        self.kinds: dict[int, str] = {}
        """The purpose of each connection."""
        self._began, self._last_call = time.time(), time.monotonic()
        self._guard = threading.Lock()
        self._apps: dict[object, App] = {}
        self._had_agents = False
        self._sources: dict[str, int] = {}

    def is_idle(self, seconds: float) -> bool:
        """Whether no caller was connected for this long."""
        if self.kinds:
            self._last_call = time.monotonic()
        return time.monotonic() - self._last_call > seconds

    def is_outdated(self) -> bool:
        """Whether a module of ours was changed since this was first asked with it loaded."""
        for name, module in list(sys.modules.items()):
            if name.startswith("sonde") and (file := getattr(module, "__file__", None)):
                with contextlib.suppress(OSError):
                    when = os.stat(file).st_mtime_ns  # noqa: PTH116 - for every call
                    if self._sources.setdefault(file, when) != when:
                        return True
        return False

    def lend_app(self, settings: Settings, start: Path, *, stays: bool = False) -> App:
        """An app for a caller that was started in this folder; models and projects are shared."""
        from sonde.settings import RULES, apply_project_config
        from sonde.stores.records import find_config
        from sonde.wiring import build_app

        own = apply_project_config(settings, find_config(settings.home, start))
        models = tuple(getattr(own, name) for name in RULES if name.startswith("embedding"))
        with self._guard:
            if models not in self._apps:
                self._apps[models] = build_app(settings, start=start, stays=True)
        changes = {name: getattr(own, name) for name in ("max_tokens", "assume_yes", "editor")}
        auto_index = own.auto_index and stays
        return self._apps[models].lend(
            start, settings.file_roots, **changes, auto_index=auto_index, stays=stays
        )

    def enter(self, connection: object, kind: str) -> None:
        """Register a caller."""
        with self._guard:
            self.kinds[id(connection)] = kind
            self._had_agents |= kind == "mcp"

    def leave(self, connection: object) -> None:
        """Unregister a caller. After the last one, agents' background work ends, as it would with
        a server of their own, so that folders can be deleted safely."""
        with self._guard:
            self.kinds.pop(id(connection), None)
            if self._had_agents and not self.kinds:
                self._had_agents = False
                for app in self._apps.values():
                    app.workspace.projects.stop_following()
                    app.workspace.jobs.cancel_all()

    def describe(self) -> dict[str, object]:
        """The state of the process, for `sonde daemon`."""
        from sonde.runtime.system import read_memory

        agents = list(self.kinds.values()).count("mcp")
        facts = {"pid": os.getpid(), "version": self.facts[0], "home": self.home}
        return {**facts, "began": self._began, "agents": agents, "memory": read_memory()[1]}

    def close_projects(self) -> None:
        """Close the projects that nobody has used for a while."""
        for app in list(self._apps.values()):
            app.workspace.projects.close(_UNUSED_S)

    def close(self) -> None:
        """Stop background work and close every file."""
        for app in self._apps.values():
            app.close()


class Connection:
    """One connected caller, from its first message until it disconnects."""

    def __init__(self, background: Background, connection: socket.socket) -> None:
        self._background, self._socket = background, connection
        self._channel = Channel(connection)
        self._files: list[int] = []
        """The caller's standard streams, if it handed them over."""
        self._bell, self._ringer = socket.socketpair()
        """Closed at one end when the caller is gone, to wake a thread that waits for its input."""

    def serve(self) -> None:
        """Serve one call; errors end only this connection."""
        try:
            if hello := self._read_hello():
                self._background.enter(self, hello["kind"])
                self._answer(hello)
        except (OSError, ValueError, KeyError, TypeError) as error:
            log.info("a caller went away: %r", error)
        except Exception:
            log.exception("a call failed")
        finally:
            self._background.leave(self)
            for file in self._files:
                os.close(file)
            for each in (self._channel.stream, self._socket, self._bell, self._ringer):
                with contextlib.suppress(OSError):
                    each.close()

    def _read_hello(self) -> dict[str, Any] | None:
        """The first message; None if it has been answered already, or is not for us."""
        background = self._background
        self._socket.settimeout(_HELLO_S)
        data = self._channel.stream.readline(_MAX_HELLO_BYTES)
        self._socket.settimeout(None)
        if not data or not is_same_user(self._socket):
            return None
        hello: dict[str, Any] = json.loads(data)
        if hello["kind"] in ("describe", "stop"):
            if hello["kind"] == "stop":
                background.leaving = background.ending = True
            self._channel.send(background.describe())
            return None
        background.leaving |= background.is_outdated()
        if background.leaving:
            return None  # the caller tries again, and starts a new process
        if hello["facts"] != background.facts:
            self._channel.send({"alone": True})
            return None
        return hello

    def _answer(self, hello: dict[str, Any]) -> None:
        from sonde.cli.arguments import UsageError
        from sonde.cli.parse import parse_arguments

        with contextlib.suppress(UsageError):
            args = parse_arguments(hello["argv"])
            if args.command == "mcp":
                return self._serve_agent(args, hello)
            if find_command(hello["argv"]) in QUICK and not args.verbose:
                return self._run_command(args, hello)
        return self._channel.send({"alone": True})

    def _serve_agent(self, args: Arguments, hello: dict[str, Any]) -> None:
        from sonde.cli.run import finish_session, make_session
        from sonde.cli.terminal import Console
        from sonde.mcp.stdio.session import PipeSession
        from sonde.mcp.stdio.wire import Wire

        is_ready = False

        def serve(open_app: Any, make_listing: Any, begin: Any, early: Any) -> None:
            nonlocal is_ready
            self._channel.send({"ready": True})
            is_ready = True
            with self._socket.makefile("wb") as sink:
                wire = Wire(self._channel.stream, sink)
                PipeSession(wire, make_listing, early).serve(open_app, begin)

        nowhere = io.TextIOWrapper(io.BytesIO())
        console = Console(None, nowhere, nowhere, hello["environ"], Path(hello["here"]))
        lend = partial(self._background.lend_app, stays=True)
        finish_session(make_session(args, console, lend, serve))
        if not is_ready:  # what is wrong, the caller's own process says
            self._channel.send({"alone": True})

    def _run_command(self, args: Arguments, hello: dict[str, Any]) -> None:
        """Run a command on the caller's streams; the caller may interrupt it or disconnect."""
        from sonde.cli.run import make_session
        from sonde.cli.terminal import Console

        self._channel.send({"ready": True})
        self._files = socket.recv_fds(self._socket, 1, 3)[1]
        encoding, codes = str(hello["encoding"]), queue.SimpleQueue[int]()

        def run_program(command: list[str], text: bytes | None, environ: Mapping[str, str]) -> int:
            shown = None if text is None else text.decode("utf-8", "surrogateescape")
            self._channel.send({"run": command, "text": shown, "environ": dict(environ)})
            if (code := codes.get()) < 0:
                raise FileNotFoundError(command[0])
            return code

        console = Console(
            io.TextIOWrapper(io.BufferedReader(_Input(self._files[0], self._bell)), encoding),
            _open_output(self._files[1], encoding),
            _open_output(self._files[2], encoding, by_line=True),
            hello["environ"],
            Path(hello["here"]),
            run=run_program,
            asks=False,
        )
        session = make_session(args, console, self._background.lend_app)
        work = threading.Thread(target=self._work, args=(session,), name="sonde-command")
        work.start()
        while message := self._channel.receive():
            if "code" in message:
                codes.put(int(message["code"]))
            else:
                session.interrupt()
        session.interrupt()  # the caller is gone, or done
        self._hang_up()
        codes.put(-1)
        work.join()

    def _work(self, session: Session) -> None:
        from sonde.cli.parse import FOUND, INTERRUPTED
        from sonde.cli.run import finish_session
        from sonde.cli.terminal import OwnTerminalNeeded

        answer: dict[str, object] = {}
        try:
            code = finish_session(session)
            session.console.stdout.flush()
            session.console.stderr.flush()
            answer = {"code": INTERRUPTED if session.interrupted else code}
        except BrokenPipeError:  # nobody reads it any more
            answer = {"code": FOUND}
        except OwnTerminalNeeded:
            answer = {"alone": True}
        finally:
            self._hang_up()  # before the answer: a reader waits for the end of the output
            with contextlib.suppress(OSError):
                self._channel.send(answer)

    def _hang_up(self) -> None:
        """Close the caller's streams; later output is discarded."""
        self._ringer.close()
        nothing = os.open(os.devnull, os.O_RDWR)
        for file in self._files:
            os.dup2(nothing, file, inheritable=False)  # its number stays taken until the end
        os.close(nothing)


class _Input(io.RawIOBase):
    """The caller's standard input; it ends when the caller is gone."""

    def __init__(self, file: int, bell: socket.socket) -> None:
        super().__init__()
        self._file, self._bell = file, bell

    def readable(self) -> bool:
        return True

    def fileno(self) -> int:
        return self._file

    def isatty(self) -> bool:
        return os.isatty(self._file)

    def readinto(self, target: Any) -> int:
        bell = self._bell.fileno()
        ready, _, _ = select.select([self._file, bell], [], [])
        return 0 if bell in ready else os.readv(self._file, [target])


def _open_output(file: int, encoding: str, *, by_line: bool = False) -> TextIO:
    """A standard stream over an open file of the caller, as Python opens its own."""
    from sonde.cli.run import choose_escapes

    tty = os.isatty(file)
    errors = choose_escapes(tty=tty, encoding=encoding)
    buffer = open(file, "wb", closefd=False)  # noqa: SIM115
    return io.TextIOWrapper(buffer, encoding, errors, line_buffering=tty or by_line)


def _listen(background: Background, listener: socket.socket, path: str, idle_s: float) -> None:
    """Accept calls until idle, asked to stop, or the socket has been replaced."""
    known, next_rest = os.stat(path), time.monotonic() + _REST_S  # noqa: PTH116
    with contextlib.suppress(FileNotFoundError):
        while not background.leaving and not background.is_idle(idle_s):
            if select.select([listener], [], [], _LOOK_S)[0]:
                caller = Connection(background, listener.accept()[0])
                threading.Thread(target=caller.serve, name="sonde-caller", daemon=True).start()
            elif not os.path.samestat(os.stat(path), known):  # noqa: PTH116
                return
            if time.monotonic() > next_rest:
                next_rest = time.monotonic() + _REST_S
                background.close_projects()
        for suffix in (".sock", ".log", ".lock"):
            Path(path).with_suffix(suffix).unlink(missing_ok=True)


def serve_callers(listener: int, lock: int, path: str) -> None:
    """Serve on an inherited socket; the inherited lock is held as long as it listens."""
    os.setsid()  # it outlives its caller, and gets no Ctrl-C of that terminal
    os.chdir("/")
    collect_rarely()
    spare_threads()
    hide_files()
    first, last = sorted((listener, lock))
    for start, end in ((3, first), (first + 1, last), (last + 1, _MAX_FILES)):
        os.closerange(start, end)  # files of the caller
    for file in (listener, lock):
        os.set_inheritable(file, False)  # noqa: FBT003
    os.ftruncate(lock, 0)
    os.pwrite(lock, str(os.getpid()).encode(), 0)  # for `sonde daemon stop`, if it is stuck
    background = Background(os.environ)

    from sonde.runtime.logs import open_logs
    from sonde.settings import load_settings

    settings = load_settings(os.environ)
    open_logs(settings.home, settings.log_level)
    with socket.socket(fileno=listener) as inbox:
        _listen(background, inbox, path, settings.daemon_idle)
    os.close(lock)
    while background.kinds and not background.ending:
        time.sleep(_STOP_LOOK_S)
    background.close()

    from sonde.mcp.calls import end_if_busy

    end_if_busy()


if __name__ == "__main__":
    serve_callers(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3])
