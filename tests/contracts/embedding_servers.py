"""Embedding services on loopback that tests talk to."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer, ThreadingHTTPServer
from typing import Any, TypeVar

from sonde.embedding.base import Embedder

S = TypeVar("S", bound=HTTPServer)


@contextmanager
def running(server: S) -> Iterator[S]:
    thread = threading.Thread(target=server.serve_forever, args=(0.02,))
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


class _Exchange(BaseHTTPRequestHandler):
    server: OpenAIServer

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.seen.append((self.path, dict(self.headers), body))
        if self.server.replies:
            status, headers, answer = self.server.replies.pop(0)
        else:
            status, headers, answer = 200, {}, self.server.embed(body)
        data = answer if isinstance(answer, bytes) else json.dumps(answer).encode()
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_: object) -> None:
        pass


class OpenAIServer(ThreadingHTTPServer):
    """`/v1/embeddings` as OpenAI documents it, over a real model; `replies` are given first."""

    daemon_threads = True

    def __init__(self, embedder: Embedder) -> None:
        super().__init__(("127.0.0.1", 0), _Exchange)
        self.embedder = embedder
        self.replies: list[tuple[int, dict[str, str], Any]] = []
        self.seen: list[tuple[str, dict[str, str], Any]] = []

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/v1"

    def embed(self, body: dict[str, Any]) -> dict[str, Any]:
        texts = body["input"]
        assert all(texts), "the service refuses empty texts"
        assert len(texts) <= 2048
        size = body.get("dimensions", self.embedder.dimensions)
        # neither unit vectors nor in order: the client must not rely on either
        rows = (3 * self.embedder.embed(texts, "passage")[:, :size]).tolist()
        data = [{"object": "embedding", "index": i, "embedding": r} for i, r in enumerate(rows)]
        return {"object": "list", "data": data[::-1], "model": body["model"]}
