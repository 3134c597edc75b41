"""Who a caller is: tokens from a file, keys of users, and signed tokens (JWT)."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sonde.errors import InvalidRequest
from sonde.stores.users import USER_NAME, Users
from sonde.types import LOCAL, Json

if TYPE_CHECKING:
    from jwt import PyJWKSet


MIN_TOKEN_CHARS = 16
"""Keeps out tokens that could be guessed."""


class Tokens:
    """Known tokens; only their digests are kept."""

    def __init__(self, pairs: Iterable[tuple[str, str]] = ()) -> None:
        self._users = {_digest(token): user for user, token in pairs}

    def __bool__(self) -> bool:
        return bool(self._users)

    def find_user(self, token: str) -> str | None:
        """The user of a token; the time it takes reveals nothing about other tokens."""
        return self._users.get(_digest(token))


def load_tokens(token: str | None, path: Path | None) -> Tokens:
    """The given token and those of a file: `TOKEN` or `USER TOKEN` on each line."""
    pairs = [(LOCAL, token)] if token else []
    if path is not None:
        try:
            lines = path.read_text(encoding="utf-8").splitlines()
        except (OSError, UnicodeDecodeError) as error:
            raise _refuse(f"The token file {path} cannot be read: {error}") from error
        for number, line in enumerate(lines, 1):
            words = line.partition("#")[0].split()
            if len(words) > 2:
                raise _refuse(f"Line {number} of {path} is not `TOKEN` or `USER TOKEN`.")
            if words:
                pairs.append((words[0] if len(words) > 1 else LOCAL, words[-1]))
        if not pairs:
            raise _refuse(f"There is no token in {path}.")
    for user, secret in pairs:
        if len(secret) < MIN_TOKEN_CHARS:
            raise _refuse(f"A token must have at least {MIN_TOKEN_CHARS} characters.")
        if not USER_NAME.fullmatch(user):
            raise _refuse(f"'{user}' cannot be a user: use a-z, 0-9, dot, dash, underscore.")
    return Tokens(pairs)


def _digest(token: str) -> bytes:
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).digest()


def _refuse(problem: str) -> InvalidRequest:
    return InvalidRequest(
        problem,
        user_message="{problem}",
        next_action="Make one with `openssl rand -hex 24` and pass it by --token-file.",
        problem=problem,
    )


_ALGORITHMS = {"RSA": ["RS256"], "oct": ["HS256"]}
_LEEWAY_S = 30
"""Tolerated difference between the clocks of issuer and server."""
_MIN_SECRET_BYTES = 32
"""The size of an HS256 digest; RFC 7518 requires at least as much."""


@dataclass(frozen=True, slots=True)
class Issuer:
    """Who signs tokens, and the claims they must carry."""

    keys: Path
    """A key set (JWKS), so that keys can be rotated one at a time by `kid`."""
    issuer: str
    audience: str


class Keyring(Tokens):
    """Looks a token up in all sources; a changed file takes effect at once."""

    def __init__(self, tokens: Tokens, users: Users, issuer: Issuer | None = None) -> None:
        super().__init__()
        self._tokens = tokens
        self._keys = users
        self._issuer = issuer
        self._set: tuple[float, PyJWKSet] | None = None
        if issuer:
            self._load(issuer)  # an unreadable key set is an error at start-up

    def __bool__(self) -> bool:
        return bool(self._tokens or self._issuer or self._keys)

    def find_user(self, token: str) -> str | None:
        """The user of a token, or None."""
        user = self._tokens.find_user(token) or self._keys.find_user(token)
        if user is None and self._issuer and token.count(".") == 2:
            user = self._read_signed(self._issuer, token)
        return user

    def _read_signed(self, issuer: Issuer, token: str) -> str | None:
        import jwt

        try:
            head = jwt.get_unverified_header(token)
            key = self._find_key(issuer, head.get("kid"))
            if key is None:
                return None
            claims: Json = jwt.decode(
                token,
                key.key,
                algorithms=_ALGORITHMS[str(key.key_type)],
                audience=issuer.audience,
                issuer=issuer.issuer,
                leeway=_LEEWAY_S,
                options={"require": ["exp", "iat", "sub", "iss", "aud"]},
            )
        except (jwt.PyJWTError, ValueError, KeyError, TypeError):
            return None
        user = claims["sub"]
        if not isinstance(user, str) or not USER_NAME.fullmatch(user):
            return None
        return None if self._keys.is_shut_out(user, int(claims["iat"]) * 1000) else user

    def _find_key(self, issuer: Issuer, kid: str | None) -> Any:
        keys = self._load(issuer).keys
        if kid is None:
            return keys[0] if len(keys) == 1 else None
        return next((key for key in keys if key.key_id == kid), None)

    def _load(self, issuer: Issuer) -> PyJWKSet:
        from jwt import PyJWKSet, PyJWTError

        try:
            stamp = issuer.keys.stat().st_mtime_ns
            if self._set is None or self._set[0] != stamp:
                rows = json.loads(issuer.keys.read_text("utf-8"))
                found = PyJWKSet.from_dict(rows)
                for key in found.keys:
                    if str(key.key_type) not in _ALGORITHMS:
                        raise ValueError(f"a key of type {key.key_type}")
                    if key.key_type == "oct" and len(key.key) < _MIN_SECRET_BYTES:
                        raise ValueError(f"a secret of less than {_MIN_SECRET_BYTES} bytes")
                self._set = (stamp, found)
        except (OSError, ValueError, KeyError, TypeError, AttributeError, PyJWTError) as error:
            if self._set is not None:
                return self._set[1]  # keep the old keys while the file is being written
            raise InvalidRequest(
                f"{issuer.keys}: {type(error).__name__}: {error}",
                user_message="The key set of SONDE_JWT_KEYS cannot be used.",
                next_action="Pass a JWKS file with RSA keys or secrets of at least 32 bytes.",
            ) from error
        return self._set[1]
