"""Sizes as rectangles in a rectangle, as square as they can be (Bruls, Huizing, van Wijk 2000)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


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
        placed, box = _place(row, box)
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


def _place(row: Sequence[float], box: Box) -> tuple[list[Box], Box]:
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
