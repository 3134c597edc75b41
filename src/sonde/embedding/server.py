"""A local server for an embedder: `POST /embed`, `GET /health`.

    POST /embed {"texts": ["..."], "mode": "query", "passage" or "code"}
    -> {"embeddings": [[...]], "dimensions": 384, "model": "..."}

It listens on loopback only, limits bodies, and refuses requests from browser pages and for other
host names.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, get_args

from sonde.embedding.base import Embedder, Mode
from sonde.embedding.services import is_loopback
from sonde.errors import SondeError

PORT = 8121  # the default that the documentation names
MAX_BODY_BYTES = 16 << 20  # of a request or an answer: many times a usual batch
MAX_TEXTS = 2_048  # as many as OpenAI's service takes in one request
_READ_TIMEOUT_S = 60.0  # a connection that is silent for longer is closed


class EmbeddingServer(ThreadingHTTPServer):
    """Listens from construction on; port 0 takes a free port."""

    daemon_threads = True

    def __init__(self, embedder: Embedder, port: int = PORT) -> None:
        self.embedder = embedder
        super().__init__(("127.0.0.1", port), _Exchange)

    @property
    def address(self) -> str:
        """The URL that takes texts."""
        return f"http://127.0.0.1:{self.server_port}/embed"

    def handle_error(self, *_: Any) -> None:
        """Ignores callers that went away."""


class _RefusedError(Exception):
    """A status and a message."""


class _Exchange(BaseHTTPRequestHandler):
    server: EmbeddingServer
    protocol_version = "HTTP/1.1"
    server_version, sys_version = "sonde", ""
    timeout = _READ_TIMEOUT_S

    def do_GET(self) -> None:
        """Report health."""
        embedder = self.server.embedder
        facts = {"status": "ok", "model": embedder.name, "dimensions": embedder.dimensions}
        self._answer(lambda: facts)

    def do_POST(self) -> None:
        self._answer(self._embed)

    def log_message(self, *_: Any) -> None:
        """Logs nothing of a request."""

    def _answer(self, make: Callable[[], Mapping[str, object]]) -> None:
        try:
            self._check()
            status, body = 200, make()
        except _RefusedError as error:
            status, body = error.args[0], {"error": error.args[1]}
            self.close_connection = True  # what is left of the body is not read
        except SondeError as error:
            status, body = 503, {"error": error.user_message}
        except MemoryError:
            status, body = 503, {"error": "out of memory"}
        data = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.send_header("Cache-Control", "no-store")
        if self.close_connection:
            self.send_header("Connection", "close")
        self.end_headers()
        self.wfile.write(data)

    def _check(self) -> None:
        hosts = self.headers.get_all("Host") or []
        if len(hosts) != 1 or not is_loopback(f"http://{hosts[0]}"):
            raise _RefusedError(421, "this server answers only as localhost")
        if "Origin" in self.headers or self.headers.get("Sec-Fetch-Site", "none") != "none":
            raise _RefusedError(403, "requests from browser pages are refused")
        if self.path != {"GET": "/health", "POST": "/embed"}[self.command]:
            raise _RefusedError(404, "POST texts to /embed; GET /health")

    def _embed(self) -> Mapping[str, object]:
        texts, mode = self._read_request()
        embedder = self.server.embedder
        rows = embedder.embed(texts, mode).tolist()
        return {"embeddings": rows, "dimensions": embedder.dimensions, "model": embedder.name}

    def _read_request(self) -> tuple[list[str], Mode]:
        length = self.headers.get("Content-Length", "")
        if not length.isascii() or not length.isdigit() or "Transfer-Encoding" in self.headers:
            raise _RefusedError(411, "Content-Length is needed")
        if len(length) > 12 or int(length) > MAX_BODY_BYTES:
            raise _RefusedError(413, f"a body may have at most {MAX_BODY_BYTES} bytes")
        try:
            body = json.loads(self.rfile.read(int(length)))
        except (ValueError, RecursionError):
            raise _RefusedError(400, "the body is not JSON") from None
        asked = body if isinstance(body, dict) else {}
        texts, mode = asked.get("texts"), asked.get("mode", "query")
        if not isinstance(texts, list) or not all(isinstance(text, str) for text in texts):
            raise _RefusedError(400, "`texts` must be a list of strings")
        if len(texts) > MAX_TEXTS:
            raise _RefusedError(400, f"at most {MAX_TEXTS} texts at once")
        if mode not in get_args(Mode):
            raise _RefusedError(400, f"`mode` must be one of {', '.join(get_args(Mode))}")
        return texts, mode
