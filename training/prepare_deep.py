"""Pairs and base weights -> parts that `train_deep.py` reads with numpy and torch alone.

    python training/prepare_deep.py training/data/deep BASE PAIRS.jsonl.gz...
        [--cosqa DIR --queries queries.json --corpora DIR --cranfield DIR]

BASE is the folder that `prepare_base.py` wrote. No language has more than its share, rare
ones are seen from two sides, and a quarter of the pairs is prose. Questions take the shapes that
people give them: a description, a few key words, a split identifier, several paragraphs. Whole
files are held out. The benchmarks' tokens come along only to be measured. Every part stays under
`--part` bytes.
"""

from __future__ import annotations

import argparse
import gzip
import hashlib
import io
import json
import random
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

import numpy as np
from evaluate import place, read_chunks

from sonde.embedding.onnx import CLOSING, OPENING, BytePairs
from sonde.embedding.static import read_vocabulary
from sonde.text.words import split_identifier

QUERY, LONG_QUERY, PASSAGE, MEASURED_PASSAGE = 64, 128, 192, 256
HELD_CODE, HELD_PROSE = 1500, 500
FAMILIES = {
    "h": "c", "cc": "c", "cpp": "c", "hpp": "c", "hxx": "c", "hh": "c", "mjs": "js", "ts": "js",
}  # fmt: skip
CAPS = {"python": 72_000, "java": 32_000, "c": 36_000}
RARE = frozenset(("rs", "hs", "rb", "scala", "cs", "js", "kt", "ex", "lua", "sh"))
SPOKEN = {
    "rs": "rust", "hs": "haskell", "rb": "ruby", "cs": "c#", "js": "javascript", "kt": "kotlin",
    "ex": "elixir", "sh": "bash", "go": "golang",
}  # fmt: skip
PROSE = ("docstring", "prose")
_COMMENT_BLOCK = re.compile(r"\A(?:\s*#[^\n]*\n)+")
_RIGHTS = re.compile(r"copyright|licen[sc]e", re.IGNORECASE)
_NAME = re.compile(
    r"\b(?:def|func|fn|function|class|struct|interface|trait|module|object|fun|type|defp?)\s+"
    r"(?:\([^)]*\)\s*)?(?:self\.)?([A-Za-z_]\w{4,60})|\b([A-Za-z_]\w{4,60})\s*\([^;=]*\)\s*[\w\s,]*\{"
)
_LINK = re.compile(r"!?\[([^\]\[]*)\]\s*\([^)]*\)")
_SENTENCE = re.compile(r"(?<=[.!?])\s+(?=[A-Z])")
_SMALL_WORDS = frozenset(
    "a an the this that these those is are be been was were will it its of for by with and or if"
    " given returns return as at which".split()
)


@dataclass(frozen=True, slots=True)
class Row:
    """A question and its passage; `limit` is the question's in tokens."""

    query: str
    passage: str
    family: str
    limit: int = QUERY


def read_pairs(files: Iterable[Path]) -> Iterator[dict[str, str]]:
    for path in files:
        with gzip.open(path, "rt", encoding="utf-8") as file:
            yield from map(json.loads, file)


def clean(pair: dict[str, str]) -> dict[str, str] | None:
    """A pair without badges and licence headers, or None where little remains."""
    query = " ".join(_LINK.sub(r"\1", _LINK.sub(r"\1", pair["q"])).split())
    code, kind = pair["c"], pair["k"]
    if kind == "python" and (head := _COMMENT_BLOCK.match(code)) and _RIGHTS.search(head.group()):
        code = code[head.end() :]
    first = code.lstrip("\n").split("\n", 1)[0]
    inside = FAMILIES.get(kind, kind) == "c" and first[:1] in " \t" and "{" not in code
    if len(query.split()) < 2 or len(code.strip()) < 60 or inside:
        return None
    return pair | {"q": query, "c": code, "k": FAMILIES.get(kind, kind)}


def is_held_out(path: str) -> bool:
    return hashlib.blake2b(path.encode(), digest_size=2).digest() < b"\x05\x00"


def place_passage(pair: dict[str, str], coin: random.Random) -> str:
    """In an index a passage has its path in front; not always, so that neither is relied upon."""
    if coin.random() < 0.5:
        return pair["c"]
    return " ".join(PurePosixPath(pair["p"]).parts[-3:]) + "\n" + pair["c"]


def ask_in_keywords(query: str, family: str, coin: random.Random) -> str:
    """As people type it into a search box: few words, the language's name among them or not."""
    sentence = re.split(r"[.;:]\s", query)[0].rstrip(".")
    words = [word for word in sentence.split() if word.lower() not in _SMALL_WORDS][:9]
    if len(words) < 2:
        return query
    name = SPOKEN.get(family, family)
    start, end = coin.choice(((name, ""), ("", name), ("", ""), (f"{name} how to", "")))
    return f"{start} {' '.join(words)} {end}".strip()


def document(pair: dict[str, str]) -> str:
    """A definition with its description back in its place, as files hold it."""
    if pair["k"] != "python":
        return f"// {pair['q']}\n{pair['c']}"
    head, colon, body = pair["c"].partition(":\n")
    return f'{head}{colon}    """{pair["q"]}"""\n{body}' if colon else pair["c"]


def find_name(code: str) -> str:
    found = _NAME.search(code[:400])
    return (found.group(1) or found.group(2)) if found else ""


def view_sides(
    pair: dict[str, str], near: dict[str, str] | None, coin: random.Random
) -> Iterator[Row]:
    """The rows that one pair gives."""
    family, query = pair["k"], pair["q"]
    if family in PROSE:
        yield Row(query, place_passage(pair, coin), family)
        sentences = _SENTENCE.split(pair["c"])
        usable = [i for i, s in enumerate(sentences) if 6 <= len(s.split()) <= 45]
        if len(sentences) > 3 and usable:
            asked = coin.choice(usable)
            rest = " ".join(s for i, s in enumerate(sentences) if i != asked)
            yield Row(" ".join(sentences[asked].split()), rest, family)
        return
    # A chunk of an index often holds more than the one definition that answers.
    crowded = near is not None and len(pair["c"]) < 700 and coin.random() < 0.25
    whole = pair if not crowded else {**pair, "c": _join(pair["c"], near["c"][:600], coin)}
    name = find_name(pair["c"])
    words = split_identifier(name)
    opening, _, said = query.partition(" ")
    # Go's comments begin with the name of what they describe; who asks does not know it.
    if opening == name and len(said.split()) > 3 and coin.random() < 0.7:
        query = said
    if coin.random() < 0.14:
        query = ask_in_keywords(query, family, coin)
    yield Row(query, place_passage(whole, coin), family)
    if len(words) >= 2 and coin.random() < (0.7 if family in RARE else 0.4):
        asked = " ".join(words)
        if coin.random() < 0.5:
            asked = ask_in_keywords(asked, family, coin)
        documented = document(pair) if coin.random() < 0.6 else pair["c"]
        yield Row(asked, re.sub(rf"\b{re.escape(name)}\b", " ", documented), family)


def _join(code: str, other: str, coin: random.Random) -> str:
    return f"{code}\n\n{other}" if coin.random() < 0.5 else f"{other}\n\n{code}"


def make_rows(pairs: list[dict[str, str]], coin: random.Random) -> Iterator[Row]:
    """Every view of every pair, and long questions: a whole docstring -> its code."""
    counts = Counter(pair["k"] for pair in pairs)
    explained = {(p["p"], p["q"]): p["c"] for p in pairs if p["k"] == "docstring"}
    for i, pair in enumerate(pairs):
        if coin.random() > CAPS.get(pair["k"], 10**9) / counts[pair["k"]]:
            continue
        near = pairs[i + 1] if i + 1 < len(pairs) and pairs[i + 1]["p"] == pair["p"] else None
        yield from view_sides(pair, near if near and near["k"] == pair["k"] else None, coin)
        more = explained.get((pair["p"], pair["q"])) if pair["k"] == "python" else None
        if more:
            yield Row(f"{pair['q']}\n{more}", place_passage(pair, coin), "python", LONG_QUERY)


class Tokens:
    """Rows of token ids under construction, closed by the special tokens."""

    def __init__(self, folder: Path) -> None:
        self.pieces = BytePairs(read_vocabulary(folder, "deep-vocab.txt"))
        self.ends = self.pieces.id_of(OPENING), self.pieces.id_of(CLOSING)

    def encode(self, text: str, limit: int) -> np.ndarray:
        ids = self.pieces.encode(text, limit - 2)
        return np.array([self.ends[0], *ids, self.ends[1]], np.uint16)


def pack(name: str, rows: list[np.ndarray]) -> dict[str, np.ndarray]:
    return {
        f"{name}_ids": np.concatenate(rows),
        f"{name}_sizes": np.array([len(row) for row in rows], np.uint16),
    }


def encode_rows(rows: Iterable[Row], tokens: Tokens) -> dict[str, list]:
    """Tokens of distinct rows that still say something."""
    seen: set[bytes] = set()
    found: dict[str, list] = {"query": [], "passage": [], "family": []}
    for row in rows:
        query = tokens.encode(row.query, row.limit)
        passage = tokens.encode(row.passage, PASSAGE)
        key = hashlib.blake2b(query.tobytes() + passage[:64].tobytes(), digest_size=8).digest()
        if len(query) < 5 or len(passage) < 18 or key in seen:
            continue
        seen.add(key)
        found["query"].append(query)
        found["passage"].append(passage)
        found["family"].append(row.family)
    return found


def pack_rows(found: dict[str, list], which: Iterable[int], families: list[str]) -> dict:
    chosen = list(which)
    return {
        **pack("query", [found["query"][i] for i in chosen]),
        **pack("passage", [found["passage"][i] for i in chosen]),
        "family": np.array([families.index(found["family"][i]) for i in chosen], np.uint8),
        "families": np.array(families),
    }


def write_pairs(found: dict[str, list], families: list[str], folder: Path, part: int) -> None:
    """As many parts of equal size as the limit asks for, rows at random."""
    order = np.random.default_rng(0).permutation(len(found["family"]))
    sample = io.BytesIO()
    np.savez_compressed(sample, **pack_rows(found, order[: len(order) // 10], families))
    parts = -(-int(sample.getbuffer().nbytes * 10.1) // part)
    for number, which in enumerate(np.array_split(order, parts)):
        np.savez_compressed(
            folder / f"pairs.{number}.npz", **pack_rows(found, which.tolist(), families)
        )


def choose_held_out(pairs: list[dict[str, str]], tokens: Tokens) -> dict[str, list]:
    coin = random.Random(2)
    coin.shuffle(pairs)
    code = [pair for pair in pairs if pair["k"] not in PROSE][:HELD_CODE]
    prose = [pair for pair in pairs if pair["k"] in PROSE][:HELD_PROSE]
    return encode_rows((Row(p["q"], p["c"], p["k"]) for p in code + prose), tokens)


def pack_benchmarks(options: argparse.Namespace, tokens: Tokens) -> Iterator[tuple[str, dict]]:
    """CoSQA and the labelled repositories: tokens, the file of each passage, the right files."""
    if options.cosqa:
        functions = json.loads((options.cosqa / "functions.json").read_text())
        asked = json.loads((options.cosqa / "queries.json").read_text())
        labels = [[question["id"]] for question in asked]
        files = list(range(len(functions)))
        yield (
            "cosqa",
            _pack_one(tokens, [q["query"] for q in asked], functions, files, labels, "CoSQA"),
        )
    if options.cranfield:
        docs, asked, judged = (
            json.loads((options.cranfield / f"cran_{kind}.json").read_text())
            for kind in ("docs", "queries", "qrels")
        )
        numbers = {str(doc["id"]): i for i, doc in enumerate(docs)}
        labels = [
            [numbers[str(j["id"])] for j in judged if str(j["query_num"]) == str(q["query number"])]
            for q in asked
        ]
        texts = [doc["body"] for doc in docs]
        questions = [q["query"] for q in asked]
        files = list(range(len(docs)))
        yield "cranfield", _pack_one(tokens, questions, texts, files, labels, "Cranfield")
    for entry in json.loads(options.queries.read_text()) if options.corpora else []:
        root = options.corpora / entry["name"]
        chunks = read_chunks(root)
        names = {path: i for i, path in enumerate(dict.fromkeys(path for path, _ in chunks))}
        labels = []
        for query in entry["queries"]:
            targets = [*query["relevant"], *query.get("secondary", [])]
            paths = {
                place(root, entry["root"], t if isinstance(t, str) else t["path"]) for t in targets
            }
            # A right file without chunks can never be found: it counts, as a number of its own.
            labels.append([names.get(path, -1 - i) for i, path in enumerate(sorted(paths))])
        texts = [f"{path.replace('/', ' ')}\n{text}" for path, text in chunks]
        files = [names[path] for path, _ in chunks]
        asked = [query["query"] for query in entry["queries"]]
        yield entry["name"], _pack_one(tokens, asked, texts, files, labels, entry["name"])


def _pack_one(
    tokens: Tokens,
    asked: list[str],
    texts: list[str],
    files: list[int],
    labels: list[list[int]],
    name: str,
) -> dict[str, np.ndarray]:
    print(f"{name}: {len(asked)} questions, {len(texts)} passages", flush=True)
    return {
        **pack("query", [tokens.encode(text, MEASURED_PASSAGE) for text in asked]),
        **pack("passage", [tokens.encode(text, MEASURED_PASSAGE) for text in texts]),
        "file": np.array(files, np.int32),
        "label": np.array([label for right in labels for label in right], np.int32),
        "label_sizes": np.array([len(right) for right in labels], np.int32),
    }


def split_base(base: Path, folder: Path, part: int) -> None:
    from model import split_file

    data = (base / "base.safetensors").read_bytes()
    split_file(data, folder / "base.safetensors", part)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("base", type=Path)
    parser.add_argument("pairs", type=Path, nargs="+")
    parser.add_argument("--part", type=int, default=23_000_000)
    parser.add_argument("--cosqa", type=Path)
    parser.add_argument("--queries", type=Path)
    parser.add_argument("--corpora", type=Path)
    parser.add_argument("--cranfield", type=Path)
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    split_base(options.base, options.folder, options.part)
    tokens = Tokens(options.base)
    benchmarks = {
        f"{name}.{key}": value
        for name, packed in pack_benchmarks(options, tokens)
        for key, value in packed.items()
    }
    if benchmarks:
        np.savez_compressed(options.folder / "benchmarks.npz", **benchmarks)
    pairs = [pair for pair in map(clean, read_pairs(options.pairs)) if pair]
    families = sorted({pair["k"] for pair in pairs})
    held = choose_held_out([pair for pair in pairs if is_held_out(pair["p"])], tokens)
    np.savez_compressed(
        options.folder / "held.npz", **pack_rows(held, range(len(held["family"])), families)
    )
    rows = make_rows([p for p in pairs if not is_held_out(p["p"])], random.Random(1))
    found = encode_rows(rows, tokens)
    write_pairs(found, families, options.folder, options.part)
    counts = Counter(found["family"])
    print(f"{len(found['family'])} rows, {len(held['family'])} held out", counts.most_common())
    for path in sorted(options.folder.iterdir()):
        print(f"{path.name}: {path.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
