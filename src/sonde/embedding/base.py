"""The protocol of an embedder, the providers by name, and the identity of remote models."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Collection, Mapping, Sequence
from difflib import get_close_matches
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol

from sonde.errors import EmbeddingFailed, InvalidRequest

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Vectors = NDArray[np.float32]
else:
    Vectors = object  # numpy is loaded on first use: listing tools does not need it


Mode = Literal["query", "passage"]
DEEP_NAME, DEEP_DIMENSIONS = "sonde-deep-4", 384
"""Of the bundled deep model, in whichever process it runs; a new model gets the next number."""


class Embedder(Protocol):
    """Texts -> unit vectors. Safe to call from several threads."""

    @property
    def name(self) -> str:
        """Identifies the vectors; vectors of two names are never compared."""

    @property
    def dimensions(self) -> int:
        """Numbers per vector."""

    @property
    def is_loaded(self) -> bool:
        """Whether the model is in this process's memory, so that `embed` starts at once."""

    def embed(self, texts: Sequence[str], mode: Mode) -> Vectors:
        """One unit row per text, in order; a text without any known token gives a zero row."""

    def close(self) -> None:
        """Free the model's memory; the next call loads it again."""


def make_units(made: Mapping[int, Vectors], count: int, dimensions: int) -> Vectors:
    """A matrix of `count` unit rows; rows that were not made are zero."""
    import numpy as np

    vectors = np.zeros((count, dimensions), np.float32)
    for at, row in made.items():
        vectors[at] = row
    norms = np.linalg.norm(vectors, axis=1, keepdims=True)
    vectors /= np.where(norms == 0, 1, norms)
    return vectors


PROVIDERS: Mapping[str, str] = {
    "static": "sonde.embedding.static:StaticEmbedder",
    "deep": "sonde.embedding.onnx:OnnxEmbedder",
    "local": "sonde.embedding.local:LocalEmbedder",
    "http": "sonde.embedding.services:EndpointEmbedder",
    "openai": "sonde.embedding.services:OpenAIEmbedder",
    "model": "sonde.embedding.model:ModelEmbedder",
}


def load_provider(name: str, /, **options: Any) -> Embedder:
    """A new provider; its model is loaded, or its service called, with the first text."""
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


class Identity:
    """The name of a service's vectors, learned from its answers and kept in the file `place`."""

    def __init__(self, base: str, model: str, place: Path | None) -> None:
        self._base, self._model, self._place = base, model, place
        self._lock = threading.Lock()
        self._suffix: str | None = None

    @property
    def name(self) -> str:
        """Identifies the vectors, as far as is known without a request."""
        with self._lock:
            if self._suffix is None:
                self._suffix = self._load().get(self._base, "")
            return self._base + self._suffix

    def learn(self, models: Collection[str], dimensions: int) -> None:
        """Record the models named in a service's answers."""
        if len(models) > 1:
            raise EmbeddingFailed(f"the service changed its model: {', '.join(sorted(models))}")
        (model,) = models or ("",)
        other = f"={model}" if model and model != self._model else ""
        suffix = f"{other}@{dimensions}"
        if self.name == self._base + suffix:
            return
        with self._lock:
            self._suffix = suffix
            self._save({**self._load(), self._base: suffix})

    def _load(self) -> dict[str, str]:
        try:
            found = json.loads(self._place.read_text("utf-8")) if self._place else {}
        except (OSError, ValueError):
            return {}
        return {str(k): str(v) for k, v in found.items()} if isinstance(found, dict) else {}

    def _save(self, known: dict[str, str]) -> None:
        if self._place is None:
            return
        temporary = self._place.with_suffix(f".{os.getpid()}-{threading.get_ident()}")
        try:
            self._place.parent.mkdir(parents=True, exist_ok=True)
            temporary.write_text(json.dumps(known, indent=1, sort_keys=True), "utf-8")
            temporary.replace(self._place)
        except OSError:
            temporary.unlink(missing_ok=True)  # then only this process knows it
