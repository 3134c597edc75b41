"""The map of a disk and the charts of its reports in a real browser: zoom, colours, shares."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from .conftest import CHROMIUM, Server
from .site import make_site, send, serve_site
from .test_pages import wait_for_job

pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
pytestmark = pytest.mark.skipif(not CHROMIUM, reason="there is no chromium on this machine")

DAY_S = 86_400
FILES = {
    "sell.py": (6_000, 1, "code", "week"), "guide.md": (5_000, 20, "docs", "month"),
    "rows.csv": (4_500, 200, "data", "year"), "photo.png": (4_000, 900, "picture", "older"),
    "clip.mp4": (3_500, 1, "video", "week"), "song.mp3": (3_000, 20, "sound", "month"),
    "pack.zip": (2_500, 200, "archive", "year"), "blob.xyz": (2_000, 900, "other", "older"),
}  # fmt: skip
"""Name -> size, days since its change, and its colours by kind and by age."""
COLOURS = {"kind": 2, "age": 3}
"""What the map is coloured by -> where `FILES` has it."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("mapped")


@pytest.fixture(scope="module")
def served(start: Callable[..., Server], folder: Path) -> Server:
    return serve_site(start, *make_site(folder))


@pytest.fixture(scope="module")
def disk(served: Server, folder: Path) -> str:
    """The address of a scanned folder: one file of each kind, and copies in a folder."""
    root, now = folder / "things", time.time()
    inner = root / "shelf" / "box"
    inner.mkdir(parents=True)
    for name, (size, days, _, _) in FILES.items():
        (root / name).write_bytes(name[:1].encode() * size)
        os.utime(root / name, (now - days * DAY_S,) * 2)
    for name in ("one.py", "two.py"):
        (inner / name).write_bytes(b"x" * 6_000)
        os.utime(inner / name, (now - 900 * DAY_S,) * 2)
    status, way, _ = send(served, "/disk", ("root", str(root)))
    assert status == 303
    wait_for_job(served, served.read(f"/api/indexes/{way[6:]}")[1]["job"]["jobId"])
    return way


def colour_of(found: Any, of: str = "backgroundColor") -> str:
    return str(found.evaluate(f"(each) => getComputedStyle(each).{of}"))


def tile(page: Any, name: str) -> Any:
    return page.locator(f'a[title^="{name},"]')


def group(page: Any, name: str) -> Any:
    """A folder of the map that shows what is in it."""
    return page.locator(".map > .group", has=page.locator(f'> a[title^="{name},"]'))


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_kind_and_age_has_the_colour_of_its_legend(visit, disk, scheme):
    page = visit(disk, color_scheme=scheme)
    for by, at in COLOURS.items():
        page.locator(".switch a", has_text=f"by {by}").click()
        page.locator(".switch [aria-current]", has_text=f"by {by}").wait_for()
        shown = {facts[at]: colour_of(tile(page, name)) for name, facts in FILES.items()}
        assert len(set(shown.values())) == len(shown), f"two look the same: {shown}"
        legend = {name: colour_of(page.locator(f".legend .fill-{name}")) for name in shown}
        assert shown == legend, by
        for name, facts in FILES.items():
            assert colour_of(tile(page, name)) == shown[facts[at]], name


def test_the_colours_stay_when_one_goes_on(visit, disk):
    page = visit(f"{disk}?by=age", reduced_motion="reduce")
    chosen = page.locator(".switch [aria-current]", has_text="by age")
    tile(page, "shelf").click()
    page.locator("h1 .name", has_text="shelf").wait_for()
    assert chosen.is_visible()
    page.get_by_role("link", name="Name", exact=True).click()
    page.wait_for_url(re.compile("sort=name"))
    assert chosen.is_visible()
    page.locator("h1 a", has_text="things").click()
    page.locator("h1 .name", has_text="things").wait_for()
    assert chosen.is_visible()
    page.locator(".switch a", has_text="by kind").click()
    page.locator(".switch [aria-current]", has_text="by kind").wait_for()


WATCH = """() => {
    delete sessionStorage.grown;
    const map = document.querySelector(".map");
    new MutationObserver(() => {
        const box = map.querySelector(".zoom");
        const steps = box?.getAnimations()[0]?.effect.getKeyframes();
        const read = (step) => ["left", "top", "width", "height"].map((k) => parseFloat(step[k]));
        if (steps) sessionStorage.grown = JSON.stringify(steps.map(read));
    }).observe(map, {childList: true});
}"""
"""Keeps, across the page that follows, how the box grew that was clicked."""


@pytest.mark.parametrize("way", ["mouse", "keyboard"])
def test_a_folder_of_the_map_grows_until_it_is_the_map(visit, disk, way):
    page = visit(disk)
    whole = page.locator(".map").bounding_box()
    box = group(page, "shelf").bounding_box()
    assert box["width"] * box["height"] < whole["width"] * whole["height"] / 2
    page.evaluate(WATCH)
    if way == "mouse":
        tile(page, "shelf").click()
    else:
        tile(page, "shelf").focus()
        page.keyboard.press("Enter")
    page.locator("h1 .name", has_text="shelf").wait_for()
    first, last = page.evaluate("JSON.parse(sessionStorage.grown)")
    wanted = [box["x"] - whole["x"], box["y"] - whole["y"], box["width"], box["height"]]
    assert first == pytest.approx(wanted, abs=2)
    assert last == pytest.approx([0, 0, whole["width"], whole["height"]], abs=2)
    inner = group(page, "box").bounding_box()
    area = page.locator(".map").bounding_box()
    assert inner["width"] * inner["height"] > area["width"] * area["height"] * 0.95
    page.go_back()
    page.locator("h1 .name", has_text="things").wait_for()
    assert page.locator(".zoom").count() == 0


def test_nothing_grows_for_somebody_who_wants_no_motion(visit, disk):
    page = visit(disk, reduced_motion="reduce")
    page.evaluate(WATCH)
    tile(page, "box").click()
    page.locator("h1 .name", has_text="box").wait_for()
    assert page.evaluate("sessionStorage.grown ?? null") is None
    tile(page, "one.py").click()
    page.wait_for_url(re.compile("/nodes/"))


def test_the_map_zooms_by_plain_links_without_scripts_and_marks_copies(visit, disk, served):
    page = visit(f"{disk}/reports/duplicates")
    page.locator(".figure").wait_for()
    page.locator("[data-job]").first.wait_for(state="detached")
    page = visit(disk, java_script_enabled=False)
    assert "has copies" in tile(page, "one.py").get_attribute("title")
    assert page.locator(".map .twins").count() == 2
    tile(page, "box").click()
    assert page.locator("h1 .name").inner_text() == "box"


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_ring_shows_the_share_of_each_kind(visit, disk, scheme):
    page = visit(f"{disk}/reports/by-extension", color_scheme=scheme)
    sizes = {kind: size for size, _, kind, _ in FILES.values()} | {"code": 18_000}
    total, around, turned = sum(sizes.values()), 0.0, 0.0
    for kind, size in sorted(sizes.items(), key=lambda each: -each[1]):
        part = page.locator(f".stroke-{kind}")
        long, around = map(float, part.get_attribute("stroke-dasharray").split())
        assert long / around == pytest.approx(size / total, abs=0.01), kind
        assert -float(part.get_attribute("stroke-dashoffset")) == pytest.approx(turned, abs=0.1)
        turned += around * size / total
        row = page.locator(".ring-chart li", has=page.locator(f".fill-{kind}"))
        assert row.locator("small").inner_text() == f"{size / total:.0%}"
        assert colour_of(row.locator("i")) == colour_of(part, "stroke")
    assert turned == pytest.approx(around, abs=0.1), "the ring is closed"
    assert page.locator(".ring").count() == len(sizes)
    assert page.get_by_role("img", name="Share of each kind of file").is_visible()


def test_the_columns_are_as_tall_as_their_sizes(visit, disk):
    page = visit(f"{disk}/reports/by-age")
    columns = page.locator(".columns g")
    titles = columns.locator("title").all_text_contents()
    heights = [each.bounding_box()["height"] for each in columns.locator("rect").all()]
    drawn = page.locator(".columns svg").bounding_box()
    assert len(titles) == len(heights) > 2
    sizes = [float(re.search(r": ([\d.]+) KiB", title)[1]) if "KiB" in title else 0.0
             for title in titles]  # fmt: skip
    assert sum(sizes) == pytest.approx(42_500 / 1024, abs=0.5)
    for size, height in zip(sizes, heights, strict=True):
        assert height / max(heights) == pytest.approx(size / max(sizes), abs=0.02), titles
    assert max(heights) < drawn["height"]


def test_the_bars_are_as_long_as_their_sizes(visit, disk):
    page = visit(f"{disk}/reports/largest")
    bars = {row.locator("dt a").inner_text(): row.locator("i").bounding_box()["width"]
            for row in page.locator(".bars > div").all()}  # fmt: skip
    for name, (size, _, _, _) in FILES.items():
        assert bars[name] / max(bars.values()) == pytest.approx(size / 6_000, abs=0.02), name


def test_what_copies_waste_is_a_figure(visit, disk):
    page = visit(f"{disk}/reports/duplicates")
    page.locator(".figure", has_text="5.9 KiB in 1 extra copies of 1 file").wait_for()
