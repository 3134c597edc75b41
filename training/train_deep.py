"""Fine-tunes the encoder: a question is to be nearest to its own passage among thousands.

    python3 training/train_deep.py training/data/deep OUT [--seconds 300]

Reads what `prepare_deep.py` wrote, needs torch and numpy alone, and writes the weights as
`OUT/tuned.safetensors.0`, `.1`, ... (fp16; `cat` joins them). Half of the batches hold one
language only; after the first epoch every question also meets a passage that the model so far
confuses with the right one. On prose the order that the base model gives is kept, so that
documents do not get worse. The learning rate falls to nothing at the last step or at `--seconds`,
whichever comes first.
"""

from __future__ import annotations

import argparse
import math
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812
from model import Encoder, blend, read_parts, read_safetensors, split_file, write_safetensors
from torch import Tensor
from train_static import draw_batches

PROSE = ("docstring", "prose")
MEASURED_SHARES = (1.0, 0.85, 0.7, 0.55)


class Texts:
    """Many texts as one flat array of token ids."""

    def __init__(self, ids: np.ndarray, sizes: np.ndarray, device: str) -> None:
        self.ids = torch.from_numpy(ids.astype(np.int32)).to(device)
        self.sizes = torch.from_numpy(sizes.astype(np.int64)).to(device)
        self.starts = torch.cumsum(self.sizes, 0) - self.sizes

    def __len__(self) -> int:
        return len(self.sizes)

    def take(self, which: Tensor) -> tuple[Tensor, Tensor]:
        """Ids and mask of some texts, as wide as the longest, in eights."""
        sizes = self.sizes[which]
        width = -(-int(sizes.max()) // 8) * 8
        inside = torch.arange(width, device=sizes.device)
        mask = inside < sizes[:, None]
        at = (self.starts[which][:, None] + inside).clamp(max=len(self.ids) - 1)
        return self.ids[at].long() * mask, mask

    def hash(self) -> Tensor:
        """Equal texts have equal numbers (others hardly ever)."""
        random = torch.Generator().manual_seed(7)
        words = torch.randint(2**62, (65536,), generator=random).to(self.ids.device)
        owner = torch.repeat_interleave(torch.arange(len(self), device=words.device), self.sizes)
        place = torch.arange(len(self.ids), device=words.device) - self.starts[owner]
        total = torch.zeros(len(self), dtype=torch.int64, device=words.device)
        return total.index_add_(0, owner, words[self.ids.long()] * (2 * place + 1))


class Pairs:
    """Questions, their passages and what language those are in."""

    def __init__(self, files: list[Path], device: str) -> None:
        parts = [np.load(path) for path in files]
        join = {
            name: np.concatenate([part[name] for part in parts])
            for name in ("query_ids", "query_sizes", "passage_ids", "passage_sizes", "family")
        }
        self.queries = Texts(join["query_ids"], join["query_sizes"], device)
        self.passages = Texts(join["passage_ids"], join["passage_sizes"], device)
        self.family = join["family"]
        names = parts[0]["families"].tolist()
        self.is_prose = np.isin(self.family, [names.index(name) for name in PROSE])


def encode(model: Encoder, texts: Texts, which: Tensor, slices: int) -> Tensor:
    """Vectors in the order asked for; texts of like length are padded together."""
    order = torch.argsort(texts.sizes[which])
    parts = [model(*texts.take(which[part])) for part in order.tensor_split(slices) if len(part)]
    return torch.cat(parts)[torch.argsort(order)]


@torch.no_grad()
def encode_all(model: Encoder, texts: Texts, block: int = 4096) -> Tensor:
    model.eval()
    order = torch.argsort(texts.sizes)
    parts = [model(*texts.take(part)) for part in order.split(block)]
    return torch.cat(parts)[torch.argsort(order)]


@torch.no_grad()
def find_hard(
    model: Encoder, pairs: Pairs, same: Tensor, options: argparse.Namespace
) -> tuple[Tensor, float]:
    """For each question one wrong passage out of the nearest; too near ones may well be right."""
    asked, found = encode_all(model, pairs.queries), encode_all(model, pairs.passages)
    own = (asked * found).sum(1)
    found = found.to(model.dtype)
    chosen = []
    for rows in torch.arange(len(asked), device=asked.device).split(2048):
        near = (asked[rows].to(model.dtype) @ found.T).float().topk(options.depth)
        usable = near.values < options.margin * own[rows, None]
        usable &= same[near.indices] != same[rows, None]
        first = usable & (usable.cumsum(1) <= options.choices)
        pick = (torch.rand(first.shape, device=asked.device) + first).argmax(1)
        wrong = near.indices.gather(1, pick[:, None])[:, 0]
        chosen.append(torch.where(first.any(1), wrong, -1))
    hard = torch.cat(chosen)
    missing = hard < 0
    hard[missing] = torch.randint(len(hard), (int(missing.sum()),), device=hard.device)
    return hard, 1 - float(missing.float().mean())


def measure_rank(scores: Tensor) -> float:
    rank = 1 + (scores > scores.diag()[:, None]).sum(1)
    return float((1 / rank).mean())


def measure_held_out(model: Encoder, held: Pairs) -> str:
    """MRR of code among code, of prose among prose."""
    asked, found = encode_all(model, held.queries), encode_all(model, held.passages)
    prose = torch.from_numpy(held.is_prose).to(asked.device)
    code, text = (measure_rank(asked[kind] @ found[kind].T) for kind in (~prose, prose))
    return f"held-out code {code:.4f} prose {text:.4f}"


def measure_gain(files: list[int], right: set[int]) -> float:
    gain = sum(1 / math.log2(i + 2) for i, file in enumerate(files[:10]) if file in right)
    return gain / sum(1 / math.log2(i + 2) for i in range(min(10, len(right))))


class Benchmarks:
    """Labelled questions, only ever measured: CoSQA's MRR and NDCG@10 over repositories."""

    def __init__(self, path: Path, device: str, most: int) -> None:
        data = np.load(path) if path.exists() else {}
        names = dict.fromkeys(key.rsplit(".", 1)[0] for key in data)
        self.sets = {}
        for name in names:
            part = {key: data[f"{name}.{key}"] for key in ("file", "label", "label_sizes")}
            right = np.split(part["label"], np.cumsum(part["label_sizes"])[:-1])
            texts = [
                Texts(data[f"{name}.{kind}_ids"], data[f"{name}.{kind}_sizes"], device)
                for kind in ("query", "passage")
            ]
            if not most or len(texts[1]) <= most:
                self.sets[name] = (*texts, part["file"], [set(one.tolist()) for one in right])

    def measure(self, model: Encoder) -> str:
        line, means = "", {}
        for name, (queries, passages, files, right) in self.sets.items():
            scores = (encode_all(model, queries) @ encode_all(model, passages).T).cpu()
            if name == "cosqa":
                own = scores[torch.arange(len(right)), [next(iter(one)) for one in right]]
                rank = 1 + (scores > own[:, None]).sum(1)
                line = f"CoSQA MRR {float((1 / rank).mean()):.4f} "
                continue
            best = scores.topk(min(400, scores.shape[1])).indices.numpy()
            ranked = [list(dict.fromkeys(files[row].tolist())) for row in best]
            gains = [measure_gain(row, one) for row, one in zip(ranked, right, strict=True)]
            if name == "cranfield":
                line += f"Cranfield {float(np.mean(gains)):.4f} "
                continue
            means[name] = (len(passages), float(np.mean(gains)))
        small = [gain for _, gain in sorted(means.values())[:13]]
        if means:
            every = [gain for _, gain in means.values()]
            line += f"{len(every)} repositories {np.mean(every):.4f} 13 smallest "
            line += f"{np.mean(small):.4f}"
        return line


def contrast(asked: Tensor, found: Tensor, same: Tensor, temperature: float) -> Tensor:
    """Both directions; columns beyond the batch are hard passages; equal questions never compete.

    `same` numbers the question of each column, of which the first are the batch's own.
    """
    scores = asked @ found.T / temperature
    count = len(asked)
    alike = same[:count, None] == same
    alike.fill_diagonal_(0)
    scores = scores.masked_fill(alike, -1e4)
    right = torch.arange(count, device=scores.device)
    forth = F.cross_entropy(scores, right)
    return (forth + F.cross_entropy(scores[:, :count].T, right)) / 2


def keep_order(asked: Tensor, found: Tensor, base: tuple[Tensor, Tensor], temperature: float):
    """How far the order of passages is from the base model's."""
    wanted = F.softmax(base[0] @ base[1].T / temperature, 1)
    return F.kl_div(F.log_softmax(asked @ found.T / temperature, 1), wanted, reduction="batchmean")


def train(options: argparse.Namespace, device: str) -> Encoder:
    began = time.time()
    torch.manual_seed(options.seed)
    random = np.random.default_rng(options.seed)
    dtype = torch.bfloat16 if device == "cuda" else torch.float32
    start = read_safetensors(read_parts(options.folder / "base.safetensors"))
    model = Encoder(start, dtype, options.dropout).to(device)
    held = Pairs([options.folder / "held.npz"], device)
    pairs = Pairs(sorted(options.folder.glob("pairs.*.npz")), device)
    benchmarks = Benchmarks(options.folder / "benchmarks.npz", device, options.most)
    same = pairs.queries.hash()
    say(began, f"{len(pairs.family)} pairs, {int(pairs.is_prose.sum())} of prose, {device}")
    say(began, f"base: {measure_held_out(model, held)} {benchmarks.measure(model)}")
    teacher = Encoder(start, dtype, 0).to(device).eval()
    groups = [
        {"params": [w for w in model.weights if w.ndim > 1], "weight_decay": 0.01},
        {"params": [w for w in model.weights if w.ndim == 1], "weight_decay": 0.0},
    ]
    optimiser = torch.optim.AdamW(groups, lr=options.rate, fused=device == "cuda")
    hard: Tensor | None = None
    step, share, opened = 0, 0.0, time.time()
    for epoch in range(options.epochs):
        batches = list(draw(pairs, options, random))
        total = options.epochs * len(batches)
        if epoch and not options.easy:
            hard, kept = find_hard(model, pairs, same, options)
            say(began, f"hard passages for {kept:.3f}")
        model.train()
        losses = torch.zeros(2, device=device)
        for batch in batches:
            share = max(step / total, (time.time() - opened) / options.seconds)
            if share >= 1:
                break
            for group in optimiser.param_groups:
                group["lr"] = options.rate * min(1, (step + 1) / options.warm) * (1 - share)
            loss = run_step(model, teacher, pairs, batch, same, hard, options)
            optimiser.zero_grad(set_to_none=True)
            sum(loss).backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimiser.step()
            losses += torch.stack([part.detach() for part in loss])
            step += 1
            if step in (5, 50) and device == "cuda":
                used = torch.cuda.max_memory_allocated() / 2**30
                say(began, f"step {step} of {total}, {used:.0f} GiB")
        mean = [round(x, 3) for x in (losses / len(batches)).tolist()]
        line = f"epoch {epoch} step {step} loss {mean} {measure_held_out(model, held)}"
        say(began, f"{line} {benchmarks.measure(model)}")
        if share >= 1:
            break
    for part in MEASURED_SHARES:
        mixed = Encoder(blend(start, on_cpu(model), part), dtype, 0).to(device)
        quality = f"{measure_held_out(mixed, held)} {benchmarks.measure(mixed)}"
        say(began, f"{part:.2f} of the tuned weights: {quality}")
    return model


def on_cpu(model: Encoder) -> dict[str, Tensor]:
    return {name: w.cpu() for name, w in model.export().items()}


def draw(pairs: Pairs, options: argparse.Namespace, random: np.random.Generator) -> Iterator:
    for batch in draw_batches(pairs.family, options.batch, options.alike, random):
        yield torch.from_numpy(batch).to(pairs.queries.ids.device)


def run_step(
    model: Encoder,
    teacher: Encoder,
    pairs: Pairs,
    batch: Tensor,
    same: Tensor,
    hard: Tensor | None,
    options: argparse.Namespace,
) -> tuple[Tensor, Tensor]:
    """The two parts of a batch's loss: to find the passage, to keep the order on prose."""
    columns = batch if hard is None else torch.cat([batch, hard[batch]])
    asked = encode(model, pairs.queries, batch, options.slices)
    found = encode(model, pairs.passages, columns, options.slices)
    loss = contrast(asked, found, same[columns], options.temperature)
    prose = torch.from_numpy(pairs.is_prose[batch.cpu().numpy()]).to(batch.device)
    which = prose.nonzero()[:, 0][: options.kept_rows]
    if options.keep and len(which) > 8:
        with torch.no_grad():
            base = (
                encode(teacher, pairs.queries, batch[which], 2),
                encode(teacher, pairs.passages, batch[which], 2),
            )
        order = keep_order(asked[which], found[which], base, options.temperature)
        return loss, options.keep * order * len(which) / len(batch)
    return loss, torch.zeros_like(loss)


def say(began: float, text: str) -> None:
    print(f"[{time.time() - began:6.1f}] {text}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--batch", type=int, default=2048)
    parser.add_argument("--slices", type=int, default=8, help="groups of like length in a batch")
    parser.add_argument("--epochs", type=int, default=4)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--rate", type=float, default=3e-4)
    parser.add_argument("--warm", type=int, default=60)
    parser.add_argument("--dropout", type=float, default=0.1)
    parser.add_argument("--temperature", type=float, default=0.05)
    parser.add_argument("--alike", type=float, default=0.5)
    parser.add_argument("--keep", type=float, default=1.0, help="weight of the base's order")
    parser.add_argument("--kept-rows", type=int, default=1024)
    parser.add_argument("--easy", action="store_true", help="no hard passages")
    parser.add_argument("--margin", type=float, default=0.95)
    parser.add_argument("--depth", type=int, default=48)
    parser.add_argument("--choices", type=int, default=8)
    parser.add_argument("--seconds", type=float, default=300, help="of training, at most")
    parser.add_argument("--most", type=int, default=0, help="measure repositories up to this size")
    parser.add_argument("--part", type=int, default=15_500_000)
    options = parser.parse_args()
    device = "cuda" if torch.cuda.is_available() else "cpu"
    model = train(options, device)
    options.out.mkdir(parents=True, exist_ok=True)
    split_file(write_safetensors(model.export()), options.out / "tuned.safetensors", options.part)


if __name__ == "__main__":
    main()
