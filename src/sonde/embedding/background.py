"""The deep model in a process of lowest priority, for what nobody waits for.

A thread of lowest priority would not do. While it holds the interpreter, the model's lock or the
writer's, everybody waits for it, for as long as other programs keep it from running: seconds, on a
busy machine.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable, Sequence

from sonde.embedding.base import DEEP_DIMENSIONS, DEEP_NAME, Mode, Vectors
from sonde.errors import EmbeddingFailed
from sonde.runtime.child import Child, serve_parent

_NICEST = 19


class BackgroundEmbedder:
    """Starts its process with the first text; `check` is called while that is at work, and may
    raise."""

    def __init__(self, check: Callable[[], None]) -> None:
        self._check = check
        self._lock = threading.RLock()
        self._child: Child | None = None

    @property
    def name(self) -> str:
        """Identifies the vectors: those of the deep model."""
        return DEEP_NAME

    @property
    def dimensions(self) -> int:
        """Numbers per vector."""
        return DEEP_DIMENSIONS

    def embed(self, texts: Sequence[str], mode: Mode) -> Vectors:
        """One unit row per text, in order."""
        with self._lock:
            try:
                self._child = self._child or Child(__name__)
                vectors: Vectors = self._child.ask((list(texts), mode), self._check)
            except MemoryError:
                raise
            except (OSError, EOFError, RuntimeError) as error:
                self.close()
                raise EmbeddingFailed(f"the process that embeds failed: {error!r}") from error
            except BaseException:
                self.close()
                raise
        return vectors

    def close(self) -> None:
        """End the process; the next call starts another."""
        with self._lock:
            if self._child:
                self._child.end()
                self._child = None


def _embed_for_parent() -> None:
    from sonde.embedding.onnx import OnnxEmbedder

    if sys.platform != "win32":
        os.setpriority(os.PRIO_PROCESS, 0, _NICEST)  # as that of the model's threads will be
    model = OnnxEmbedder()
    serve_parent(lambda asked: model.embed(*asked))


if __name__ == "__main__":
    _embed_for_parent()
