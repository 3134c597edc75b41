"""Teaches three layers to read code as the bundled six do: the deep model's half for code.

    python3 training/distil_code.py TEACHER.safetensors VOCABULARY OUT PAIRS.jsonl.gz...
        [--seconds 430] [--held-out WORD...]

The student begins with three of the teacher's layers and keeps its tables of pieces and places as
they are, so that one file holds both. It learns where the teacher puts each passage of code, and
how near that is to other passages and to questions; questions are always the teacher's. Pairs
whose path holds one of the words are kept for measuring. Meant for a GPU with 20 GB; writes
`OUT/code.safetensors.0`, `.1`, ... (fp16; `cat` joins them).
"""

from __future__ import annotations

import argparse
import gzip
import json
import random
import time
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812
from model import Encoder, read_parts, read_safetensors, split_file, write_safetensors
from torch import Tensor
from train_deep import PROSE, Texts

from sonde.embedding.onnx import CLOSING, OPENING, BytePairs
from sonde.embedding.static import read_vocabulary

KEPT = (0, 2, 5)  # of the teacher's layers
LENGTH = 256
PROBES = 2_048  # questions that each batch is compared with
TEMPERATURE = 0.05
COSINE_SHARE = 10  # of the loss: the vectors themselves, beside the order of their neighbours
WARM_UP = 300  # steps


def read_texts(
    files: list[Path], vocabulary: Path, held_out: list[str], device: str
) -> tuple[Texts, Texts, Tensor]:
    """Passages of code, half of them with their path as in an index, their questions, and which
    passages are for measuring."""
    pieces = BytePairs(read_vocabulary(vocabulary.parent, vocabulary.name))
    draw = random.Random(0)
    passages, questions, held = [], [], []
    for file in files:
        with gzip.open(file, "rt", encoding="utf-8") as lines:
            for pair in map(json.loads, lines):
                if pair["k"] in PROSE:
                    continue
                passages.append(f"{pair['p']}\n" * (draw.random() < 0.5) + pair["c"])
                questions.append(pair["q"])
                held.append(any(word in pair["p"] for word in held_out))
    return (
        pack(pieces, passages, device),
        pack(pieces, questions, device),
        torch.tensor(held, device=device),
    )


def pack(pieces: BytePairs, texts: list[str], device: str) -> Texts:
    opening, closing = pieces.id_of(OPENING), pieces.id_of(CLOSING)
    rows = [[opening, *pieces.encode(text, LENGTH - 2), closing] for text in texts]
    sizes = np.array([len(row) for row in rows])
    return Texts(np.concatenate([np.array(row) for row in rows]), sizes, device)


def choose_layers(weights: dict[str, Tensor]) -> dict[str, Tensor]:
    """The teacher's tables and the kept ones of its layers, counted anew."""
    chosen = {name: w for name, w in weights.items() if not name.startswith("encoder.layer.")}
    for new, old in enumerate(KEPT):
        prefix = f"encoder.layer.{old}."
        for name, w in weights.items():
            if name.startswith(prefix):
                chosen[f"encoder.layer.{new}.{name.removeprefix(prefix)}"] = w
    return chosen


@torch.no_grad()
def embed(model: Encoder, texts: Texts, batch: int) -> Tensor:
    model.eval()
    parts = texts.sizes.argsort().split(batch)
    made = torch.cat([model(*texts.take(part)) for part in parts])
    vectors = torch.empty_like(made)
    vectors[torch.cat(parts)] = made
    return vectors


def compare(student: Tensor, teacher: Tensor, probes: Tensor) -> Tensor:
    """How far the student's passages are from the teacher's: each by itself, its order of the
    batch and of questions, and the questions' order of the batch."""
    far = 1 - (student * teacher).sum(1).mean()
    others = torch.cat([teacher, probes])
    itself = torch.zeros(len(teacher), len(others), device=teacher.device)
    itself.fill_diagonal_(1e4)  # a passage is no neighbour of itself
    by_passage = diverge(
        student @ others.T / TEMPERATURE - itself, teacher @ others.T / TEMPERATURE - itself
    )
    by_question = diverge(probes @ student.T / TEMPERATURE, probes @ teacher.T / TEMPERATURE)
    return COSINE_SHARE * far + by_passage + by_question


def diverge(scores: Tensor, wanted: Tensor) -> Tensor:
    return F.kl_div(scores.log_softmax(-1), wanted.softmax(-1), reduction="batchmean")


def measure(student: Tensor, teacher: Tensor, asked: Tensor) -> str:
    """MRR of held-out questions among all held-out passages, and the cosine of the passages."""
    found = []
    for passages in (student, teacher):
        scores = asked @ passages.T
        rank = (scores > scores.diagonal()[:, None]).sum(1)
        found.append(float((1 / (1 + rank)).mean()))
    cosine = float((student * teacher).sum(1).mean())
    return f"MRR {found[0]:.4f} (teacher {found[1]:.4f}), cosine {cosine:.4f}"


def train(options: argparse.Namespace, device: str) -> Encoder:
    kind = torch.bfloat16 if device == "cuda" else torch.float32
    passages, questions, held = read_texts(
        options.pairs, options.vocabulary, options.held_out, device
    )
    weights = read_safetensors(read_parts(options.teacher))
    teacher = Encoder(weights, kind, 0.0).to(device)
    wanted, asked = (
        embed(teacher, passages, options.batch),
        embed(teacher, questions, options.batch),
    )
    student = Encoder(choose_layers(weights), kind, 0.0).to(device)
    for name, weight in zip(student.names, student.weights, strict=True):
        weight.requires_grad_(not name.startswith("embeddings."))
    learning = [weight for weight in student.weights if weight.requires_grad]
    optimiser = torch.optim.AdamW(learning, lr=options.rate, weight_decay=0.01)
    by_length = passages.sizes.argsort()
    batches = list(by_length[~held[by_length]].split(options.batch))
    probes = asked[~held]
    began, step, epoch, done = time.monotonic(), 0, 0, 0.0
    while done < 1:
        student.train()
        for at in torch.randperm(len(batches)).tolist():
            done = (time.monotonic() - began) / options.seconds
            if done >= 1:
                break
            for group in optimiser.param_groups:
                group["lr"] = options.rate * min(1, step / WARM_UP) * max(0.01, 1 - done)
            chosen = torch.randint(len(probes), (PROBES,), device=device)
            made = student(*passages.take(batches[at]))
            loss = compare(made, wanted[batches[at]], probes[chosen])
            optimiser.zero_grad(set_to_none=True)
            loss.backward()
            torch.nn.utils.clip_grad_norm_(learning, 1.0)
            optimiser.step()
            step += 1
        epoch += 1
        line = f"{time.monotonic() - began:.0f} s, epoch {epoch}, step {step}, loss {loss:.3f}"
        if held.any():
            made = embed(student, passages, options.batch)[held]
            line += f": {measure(made, wanted[held], asked[held])}"
        print(line, flush=True)
    return student


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("teacher", type=Path)
    parser.add_argument("vocabulary", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("pairs", type=Path, nargs="+")
    parser.add_argument("--held-out", nargs="*", default=[])
    parser.add_argument("--seconds", type=float, default=430)
    parser.add_argument("--batch", type=int, default=1024)
    parser.add_argument("--rate", type=float, default=6e-4)
    parser.add_argument("--part", type=int, default=23_000_000)
    options = parser.parse_args()
    torch.manual_seed(0)
    student = train(options, "cuda" if torch.cuda.is_available() else "cpu")
    options.out.mkdir(parents=True, exist_ok=True)
    data = write_safetensors(student.export())
    split_file(data, options.out / "code.safetensors", options.part)


if __name__ == "__main__":
    main()
