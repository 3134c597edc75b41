"""The deep model in a process of lowest priority, for work in the background.

A thread of lowest priority would not do: while it holds the interpreter, the model's lock or the
writer's, every other thread waits for as long as other programs keep it from running.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable, Sequence

from sonde.embedding.base import DEEP_DIMENSIONS, DEEP_NAME, Mode, Vectors
from sonde.errors import EmbeddingFailed
from sonde.runtime.processes import Child, serve_parent

_LOWEST_PRIORITY = 19


class BackgroundEmbedder:
    """Starts its process with the first text; calls `check`, which may raise, while it works."""

    name, dimensions, is_loaded = DEEP_NAME, DEEP_DIMENSIONS, False

    def __init__(self, check: Callable[[], None]) -> None:
        self._check = check
        self._lock = threading.RLock()
        self._child: Child | None = None

    def embed(self, texts: Sequence[str], mode: Mode) -> Vectors:
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
        with self._lock:
            if self._child:
                self._child.end()
                self._child = None


def _embed_for_parent() -> None:
    from sonde.embedding.onnx import OnnxEmbedder

    if sys.platform != "win32":
        os.setpriority(os.PRIO_PROCESS, 0, _LOWEST_PRIORITY)  # inherited by the model's threads
    model = OnnxEmbedder()
    serve_parent(lambda asked: model.embed(*asked))


if __name__ == "__main__":
    _embed_for_parent()
