"""The protocol of embedders, the providers by name, and the deep model in a separate process."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from difflib import get_close_matches
from importlib import import_module
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeAlias

from sonde.errors import EmbeddingFailed, InvalidRequest
from sonde.runtime.processes import Child, serve_parent
from sonde.runtime.system import BUSY, find_pause, lower_priority
from sonde.types import Kind

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

# quoted, since numpy is loaded on first use: listing tools does not need it
Vectors: TypeAlias = "NDArray[np.float32]"
Mode = Literal["query", "passage", "code"]
"""The role of a text; only the bundled deep model treats `code` differently from `passage`."""
PASSAGE_MODES: Mapping[Kind, Mode] = {"code": "code", "docs": "passage"}
DEEP_NAME, DEEP_DIMENSIONS = "sonde-deep-8", 384
"""The bundled deep model; a new one gets the next number."""


class Embedder(Protocol):
    """Texts -> unit vectors. Safe to call from several threads."""

    @property
    def name(self) -> str:
        """Identifies the vectors; vectors with different names are never compared."""

    @property
    def dimensions(self) -> int:
        """Numbers per vector."""

    @property
    def is_loaded(self) -> bool:
        """Whether the model is in the memory of this process."""

    def embed(self, texts: Sequence[str], mode: Mode) -> Vectors:
        """One unit row per text, in order; zero for a text without known tokens."""

    def close(self) -> None:
        """Free the model's memory; the next call loads it again."""


def make_units(made: Mapping[int, Vectors], count: int, dimensions: int) -> Vectors:
    """A matrix of `count` unit rows; missing rows are zero."""
    import numpy as np

    vectors = np.zeros((count, dimensions), np.float32)
    for at, row in made.items():
        vectors[at] = row
    norms = np.linalg.norm(vectors, axis=1, keepdims=True)
    vectors /= np.where(norms == 0, 1, norms)
    return vectors


_BATCH_TEXTS = 32  # of up to 30 tokens; fewer longer ones reach _BATCH_TOKENS first
_BATCH_TOKENS = 1024  # these fit the processor's caches: twice as fast as 8,192, under 150 MB


def plan_batches(
    lengths: Sequence[int], most_texts: int = _BATCH_TEXTS, most_length: int = _BATCH_TOKENS
) -> Iterator[list[int]]:
    """Rows in batches of similar length, longest last; rows of length 0 are left out.

    Every row of a batch counts as long as its longest, with two special tokens.
    """
    batch: list[int] = []
    for row in sorted(range(len(lengths)), key=lengths.__getitem__):
        if not lengths[row]:
            continue
        is_full = len(batch) == most_texts or (len(batch) + 1) * (lengths[row] + 2) > most_length
        if batch and is_full:
            yield batch
            batch = []
        batch.append(row)
    if batch:
        yield batch


class RecentVectors:
    """A cache of embedded passages: similar questions read mostly the same ones."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._known: dict[tuple[str, Mode, str], Vectors] = {}
        self._lock = threading.Lock()

    def embed(self, embedder: Embedder, mode: Mode, texts: Sequence[str]) -> Vectors:
        """One row per text; embeds only those that are not cached."""
        keys = [(embedder.name, mode, text) for text in texts]
        with self._lock:
            found = {key: self._known[key] for key in keys if key in self._known}
        if new := [key for key in dict.fromkeys(keys) if key not in found]:
            made = embedder.embed([text for _, _, text in new], mode)
            found |= dict(zip(new, made, strict=True))
            with self._lock:
                self._known |= {key: found[key] for key in new}
                for key in list(self._known)[: -self._most]:
                    del self._known[key]
        import numpy as np

        return np.stack([found[key] for key in keys])


PROVIDERS: Mapping[str, str] = {
    "static": "sonde.embedding.static:StaticEmbedder",
    "everyday": "sonde.embedding.static:EverydayEmbedder",
    "deep": "sonde.embedding.onnx:OnnxEmbedder",
    "http": "sonde.embedding.services:EndpointEmbedder",
    "openai": "sonde.embedding.services:OpenAIEmbedder",
    "model": "sonde.embedding.model:ModelEmbedder",
}


def load_provider(name: str, /, **options: Any) -> Embedder:
    """Create a provider; its model is loaded, or its service called, with the first text."""
    where = PROVIDERS.get(name)
    if where is None:
        near = get_close_matches(name, PROVIDERS, n=3, cutoff=0.4) or list(PROVIDERS)
        raise InvalidRequest(
            f"no embedding provider is called {name!r}",
            user_message="There is no embedding provider of that name.",
            next_action=f"Use one of: {', '.join(near)}.",
        )
    module, _, attribute = where.partition(":")
    provider: Embedder = getattr(import_module(module), attribute)(**options)
    return provider


_REST_S = 0.5  # how late the end of a pause or a cancellation may be noticed
_BUSY_REST_S = 2.0  # the longest wait per batch on a busy machine


class BackgroundEmbedder:
    """The deep model in a process of lowest priority, for background work.

    The process starts with the first text; `check`, which may raise, is called while it works. A
    thread of lowest priority would block others: it may be preempted while it holds the
    interpreter, the model's lock or the writer's.
    """

    name, dimensions, is_loaded = DEEP_NAME, DEEP_DIMENSIONS, False

    def __init__(
        self,
        check: Callable[[], None],
        pause: Callable[[], str] = find_pause,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._check, self._pause, self._sleep = check, pause, sleep
        self._lock = threading.RLock()
        self._child: Child | None = None

    def embed(self, texts: Sequence[str], mode: Mode) -> Vectors:
        self._rest()
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

    def _rest(self) -> None:
        """Wait while `pause` gives a reason, on a busy machine for a limited time."""
        rested = 0.0
        while (why := self._pause()) and (why != BUSY or rested < _BUSY_REST_S):
            self._check()
            self._sleep(_REST_S)
            rested += _REST_S

    def close(self) -> None:
        with self._lock:
            if self._child:
                self._child.end()
                self._child = None


if __name__ == "__main__":
    lower_priority()  # inherited by the model's threads
    _model = load_provider("deep")
    serve_parent(lambda asked: _model.embed(*asked))
