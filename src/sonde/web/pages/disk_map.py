"""A folder as a map: each thing as large as it is, large folders with what is in them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from zlib import crc32

from sonde.web.pages.html import Markup, link_to, tag
from sonde.web.pages.widgets import show_size


@dataclass(frozen=True, slots=True)
class Box:
    """A rectangle."""

    x: float
    y: float
    width: float
    height: float


def lay_out(sizes: Sequence[float], box: Box) -> list[Box]:
    """One box for each size, in the same order; sizes are positive and the largest come first."""
    total = sum(sizes)
    if not total:
        return []
    scale = box.width * box.height / total
    boxes: list[Box] = []
    waiting = [size * scale for size in sizes]
    while waiting:
        side = min(box.width, box.height)
        count = 1
        while count < len(waiting) and _is_squarer(waiting[: count + 1], waiting[:count], side):
            count += 1
        row, waiting = waiting[:count], waiting[count:]
        placed, box = _place_treemap(row, box)
        boxes += placed
    return boxes


def _is_squarer(longer: Sequence[float], row: Sequence[float], side: float) -> bool:
    return _find_worst(longer, side) <= _find_worst(row, side)


def _find_worst(row: Sequence[float], side: float) -> float:
    """How long the longest box of a row is for its width."""
    area = sum(row)
    thick = area / side if side else 0.0
    if not thick:
        return float("inf")
    return max(max(thick * thick / size, size / (thick * thick)) for size in row)


def _place_treemap(row: Sequence[float], box: Box) -> tuple[list[Box], Box]:
    """The row along the shorter side, and what is left of the box."""
    area = sum(row)
    upright = box.width >= box.height
    side, room = (box.height, box.width) if upright else (box.width, box.height)
    thick = min(area / side, room) if side else 0.0
    placed: list[Box] = []
    done = 0.0
    for size in row:
        # shares of the side, not areas by thickness: what is left is rounded, the side is not
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


def show_map(index: str, rows: Sequence[Mapping[str, Any]]) -> Markup | None:
    """The map; every box leads to what it shows."""
    if not rows:
        return None
    tiles = [
        _show_tile(index, row, box)
        for row, box in zip(rows, _place(rows, _SHAPE), strict=True)
    ]  # fmt: skip
    return tag("section", tiles, class_="map", aria_label="Map of sizes")


def _place(rows: Sequence[Mapping[str, Any]], shape: Box) -> list[Box]:
    return lay_out([row["size"] for row in rows], shape)


def _show_tile(index: str, row: Mapping[str, Any], box: Box, shape: Box = _SHAPE) -> Markup:
    place = (
        f"left:{100 * (box.x - shape.x) / shape.width:.3f}%;"
        f"top:{100 * (box.y - shape.y) / shape.height:.3f}%;"
        f"width:{100 * box.width / shape.width:.3f}%;"
        f"height:{100 * box.height / shape.height:.3f}%;--hue:{_choose_hue(row)}"
    )
    told = f"{row['name']}, {show_size(row['size'])}"
    large = min(box.width, box.height) > 4 and box.width > 8
    roomy = box.height > 7 and box.width > 10
    size = [" ", show_size(row["size"])] if roomy else None
    label = [tag("b", row["name"]), size] if large else None
    inner = row.get("inner") or ()
    if not inner or not large or box.height < 14:
        name = None if large else told
        return tag("a", label, href=link_entry(index, row), style=place, title=told,
                   aria_label=name, class_="tile folder-tile" if "counts" in row else "tile",
                   )  # fmt: skip
    within = Box(0, 0, box.width, box.height - 4)
    boxes = lay_out([each["size"] for each in inner], within)
    return tag(
        "div",
        tag("a", label, href=link_entry(index, row), title=told),
        tag("div", [_show_tile(index, {**each, "inner": None}, at, within)
                    for each, at in zip(inner, boxes, strict=True)]),
        style=place, class_="tile group",
    )  # fmt: skip


def link_entry(index: str, row: Mapping[str, Any]) -> str:
    """The page of a folder or of a file."""
    if "counts" in row:
        return link_to(f"/disk/{index}", node=row["nodeId"])
    return f"/disk/{index}/nodes/{row['nodeId']}"


def _choose_hue(row: Mapping[str, Any]) -> int:
    """One colour for each extension, the same everywhere."""
    _, dot, extension = row["name"].rpartition(".")
    return crc32(extension.lower().encode("utf-8", "replace")) % 360 if dot else 170
