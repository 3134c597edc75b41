"""Knowledge that users bring in themselves: files over HTTP into their own library or a collection,
and notes by agents that they let."""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Iterator
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import pytest
from tests.contracts.postgres import needs_postgres, run_postgres
from tests.users.site import Site, User
from tests.waiting import wait_until
from tests.web.conftest import Server

from sonde.knowledge.upload_jobs import MAX_UPLOAD_FILES
from sonde.web.guard import MAX_UPLOAD_BYTES

EDGE = "----edge"


def write_form(files: list[tuple[str, bytes]], **fields: str) -> tuple[bytes, dict[str, str]]:
    """A form with files as browsers send it."""
    parts = [
        f'--{EDGE}\r\nContent-Disposition: form-data; name="{name}"\r\n\r\n{text}\r\n'.encode()
        for name, text in fields.items()
    ]
    for name, body in files:
        head = f'--{EDGE}\r\nContent-Disposition: form-data; name="file"; filename="{name}"\r\n'
        parts.append(head.encode() + b"Content-Type: text/plain\r\n\r\n" + body + b"\r\n")
    return (
        b"".join(parts) + f"--{EDGE}--\r\n".encode(),
        {"Content-Type": f"multipart/form-data; boundary={EDGE}"},
    )


def pack(files: dict[str, str]) -> bytes:
    target = io.BytesIO()
    with zipfile.ZipFile(target, "w") as archive:
        for name, text in files.items():
            archive.writestr(name, text)
    return target.getvalue()


class Sender(User):
    """A user who sends files."""

    def send(self, *files: tuple[str, bytes], **fields: str) -> Any:
        """Upload by REST: the status, and the job or the error."""
        body, kind = write_form(list(files), **fields)
        status, _, data = self.server.ask("/api/knowledge/files", "POST", body, self.headers | kind)
        return status, json.loads(data)

    def bring(self, *files: tuple[str, bytes], **fields: str) -> Any:
        """Upload, and wait: the report of the job."""
        status, job = self.send(*files, **fields)
        assert status == 202, job
        wait_until(lambda: self.ask(f"/api/jobs/{job['jobId']}")[1]["status"] != "running")
        done = self.ask(f"/api/jobs/{job['jobId']}")[1]
        assert done["status"] == "done", done
        return done["report"]

    def find(self, words: str) -> list[str]:
        answer = self.call("knowledge_search", query=words, dedupe=False)
        return [row["title"].capitalize() for row in answer["results"]]


@pytest.fixture(scope="module", params=["sqlite", pytest.param("postgres", marks=needs_postgres)])
def place(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Site, Server]]:
    site = Site(tmp_path_factory.mktemp("uploads"))
    site.environ["SONDE_EMBEDDING"] = "none"  # what is found has the words
    site.keys = {user: site.run("users", "add", user) for user in ("anna", "bert")}
    if request.param == "postgres":
        with run_postgres() as address:
            site.environ["SONDE_KNOWLEDGE_STORE"] = address
            yield from serve(site)
    else:
        yield from serve(site)


def serve(site: Site) -> Iterator[tuple[Site, Server]]:
    server = site.serve(SONDE_AGENT_NOTES="true")
    yield site, server
    server.process.kill()
    server.process.communicate()


@pytest.fixture
def anna(place: tuple[Site, Server]) -> Sender:
    return Sender(place[1], place[0].keys["anna"])


@pytest.fixture
def bert(place: tuple[Site, Server]) -> Sender:
    return Sender(place[1], place[0].keys["bert"])


def sign_in(user: User) -> dict[str, str]:
    """The headers of a browser in which a user has entered their key."""
    key = user.headers["Authorization"].removeprefix("Bearer ")
    form = {"Content-Type": "application/x-www-form-urlencoded"}
    status, headers, _ = user.server.ask("/login", "POST", f"token={key}".encode(), form)
    assert status == 303
    return {"Cookie": headers["set-cookie"].partition(";")[0], "Accept": "text/html"}


def test_what_a_user_sends_is_theirs_and_nobody_elses(anna: Sender, bert: Sender) -> None:
    report = anna.bring(("heron.md", b"# Heron\n\nThe heron waits at the weir.\n"))
    assert report["added"] == 1
    assert anna.find("heron weir") == ["Heron"]
    assert bert.find("heron weir") == []
    again = anna.bring(("heron.md", b"# Heron\n\nThe heron waits at the sluice.\n"))
    assert (again["added"], again["updated"]) == (0, 1), "the same name is the same file"
    assert anna.find("sluice") == ["Heron"]


def test_a_zip_and_a_folder_bring_in_all_that_is_in_them(anna: Sender) -> None:
    archive = pack({"a/otter.md": "# Otter\n\nOtters sleep afloat.\n",
                    "b/notes.txt": "The kingfisher dives.\n"})  # fmt: skip
    assert anna.bring(("river.zip", archive))["added"] == 2
    report = anna.bring(("pond/newt.md", b"# Newt\n\nNewts hide.\n"),
                        ("pond/deep/toad.md", b"# Toad\n\nToads hide.\n"))  # fmt: skip
    assert report["added"] == 2
    for words, title in (("otters afloat", "Otter"), ("newts", "Newt"), ("toads", "Toad")):
        assert title in anna.find(words)


def test_what_cannot_be_read_is_named_and_the_rest_comes_in(anna: Sender) -> None:
    bomb = io.BytesIO()
    with zipfile.ZipFile(bomb, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("zeros.txt", b"0" * (80 << 20))
    report = anna.bring(("bomb.zip", bomb.getvalue()), ("x.bin", bytes(range(256)) * 9),
                        ("swift.md", b"# Swift\n\nSwifts never land.\n"))  # fmt: skip
    assert report["added"] == 1
    assert sum(report["skipped"].values()) >= 2, report["skipped"]


@pytest.mark.parametrize(
    "name", ["../up.md", "a/../../up.md", "..\\up.md", "/", "line\x07.md", "n" * 300]
)
def test_a_name_leads_nowhere_else(anna: Sender, name: str) -> None:
    status, refusal = anna.send((name, b"# Up\n\nupward\n"))
    assert (status, refusal["code"]) == (400, "INVALID_REQUEST")
    assert "multipart" in refusal["nextAction"]


def test_a_request_that_is_no_upload_says_what_to_send(anna: Sender) -> None:
    for files, fields in (
        ([], {}),
        ([("a.md", b"x")] * 2, {}),
        ([("a.md", b"x")], {"source": "?"}),
    ):
        status, refusal = anna.send(*files, **fields)
        assert (status, "multipart" in refusal["nextAction"]) == (400, True), refusal
    many = [(f"{number}.md", b"x") for number in range(MAX_UPLOAD_FILES + 1)]
    assert "1000" in anna.send(*many)[1]["userMessage"]
    status, refusal = anna.ask("/api/knowledge/files", "POST", {"file": "x"})
    assert status == 400


def test_a_body_that_is_too_large_is_refused_before_it_is_read(anna: Sender) -> None:
    connection = HTTPConnection(anna.server.netloc, timeout=30)
    connection.putrequest("POST", "/api/knowledge/files")
    for name, value in anna.headers.items():
        connection.putheader(name, value)
    connection.putheader("Content-Type", f"multipart/form-data; boundary={EDGE}")
    connection.putheader("Content-Length", str(MAX_UPLOAD_BYTES + 1))
    connection.endheaders()
    answer = connection.getresponse()
    assert (answer.status, json.loads(answer.read())["code"]) == (413, "BODY_TOO_LARGE")
    connection.close()


def test_nobody_sends_anything_without_a_key(place: tuple[Site, Server]) -> None:
    body, kind = write_form([("a.md", b"x")])
    status, *_ = place[1].ask("/api/knowledge/files", "POST", body, {"Authorization": "x"} | kind)
    assert status == 401


def test_what_a_killed_server_had_staged_is_private_and_removed(tmp_path: Path) -> None:
    site = Site(tmp_path / "site")
    site.environ |= {"SONDE_EMBEDDING": "none", "TMPDIR": str(tmp_path / "shared")}
    (tmp_path / "shared").mkdir()
    key = site.run("users", "add", "anna")
    server = site.serve()
    files = [(f"{number}.md", b"# Otter\n\n" + b"afloat " * 2_000) for number in range(900)]
    try:
        assert Sender(server, key).send(*files)[0] == 202
    finally:
        server.process.kill()
        server.process.communicate()
    assert not [*(tmp_path / "shared").rglob("*.md")]
    assert [*(site.home / "uploads").rglob("*.md")], "killed while it was read"
    server = site.serve()
    try:
        wait_until(lambda: not [*(site.home / "uploads").rglob("tmp*")], "removed")
    finally:
        server.process.kill()
        server.process.communicate()


def test_the_page_takes_files_and_leads_to_their_job(anna: Sender, bert: Sender) -> None:
    browser = sign_in(bert)
    page = bert.server.ask("/knowledge", headers=browser)[2].decode()
    assert 'enctype="multipart/form-data"' in page
    body, kind = write_form([("wren.md", b"# Wren\n\nThe wren is loud.\n")], into="")
    foreign = {"Origin": "http://evil.example"}
    assert bert.server.ask("/knowledge/files", "POST", body, browser | kind | foreign)[0] == 403
    status, headers, _ = bert.server.ask("/knowledge/files", "POST", body, browser | kind)
    assert (status, headers["location"]) == (303, "/jobs")
    wait_until(lambda: bert.find("wren loud") == ["Wren"])
    wait_until(lambda: "1 added" in bert.server.ask("/jobs", headers=browser)[2].decode())
    assert "wren" not in anna.server.ask("/jobs", headers=sign_in(anna))[2].decode().lower()
    assert anna.find("wren loud") == []
    status, _, page_ = bert.server.ask("/knowledge/files", "POST", *write_form([])[:1],
                                       browser | write_form([])[1])  # fmt: skip
    assert status == 400
    assert b"no file" in page_


def test_a_collection_is_filled_by_those_who_were_allowed(
    place: tuple[Site, Server], anna: Sender, bert: Sender
) -> None:
    site, _ = place
    heath = ("heath.md", b"# Heath\n\nGorse flowers on the heath.\n")
    assert anna.send(heath, into="handbook")[1]["code"] == "OUTSIDE_ROOTS"
    site.run("users", "allow", "anna", "--knowledge", "handbook")
    assert anna.bring(heath, into="handbook")["added"] == 1
    assert anna.find("gorse") == ["Heath"]
    assert bert.find("gorse") == []
    assert "handbook" in anna.server.ask("/knowledge", headers=sign_in(anna))[2].decode()
    site.run("users", "share", "bert", "--knowledge", "handbook")
    assert bert.find("gorse") == ["Heath"]
    assert bert.send(heath, into="handbook")[0] == 403, "to read is not to fill"
    site.run("users", "withdraw", "anna", "--knowledge", "handbook")
    assert anna.find("gorse") == []
    assert anna.send(heath, into="handbook")[0] == 403


def test_the_operator_brings_in_for_a_user(
    place: tuple[Site, Server], tmp_path: Path, anna: Sender, bert: Sender
) -> None:
    (tmp_path / "vole.md").write_text("# Vole\n\nThe vole digs.\n")
    said = place[0].run("knowledge", "import", str(tmp_path), "--user", "anna")
    assert "1 added" in said
    assert anna.find("vole digs") == ["Vole"]
    assert bert.find("vole digs") == []


def test_agents_add_notes_only_for_users_who_let_them(anna: Sender, bert: Sender) -> None:
    note = {"title": "Mole", "text": "The mole digs a fortress.", "tags": ["garden"]}
    refusal = anna.call("notes_add", **note)
    assert refusal["code"] == "PERMISSION_DENIED"
    form = {"Content-Type": "application/x-www-form-urlencoded"}
    sent = anna.server.ask("/knowledge/agents", "POST", b"lets=yes", anna.headers | form)
    assert sent[0] == 403
    assert b"Sign in with a browser" in sent[2]
    assert anna.call("notes_add", **note)["code"] == "PERMISSION_DENIED"
    browser = sign_in(anna)
    assert anna.server.ask("/knowledge/agents", "POST", b"lets=yes", browser | form)[0] == 303
    added = anna.call("notes_add", **note)
    assert added["uri"].startswith("notes://")
    assert anna.find("mole fortress") == ["Mole"]
    assert bert.find("mole fortress") == []
    assert bert.call("notes_add", **note)["code"] == "PERMISSION_DENIED"
    assert anna.server.ask("/knowledge/agents", "POST", b"lets=", browser | form)[0] == 303
    assert anna.call("notes_add", **note)["code"] == "PERMISSION_DENIED"


def test_the_tool_is_listed_only_where_it_is_offered(
    anna: Sender, site: Site, served: Server
) -> None:
    def list_names(user: User) -> set[str]:
        return {tool["name"] for tool in user._rpc("tools/list", {})["tools"]}

    assert "notes_add" in list_names(anna)
    assert "notes_add" not in list_names(User(served, site.keys["anna"]))
