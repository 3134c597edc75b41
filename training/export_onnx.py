"""BERT weights (safetensors) -> the int8 ONNX graph that the package ships.

    python training/export_onnx.py WEIGHTS.safetensors OUT.onnx
        [--calibrate PAIRS --vocabulary FILE | --fp32] [--beside GRAPH.onnx | --into GRAPH.onnx]

The graph is written node by node with the `onnx` helper, so that it holds exactly what the
CPU runtime has fast kernels for: rows of the int8 token table, one product for query, key and
value, dynamic quantisation of activations inside each product, fused attention, normalisation
and pooling. Weights have 7 bits, because products of 8-bit weights overflow on x86 processors
without VNNI. `--calibrate` names pairs whose passages decide how outlier channels are moved from
activations into weights (SmoothQuant), which wins back more than the eighth bit. Ten products that
it does not help have a scale for every 128 numbers of a row instead, of weights and activations
alike: twice the time of the others, and nearly exact. `--beside` puts an encoder of code next to
the one in a graph that this script wrote: both read the same tables. `--into` replaces the layers
for questions and prose in such a graph by WEIGHTS, which holds them alone.
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
from read_onnx import read_graph

LAYERS, HIDDEN, HEADS, EPSILON = 6, 384, 12, 1e-12
MICROSOFT = "com.microsoft"
SMOOTHED = {
    *(f"layer{i}.wide" for i in range(LAYERS)), "layer5.narrow",
    "code0.wide", "code1.qkv", "code1.wide", "code2.qkv", "code2.asked", "code2.narrow",
}  # fmt: skip
# Quantised alone, each of these changes the vectors more than all others together.
BLOCKED = {
    *(f"layer{i}.narrow" for i in range(LAYERS - 1)), "layer1.wide", "layer2.wide",
    *(f"layer{i}.qkv" for i in range(3, LAYERS)), "layer5.asked",
    "code1.narrow", "code2.mixed",
}  # fmt: skip
# One unit makes the outliers here: those with high peaks are computed again, their values shared.
SPREAD = {"code0.narrow": 80}
BLOCK = 128
PADDED = ["batch", "length"]
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


def spread(peaks: NDArray[np.float32], more: int) -> tuple[NDArray, NDArray]:
    """Which units to compute, `more` of them again, and what share each then has of its value."""
    copies = np.ones(len(peaks), np.int64)
    for _ in range(more):
        copies[(peaks / copies).argmax()] += 1
    units = np.repeat(np.arange(len(peaks)), copies)
    return units, (1 / copies[units]).astype(np.float32)


class Graph:
    """Nodes and constants under construction."""

    def __init__(
        self, *, quantised: bool = True, bits: int = 7, peaks: Peaks | None = None
    ) -> None:
        self.nodes: list[onnx.NodeProto] = []
        self.constants: list[onnx.TensorProto] = []
        self.quantised, self.bits, self.peaks = quantised, bits, peaks or {}

    def constant(self, name: str, value: NDArray) -> str:
        self.constants.append(numpy_helper.from_array(np.ascontiguousarray(value), name))
        return name

    def add(self, kind: str, inputs: list[str], output: str, domain: str = "", **settings) -> str:
        self.nodes.append(helper.make_node(kind, inputs, [output], domain=domain, **settings))
        return output

    def multiply(
        self, x: str, weight: NDArray, bias: NDArray, name: str, shares: NDArray | None = None
    ) -> str:
        """x @ weight + bias; with `shares`, x is multiplied by them first."""
        b = self.constant(f"{name}.bias", bias)
        if not self.quantised:
            w = self.constant(f"{name}.weight", weight)
            product = self.add("MatMul", [x, w], f"{name}.product")
            return self.add("Add", [product, b], name)
        if name in BLOCKED:
            return self.multiply_blocks(x, weight, b, name)
        if shares is not None:
            x = self.add("Mul", [x, self.constant(f"{name}.shares", shares)], f"{name}.shared")
        elif name in self.peaks:
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
        total = self.add("Add", [x, skip], f"{name}.sum")  # fused with the rest, it is slower
        gamma = self.constant(f"{name}.gamma", w[f"{key}.weight"])
        beta = self.constant(f"{name}.beta", w[f"{key}.bias"])
        return self.add("LayerNormalization", [total, gamma, beta], name, epsilon=EPSILON)


def build(
    w: Weights,
    name: str = "layer",
    *,
    quantised: bool,
    bits: int = 7,
    peaks: Peaks | None = None,
    beside: onnx.ModelProto | None = None,
) -> onnx.ModelProto:
    """The encoder, its first row at unit length: ids, mask -> vectors.

    With `beside`, `w` is an encoder of code over that graph's tables: the input `code` chooses.
    """
    g = Graph(quantised=quantised, bits=bits, peaks=peaks)
    inputs = [("ids", TensorProto.INT64, PADDED), ("mask", TensorProto.INT64, PADDED)]
    if beside:
        add_layers(g, w, name, f"{name}.vectors")
        g = branch(beside.graph, g)
        inputs.append(("code", TensorProto.BOOL, []))
    else:
        add_tables(g, w)
        add_layers(g, w, name, "vectors")
    given = [helper.make_tensor_value_info(*one) for one in inputs]
    graph = helper.make_graph(g.nodes, "encoder", given, [describe("vectors")], g.constants)
    opsets = [helper.make_opsetid("", 18), helper.make_opsetid(MICROSOFT, 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=10)


def describe(output: str) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(output, TensorProto.FLOAT, ["batch", HIDDEN])


def branch(whole: onnx.GraphProto, code: Graph) -> Graph:
    """The tables of a graph, and behind them its layers or those of `code`.

    Of two plain outputs the runtime computes both, whichever is asked for; of two branches one.
    Constants stay outside of the branches: those inside are kept in memory twice.
    """
    tables = Graph()
    start = 1 + [node.output[0] for node in whole.node].index("mask.int32")
    tables.nodes, layers = list(whole.node[:start]), list(whole.node[start:])
    tables.constants = [*whole.initializer, *code.constants]
    layers[-1].output[0] = "layer.vectors"
    branches = {
        "then_branch": helper.make_graph(code.nodes, "code", [], [describe("code.vectors")]),
        "else_branch": helper.make_graph(layers, "layers", [], [describe("layer.vectors")]),
    }
    tables.add("If", ["code"], "vectors", **branches)
    return tables


def add_tables(g: Graph, w: Weights) -> None:
    """Pieces and their places, normalised: what the first layer reads."""
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
    g.add("LayerNormalization", [words_placed, gamma, beta], "embedded", epsilon=EPSILON)
    g.add("Cast", ["mask"], "mask.int32", to=TensorProto.INT32)


def add_layers(g: Graph, w: Weights, name: str, output: str) -> None:
    """All layers of the weights, and the first row at the end, which stands for the text.

    Of the last layer only that row is computed: the others are needed as keys and values alone.
    """
    layers = sum(key.endswith("attention.self.query.weight") for key in w)
    x = "embedded"
    for i in range(layers):
        at = f"{name}{i}"
        if i < layers - 1:
            x = add_layer(g, w, f"encoder.layer.{i}", at, x, x)
        else:
            first = g.add("Gather", [x, "zero"], f"{at}.first", axis=1)
            x = add_layer(g, w, f"encoder.layer.{i}", at, x, first)
    text = g.add("Squeeze", [x, "one"], f"{name}.text")
    norm = g.add("ReduceL2", [text, "one"], f"{name}.norm", keepdims=1)
    g.add("Div", [text, norm], output)


def add_layer(g: Graph, w: Weights, key: str, at: str, x: str, asking: str) -> str:
    """One layer over the rows `x` for the rows that are `asking`."""

    def multiply(rows: str, parts: list[str], name: str) -> str:
        weight = np.concatenate([w[f"{key}.{part}.weight"].T for part in parts], 1)
        bias = np.concatenate([w[f"{key}.{part}.bias"] for part in parts])
        return g.multiply(rows, weight, bias, f"{at}.{name}")

    parts = [f"attention.self.{part}" for part in ("query", "key", "value")]
    names = [f"{at}.{part}" for part in ("query", "key", "value")]
    if asking == x:
        together = multiply(x, parts, "qkv")
        g.nodes.append(helper.make_node("Split", [together], names, axis=2, num_outputs=3))
    else:
        names[0] = multiply(asking, parts[:1], "asked")
        together = multiply(x, parts[1:], "qkv")
        g.nodes.append(helper.make_node("Split", [together], names[1:], axis=2, num_outputs=2))
    inputs = [*names, "", "mask.int32"]
    attended = g.add("MultiHeadAttention", inputs, f"{at}.attended", MICROSOFT, num_heads=HEADS)
    mixed = multiply(attended, ["attention.output.dense"], "mixed")
    x = g.normalise(mixed, asking, w, f"{key}.attention.output.LayerNorm", f"{at}.middle")
    inner, outer = (f"{key}.{part}.dense" for part in ("intermediate", "output"))
    units, shares = np.arange(len(w[f"{inner}.bias"])), None
    if g.quantised and f"{at}.narrow" in SPREAD and g.peaks:
        units, shares = spread(g.peaks[f"{at}.narrow"], SPREAD[f"{at}.narrow"])
    weight, bias = w[f"{inner}.weight"][units].T, w[f"{inner}.bias"][units]
    wide = g.multiply(x, weight, bias, f"{at}.wide")
    bent = g.add("Gelu", [wide], f"{at}.bent", MICROSOFT)
    weight, bias = w[f"{outer}.weight"].T[units], w[f"{outer}.bias"]
    narrow = g.multiply(bent, weight, bias, f"{at}.narrow", shares)
    return g.normalise(narrow, x, w, f"{key}.output.LayerNorm", f"{at}.out")


def measure_peaks(w: Weights, name: str, passages: list[str], vocabulary: Path) -> Peaks:
    """Runs the fp32 graph and keeps the largest input of every product that is smoothed."""
    import onnxruntime

    from sonde.embedding.onnx import CLOSING, OPENING, BytePairs
    from sonde.embedding.static import read_vocabulary

    model = build(w, name, quantised=False)
    inputs = {
        node.output[0].removesuffix(".product"): node.input[0]
        for node in model.graph.node
        if node.op_type == "MatMul"
        and node.output[0].removesuffix(".product") in (SMOOTHED - BLOCKED) | SPREAD.keys()
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


def replace_layers(whole: onnx.ModelProto, made: onnx.ModelProto) -> onnx.ModelProto:
    """A graph with the layers for questions and prose of another of the same shape."""
    new = {constant.name: constant for constant in made.graph.initializer}
    for constant in whole.graph.initializer:
        if constant.name.startswith("layer"):
            constant.CopyFrom(new[constant.name])
    return whole


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("weights", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--fp32", action="store_true", help="do not quantise (for comparison)")
    parser.add_argument("--bits", type=int, default=7)
    parser.add_argument("--calibrate", type=Path, help="pairs (JSON lines, gzip)")
    parser.add_argument("--beside", type=Path, help="a graph that gets an output for code")
    parser.add_argument("--into", type=Path, help="a graph whose layers are replaced")
    parser.add_argument("--vocabulary", type=Path, help="the list of pieces, to calibrate with")
    options = parser.parse_args()
    weights = read_safetensors(options.weights)
    if options.into:
        weights = read_graph(options.into) | weights
    name, peaks = "code" if options.beside else "layer", None
    if options.calibrate:
        with gzip.open(options.calibrate, "rt", encoding="utf-8") as file:
            passages = [json.loads(line)["c"] for line in islice(file, 0, 60_000, 400)]
        peaks = measure_peaks(weights, name, passages, options.vocabulary)
    beside = onnx.load(options.beside) if options.beside else None
    quantised = not options.fp32
    model = build(weights, name, quantised=quantised, bits=options.bits, peaks=peaks, beside=beside)
    if options.into:
        model = replace_layers(onnx.load(options.into), model)
    onnx.save(model, str(options.out))
    print(f"{options.out}: {options.out.stat().st_size / 1e6:.1f} MB")


if __name__ == "__main__":
    main()
