"""Addresses: listed, completed, read under the policy that searches have, and equal over HTTP."""

from __future__ import annotations

import http.client
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

import pytest
from mcp import Client, MCPError
from mcp.types import ResourceTemplateReference
from tests.mcp.conftest import HttpServer, start_product

pytestmark = pytest.mark.anyio
SECRET = "AKIA" + "IOSFODNN7EXAMPL" + "Q"


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project with what may be read and what may not, beside what is outside."""
    place = tmp_path_factory.mktemp("place")
    root = place / "project"
    (root / ".git").mkdir(parents=True)
    (root / "src").mkdir()
    (root / "src" / "a b.py").write_text(
        "def first():\n    return 1\n\n\ndef second():\n    return 2\n"
    )
    (root / "src" / "c.py").write_text("x = 1\n")
    (root / "page.html").write_text("<script>alert(1)</script>\n")
    (root / ".env").write_text(f"KEY={SECRET}\n")
    (root / "keys.py").write_text(f'KEY = "{SECRET}"\n')
    (root / "keys.json").write_text(f'{{"key": "{SECRET}"}}\n')
    (root / ".gitignore").write_text("ignored.py\n")
    (root / "ignored.py").write_text("secret = 1\n")
    (root / "link.py").symlink_to(place / "outside.txt")
    (place / "outside.txt").write_text("outside\n")
    (place / "other").mkdir()
    (place / "other" / "go.mod").write_text("module other\n")
    return place


@pytest.fixture
def connect(surface: tuple[str, str], place: Path) -> Iterator[Callable[..., Client]]:
    yield from start_product(surface, place / "project", place / "home")


def first_text(result: Any) -> str:
    (content,) = result.contents
    return str(content.text)


async def test_files_chunks_and_pages_are_read_by_their_address(connect: Any) -> None:
    async with connect() as client:
        listed = [one.uri for one in (await client.list_resources()).resources]
        assert "sonde://projects" in listed
        templates = {t.name: t for t in (await client.list_resource_templates()).resource_templates}
        assert templates["files"].uri_template == "sonde://files/{+path}{?lines,project}"
        assert {"files", "chunks", "results"} <= set(templates)

        text = await client.read_resource("sonde://files/src/a%20b.py?lines=5-6")
        assert first_text(text) == "def second():\n    return 2\n"
        assert text.contents[0].mime_type == "text/plain"

        asked = await client.call_tool("create_index")
        if asked.is_error:
            token = asked.structured_content["nextAction"].split("'")[1]
            await client.call_tool("create_index", {"confirm": token})
        chunks = json.loads(
            first_text(await client.read_resource("sonde://chunks/src/a%20b.py?line=5"))
        )
        assert len(chunks["chunks"]) == 1
        assert "def second" in chunks["chunks"][0]["text"]
        projects = json.loads(first_text(await client.read_resource("sonde://projects")))
        assert projects["totalProjects"] == 1

        page = await client.call_tool("regex_search", {"pattern": "return", "page_size": 1})
        cursor = page.structured_content["pagination"]["next_cursor"]
        shown = json.loads(first_text(await client.read_resource(f"sonde://results/{cursor}")))
        assert shown["results"]["matches"][0]["match"]["line_number"] == 6
        assert shown["pagination"]["current_page"] == 2


HIDDEN = [
    "files/.env",
    "files/keys.json",
    "files/ignored.py",
    "files/link.py",
    "files/../outside.txt",
    "files/%2e%2e/outside.txt",
    "files/src/..%2f..%2foutside.txt",
    "files//etc/hostname",
    "files/missing.py",
    "files/src",
    "files/outside.txt?project=..",
    "files/go.mod?project=../other",
    "chunks/.env",
    "results/forged",
    "nothing",
]


@pytest.mark.parametrize("surface", ["http-legacy", "stdio-auto"], indirect=True)
async def test_what_may_not_be_seen_is_refused(connect: Any, surface: Any) -> None:
    async with connect() as client:
        for address in HIDDEN:
            with pytest.raises(MCPError) as refused:
                await client.read_resource(f"sonde://{address}")
            bad_request = address.startswith("results/")
            assert refused.value.code == (-32602 if surface[1] == "auto" or bad_request else -32002)
            told = refused.value.data
            assert set(told) == {"code", "userMessage", "developerMessage", "nextAction"}
            assert SECRET not in json.dumps(told)


async def test_paths_are_completed(connect: Any) -> None:
    async with connect() as client:
        ref = ResourceTemplateReference(
            type="ref/resource", uri="sonde://files/{+path}{?lines,project}"
        )

        async def complete(beginning: str) -> list[str]:
            result = await client.complete(ref, {"name": "path", "value": beginning})
            return list(result.completion.values)

        assert await complete("src/") == ["src/a b.py", "src/c.py"]
        assert await complete(".e") == []
        assert await complete("ign") == []
        assert await complete("../") == []


def test_over_http_the_same_addresses_open(place: Path) -> None:
    server: HttpServer
    for server in start_product(("server", ""), place / "project", place / "home"):
        connection = http.client.HTTPConnection(urlsplit(server.url).netloc, timeout=30)
        for address, status, found in (
            ("files/src/a%20b.py?lines=1", 200, b"def first():\n"),
            ("files/page.html", 200, b"<script>"),
            ("files/keys.json", 403, b"FILE_NOT_INDEXABLE"),
            ("files/keys.py", 200, b"[AWS access key left out]\n"),
            ("files/.env", 403, b"FILE_NOT_INDEXABLE"),
            ("files/missing.py", 404, b"FILE_NOT_FOUND"),
            ("results/" + quote("forged"), 400, b"BAD_CURSOR"),
        ):
            key = {"Authorization": f"Bearer {server.key}"}
            connection.request("GET", f"/api/{address}", headers=key)
            answer = connection.getresponse()
            body = answer.read()
            assert (answer.status, found in body) == (status, True), (address, body)
            assert not answer.headers["content-type"].startswith("text/html")
            assert SECRET.encode() not in body
        connection.close()


@pytest.mark.parametrize("surface", ["stdio-auto"], indirect=True)
async def test_an_address_that_is_none_is_not_found(connect: Any, surface: Any) -> None:
    async with connect() as client:
        for address in ("sonde://[", "sonde://projects]["):
            with pytest.raises(MCPError) as refused:
                await client.read_resource(address)
            assert refused.value.code == -32602, address
            assert refused.value.data["code"] == "NO_SUCH_ADDRESS"
