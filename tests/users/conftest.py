"""One server with two users, for every test of what they see of each other."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.users.site import Site, User
from tests.web.conftest import Server

from .site import MARK


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory) -> Site:
    """Anna and bert have keys and a folder each; anna has knowledge."""
    site = Site(tmp_path_factory.mktemp("users"))
    site.add("anna", "bert")
    note = site.folder / "anna" / "note.md"
    note.write_text(f"# {MARK} plans\n\nA {MARK} that only anna may read.\n")
    site.run("knowledge", "import", str(note), "--user", "anna")
    return site


@pytest.fixture(scope="session")
def served(site: Site) -> Iterator[Server]:
    server = site.serve()
    yield server
    server.process.kill()
    server.process.communicate()


@pytest.fixture
def anna(site: Site, served: Server) -> User:
    return User(served, site.keys["anna"])


@pytest.fixture
def bert(site: Site, served: Server) -> User:
    return User(served, site.keys["bert"])
