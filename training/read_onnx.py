"""Reads weights back from the int8 graph that `export_onnx.py` wrote: nothing else keeps them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import numpy_helper

Weights = dict[str, NDArray[np.float32]]


def read_graph(path: Path, name: str = "layer") -> Weights:
    """The tables and the layers `layer` (questions and prose) or `code`, under BERT's names."""
    held = {t.name: numpy_helper.to_array(t) for t in onnx.load(path).graph.initializer}
    table = "embeddings"
    weights = {
        f"{table}.word_embeddings.weight": held["words.table"] * held["words.scales"],
        f"{table}.position_embeddings.weight": held["positions.table"],
        f"{table}.token_type_embeddings.weight": np.zeros_like(held["positions.table"][:1]),
        f"{table}.LayerNorm.weight": held["embedded.gamma"],
        f"{table}.LayerNorm.bias": held["embedded.beta"],
    }
    for i in range(sum(f"{name}{i}.qkv.weight" in held for i in range(99))):
        at, key = f"{name}{i}", f"encoder.layer.{i}"
        parts = [*_split(held, f"{at}.qkv")]
        if f"{at}.asked.weight" in held:  # of the last layer, one row asks
            parts = [*_split(held, f"{at}.asked"), *parts]
        for part, (weight, bias) in zip(("query", "key", "value"), parts, strict=True):
            weights[f"{key}.attention.self.{part}.weight"] = weight
            weights[f"{key}.attention.self.{part}.bias"] = bias
        for short, part in (
            ("mixed", "attention.output"), ("wide", "intermediate"), ("narrow", "output"),
        ):  # fmt: skip
            weights[f"{key}.{part}.dense.weight"] = _dequantise(held, f"{at}.{short}").T
            weights[f"{key}.{part}.dense.bias"] = held[f"{at}.{short}.bias"]
        if f"{at}.narrow.shares" in held:
            _join_copies(weights, key, held[f"{at}.narrow.shares"])
        for short, part in (("middle", "attention.output"), ("out", "output")):
            weights[f"{key}.{part}.LayerNorm.weight"] = held[f"{at}.{short}.gamma"]
            weights[f"{key}.{part}.LayerNorm.bias"] = held[f"{at}.{short}.beta"]
    return {key: np.ascontiguousarray(weight, np.float32) for key, weight in weights.items()}


def _join_copies(weights: Weights, key: str, shares: NDArray) -> None:
    """Make one unit again of those that were computed several times over, side by side.

    Trained on, they would stay alike, and the next export would spread one copy of them alone.
    """
    starts = [0]
    while (after := starts[-1] + round(1 / float(shares[starts[-1]]))) < len(shares):
        starts.append(after)
    for part in ("weight", "bias"):
        name = f"{key}.intermediate.dense.{part}"
        weights[name] = weights[name][starts]
    name = f"{key}.output.dense.weight"
    weights[name] = np.add.reduceat(weights[name], starts, axis=1)


def _split(held: dict[str, NDArray], name: str) -> list[tuple[NDArray, NDArray]]:
    """One product of several parts -> weight and bias of each, as torch has them."""
    weight, bias = _dequantise(held, name).T, held[f"{name}.bias"]
    count = len(bias) // weight.shape[1]
    return list(zip(np.split(weight, count), np.split(bias, count), strict=True))


def _dequantise(held: dict[str, NDArray], name: str) -> NDArray[np.float32]:
    """Inputs x outputs, with what was moved into the inputs taken back."""
    values, scale = held[f"{name}.weight"], held[f"{name}.scale"]
    if values.dtype == np.uint8:  # blocks of a row, around 128
        blocks = (values.astype(np.float32) - 128) * scale.reshape(values.shape[:2])[..., None]
        weight = blocks.reshape(len(values), -1).T
    else:
        weight = values.astype(np.float32) * scale
    for kind in ("smoothing", "shares"):
        if f"{name}.{kind}" in held:
            weight = weight * held[f"{name}.{kind}"][:, None]
    return weight
