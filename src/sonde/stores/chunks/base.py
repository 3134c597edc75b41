"""What a store promises; one protocol per kind, one contract suite per protocol."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Protocol

from sonde.types import (
    Chunk,
    Drift,
    FileState,
    Filter,
    Needs,
    ParsedFile,
    Scored,
    StoreCounts,
    Symbol,
)

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Vectors = NDArray[np.float32]
else:
    Vectors = object  # numpy is loaded by whoever computes, not by whoever lists tools


EVERYTHING = Filter()


class ChunkStore(Protocol):
    """The chunks of one index (a project's code, or its docs).

    Every write is atomic and durable when the method returns; a crash leaves the state before
    or after it. Any number of threads and processes may read while one writes, and a read sees
    the newest committed state. Scores are "higher is better"; ties are broken by path, then
    line, so that every ranking is totally ordered.
    """

    def generation(self) -> int:
        """A number that grows with every committed change, by whichever process."""

    def counts(self) -> StoreCounts:
        """Files, chunks, and bytes on disk."""

    def files(self) -> Mapping[str, FileState]:
        """Every indexed file by path."""

    def states(self, paths: Collection[str]) -> Mapping[str, FileState]:
        """The indexed ones of these files; the cheap way to look at a few."""

    def replace(self, files: Sequence[ParsedFile]) -> None:
        """Put these files in place of whatever was stored under their paths, in one step."""

    def touch(self, states: Sequence[FileState]) -> None:
        """Record new sizes and times of files whose content did not change."""

    def remove(self, paths: Collection[str]) -> None:
        """Forget these files, in one step; unknown paths are ignored."""

    def clear(self) -> None:
        """Forget everything."""

    def chunks(self, ids: Sequence[int]) -> list[Chunk]:
        """The chunks with these ids, in this order; ids that are gone are left out."""

    def chunks_of(self, path: str) -> list[Chunk]:
        """A file's chunks in file order; empty when the file is unknown."""

    def symbols_of(self, paths: Collection[str]) -> Mapping[str, list[Symbol]]:
        """What each of these files defines."""

    def tags(self) -> Mapping[str, tuple[str, ...]]:
        """The tags of each file whose content names some."""

    def paths_named(self, names: Collection[str]) -> set[str]:
        """Files whose stem, or a name they define, equals one of these (folded: lower case,
        no separators; `Foo.barBaz` is known as `barbaz` and as `foobarbaz`)."""

    def importers(self, stems: Collection[str]) -> Mapping[str, int]:
        """Folded stem -> how many files import it."""

    def lexical(self, terms: Sequence[str], limit: int, where: Filter = EVERYTHING) -> list[Scored]:
        """BM25 over path, defined names and text; `terms` come from `tokens.index_terms`."""

    def term_counts(self, terms: Collection[str]) -> Mapping[str, int]:
        """Term -> how many chunks hold it."""

    def trigram_candidates(self, needs: Needs, where: Filter = EVERYTHING) -> set[str]:
        """Files that can hold what is needed (strings of any length; letter case is ignored).

        A file that holds it is never missing, one that does not may be there. Strings shorter
        than three bytes exclude nothing.
        """

    def dense(
        self, model: str, vector: Vectors, limit: int, where: Filter = EVERYTHING
    ) -> list[Scored]:
        """Cosine similarity to the stored vectors of `model`; chunks without one are absent."""

    def vectors(self, model: str, ids: Sequence[int]) -> Mapping[int, Vectors]:
        """The stored unit vectors of these chunks under `model`, where they exist."""

    def put_vectors(self, model: str, digests: Sequence[bytes], vectors: Vectors) -> None:
        """Keep one unit vector per chunk digest; zero rows mean 'nothing to say' and are kept
        as such but never retrieved."""

    def known_digests(self, model: str, digests: Collection[bytes]) -> set[bytes]:
        """Which of these digests have a vector under `model`, in use or left from before."""

    def missing(self, model: str, limit: int) -> list[Chunk]:
        """Chunks whose digest has no vector under `model`, newest files first."""

    def coverage(self, model: str) -> tuple[int, int]:
        """How many chunks have a vector under `model`, and how many there are."""

    def models(self) -> list[str]:
        """The models of which any vector is kept, by name."""

    def compact(self) -> None:
        """Give back the space of what was replaced; never blocks a reader for long."""

    def tidy(self) -> None:
        """Compact if what was replaced takes much room; costs next to nothing if not."""

    def rest(self) -> None:
        """Let go of what is only kept at hand for speed; the next use takes it up again."""

    def verify(self) -> list[str]:
        """What is broken inside the store, in words; empty when all is well."""

    def find_drift(self, check: Callable[[], None], *, thorough: bool) -> Drift:
        """What does not fit together, told apart by what mends it; `IndexCorrupt` when nothing
        can. `thorough` looks at every word too; `check` is called between steps and may raise."""

    def drop_broken(self) -> None:
        """Remove rows that belong to nothing and vectors that are damaged."""

    def close(self) -> None:
        """Release files and connections; the store cannot be used after."""
