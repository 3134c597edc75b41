"""The bundled deep model in one process that all servers of a user share.

It is started when first needed and again after a crash, and ends when idle. On each connection it
first proves that it is the process that announced the port, which may belong to another program
by now.
"""

from __future__ import annotations

import json
import secrets
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from typing import Any

from sonde.embedding.base import DEEP_DIMENSIONS, DEEP_NAME, Mode, Vectors
from sonde.embedding.server import MAX_BODY_BYTES, place_of, prove
from sonde.embedding.services import PATIENCE, embed_in_batches
from sonde.errors import EmbeddingFailed
from sonde.runtime.private import make_folder

_IDLE_S = 300.0  # the process ends after this long without a request
_START_S = 30.0  # a busy machine takes seconds to start Python and listen
_POLL_S = 0.02  # shorter than a start of Python
_TRIES = 3  # a process that crashes or goes this often will do so again
_PASSAGE_S = 120.0  # how long an answer to a batch of passages may take
_PROOF_S = 5.0  # for the proof: another program on the port may never answer


class _GoneError(Exception):
    """The process is not there, or not the one it should be."""


class LocalEmbedder:
    """An `Embedder` in the shared process."""

    name, dimensions, is_loaded = DEEP_NAME, DEEP_DIMENSIONS, False

    def __init__(
        self,
        folder: Path,
        idle_s: float = _IDLE_S,
        *,
        proof_s: float = _PROOF_S,
        python: str = sys.executable,
    ) -> None:
        self._folder, self._idle_s = folder, idle_s
        self._log = folder / f"{DEEP_NAME}.log"
        self._proof_s, self._python = proof_s, python
        self._starting = threading.Lock()

    def embed(self, texts: Sequence[str], mode: Mode) -> Vectors:
        return embed_in_batches(texts, DEEP_DIMENSIONS, partial(self._send, mode))

    def close(self) -> None:
        """Does nothing: other servers use the process; it ends when idle."""

    def _send(self, mode: Mode, batch: list[str]) -> Any:
        why = ""
        for _ in range(_TRIES):
            try:
                return self._exchange({"texts": batch, "mode": mode}, mode)["embeddings"]
            except _GoneError as error:
                why = str(error)
                self._start()
        raise EmbeddingFailed(
            f"the embedding process does not stay: {why}",
            user_message="The shared embedding process does not answer.",
            next_action="Run `sonde doctor`, or set `embedding` to 'auto'.",
        )

    def _exchange(self, body: Mapping[str, object], mode: Mode) -> Mapping[str, Any]:
        """One answer of the running process; `_GoneError` if there is none."""
        # a process that has to load the model first takes longer than a usual query
        patience = 3 * PATIENCE[mode].timeout_s if mode == "query" else _PASSAGE_S
        with self._connect() as (connection, token):
            headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
            try:
                connection.sock.settimeout(patience)
                connection.request("POST", "/embed", json.dumps(body), headers)
                status, answer = _read_answer(connection)
            except TimeoutError as error:
                raise EmbeddingFailed(f"no answer within {patience:.0f} s") from error
        if status == 503:
            raise EmbeddingFailed(f"the embedding process failed: {answer.get('error')}")
        if status != 200:
            raise _GoneError(f"HTTP {status}")
        return answer

    @contextmanager
    def _connect(self) -> Iterator[tuple[HTTPConnection, str]]:
        """A connection on which the process has proved itself, and its token, or `_GoneError`."""
        try:
            facts = json.loads(place_of(self._folder, DEEP_NAME).read_text())
            port, token = int(facts["port"]), str(facts["token"])
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise _GoneError(f"{type(error).__name__}: {error}") from error
        connection = HTTPConnection("127.0.0.1", port, timeout=self._proof_s)
        try:
            nonce = secrets.token_hex(16)
            connection.request("GET", "/health", headers={"Sonde-Nonce": nonce})
            _, answer = _read_answer(connection)
            proved = answer.get("proof") == prove(token, nonce) and answer.get("model") == DEEP_NAME
            if not proved or connection.sock is None:
                raise _GoneError("another program listens where it did")
            yield connection, token
        except (OSError, HTTPException, ValueError, RecursionError) as error:
            raise _GoneError(f"{type(error).__name__}: {error}") from error
        finally:
            connection.close()

    def _start(self) -> None:
        """Start the process, unless it is there, and wait until it listens."""
        with self._starting:
            deadline = time.monotonic() + _START_S
            process: subprocess.Popen[bytes] | None = None
            crashes = 0
            while not self._is_healthy():
                ended = process is not None and process.poll() is not None
                crashes += bool(ended and process and process.returncode)
                if time.monotonic() > deadline or crashes == _TRIES:
                    log = self._log.read_text(errors="replace") if self._log.exists() else ""
                    last = log.strip().rpartition("\n")[2]
                    raise EmbeddingFailed(
                        f"the embedding process did not start: {last}",
                        user_message="The shared embedding process does not start.",
                        next_action="Run `sonde doctor`, or set `embedding` to 'auto'.",
                    )
                # one that exits with 0 found another that holds the lock and may be just starting
                if process is None or ended:
                    process = self._launch()
                time.sleep(_POLL_S)

    def _launch(self) -> subprocess.Popen[bytes]:
        command = [self._python, "-P", "-m", "sonde.embedding.server"]
        try:
            make_folder(self._folder)
            with self._log.open("wb") as log:
                process = subprocess.Popen(
                    [*command, str(self._folder), str(self._idle_s)],
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                    stderr=log,
                    cwd=self._folder,
                    start_new_session=True,  # it outlives this process: other servers use it
                )
        except OSError as error:
            raise EmbeddingFailed(f"the embedding process cannot be started: {error}") from error
        threading.Thread(target=process.wait, daemon=True).start()
        return process

    def _is_healthy(self) -> bool:
        try:
            with self._connect():
                return True
        except _GoneError:
            return False


def _read_answer(connection: HTTPConnection) -> tuple[int, Mapping[str, Any]]:
    """Status and body; another program may answer anything, at any length."""
    response = connection.getresponse()
    answer = json.loads(response.read(MAX_BODY_BYTES))
    if not isinstance(answer, dict):
        raise _GoneError("its answer has another shape")
    return response.status, answer
