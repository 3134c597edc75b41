"""A BERT encoder in plain torch, as the bundled model is laid out, and its weights in parts.

    python training/model.py blend BASE TUNED SHARE OUT.safetensors

`blend` writes SHARE of the tuned weights and the rest of the base's; a file in parts (`name.0`,
`name.1`, ...) is read under its plain name.
"""

from __future__ import annotations

import json
import struct
import sys
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor, nn

HEADS, EPSILON = 12, 1e-12
_KINDS = {"F16": np.float16, "F32": np.float32}


def read_safetensors(data: bytes) -> dict[str, Tensor]:
    """Every tensor of floating-point numbers, as fp32."""
    (size,) = struct.unpack("<Q", data[:8])
    weights = {}
    for name, entry in json.loads(data[8 : 8 + size]).items():
        if name == "__metadata__" or entry["dtype"] not in _KINDS:
            continue
        start, stop = (8 + size + offset for offset in entry["data_offsets"])
        flat = np.frombuffer(data[start:stop], _KINDS[entry["dtype"]])
        weights[name] = torch.from_numpy(flat.reshape(entry["shape"]).astype(np.float32))
    return weights


def write_safetensors(weights: Mapping[str, Tensor]) -> bytes:
    """The tensors as fp16."""
    head, blocks, at = {}, [], 0
    for name, tensor in weights.items():
        block = tensor.detach().cpu().to(torch.float16).contiguous().numpy().tobytes()
        offsets = [at, at + len(block)]
        head[name] = {"dtype": "F16", "shape": list(tensor.shape), "data_offsets": offsets}
        blocks.append(block)
        at += len(block)
    text = json.dumps(head).encode()
    text += b" " * (-len(text) % 8)
    return struct.pack("<Q", len(text)) + text + b"".join(blocks)


def split_file(data: bytes, path: Path, part: int) -> None:
    """`path.0`, `path.1`, ...: equal parts under the limit; `cat path.*` joins them."""
    count = -(-len(data) // part)
    size = -(-len(data) // count)
    for number in range(count):
        piece = data[number * size : (number + 1) * size]
        path.with_name(f"{path.name}.{number}").write_bytes(piece)


def read_parts(path: Path) -> bytes:
    """A file, whole or in parts."""
    if path.exists():
        return path.read_bytes()
    parts = sorted(path.parent.glob(f"{path.name}.[0-9]"))
    if not parts:
        raise SystemExit(f"neither {path} nor parts of it are there")
    return b"".join(part.read_bytes() for part in parts)


class Encoder(nn.Module):
    """Token ids -> unit vectors; computes in the type it is asked for, keeps weights in fp32."""

    def __init__(self, weights: Mapping[str, Tensor], dtype: torch.dtype, dropout: float) -> None:
        super().__init__()
        self.names = list(weights)
        self.weights = nn.ParameterList([nn.Parameter(weights[name].clone()) for name in weights])
        self.dtype, self.dropout = dtype, dropout

    def export(self) -> dict[str, Tensor]:
        """Weights under the names they came with."""
        return {name: w.detach() for name, w in zip(self.names, self.weights, strict=True)}

    def forward(self, ids: Tensor, mask: Tensor) -> Tensor:
        return F.normalize(self.run_layers(ids, mask)[:, 0].float(), dim=-1)

    def run_layers(self, ids: Tensor, mask: Tensor) -> Tensor:
        """The rows of all pieces behind the last layer."""
        full = dict(zip(self.names, self.weights, strict=True))
        words = full.pop("embeddings.word_embeddings.weight")
        w = {name: weight.to(self.dtype) for name, weight in full.items()}
        x = F.embedding(ids, words).to(self.dtype)
        x = x + w["embeddings.position_embeddings.weight"][: ids.shape[1]]
        x = x + w["embeddings.token_type_embeddings.weight"][0]
        x = self._drop(_normalise(x, w, "embeddings.LayerNorm"))
        seen = mask[:, None, None, :]
        for i in range(sum(name.endswith("self.query.weight") for name in w)):
            x = self._run_layer(x, seen, w, f"encoder.layer.{i}")
        return x

    def _run_layer(self, x: Tensor, seen: Tensor, w: dict[str, Tensor], key: str) -> Tensor:
        rows, length, width = x.shape
        heads = [
            _apply(x, w, f"{key}.attention.self.{part}")
            .view(rows, length, HEADS, width // HEADS)
            .transpose(1, 2)
            for part in ("query", "key", "value")
        ]
        dropout = self.dropout if self.training else 0.0
        mixed = F.scaled_dot_product_attention(*heads, attn_mask=seen, dropout_p=dropout)
        mixed = mixed.transpose(1, 2).reshape(rows, length, width)
        mixed = self._drop(_apply(mixed, w, f"{key}.attention.output.dense"))
        x = _normalise(x + mixed, w, f"{key}.attention.output.LayerNorm")
        wide = F.gelu(_apply(x, w, f"{key}.intermediate.dense"))
        narrow = self._drop(_apply(wide, w, f"{key}.output.dense"))
        return _normalise(x + narrow, w, f"{key}.output.LayerNorm")

    def _drop(self, x: Tensor) -> Tensor:
        return F.dropout(x, self.dropout, self.training)


def _apply(x: Tensor, w: dict[str, Tensor], key: str) -> Tensor:
    return F.linear(x, w[f"{key}.weight"], w[f"{key}.bias"])


def _normalise(x: Tensor, w: dict[str, Tensor], key: str) -> Tensor:
    return F.layer_norm(x, x.shape[-1:], w[f"{key}.weight"], w[f"{key}.bias"], EPSILON)


def blend(
    base: Mapping[str, Tensor], tuned: Mapping[str, Tensor], share: float
) -> dict[str, Tensor]:
    """Between the two: `share` 1 is the tuned model."""
    return {name: torch.lerp(base[name].to(w), w, share) for name, w in tuned.items()}


def main() -> None:
    if len(sys.argv) != 6 or sys.argv[1] != "blend":
        raise SystemExit(__doc__)
    base, tuned = (read_safetensors(read_parts(Path(name))) for name in sys.argv[2:4])
    Path(sys.argv[5]).write_bytes(write_safetensors(blend(base, tuned, float(sys.argv[4]))))


if __name__ == "__main__":
    main()
