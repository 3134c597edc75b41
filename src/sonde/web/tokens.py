"""Tokens: who may use a server that others can reach, and as which user."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from pathlib import Path

from sonde.errors import InvalidRequest
from sonde.stores.users import USER_NAME
from sonde.types import LOCAL

SHORTEST = 16


class Tokens:
    """The tokens that were given out; only their digests are kept."""

    def __init__(self, pairs: Iterable[tuple[str, str]] = ()) -> None:
        self._users = {_digest(token): user for user, token in pairs}

    def __bool__(self) -> bool:
        return bool(self._users)

    def find_user(self, token: str) -> str | None:
        """The user that a token stands for; how long it takes tells nothing about the token."""
        return self._users.get(_digest(token))


def load_tokens(token: str | None, path: Path | None) -> Tokens:
    """The token given and those of a file: one a line, a user's name before it if not `local`."""
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
        if len(secret) < SHORTEST:
            raise _refuse(f"A token must have at least {SHORTEST} characters.")
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
