"""BERT weights (safetensors) -> the int8 ONNX graph that the package ships.

    python training/export_onnx.py WEIGHTS.safetensors OUT.onnx
        [--calibrate PAIRS --vocabulary FILE | --fp32]

The graph is written node by node with the `onnx` helper, so that it holds exactly what the
CPU runtime has fast kernels for: rows of the int8 token table, one product for query, key and
value, dynamic quantisation of activations inside each product, fused attention, normalisation
and pooling. Weights have 7 bits, because products of 8-bit weights overflow on x86 processors
without VNNI. `--calibrate` names pairs whose passages decide how outlier channels are moved from
activations into weights (SmoothQuant), which wins back more than the eighth bit. Ten products that
it does not help have a scale for every 128 numbers of a row instead, of weights and activations
alike: twice the time of the others, and nearly exact.
"""

from __future__ import annotations

import argparse
import gzip
import json
import struct
from itertools import islice
from pathlib import Path

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

LAYERS, HIDDEN, HEADS, EPSILON = 6, 384, 12, 1e-12
MICROSOFT = "com.microsoft"
SMOOTHED = {*(f"layer{i}.wide" for i in range(LAYERS)), "layer5.narrow"}
# Quantised alone, each of these changes the vectors more than all others together.
BLOCKED = {
    *(f"layer{i}.narrow" for i in range(LAYERS - 1)), "layer1.wide", "layer2.wide",
    *(f"layer{i}.qkv" for i in range(3, LAYERS)),
}  # fmt: skip
BLOCK = 128
Weights = dict[str, NDArray[np.float32]]
Peaks = dict[str, NDArray[np.float32]]
"""The largest activation of each channel that goes into a product."""


def read_safetensors(path: Path) -> Weights:
    data = path.read_bytes()
    (size,) = struct.unpack("<Q", data[:8])
    head = json.loads(data[8 : 8 + size])
    kinds = {"F16": np.float16, "F32": np.float32}
    weights = {}
    for name, entry in head.items():
        if name == "__metadata__" or entry["dtype"] not in kinds:
            continue
        start, stop = (8 + size + x for x in entry["data_offsets"])
        flat = np.frombuffer(data[start:stop], kinds[entry["dtype"]])
        weights[name] = flat.reshape(entry["shape"]).astype(np.float32)
    return weights


def quantise_columns(weight: NDArray[np.float32], bits: int) -> tuple[NDArray, NDArray]:
    """Symmetric int8, one scale per column: the one with the least squared error."""
    top = 2 ** (bits - 1) - 1
    largest = np.maximum(np.abs(weight).max(0), 1e-9) / top
    best, scale = np.full(weight.shape[1], np.inf), largest
    for share in np.arange(0.7, 1.01, 0.05):
        tried = largest * share
        error = ((np.clip(np.round(weight / tried), -top, top) * tried - weight) ** 2).sum(0)
        scale = np.where(error < best, tried, scale)
        best = np.minimum(error, best)
    return np.clip(np.round(weight / scale), -top, top).astype(np.int8), scale.astype(np.float32)


def quantise_blocks(weight: NDArray[np.float32]) -> tuple[NDArray, NDArray]:
    """Unsigned bytes around 128, a row for each column, with one scale per block of it."""
    blocks = weight.T.reshape(weight.shape[1], -1, BLOCK)
    scale = np.maximum(np.abs(blocks).max(2), 1e-9) / 127
    return (np.round(blocks / scale[..., None]) + 128).astype(np.uint8), scale.astype(np.float32)


def smooth(peaks: NDArray[np.float32], weight: NDArray[np.float32]) -> NDArray[np.float32]:
    """What to divide activations and multiply weights by, so that both quantise evenly."""
    factors = np.sqrt(np.maximum(peaks, 1e-5) / np.maximum(np.abs(weight).max(1), 1e-5))
    return (factors / np.exp(np.log(factors).mean())).astype(np.float32)


class Graph:
    """Nodes and constants under construction."""

    def __init__(self, *, quantised: bool, bits: int, peaks: Peaks | None) -> None:
        self.nodes: list[onnx.NodeProto] = []
        self.constants: list[onnx.TensorProto] = []
        self.quantised, self.bits, self.peaks = quantised, bits, peaks or {}

    def constant(self, name: str, value: NDArray) -> str:
        self.constants.append(numpy_helper.from_array(np.ascontiguousarray(value), name))
        return name

    def add(self, kind: str, inputs: list[str], output: str, domain: str = "", **settings) -> str:
        self.nodes.append(helper.make_node(kind, inputs, [output], domain=domain, **settings))
        return output

    def multiply(self, x: str, weight: NDArray, bias: NDArray, name: str) -> str:
        """x @ weight + bias."""
        b = self.constant(f"{name}.bias", bias)
        if not self.quantised:
            w = self.constant(f"{name}.weight", weight)
            product = self.add("MatMul", [x, w], f"{name}.product")
            return self.add("Add", [product, b], name)
        if name in BLOCKED:
            return self.multiply_blocks(x, weight, b, name)
        if name in self.peaks:
            factors = smooth(self.peaks[name], weight)
            weight = weight * factors[:, None]
            inverse = self.constant(f"{name}.smoothing", 1 / factors)
            x = self.add("Mul", [x, inverse], f"{name}.smoothed")
        values, scale = quantise_columns(weight, self.bits)
        inputs = [
            x,
            self.constant(f"{name}.weight", values),
            self.constant(f"{name}.scale", scale),
            self.constant(f"{name}.zero", np.zeros(len(scale), np.int8)),
            b,
        ]
        return self.add("DynamicQuantizeMatMul", inputs, name, MICROSOFT)

    def multiply_blocks(self, x: str, weight: NDArray, bias: str, name: str) -> str:
        values, scale = quantise_blocks(weight)
        v, s = self.constant(f"{name}.weight", values), self.constant(f"{name}.scale", scale)
        size, count = weight.shape
        settings = {"K": size, "N": count, "bits": 8, "block_size": BLOCK, "accuracy_level": 4}
        return self.add("MatMulNBits", [x, v, s, "", "", bias], name, MICROSOFT, **settings)

    def look_up(self, table: NDArray, ids: str, name: str) -> str:
        if not self.quantised:
            return self.add("Gather", [self.constant(f"{name}.table", table), ids], name)
        scale = np.maximum(np.abs(table).max(1, keepdims=True), 1e-9) / 127
        values = np.round(table / scale).astype(np.int8)
        rows = self.add("Gather", [self.constant(f"{name}.table", values), ids], f"{name}.rows")
        real = self.add("Cast", [rows], f"{name}.real", to=TensorProto.FLOAT)
        scales = self.constant(f"{name}.scales", scale.astype(np.float32))
        factor = self.add("Gather", [scales, ids], f"{name}.factor")
        return self.add("Mul", [real, factor], name)

    def normalise(self, x: str, skip: str, w: Weights, key: str, name: str) -> str:
        inputs = [
            x,
            skip,
            self.constant(f"{name}.gamma", w[f"{key}.weight"]),
            self.constant(f"{name}.beta", w[f"{key}.bias"]),
        ]
        return self.add("SkipLayerNormalization", inputs, name, MICROSOFT, epsilon=EPSILON)


def build(
    w: Weights, *, quantised: bool, bits: int = 7, peaks: Peaks | None = None
) -> onnx.ModelProto:
    """The encoder, its first row at unit length: ids, mask -> vectors."""
    g = Graph(quantised=quantised, bits=bits, peaks=peaks)
    fixed = w["embeddings.token_type_embeddings.weight"][0]
    g.constant("zero", np.array([0], np.int64))
    g.constant("one", np.array([1], np.int64))
    words = g.look_up(w["embeddings.word_embeddings.weight"], "ids", "words")
    shape = g.add("Shape", ["ids"], "shape")
    length = g.add("Slice", [shape, "one", g.constant("two", np.array([2], np.int64))], "length")
    table = g.constant("positions.table", w["embeddings.position_embeddings.weight"] + fixed)
    positions = g.add("Slice", [table, "zero", length, "zero"], "positions")
    row = g.add("Unsqueeze", [positions, "zero"], "positions.row")
    words_placed = g.add("Add", [words, row], "placed")
    gamma = g.constant("embedded.gamma", w["embeddings.LayerNorm.weight"])
    beta = g.constant("embedded.beta", w["embeddings.LayerNorm.bias"])
    x = g.add("LayerNormalization", [words_placed, gamma, beta], "embedded", epsilon=EPSILON)
    g.add("Cast", ["mask"], "mask.int32", to=TensorProto.INT32)
    for i in range(LAYERS):
        key, at = f"encoder.layer.{i}", f"layer{i}"
        parts = [f"{key}.attention.self.{part}" for part in ("query", "key", "value")]
        weight = np.concatenate([w[f"{part}.weight"].T for part in parts], 1)
        bias = np.concatenate([w[f"{part}.bias"] for part in parts])
        together = g.multiply(x, weight, bias, f"{at}.qkv")
        outputs = [f"{at}.{part}" for part in ("query", "key", "value")]
        g.nodes.append(helper.make_node("Split", [together], outputs, axis=2, num_outputs=3))
        attended = g.add(
            "MultiHeadAttention",
            [*outputs, "", "mask.int32"],
            f"{at}.attended",
            MICROSOFT,
            num_heads=HEADS,
        )
        dense = f"{key}.attention.output.dense"
        mixed = g.multiply(attended, w[f"{dense}.weight"].T, w[f"{dense}.bias"], f"{at}.mixed")
        x = g.normalise(mixed, x, w, f"{key}.attention.output.LayerNorm", f"{at}.middle")
        dense = f"{key}.intermediate.dense"
        wide = g.multiply(x, w[f"{dense}.weight"].T, w[f"{dense}.bias"], f"{at}.wide")
        bent = g.add("Gelu", [wide], f"{at}.bent", MICROSOFT)
        dense = f"{key}.output.dense"
        narrow = g.multiply(bent, w[f"{dense}.weight"].T, w[f"{dense}.bias"], f"{at}.narrow")
        x = g.normalise(narrow, x, w, f"{key}.output.LayerNorm", f"{at}.out")
    # The first row, the opening piece's, stands for the text.
    first = g.add("Gather", [x, "zero"], "first", axis=1)
    first = g.add("Squeeze", [first, "one"], "text")
    norm = g.add("ReduceL2", [first, "one"], "norm", keepdims=1)
    g.add("Div", [first, norm], "vectors")
    kind = TensorProto.INT64
    graph = helper.make_graph(
        g.nodes,
        "encoder",
        [
            helper.make_tensor_value_info("ids", kind, ["batch", "length"]),
            helper.make_tensor_value_info("mask", kind, ["batch", "length"]),
        ],
        [helper.make_tensor_value_info("vectors", TensorProto.FLOAT, ["batch", HIDDEN])],
        g.constants,
    )
    opsets = [helper.make_opsetid("", 18), helper.make_opsetid(MICROSOFT, 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=10)


def measure_peaks(w: Weights, passages: list[str], vocabulary: Path) -> Peaks:
    """Runs the fp32 graph and keeps the largest input of every product that is smoothed."""
    import onnxruntime

    from sonde.embedding.onnx import CLOSING, OPENING, BytePairs
    from sonde.embedding.static import read_vocabulary

    model = build(w, quantised=False)
    inputs = {
        node.output[0].removesuffix(".product"): node.input[0]
        for node in model.graph.node
        if node.op_type == "MatMul"
        and node.output[0].removesuffix(".product") in SMOOTHED - BLOCKED
    }
    for name in sorted(set(inputs.values())):
        model.graph.output.append(helper.make_tensor_value_info(name, TensorProto.FLOAT, None))
    session = onnxruntime.InferenceSession(model.SerializeToString())
    names = [output.name for output in session.get_outputs()]
    pieces = BytePairs(read_vocabulary(vocabulary.parent, vocabulary.name))
    opening, closing = pieces.id_of(OPENING), pieces.id_of(CLOSING)
    peaks: Peaks = {}
    for passage in passages:
        ids = np.array([[opening, *pieces.encode(passage, 254), closing]])
        outputs = dict(
            zip(names, session.run(None, {"ids": ids, "mask": np.ones_like(ids)}), strict=True)
        )
        for product, name in inputs.items():
            peak = np.abs(outputs[name]).max((0, 1))
            peaks[product] = np.maximum(peaks.get(product, 0), peak)
    return peaks


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("weights", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--fp32", action="store_true", help="do not quantise (for comparison)")
    parser.add_argument("--bits", type=int, default=7)
    parser.add_argument("--calibrate", type=Path, help="pairs (JSON lines, gzip)")
    parser.add_argument("--vocabulary", type=Path, help="the list of pieces, to calibrate with")
    options = parser.parse_args()
    weights = read_safetensors(options.weights)
    peaks = None
    if options.calibrate:
        with gzip.open(options.calibrate, "rt", encoding="utf-8") as file:
            passages = [json.loads(line)["c"] for line in islice(file, 0, 60_000, 400)]
        peaks = measure_peaks(weights, passages, options.vocabulary)
    model = build(weights, quantised=not options.fp32, bits=options.bits, peaks=peaks)
    onnx.save(model, str(options.out))
    print(f"{options.out}: {options.out.stat().st_size / 1e6:.1f} MB")


if __name__ == "__main__":
    main()
