"""Every embedding provider by name, imported when asked for."""

from __future__ import annotations

from collections.abc import Mapping
from difflib import get_close_matches
from importlib import import_module
from typing import Any

from sonde.embedding.base import Embedder
from sonde.errors import InvalidRequest

PROVIDERS: Mapping[str, str] = {
    "static": "sonde.embedding.static:StaticEmbedder",
    "deep": "sonde.embedding.onnx:OnnxEmbedder",
    "local": "sonde.embedding.local:LocalEmbedder",
    "http": "sonde.embedding.endpoint:EndpointEmbedder",
    "openai": "sonde.embedding.openai:OpenAIEmbedder",
    "model": "sonde.embedding.model:ModelEmbedder",
}


def load_provider(name: str, /, **options: Any) -> Embedder:
    """A new provider; its model loads with the first text, and nobody is called before."""
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
