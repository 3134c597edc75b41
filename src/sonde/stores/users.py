"""Who may use the server: keys that were given out (only their digests), and who was shut out."""

from __future__ import annotations

import hashlib
import re
import secrets
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from sonde.errors import InvalidRequest, StorageUnusable
from sonde.runtime.locks import try_lock
from sonde.stores.database import translate_errors
from sonde.stores.files import read_json, write_json
from sonde.stores.formats import refuse_newer

USER_NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,63}")
_FORMAT = 1
_POLL_S = 0.02
_PREFIX = "sonde"


@dataclass(frozen=True, slots=True)
class Key:
    """One key of a user; the key itself is nowhere but with its holder."""

    id: str
    user: str
    digest: str
    created_at: int
    revoked_at: int | None = None


class Users:
    """The keys in one file, read again whenever it changes."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._stamp: tuple[int, int] | None = None
        self._keys: list[Key] = []
        self._by_digest: dict[str, Key] = {}
        self._shut_out: dict[str, int] = {}

    def __bool__(self) -> bool:
        self._refresh()
        return bool(self._keys or self._shut_out)

    def add_key(self, user: str) -> tuple[Key, str]:
        """A new key for a user, who need not be known; the key is told this once."""
        if not USER_NAME.fullmatch(user):
            raise InvalidRequest(
                f"user {user!r}",
                user_message="'{user}' cannot be a user: use a-z, 0-9, dot, dash, underscore.",
                user=user,
            )
        name = secrets.token_hex(4)
        secret = f"{_PREFIX}_{name}_{secrets.token_urlsafe(32)}"
        key = Key(name, user, digest_token(secret), _now())
        with self._changing():
            self._save([*self._keys, key])
        return key, secret

    def list_keys(self) -> list[Key]:
        """Every key, oldest first, revoked ones too."""
        self._refresh()
        return list(self._keys)

    def revoke(self, name: str) -> int:
        """Shut a user out, or one key by its id; how many keys ended."""
        with self._changing():
            return self._revoke(name)

    def _revoke(self, name: str) -> int:
        ended = [key for key in self._keys if key.revoked_at is None and name in (key.id, key.user)]
        now = _now()
        is_key = any(key.id == name for key in self._keys)
        if not is_key and USER_NAME.fullmatch(name):
            self._shut_out[name] = now  # tokens that others signed for this user end as well
        elif not ended:
            raise InvalidRequest(
                f"{name!r}",
                user_message="There is no user and no key '{name}'.",
                next_action="See `sonde users list`.",
                name=name,
            )
        keys = [
            Key(key.id, key.user, key.digest, key.created_at, now) if key in ended else key
            for key in self._keys
        ]
        self._save(keys)
        return len(ended)

    def find_user(self, token: str) -> str | None:
        """The user of a key that holds."""
        self._refresh()
        key = self._by_digest.get(digest_token(token))
        return key.user if key and key.revoked_at is None else None

    def is_shut_out(self, user: str, issued_at: int) -> bool:
        """Whether a token of this user, issued then (ms), has ended since."""
        self._refresh()
        ended = self._shut_out.get(user)
        return ended is not None and issued_at <= ended

    @contextmanager
    def _changing(self) -> Iterator[None]:
        """Around a change: of two processes, the second begins with what the first has done."""
        with translate_errors(self._path):
            self._path.parent.mkdir(parents=True, exist_ok=True)
            lock = self._path.with_suffix(".lock").open("w")
        with lock:
            while not try_lock(lock.fileno()):
                time.sleep(_POLL_S)
            self._refresh()
            yield

    def _refresh(self) -> None:
        stamp = None
        with translate_errors(self._path), suppress(FileNotFoundError):
            facts = self._path.stat()
            stamp = (facts.st_mtime_ns, facts.st_ino)
        if stamp == self._stamp:
            return
        known: Any = read_json(self._path) if stamp else {}
        try:
            refuse_newer(self._path, known.get("format", _FORMAT), _FORMAT)
            keys = [Key(**row) for row in known.get("keys", [])]
            shut_out = dict(known.get("shutOut", {}))
        except (AttributeError, TypeError, ValueError) as error:
            # to go on without would let in whom it shuts out, and lose it with the next key
            raise StorageUnusable(
                f"{self._path} is damaged",
                user_message="The file with the keys of users cannot be read.",
                next_action="Restore it, or delete it and give out new keys.",
            ) from error
        self._keys, self._shut_out = keys, shut_out
        self._by_digest = {key.digest: key for key in keys}
        self._stamp = stamp

    def _save(self, keys: list[Key]) -> None:
        body = {
            "format": _FORMAT,
            "keys": [asdict(key) for key in keys],
            "shutOut": self._shut_out,
        }
        write_json(self._path, body)
        self._path.chmod(0o600)
        self._stamp = None
        self._refresh()


def digest_token(token: str) -> str:
    """What is kept of a key: enough to know it again, nothing to make it from."""
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).hexdigest()


def _now() -> int:
    return int(time.time() * 1000)
