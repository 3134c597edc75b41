"""What a whole report tells about a file, beyond what its title says; pure."""

from collections import Counter
from collections.abc import Mapping, Sequence

from sonde.ranking.features import (
    FileEvidence,
    compare_scores,
    read_name,
    spread_of,
    stem_words,
)
from sonde.ranking.reports import Places, Report, split_path
from sonde.ranking.short_forms import shorten
from sonde.ranking.words import fold_name
from sonde.tokens import find_words, split_identifier, unique

TOLD: Mapping[str, str] = {
    "told_lexical_top": "mean standard score of its three best chunks by the report's words",
    "told_lexical_rel": "its best chunk by the report's words against the best of all",
    "told_dense_rel": "the same by the meaning of the report's sentences",
    "told_stem": "share of the file name's words that the report says anywhere",
    "told_path": "the report names the file by its path or dotted name",
    "told_frame": "a frame of a stack trace is in it; the innermost counts most",
    "defines_told": "defines names that stand in code spans or are dotted; rare ones count more",
}


def measure_told(report: Report, files: Sequence[FileEvidence]) -> list[dict[str, float]]:
    """One row of features per file, to be added to those that the title gives."""
    lexical = spread_of([score for file in files for score in file.told_lexical])
    dense = spread_of([score for file in files for score in file.told_dense])
    said = {shorten(p) for word in find_words(report.body) for p in split_identifier(word)}
    frames = _place_frames(report, files)
    defined = [_names_defined(file) for file in files]
    names = _rate_names(report.spelled, defined)
    places = Places(report.paths)
    rows = []
    for at, file in enumerate(files):
        state = file.state
        words = stem_words(state.path, state.stem)
        top, rel = compare_scores(file.told_lexical, lexical)
        rows.append(
            {
                "told_lexical_top": top,
                "told_lexical_rel": rel,
                "told_dense_rel": compare_scores(file.told_dense, dense)[1],
                "told_stem": sum(word in said for word in words) / len(words) if words else 0.0,
                "told_path": places.rate(state.path) / 2,
                "told_frame": frames.get(state.path, 0.0),
                "defines_told": names[at],
            }
        )
    return rows


def _place_frames(report: Report, files: Sequence[FileEvidence]) -> dict[str, float]:
    """Path -> how near its last frame is to where the error was raised, 1 at the place itself."""
    ends: dict[tuple[str, ...], list[str]] = {}
    for file in files:
        # a lone stem such as `base` is in too many paths to mean one
        ends.setdefault(tuple(split_path(file.state.path)[-2:]), []).append(file.state.path)
    order = unique(
        path
        for frame in reversed(report.frames)
        for end in (frame[-2:], frame[-3:-1] if frame[-1] == "__init__" else ())
        for path in ends.get(end, ())
    )
    return {path: 1 / (1 + at) for at, path in enumerate(order)}


def _names_defined(file: FileEvidence) -> set[str]:
    return {read_name(symbol.name)[0] for symbol in file.symbols}


def _rate_names(names: Sequence[str], defined: Sequence[set[str]]) -> list[float]:
    """Per file the names it defines, each shared among all that define it; the best has 1."""
    wanted = {fold_name(part) for name in names for part in (name.rsplit(".", 1)[-1],)} - {""}
    found = [wanted & own for own in defined]
    holders = Counter(name for own in found for name in own)
    sums = [sum(1 / holders[name] for name in own) for own in found]
    most = max(sums, default=0.0)
    return [value / most if most else 0.0 for value in sums]
