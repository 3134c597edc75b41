"""The name of a service's vectors: what was set, and what the service turns out to have.

A service may change its model behind the same address. What it last said, and the size of its
vectors, is part of the name and outlives the process, so such a change is a change of name, and
vectors of two models are never compared.
"""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Collection
from pathlib import Path

from sonde.errors import EmbeddingFailed


class Identity:
    """One service's name; `place` is the file in which all of them are remembered."""

    def __init__(self, base: str, model: str, place: Path | None) -> None:
        self._base, self._model, self._place = base, model, place
        self._lock = threading.Lock()
        self._told: str | None = None

    @property
    def name(self) -> str:
        """Identifies the vectors, as far as is known without asking."""
        with self._lock:
            if self._told is None:
                self._told = self._load().get(self._base, "")
            return self._base + self._told

    def learn(self, models: Collection[str], dimensions: int) -> None:
        """Hear what the service said it has; remembered if it is news."""
        if len(models) > 1:
            raise EmbeddingFailed(f"the service changed its model: {', '.join(sorted(models))}")
        (model,) = models or ("",)
        said = f"={model}" if model and model != self._model else ""
        told = f"{said}@{dimensions}"
        if self.name == self._base + told:
            return
        with self._lock:
            self._told = told
            self._save({**self._load(), self._base: told})

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
            temporary.unlink(missing_ok=True)  # then only this process knows
