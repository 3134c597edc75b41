"""The bundled deep model in a process of its own that all servers of this user share.

It is started when first needed and again after a crash, and ends itself when idle. Each use first
has it prove, on the same connection, that it is the process that wrote where it listens: a port
may have passed to another program since.
"""

from __future__ import annotations

import json
import secrets
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sonde.embedding.base import DEEP_DIMENSIONS, DEEP_NAME, Mode
from sonde.embedding.services import ASKING, embed_in_batches
from sonde.embedding.shared.server import MOST_BYTES, place_of, prove
from sonde.errors import EmbeddingFailed

if TYPE_CHECKING:
    from sonde.embedding.base import Vectors


_IDLE_S = 300.0
_START_S = 30.0
_POLL_S = 0.02
_TRIES = 3
_ANSWER_S = 120.0
_PROOF_S = 5.0


class _GoneError(Exception):
    """The process is not there, or not the one it should be."""


class LocalEmbedder:
    """An `Embedder` in the shared process."""

    name = DEEP_NAME
    dimensions = DEEP_DIMENSIONS

    def __init__(self, folder: Path, idle_s: float = _IDLE_S) -> None:
        self._folder, self._idle_s = folder, idle_s
        self._starting = threading.Lock()

    def embed(self, texts: Sequence[str], mode: Mode) -> Vectors:
        """One unit row per text, in order."""

        def ask(batch: list[str]) -> Sequence[Sequence[float]]:
            rows: Sequence[Sequence[float]] = self._ask({"texts": batch, "mode": mode}, mode)
            return rows

        return embed_in_batches(texts, DEEP_DIMENSIONS, ask)

    def close(self) -> None:
        """The process is others' too; it ends when nobody asks."""

    def _ask(self, body: dict[str, Any], mode: Mode) -> Any:
        why = ""
        for _ in range(_TRIES):
            try:
                return self._exchange(body, mode)["embeddings"]
            except _GoneError as error:
                why = str(error)
                self._start()
        raise EmbeddingFailed(
            f"the embedding process does not stay: {why}",
            user_message="The shared embedding process does not answer.",
            next_action="Run `sonde doctor`, or set `embedding` to 'auto'.",
        )

    def _exchange(self, body: dict[str, Any], mode: Mode) -> dict[str, Any]:
        """One answer of the running process; `_GoneError` if there is none."""
        # a process that has to load the model first takes longer than a usual query
        patience = _ANSWER_S if mode == "passage" else 3 * ASKING[mode].timeout_s
        with self._connect() as (connection, token):
            headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
            try:
                connection.sock.settimeout(patience)
                connection.request("POST", "/embed", json.dumps(body), headers)
                status, told = _read_answer(connection)
            except TimeoutError as error:
                raise EmbeddingFailed(f"no answer within {patience:.0f} s") from error
        if status == 503:
            raise EmbeddingFailed(f"the embedding process failed: {told.get('error')}")
        if status != 200:
            raise _GoneError(f"HTTP {status}")
        return told

    @contextmanager
    def _connect(self) -> Iterator[tuple[HTTPConnection, str]]:
        """A connection on which the process has proved itself, and its token; `_GoneError` if
        there is none."""
        port, token = self._find()
        connection = HTTPConnection("127.0.0.1", port, timeout=_PROOF_S)
        try:
            nonce = secrets.token_hex(16)
            connection.request("GET", "/health", headers={"Sonde-Nonce": nonce})
            _, told = _read_answer(connection)
            proved = told.get("proof") == prove(token, nonce) and told.get("model") == DEEP_NAME
            if not proved or connection.sock is None:
                raise _GoneError("another program listens where it did")
            yield connection, token
        except (OSError, HTTPException, ValueError, RecursionError) as error:
            raise _GoneError(f"{type(error).__name__}: {error}") from error
        finally:
            connection.close()

    def _find(self) -> tuple[int, str]:
        try:
            facts = json.loads(place_of(self._folder, DEEP_NAME).read_text())
            return int(facts["port"]), str(facts["token"])
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise _GoneError(f"{type(error).__name__}: {error}") from error

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
                    raise EmbeddingFailed(
                        f"the embedding process did not start: {self._read_log()}",
                        user_message="The shared embedding process does not start.",
                        next_action="Run `sonde doctor`, or set `embedding` to 'auto'.",
                    )
                # one that ends well found another that holds the lock: that may be just starting
                if process is None or ended:
                    process = self._launch()
                time.sleep(_POLL_S)

    def _launch(self) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-P", "-m", "sonde.embedding.shared.server"]
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            with self._log.open("wb") as log:
                process = subprocess.Popen(
                    [*command, str(self._folder), str(self._idle_s)],
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                    stderr=log,
                    cwd=self._folder,
                    start_new_session=True,  # it outlives us: others use it too
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

    @property
    def _log(self) -> Path:
        return self._folder / f"{DEEP_NAME}.log"

    def _read_log(self) -> str:
        try:
            lines = self._log.read_text(errors="replace").strip().splitlines()
        except OSError:
            return ""
        return lines[-1] if lines else ""


def _read_answer(connection: HTTPConnection) -> tuple[int, dict[str, Any]]:
    """Status and body; a program that is not ours may say anything, at any length."""
    answer = connection.getresponse()
    told = json.loads(answer.read(MOST_BYTES))
    if not isinstance(told, dict):
        raise _GoneError("it answers in another shape")
    return answer.status, told
