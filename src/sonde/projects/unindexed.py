"""Search without an index: files are chosen by their words and indexed temporarily.

Every admitted file is read once and its words are counted; the few files that fit best are indexed
in a temporary folder and ranked like any others.
"""

from __future__ import annotations

import math
import tempfile
import time
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from sonde.embedding.base import Embedder
from sonde.indexing.diff import Diff
from sonde.indexing.pipeline import update_index
from sonde.indexing.preparing import Workers
from sonde.projects.freshness import KnownFiles
from sonde.projects.lines import LineScan, narrow_scope
from sonde.projects.project import Project
from sonde.runtime.work import Work
from sonde.types import Kind, ListedFile, Skipped

NO_INDEX = (
    "There is no index yet: answered by words from the files as they are. An index (create_index, "
    "or `sonde index`) makes searches fast and finds by meaning."
)
_RANKED_FILES = 30  # that are chunked and ranked: about a fifth of a second
_MOST_TERMS = 32  # of a long question; more say little and cost a pass over every file each
_READING_S = 5.0  # how long files are read before an answer says that these were not all
_SATURATION, _LENGTH_SHARE = 1.2, 0.75  # k1 and b of BM25, as the index ranks words


@contextmanager
def index_best_files(
    project: Project,
    terms: Sequence[str],
    kinds: Collection[Kind],
    scan: LineScan,
    static: Mapping[Kind, Embedder],
    work: Work,
) -> Iterator[tuple[Project, str]]:
    """A temporary project of the files that fit best, and how many files were looked at."""
    entries = project.part(KnownFiles).candidates.look(project.tree.sources).entries
    wanted = [path for path in narrow_scope(scan, entries) if project.tree.kind_of(path) in kinds]
    best, read = _choose_files(project, [entries[path] for path in wanted], terms, work)
    covered = f"{read} files" if read == len(wanted) else f"the first {read} of {len(wanted)} files"
    with tempfile.TemporaryDirectory(prefix="sonde-") as folder:
        scratch = project.with_folder(Path(folder))
        try:
            stores = scratch.stores()
            changed = [(kind, one) for one in best if (kind := project.tree.kind_of(one.path))]
            diff = Diff(changed=changed, known={"code": {}, "docs": {}})
            update_index(project.tree, stores, static, work, diff, workers=Workers(0, ()))
            yield scratch, f"no index; {covered} as they are"
        finally:
            scratch.close()


def _choose_files(
    project: Project, entries: Sequence[ListedFile], terms: Sequence[str], work: Work
) -> tuple[list[ListedFile], int]:
    """The files whose words fit best, and how many files were read."""
    wanted = [term.encode() for term in terms[:_MOST_TERMS]]
    counted: dict[ListedFile, list[int]] = {}
    held: Counter[bytes] = Counter()
    until, read = time.monotonic() + _READING_S, 0
    with project.tree.open_reader() as reader:
        for entry in entries:
            if time.monotonic() > until:
                break
            work.check()
            read += 1
            # only counted here: what is shown is read again, and then searched for secrets
            text = reader.read_utf8(entry.path, raw=True)
            if isinstance(text, Skipped):
                continue
            data = text.data.lower()
            # a word in the path counts like a few in the text
            path = entry.path.lower().encode("utf-8", "surrogatepass")
            counts = [data.count(term) + 3 * path.count(term) for term in wanted]
            if any(counts):
                counted[entry] = counts
                held.update(term for term, count in zip(wanted, counts, strict=True) if count)
    average = sum(entry.size for entry in counted) / max(len(counted), 1)
    weights = [math.log(1 + read / (1 + held[term])) for term in wanted]

    def score(entry: ListedFile) -> tuple[float, str]:
        long = 1 - _LENGTH_SHARE + _LENGTH_SHARE * entry.size / max(average, 1)
        counts = counted[entry]
        fits = sum(w * c / (c + _SATURATION * long) for w, c in zip(weights, counts, strict=True))
        return -fits, entry.path

    return sorted(counted, key=score)[:_RANKED_FILES], read
