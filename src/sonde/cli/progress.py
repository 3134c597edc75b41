"""Progress on a terminal: one line that rewrites itself, with rate and time left."""

from __future__ import annotations

import time
from types import TracebackType
from typing import Self, TextIO

from sonde.cli.terminal import Screen, cut_line, escape_controls
from sonde.types import Progress

_BAR_WIDTH = 24
_EIGHTHS = " ▏▎▍▌▋▊▉"
_REDRAW_S = 0.08


class ProgressLine:
    """Draws `Progress` on a terminal; says nothing elsewhere."""

    def __init__(self, stream: TextIO, screen: Screen) -> None:
        self._stream = stream
        self._screen = screen
        self._drawn_at = 0.0
        self._stage = ""
        self._visible = False

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.clear()

    def show(self, progress: Progress) -> None:
        """Draw, unless something was drawn a moment ago."""
        now = time.monotonic()
        finished = progress.total is not None and progress.done >= progress.total
        if not self._screen.tty or (
            progress.stage == self._stage and not finished and now - self._drawn_at < _REDRAW_S
        ):
            return
        self._drawn_at, self._stage, self._visible = now, progress.stage, True
        text = cut_line(describe_progress(progress), (self._screen.width or 80) - 1)
        self._stream.write(f"\r\x1b[K{text}")
        self._stream.flush()

    def clear(self) -> None:
        """Take the line away, so that what follows starts clean."""
        if self._visible:
            self._stream.write("\r\x1b[K")
            self._stream.flush()
            self._visible = False


def describe_progress(progress: Progress) -> str:
    """One line: stage, bar, counts, rate and time left."""
    parts = [escape_controls(progress.stage)]
    if progress.total:
        share = min(1.0, progress.done / progress.total)
        parts += [draw_bar(share), f"{share:4.0%}", f"{progress.done:,}/{progress.total:,}"]
    elif progress.done:
        parts.append(f"{progress.done:,}")
    if progress.rate:
        parts.append(f"{progress.rate:,.0f}/s")
    if progress.eta_s is not None and progress.total and progress.done < progress.total:
        parts.append(f"{format_seconds(progress.eta_s)} left")
    if progress.message:
        parts.append(escape_controls(progress.message))
    return "  ".join(parts)


def draw_bar(share: float, width: int = _BAR_WIDTH) -> str:
    """A bar filled to `share`, fine to an eighth of a cell."""
    eighths = round(share * width * 8)
    full, rest = divmod(eighths, 8)
    bar = "█" * full + (_EIGHTHS[rest] if rest else "")
    return f"▕{bar:<{width}}▏"


def format_seconds(seconds: float) -> str:
    """A duration as people say it: 0.4s, 12s, 3m05s, 2h10m."""
    if seconds < 9.95:
        return f"{seconds:.1f}s"
    whole = round(seconds)
    if whole < 60:
        return f"{whole}s"
    minutes, rest = divmod(whole, 60)
    return f"{minutes}m{rest:02}s" if minutes < 60 else f"{minutes // 60}h{minutes % 60:02}m"
