"""Tunes the layers for questions and those for code together: a question is to be nearest to its
own definition among those of the same package.

    python3 training/tune_code.py GRAPH.onnx VOCABULARY OUT PAIRS.jsonl.gz... --prose TEXTS.jsonl.gz
        [--seconds 430] [--share 0.8] [--notes FILE...] [--cosqa FOLDER]

GRAPH is the bundled model, PAIRS are mined (mine_wheels.py, mine_debs.py, mine_repositories.py),
TEXTS are everyday ones (collect_prose.py). Definitions are read as an index holds them: path, name,
and the opening without comments. A batch holds a few hundred definitions of each of a few packages,
half of them neighbours in their files, since those are what a search has to tell apart. What is
read with its comments, and prose, stays where it was, and so does the order that questions give to
documented code. The tables of pieces and places are frozen. OUT gets `layer.safetensors` and
`code.safetensors` (fp16, in parts), SHARE of the tuned weights and the rest of the old. Meant for a
GPU; notes and CoSQA are only measured.
"""

from __future__ import annotations

import argparse
import gzip
import json
import random
import re
import time
from collections import Counter, defaultdict
from collections.abc import Iterator
from multiprocessing import Pool
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812
from distil_code import diverge, embed
from distil_prose import describe
from model import Encoder, blend, split_file, write_safetensors
from prepare_deep import PROSE, ask_in_keywords, clean, document, find_name
from read_onnx import read_graph
from torch import Tensor
from train_deep import Texts, encode

from sonde.embedding.onnx import CLOSING, OPENING, BytePairs
from sonde.embedding.static import read_vocabulary
from sonde.ranking.evidence import OPENING_CHARS
from sonde.ranking.passages import split_comments
from sonde.text.words import split_identifier

QUESTION, PASSAGE = 96, 192  # pieces
ROWS, OF_ONE = 3_072, 384  # pairs in a batch, and of one package
LEAST_OF_ONE = 40  # packages with fewer definitions are not drawn
MOST_OF_ONE = 3_500
KEPT = 1_024  # texts in a batch that are to stay
TEMPERATURE, ORDER_TEMPERATURE = 0.02, 0.05
KEEP_CODE, KEEP_PROSE, KEEP_DOCUMENTED, KEEP_ORDER = 0.3, 30.0, 20.0, 3.0
WARM_UP = 100  # steps
_METHOD = re.compile(r"class (\w+)\n(?=\s*(?:@|async|def))")
_TYPE = re.compile(
    r"\s*(?:(?:export|public|abstract|final|pub|typedef|static) )*"
    r"(?:class|struct|interface|trait|enum|type)\b"
)
_SENTENCE = re.compile(r"(?<=[.!?])\s")
_pieces: BytePairs | None = None


def read_lines(files: list[Path]) -> Iterator[dict[str, str]]:
    for path in files:
        with gzip.open(path, "rt", encoding="utf-8") as lines:
            yield from map(json.loads, lines)


def ask(pair: dict[str, str], name: str, coin: random.Random) -> str:
    """Mostly the first sentence of the description; or all, its keywords, the name's words."""
    opening, _, said = pair["q"].partition(" ")
    query = said if opening == name and len(said.split()) > 3 else pair["q"]
    first = _SENTENCE.split(query)[0].strip(" .")
    drawn = coin.random()
    if drawn < 0.6:
        return first if len(first.split()) >= 4 else query
    if drawn < 0.75:
        return query
    if drawn < 0.9:
        return ask_in_keywords(first, pair["k"], coin)
    return " ".join(split_identifier(name))


def write_definition(pair: dict[str, str], name: str, question: str) -> str:
    """A definition as `sonde.indexing.definitions` writes it, without a name that is asked for."""
    is_name = question == " ".join(split_identifier(name))
    text = pair.get("text") or _write(pair, name)
    return re.sub(rf"\b{re.escape(name)}\b", " ", text) if is_name else text


def _write(pair: dict[str, str], name: str) -> str:
    code, scope = pair["c"], ""
    if pair["k"] == "python" and (method := _METHOD.match(code)):
        scope, code = f"{method.group(1)}.", code[method.end() :]
    if not _TYPE.match(code):
        code = split_comments(code)[0]
    return f"{pair['p']} {scope}{name}\n{code[:OPENING_CHARS]}"


class Material:
    """Questions and definitions by package, and the texts that stay."""

    def __init__(self, options: argparse.Namespace) -> None:
        coin = random.Random(1)
        packages: dict[str, list[tuple[dict[str, str], str]]] = defaultdict(list)
        self.kept: list[str] = []
        for row in read_lines(options.pairs):
            if "text" in row:
                packages[row["g"]].append((row, row["n"].rpartition(".")[2]))
            elif (pair := clean(row)) and pair["k"] in PROSE:
                self.kept += [pair["q"], pair["c"][:500]]
            elif pair and (name := find_name(pair["c"])):
                packages[pair["g"]].append((pair, name))
        self.kept += [row["t"] for row in read_lines(options.prose)]
        self.questions: list[str] = []
        self.definitions: list[str] = []
        self.documented: list[str] = []
        self.packages: list[range] = []
        self.kinds: list[str] = []
        """The language of each package."""
        for found in packages.values():
            start = coin.randrange(max(1, len(found) - MOST_OF_ONE))
            first = len(self.questions)
            for pair, name in found[start : start + MOST_OF_ONE]:
                question = ask(pair, name, coin)
                if len(question.split()) < 2:
                    continue
                self.questions.append(question)
                self.definitions.append(write_definition(pair, name, question))
                if coin.random() < 0.2:
                    place = f"{pair['p']}\n" * (coin.random() < 0.6)
                    whole = pair["c"] if "text" in pair else document(pair)
                    self.documented.append(place + whole[:700])
            self.kinds.append(Counter(pair["k"] for pair, _ in found).most_common(1)[0][0])
            self.packages.append(range(first, len(self.questions)))


def prepare(vocabulary: Path) -> None:
    global _pieces
    _pieces = BytePairs(read_vocabulary(vocabulary.parent, vocabulary.name))


def encode_text(job: tuple[str, int]) -> list[int]:
    assert _pieces is not None
    text, limit = job
    return [_pieces.id_of(OPENING), *_pieces.encode(text, limit - 2), _pieces.id_of(CLOSING)]


class Packer:
    """Texts -> token ids on the device, by all processors."""

    def __init__(self, vocabulary: Path, device: str) -> None:
        self.pool, self.device = Pool(None, prepare, (vocabulary,)), device

    def pack(self, texts: list[str], limit: int) -> Texts:
        rows = self.pool.map(encode_text, [(text, limit) for text in texts], 500)
        sizes = np.fromiter(map(len, rows), np.int64, len(rows))
        return Texts(np.concatenate([np.array(row, np.uint16) for row in rows]), sizes, self.device)


class Meter:
    """What the layers do on sets that nothing is trained on."""

    def __init__(self, options: argparse.Namespace, packer: Packer) -> None:
        self.sets = []
        others: list[str] = []
        for path in options.notes:
            own = [json.loads(line) for line in path.read_text("utf-8").splitlines()]
            asked = [(row["question"], i) for i, row in enumerate(own) if row.get("question")]
            notes = [row["note"] for row in own] + others
            others = notes
            self._add(path.stem, packer, asked, notes, is_code=False)
        if options.cosqa:
            functions = json.loads((options.cosqa / "functions.json").read_text("utf-8"))
            queries = json.loads((options.cosqa / "queries.json").read_text("utf-8"))
            asked = [(query["query"], query["id"]) for query in queries]
            self._add("CoSQA", packer, asked, functions, is_code=True)

    def _add(
        self,
        name: str,
        packer: Packer,
        asked: list[tuple[str, int]],
        texts: list[str],
        *,
        is_code: bool,
    ) -> None:
        right = torch.tensor([at for _, at in asked], device=packer.device)
        questions = packer.pack([question for question, _ in asked], 128)
        self.sets.append((name, questions, packer.pack(texts, 256), right, is_code))

    def measure(self, asking: Encoder, code: Encoder) -> str:
        said = []
        for name, questions, texts, right, is_code in self.sets:
            scores = (
                embed(asking, questions, 512) @ embed(code if is_code else asking, texts, 512).T
            )
            said.append(f"{name} {describe(scores, right)}")
        return "; ".join(said)


def weigh_packages(material: Material) -> Tensor:
    """How often each package of some size is drawn: small ones and rare languages more often."""
    total = Counter[str]()
    for package, kind in zip(material.packages, material.kinds, strict=True):
        total[kind] += len(package)
    return torch.tensor([
        len(package) ** 0.75 * total[kind] ** -0.3
        for package, kind in zip(material.packages, material.kinds, strict=True)
        if len(package) >= LEAST_OF_ONE
    ])  # fmt: skip


def draw_batch(packages: list[range], weights: Tensor) -> list[int]:
    """Definitions of a few packages: of every second, neighbours."""
    chosen: list[int] = []
    for at in torch.multinomial(weights, min(len(packages), 24)).tolist():
        package = packages[at]
        size = min(len(package), OF_ONE, ROWS - len(chosen))
        if random.random() < 0.5:
            start = random.randrange(len(package) - size + 1)
            chosen += package[start : start + size]
        else:
            chosen += random.sample(package, size)
    return chosen


def train(options: argparse.Namespace, device: str) -> tuple[Encoder, Encoder]:
    kind = torch.bfloat16 if device == "cuda" else torch.float32
    material, packer = Material(options), Packer(options.vocabulary, device)
    questions = packer.pack(material.questions, QUESTION)
    definitions = packer.pack(material.definitions, PASSAGE)
    prose, documented = packer.pack(material.kept, 128), packer.pack(material.documented, PASSAGE)
    meter = Meter(options, packer)
    layers, code_layers = (
        {n: torch.from_numpy(w.copy()) for n, w in read_graph(options.graph, part).items()}
        for part in ("layer", "code")
    )
    old, old_code = (Encoder(w, kind, 0.0).to(device) for w in (layers, code_layers))
    print(f"{len(material.questions):,} pairs; before: {meter.measure(old, old_code)}", flush=True)
    was_asked, was_prose = embed(old, questions, 4_096), embed(old, prose, 4_096)
    was_code, was_documented = (embed(old_code, t, 4_096) for t in (definitions, documented))
    asking, code = (Encoder(w, kind, 0.05).to(device) for w in (layers, code_layers))
    for model in (asking, code):
        for name, weight in zip(model.names, model.weights, strict=True):
            weight.requires_grad_(not name.startswith("embeddings."))
    learning = [w for m in (asking, code) for w in m.weights if w.requires_grad]
    optimiser = torch.optim.AdamW(learning, lr=options.rate, weight_decay=0.01)
    packages = [package for package in material.packages if len(package) >= LEAST_OF_ONE]
    weights = weigh_packages(material)
    same_question, same_code = questions.hash(), definitions.hash()
    began, step, done, told = time.monotonic(), 0, 0.0, 0.0
    while done < 1:
        asking.train(), code.train()
        done = (time.monotonic() - began) / options.seconds
        for group in optimiser.param_groups:
            group["lr"] = options.rate * min(1, step / WARM_UP) * max(0.01, 1 - done)
        at = torch.tensor(draw_batch(packages, weights), device=device)
        asked, found = encode(asking, questions, at, 3), encode(code, definitions, at, 4)
        equal = same_question[at][:, None] == same_question[at]
        equal |= same_code[at][:, None] == same_code[at]
        equal.fill_diagonal_(fill_value=False)
        scores = (asked @ found.T / TEMPERATURE).masked_fill(equal, -1e4)
        own = torch.arange(len(at), device=device)
        loss = F.cross_entropy(scores, own) + 0.5 * F.cross_entropy(scores.T, own)
        loss = loss + KEEP_CODE * far(found, was_code[at])
        kept = torch.randint(len(prose), (KEPT,), device=device)
        loss = loss + KEEP_PROSE * far(encode(asking, prose, kept, 3), was_prose[kept])
        kept = torch.randint(len(documented), (KEPT,), device=device)
        whole = encode(code, documented, kept, 3)
        loss = loss + KEEP_DOCUMENTED * far(whole, was_documented[kept])
        few = at[:KEPT]
        order = was_asked[few] @ was_documented[kept].T / ORDER_TEMPERATURE
        loss = loss + KEEP_ORDER * diverge(asked[:KEPT] @ whole.T / ORDER_TEMPERATURE, order)
        optimiser.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(learning, 1.0)
        optimiser.step()
        step += 1
        if time.monotonic() - told > 60:
            told = time.monotonic()
            print(f"{told - began:.0f} s, step {step}, loss {loss:.3f}: ", end="", flush=True)
            print(meter.measure(asking, code), flush=True)
    mixed = [
        Encoder(blend(before, after.export(), options.share), kind, 0.0).to(device)
        for before, after in ((old.export(), asking), (old_code.export(), code))
    ]
    print(f"{options.share} of it: {meter.measure(*mixed)}", flush=True)
    return mixed[0], mixed[1]


def far(made: Tensor, wanted: Tensor) -> Tensor:
    return 1 - (made * wanted).sum(1).mean()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    for name in ("graph", "vocabulary", "out"):
        parser.add_argument(name, type=Path)
    parser.add_argument("pairs", type=Path, nargs="+")
    parser.add_argument("--prose", type=Path, nargs="+", required=True)
    parser.add_argument("--notes", type=Path, nargs="*", default=[])
    parser.add_argument("--cosqa", type=Path)
    parser.add_argument("--seconds", type=float, default=430)
    parser.add_argument("--rate", type=float, default=4e-4)
    parser.add_argument("--share", type=float, default=0.8, help="of the tuned weights")
    parser.add_argument("--part", type=int, default=15_000_000)
    options = parser.parse_args()
    torch.manual_seed(0)
    random.seed(1)
    tuned = train(options, "cuda" if torch.cuda.is_available() else "cpu")
    options.out.mkdir(parents=True, exist_ok=True)
    for name, model in zip(("layer", "code"), tuned, strict=True):
        data = write_safetensors(model.export())
        split_file(data, options.out / f"{name}.safetensors", options.part)


if __name__ == "__main__":
    main()
