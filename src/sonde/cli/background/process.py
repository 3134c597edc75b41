"""The background process: runs commands and serves agents, each on its own connection.

It ends when nobody is connected for a while, when its socket is gone, and when its sources change;
then it stops listening at once, so that the next caller starts a new one, and serves the
connections it has to their end.
"""

from __future__ import annotations

import contextlib
import io
import logging
import os
import queue
import select
import socket
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from sonde.cli.background.front import QUICK, Line, is_same_user
from sonde.cli.background.place import find_place
from sonde.runtime.private import hide_files

if TYPE_CHECKING:
    from sonde.app import App
    from sonde.cli.arguments import Arguments
    from sonde.cli.session import Session
    from sonde.cli.terminal import Console
    from sonde.settings import Settings

_LOOK_S = 1.0  # how often it looks whether it may end
_STOP_LOOK_S = 0.1  # the same once it takes no more calls
_REST_S = 60.0  # how often unused projects are closed
_UNUSED_S = 1800.0  # a project that was not searched for this long is closed, with its watcher
_MAX_FILES = 1 << 16  # higher numbers are hardly ever given
_HELLO_BYTES = 1 << 16  # read at once of a caller's first message
_MAX_HELLO_BYTES = 8 << 20  # more than a system takes as arguments
_HELLO_S = 10.0  # a caller sends its first message at once

log = logging.getLogger(__name__)


class Background:
    """Everything that callers share, and who is connected."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        place = find_place({**environ, "SONDE_DAEMON": "on"}, wanted=True)
        assert place
        self.facts = place.facts
        self.sources = _stamp_sources()
        self.began = time.time()
        self.leaving = self.ending = False
        """Whether it takes no more calls, and whether it also gives up those it has."""
        self._guard = threading.Lock()
        self._opening = threading.Lock()
        self._apps: dict[object, App] = {}
        self.callers: dict[int, str] = {}
        """What each connection is for."""
        self._last_call = time.monotonic()

    @property
    def idle_s(self) -> float:
        """Seconds since somebody was connected."""
        with self._guard:
            return 0.0 if self.callers else time.monotonic() - self._last_call

    @contextlib.contextmanager
    def connected(self, kind: str) -> Iterator[None]:
        """Count a connection while it lasts."""
        key = threading.get_ident()
        with self._guard:
            self.callers[key] = kind
        try:
            yield
        finally:
            with self._guard:
                del self.callers[key]
                self._last_call = time.monotonic()

    def lend_app(self, settings: Settings, start: Path, *, stays: bool = False) -> App:
        """An app for a caller that was started in this folder; models and projects are shared."""
        from sonde.settings import apply_project_config
        from sonde.stores.records import find_config
        from sonde.wiring import build_app

        own = apply_project_config(settings, find_config(settings.home, start))
        models = tuple(getattr(own, name) for name in RULES_OF_MODELS)
        with self._opening:
            app = self._apps.get(models)
            if app is None:
                app = self._apps[models] = build_app(settings, start=start, stays=True)
        return app.lend(
            start,
            settings.file_roots,
            max_tokens=own.max_tokens,
            assume_yes=own.assume_yes,
            auto_index=own.auto_index and stays,
            editor=own.editor,
            stays=stays,
        )

    def rest(self) -> None:
        """Close the projects that nobody has used for a while."""
        for app in list(self._apps.values()):
            app.workspace.projects.close_unused(_UNUSED_S)

    def close(self) -> None:
        """Stop background work and close every file."""
        for app in self._apps.values():
            app.close()


RULES_OF_MODELS = (
    "embedding", "embedding_endpoint", "embedding_model", "embedding_hub", "embedding_dimensions",
    "embedding_key_variable",
)  # fmt: skip
"""The settings of a project that decide which models are open."""


def _stamp_sources() -> dict[str, int]:
    """When the loaded modules of ours were last changed."""
    files = [getattr(module, "__file__", None) for name, module in list(sys.modules.items())
             if name.startswith("sonde")]  # fmt: skip
    found = {}
    for file in filter(None, files):
        with contextlib.suppress(OSError):
            found[file] = os.stat(file).st_mtime_ns  # noqa: PTH116 - for every call
    return found


class Caller:
    """One connection, from its first message to its end."""

    def __init__(self, background: Background, connection: socket.socket) -> None:
        self._background = background
        self._connection = connection
        self._line = Line(connection)
        self._files: list[int] = []
        """The caller's standard streams, if it handed them over."""
        self._bell: socket.socket | None = None
        """Closed when the caller is gone, to wake whoever waits for its input."""

    def serve(self) -> None:
        """Take the call and answer it; errors end this connection only."""
        try:
            hello = self._read_hello()
            if hello is None:
                return
            with self._background.connected(hello["kind"]):
                self._answer(hello)
        except (OSError, ValueError, KeyError, TypeError) as error:
            log.info("a caller went away: %s", error)
        except Exception:
            log.exception("a call failed")
        finally:
            for file in self._files:
                with contextlib.suppress(OSError):
                    os.close(file)
            with contextlib.suppress(OSError):
                self._line.stream.close()
                self._connection.close()

    def _read_hello(self) -> dict[str, Any] | None:
        """The first message; None if it is answered, or not for us."""
        import json

        if not is_same_user(self._connection):
            return None
        self._connection.settimeout(_HELLO_S)
        data = b""
        while not data.endswith(b"\n") and len(data) < _MAX_HELLO_BYTES:
            part = self._connection.recv(_HELLO_BYTES)
            if not part:
                return None
            data += part
        self._connection.settimeout(None)
        hello: dict[str, Any] = json.loads(data)
        if hello["kind"] in ("status", "stop"):
            if hello["kind"] == "stop":
                self._background.leaving = self._background.ending = True
            self._line.send(describe(self._background))
            return None
        sources, known = _stamp_sources(), self._background.sources
        if any(known.setdefault(file, when) != when for file, when in sources.items()):
            self._background.leaving = True
            return None  # the caller tries again, and starts a new process
        same = json.loads(json.dumps(self._background.facts)) == hello["facts"]
        if not same or self._background.leaving:
            self._line.send({"alone": True} if not same else {})
            return None
        return hello

    def _answer(self, hello: dict[str, Any]) -> None:
        from sonde.cli.arguments import UsageError
        from sonde.cli.parse import parse_arguments

        try:
            args = parse_arguments(hello["argv"])
        except UsageError:
            self._line.send({"alone": True})
            return
        if args.verbose or args.command not in {*QUICK, "mcp"}:
            self._line.send({"alone": True})
        elif hello["kind"] == "mcp":
            self._serve_agent(args, hello)
        else:
            self._run_command(args, hello)

    def _serve_agent(self, args: Arguments, hello: dict[str, Any]) -> None:
        """Serve an agent; what its settings have wrong, its own process says."""
        from sonde.cli.commands.serve import prepare_agent, serve_agent
        from sonde.cli.session import Session
        from sonde.errors import SondeError

        nowhere = io.TextIOWrapper(io.BytesIO())
        console = _open_console(hello, None, nowhere, nowhere)
        lend = partial(self._background.lend_app, stays=True)
        try:
            parts = prepare_agent(Session(args, console, lend_app=lend))
        except SondeError:
            self._line.send({"alone": True})
            return
        self._line.send({"ready": os.getpid()})
        with self._connection.makefile("wb") as sink:
            serve_agent(parts, self._line.stream, sink)

    def _run_command(self, args: Arguments, hello: dict[str, Any]) -> None:
        """Run a command on the caller's streams; the caller may interrupt it, or go away."""
        from sonde.cli.run import open_session

        self._line.send({"ready": os.getpid()})
        self._files = socket.recv_fds(self._connection, 1, 3)[1]
        if len(self._files) != 3:
            return
        encoding = str(hello["encoding"])
        bell, self._bell = socket.socketpair()
        source = io.TextIOWrapper(io.BufferedReader(_Input(self._files[0], bell)), encoding)
        streams = [_open_output(self._files[at], at, encoding) for at in (1, 2)]
        codes: queue.SimpleQueue[int] = queue.SimpleQueue()

        def run_program(command: list[str], text: bytes | None, environ: Mapping[str, str]) -> int:
            told = None if text is None else text.decode("utf-8", "surrogateescape")
            self._line.send({"run": command, "text": told, "environ": dict(environ)})
            code = codes.get()
            if code < 0:
                raise FileNotFoundError(command[0])
            return code

        console = replace(_open_console(hello, source, *streams), run=run_program)
        session, run = open_session(args, console, self._background.lend_app)
        work = threading.Thread(target=self._work, args=(session, run), name="sonde-command")
        work.start()
        while message := self._line.receive():
            if "code" in message:
                codes.put(int(message["code"]))
            else:
                session.interrupt()
        session.interrupt()  # the caller is gone, or done
        self._hang_up()
        codes.put(-1)
        work.join()

    def _work(self, session: Session, run: str) -> None:
        from sonde.cli.parse import FOUND, INTERRUPTED
        from sonde.cli.run import run_session
        from sonde.cli.terminal import OwnTerminalNeeded

        answer: dict[str, object] = {}
        try:
            code = run_session(session, run)
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
                self._line.send(answer)

    def _hang_up(self) -> None:
        """Let go of the caller's streams; what is still written to them is lost."""
        if self._bell:
            self._bell.close()
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


def _open_output(file: int, at: int, encoding: str) -> TextIO:
    """A standard stream over an open file of the caller, as Python opens its own."""
    from sonde.cli.run import choose_escapes

    tty = os.isatty(file)
    errors = choose_escapes(tty=tty, encoding=encoding)
    buffer = open(file, "wb", closefd=False)  # noqa: SIM115
    return io.TextIOWrapper(buffer, encoding, errors, line_buffering=tty or at == 2)


def _open_console(
    hello: Mapping[str, Any], stdin: TextIO | None, stdout: TextIO, stderr: TextIO
) -> Console:
    from sonde.cli.terminal import Console

    return Console(stdin, stdout, stderr, hello["environ"], Path(hello["here"]), asks=False)


def describe(background: Background) -> dict[str, object]:
    """The state of the process, for `sonde daemon status`."""
    from sonde.runtime.system import read_memory

    return {
        "pid": os.getpid(),
        "version": background.facts[0],
        "home": background.facts[4],
        "began": background.began,
        "agents": sum(kind == "mcp" for kind in background.callers.values()),
        "memory": read_memory()[1],
    }


def serve_callers(
    background: Background, listener: socket.socket, path: str, idle_s: float
) -> None:
    """Take calls until it is time to leave: idle, told to, or the socket is not at its place."""
    next_rest = time.monotonic() + _REST_S
    own = os.stat(path)  # noqa: PTH116
    while not background.leaving and background.idle_s < idle_s:
        ready, _, _ = select.select([listener], [], [], _LOOK_S)
        if ready:
            connection = listener.accept()[0]
            caller = Caller(background, connection)
            threading.Thread(target=caller.serve, name="sonde-caller", daemon=True).start()
        elif not _is_at(path, own):
            return
        if time.monotonic() > next_rest:
            next_rest = time.monotonic() + _REST_S
            background.rest()


def _is_at(path: str, known: os.stat_result) -> bool:
    try:
        return os.path.samestat(os.stat(path), known)  # noqa: PTH116
    except OSError:
        return False


def main(listener: int, lock: int, path: str) -> None:
    """Serve on an inherited socket; the inherited lock is held as long as it listens."""
    os.setsid()  # it outlives its caller, and gets no Ctrl-C of that terminal
    os.chdir("/")
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
        known = os.stat(path)  # noqa: PTH116
        try:
            serve_callers(background, inbox, path, float(settings.daemon_idle))
        finally:
            if _is_at(path, known):
                os.unlink(path)  # noqa: PTH108
    os.close(lock)
    while background.idle_s == 0.0 and not background.ending:
        time.sleep(_STOP_LOOK_S)
    background.close()

    from sonde.mcp.server import end_if_busy

    end_if_busy()


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3])
