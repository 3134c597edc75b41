"""Sign-in by OpenID Connect: the authorization code flow with PKCE, and checks of the tokens.

The server keeps no state: what must be remembered is sealed in cookies, so any server with the same
signing key can continue.
"""

from __future__ import annotations

import base64
import hashlib
import json
import logging
import secrets
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import urlencode, urlsplit

from sonde.errors import InvalidRequest, TokenRequired
from sonde.paging.cursor import BrokenSealError, seal, unseal
from sonde.stores.users import EVERYONE, USER_NAME, ProviderSettings
from sonde.types import LOCAL, Json

if TYPE_CHECKING:
    from jwt import PyJWK, PyJWKClient

STEP_S = 600  # to sign in at the provider: its own page may ask for a second factor
SESSION_S = 12 * 3600  # a working day; the provider decides again on the next
SESSION_PREFIX = "oidc."  # of cookies that hold an identity themselves
_TIMEOUT_S = 5.0  # of one request to the provider
_RETRY_S = 30.0  # how often it is asked in vain at most
_MAX_BYTES = 1 << 20  # of its answers: documents of a few kilobytes
_FRESH_S = 3600.0  # its addresses and keys are looked up again after an hour
_LEEWAY_S = 30  # tolerated difference between its clock and ours
_MAX_GROUP_CHARS = 2_000  # of all groups, in a cookie of 4 kB
_ALGORITHMS = {"RSA": "RS256", "EC": "ES256"}  # by type of key: a token does not choose
_STEP, _SESSION = "oidc step", "oidc session"  # purposes of what is sealed

log = logging.getLogger(__name__)


class Person(NamedTuple):
    """A person as the provider identifies them."""

    user: str
    groups: tuple[str, ...] = ()
    since: int = 0
    """When the provider said so, in epoch seconds; 0 if it does not matter."""


def decode_token(token: str, key: PyJWK, algorithm: str, audience: str, issuer: str) -> Json:
    """The claims of a signed token, once its signature, times, audience and issuer are checked."""
    import jwt

    claims: Json = jwt.decode(
        token, key.key, algorithms=[algorithm], audience=audience, issuer=issuer, leeway=_LEEWAY_S,
        options={"require": ["exp", "iat", "sub", "iss", "aud"]},
    )  # fmt: skip
    return claims


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *_args: Any, **_options: Any) -> None:
        """Follow no redirects, which would leak a secret."""


class Provider:
    """One OpenID Connect provider."""

    def __init__(self, settings: ProviderSettings, secret: str, key: bytes) -> None:
        self._settings, self._secret, self._key = settings, secret, key
        self._guard = threading.Lock()
        self._found: tuple[float, Json, PyJWKClient] | None = None
        self._asked_at = float("-inf")  # when it was last asked in vain, or for an unknown key
        self._opener = urllib.request.build_opener(_NoRedirects)
        parts = urlsplit(settings.issuer)
        self.name = parts.hostname or ""
        is_here = self.name in ("localhost", "127.0.0.1", "::1")
        if not self.name or not settings.client or (parts.scheme != "https" and not is_here):
            raise InvalidRequest(
                f"issuer {settings.issuer!r}, client {settings.client!r}",
                user_message="The OpenID Connect provider is not set up.",
                next_action="Write `issuer`, an https address, and `client` in the access file.",
            )

    def begin(self, back: str, way: str) -> tuple[str, str]:
        """The address to sign in at, and the cookie to return with."""
        state, nonce, verifier = (secrets.token_urlsafe(32) for _ in range(3))
        digest = hashlib.sha256(verifier.encode()).digest()
        asked = {
            "response_type": "code", "client_id": self._settings.client, "redirect_uri": back,
            "scope": "openid email profile", "state": state, "nonce": nonce,
            "code_challenge": base64.urlsafe_b64encode(digest).decode().rstrip("="),
            "code_challenge_method": "S256",
        }  # fmt: skip
        address = str(self._discover()[0]["authorization_endpoint"])
        step = [int(time.time()) + STEP_S, state, nonce, verifier, way]
        joint = "&" if "?" in address else "?"
        return f"{address}{joint}{urlencode(asked)}", seal(step, _STEP, self._key)

    def finish(self, given: Mapping[str, str], cookie: str, back: str) -> tuple[str, str]:
        """The session of a returning browser, and the page it asked for."""
        try:
            expires, state, nonce, verifier, way = unseal(cookie, _STEP, self._key)
        except BrokenSealError as error:
            raise _refuse("the cookie of the first step is missing") from error
        if time.time() >= expires or not secrets.compare_digest(given.get("state", ""), state):
            raise _refuse("the step is too old, or another one")
        if "code" not in given:
            raise _refuse(f"the provider said {given.get('error', 'nothing')[:80]}")
        form = {"grant_type": "authorization_code", "code": given["code"], "redirect_uri": back,
                "client_id": self._settings.client, "code_verifier": verifier}  # fmt: skip
        answer = self._ask(str(self._discover()[0]["token_endpoint"]), form)
        identity = self.read_token(str(answer.get("id_token", "")), nonce)
        if identity is None:
            raise _refuse("the identity token is not valid, or names no user of this server")
        now = int(time.time())
        session = [now + SESSION_S, now, identity.user, identity.groups]
        return SESSION_PREFIX + seal(session, _SESSION, self._key), str(way)

    def read_session(self, cookie: str) -> Person | None:
        """The person of a session; None if it is not valid."""
        try:
            text = cookie.removeprefix(SESSION_PREFIX)
            expires, began, user, groups = unseal(text, _SESSION, self._key)
        except BrokenSealError:
            return None
        return Person(user, tuple(groups), began) if time.time() < expires else None

    def read_token(self, token: str, nonce: str | None = None) -> Person | None:
        """The person of a provider's token for this client; None if it is not valid."""
        import jwt

        wanted = self._settings
        try:
            key = self._find_key(jwt.get_unverified_header(token).get("kid"))
            algorithm = _ALGORITHMS[str(key.key_type)]
            claims = decode_token(token, key, algorithm, wanted.client, wanted.issuer)
        except (jwt.PyJWTError, TokenRequired, KeyError, TypeError, ValueError) as error:
            log.info("a token was refused: %s", error)
            return None
        several = isinstance(claims["aud"], list) and len(claims["aud"]) > 1
        if several and claims.get("azp") != wanted.client:
            return None
        if nonce is not None and claims.get("nonce") != nonce:
            return None
        return self._identify(claims)

    def _identify(self, claims: Json) -> Person | None:
        claim = self._settings.user_claim
        user = str(claims.get(claim)).lower() if claims.get(claim) else ""
        if claim == "email" and str(claims.get("email_verified")).lower() == "false":
            return None  # some providers spell it as text
        if not USER_NAME.fullmatch(user) or user in (LOCAL, EVERYONE):
            log.warning("the provider names a user that cannot be one: %.80r", user)
            return None
        groups = claims.get(self._settings.groups_claim) if self._settings.groups_claim else ()
        kept, room = [], _MAX_GROUP_CHARS
        for group in groups if isinstance(groups, list | tuple) else ():
            room -= len(json.dumps(group)) + 1
            if isinstance(group, str) and room >= 0:
                kept.append(group)
        return Person(user, tuple(kept), int(claims["iat"]))

    def _find_key(self, kid: str | None) -> PyJWK:
        """The key of this name, or the only one; forged tokens cause few requests."""
        keys, now = self._discover()[1], time.monotonic()
        found = [key for key in keys.get_signing_keys() if kid in (None, key.key_id)]
        if not found and now - self._asked_at > _RETRY_S:
            self._asked_at = now
            found = [key for key in keys.get_signing_keys(refresh=True) if key.key_id == kid]
        (key,) = found
        return key

    def _discover(self) -> tuple[Json, PyJWKClient]:
        """The provider's addresses and keys, cached while it is unreachable."""
        from jwt import PyJWKClient

        with self._guard:
            now = time.monotonic()
            if self._found and now - self._found[0] < _FRESH_S:
                return self._found[1:]
            if now - self._asked_at < _RETRY_S and not self._found:
                raise _refuse("the provider could not be reached just now")
            try:
                issuer = self._settings.issuer
                about = self._ask(f"{issuer.rstrip('/')}/.well-known/openid-configuration")
                if about["issuer"] != issuer:
                    raise ValueError(f"it is {about['issuer']!r}")
                keys = PyJWKClient(self._check(str(about["jwks_uri"])), timeout=_TIMEOUT_S)
            except (TokenRequired, KeyError, ValueError) as error:
                self._asked_at = now
                if self._found:
                    log.warning("the provider cannot be looked up: %s", error)
                    return self._found[1:]
                raise _refuse(f"the provider cannot be used: {error}") from error
            self._found = (now, about, keys)
            return about, keys

    def _check(self, address: str) -> str:
        """Check that an address named by the provider is as safe as its own."""
        if urlsplit(address).scheme not in ("https", urlsplit(self._settings.issuer).scheme):
            raise _refuse(f"{address[:80]} is no https address")
        return address

    def _ask(self, address: str, form: Mapping[str, str] | None = None) -> Json:
        """Fetch a JSON document from the provider; a form is sent with the client's secret."""
        headers = {"accept": "application/json"}
        request = urllib.request.Request(self._check(address), headers=headers)  # noqa: S310
        if form is not None:
            request.data = urlencode(form).encode()
            if self._secret:
                pair = f"{self._settings.client}:{self._secret}".encode()
                request.add_header("authorization", f"Basic {base64.b64encode(pair).decode()}")
        try:
            with self._opener.open(request, timeout=_TIMEOUT_S) as answer:
                found = json.loads(answer.read(_MAX_BYTES))
        except (OSError, ValueError, urllib.error.URLError) as error:
            raise _refuse(f"{urlsplit(address).hostname}: {error}") from error
        if not isinstance(found, dict):
            raise _refuse("the provider did not answer with an object")
        return found


def _refuse(problem: str) -> TokenRequired:
    return TokenRequired(
        problem,
        user_message=f"Signing in failed: {problem}.",
        next_action="Try again. If it keeps failing, ask the operator of this server.",
    )
