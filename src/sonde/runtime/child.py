"""A process of our own that is sent Python values and answers each with another.

It ends with us, however we end: when its standard input does. Whatever happens to it, we go on.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import queue
import select
import struct
import subprocess
import sys
import threading
from collections.abc import Callable
from typing import IO, Any, NamedTuple, Never

from sonde.runtime.work import share_heap, trim_heap

_PIPE = 1 << 20
"""What a pipe holds, where that can be said: with less, the two wake each other all the time."""
_POLL_MS = 100
_LENGTH = struct.Struct("<Q")
_VARIABLES = {"OPENBLAS_NUM_THREADS": "1"}
"""The product of one row is not worth a second thread, which takes memory."""
_KEPT = ("PATH", "LANG", "LC_ALL", "SYSTEMROOT", "PYTHONPATH", "VIRTUAL_ENV")


class _Failure(NamedTuple):
    kind: str
    message: str


class Child:
    """A module of ours that runs `serve_parent`; raises `OSError` when it cannot be started."""

    def __init__(self, module: str, *arguments: str) -> None:
        self._process = start_module(module, *arguments)

    @property
    def pid(self) -> int:
        """Its number."""
        return self._process.pid

    def ask(self, value: object, check: Callable[[], None] | None = None) -> Any:
        """The answer to a value.

        Raises `MemoryError` or `RuntimeError` when there is none, `OSError` or `EOFError` when the
        child has ended. `check` is called now and then; what it raises makes the child useless.
        """
        assert self._process.stdin
        assert self._process.stdout
        _send(self._process.stdin, value)
        if check and sys.platform != "win32":  # which cannot wait for a pipe
            ready = select.poll()  # unlike select.select, of any descriptor
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
        """Stop it, whatever it is at; whoever waits for an answer hears of it."""
        self._process.kill()

    def end(self) -> None:
        """Stop it and leave nothing of it."""
        end_process(self._process)


def start_module(module: str, *arguments: str) -> subprocess.Popen[bytes]:
    """A module of ours in a process that we talk to by pipes, with little of our environment."""
    # -P: what lies in the working directory, which may be the project's, is not to be imported
    return subprocess.Popen(
        [sys.executable, "-P", "-m", module, *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        pipesize=_PIPE,
        env={name: os.environ[name] for name in _KEPT if name in os.environ} | _VARIABLES,
    )


def end_process(process: subprocess.Popen[bytes]) -> None:
    """Stop a process of `start_module` and leave nothing of it."""
    process.kill()
    for pipe in (process.stdin, process.stdout):
        if pipe:
            with contextlib.suppress(OSError):
                pipe.close()
    process.wait()


def serve_parent(answer: Callable[[Any], object]) -> Never:
    """In the child: answer what comes in until nothing can come any more."""
    source = os.fdopen(os.dup(0), "rb")
    target = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # whatever a library prints goes nowhere
    share_heap()
    values: queue.SimpleQueue[object] = queue.SimpleQueue()

    def take_values() -> None:
        try:
            while True:
                values.put(_receive(source))
        finally:
            os._exit(0)  # in the middle of something, too: nobody wants it any more

    threading.Thread(target=take_values, daemon=True).start()
    while True:
        value: object = values.get()
        try:
            made = answer(value)
        except Exception as error:  # noqa: BLE001 - whoever asked is told
            made = _Failure(type(error).__name__, repr(error))
        _send(target, made)
        del value, made
        trim_heap()  # one large value would stay with us to the end


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
