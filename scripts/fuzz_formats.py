"""Mutated exports and documents against the importer: nothing may get past a refusal.

    python scripts/fuzz_formats.py [--count 3000] [--seed 8] [--repos FOLDER] [--keep FOLDER]

Seeds are the files of the tests, one of every format, and with `--repos` the real samples of
`samples.py`. Each mutant goes through the limited child as an import would send it. What comes in
must be storable, findable and lossless through an export; everything else must be a refusal with a
reason. Parsers that were too slow or crashed are listed: the import survives them, but they are
defects of a parser or of its bounds.
"""

from __future__ import annotations

import argparse
import io
import random
import sys
import tempfile
import time
import zipfile
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "scripts")]

from samples import SAMPLES, take_out  # noqa: E402
from tests.knowledge.samples import write_samples  # noqa: E402

from sonde.knowledge.editing import export_lines, restore_lines  # noqa: E402
from sonde.knowledge.formats import File, RefusedFormat  # noqa: E402
from sonde.knowledge.importing import REASONS  # noqa: E402
from sonde.knowledge.parsing import Parsers  # noqa: E402
from sonde.policy.admit import REASONS as ADMITTED  # noqa: E402
from sonde.stores.knowledge.base import Entry  # noqa: E402
from sonde.stores.knowledge.sqlite import SqliteKnowledge  # noqa: E402

SECONDS = 10.0  # of processor time, which a busy machine does not change
MEMORY = 1 << 30
LARGEST = 1 << 20
WORRIES = ("crashed", "too_slow")
MAGIC = (
    b"\0", b"\xff" * 4, b"\x7f\xff\xff\xff", b"\xed\xa0\x80", b"\xef\xbb\xbf", b"\xff\xfe", b"\r",
    b"\n\n", b"99999999999999999999", b"-1", b"NaN", b"1e999", b"null", b"[]", b"{}", b'"', b"<",
    b"&a;", b"]]>", b"![" * 5_000, b"<v " * 5_000, b"1" * 50_000, b"`" * 5_000, b"#a" * 5_000,
    b"<!DOCTYPE x [<!ENTITY a 'b'>]>", b"../" * 8, b"[" * 5_000, b"{" * 5_000, b"<b>" * 5_000,
    b"a" * 100_000, "\u202e\u0000é😀".encode(), b"From ", b"---\n", b"-->", b"#", b"%PDF-",
    b"PK\x03\x04",
)  # fmt: skip


def main() -> int:
    """Run, and tell what came of it."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--count", type=int, default=3_000)
    parser.add_argument("--seed", type=int, default=8)
    parser.add_argument("--repos", type=Path)
    parser.add_argument("--keep", type=Path, help="where to write the files that were a problem")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        seeds = collect_seeds(Path(place) / "seeds", options.repos)
        run = Run(Path(place), options.keep, random.Random(options.seed))
        began = time.monotonic()
        for at in range(options.count):
            run.try_one(seeds, at)
        run.finish()
    took = time.monotonic() - began
    print(f"{options.count:,} mutants of {len(seeds)} files in {took:.0f} s: ", end="")
    print(", ".join(f"{count:,} {reason}" for reason, count in run.outcomes.most_common()))
    for problem in run.problems:
        print(problem)
    return 1 if run.problems else 0


def collect_seeds(folder: Path, repos: Path | None) -> list[tuple[str, bytes]]:
    """Path and bytes of every file to begin with."""
    (folder / "made").mkdir(parents=True)
    write_samples(folder / "made")
    for at, sample in enumerate(SAMPLES if repos else ()):
        assert repos
        take_out(sample, repos, folder / str(at))
    found = sorted(path for path in folder.rglob("*") if path.is_file())
    small = [path for path in found if 0 < path.stat().st_size <= LARGEST]
    # so many files of one kind say nothing that a few do not
    few: Counter[tuple[str, str]] = Counter()
    kept = []
    for path in small:
        group = path.relative_to(folder).parts[0], path.suffix
        few[group] += 1
        if few[group] <= (12 if group[0] != "made" else 99):
            kept.append((path.relative_to(folder).as_posix().partition("/")[2], path.read_bytes()))
    return kept


class Run:
    """Mutants tried so far."""

    def __init__(self, folder: Path, keep: Path | None, chance: random.Random) -> None:
        self._store = SqliteKnowledge(folder / "store")
        self._other = SqliteKnowledge(folder / "other")
        self._parsers = Parsers(memory=MEMORY, seconds=SECONDS)
        self._keep = keep
        self._chance = chance
        self.outcomes: Counter[str] = Counter()
        self.problems: list[str] = []

    def try_one(self, seeds: list[tuple[str, bytes]], at: int) -> None:
        """Mutate a file and bring it in."""
        path, data = self._chance.choice(seeds)
        mutant = mutate(data, self._chance, self._chance.choice(seeds)[1])
        try:
            made = list(self._parsers.parse(File(path, mutant, 1)).read())
            self.outcomes["came in"] += 1
            self._check(made)
        except RefusedFormat as error:
            self.outcomes[error.reason] += 1
            if error.reason not in {*REASONS, *ADMITTED}:
                self._tell(path, mutant, f"a reason without words: {error.reason}", at)
            if error.reason in WORRIES:
                self._tell(path, mutant, error.reason, at)
        except Exception as error:  # noqa: BLE001 - finding these is what this is for
            self._tell(path, mutant, f"{type(error).__name__}: {error}", at)

    def finish(self) -> None:
        """What was kept must still be readable as a whole."""
        lines = list(export_lines(self._store))
        restore_lines(self._other, lines)
        if list(export_lines(self._other)) != lines:
            self.problems.append("an export and its restoration differ")
        self._parsers.close()
        self._store.close()
        self._other.close()

    def _check(self, made: list[Entry]) -> None:
        for entry in made:
            (key,) = self._store.put(entry.source, [entry])
            kept = self._store.get(entry.source, key)
            assert kept is not None, "what was put is not there"
            texts = [piece.text for piece in kept.pieces]
            given = [piece.text for piece in entry.pieces]
            assert texts == given or not given, "a text changed in the store"

    def _tell(self, path: str, data: bytes, problem: str, at: int) -> None:
        self.problems.append(f"mutant {at} of {path} ({len(data):,} bytes): {problem}")
        if self._keep:
            self._keep.mkdir(parents=True, exist_ok=True)
            (self._keep / f"{at}-{Path(path).name}").write_bytes(data)


def mutate(data: bytes, chance: random.Random, other: bytes) -> bytes:
    """A few changes of the bytes, or of a file inside where it is an archive."""
    if data.startswith(b"PK\x03\x04") and chance.random() < 0.7:
        return mutate_archive(data, chance, other)
    for _ in range(chance.choice((1, 1, 2, 5, 20))):
        at = chance.randrange(len(data) + 1) if data else 0
        size = chance.choice((1, 1, 4, 64, 4_096))
        match chance.randrange(8):
            case 0:
                data = data[:at]
            case 1:
                data = data[:at] + data[at + size :]
            case 2:
                data = data[:at] + chance.choice(MAGIC) + data[at:]
            case 3:
                data = data[:at] + chance.choice(MAGIC) + data[at + size :]
            case 4:
                data = data[:at] + chance.randbytes(size) + data[at + size :]
            case 5:
                data = data[:at] + data[max(0, at - size) : at] * chance.choice((2, 50)) + data[at:]
            case 6:
                begin = chance.randrange(len(other) + 1)
                data = data[:at] + other[begin : begin + size] + data[at:]
            case _:
                mixed = bytearray(data)
                for _ in range(min(len(mixed), size)):
                    mixed[chance.randrange(len(mixed))] ^= 1 << chance.randrange(8)
                data = bytes(mixed)
        data = data[: 4 * LARGEST]
    return data


def mutate_archive(data: bytes, chance: random.Random, other: bytes) -> bytes:
    """The same inside one file of an archive, which stays a sound archive."""
    made = io.BytesIO()
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            names = archive.namelist()
            chosen = chance.choice(names)
            with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as out:
                for name in dict.fromkeys(names):
                    body = archive.read(name)
                    if name == chosen:
                        body = mutate(body, chance, other)
                    out.writestr(chance.choice(("../" + name, name, name, name)), body)
    except (zipfile.BadZipFile, ValueError, NotImplementedError):
        return data[: len(data) // 2]
    return made.getvalue()


if __name__ == "__main__":
    sys.exit(main())
