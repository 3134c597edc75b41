"""Identification of callers: tokens from a file, keys of users, and signed tokens (JWT)."""

from __future__ import annotations

import hmac
import json
import secrets
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sonde.errors import InvalidRequest
from sonde.paging.cursor import BrokenSealError, seal, unseal
from sonde.stores.users import USER_NAME, Users, digest_token
from sonde.types import LOCAL
from sonde.web.oidc import SESSION_PREFIX, Person, Provider, decode_token

if TYPE_CHECKING:
    from jwt import PyJWKSet


MIN_TOKEN_CHARS = 16
"""The minimum length of a token, so that it cannot be guessed."""


def load_tokens(token: str | None, path: Path | None) -> list[tuple[str, str]]:
    """Users and tokens: the one given, and those in a file of `TOKEN` or `USER TOKEN` lines."""
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
    return pairs


def _refuse(problem: str) -> InvalidRequest:
    advice = "Make one with `openssl rand -hex 24` and pass it by --token-file."
    return InvalidRequest(problem, user_message=problem, next_action=advice)


CODE_TTL_S = 600
"""How long a login link is valid."""
SESSION_AGE_S = 30 * 24 * 3600
"""How long a session lasts: a month, so that a lost browser is signed out eventually."""
MAX_BROWSERS = 1_000
"""Sessions kept; the least recently used are signed out first."""
_SIGN_IN = "sign in"
"""The purpose that login codes are sealed with."""


def make_login_code(signing_key: bytes, clock: Callable[[], float] = time.time) -> str:
    """A code that signs one browser in as the operator, once."""
    expires = int(clock()) + CODE_TTL_S
    return seal([expires, secrets.token_hex(8)], _SIGN_IN, signing_key)


class BrowserSessions:
    """Sessions of signed-in browsers, in memory; a cookie holds only a session name."""

    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._tokens: OrderedDict[str, tuple[str, float]] = OrderedDict()
        self._used: set[str] = set()
        self._began = int(clock())

    def open(self, token: str) -> str:
        """Open a session for a token, valid as long as the token. Returns its name."""
        name = secrets.token_urlsafe(32)
        with self._lock:
            self._tokens[name] = (token, self._clock() + SESSION_AGE_S)
            while len(self._tokens) > MAX_BROWSERS:
                self._tokens.popitem(last=False)
        return name

    def find_token(self, name: str) -> str:
        """The token of a session; empty if there is none."""
        if name.startswith(SESSION_PREFIX):
            return name  # it is one itself, valid on several servers
        with self._lock:
            token, expires = self._tokens.get(name, ("", 0.0))
            if self._clock() >= expires:
                self._tokens.pop(name, None)
                return ""
            self._tokens.move_to_end(name)
            return token

    def end(self, name: str) -> None:
        """Sign a browser out."""
        with self._lock:
            self._tokens.pop(name, None)

    def redeem(self, code: str, tokens: Keyring) -> str:
        """Open a session with a login code. Returns its name; empty if the code is not valid.

        A code from before this server began is refused: the server before it may have used it.
        """
        if not tokens.signing_key:
            return ""
        try:
            expires, nonce = unseal(code, _SIGN_IN, tokens.signing_key)
        except BrokenSealError:
            return ""
        now = self._clock()
        with self._lock:
            if nonce in self._used or not self._began <= expires - CODE_TTL_S <= now < expires:
                return ""
            self._used.add(nonce)
        return self.open(tokens.own_key)


_ALGORITHMS = {"RSA": "RS256", "oct": "HS256"}
_MIN_SECRET_BYTES = 32
"""The size of an HS256 digest; RFC 7518 requires at least as much."""


@dataclass(frozen=True, slots=True)
class Issuer:
    """The issuer of signed tokens, and the claims it must set."""

    keys: Path
    """A key set (JWKS), so that keys can be rotated one at a time by `kid`."""
    issuer: str
    audience: str


class Keyring:
    """Identifies the user of a token: given tokens (kept as digests), keys of users, signed tokens,
    tokens of a provider. A changed file takes effect at once."""

    def __init__(
        self,
        tokens: Iterable[tuple[str, str]] = (),
        users: Users | None = None,
        issuer: Issuer | None = None,
        signing_key: bytes | None = None,
        provider: Provider | None = None,
    ) -> None:
        self.provider = provider
        """The OpenID Connect provider that people may sign in with."""
        self.signing_key = signing_key
        """The installation's signing key; None if others can connect, so its key is not valid."""
        self._given = {digest_token(token): user for user, token in tokens}
        self._users = users
        self._issuer = issuer
        self._set: tuple[float, PyJWKSet] | None = None
        if issuer:
            self._load(issuer)  # an unreadable key set is an error at start-up

    def __bool__(self) -> bool:
        return bool(self._given or self._issuer or self._users or self.provider)

    def find_user(self, token: str) -> str | None:
        """The user of a token, or None; the time it takes reveals nothing about other tokens."""
        own = self.own_key
        if own and hmac.compare_digest(digest_token(token), digest_token(own)):
            return LOCAL
        user = self._given.get(digest_token(token))
        if user is None and self._users is not None:
            user = self._users.find_user(token)
        if user is None and self._issuer and token.count(".") == 2:
            user = self._read_signed(self._issuer, token)
        return user

    def identify(self, token: str) -> Person | None:
        """The user of a token from any source, with the groups that the provider reports."""
        user = self.find_user(token)
        found = Person(user) if user is not None else None
        if found is None and self.provider:
            is_session = token.startswith(SESSION_PREFIX)
            read = self.provider.read_session if is_session else self.provider.read_token
            found = read(token) if token.count(".") == 2 else None
        is_out = found and found.since and self._is_shut_out(found.user, found.since)
        return None if is_out else found

    def _is_shut_out(self, user: str, since_s: int) -> bool:
        return self._users is not None and self._users.is_shut_out(user, since_s * 1000)

    @property
    def own_key(self) -> str:
        """The key of the installation itself; empty where it is not valid."""
        if not self.signing_key or self._users is None:
            return ""
        return self._users.make_own_key(self.signing_key)

    def _read_signed(self, issuer: Issuer, token: str) -> str | None:
        import jwt

        try:
            head = jwt.get_unverified_header(token)
            key = self._find_key(issuer, head.get("kid"))
            if key is None:
                return None
            algorithm = _ALGORITHMS[str(key.key_type)]
            claims = decode_token(token, key, algorithm, issuer.audience, issuer.issuer)
        except (jwt.PyJWTError, ValueError, KeyError, TypeError):
            return None
        user = claims["sub"]
        if not isinstance(user, str) or not USER_NAME.fullmatch(user):
            return None
        return None if self._is_shut_out(user, int(claims["iat"])) else user

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
