"""One server with two users, for every test of what they see of each other."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.users.site import Site, User
from tests.web.conftest import Server

from .site import COLLECTION, MARK


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory) -> Site:
    """Anna and bert have keys and a folder each; anna has knowledge, and a collection of it was
    shared with her."""
    site = Site(tmp_path_factory.mktemp("users"))
    site.add("anna", "bert")
    note = site.folder / "anna" / "note.md"
    note.write_text(f"# {MARK} plans\n\nA {MARK} that only anna may read.\n")
    site.run("knowledge", "import", str(note), "--user", "anna")
    manual = site.folder / "manual.md"
    manual.write_text(f"# {MARK} manual\n\nHow anna may turn the {MARK}.\n")
    site.run("knowledge", "import", str(manual), "--user", COLLECTION)
    site.run("users", "share", "anna", "--knowledge", COLLECTION)
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
