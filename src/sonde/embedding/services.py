"""Embedders behind HTTP: sonde's protocol and OpenAI's, with retries and checked answers.

Redirects are refused, since keys and texts must reach only the configured host. Proxies are not
used for loopback addresses. Errors never quote what was sent.
"""

from __future__ import annotations

import json
import os
import random
import re
import threading
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from http.client import HTTPException
from ipaddress import ip_address
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.parse import urlsplit
from urllib.request import HTTPRedirectHandler, ProxyHandler, Request, build_opener

from sonde.embedding.base import Mode, Vectors, make_units, plan_batches
from sonde.errors import EmbeddingFailed
from sonde.runtime.private import make_folder

_MAX_ANSWER_BYTES = 256 << 20  # many times a batch of vectors as JSON
_MAX_PAUSE_S = 20.0  # between attempts, whatever Retry-After says
_BATCH_TEXTS = 64  # chunks of one request
_BATCH_CHARS = 200_000  # of one request, within the usual limits of services
_RETRIED = frozenset({408, 425, 429, 500, 502, 503, 504, 529})
MALFORMED = (ValueError, TypeError, LookupError, AttributeError, OverflowError, RecursionError)
"""Errors raised by an answer of another shape than documented."""
_CODE = re.compile(r"[a-z][a-z_]{0,59}")


@dataclass(frozen=True, slots=True)
class Patience:
    """Timeout, number of attempts, and first pause between them."""

    timeout_s: float
    tries: int
    pause_s: float = 0.5


PATIENCE: Mapping[Mode, Patience] = {"query": Patience(10.0, 2, 0.2), "passage": Patience(60.0, 5)}
"""Short for queries, for which a user waits; passages are embedded in the background."""


class _Stay(HTTPRedirectHandler):
    def redirect_request(self, *_: Any) -> None:
        """Refuses redirects."""


def is_loopback(address: str) -> bool:
    """Whether a URL is on this machine."""
    name = urlsplit(address).hostname or ""
    with suppress(ValueError):
        return name == "localhost" or ip_address(name).is_loopback
    return False


def post_json(
    address: str, body: Mapping[str, object], headers: Mapping[str, str], patience: Patience
) -> Any:
    """Post JSON and return the JSON answer; retries if the service is busy or unreachable."""
    request = Request(  # noqa: S310 - the setting's rule lets only http and https through
        address,
        json.dumps(body).encode(),
        {"Content-Type": "application/json", "Accept": "application/json", **headers},
    )
    proxies = ProxyHandler({}) if is_loopback(address) else ProxyHandler()
    opener = build_opener(_Stay, proxies)
    for attempt in range(1, patience.tries + 1):
        pause = patience.pause_s * 2 ** (attempt - 1) * random.uniform(0.75, 1.25)  # noqa: S311
        try:
            with opener.open(request, timeout=patience.timeout_s) as answer:
                data = answer.read(_MAX_ANSWER_BYTES + 1)
            if len(data) > _MAX_ANSWER_BYTES:
                raise _fail(address, "the answer is too large")
            return json.loads(data)
        except HTTPError as error:
            with error:
                what = f"HTTP {error.code}{_read_code(error, headers)}"
                with suppress(ValueError, AttributeError):
                    pause = max(0.0, float(error.headers.get("Retry-After") or 0)) or pause
            if error.code not in _RETRIED or attempt == patience.tries:
                raise _fail(address, what, error.code) from None
        except (OSError, HTTPException) as error:
            if attempt == patience.tries:
                reason = getattr(error, "reason", None) or error
                raise _fail(address, f"{type(error).__name__}: {reason}") from None
        except (ValueError, RecursionError):
            raise _fail(address, "the answer is not JSON") from None
        time.sleep(min(pause, _MAX_PAUSE_S))
    raise _fail(address, "it was never asked")


def embed_in_batches(
    texts: Sequence[str], dimensions: int, send: Callable[[list[str]], Sequence[Sequence[float]]]
) -> Vectors:
    """Unit rows for all texts, sent in batches; blank texts are not sent and get zero rows.

    With `dimensions` 0, the first answer sets them.
    """
    import numpy as np

    made: dict[int, Any] = {}
    lengths = [len(text) if text.strip() else 0 for text in texts]
    for places in plan_batches(lengths, _BATCH_TEXTS, _BATCH_CHARS):
        try:
            rows = np.asarray(send([texts[at] for at in places]), np.float32)
        except MALFORMED as error:
            raise EmbeddingFailed(
                f"the embedding service answered in another shape: {type(error).__name__}",
                user_message="The embedding service answered in a way that is not understood.",
                next_action="Check that `embeddingEndpoint` is the address of such a service.",
            ) from None
        dimensions = dimensions or (rows.shape[1] if rows.ndim == 2 else 0)
        if rows.shape != (len(places), dimensions):
            raise EmbeddingFailed(
                f"the embedding service gave {rows.shape}, not {(len(places), dimensions)}",
                user_message="The embedding service gave vectors of another size.",
                next_action="Set `embeddingDimensions` to the size of its vectors.",
            )
        if not np.isfinite(rows).all():
            raise EmbeddingFailed("the embedding service gave vectors that are no numbers")
        made |= zip(places, rows, strict=True)
    return make_units(made, len(texts), dimensions)


def _read_code(error: HTTPError, sent: Mapping[str, str]) -> str:
    """The error code in an answer, without its message, which may quote parts of a key."""
    try:
        found = json.loads(error.read(100_000))["error"]
        code = found.get("code") or found.get("type")
    except (OSError, HTTPException, *MALFORMED):
        return ""
    if not isinstance(code, str) or not _CODE.fullmatch(code):
        return ""
    return "" if any(code in value for value in sent.values()) else f" ({code})"


def _fail(address: str, what: str, status: int = 0) -> EmbeddingFailed:
    actions = {
        401: "Check the key in the environment.",
        403: "Check the key in the environment.",
        404: "Correct `embeddingEndpoint` or `embeddingModel`.",
        429: "Wait a moment, or check the account's limits.",
    }
    parts = urlsplit(address)  # shown without anything that could be a secret
    port = f":{parts.port}" if parts.port else ""
    return EmbeddingFailed(
        f"{parts.scheme}://{parts.hostname}{port}{parts.path}: {what}",
        user_message="The embedding service did not answer.",
        next_action=actions.get(status, "Start it, or correct `embeddingEndpoint`."),
    )


class Identity:
    """The name of a service's vectors, learned from its answers and stored in the file `place`."""

    def __init__(self, base: str, model: str, place: Path | None) -> None:
        self._base, self._model, self._place = base, model, place
        self._lock = threading.Lock()
        self._suffix: str | None = None

    @property
    def name(self) -> str:
        """The name as far as it is known without a request."""
        with self._lock:
            if self._suffix is None:
                self._suffix = self._load().get(self._base, "")
            return self._base + self._suffix

    def learn(self, models: Collection[str], dimensions: int) -> None:
        """Record the model that the answers name, and the dimensions."""
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
            make_folder(self._place.parent)
            temporary.write_text(json.dumps(known, indent=1, sort_keys=True), "utf-8")
            temporary.replace(self._place)
        except OSError:
            temporary.unlink(missing_ok=True)  # the name stays known in this process


class EndpointEmbedder:
    """An `Embedder` behind sonde's HTTP protocol; its answers must name the configured model."""

    is_loaded = False

    def __init__(
        self,
        address: str,
        dimensions: int,
        name: str = "",
        model: str = "",
        place: Path | None = None,
        patience: Mapping[Mode, Patience] = PATIENCE,
    ) -> None:
        self._address, self._dimensions, self._model = address, dimensions, model
        self._identity = Identity(name, model, place) if name else None
        self._patience = patience

    @property
    def name(self) -> str:
        return self._identity.name if self._identity else ""

    @property
    def dimensions(self) -> int:
        return self._dimensions

    def embed(self, texts: Sequence[str], mode: Mode) -> Vectors:
        vectors, models = self._send(texts, mode, self._dimensions)
        if self._model and models - {self._model, ""}:
            raise EmbeddingFailed(
                f"the service embeds with {', '.join(sorted(models))}, not with {self._model}",
                user_message="The embedding service uses another model than the one named.",
                next_action="Correct `embeddingModel`, then embed the index again.",
            )
        if self._identity and models:
            self._identity.learn(models, self._dimensions)
        return vectors

    def close(self) -> None:
        """Holds nothing."""

    def _send(self, texts: Sequence[str], mode: Mode, dimensions: int) -> tuple[Vectors, set[str]]:
        """The vectors of all texts, and the models named in the answers."""
        models: set[str] = set()
        mode = "query" if mode == "query" else "passage"  # the modes of services

        def send(batch: list[str]) -> Sequence[Sequence[float]]:
            answer, rows = self._ask(batch, mode)
            models.add(str(answer.get("model") or ""))
            return rows

        return embed_in_batches(texts, dimensions, send), models

    def _ask(self, batch: list[str], mode: Mode) -> tuple[Any, Sequence[Sequence[float]]]:
        """An answer, and the vectors in it."""
        body = {"texts": batch, "mode": mode}
        answer = post_json(self._address, body, {}, self._patience[mode])
        return answer, answer["embeddings"]


ADDRESS = "https://api.openai.com/v1"
MODEL = "text-embedding-3-small"
_MAX_TEXT_CHARS = 16_000  # of a text; nearly always within the limit of 8,191 tokens


class OpenAIEmbedder(EndpointEmbedder):
    """An OpenAI-compatible `Embedder`; the key is read for each request and not kept."""

    def __init__(
        self,
        address: str = ADDRESS,
        model: str = MODEL,
        dimensions: int = 0,
        read_key: Callable[[], str] = str,
        place: Path | None = None,
        patience: Mapping[Mode, Patience] = PATIENCE,
    ) -> None:
        base = address.rstrip("/")
        address = base if base.endswith("/embeddings") else f"{base}/embeddings"
        # includes host and size: at another host the same name may be another model
        cut = f"@{dimensions}" if dimensions else ""
        name = f"openai:{urlsplit(address).netloc}/{model}{cut}"
        super().__init__(address, dimensions, name, model, place, patience)
        self._asked_dimensions, self._read_key = dimensions, read_key
        self._lock = threading.Lock()

    @property
    def dimensions(self) -> int:
        with self._lock:
            if not self._dimensions:
                self._dimensions = self.embed(["size"], "query").shape[1]
            return self._dimensions

    def embed(self, texts: Sequence[str], mode: Mode) -> Vectors:
        known = self._asked_dimensions
        if not known and not any(text.strip() for text in texts):
            known = self.dimensions
        vectors, models = self._send(texts, mode, known)
        if self._identity and models:
            self._dimensions = vectors.shape[1]
            self._identity.learn(models, self._dimensions)
        return vectors

    def _ask(self, batch: list[str], mode: Mode) -> tuple[Any, Sequence[Sequence[float]]]:
        body: dict[str, object] = {
            "model": self._model,
            "input": [text[:_MAX_TEXT_CHARS] for text in batch],
            "encoding_format": "float",
        }
        if self._asked_dimensions:
            body["dimensions"] = self._asked_dimensions
        key = self._read_key()
        headers = {"Authorization": f"Bearer {key}"} if key else {}
        answer = post_json(self._address, body, headers, self._patience[mode])
        rows = {int(row["index"]): row["embedding"] for row in answer["data"]}
        if sorted(rows) != list(range(len(batch))):
            raise EmbeddingFailed(f"{len(batch)} texts were sent, {len(rows)} vectors received")
        return answer, [rows[at] for at in range(len(batch))]
