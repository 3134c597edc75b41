"""Trains the static table: a description is to be nearest to its own passage among thousands.

    python3 training/train_static.py training/data/static OUT [--start FOLDER] [--batch 8192]

Needs torch and numpy alone, uses a GPU where there is one, and writes `static-rows.npy`,
`static-scales.npy` and `static-vocab.txt` to OUT. `--start` names the table to begin from, by
default the distilled one beside the pairs.
"""

from __future__ import annotations

import argparse
import shutil
import time
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812

HELD_OUT = 4000


class Texts:
    """Many texts as one flat array of rows."""

    def __init__(self, rows: np.ndarray, starts: np.ndarray, device: str) -> None:
        self.rows = torch.from_numpy(rows.astype(np.int32)).to(device)
        self.starts = torch.from_numpy(starts).to(device)

    def take(self, which: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Rows and offsets of a batch, for `embedding_bag`."""
        first = self.starts[which]
        sizes = self.starts[which + 1] - first
        offsets = torch.cumsum(sizes, 0) - sizes
        inside = torch.arange(int(sizes.sum()), device=sizes.device)
        inside -= torch.repeat_interleave(offsets, sizes)
        return self.rows[inside + torch.repeat_interleave(first, sizes)], offsets


def draw_batches(kinds: np.ndarray, size: int, alike: float, random: np.random.Generator):
    """Every pair once; a share `alike` of the batches holds one kind, whose passages compete."""
    order = random.permutation(len(kinds))
    same = random.random(len(order)) < alike
    grouped = order[same][np.argsort(kinds[order[same]], kind="stable")]
    mixed = order[~same]
    batches = [part[i : i + size] for part in (grouped, mixed) for i in range(0, len(part), size)]
    batches = [batch for batch in batches if len(batch) > size // 2]
    return [batches[i] for i in random.permutation(len(batches))]


def measure(table: torch.Tensor, queries: Texts, passages: Texts, which: torch.Tensor) -> float:
    with torch.no_grad():
        scores = embed(table, *queries.take(which)) @ embed(table, *passages.take(which)).T
        rank = 1 + (scores > scores.diag()[:, None]).sum(1)
        return float((1 / rank).mean())


def embed(
    table: torch.Tensor, rows: torch.Tensor, offsets: torch.Tensor, drop: float = 0
) -> torch.Tensor:
    """Unit sums; `drop` leaves out that share of the rows, so that no single word decides."""
    kept = (torch.rand(len(rows), device=table.device) >= drop).float() if drop else None
    sums = F.embedding_bag(rows, table, offsets.to(rows.dtype), mode="sum", per_sample_weights=kept)
    return F.normalize(sums, dim=-1)


def train(options: argparse.Namespace, device: str) -> torch.Tensor:
    data = np.load(options.folder / "pairs.npz")
    queries = Texts(data["query_rows"], data["query_starts"], device)
    passages = Texts(data["passage_rows"], data["passage_starts"], device)
    sizes = np.diff(data["query_starts"]), np.diff(data["passage_starts"])
    usable = np.flatnonzero((sizes[0] > 1) & (sizes[1] > 4))
    held, usable = usable[:HELD_OUT], usable[HELD_OUT:]
    kinds = data["kinds"][usable]
    random = np.random.default_rng(0)
    torch.manual_seed(0)
    table = torch.nn.Parameter(read_table(options.start or options.folder).to(device))
    optimiser = torch.optim.Adam([table], lr=options.rate)
    check = torch.from_numpy(held).to(device)
    print(f"{len(usable)} pairs, {device}, start {measure(table, queries, passages, check):.4f}")
    began, step = time.time(), 0
    total = options.epochs * len(draw_batches(kinds, options.batch, options.alike, random))
    for epoch in range(options.epochs):
        for batch in draw_batches(kinds, options.batch, options.alike, random):
            warm = min(1.0, (step + 1) / 20)
            for group in optimiser.param_groups:
                group["lr"] = options.rate * warm * max(0.02, 1 - step / total)
            which = torch.from_numpy(usable[batch]).to(device)
            asked = embed(table, *queries.take(which), options.drop / 2)
            found = embed(table, *passages.take(which), options.drop)
            scores = asked @ found.T / options.temperature
            right = torch.arange(len(which), device=device)
            loss = (F.cross_entropy(scores, right) + F.cross_entropy(scores.T, right)) / 2
            optimiser.zero_grad(set_to_none=True)
            loss.backward()
            optimiser.step()
            step += 1
            if options.seconds and time.time() - began > options.seconds:
                return table.detach()
        quality = measure(table, queries, passages, check)
        spent = time.time() - began
        print(
            f"epoch {epoch} loss {loss.item():.3f} held-out {quality:.4f} {spent:.0f} s", flush=True
        )
        if options.every:
            write(table.detach(), options)
    return table.detach()


def read_table(folder: Path) -> torch.Tensor:
    rows, scales = np.load(folder / "static-rows.npy"), np.load(folder / "static-scales.npy")
    return torch.from_numpy(rows.astype(np.float32) * scales[:, None])


def write(table: torch.Tensor, options: argparse.Namespace) -> None:
    options.out.mkdir(parents=True, exist_ok=True)
    values = table.float().cpu().numpy()
    scales = np.maximum(np.abs(values).max(1), 1e-9) / 127
    np.save(options.out / "static-rows.npy", np.round(values / scales[:, None]).astype(np.int8))
    np.save(options.out / "static-scales.npy", scales.astype(np.float32))
    shutil.copy(options.folder / "static-vocab.txt", options.out)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--start", type=Path)
    parser.add_argument("--batch", type=int, default=8192)
    parser.add_argument("--epochs", type=int, default=12)
    parser.add_argument("--rate", type=float, default=2e-3)
    parser.add_argument("--temperature", type=float, default=0.05)
    parser.add_argument("--alike", type=float, default=0.5)
    parser.add_argument("--drop", type=float, default=0.0)
    parser.add_argument("--seconds", type=float, default=0, help="stop after so long")
    parser.add_argument("--every", action="store_true", help="write after every epoch")
    options = parser.parse_args()
    device = "cuda" if torch.cuda.is_available() else "cpu"
    write(train(options, device), options)


if __name__ == "__main__":
    main()
