"""However an index came about, it equals one made in one go."""

from __future__ import annotations

import contextlib
import os
import tempfile
from pathlib import Path
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from sonde.errors import Cancelled
from sonde.runtime.work import Work

NAMES = ("a.py", "b.py", "pkg/a.py", "pkg/c.ts", "doc.md", "pkg/doc.md", "data.json", "é 1.py")
TEXTS = (
    b"",
    b"x = 1\n",
    b"x = 2\n",
    b"a\0b\0c\n",
    b"def alpha():\n    return 1\n\n\ndef beta():\n    return 2\n",
    b"# Title\n\nwords\n\n## Part\n\nmore\n",
    b"-----BEGIN " + b"PRIVATE KEY-----\nMIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSjAgEAAoIBAQ\n",
    "größe = '日本'\r\n".encode(),
    b"*.json\n",
)
name = st.sampled_from(NAMES)
step = st.one_of(
    st.tuples(st.just("write"), name, st.sampled_from(TEXTS)),
    st.tuples(st.just("write"), st.just(".gitignore"), st.just(b"pkg/\n")),
    st.tuples(st.just("delete"), st.one_of(name, st.just(".gitignore"))),
    st.tuples(st.just("rename"), name, name),
    st.tuples(st.just("touch"), name, st.integers(1, 5)),
    st.tuples(st.just("update")),
    st.tuples(st.just("update some"), st.sets(name, max_size=3)),
    st.tuples(st.just("rebuild")),
    st.tuples(st.just("cancelled update"), st.integers(0, 6)),
)


class Tiring(Work):
    """Calls itself off at the n-th look."""

    def __init__(self, looks: int) -> None:
        super().__init__()
        self.left = looks

    def check(self) -> None:
        self.left -= 1
        if self.left < 0:
            raise Cancelled("tired")


def take_step(bench: Any, action: tuple[Any, ...]) -> None:
    what, *rest = action
    if what == "write":
        bench.write(*rest)
    elif what == "delete":
        (bench.root / rest[0]).unlink(missing_ok=True)
    elif what == "rename":
        source, target = (bench.root / each for each in rest)
        if source.exists():
            target.parent.mkdir(parents=True, exist_ok=True)
            source.replace(target)
    elif what == "touch":
        with contextlib.suppress(FileNotFoundError):
            os.utime(bench.root / rest[0], (rest[1], rest[1]))
    elif what == "update":
        bench.update()
    elif what == "update some":
        bench.update(paths=rest[0])
    elif what == "rebuild":
        bench.update(force=True)
    else:
        with contextlib.suppress(Cancelled):
            bench.update(Tiring(rest[0]))


@settings(max_examples=30)
@given(steps=st.lists(step, max_size=14))
def test_any_edits_with_updates_in_between_end_as_a_fresh_index(
    bench_class: Any, steps: list[tuple[Any, ...]]
) -> None:
    with tempfile.TemporaryDirectory() as place:
        bench = bench_class(Path(place, "project"), Path(place, "index"))
        fresh = bench_class(Path(place, "project"), Path(place, "fresh"))
        try:
            for action in steps:
                take_step(bench, action)
            # in this order: what is too new to be written down as refused for one is so no more
            # for the other, which comes later
            fresh.update()
            bench.update()
            assert bench.snapshot() == fresh.snapshot()
            assert set(bench.refused) >= set(fresh.refused)
            again = bench.update()
            assert again.files_indexed == again.files_removed == 0
        finally:
            bench.close()
            fresh.close()
