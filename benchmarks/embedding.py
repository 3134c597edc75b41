"""How fast the bundled models are: chunks per second of CPU, loading, memory.

    python benchmarks/embedding.py [--texts FOLDER] [--model deep:FOLDER ...]

Real code (this package's own source, or --texts) cut to about the given number of pieces, and
as an index cuts it. CPU seconds, because they stay comparable on a shared machine; wall time is in
brackets. A model given as deep:FOLDER (an fp32 export, say) is measured beside the bundled ones,
in turns, for passages and for passages of code.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from pathlib import Path

from sonde.chunking.parse import parse_source
from sonde.embedding.base import Embedder, Mode
from sonde.embedding.onnx import BytePairs, OnnxEmbedder
from sonde.embedding.static import BUNDLED, StaticEmbedder, read_vocabulary

SOURCE = Path(__file__).parents[1] / "src"


def read_texts(folder: Path, tokens: int, most: int) -> list[str]:
    """Consecutive pieces of real files, each of about so many pieces."""
    pieces = BytePairs(read_vocabulary(BUNDLED, "deep-vocab.txt"))
    texts: list[str] = []
    for path in sorted(folder.rglob("*.py")):
        text, start = path.read_text("utf-8", errors="replace"), 0
        while start < len(text) and len(texts) < most:
            size = tokens * 5
            while len(pieces.encode(text[start : start + size], tokens + 1)) > tokens:
                size -= 20
            texts.append(text[start : start + size])
            start += size
    return texts


def read_chunks(folder: Path, most: int) -> list[str]:
    """Chunks as an index has them, of files spread over the folder."""
    paths = sorted(folder.rglob("*.py"))
    texts: list[str] = []
    for path in paths[:: max(1, len(paths) // most)]:
        name, text = path.relative_to(folder).as_posix(), path.read_text("utf-8", errors="replace")
        cut = parse_source(name, text, kind="code", method="syntax")
        texts += [chunk.embedded_text for chunk in cut.chunks[:3]]
    return texts[:most]


def measure(model: Embedder, texts: list[str], mode: Mode = "passage") -> tuple[float, float]:
    """Texts per CPU second and per second, of a loaded model that has not seen the texts."""
    model.embed(["loads the model"], mode)
    cpu, wall = time.process_time(), time.perf_counter()
    model.embed(texts, mode)
    return len(texts) / (time.process_time() - cpu), len(texts) / (time.perf_counter() - wall)


def measure_deep(names: list[str], texts: list[str], threads: int) -> dict[str, tuple[float, ...]]:
    """The best of three turns of every model and mode."""
    modes: tuple[Mode, ...] = ("passage", "code")
    found: dict[str, tuple[float, ...]] = {}
    for _ in range(3):
        for name in names:
            _, _, folder = name.partition(":")
            model = OnnxEmbedder(threads, Path(folder) if folder else BUNDLED, name)
            for mode in modes:
                now, key = measure(model, texts, mode), f"{name}, {mode}"
                found[key] = tuple(map(max, now, found.get(key, now)))
            model.close()
    return found


def measure_start(provider: str) -> tuple[float, float, float]:
    """Milliseconds to import, to load and embed one query, and the megabytes it added."""
    code = (
        "import time, numpy; a = time.process_time()\n"
        "from sonde.embedding.base import load_provider\n"
        f"model = load_provider({provider!r}); b = time.process_time()\n"
        "rss = lambda: int(open('/proc/self/statm').read().split()[1]) * 4096 / 1e6\n"
        "before = rss(); model.embed(['one question'], 'query'); c = time.process_time()\n"
        "model.embed(['def f(x):\\n    return open(x).read()\\n' * 60] * 64, 'passage')\n"
        "print((b - a) * 1e3, (c - b) * 1e3, rss() - before)"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    importing, loading, memory = map(float, out.stdout.split())
    return importing, loading, memory


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--texts", type=Path, default=SOURCE)
    parser.add_argument("--model", action="append", default=[], help="deep:FOLDER")
    options = parser.parse_args()
    print("| model | import, CPU ms | load + first query, CPU ms | memory, MB |\n|---|---|---|---|")
    for name in ("static", "deep"):
        importing, loading, memory = measure_start(name)
        print(f"| {name} | {importing:.0f} | {loading:.0f} | {memory:.0f} |")
    print("\n| model | tokens | threads | chunks per CPU s | (per s) |\n|---|---|---|---|---|")
    for tokens in (128, 256, "as indexed"):
        whole = isinstance(tokens, str)
        texts = read_chunks(options.texts, 96) if whole else read_texts(options.texts, tokens, 4000)
        per_cpu, per_second = measure(StaticEmbedder(), texts)
        print(f"| static | {tokens} | 1 | {per_cpu:,.0f} | ({per_second:,.0f}) |")
        for threads in (1, 2):
            found = measure_deep(["deep", *options.model], texts[:96], threads)
            for name, (per_cpu, per_second) in found.items():
                print(f"| {name} | {tokens} | {threads} | {per_cpu:.1f} | ({per_second:.1f}) |")


if __name__ == "__main__":
    main()
