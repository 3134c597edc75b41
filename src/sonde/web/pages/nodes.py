"""Nodes as several pages show them: the map of a folder, the entries of a set, sets to choose."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from zlib import crc32

from sonde.app import App
from sonde.disk.listing import list_folder
from sonde.disk.scope import place_node
from sonde.disk.sets import list_sets
from sonde.disk.trees import Disk, SetEntries, join_node
from sonde.errors import SondeError
from sonde.runtime.work import Work
from sonde.stores.disk.base import DiskIndex, Member, Node, Totals
from sonde.stores.disk.filters import KINDS
from sonde.text.formats import count_of
from sonde.tools.shapes.shell import show_name
from sonde.web.pages.html import Markup, link_to, show_rows, show_size, tag

_CHOICES = 50  # the newest sets; a longer menu is hard to choose from
_MAX_TILES = 60  # boxes of one folder; more are too small to point at
_MIN_SHARE = 0.002  # of the folder: smaller ones share one box
_MIN_OPEN_SHARE = 0.05  # of the whole map: larger folders show their contents
_NO_EXTENSION_HUE = 170  # degrees: a green-blue


@dataclass(frozen=True, slots=True)
class Box:
    """A rectangle."""

    x: float
    y: float
    width: float
    height: float


def lay_out(sizes: Sequence[float], box: Box) -> list[Box]:
    """One box for each size, in the same order; sizes are positive, largest first."""
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
    """The worst ratio of sides in a row."""
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
    """A box of the map: a node, or the small ones of a folder together."""

    name: str
    size: int
    node: str
    listable: bool
    inner: tuple[Tile, ...] = ()


def show_map(disk: Disk, index: DiskIndex, node: Node) -> Markup | None:
    """The largest nodes of a folder and of each large folder in it; each box links to its node."""
    total = node.size or 1
    tiles = []
    for tile, child in _read_tiles(disk, index, node, total):
        inner: tuple[Tile, ...] = ()
        if child and child.listable and child.size / total > _MIN_OPEN_SHARE:
            inner = tuple(each for each, _ in _read_tiles(disk, index, child, child.size))
        tiles.append(replace(tile, inner=inner))
    if not tiles:
        return None
    boxes = lay_out([tile.size for tile in tiles], _SHAPE)
    shown = [_show_tile(index.id, tile, box) for tile, box in zip(tiles, boxes, strict=True)]
    return tag("section", shown, class_="map", aria_label="Map of sizes")


def _read_tiles(
    disk: Disk, index: DiskIndex, folder: Node, size: int
) -> list[tuple[Tile, Node | None]]:
    try:
        place = place_node(disk, index, folder)
        found = list_folder(disk, place, folder, limit=_MAX_TILES, sort="size", compare=False)

    except SondeError:  # it disappeared while the map was drawn
        return []
    nodes = [entry.node for entry in found.page.rows if entry.node and entry.size]
    tiles: list[tuple[Tile, Node | None]] = [
        (Tile(show_name(each.name), each.size, join_node(index.id, each.id), each.listable), each)
        for each in nodes
    ]
    rest = size - sum(each.size for each in nodes)
    if rest > size * _MIN_SHARE:
        # the small ones share a box, so that each box has its share of the whole
        handle = join_node(index.id, folder.id)
        tiles.append((Tile("the rest", rest, handle, listable=True), None))
    return sorted(tiles, key=lambda tile: -tile[0].size)


def _show_tile(index: str, tile: Tile, box: Box, shape: Box = _SHAPE) -> Markup:
    _, dot, extension = tile.name.rpartition(".")
    # the colour of an extension is the same everywhere
    hue = crc32(extension.lower().encode("utf-8", "replace")) % 360 if dot else _NO_EXTENSION_HUE
    place = (
        f"left:{100 * (box.x - shape.x) / shape.width:.3f}%;"
        f"top:{100 * (box.y - shape.y) / shape.height:.3f}%;"
        f"width:{100 * box.width / shape.width:.3f}%;"
        f"height:{100 * box.height / shape.height:.3f}%;--hue:{hue}"
    )
    title = f"{tile.name}, {show_size(tile.size)}"
    href = link_node(index, tile.node, listable=tile.listable)
    large = min(box.width, box.height) > 4 and box.width > 8
    roomy = box.height > 7 and box.width > 10
    size = [" ", show_size(tile.size)] if roomy else None
    label = [tag("b", tile.name), size] if large else None
    if not tile.inner or not large or box.height < 14:
        name = None if large else title
        return tag("a", label, href=href, style=place, title=title, aria_label=name,
                   class_="tile folder-tile" if tile.listable else "tile")  # fmt: skip
    within = Box(0, 0, box.width, box.height - 4)
    boxes = lay_out([each.size for each in tile.inner], within)
    return tag(
        "div",
        tag("a", label, href=href, title=title),
        tag("div", [_show_tile(index, each, at, within)
                    for each, at in zip(tile.inner, boxes, strict=True)]),
        style=place, class_="tile group",
    )  # fmt: skip


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
    return show_rows(heads, [_show_member(entries, row, ticks=ticks) for row in entries.page.rows])


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
        tag("td", show_size(row.size), class_="number"),
    )  # fmt: skip


def show_name_field(label: str) -> Markup:
    """The field for the name of a new set."""
    return tag("input", name="name", class_="field", placeholder="its name", maxlength=200,
               aria_label=label, autocomplete="off")  # fmt: skip


def show_tick(node: str, name: str) -> Markup:
    """The checkbox of a row."""
    return tag("input", type="checkbox", name="node_ids", value=node, aria_label=f"Tick {name}")
