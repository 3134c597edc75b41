"""Projects on the page: indexed, updated, checked, stopped, built anew and deleted by buttons."""

from __future__ import annotations

import http.client
import json
import time
from contextlib import ExitStack, closing
from pathlib import Path
from urllib.parse import urlencode

import pytest
from tests.waiting import wait_until

from sonde.web.application import RESPONSE_GRACE_S
from sonde.web.downloads import MAX_STREAMS

from .conftest import BOUND_S, Server
from .site import EVIL, Page, agree, hold_index, make_site, send, serve_site
from .test_pages import open_page, wait_for_job

STREAM = {"Accept": "text/event-stream"}
BROWSER = {"Accept": "text/html,application/xhtml+xml,*/*;q=0.8"}


@pytest.fixture(scope="module")
def site(start, tmp_path_factory) -> tuple[Server, Path]:
    root, environ = make_site(tmp_path_factory.mktemp("buttons"))
    return serve_site(start, root, environ), root


def find_jobs(server: Server, kind: str) -> list[dict[str, str]]:
    jobs = server.read("/api/jobs")[1]["jobs"]
    return [job for job in jobs if job["kind"] == kind]


def test_a_folder_is_indexed_by_naming_it(site):
    server, root = site
    second = root.parent / f"second {EVIL.replace('/', '-')}"
    second.mkdir()
    (second / "unicorn.py").write_text("def find_unicorn():\n    return 1\n")
    way = agree(server, "/projects", ("project", str(second)))
    wait_for_job(server, find_jobs(server, "index")[0]["jobId"])
    page = open_page(server, way)
    assert "ready" in page.text
    assert "unicorn.py" in open_page(server, "/", q="find_unicorn", project=str(second)).text
    assert f"~/{second.name}" in open_page(server, "/projects").text
    assert agree(server, "/project/forget", ("project", str(second))) == "/projects"
    assert f"~/{second.name}" not in "".join(open_page(server, "/projects").text.split("Work")[0])
    assert (second / "unicorn.py").exists(), "the files stay"
    for wrong in (str(root / "none"), "", EVIL):
        status, _, page = send(server, "/projects", ("project", wrong))
        assert status == 400
        assert page.foreign_scripts == 0


def test_a_very_large_project_is_asked_about(start, tmp_path):
    root, environ = make_site(tmp_path)
    large = root.parent / "large"
    large.mkdir()
    for number in range(30):
        (large / f"{number}.py").write_text("x = 1\n")
    server = serve_site(start, root, {**environ, "SONDE_MAX_FILES": "20"})
    way = agree(server, "/projects", ("project", str(large)))
    wait_for_job(server, find_jobs(server, "index")[0]["jobId"])
    assert "30" in open_page(server, way).text


def test_a_job_is_seen_everywhere_and_stopped_by_its_button(site):
    server, root = site
    fields = (("project", str(root)), ("action", "index"))
    with hold_index(root.parent / "home", root):
        status, way, _ = send(server, "/projects", *fields)
        assert status == 303
        (job,) = [job for job in find_jobs(server, "index") if job["status"] == "running"]
        stop = f"/jobs/{job['jobId']}/stop"
        page = open_page(server, way)
        assert stop in page.actions
        assert "indexing" in page.text
        assert stop in open_page(server, "/projects").actions
        assert server.read(f"/api/jobs/{job['jobId']}/progress")[1]["status"] == "running"
        busy = send(server, "/projects", ("project", str(root)), ("action", "rebuild"))[2]
        assert "rebuild the entire index" in busy.text
        status, _, _ = send(server, "/projects", *busy.fields)
        assert status == 409, "two of them do not run at once"
        assert send(server, stop)[:2] == (303, way)
        wait_for_job(server, job["jobId"])
    assert server.read(f"/api/jobs/{job['jobId']}")[1]["status"] == "cancelled"
    assert "cancelled" in open_page(server, way).text
    assert send(server, stop)[:2] == (303, way), "pressing it too late is no error"
    assert send(server, "/jobs/none/stop")[0] == 404


def test_everything_is_read_anew_and_checked(site):
    server, root = site
    way = agree(server, "/projects", ("project", str(root)), ("action", "rebuild"))
    job = find_jobs(server, "index")[0]["jobId"]
    wait_for_job(server, job)
    report = server.read(f"/api/jobs/{job}")[1]["report"]
    assert report["filesIndexed"] >= 60, "every file, not only what changed"
    assert send(server, "/projects", ("project", str(root)), ("action", "check"))[:2] == (303, way)
    job = find_jobs(server, "check")[0]["jobId"]
    stream = server.ask(f"/api/jobs/{job}/events")[2].decode()
    assert '"status":"done"' in stream
    assert server.read(f"/api/jobs/{job}")[1]["report"]["files"] >= 60


def test_an_unknown_address_is_a_page_for_people_and_an_object_for_programs(site):
    server, _ = site
    for path in ("/nowhere", "/disk/x/y/z", f"/{urlencode({'x': EVIL})}", "/api/none"):
        status, headers, body = server.ask(path, headers=BROWSER)
        assert status == 404
        assert headers["content-type"].startswith("text/html")
        assert "default-src 'self'" in headers["content-security-policy"]
        page = Page(body)
        assert page.foreign_scripts == 0
        assert {"/", "/projects", "/disk", "/queries", "/sets"} <= set(page.links)
        for accept in ({}, {"Accept": "application/json"}, {"Accept": "*/*"}):
            status, error = server.read(path, headers=accept)
            assert (status, error["code"]) == (404, "NO_SUCH_ADDRESS")
    status, headers, body = server.ask("/projects", "DELETE", headers=BROWSER)
    assert (status, headers["content-type"][:9]) == (405, "text/html")
    assert {"GET", "POST"} <= set(headers["allow"].replace(" ", "").split(","))
    assert Page(body).foreign_scripts == 0
    status, headers, _ = server.ask("/", headers=BROWSER | {"Host": "elsewhere.example"})
    assert (status, headers["content-type"][:9]) == (421, "text/html")
    assert "default-src 'self'" in headers["content-security-policy"]


def greet(server: Server) -> dict[str, str]:
    """Begin a session of the older protocol; the headers that go with it."""
    params = {"protocolVersion": "2025-11-25", "capabilities": {},
              "clientInfo": {"name": "test", "version": "1"}}  # fmt: skip
    message = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params}
    sent = json.dumps(message).encode()
    kind = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
    status, headers, _ = server.ask("/mcp", "POST", sent, kind)
    assert status == 200
    return {"Mcp-Session-Id": headers["mcp-session-id"], "MCP-Protocol-Version": "2025-11-25"}


def test_the_end_does_not_wait_for_open_streams_nor_leave_an_error(start, tmp_path):
    root, environ = make_site(tmp_path)
    server = serve_site(start, root, environ)
    streams = []
    with hold_index(root.parent / "home", root):
        send(server, "/projects", ("project", str(root)))
        job = find_jobs(server, "index")[0]["jobId"]
        for _ in range(5):
            connection = http.client.HTTPConnection(server.netloc, timeout=BOUND_S)
            connection.request("GET", f"/api/jobs/{job}/events", headers=server.headers)
            answer = connection.getresponse()
            assert answer.readline() == b"event: progress\n"
            streams.append((connection, answer))
        connection = http.client.HTTPConnection(server.netloc, timeout=BOUND_S)
        connection.request("GET", "/mcp", headers=server.headers | STREAM | greet(server))
        streams.append((connection, connection.getresponse()))
        assert streams[-1][1].status == 200
        began = time.monotonic()
        server.process.terminate()
        code, said = server.end()
    for connection, answer in streams:
        answer.close()
        connection.close()
    assert time.monotonic() - began < RESPONSE_GRACE_S, "nobody waits for a stream that has no end"
    assert code == 0
    assert "Traceback" not in said
    assert "ERROR" not in said


def test_a_user_has_only_so_many_streams_open(start, tmp_path):
    root, environ = make_site(tmp_path)
    server = serve_site(start, root, environ)

    def follow(job: str, streams: ExitStack) -> http.client.HTTPResponse:
        connection = http.client.HTTPConnection(server.netloc, timeout=BOUND_S)
        connection.request("GET", f"/api/jobs/{job}/events", headers=server.headers)
        streams.enter_context(closing(connection))
        return streams.enter_context(closing(connection.getresponse()))

    def is_followed(job: str) -> bool:
        with ExitStack() as streams:
            return follow(job, streams).status == 200

    with hold_index(root.parent / "home", root):
        send(server, "/projects", ("project", str(root)))
        job = find_jobs(server, "index")[0]["jobId"]
        with ExitStack() as streams:
            answers = [follow(job, streams) for _ in range(MAX_STREAMS + 1)]
            assert [answer.status for answer in answers] == [200] * MAX_STREAMS + [429]
            assert json.loads(answers[-1].read())["code"] == "TOO_MANY_REQUESTS"
        wait_until(lambda: is_followed(job), "closed ones make room")


def test_the_first_index_of_a_folder_is_watched_from_its_beginning(site):
    server, root = site
    third = root.parent / "third"
    third.mkdir()
    (third / "unicorn.py").write_text("def find_unicorn():\n    return 1\n")
    with hold_index(root.parent / "home", third):
        way = agree(server, "/projects", ("project", str(third)))
        page = open_page(server, way)
        assert "indexing" in page.text
        assert "Stop" in page.text
    wait_for_job(server, find_jobs(server, "index")[0]["jobId"])
    assert "ready" in open_page(server, way).text
    assert agree(server, "/project/forget", ("project", str(third))) == "/projects"
    assert server.ask(way, headers=BROWSER)[0] == 404
