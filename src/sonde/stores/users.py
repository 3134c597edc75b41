"""Users of an installation: access keys (as digests), grants, and rules for repositories.

Also the key that signs cursors and confirmations.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import logging
import os
import re
import secrets
import tomllib
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, replace
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, Literal, get_args

from sonde.errors import InvalidRequest, StorageUnusable
from sonde.runtime.private import make_folder
from sonde.runtime.system import now_ms
from sonde.runtime.work import WriterLock
from sonde.stores.files import read_json, refuse_newer, translate_os_errors, write_json
from sonde.types import LOCAL, Json

Gift = Literal["fileRoots", "projects", "knowledge", "collections", "agentNotes"]
"""What an operator grants: folders to index, scan and read, projects to search and read, and
collections of knowledge to read or to add to as well, by the name of the user that owns them. Only
`agentNotes` is the user's own choice: whether agents may add notes."""
USER_NAME = re.compile(r"[a-z0-9][a-z0-9._+@-]{0,63}")
EVERYONE = "all"
"""In place of a user: grants to it are grants to every user."""
_FORMAT = 4  # of the file of keys; 2 added grants, 4 collections to add to
log = logging.getLogger(__name__)
_SIGNING_KEY_BYTES = 32  # the length of a digest of HMAC-SHA256


@dataclass(frozen=True, slots=True)
class Key:
    """A key of a user, stored as its digest."""

    id: str
    user: str
    digest: str
    created_at: int
    revoked_at: int | None = None


class Users:
    """Keys and grants in one file, which is read again when it changes."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = WriterLock(path.parent, f"{path.stem}.lock")
        self._stamp: tuple[int, int] | None = None
        self._keys: list[Key] = []
        self._by_digest: dict[str, Key] = {}
        self._shut_out: dict[str, int] = {}
        self._given: dict[str, dict[str, list[str]]] = {}

    def __bool__(self) -> bool:
        return any(key.revoked_at is None for key in self.list_keys())

    def add_key(self, user: str) -> tuple[Key, str]:
        """Create a key for a user. Returns its record and the key, which is not stored."""
        _check_name(user)
        if user == EVERYONE:
            raise InvalidRequest(f"user {user!r}", user_message="'all' means every user.")
        name = secrets.token_hex(4)
        secret = f"sonde_{name}_{secrets.token_urlsafe(32)}"
        key = Key(name, user, digest_token(secret), now_ms())
        with self._locked():
            self._save([*self._keys, key])
        return key, secret

    def list_keys(self) -> list[Key]:
        """All keys, oldest first, including revoked ones."""
        self._refresh()
        return list(self._keys)

    def revoke(self, name: str) -> int:
        """Revoke a user, or one key by its id. Returns how many keys ended."""
        with self._locked():
            active = [key for key in self._keys if key.revoked_at is None]
            ended = [key for key in active if name in (key.id, key.user)]
            now = now_ms()
            if all(key.id != name for key in self._keys) and USER_NAME.fullmatch(name):
                self._shut_out[name] = now  # ends the tokens that a provider signed, too
            elif not ended:
                raise InvalidRequest(
                    f"{name!r}",
                    user_message="There is no user and no key '{name}'.",
                    next_action="See `sonde users list`.",
                    name=name,
                )
            self._save([replace(k, revoked_at=now) if k in ended else k for k in self._keys])
            return len(ended)

    def give(self, kind: Gift, user: str, what: Path | str) -> None:
        """Grant something to a user, or to `all`."""
        _check_name(user)
        with self._locked():
            places = self._given.setdefault(kind, {}).setdefault(user, [])
            if str(what) not in places:
                places.append(str(what))
            self._save(self._keys)

    def withdraw(self, user: str, what: Path | str) -> int:
        """Withdraw a grant of every kind. Returns how many there were."""
        with self._locked():
            holders = [given[user] for given in self._given.values() if user in given]
            ended = [places for places in holders if str(what) in places]
            for places in ended:
                places.remove(str(what))
            self._save(self._keys)
            return len(ended)

    def list_given(self, kind: Gift, user: str) -> tuple[str, ...]:
        """The grants of a kind to a user, by name or to all."""
        self._refresh()
        given = self._given.get(kind, {})
        return tuple(text for name in (user, EVERYONE) for text in given.get(name, ()))

    def list_all_given(self, kind: Gift) -> dict[str, tuple[str, ...]]:
        """The grants of a kind by user."""
        self._refresh()
        return {user: tuple(each) for user, each in self._given.get(kind, {}).items()}

    def make_own_key(self, signing_key: bytes) -> str:
        """The operator's key, derived from the signing key; it changes when `local` is revoked."""
        self._refresh()
        purpose = f"own key\0{self._shut_out.get(LOCAL, 0)}"
        digest = hmac.digest(signing_key, purpose.encode(), "sha256")
        return f"sonde_own_{base64.urlsafe_b64encode(digest).decode().rstrip('=')}"

    def find_user(self, token: str) -> str | None:
        """The user of a valid key."""
        self._refresh()
        key = self._by_digest.get(digest_token(token))
        return key.user if key and key.revoked_at is None else None

    def is_shut_out(self, user: str, issued_at: int) -> bool:
        """Whether a token of this user, issued at this time (ms), was revoked later."""
        self._refresh()
        ended = self._shut_out.get(user)
        return ended is not None and issued_at <= ended

    @contextmanager
    def _locked(self) -> Iterator[None]:
        """Hold the lock of the file, with the newest keys loaded."""
        with self._lock.held():
            self._refresh()
            yield

    def _refresh(self) -> None:
        stamp = None
        with translate_os_errors(self._path), suppress(FileNotFoundError):
            facts = self._path.stat()
            stamp = (facts.st_mtime_ns, facts.st_ino)
        if stamp == self._stamp:
            return
        known: Any = read_json(self._path) if stamp else {}
        try:
            refuse_newer(self._path, known.get("format", _FORMAT), _FORMAT)
            keys = [Key(**row) for row in known.get("keys", [])]
            shut_out = dict(known.get("shutOut", {}))
            given = {
                kind: {str(user): [str(Path(each)) for each in places] for user, places in rows}
                for kind in get_args(Gift)
                for rows in [known.get(kind, {}).items()]
            }
        except (AttributeError, TypeError, ValueError) as error:
            # an empty list would admit revoked users, and replace the file with the next key
            raise StorageUnusable(
                f"{self._path} is damaged",
                user_message="The file with the keys of users cannot be read.",
                next_action="Restore it, or delete it and give out new keys.",
            ) from error
        self._keys, self._shut_out, self._given = keys, shut_out, given
        self._by_digest = {key.digest: key for key in keys}
        self._stamp = stamp

    def _save(self, keys: list[Key]) -> None:
        rows = [asdict(key) for key in keys]
        known = {"format": _FORMAT, "keys": rows, "shutOut": self._shut_out, **self._given}
        write_json(self._path, known)
        self._stamp = None
        self._refresh()


def _check_name(user: str) -> None:
    if not USER_NAME.fullmatch(user):
        raise InvalidRequest(
            f"user {user!r}",
            user_message="'{user}' cannot be a user: use a-z, 0-9, dot, dash, underscore.",
            user=user,
        )


def digest_token(token: str) -> str:
    """The digest under which a key or a token is kept."""
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).hexdigest()


def load_signing_key(home: Path, link: Callable[[Path, Path], None] = os.link) -> bytes:
    """The key that signs cursors and confirmations, created on first use.

    A home that cannot be written gets a key for this process only.
    """
    path = home / "key"
    if key := _read_key(path):
        return key
    fresh = secrets.token_bytes(_SIGNING_KEY_BYTES)
    temporary = home / f".key-{os.getpid()}-{secrets.token_hex(4)}"
    with suppress(OSError):
        make_folder(home)
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        try:
            with os.fdopen(descriptor, "wb") as file:
                file.write(fresh)
            with suppress(OSError):
                link(temporary, path)  # of two processes that start together, one succeeds
            # the file is torn, or the file system has no links
            if not _read_key(path):
                temporary.replace(path)
        finally:
            temporary.unlink(missing_ok=True)
    return _read_key(path) or fresh


def _read_key(path: Path) -> bytes:
    """The key in a file, empty unless it is complete."""
    try:
        key = path.read_bytes()
    except OSError:
        return b""
    return key if len(key) == _SIGNING_KEY_BYTES else b""


_Rules = Mapping[str, Mapping[str, list[str]]]


@dataclass(frozen=True, slots=True)
class ProviderSettings:
    """An OpenID Connect provider, and the claims of its tokens that are used."""

    issuer: str = ""
    client: str = ""
    secret_variable: str = ""
    """The environment variable that holds the client's secret; empty for a public client."""
    user_claim: str = "email"
    groups_claim: str = ""


class RepositoryAccess:
    """Which users see which repositories, by the rules in one file (docs/operating.md).

    The file is read again when it changes; without one, only the operator sees any.
    """

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._stamp: tuple[int, int] | None = None
        self._rules: _Rules = {}
        self.provider: ProviderSettings | None = None
        """For signing in; read once."""
        self._refresh()

    def allows(self, user: str, groups: Collection[str], repository: str) -> bool:
        """Whether a user, or a member of these groups, may see a repository."""
        self._refresh()
        users, teams = self._rules.get("users", {}), self._rules.get("groups", {})
        patterns = [*self._rules.get("all", {}).get("", ()), *users.get(user.lower(), ())]
        patterns += [pattern for group in groups for pattern in teams.get(group.lower(), ())]
        return any(fnmatchcase(repository.lower(), pattern.lower()) for pattern in patterns)

    def _refresh(self) -> None:
        """Read the file if it changed; invalid rules do not replace the current ones."""
        if self._path is None:
            return
        try:
            facts = self._path.stat()
            stamp = (facts.st_mtime_ns, facts.st_ino)
            if stamp != self._stamp:
                known = tomllib.loads(self._path.read_text("utf-8"))
                if "provider" in known:
                    self.provider = ProviderSettings(**known.pop("provider"))
                self._rules, self._stamp = _read_rules(known), stamp
        except (OSError, ValueError, TypeError, AttributeError) as error:
            if self._stamp is None:
                raise InvalidRequest(
                    f"{self._path}: {error}",
                    user_message="The access file '{path}' cannot be used: {why}",
                    next_action="Write `all`, `[users]` and `[groups]` with lists of repositories.",
                    path=str(self._path),
                    why=str(error),
                ) from error
            log.warning("the rules of %s stay as they were: %s", self._path, error)


def _read_rules(known: Json) -> _Rules:
    tables = {"all": {"": known.pop("all", [])}, "users": known.pop("users", {}),
              "groups": known.pop("groups", {})}  # fmt: skip
    if known:
        raise ValueError(f"unknown: {', '.join(sorted(known))}")
    rules = {name: {str(who).lower(): each for who, each in table.items()}
             for name, table in tables.items()}  # fmt: skip
    for each in (each for table in rules.values() for each in table.values()):
        if not isinstance(each, list) or not all(isinstance(text, str) for text in each):
            raise ValueError('repositories are listed as ["name", "name-*"]')
    return rules
