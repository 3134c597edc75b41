"""Ways in which one user once reached what is not theirs, each as it was done."""

from __future__ import annotations

import json

import pytest
from tests.waiting import wait_until

from .site import MARK, User, find_token


@pytest.mark.parametrize("place", ["/etc", "/", "~", "~/.ssh", "/no/such/place"])
def test_a_folder_outside_the_roots_is_not_indexed_and_no_token_is_handed_over(bert, place):
    status, refusal = bert.ask("/api/projects", "POST", {"project": place})
    assert (status, refusal["code"]) == (403, "OUTSIDE_ROOTS")
    assert not find_token(refusal)
    refusal = bert.call("create_index", project=place)
    assert refusal["code"] == "OUTSIDE_ROOTS"
    assert not find_token(refusal)
    assert bert.ask(f"/api/files/shadow?project={place}")[0] in (403, 404)
    assert bert.read(f"sonde://files/passwd?project={place}")["code"] != "OK"
    assert "root:" not in bert.said


@pytest.mark.row("000-P62")
@pytest.mark.parametrize("path", ["/etc/passwd", "/etc/shadow", "/etc", "/proc/self/environ"])
def test_a_pattern_is_not_looked_for_outside_the_roots(bert, path):
    assert bert.call("regex_search", pattern="root", path=path)["code"] == "OUTSIDE_ROOTS"
    assert bert.call("regex_search", pattern=".", path="passwd", project="/etc")["code"]
    status, refusal = bert.ask(f"/api/search/lines?pattern=root&path={path}")
    assert (status, refusal["code"]) == (403, "OUTSIDE_ROOTS")


def test_whether_a_folder_exists_is_not_said(bert):
    answers = [
        bert.call("create_index", project=f"/{name}")["userMessage"].replace(name, "")
        for name in ("etc", "nothing-here")
    ]
    assert answers[0] == answers[1]


@pytest.mark.row("004-4")
@pytest.mark.parametrize(
    "inner", ["", "knowledge/anna/chacha.db", "users.json", "key", "indexes", "config.json"]
)
def test_the_storage_is_out_of_reach_whatever_the_roots(site, bert, inner):
    """Even for a user to whom the operator gave the whole home folder."""
    person = site.folder / "person"
    (site.home / "config.json").write_text("{}")
    site.run("users", "allow", "bert", str(person))
    try:
        storage = site.home / inner
        assert bert.call("create_index", project=str(storage))["code"] != "CONFIRMATION_REQUIRED"
        assert "results" not in bert.call("regex_search", pattern=".", path=str(storage))
        assert "jobId" not in bert.call("index", root=str(storage))
        started = bert.call("index", root=str(person))
        wait_until(lambda: bert.call("job_progress", job_id=started["jobId"])["status"] == "done")
        found = bert.call("inspect", path=str(storage))
        if inner:
            assert "nodeId" not in found, found
        for address in [found.get("downloadUrl"), found.get("previewUrl")]:
            if address:
                way = address.removeprefix(bert.server.url)
                assert bert.ask(way)[0] in (403, 404)
        found = bert.call("regex_search", pattern=MARK, project=str(person))
        assert MARK not in json.dumps(found.get("results", ""))
    finally:
        site.run("users", "withdraw", "bert", str(person))


def test_files_of_tokens_and_keys_are_out_of_reach(site):
    """Even where a user may read the folder in which the operator keeps them."""
    token, secret = "b" * 30, "c" * 43
    tokens, keys = site.folder / "bert" / "tokens.txt", site.folder / "bert" / "keys.json"
    tokens.write_text(f"bert {token}\nanna {'a' * 30}\n")
    keys.write_text(json.dumps({"keys": [{"kty": "oct", "kid": "one", "k": secret}]}))
    issuer = {"SONDE_JWT_KEYS": str(keys), "SONDE_JWT_ISSUER": "https://login.example"}
    server = site.serve("--token-file", str(tokens), **issuer)
    try:
        bert, root = User(server, token), str(site.folder / "bert")
        started = bert.call("index", root=root)
        wait_until(lambda: bert.call("job_progress", job_id=started["jobId"])["status"] == "done")
        for file in (tokens, keys):
            found = bert.call("inspect", path=str(file))
            way = found["downloadUrl"].removeprefix(server.url)
            assert bert.ask(way)[0] == 403
            assert bert.ask(way.replace("/download", "/preview"))[0] == 403
            assert bert.ask(f"/api/files/{file.name}?project={root}")[0] != 200
        assert bert.agree("create_index", project=root).get("status") == "success"
        bert.call("regex_search", pattern="aaaa|cccc", project=root)
        bert.call("search_code", query="anna kty", project=root)
        assert "a" * 30 not in bert.said
        assert secret not in bert.said
    finally:
        server.process.kill()
        server.process.communicate()
        tokens.unlink()
        keys.unlink()


def test_what_another_indexed_is_neither_listed_nor_read(site, anna, bert):
    vault = str(site.vault)
    assert anna.agree("create_index", project=vault)["status"] == "success"
    assert vault in json.dumps(anna.call("list_projects"))
    assert MARK in json.dumps(anna.call("search_code", query=MARK, project=vault))
    for answer in (
        bert.call("list_projects"),
        bert.call("search_code", query="number of anna", project=vault),
        bert.call("search_code", query="number of anna", project="all"),
        bert.call("delete_index", project=vault),
        bert.call("get_index_status", project=vault),
        bert.read(f"sonde://files/ledger_{MARK}.md?project={vault}"),
        bert.ask(f"/api/files/ledger_{MARK}.md?project={vault}")[1],
        bert.ask("/api/jobs")[1],
        bert.ask("/projects")[1],
        bert.ask(f"/view?path=ledger_{MARK}.md&project={vault}")[1],
    ):
        assert MARK not in json.dumps(answer).replace(f"ledger_{MARK}.md", "")
        assert "vault" not in json.dumps(answer).replace(vault, "")
    assert "vault" in json.dumps(anna.call("list_projects")), "bert could not delete it"


def test_a_user_without_roots_reaches_nothing_of_the_machine(site, served):
    key = site.run("users", "add", "carl")
    carl = User(served, key)
    assert carl.call("list_projects")["totalProjects"] == 0
    for tool in ("search_code", "regex_search", "search_by_path", "create_index", "cd", "index"):
        answer = carl.call(tool, **({"query": "begin"} if tool == "search_code" else
                                    {"pattern": "begin"} if "search" in tool else {}))  # fmt: skip
        assert "code" in answer, (tool, answer)
        assert not find_token(answer)
    assert "first light" not in carl.said
    assert str(site.start) not in carl.said
