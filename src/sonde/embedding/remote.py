"""What every provider behind an address shares: sending with patience, checking what comes back.

Redirects are refused, since a key or a text must reach the host that was named and no other;
proxies are not used for this machine itself. No error repeats what was sent.
"""

from __future__ import annotations

import json
import random
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from http.client import HTTPException
from ipaddress import ip_address
from typing import TYPE_CHECKING, Any
from urllib.error import HTTPError
from urllib.parse import urlsplit
from urllib.request import HTTPRedirectHandler, ProxyHandler, Request, build_opener

from sonde.embedding.base import Mode, make_units
from sonde.errors import EmbeddingFailed

if TYPE_CHECKING:
    from sonde.embedding.base import Vectors

_MOST_BYTES = 256 << 20
_LONGEST_PAUSE_S = 20.0
_BATCH_TEXTS = 64
_BATCH_CHARS = 200_000
_REPEATED = frozenset({408, 425, 429, 500, 502, 503, 504, 529})
ODD = (ValueError, TypeError, LookupError, AttributeError, OverflowError, RecursionError)
"""What comes of an answer in another shape than the documented one."""
_CODE = re.compile(r"[a-z][a-z_]{0,59}")


@dataclass(frozen=True, slots=True)
class Patience:
    """How long one answer may take, how often it is asked for, and the first pause in between."""

    timeout_s: float
    tries: int
    pause_s: float = 0.5


ASKING: Mapping[Mode, Patience] = {"query": Patience(10.0, 2, 0.2), "passage": Patience(60.0, 5)}
"""Somebody waits for a query; passages are embedded in the background."""


class _Stay(HTTPRedirectHandler):
    def redirect_request(self, *_: Any) -> None:
        """Nothing is sent on to another address."""


def is_loopback(address: str) -> bool:
    """Whether a URL leads to this machine."""
    name = urlsplit(address).hostname or ""
    try:
        return name == "localhost" or ip_address(name).is_loopback
    except ValueError:
        return False


def show_address(address: str) -> str:
    """A URL without anything that could be a secret."""
    parts = urlsplit(address)
    port = f":{parts.port}" if parts.port else ""
    return f"{parts.scheme}://{parts.hostname}{port}{parts.path}"


def post_json(
    address: str, body: Mapping[str, Any], headers: Mapping[str, str], patience: Patience
) -> Any:
    """The JSON that answers, asked for again while the other side is busy or out of reach."""
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
                data = answer.read(_MOST_BYTES + 1)
            if len(data) > _MOST_BYTES:
                raise _fail(address, "the answer is too large")
            return json.loads(data)
        except HTTPError as error:
            with error:
                what = f"HTTP {error.code}{_read_code(error, headers)}"
            pause = _read_pause(error) or pause
            if error.code not in _REPEATED or attempt == patience.tries:
                raise _fail(address, what, error.code) from None
        except (OSError, HTTPException) as error:
            if attempt == patience.tries:
                reason = getattr(error, "reason", None) or error
                raise _fail(address, f"{type(error).__name__}: {reason}") from None
        except (ValueError, RecursionError):
            raise _fail(address, "the answer is not JSON") from None
        time.sleep(min(pause, _LONGEST_PAUSE_S))
    raise _fail(address, "it was never asked")


def embed_in_batches(
    texts: Sequence[str],
    dimensions: int,
    ask: Callable[[list[str]], Sequence[Sequence[float]]],
) -> Vectors:
    """Unit rows for all texts, a few at a time; blank texts are not sent and get a zero row.

    `dimensions` 0 takes whatever comes first.
    """
    import numpy as np

    made: dict[int, Any] = {}
    for places in _plan_batches(texts):
        try:
            rows = np.asarray(ask([texts[at] for at in places]), np.float32)
        except ODD as error:
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


def _plan_batches(texts: Sequence[str]) -> Iterator[list[int]]:
    batch: list[int] = []
    size = 0
    for at, text in enumerate(texts):
        if not text.strip():
            continue
        if batch and (len(batch) == _BATCH_TEXTS or size + len(text) > _BATCH_CHARS):
            yield batch
            batch, size = [], 0
        batch.append(at)
        size += len(text)
    if batch:
        yield batch


def _read_pause(error: HTTPError) -> float:
    """How long the other side wants to be left alone, if it says so in seconds."""
    try:
        return max(0.0, float(error.headers.get("Retry-After") or 0))
    except (ValueError, AttributeError):
        return 0.0


def _read_code(error: HTTPError, sent: Mapping[str, str]) -> str:
    """The word for what went wrong; the message itself may repeat parts of a key."""
    try:
        found = json.loads(error.read(100_000))["error"]
        code = found.get("code") or found.get("type")
    except (OSError, HTTPException, *ODD):
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
    return EmbeddingFailed(
        f"{show_address(address)}: {what}",
        user_message="The embedding service did not answer.",
        next_action=actions.get(status, "Start it, or correct `embeddingEndpoint`."),
    )
