"""An embedding service on loopback."""

from __future__ import annotations

import json
from typing import Any

from tests.loopback import Exchange, LoopbackServer

from sonde.embedding.base import Embedder


class _Exchange(Exchange):
    server: OpenAIServer

    def answer(self) -> None:
        body = self.read_json()
        self.server.seen.append((self.path, dict(self.headers), body))
        if self.server.replies:
            status, headers, told = self.server.replies.pop(0)
        else:
            status, headers, told = 200, {}, self.server.embed(body)
        data = told if isinstance(told, bytes) else json.dumps(told).encode()
        self.reply(status, data, **headers)


class OpenAIServer(LoopbackServer):
    """`/v1/embeddings` as OpenAI documents it, over a real model; `replies` are given first."""

    def __init__(self, embedder: Embedder) -> None:
        super().__init__(_Exchange)
        self.embedder = embedder
        self.replies: list[tuple[int, dict[str, str], Any]] = []
        self.seen: list[tuple[str, dict[str, str], Any]] = []

    @property
    def address(self) -> str:
        return f"{super().address}/v1"

    def embed(self, body: dict[str, Any]) -> dict[str, Any]:
        texts = body["input"]
        assert all(texts), "the service refuses empty texts"
        assert len(texts) <= 2048
        size = body.get("dimensions", self.embedder.dimensions)
        # neither unit vectors nor in order: the client must not rely on either
        rows = (3 * self.embedder.embed(texts, "passage")[:, :size]).tolist()
        data = [{"object": "embedding", "index": i, "embedding": r} for i, r in enumerate(rows)]
        return {"object": "list", "data": data[::-1], "model": body["model"]}
