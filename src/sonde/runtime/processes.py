"""This process and its children: memory and its limits, and processes that run a module of ours.

A child ends when its standard input closes, and so with its parent, however that ends. A crash of
a child is an error in the parent, never its end.
"""

from __future__ import annotations

import contextlib
import errno
import gc
import logging
import os
import pickle
import queue
import select
import struct
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from typing import IO, Any, NamedTuple, Never, TypeVar

from sonde.errors import OutOfMemory, TooFewFiles
from sonde.runtime.private import hide_files
from sonde.runtime.system import (
    call_library,
    raise_file_limit,
    read_address_limit,
    read_birth,
    read_memory,
)

_PIPE_BYTES = 1 << 20
"""Capacity of a pipe, where it can be set; with a smaller one both sides wake up often."""
_POLL_MS = 100  # how late a cancellation may be noticed
_LENGTH = struct.Struct("<Q")
_BLAS_VARIABLE = "OPENBLAS_NUM_THREADS"  # as it is when numpy is imported
_PASSED_VARIABLES = (
    *("PATH", "LANG", "LC_ALL", "SYSTEMROOT", "VIRTUAL_ENV"),
    *("PYTHONPATH", "PYTHONDONTWRITEBYTECODE", "PYTHONPYCACHEPREFIX"),
)
_REQUIRED_FILES = 64  # a walk of 20 folders, eight databases with their logs, pipes of children
_SERVED_FILES = 4_096  # a server has a connection for each client, too
_COLLECTED_AFTER = 20_000  # new objects; Python's own: 700
_M_ARENA_MAX = -8  # the option of mallopt(3) for the number of heaps

T = TypeVar("T")

log = logging.getLogger(__name__)


def retry_in_halves(items: Sequence[T], do: Callable[[Sequence[T]], None]) -> None:
    """Process all items at once or, while memory runs out, half of them at a time. Repeating it for
    some items must be harmless. Raises `OutOfMemory` if one item is too much."""
    try:
        do(items)
        return
    except (MemoryError, OSError) as error:
        if isinstance(error, OSError) and error.errno != errno.ENOMEM:
            raise
        if len(items) <= 1:
            raise OutOfMemory(f"out of memory with a single item: {error}") from error
    trim_heap()  # outside the handler, whose traceback keeps every local alive
    log.warning("out of memory with %d items at once, retrying with half as many", len(items))
    middle = len(items) // 2
    retry_in_halves(items[:middle], do)
    retry_in_halves(items[middle:], do)


def require_memory(size: int) -> None:
    """Raise `MemoryError` if the limit of the address space leaves less room than this. Native code
    that runs out of memory ends the process, so check before calling it."""
    limit = read_address_limit()
    used = read_memory()[0] if limit is not None else 0  # seldom: it is asked before every file
    if limit is not None and used and limit - used < size:
        room = max(limit - used, 0) >> 20
        raise MemoryError(
            f"a limit of {limit >> 20} MB of address space (ulimit -v) leaves {room} MB,"
            f" of which {size >> 20} MB may be needed at once"
        )


def require_room(size: int, *, serves: bool) -> None:
    """Raise `MemoryError` as `require_memory`, or `TooFewFiles`; a low soft limit is raised."""
    require_memory(size)
    most = raise_file_limit(_SERVED_FILES if serves else _REQUIRED_FILES)
    if most < _REQUIRED_FILES:
        raise TooFewFiles(f"RLIMIT_NOFILE is {most}", limit=most, needed=_REQUIRED_FILES)


def trim_heap() -> None:
    """Return freed memory to the system; the C library keeps tens of megabytes after heavy work."""
    call_library("malloc_trim", 0)


def share_heap() -> None:
    """Make all threads share one heap: each costs 64 MB of addresses and keeps freed memory."""
    call_library("mallopt", _M_ARENA_MAX, 1)


def collect_rarely() -> None:
    """Look for cycles of dead objects less often: in a process of ours, which makes and frees
    many objects and hardly any cycle. Python's own threshold makes it look through every object it
    holds at every second search, which takes longer than the search."""
    gc.set_threshold(_COLLECTED_AFTER)


def spare_threads() -> None:
    """Use one thread for products of vectors, unless the user says otherwise: for those of single
    rows a second one is no gain, and when it starts it waits busily for 0.1 s."""
    os.environ.setdefault(_BLAS_VARIABLE, "1")


def name_process() -> str:
    """A name for this process that a later process with the same ID does not share."""
    return f"{os.getpid()}:{read_birth(os.getpid())}"


class _Failure(NamedTuple):
    kind: str
    message: str


class Child:
    """A process that runs `serve_parent`; raises `OSError` if it cannot be started."""

    def __init__(self, module: str, *arguments: str) -> None:
        self._process = start_module(module, *arguments)

    @property
    def pid(self) -> int:
        """Its process ID."""
        return self._process.pid

    def ask(self, value: object, check: Callable[[], None] | None = None) -> Any:
        """The answer to a value.

        Raises `MemoryError` or `RuntimeError` if the child failed, `OSError` or `EOFError` if it
        ended. `check` is called while waiting; the child cannot be used after it raised.
        """
        assert self._process.stdin
        assert self._process.stdout
        _send(self._process.stdin, value)
        if check and sys.platform != "win32":  # where pipes cannot be polled
            ready = select.poll()  # unlike select.select, takes any descriptor
            ready.register(self._process.stdout, select.POLLIN)
            check()
            while not ready.poll(_POLL_MS):
                check()
        answer = _receive(self._process.stdout)
        if isinstance(answer, _Failure):
            error = MemoryError if answer.kind == "MemoryError" else RuntimeError
            raise error(answer.message)
        return answer

    def kill(self) -> None:
        """Kill the process; a thread that waits for an answer gets `EOFError`."""
        self._process.kill()

    def end(self) -> None:
        """Kill it, and release its pipes and process ID."""
        end_process(self._process)


def start_module(module: str, *arguments: str) -> subprocess.Popen[bytes]:
    """Start a module of ours with pipes to and from it, and few of our environment variables."""
    # -P: never import from the working directory, which may be the project's
    passed = {name: os.environ[name] for name in _PASSED_VARIABLES if name in os.environ}
    return subprocess.Popen(
        [sys.executable, "-P", "-m", module, *arguments], env=passed | {_BLAS_VARIABLE: "1"},
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
        pipesize=_PIPE_BYTES,
    )  # fmt: skip


def end_process(process: subprocess.Popen[bytes]) -> None:
    """Kill a process of `start_module`, and release its pipes and process ID."""
    process.kill()
    for pipe in (process.stdin, process.stdout):
        if pipe:
            with contextlib.suppress(OSError):
                pipe.close()
    process.wait()


def serve_parent(answer: Callable[[Any], object]) -> Never:
    """In the child: answer each value from the parent until the parent ends."""
    source = os.fdopen(os.dup(0), "rb")
    target = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what a library prints must not reach the parent
    share_heap()
    collect_rarely()
    hide_files()
    values: queue.SimpleQueue[object] = queue.SimpleQueue()

    def receive_values() -> None:
        try:
            while True:
                values.put(_receive(source))
        finally:
            os._exit(0)  # even in the middle of a value: the parent is gone

    threading.Thread(target=receive_values, daemon=True).start()
    while True:
        value: object = values.get()
        try:
            made = answer(value)
        except Exception as error:  # noqa: BLE001 - sent to the parent
            made = _Failure(type(error).__name__, repr(error))
        _send(target, made)
        del value, made
        trim_heap()  # one large value would occupy memory to the end


def _send(pipe: IO[bytes], value: object) -> None:
    data = pickle.dumps(value, pickle.HIGHEST_PROTOCOL)
    pipe.write(_LENGTH.pack(len(data)))
    pipe.write(data)
    pipe.flush()


def _receive(pipe: IO[bytes]) -> object:
    length = _LENGTH.unpack(_read(pipe, _LENGTH.size))[0]
    return pickle.loads(_read(pipe, length))  # noqa: S301 - from our own process


def _read(pipe: IO[bytes], length: int) -> bytes:
    data = pipe.read(length)
    if len(data) < length:
        raise EOFError("the other process ended")
    return data
