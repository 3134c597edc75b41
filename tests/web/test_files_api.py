"""SHELL's routes over HTTP: every address, every link, ranges, events and who may see what."""

from __future__ import annotations

import base64
import json
import os
import random
import re
import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from tests.waiting import wait_until

from .conftest import TOKENS, Server, allow_everyone, bearer

JSON = {"Content-Type": "application/json"}
MATERIAL = base64.b64encode(random.Random(7).randbytes(600)).decode()
KEY = f"-----BEGIN RSA PRIVATE KEY-----\n{MATERIAL}\n-----END RSA PRIVATE KEY-----\n"
HANDLES = re.compile(r"(?<=/)(indexes|nodes|jobs|queries|resource-sets)/[^/]+")


@pytest.fixture(scope="module")
def disk(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("served") / "disk"
    (root / "src" / "deep").mkdir(parents=True)
    (root / "empty").mkdir()
    (root / "src" / "main.py").write_text("print('hello')\n" * 10)
    (root / "src" / "copy.py").write_text("print('hello')\n" * 10)
    (root / "src" / "deep" / "bytes.bin").write_bytes(bytes(range(256)) * 40)
    (root / "pixel.png").write_bytes(b"\x89PNG\r\n\x1a\n" + b"\0" * 20)
    (root / "wörter.txt").write_text("ü" * 40_000)
    (root / "odd\udcff").write_text("x")
    (root / ".env").write_text("TOKEN=x\n")
    (root / "notes.txt").write_text(KEY)
    (root / "link").symlink_to("/etc/passwd")
    (root / "twice.txt").write_text("x")
    os.link(root / "twice.txt", root / "twice again.txt")
    for number in range(60):
        (root / "src" / f"file {number:02}").write_text("x" * number)
    return root


@pytest.fixture(scope="module")
def server(
    start: Callable[..., Server], disk: Path, tmp_path_factory: pytest.TempPathFactory
) -> Server:
    home = tmp_path_factory.mktemp("home")
    tokens = home / "tokens"
    tokens.write_text("".join(f"{user} {token}\n" for user, token in TOKENS.items()))
    environ = {
        **os.environ, "SONDE_HOME": str(home), "SONDE_FILE_ROOTS": str(disk),
        "SONDE_TOKEN_FILE": str(tokens), "SONDE_EMBEDDING": "none", "SONDE_RATE_LIMIT": "0",
    }  # fmt: skip
    allow_everyone(home, disk)
    command = ("-m", "sonde.cli.main", "serve", "--port", "0", "--json")
    return start(*command, env=environ, cwd=disk)


class Api:
    """Requests of one user."""

    def __init__(self, server: Server, user: str) -> None:
        self.server = server
        self.user = user

    def ask(
        self, path: str, method: str = "GET", body: Any = None, **headers: str
    ) -> tuple[int, dict[str, str], bytes]:
        data = json.dumps(body).encode() if body is not None else None
        path = path.removeprefix(self.server.url)
        return self.server.ask(path, method, data, {**bearer(self.user), **JSON, **headers})

    def read(self, path: str, method: str = "GET", body: Any = None, status: int = 200) -> Any:
        found, _, data = self.ask(path, method, body)
        assert found == status, (path, found, data)
        return json.loads(data)


@pytest.fixture(scope="module")
def anna(server: Server) -> Api:
    return Api(server, "anna")


@pytest.fixture(scope="module")
def bert(server: Server) -> Api:
    return Api(server, "bert")


@pytest.fixture(scope="module")
def index(anna: Api, disk: Path) -> str:
    made = anna.read("/api/indexes", "POST", {"root": str(disk)}, 202)
    wait_until(lambda: anna.read(made["statusUrl"])["status"] != "running", "scanned")
    handle: str = made["indexId"]
    return handle


def find(api: Api, index: str, path: str) -> Any:
    return api.read(f"/api/indexes/{index}/detail?path={path}")


def follow_pages(api: Api, url: str, key: str) -> Iterator[Any]:
    following: str | None = url
    while following:
        page = api.read(following)
        yield from page[key]
        following = page["nextPageUrl"]


@pytest.mark.row("002-60", "002-70")
def test_a_listing_pages_by_cursor_in_every_order(anna: Api, index: str, disk: Path) -> None:
    parent = find(anna, index, "src")["nodeId"]
    names = {path.name for path in (disk / "src").iterdir()}
    for sort in ("name", "size", "modified"):
        url = f"/api/indexes/{index}/tree?parent={parent}&limit=7&sort={sort}"
        rows = list(follow_pages(anna, url, "entries"))
        assert len(rows) == len(names)
        assert {row["name"] for row in rows} == names
    status, _, body = anna.ask(f"/api/indexes/{index}/tree?parent={parent}&cursor=forged")
    assert (status, json.loads(body)["code"]) == (400, "BAD_CURSOR")


def test_answers_have_tags_and_are_not_sent_again(anna: Api, index: str) -> None:
    status, headers, body = anna.ask(f"/api/indexes/{index}/tree")
    assert status == 200
    again, _, nothing = anna.ask(f"/api/indexes/{index}/tree", **{"If-None-Match": headers["etag"]})
    assert (again, nothing) == (304, b"")
    assert body


@pytest.mark.row("002-4", "002-12", "002-15", "002-30", "002-48", "002-61", "002-63", "002-64")
def test_every_link_of_every_answer_opens(anna: Api, index: str) -> None:
    node = find(anna, index, "src/main.py")["nodeId"]
    made = anna.read("/api/resource-sets", "POST", {"nodeIds": [node], "name": "mine"}, 201)
    query = anna.read("/api/queries", "POST", {"indexId": index, "filter": "ext:py"}, 201)
    anna.read(f"/api/queries/{query['queryId']}/run", "POST")
    anna.read(f"/api/resource-sets/{made['selectionId']}", "PATCH", {"add": [node]})
    waiting = [
        f"{anna.server.url}/api/{path}"
        for path in ("indexes", "jobs", "queries", "resource-sets", "projects")
    ]
    seen: set[str] = set()
    kinds: set[str] = set()
    refused = 0
    while waiting:
        url = waiting.pop()
        shape = HANDLES.sub(r"\1/*", urlsplit(url).path)
        if url in seen:
            continue
        seen.add(url)
        kinds.add(shape)
        status, headers, body = anna.ask(url)
        if status == 403:  # a file that holds a secret says so when it is opened, not before
            refused += 1
            continue
        assert status == 200, (url, status, body)
        if headers["content-type"].startswith("application/json"):
            found = re.findall(r'"((?:https?|sonde)://[^"]*)"', body.decode())
            assert not [link for link in found if link.startswith("sonde://")]
            waiting += found
    assert len(seen) > 300
    assert refused <= 3
    assert {
        "/api/indexes/*/tree", "/api/indexes/*/nodes/*", "/api/indexes/*/nodes/*/detail",
        "/api/indexes/*/nodes/*/history", "/api/indexes/*/nodes/*/download",
        "/api/indexes/*/nodes/*/preview", "/api/indexes/*/reports/largest", "/api/jobs/*",
        "/api/resource-sets/*/entries", "/api/queries/*", "/api/queries/*/run",
    } <= kinds  # fmt: skip


@pytest.mark.row("002-47", "002-62")
def test_a_download_is_the_file_and_any_part_of_it(anna: Api, index: str, disk: Path) -> None:
    whole = (disk / "src" / "deep" / "bytes.bin").read_bytes()
    url = find(anna, index, "src/deep/bytes.bin")["downloadUrl"]
    status, headers, body = anna.ask(url)
    assert (status, body) == (200, whole)
    assert headers["content-disposition"] == "attachment; filename*=UTF-8''bytes.bin"
    assert headers["x-content-type-options"] == "nosniff"
    size = len(whole)
    for asked, start, end in (
        ("0-0", 0, 1), ("5-9", 5, 10), (f"{size - 1}-", size - 1, size), ("-7", size - 7, size),
        (f"100-{size * 2}", 100, size), (f"-{size * 2}", 0, size),
    ):  # fmt: skip
        status, headers, body = anna.ask(url, Range=f"bytes={asked}")
        assert body == whole[start:end], asked
        if (start, end) != (0, size):
            assert status == 206
            assert headers["content-range"] == f"bytes {start}-{end - 1}/{size}"
    status, headers, _ = anna.ask(url, Range=f"bytes={size}-")
    assert (status, headers["content-range"]) == (416, f"bytes */{size}")
    for ignored in ("bytes=9-5", "lines=1-2", "bytes=0-1,3-4", "bytes=-"):
        assert anna.ask(url, Range=ignored)[0] == 200
    etag = anna.ask(url)[1]["etag"]
    assert anna.ask(url, **{"If-None-Match": etag})[0] == 304
    assert anna.ask(url, Range="bytes=0-0", **{"If-Range": '"old"'})[0] == 200
    status, headers, body = anna.ask(find(anna, index, "src/deep/bytes.bin")["downloadUrl"], "HEAD")
    assert (status, headers["content-length"], body) == (200, "10240", b"")


@pytest.mark.row("002-15")
def test_previews_are_text_pictures_or_a_dump(anna: Api, index: str) -> None:
    def preview(path: str) -> tuple[str, bytes]:
        status, headers, body = anna.ask(find(anna, index, path)["previewUrl"])
        assert status == 200
        return headers["content-type"], body

    assert preview("src/main.py") == ("text/plain; charset=utf-8", b"print('hello')\n" * 10)
    kind, words = preview("w%C3%B6rter.txt")
    assert kind.startswith("text/plain")
    assert set(words.decode()) == {"ü"}
    assert preview("pixel.png")[0] == "image/png"
    assert b"not text" in preview("src/deep/bytes.bin")[1]


@pytest.mark.row("002-62")
@pytest.mark.parametrize("name", [".env", "notes.txt", "link", "twice.txt", "empty"])
def test_no_secret_link_or_doubtful_file_is_ever_sent(anna: Api, index: str, name: str) -> None:
    detail = find(anna, index, name)
    address = f"/api/indexes/{index}/nodes/{detail['nodeId']}"
    assert name == "notes.txt" or "downloadUrl" not in detail
    for kind in ("download", "preview"):
        status, _, body = anna.ask(f"{address}/{kind}")
        assert status == 403, (name, kind, status, body)
        assert b"TOKEN" not in body
        assert b"PRIVATE" not in body


@pytest.mark.parametrize(
    "path",
    ["../../etc/passwd", "..%2f..%2fetc", "%00", "/etc/passwd", "src/../../..", "link", "nothing"],
)
def test_no_path_leads_out_of_the_tree(anna: Api, index: str, path: str) -> None:
    for route in ("detail", "tree"):
        status, _, body = anna.ask(f"/api/indexes/{index}/{route}?path={path}")
        if (path, route) != ("link", "detail"):
            assert status in (403, 404), (path, route, body)
        assert b"root:" not in body


@pytest.mark.row("002-71")
def test_nobody_sees_what_another_owns(anna: Api, bert: Api, index: str) -> None:
    node = find(anna, index, "src/main.py")
    made = anna.read("/api/resource-sets", "POST", {"nodeIds": [node["nodeId"]]}, 201)
    query = anna.read("/api/queries", "POST", {"indexId": index, "filter": "ext:py"}, 201)
    job = anna.read(f"/api/indexes/{index}")["job"]["jobId"]
    for path in (
        f"/api/indexes/{index}", f"/api/indexes/{index}/tree",
        f"/api/indexes/{index}/reports/largest",
        node["link"], node["downloadUrl"], node["previewUrl"], node["historyUrl"],
        made["entriesUrl"], f"/api/resource-sets/{made['selectionId']}", query["link"],
        query["runUrl"], f"/api/jobs/{job}", f"/api/jobs/{job}/events",
    ):  # fmt: skip
        status, _, body = bert.ask(path)
        assert (status, json.loads(body)["code"]) == (404, "HANDLE_NOT_FOUND"), path
    assert bert.read("/api/indexes") == {"indexes": []}
    assert bert.read("/api/resource-sets")["sets"] == []
    assert bert.read("/api/queries")["queries"] == []
    assert job not in {row["jobId"] for row in bert.read("/api/jobs")["jobs"]}
    status, _, _ = bert.ask(f"/api/resource-sets/{made['selectionId']}", "DELETE")
    assert status == 404
    assert anna.server.ask(f"/api/indexes/{index}")[0] == 401


@pytest.mark.row("002-20", "002-21", "002-52")
def test_sets_change_over_http_and_go_only_with_consent(anna: Api, index: str) -> None:
    nodes = [row["nodeId"] for row in anna.read(f"/api/indexes/{index}/tree?path=src")["entries"]]
    made = anna.read("/api/resource-sets", "POST", {"nodeIds": nodes[:30], "name": "many"}, 201)
    handle = made["selectionId"]
    entries = list(follow_pages(anna, f"/api/resource-sets/{handle}/entries?limit=7", "entries"))
    assert [row["nodeId"] for row in entries] == sorted(
        nodes[:30], key=lambda node: (len(node), node)
    )
    changed = anna.read(
        f"/api/resource-sets/{handle}", "PATCH", {"add": nodes[30:32], "remove": nodes[:5]}
    )
    assert changed["counts"]["entries"] == 27
    renamed = anna.read(f"/api/resource-sets/{handle}", "PATCH", {"name": "few"})
    assert (renamed["name"], renamed["counts"]) == ("few", changed["counts"])
    added = anna.read(f"/api/resource-sets/{handle}/entries", "POST", {"nodeIds": nodes[:1]})
    assert added["counts"]["entries"] == 28
    asked = anna.read(f"/api/resource-sets/{handle}", "DELETE", status=428)
    token = re.search(r"confirm='([^']+)'", asked["nextAction"])
    assert token
    anna.read(f"/api/resource-sets/{handle}?confirm={token[1]}", "DELETE")
    anna.read(f"/api/resource-sets/{handle}", status=404)


@pytest.mark.row("002-23", "002-24", "002-66")
def test_queries_show_their_filter_and_their_plan(anna: Api, index: str) -> None:
    ast = {"and": [{"field": "ext", "op": ":", "value": "py"},
                   {"not": {"field": "size", "op": ">", "value": 1 << 20}}]}  # fmt: skip
    made = anna.read("/api/queries", "POST", {"indexId": index, "ast": ast, "name": "small"}, 201)
    assert made["filter"] == "ext:py and not size>1MB"
    assert made["ast"] == ast
    told = anna.read(f"/api/queries/{made['queryId']}?format=explain")
    assert told["parameters"] == ["py", 1 << 20]
    assert "py" not in told["sql"]
    for method in ("GET", "POST"):
        assert anna.read(f"{made['runUrl']}?format=explain", method) == told
    assert told["lastExecutedAt"] is None, "a plan runs nothing"
    ran = anna.read(f"/api/queries/{made['queryId']}/run", "POST")
    assert ran["report"]["matches"] == 2
    assert anna.read(ran["link"])["link"] == ran["link"]
    assert anna.read(made["runUrl"])["selectionId"] == ran["selectionId"]
    status, _, body = anna.ask("/api/queries", "POST", {"indexId": index, "filter": "size>"})
    assert (status, json.loads(body)["code"]) == (400, "INVALID_PATTERN")


@pytest.mark.row("002-63", "002-65")
def test_reports_page_and_explain_themselves(anna: Api, index: str) -> None:
    rows = list(follow_pages(anna, f"/api/indexes/{index}/reports/largest?limit=9", "rows"))
    sizes = [row["size"] for row in rows]
    assert sizes == sorted(sizes, reverse=True)
    assert rows[0]["path"] == "wörter.txt"
    told = anna.read(f"/api/indexes/{index}/reports/largest?format=explain")
    assert told["plan"]
    assert anna.ask(f"/api/indexes/{index}/reports/nothing")[0] == 400


@pytest.mark.row("002-16", "002-17", "002-18")
@pytest.mark.parametrize("address", ["/api/jobs/{}/events", "/api/jobs/{}"])
def test_a_job_is_followed_live_to_its_end(anna: Api, index: str, disk: Path, address: str) -> None:
    made = anna.read("/api/indexes", "POST", {"root": str(disk)}, 202)
    assert made["indexId"] == index
    status, headers, body = anna.ask(address.format(made["jobId"]), Accept="text/event-stream")
    assert status == 200
    assert headers["content-type"].startswith("text/event-stream")
    events = [block.split("\n") for block in body.decode().split("\n\n") if block]
    name, data = events[-1]
    assert name == "event: end"
    told = json.loads(data.removeprefix("data: "))
    assert told == anna.read(made["statusUrl"])
    assert told["status"] == "done"
    progress = anna.read(made["progressUrl"])
    assert progress["report"] == told["report"]
    assert anna.ask(f"/api/jobs/{made['jobId']}", "DELETE")[0] == 400


@pytest.mark.row("002-4", "002-8", "002-30", "002-61", "002-75")
def test_the_agent_gets_links_that_its_own_token_opens(anna: Api, index: str, disk: Path) -> None:
    body = {
        "jsonrpc": "2.0", "id": 1, "method": "tools/call",
        "params": {"name": "cd", "arguments": {"path": str(disk / "src")}, "_meta": {
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientCapabilities": {},
            "io.modelcontextprotocol/clientInfo": {"name": "t", "version": "1"},
        }},
    }  # fmt: skip
    status, _, answer = anna.ask(
        "/mcp", "POST", body, Accept="application/json, text/event-stream",
        **{"Mcp-Protocol-Version": "2026-07-28", "Mcp-Method": "tools/call", "Mcp-Name": "cd"},
    )  # fmt: skip
    assert status == 200, answer
    text = answer.decode()
    links = re.findall(r"https?://[^\"\\]+", text)
    assert len(links) > 10
    for link in dict.fromkeys(links):
        assert anna.ask(link)[0] == 200, link
    session = anna.read(next(link for link in links if "/api/sessions/" in link))
    assert session["link"] in links
    assert [crumb["name"] for crumb in session["breadcrumb"]] == ["disk", "src"]
    assert session["breadcrumb"][1]["nodeId"] == find(anna, index, "src")["nodeId"]


def test_an_index_is_forgotten_with_all_that_hangs_on_it(bert: Api, disk: Path) -> None:
    made = bert.read("/api/indexes", "POST", {"root": str(disk / "src")}, 202)
    index = made["indexId"]
    bert.ask(f"/api/jobs/{made['jobId']}/events")
    query = bert.read("/api/queries", "POST", {"indexId": index, "filter": ""}, 201)
    asked = bert.read(f"/api/indexes/{index}", "DELETE", status=428)
    token = re.search(r"confirm='([^']+)'", asked["nextAction"])
    assert token
    bert.read(f"/api/indexes/{index}?confirm={token[1]}", "DELETE")
    bert.read(f"/api/indexes/{index}", status=404)
    bert.read(f"/api/queries/{query['queryId']}", status=404)


def count_answered(api: Api) -> int:
    told = api.ask("/metrics")[2].decode()
    return sum(map(int, re.findall(r'requests_total{area="api".*} (\d+)', told)))


def test_downloads_that_nobody_waits_for_leave_no_file_open(
    anna: Api, index: str, server: Server
) -> None:
    address = urlsplit(find(anna, index, "src/deep/bytes.bin")["downloadUrl"]).path
    request = f"GET {address} HTTP/1.1\r\nHost: {server.netloc}\r\n"
    request += f"Authorization: Bearer {TOKENS['anna']}\r\n\r\n"
    before, calls = count_answered(anna), 50
    for _ in range(calls):
        host, _, port = server.netloc.partition(":")
        with socket.create_connection((host, int(port))) as line:
            line.sendall(request.encode())
    wait_until(lambda: count_answered(anna) >= before + calls)
    opened = [each.resolve().name for each in Path(f"/proc/{server.process.pid}/fd").iterdir()]
    assert "bytes.bin" not in opened
