"""Routes over HTTP: arguments, answers, errors, and what the document says of them."""

from __future__ import annotations

import json
import socket

import pytest
from tests.waiting import wait_until

JSON = {"Content-Type": "application/json"}


def test_arguments_come_from_the_address_the_query_and_the_body(toys_server):
    status, toy = toys_server.read("/api/toys/a%20b?size=3&tags=x&tags=y&loud=true")
    assert (status, toy) == (200, {"toyId": "a b", "size": 3, "tags": ["x", "y"], "loud": True})
    body = json.dumps({"size": 4, "tags": ["z"]}).encode()
    status, toy = toys_server.read("/api/toys/7", "POST", body, JSON)
    assert (status, toy) == (201, {"toyId": "7", "size": 4, "tags": ["z"], "loud": False})


@pytest.mark.parametrize(
    ("path", "hint"),
    [
        ("/api/toys/7?size=10", "1 to 9"),
        ("/api/toys/7?size=much", "an integer"),
        ("/api/toys/7?siez=1", "size"),
        ("/api/toys/7?size=1&size=2", "more than once"),
        ("/api/toys/7?toyId=8&toy_id=9", "two spellings"),
    ],
)
def test_what_is_wrong_with_an_argument_is_told(toys_server, path, hint):
    status, error = toys_server.read(path)
    assert status == 400
    assert hint in error["userMessage"] + error["nextAction"]


@pytest.mark.parametrize("body", [b"{", b"[1]", b'"x"', b"[" * 100_000])
def test_a_body_is_a_json_object(toys_server, body):
    status, error = toys_server.read("/api/toys/7", "POST", body, JSON)
    assert (status, error["code"]) == (400, "INVALID_REQUEST")
    assert toys_server.read("/api/toys/7", "POST", b"{}", {"Content-Type": "text/plain"})[0] == 400


def test_errors_are_those_of_the_catalogue(toys_server):
    assert toys_server.read("/api/fail")[0] == 404
    status, error = toys_server.read("/api/fail?kind=internal")
    assert (status, error["code"]) == (500, "EMBEDDING_FAILED")
    status, error = toys_server.read("/api/fail?kind=defect")
    assert (status, error["code"]) == (500, "ERROR")
    assert "secret" not in json.dumps(error)
    status, error = toys_server.read("/api/remove", "DELETE")
    assert (status, error["code"]) == (428, "CONFIRMATION_REQUIRED")
    assert toys_server.read("/api/nothing")[1]["code"] == "NO_SUCH_ADDRESS"
    status, headers, body = toys_server.ask("/api/wait", "PUT")
    assert (status, set(headers["allow"].split(", "))) == (405, {"GET", "HEAD"})
    assert json.loads(body)["nextAction"]


def test_an_answer_that_has_not_changed_is_not_sent_again(toys_server):
    status, headers, body = toys_server.ask("/api/texts/a/b.txt")
    assert (status, body, headers["content-type"]) == (
        200,
        b"text of a/b.txt",
        "text/plain; charset=utf-8",
    )
    again = toys_server.ask("/api/texts/a/b.txt", headers={"If-None-Match": headers["etag"]})
    assert (again[0], again[2]) == (304, b"")
    assert toys_server.ask("/api/texts/other", headers={"If-None-Match": headers["etag"]})[0] == 200


def test_a_client_that_goes_away_stops_the_work(toys_server, diary_path):
    host, _, port = toys_server.netloc.partition(":")
    began = diary_path.read_text().count("stopped") if diary_path.exists() else 0
    with socket.create_connection((host, int(port))) as client:
        client.sendall(f"GET /api/wait HTTP/1.1\r\nHost: {toys_server.netloc}\r\n\r\n".encode())
        wait_until(lambda: "waiting" in diary_path.read_text().split("stopped")[-1])
    wait_until(lambda: diary_path.read_text().count("stopped") > began)


def test_the_document_describes_every_route(toys_server):
    status, document = toys_server.read("/api/openapi.json")
    assert (status, document["openapi"]) == (200, "3.1.0")
    toy = document["paths"]["/api/toys/{toyId}"]
    by_name = {p["name"]: p for p in toy["get"]["parameters"]}
    assert (by_name["toyId"]["in"], by_name["size"]["in"]) == ("path", "query")
    assert by_name["size"]["schema"]["maximum"] == 9
    assert list(toy["post"]["requestBody"]["content"]) == ["application/json"]
    answer = document["paths"]["/api/texts/{path}"]["get"]["responses"]["200"]
    assert answer["content"] == {"text/plain": {"schema": {"type": "string"}}}


def test_what_happened_is_counted(toys_server):
    toys_server.ask("/api/caller")
    _, headers, body = toys_server.ask("/metrics")
    assert headers["content-type"].startswith("text/plain; version=0.0.4")
    lines = body.decode().splitlines()
    assert any(line.startswith('sonde_requests_total{area="api",status="200"} ') for line in lines)
    buckets = [line for line in lines if line.startswith("sonde_request_seconds_bucket")]
    counts = [float(line.split()[-1]) for line in buckets if 'area="api"' in line]
    assert counts == sorted(counts)
