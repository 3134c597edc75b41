"""Which repositories of a shared index users and groups see, as the operator's file says."""

from __future__ import annotations

import logging
import tomllib
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path

from sonde.errors import InvalidRequest
from sonde.types import Json

_Rules = Mapping[str, Mapping[str, list[str]]]


@dataclass(frozen=True, slots=True)
class ProviderSettings:
    """An OpenID Connect provider, and what its tokens say."""

    issuer: str = ""
    client: str = ""
    secret_variable: str = ""
    """The environment variable that holds the client's secret; empty for a public client."""
    user_claim: str = "email"
    groups_claim: str = ""


log = logging.getLogger(__name__)


class RepositoryAccess:
    """The rules in one file (docs/operating.md), which is read again whenever it changes; without
    one, nobody is let in but the operator."""

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._stamp: tuple[int, int] | None = None
        self._rules: _Rules = {}
        self.provider: ProviderSettings | None = None
        """By which people sign in; read once."""
        self._refresh()

    def allows(self, user: str, groups: Collection[str], repository: str) -> bool:
        """Whether a user, or a member of these groups, may see a repository."""
        self._refresh()
        users, teams = self._rules.get("users", {}), self._rules.get("groups", {})
        patterns = [*self._rules.get("all", {}).get("", ()), *users.get(user.lower(), ())]
        patterns += [pattern for group in groups for pattern in teams.get(group.lower(), ())]
        return any(fnmatchcase(repository.lower(), pattern.lower()) for pattern in patterns)

    def _refresh(self) -> None:
        """Read the file if it changed; rules that cannot be read replace none."""
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
