"""Cursors: signed tokens, and the frozen rankings whose pages they point at.

A token is base64url(JSON) and a signature, joined by a dot. The signature covers the purpose, so
that a token made for one thing is worthless for another, and only the installation can make one.
"""

from __future__ import annotations

import base64
import copy
import hashlib
import hmac
import json
import sys
import threading
import time
import uuid
from collections import OrderedDict, deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from sonde.errors import BadCursor
from sonde.runtime.processes import trim_heap

_VERSION = 1  # of a cursor's fields; a cursor of another version is refused
_LONGEST_TOKEN = 4_000
"""Characters; a listing's key may hold a file name of 255 bytes, escaped."""
_SIGNATURE_BYTES = 16  # 128 bits cannot be guessed, in half the length of a digest
_KEY_SIGNATURE_BYTES = 9
"""Of keys of listings, shorter since every small answer holds one; to guess one takes 2 ** 72."""
_RANKING = "ranking"
"""The purpose of cursors."""


class BrokenSealError(ValueError):
    """A token not made for this purpose by this installation; the message says what is wrong."""


def seal(
    value: object, purpose: str, key: bytes, *, signature_bytes: int = _SIGNATURE_BYTES
) -> str:
    """A signed token that holds a JSON value and is valid for one purpose."""
    payload = json.dumps(value, separators=(",", ":")).encode()
    return _to_text(payload) + "." + _to_text(_sign(payload, purpose, key, signature_bytes))


def unseal(token: str, purpose: str, key: bytes, *, signature_bytes: int = _SIGNATURE_BYTES) -> Any:
    """The value that was sealed for this purpose, or `BrokenSealError`."""
    if len(token) > _LONGEST_TOKEN:
        raise BrokenSealError("is longer than any cursor of this server")
    try:
        payload_text, signature_text = token.split(".")
        payload, signature = _from_text(payload_text), _from_text(signature_text)
    except ValueError as error:
        raise BrokenSealError("is truncated or not a cursor at all") from error
    if not hmac.compare_digest(signature, _sign(payload, purpose, key, signature_bytes)):
        raise BrokenSealError("was changed, or comes from another listing or another installation")
    return json.loads(payload)


def _sign(payload: bytes, purpose: str, key: bytes, size: int) -> bytes:
    message = purpose.encode("utf-8", "surrogatepass") + b"\0" + payload
    return hmac.new(key, message, hashlib.sha256).digest()[:size]


def _to_text(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


def _from_text(text: str) -> bytes:
    padded = text + "=" * (-len(text) % 4)
    data = base64.b64decode(padded, altchars=b"-_", validate=True)
    if _to_text(data) != text:
        raise ValueError("not canonical")
    return data


@dataclass(frozen=True, slots=True)
class Cursor:
    """A position in a result set."""

    session_id: str
    offset: int
    search_params_hash: str
    again: tuple[Mapping[str, Any], str, int] | None = None
    """How another server finds the ranking: the search, a digest of its hits, the page's number."""


def hash_parameters(parameters: Mapping[str, Any]) -> str:
    """A hash that identifies a set of search parameters."""
    text = json.dumps(parameters, sort_keys=True, ensure_ascii=False, default=str)
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def encode_cursor(cursor: Cursor, key: bytes) -> str:
    """The cursor as the text given to a client."""
    body = {name: value for name, value in asdict(cursor).items() if value is not None}
    return seal(body | {"timestamp": int(time.time() * 1000), "version": _VERSION}, _RANKING, key)


def decode_cursor(text: str, key: bytes) -> Cursor:
    """Decode a cursor; raises `BadCursor` with what is wrong."""
    body = _unseal_cursor(text, _RANKING, key, _SIGNATURE_BYTES)
    if body.get("version") != _VERSION:
        raise BadCursor("the cursor comes from another version of this server")
    place = (body["session_id"], body["offset"], body["search_params_hash"])
    return Cursor(*place, tuple(body["again"]) if "again" in body else None)


def encode_key(key: list[Any], scope: str, secret: bytes) -> str:
    """The cursor after a row of a listing; `scope` names what is listed, in which order."""
    return seal(key, scope, secret, signature_bytes=_KEY_SIGNATURE_BYTES)


def decode_key(cursor: str, scope: str, secret: bytes) -> list[Any]:
    """The key that a cursor of a listing holds, or `BadCursor`."""
    key: list[Any] = _unseal_cursor(cursor, scope, secret, _KEY_SIGNATURE_BYTES)
    return key


def _unseal_cursor(text: str, purpose: str, key: bytes, signature_bytes: int) -> Any:
    try:
        return unseal(text, purpose, key, signature_bytes=signature_bytes)
    except BrokenSealError as error:
        raise BadCursor(f"the cursor {error}") from error


TTL_S = 300.0
"""How long a ranking is kept after its last use, as documented."""
SWEEP_S = 60.0  # a fifth of the TTL, so that memory is freed soon after it
MOST_SETS = 100
"""Rankings kept at a time, as documented."""
MOST_BYTES = 64_000_000
"""Memory of all kept rankings together; the least recently used make room."""
HIT_BYTES = 1_500
"""Measured size of a hit besides its text: place, reasons and file."""
_MOST_EVICTED = 1_000  # rankings remembered as evicted, so that their cursors say why


_EVICTED = "the results of this cursor made room for those of newer searches"
_EXPIRED = "the results of this cursor are gone: 5 minutes unused, or the server was restarted"
_MOVED = "the index has changed since, so that the same search has other results"
_LONGEST_CURSOR = 2_000
"""Characters that tools accept; a longer search is not repeated from its cursor."""


@dataclass(slots=True)
class ResultSet:
    """One ranking and the parameters it answers."""

    id: str
    parameters: Mapping[str, Any]
    hits: Sequence[Any]
    """`Hit`s, or what else a family of tools ranks; each has a `text`."""
    last_used: float
    facts: Any
    """Facts about the whole ranking that every page repeats; the tool knows the type."""
    size: int
    """Bytes of memory, which `MOST_BYTES` limits."""
    recipe: Mapping[str, Any] | None = None
    """The search as JSON, where it can be made again from that."""
    digest: str = ""
    pages: dict[int, int] = field(default_factory=lambda: {0: 1})
    """Offset -> number of the page that starts there; a budget makes pages of unequal length."""

    def name_hits(self) -> str:
        """A digest of the ranking: equal ones have the same texts in the same order."""
        if not self.digest:
            self.digest = hash_parameters({"hits": [hit.text for hit in self.hits]})[:16]
        return self.digest


class ResultSets:
    """The newest hundred rankings, each kept for five minutes after its last use."""

    def __init__(
        self, key: bytes, clock: Callable[[], float] = time.monotonic, *, portable: bool = False
    ) -> None:
        self._key, self._portable = key, portable
        self._clock = clock
        self._sets: OrderedDict[str, ResultSet] = OrderedDict()
        self._evicted: deque[str] = deque(maxlen=_MOST_EVICTED)
        self._lock = threading.Lock()
        self._closed = threading.Event()

    def sealed_with(self, key: bytes) -> ResultSets:
        """A view of these rankings whose cursors are signed with another key."""
        view = copy.copy(self)
        view._key = key  # noqa: SLF001 - of a copy of itself
        return view

    def __len__(self) -> int:
        return len(self._sets)

    def freeze(
        self,
        parameters: Mapping[str, Any],
        hits: Sequence[Any],
        facts: Any = None,
        recipe: Mapping[str, Any] | None = None,
    ) -> ResultSet:
        """Freeze a ranking. It is kept once a cursor points into it, so one page costs nothing."""
        size = sum(sys.getsizeof(hit.text) + HIT_BYTES for hit in hits)
        held = (dict(parameters), tuple(hits), self._clock(), facts, size, recipe)
        return ResultSet(uuid.uuid4().hex, *held)

    def keep(
        self, parameters: Mapping[str, Any], hits: Sequence[Any], facts: Any = None
    ) -> ResultSet:
        """Freeze a ranking and keep it, for pages named by number; one hit has no second page."""
        kept = self.freeze(parameters, hits, facts)
        if len(hits) > 1:
            self._keep(kept)
        return kept

    def _keep(self, kept: ResultSet) -> None:
        with self._lock:
            self._drop_expired()
            self._sets[kept.id] = kept
            total = sum(one.size for one in self._sets.values())
            while len(self._sets) > MOST_SETS or (total > MOST_BYTES and len(self._sets) > 1):
                id_, evicted = self._sets.popitem(last=False)
                self._evicted.append(id_)
                total -= evicted.size

    def find(self, parameters: Mapping[str, Any]) -> ResultSet | None:
        """The newest ranking kept for just these parameters, for pages named by number."""
        digest = hash_parameters(parameters)
        with self._lock:
            self._drop_expired()
            for key, kept in reversed(self._sets.items()):
                if hash_parameters(kept.parameters) == digest:
                    return self._use(key)
        return None

    def start_sweeping(self, every_s: float = SWEEP_S) -> None:
        """Sweep in the background until closed."""

        def sweep() -> None:
            while not self._closed.wait(every_s):
                with self._lock:
                    dropped = self._drop_expired()
                if dropped:
                    trim_heap()

        threading.Thread(target=sweep, name="sonde-sweep", daemon=True).start()

    def close(self) -> None:
        """Stop sweeping and drop every ranking."""
        self._closed.set()
        with self._lock:
            self._sets.clear()

    def cursor_at(self, results: ResultSet, offset: int, number: int = 1) -> str | None:
        """The cursor for the page that starts at `offset`; None past the end."""
        if offset >= len(results.hits):
            return None
        if results.id not in self._sets:
            self._keep(results)
        cursor = Cursor(results.id, offset, hash_parameters(results.parameters))
        if self._portable and results.recipe is not None:
            again = (results.recipe, results.name_hits(), number)
            text = encode_cursor(replace(cursor, again=again), self._key)
            if len(text) <= _LONGEST_CURSOR:
                return text
        return encode_cursor(cursor, self._key)

    def find_tool(self, text: str) -> object:
        """The tool that made a cursor."""
        cursor = decode_cursor(text, self._key)
        return cursor.again[0].get("tool") if cursor.again else self._get(cursor).parameters["tool"]

    def _get(self, cursor: Cursor) -> ResultSet:
        with self._lock:
            self._drop_expired()
            if cursor.session_id in self._sets:
                return self._use(cursor.session_id)
            raise BadCursor(_EVICTED if cursor.session_id in self._evicted else _EXPIRED)

    def resume(
        self,
        text: str,
        given: Mapping[str, Any],
        search_again: Callable[[Mapping[str, Any]], ResultSet] | None = None,
    ) -> tuple[ResultSet, int]:
        """The ranking and offset a cursor points at; parameters given with it must agree.

        What another server has ranked, or this one no longer keeps, is searched for again if the
        cursor says how, and continued if the ranking is the same.
        """
        cursor = decode_cursor(text, self._key)
        try:
            results = self._get(cursor)
        except BadCursor:
            if not (cursor.again and search_again):
                raise
            recipe, digest, _ = cursor.again
            results = search_again(recipe)
            if results.name_hits() != digest:
                raise BadCursor(_MOVED) from None
            results.id = cursor.session_id
            self._keep(results)
        if cursor.again:
            results.pages[cursor.offset] = cursor.again[2]
        tool = results.parameters.get("tool")
        if given.get("tool", tool) != tool:
            raise BadCursor(
                f"the cursor belongs to {tool}", next_action=f"Pass it to {tool} instead."
            )
        if cursor.search_params_hash != hash_parameters(results.parameters):
            raise BadCursor("the cursor belongs to another search")
        for name, value in given.items():
            if hash_parameters({"": results.parameters.get(name)}) != hash_parameters({"": value}):
                raise BadCursor(
                    f"`{name}` differs from the search that this cursor continues",
                    next_action="Pass the cursor alone, or search again without it.",
                )
        return results, cursor.offset

    def _use(self, key: str) -> ResultSet:
        self._sets.move_to_end(key)
        self._sets[key].last_used = self._clock()
        return self._sets[key]

    def _drop_expired(self) -> int:
        oldest = self._clock() - TTL_S
        expired = [key for key, kept in self._sets.items() if kept.last_used < oldest]
        for key in expired:
            del self._sets[key]
        return len(expired)
