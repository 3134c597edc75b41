"""Texts of whole files, as every chunk store gives them."""

from __future__ import annotations

from dataclasses import replace


def test_only_what_is_stored_to_the_last_byte_is_whole(store, make_file):
    whole = make_file("whole.py", "größe = 1\n", "two\r\n", "\udc80 \0three")
    spans = {
        "gap.py": [(0, 4), (8, 12)],
        "twice.py": [(0, 4), (2, 6), (6, 10)],
        "both.py": [(0, 4), (2, 6), (8, 12)],
        "late.py": [(2, 6), (6, 10)],
        "cut.py": [(0, 4)],
    }
    others = []
    for path, places in spans.items():
        file = make_file(path, *("abc\n" for _ in places))
        chunks = [
            replace(chunk, span=replace(chunk.span, start_byte=start, end_byte=end))
            for chunk, (start, end) in zip(file.chunks, places, strict=True)
        ]
        size = 4 * len(places) if path != "cut.py" else 5
        others.append(replace(file, chunks=tuple(chunks), state=replace(file.state, size=size)))
    store.replace([whole, *others])
    found = dict(store.whole_texts([*spans, "whole.py", "unknown.py", "bad\udc80.py"]))
    expected = "größe = 1\ntwo\r\n\udc80 \0three".encode("utf-8", "surrogatepass")
    assert found in ({"whole.py": expected}, {})
    assert found or "Lance" in type(store).__name__  # which keeps texts elsewhere
