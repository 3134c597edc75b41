"""Laws every chunker keeps, over any text and over damaged sources."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.drawing import ANY, draw_text

from sonde.chunking.packing import MAX_BYTES
from sonde.chunking.parse import MAX_CHUNKS, parse_source
from sonde.types import Chunk, Kind

from .sources import SOURCES

PATHS = [*SOURCES, "a.md", "a.rst", "a.txt", "a.json", "a.unknown", "Makefile"]
ODD = "\n\r\u2028\u0085\x0b\x0c\x00 \t#=-`~\"'(){}[]<>:;,.ae\u0301ß漢🙂\ud800"
texts = st.one_of(
    draw_text(ODD, 400),
    draw_text(ANY, 400),
    st.builds(lambda piece, times: piece * times, draw_text(ODD, 60, 1), st.integers(1, 400)),
)


def kind_of(path: str) -> Kind:
    return "docs" if path.endswith((".md", ".rst", ".txt")) else "code"


def check_span(chunk: Chunk, data: bytes) -> None:
    """The text, lines and bytes of a chunk are those of the file."""
    span = chunk.span
    piece = data[span.start_byte : span.end_byte]
    assert piece.decode("utf-8", "surrogatepass") == chunk.text
    assert span.start_line == 1 + data.count(b"\n", 0, span.start_byte)
    assert span.end_line == 1 + data.count(b"\n", 0, span.end_byte - 1)


def check_partition(path: str, text: str) -> None:
    parsed = parse_source(path, text, kind=kind_of(path))
    data = text.encode("utf-8", "surrogatepass")
    if not text.strip():
        assert parsed.chunks == ()
        return
    at = 0
    for chunk in parsed.chunks:
        assert chunk.span.start_byte == at
        at = chunk.span.end_byte
        assert 0 < len(chunk.text.encode("utf-8", "surrogatepass")) <= MAX_BYTES
        assert chunk.path == path
        assert len(chunk.header) < 300
        check_span(chunk, data)
    assert at == len(data) or (parsed.truncated and len(parsed.chunks) == MAX_CHUNKS)


@given(path=st.sampled_from(PATHS), text=texts)
@settings(max_examples=250)
def test_chunks_partition_any_text_in_any_language(path: str, text: str) -> None:
    check_partition(path, text)


@given(path=st.sampled_from(list(SOURCES)), data=st.data())
@settings(max_examples=150)
def test_chunks_partition_damaged_sources(path: str, data: st.DataObject) -> None:
    text = SOURCES[path].text * data.draw(st.integers(1, 25), "copies")
    for _ in range(data.draw(st.integers(0, 4), "deletions")):
        start = data.draw(st.integers(0, len(text)), "start")
        text = text[:start] + text[start + data.draw(st.integers(0, 60), "length") :]
    check_partition(path, text)


@given(path=st.sampled_from(PATHS), text=texts)
@settings(max_examples=60)
def test_the_same_text_is_cut_the_same_way(path: str, text: str) -> None:
    kind = kind_of(path)
    assert parse_source(path, text, kind=kind) == parse_source(path, text, kind=kind)
