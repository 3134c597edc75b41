"""Nodes on pages: the map of a folder, one file, the entries of a set, a choice of sets."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Literal

from sonde.app import App
from sonde.disk.listing import NodeDetail, inspect_node, list_folder, preview_file
from sonde.disk.scope import find_node, place_node
from sonde.disk.sets import list_sets
from sonde.disk.trees import Disk, SetEntries, join_node
from sonde.errors import SondeError
from sonde.policy.roots import show_path
from sonde.runtime.system import now_ms
from sonde.runtime.work import Work
from sonde.stores.disk.base import Copies, DiskIndex, Member, Node, Totals
from sonde.stores.disk.filters import KINDS
from sonde.text.formats import count_of, format_age
from sonde.tools.schema import IndexParam, NodeParam
from sonde.tools.shapes.shell import show_epoch, show_name, show_permissions
from sonde.types import Content
from sonde.web.pages import html
from sonde.web.pages.charts import COLOURS, classify_file
from sonde.web.pages.html import Markup, frame, link_to, show_note, tag

_CHOICES = 50  # the newest sets; a longer menu is hard to choose from
_MAX_TILES = 60  # boxes of one folder; more are too small to point at
_MIN_SHARE = 0.002  # of the folder: smaller ones share one box
_MIN_OPEN_SHARE = 0.03  # of the whole map: larger folders show their contents
_MAX_OPENED = 60  # folders that show their contents: bounds the time that a map takes
_MAX_COPIES = 500  # groups of equal files that are marked: the largest
_DAY_MS = 86_400_000  # 24 hours
_AGES = {7: "week", 31: "month", 366: "year"}
"""The most days since a change -> the name of the colour; after the last, `older`."""


@dataclass(frozen=True, slots=True)
class Box:
    """A rectangle."""

    x: float
    y: float
    width: float
    height: float


def lay_out(sizes: Sequence[float], box: Box) -> list[Box]:
    """Lay out one box per size, in order; sizes must be positive, largest first."""
    total = sum(sizes)
    if not total:
        return []
    scale = box.width * box.height / total
    boxes: list[Box] = []
    waiting = [size * scale for size in sizes]
    while waiting:
        side = min(box.width, box.height)
        count = 1
        worst = _find_worst(waiting[:1], side)
        while count < len(waiting):
            longer = _find_worst(waiting[: count + 1], side)
            if longer > worst:
                break
            count, worst = count + 1, longer
        row, waiting = waiting[:count], waiting[count:]
        placed, box = _place_treemap(row, box)
        boxes += placed
    return boxes


def _find_worst(row: Sequence[float], side: float) -> float:
    area = sum(row)
    thick = area / side if side else 0.0
    if not thick:
        return float("inf")
    return max(max(thick * thick / size, size / (thick * thick)) for size in row)


def _place_treemap(row: Sequence[float], box: Box) -> tuple[list[Box], Box]:
    """The boxes of a row along the shorter side, and the rest of the box."""
    area = sum(row)
    upright = box.width >= box.height
    side, room = (box.height, box.width) if upright else (box.width, box.height)
    thick = min(area / side, room) if side else 0.0
    placed: list[Box] = []
    done = 0.0
    for size in row:
        # shares of the side rather than area by thickness: rounding must not add up
        at, long = side * done / area, side * size / area
        if upright:
            placed.append(Box(box.x, box.y + at, thick, long))
        else:
            placed.append(Box(box.x + at, box.y, long, thick))
        done += size
    if upright:
        return placed, Box(box.x + thick, box.y, room - thick, side)
    return placed, Box(box.x, box.y + thick, side, room - thick)


_SHAPE = Box(0, 0, 100, 75)


@dataclass(frozen=True, slots=True)
class Tile:
    """A box of the map: a node, or a folder's small nodes together."""

    name: str
    size: int
    node: str
    listable: bool
    mtime_ms: int = 0
    has_copies: bool = False
    inner: tuple[Tile, ...] = ()


@dataclass(frozen=True, slots=True)
class TileColours:
    """How the boxes of a map are coloured."""

    by: Literal["kind", "age"]
    now_ms: int

    def choose(self, tile: Tile) -> str:
        """The name of a box's colour."""
        if self.by == "kind":
            return "folder" if tile.listable else classify_file(tile.name)
        days = (self.now_ms - tile.mtime_ms) / _DAY_MS
        return next((name for most, name in _AGES.items() if days <= most), "older")


def show_map(
    disk: Disk, index: DiskIndex, node: Node, by: Literal["kind", "age"] = "kind"
) -> Markup | None:
    """The largest nodes of a folder and of each large folder in it; each box links to its node."""
    rows = disk.tree(index.id).report("duplicates", _MAX_COPIES, None, now_ms=now_ms())
    copies = {each.id for row in rows if isinstance(row, Copies) for each in row.nodes}
    tiles = _open_tiles(disk, index, node, node.size or 1, copies, [_MAX_OPENED])
    if not tiles:
        return None
    shown = _show_tiles(index.id, tiles, _SHAPE, TileColours(by, now_ms()))
    return tag("section", shown, class_="map", aria_label="Map of sizes")


def _open_tiles(
    disk: Disk, index: DiskIndex, folder: Node, total: int, copies: Collection[int], left: list[int]
) -> list[Tile]:
    """The boxes of a folder, with those of each folder in it that is large enough to look into."""
    try:
        place = place_node(disk, index, folder)
        found = list_folder(disk, place, folder, limit=_MAX_TILES, sort="size", compare=False)
    except SondeError:  # it disappeared while the map was drawn
        return []
    nodes = [entry.node for entry in found.page.rows if entry.node and entry.size]
    tiles = []
    for each in nodes:
        inner: list[Tile] = []
        if each.listable and each.size / total > _MIN_OPEN_SHARE and left[0] > 0:
            left[0] -= 1
            inner = _open_tiles(disk, index, each, total, copies, left)
        name, handle = show_name(each.name), join_node(index.id, each.id)
        facts = (each.listable, each.mtime_ms, each.id in copies)
        tiles.append(Tile(name, each.size, handle, *facts, tuple(inner)))
    rest = folder.size - sum(each.size for each in nodes)
    if rest > folder.size * _MIN_SHARE:
        # the small ones share a box, so that each box has its share of the whole
        tiles.append(Tile("the rest", rest, join_node(index.id, folder.id), listable=True))
    return sorted(tiles, key=lambda tile: -tile.size)


def show_legend(address: str, by: str, /, **kept: str | None) -> Markup:
    """The legend of the map, with a link to the other colouring."""
    chips = [tag("span", tag("i", class_=f"fill-{name}", aria_hidden="true"), text)
             for name, text in COLOURS[by].items()]  # fmt: skip
    ways = [tag("a", f"by {name}", href=link_to(address, **kept | {"by": name}),
                aria_current="true" if name == by else None) for name in COLOURS]  # fmt: skip
    twin = tag("span", tag("i", class_="twin", aria_hidden="true"), "has copies")
    return tag("div", tag("nav", ways, class_="switch", aria_label="Colours"),
               tag("p", chips, twin, class_="legend"), class_="map-head")  # fmt: skip


def _show_tiles(
    index: str, tiles: Sequence[Tile], shape: Box, colours: TileColours
) -> list[Markup]:
    boxes = lay_out([tile.size for tile in tiles], shape)
    pairs = zip(tiles, boxes, strict=True)
    return [_show_tile(index, tile, box, colours, shape) for tile, box in pairs]


def _show_tile(index: str, tile: Tile, box: Box, colours: TileColours, shape: Box) -> Markup:
    place = (
        f"left:{100 * (box.x - shape.x) / shape.width:.3f}%;"
        f"top:{100 * (box.y - shape.y) / shape.height:.3f}%;"
        f"width:{100 * box.width / shape.width:.3f}%;"
        f"height:{100 * box.height / shape.height:.3f}%"
    )
    age = format_age((colours.now_ms - tile.mtime_ms) / 1000) if tile.mtime_ms else ""
    facts = (html.show_size(tile.size), f"changed {age}" if age else "",
             "has copies" if tile.has_copies else "")  # fmt: skip
    title = ", ".join([tile.name, *filter(None, facts)])
    href = link_node(index, tile.node, listable=tile.listable)
    if tile.listable and colours.by != "kind":
        href = link_to(f"/disk/{index}", node=tile.node, by=colours.by)
    large = min(box.width, box.height) > 4 and box.width > 8
    size = [" ", html.show_size(tile.size)] if box.height > 7 and box.width > 10 else None
    label = [tag("b", tile.name), size] if large else None
    if not tile.inner or not large or box.height < 14:
        name = None if large else title
        twin = " twins" if tile.has_copies else ""
        return tag("a", label, href=href, style=place, title=title, aria_label=name,
                   class_=f"tile fill-{colours.choose(tile)}{twin}")  # fmt: skip
    inner = _show_tiles(index, tile.inner, Box(0, 0, box.width, box.height - 4), colours)
    heading = tag("a", label, href=href, title=title)
    return tag("div", heading, tag("div", inner), style=place, class_="tile group")


def link_node(index: str, node: str, *, listable: bool) -> str:
    """The page of a folder or of a file."""
    return link_to(f"/disk/{index}", node=node) if listable else f"/disk/{index}/nodes/{node}"


def format_counts(totals: Totals) -> str:
    """How many files and folders, and how many of them changed."""
    kinds = {"file": totals.files, "folder": totals.folders}
    parts = [count_of(number, what) for what, number in kinds.items() if number] or ["nothing"]
    if totals.stale:
        parts.append(f"{totals.stale:,} changed or gone since")
    return " · ".join(parts)


def list_choices(app: App, index: str, work: Work, but: str = "") -> list[Markup]:
    """The newest sets of a folder, to choose one of them."""
    found = list_sets(app.disk, work.caller, limit=_CHOICES, cursor=None)
    return [
        tag("option", show_name(row.set.name), value=row.set.id)
        for row in found.rows
        if row.set.index == index and row.set.id != but
    ]


def show_entry_table(entries: SetEntries, *, ticks: bool = True) -> Markup:
    """Entries of a set as a table."""
    heads = [
        tag("th", "Tick", class_="tick", scope="col") if ticks else None,
        tag("th", "Name", scope="col"),
        tag("th", "Size", class_="number", scope="col"),
    ]
    return html.show_rows(
        heads, [_show_member(entries, row, ticks=ticks) for row in entries.page.rows]
    )


def _show_member(entries: SetEntries, row: Member, *, ticks: bool) -> Markup:
    index, name = entries.set.index, show_name(row.name)
    handle = join_node(index, row.id)
    folder = entries.paths.get(row.id, "").rpartition("/")[0]
    directory = row.node is not None and KINDS[row.node.kind] == "directory"
    link = tag("a", name, href=f"/disk/{index}/nodes/{handle}", class_="open")
    return tag(
        "tr",
        tag("td", show_tick(handle, name), class_="tick") if ticks else None,
        tag("td", tag("i", class_="kind folder-icon" if directory else "kind", aria_hidden="true"),
            link if row.node else name, "/" if directory else None,
            tag("span", folder, class_="folder beside-name") if folder else None,
            tag("span", row.stale, class_="badge warn") if row.stale else None),
        tag("td", html.show_size(row.size), class_="number"),
    )  # fmt: skip


def show_name_field(label: str) -> Markup:
    """The field for the name of a new set."""
    return tag("input", name="name", class_="field", placeholder="its name", maxlength=200,
               aria_label=label, autocomplete="off")  # fmt: skip


def show_tick(node: str, name: str) -> Markup:
    """The checkbox of a row."""
    return tag("input", type="checkbox", name="node_ids", value=node, aria_label=f"Select {name}")


def show_node_page(app: App, index_id: IndexParam, node_id: NodeParam, *, work: Work) -> Content:
    """A file: its metadata, and its beginning."""
    detail = inspect_node(app.disk, *find_node(app.disk, work.caller, node_id, index_id))
    index, node = detail.index, detail.node
    kind, name = KINDS[node.kind], show_path(node.name)
    facts: list[tuple[str, str | Markup]] = [
        ("Size", html.show_size(node.size)),
        ("On disk", html.show_size(node.disk)),
        ("Changed", html.show_age(show_epoch(node.mtime_ms))),
        ("Permissions", tag("code", show_permissions(kind, node.mode))),
        ("Kind", kind),
    ]
    if node.target:
        facts.append(("Target", tag("code", show_path(node.target))))
    above = join_node(index.id, node.parent) if node.parent else None
    address, api = f"/disk/{index_id}", f"/api/indexes/{index_id}/nodes/{node_id}"
    return frame(
        name,
        "/disk",
        tag("div", tag("h1", name),
            tag("p", tag("code", show_path(detail.path)),
                tag("a", "Parent folder", href=link_to(address, node=above)) if above else None,
                tag("a", "Open", href=link_to(address, node=node_id))
                if node.listable else None,
                tag("a", "Download", href=f"{api}/download") if detail.shown else None,
                class_="facts"), class_="head"),
        html.show_facts(facts),
        None if node.listable else [tag("h2", "Beginning"), _show_beginning(app, detail, api)],
        kind="disk",
    )  # fmt: skip


def _show_beginning(app: App, detail: NodeDetail, api: str) -> Markup:
    if not detail.shown:
        return show_note("The contents cannot be shown")
    try:
        preview = preview_file(app.disk, detail.index, detail.node)
    except SondeError as error:
        return show_note(error.user_message, tag("p", error.next_action))
    if isinstance(preview.body, bytes):
        return tag("img", src=f"{api}/preview", alt=show_path(detail.node.name))
    if not preview.body:
        return show_note("This file is empty")
    return tag("pre", tag("code", preview.body), class_="prose", tabindex="0")
