"""The pages of a disk through the real server: listing, map, file, reports."""

from __future__ import annotations

import json
import re
from pathlib import Path
from urllib.parse import parse_qs, urlencode, urljoin, urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sonde.web.pages.nodes import Box, lay_out

from .conftest import Server
from .site import EVIL, EVIL_NAME, FORM, SECRET, Page, agree, make_site, send, serve_site
from .test_pages import EDITOR_LINKS, open_page, wait_for_job

SLACK = 1e-3
"""Of the map's hundredths: sizes of one byte and of terabytes stand side by side."""


@pytest.fixture(scope="module")
def disk(start, tmp_path_factory) -> tuple[Server, Path, str]:
    """A server, the folder it has scanned, and the address of its page."""
    root, environ = make_site(tmp_path_factory.mktemp("scanned"))
    (root / "empty").mkdir()
    (root / "src" / "twin.py").write_bytes((root / "src" / "long.py").read_bytes())
    (root / "picture.png").write_bytes(b"\x89PNG\r\n\x1a\n" + b"\0" * 20)
    (root / "src" / f"dir {EVIL.replace('/', '-')}").mkdir()
    for number in range(120):
        (root / "docs" / f"page {number:03}").write_text("x" * number)
    server = serve_site(start, root, environ)
    status, headers, _ = server.ask("/disk", "POST", urlencode({"root": str(root)}).encode(), FORM)
    assert status == 303
    index = headers["location"].rpartition("/")[2]
    wait_for_job(server, server.read(f"/api/indexes/{index}")[1]["job"]["jobId"])
    return server, root, headers["location"]


def find_link(server: Server, page: Page, title: str) -> str:
    """The link on a page that leads to the page of this title."""
    ours = [link for link in page.links if re.match(r"/disk/\w+(\?|/nodes/)", link)]
    return next(x for x in ours if open_page(server, x).text.startswith(f"\n{title} ·"))


def test_a_scanned_folder_is_listed(disk):
    page = open_page(disk[0], "/disk")
    assert f"~/{disk[1].name}" in page.text, "the home folder is written short"
    assert disk[2] in page.links


def test_a_folder_is_listed_in_order_and_in_pages(disk):
    server, _, address = disk
    page = open_page(server, address)
    assert page.text.index("src/") < page.text.index("docs/"), "the largest first"
    docs = find_link(server, page, "docs")
    seen: list[str] = []
    way = f"{docs}&sort=name"
    for _ in range(3):
        page = open_page(server, way)
        rows = re.findall(r"page \d\d\d", "".join(page.cells))
        assert rows == sorted(rows)
        seen += rows
        following = [link for link in page.links if "cursor=" in link]
        if not following:
            break
        way = following[0]
    assert seen == [f"page {number:03}" for number in range(120)]


def test_the_map_leads_into_folders(disk):
    server, _, address = disk
    page = open_page(server, address)
    tiles = [link for link in page.tiles if "node=" in link]
    assert tiles
    assert all(open_page(server, link) for link in tiles)
    assert "the rest" in open_page(server, address, path="docs").text, "small ones stand together"


def test_hostile_names_and_secrets(disk):
    server, _, address = disk
    page = open_page(server, address, path="src")
    assert EVIL_NAME in page.text
    whole = open_page(server, address)
    page = open_page(server, find_link(server, whole, ".env"))
    assert SECRET not in page.text
    assert "cannot be shown" in page.text
    for path, status in (("../", 403), ("none", 404), (EVIL, 404)):
        found, _, body = server.ask(f"{address}?{urlencode({'path': path})}")
        assert found == status
        assert Page(body).foreign_scripts == 0


def test_a_file_shows_its_beginning(disk):
    server, _, address = disk
    files = [link for link in open_page(server, address, path="src").links if "/nodes/" in link]
    texts = [open_page(server, link).text for link in files[:40]]
    assert any("x1 = 1" in text for text in texts)
    listed = open_page(server, address, path="docs", sort="name")
    assert "This file is empty" in open_page(server, find_link(server, listed, "page 000")).text


@pytest.mark.parametrize(
    ("report", "said"),
    [
        ("largest", "long.py"), ("oldest", "cart.py"), ("newest", "page 1"),
        ("by-extension", ".py"), ("by-age", "file"), ("duplicates", "2 times"),
        ("growth", "no earlier scan"),
        ("empty-folders", "empty"),
    ],
)  # fmt: skip
def test_every_report_is_shown(disk, report, said):
    server, _, address = disk
    assert said in open_page(server, f"{address}/reports/{report}").text
    assert f"{address}/reports/{report}" in open_page(server, address).links
    open_page(server, f"{address}/reports/none", 400)


def test_growth_is_told_since_an_earlier_scan(disk):
    server, root, _ = disk
    grown = root.parent / "grown"
    (grown / "logs").mkdir(parents=True)
    (grown / "logs" / "a.log").write_text("x" * 1000)
    (grown / "old.txt").write_text("y" * 5000)
    ways = []
    for _ in range(2):
        status, way, _ = send(server, "/disk", ("root", str(grown)))
        assert status == 303
        ways.append(way)
        job = server.read(f"/api/indexes/{way[6:]}")[1]["job"]["jobId"]
        wait_for_job(server, job)
        (grown / "logs" / "a.log").write_text("x" * 900_000)
        (grown / "old.txt").write_text("y")
    assert ways[0] == ways[1], "a second scan is of the same index"
    page = open_page(server, f"{way}/reports/growth", since="30d")
    assert "+878 KiB" in page.text
    assert "−4.9 KiB" in page.text
    assert f"{way}/reports/growth?since=365d" in page.links
    open_page(server, f"{way}/reports/growth", 400, since="soon")
    assert agree(server, f"{way}/forget") == "/disk"
    open_page(server, way, 404)


def test_refusals_are_pages(disk):
    server, root, address = disk
    open_page(server, "/disk/none", 404)
    open_page(server, f"{address}/nodes/none", 404)
    for named, wanted in (("/etc", 403), (str(root / "nothing"), 404)):
        status, _, body = server.ask("/disk", "POST", urlencode({"root": named}).encode(), FORM)
        assert status == wanted
        assert Page(body).foreign_scripts == 0
    foreign = FORM | {"Origin": "http://elsewhere.example"}
    status, _, _ = server.ask("/disk", "POST", urlencode({"root": str(root)}).encode(), foreign)
    assert status == 403


def test_what_is_ticked_is_kept_added_to_taken_out_and_forgotten(disk):
    server, _, address = disk
    nodes = open_page(server, address, path="src").ticks
    assert len(nodes) > 3
    first = [("node_ids", node) for node in nodes[:2]]
    status, kept, _ = send(server, "/sets", ("name", EVIL), ("into", ""), *first)
    assert status == 303
    page = open_page(server, kept)
    assert EVIL in page.text
    assert sorted(page.ticks) == sorted(nodes[:2])
    assert EVIL in open_page(server, "/sets").text
    assert EVIL in open_page(server, address).text, "a set can be chosen to add to"

    assert send(server, "/sets", ("into", kept[6:]), ("node_ids", nodes[2]))[0] == 303
    assert sorted(open_page(server, kept).ticks) == sorted(nodes[:3])
    assert all(open_page(server, link) for link in open_page(server, kept).links if "nodes" in link)
    assert send(server, f"{kept}/remove", ("node_ids", nodes[0]))[:2] == (303, kept)
    assert sorted(open_page(server, kept).ticks) == sorted(nodes[1:3])
    assert send(server, "/sets", ("name", "none"))[0] == 400
    assert agree(server, f"{kept}/forget") == "/sets"
    open_page(server, kept, 404)
    assert "There are no sets yet" in open_page(server, "/sets").text


def test_no_link_of_the_disk_is_dead(disk):
    server, _, address = disk
    begin = ["/disk", address, "/queries", "/sets"]
    query = (("index_id", address[6:]), ("filter", "size>10 kind:file"), ("then", "run"))
    begin.append(send(server, "/queries", *query)[1])
    waiting, seen = list(begin), set(begin)
    while waiting:
        here = waiting.pop(0)
        status, headers, body = server.ask(here)
        assert status == 200, (here, status, body[:300])
        if not headers["content-type"].startswith("text/html"):
            continue
        for link in Page(body).links:
            split = urlsplit(urljoin(f"{server.url}{here}", link))
            if link.startswith(EDITOR_LINKS):
                continue
            assert f"{split.scheme}://{split.netloc}" == server.url
            target = split.path + (f"?{split.query}" if split.query else "")
            ours = "sort" not in parse_qs(split.query)
            if ours and target not in seen and len(seen) < 160:
                seen.add(target)
                waiting.append(target)
    kinds = {re.sub(r"/[\w.-]{8,}", "/*", urlsplit(each).path) for each in seen}
    assert {"/disk/*", "/disk/*/nodes/*", "/queries/*", "/sets/*", "/project"} <= kinds


@given(st.lists(st.floats(1, 1e12), min_size=1, max_size=60))
def test_boxes_fill_the_map_each_in_its_share(sizes):
    sizes.sort(reverse=True)
    whole = Box(0, 0, 100, 75)
    boxes = lay_out(sizes, whole)
    assert len(boxes) == len(sizes)
    total = sum(sizes)
    for size, box in zip(sizes, boxes, strict=True):
        assert box.width * box.height == pytest.approx(7500 * size / total, rel=1e-2, abs=1e-3)
        assert box.x >= -SLACK
        assert box.y >= -SLACK
        assert box.x + box.width <= 100 + SLACK
        assert box.y + box.height <= 75 + SLACK
    for at, one in enumerate(boxes):
        for other in boxes[at + 1 :]:
            wide = min(one.x + one.width, other.x + other.width) - max(one.x, other.x)
            high = min(one.y + one.height, other.y + other.height) - max(one.y, other.y)
            assert wide < SLACK or high < SLACK, "two boxes overlap"


def keep_set(server: Server, name: str, *nodes: str) -> str:
    """Keep nodes as a set; the address of its page."""
    ticked = [("node_ids", node) for node in nodes]
    status, way, _ = send(server, "/sets", ("name", name), *ticked)
    assert status == 303
    return way


def find_nodes(server: Server, address: str, *paths: str) -> list[str]:
    index = address.rpartition("/")[2]
    details = [server.read(f"/api/indexes/{index}/detail?path={path}")[1] for path in paths]
    return [each["nodeId"] for each in details]


@pytest.mark.parametrize(
    ("op", "held"),
    [("union", {"src", "docs", "empty"}), ("intersection", {"docs"}), ("difference", {"src"})],
)
def test_two_sets_are_combined_into_a_new_one(disk, op, held):
    server, _, address = disk
    src, docs, empty = find_nodes(server, address, "src", "docs", "empty")
    first = keep_set(server, "first", src, docs)
    second = keep_set(server, f"second {EVIL}", docs, empty)
    page = open_page(server, first)
    assert f"{first}/combine" in page.actions
    fields = (("other", second.rpartition("/")[2]), ("op", op), ("name", f"both {EVIL}"))
    status, way, _ = send(server, f"{first}/combine", *fields)
    assert status == 303
    page = open_page(server, way)
    assert f"both {EVIL}" in page.text
    assert {name for name in ("src", "docs", "empty") if name in page.cells} == held
    assert len(open_page(server, first).ticks) == 2, "the two stay as they were"
    address = f"/api{first.replace('/sets', '/resource-sets')}/combine"
    body = json.dumps({"op": op, "other": second.rpartition("/")[2]}).encode()
    status, made = server.read(address, "POST", body, {"Content-Type": "application/json"})
    assert (status, made["counts"]["entries"]) == (201, len(held))


def test_only_sets_of_one_folder_are_offered_and_combined(disk):
    server, root, address = disk
    (src,) = find_nodes(server, address, "src")
    first = keep_set(server, "here", src)
    _, other, _ = send(server, "/disk", ("root", str(root / "docs")))
    index = other.rpartition("/")[2]
    wait_for_job(server, server.read(f"/api/indexes/{index}")[1]["job"]["jobId"])
    (page_node,) = find_nodes(server, other, "page%20001")
    alone = keep_set(server, "elsewhere", page_node)
    assert f"{alone}/combine" not in open_page(server, alone).actions, "there is no other"
    assert "elsewhere" not in open_page(server, first).text
    for other in (alone.rpartition("/")[2], "nothing", ""):
        status, _, page = send(server, f"{first}/combine", ("other", other))
        assert status in (400, 404)
        assert page.foreign_scripts == 0
