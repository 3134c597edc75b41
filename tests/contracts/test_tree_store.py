"""What a store of disk trees promises."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sonde.errors import InvalidPattern
from sonde.stores.disk.base import (
    FILE,
    FOLDER,
    LINKED,
    OK,
    ROOT_ID,
    Batch,
    Context,
    Node,
    sort_names,
)
from sonde.stores.disk.filters import KINDS, And, Condition, Filter, Not, Or, list_conditions
from sonde.stores.disk.sqlite import TreeStore
from sonde.text.globs import compile_glob

NOW = 1_000_000_000_000
DAY = 86_400_000


@pytest.fixture
def open_store(tmp_path: Path) -> Callable[..., TreeStore]:
    return partial(TreeStore, tmp_path / "tree.db")


@pytest.fixture
def store(open_store: Callable[[], TreeStore]) -> Iterator[TreeStore]:
    opened = open_store()
    yield opened
    opened.close()


def node(id_: int, parent: int, name: str, kind: int = FILE, **facts: int | str) -> Node:
    base = Node(id_, parent, name, kind, 1, 0, 0, NOW, 0o644, 1, OK, 0, 0, 0, "", 1)
    return base._replace(**facts)  # type: ignore[arg-type]


ODD = "caf\udce9"
NODES = [
    node(1, 0, "", FOLDER, depth=0, size=1700, files=6, folders=3, children=4),
    node(2, 1, "src", FOLDER, size=600, files=3, folders=1, children=3),
    node(3, 2, "main.py", depth=2, size=100, mtime_ms=NOW - 40 * DAY),
    node(4, 2, "it's; DROP TABLE nodes--.py", depth=2, size=200, mtime_ms=NOW - 2 * DAY),
    node(5, 2, "deep", FOLDER, depth=2, size=300, files=1, children=1),
    node(6, 5, "a.LOG", depth=3, size=300, mtime_ms=NOW - 400 * DAY),
    node(7, 1, ODD, size=1000),
    node(8, 1, ".hidden", size=100),
    node(9, 1, "empty", FOLDER),
    node(10, 2, "again.bin", depth=2, size=5000, state=LINKED, links=2),
]


def fill(store: TreeStore, nodes: list[Node] = NODES) -> int:
    scan, _ = store.begin_scan(NOW)
    store.apply(scan, Batch(inserted={node.id: node for node in nodes}))
    store.finish_scan(scan, NOW + 1, nodes=len(nodes), size=nodes[0].size)
    return scan


def test_nodes_come_back_as_they_were_and_are_found(open_store: Callable[[], TreeStore]) -> None:
    first = open_store()
    fill(first)
    first.close()
    store = open_store()
    assert [store.get(each.id) for each in NODES] == NODES
    assert store.get(99) is None
    assert store.find(()) == NODES[0]
    assert store.find(("src", "deep", "a.LOG")) == NODES[5]
    assert store.find((ODD,)) == NODES[6]
    assert store.find(("src", "nothing")) is None
    assert [step.id for step in store.trail(6)] == [1, 2, 5, 6]
    assert store.trail(99) == []
    assert store.begin_scan(NOW + 5) == (2, 11)
    store.close()


def test_children_are_in_total_order_and_go_on_after_a_key(store: TreeStore) -> None:
    fill(store)
    names = [child.name for child in store.children(1, 9)]
    assert names == sort_names(names) == [".hidden", "empty", "src", ODD]
    assert [child.name for child in store.children(1, 9, after=["empty"])] == ["src", ODD]
    assert store.children(1, 9, after=[ODD]) == []
    by_size = [child.id for child in store.children(1, 9, "size")]
    assert by_size == [7, 2, 8, 9]
    assert [c.id for c in store.children(1, 9, "size", [-600, 2])] == [8, 9]
    assert [c.id for c in store.children(2, 2, "modified")] == [5, 10]
    assert [c.id for c in store.children(2, 1, "modified", [-NOW, 5])] == [10]
    assert [c.id for c in store.children(2, 9, "modified", [-NOW, 5])] == [10, 4, 3]
    between = store.between(1, "empty", ODD)
    assert set(between) == {"empty", "src"}


def test_what_is_removed_takes_all_below_it_along(store: TreeStore) -> None:
    fill(store)
    store.add("s", [3, 6, 7])
    scan, _ = store.begin_scan(NOW + 5)
    store.apply(scan, Batch(removed=[2]))
    assert [store.get(id_) for id_ in (2, 3, 5, 6)] == [None] * 4
    assert store.get(7)
    gone = {member.id: (member.stale, member.name) for member in store.members("s", 9)}
    assert gone == {3: ("gone", "main.py"), 6: ("gone", "a.LOG"), 7: ("", ODD)}
    store.apply(scan, Batch(emptied=[1]))
    assert store.get(ROOT_ID)
    assert store.children(1, 9) == []


def test_ids_are_never_given_twice(store: TreeStore) -> None:
    fill(store)
    scan, first = store.begin_scan(NOW + 5)
    store.apply(scan, Batch(inserted={first: node(first, 1, "new")}))
    store.apply(scan, Batch(removed=[first]))
    assert store.begin_scan(NOW + 6)[1] == first + 1


def test_growth_is_the_difference_to_what_an_earlier_scan_found(store: TreeStore) -> None:
    first = fill(store)
    second, free = store.begin_scan(NOW + 10)
    grown = NODES[2]._replace(size=900)
    store.apply(
        second,
        Batch(
            inserted={free: node(free, 1, "born", size=50, born=second)},
            updated=[grown],
            past=[(3, 100, 0)],
            removed=[8],
        ),
    )
    store.finish_scan(second, NOW + 11, nodes=9, size=1)
    third, _ = store.begin_scan(NOW + 20)
    store.apply(third, Batch(updated=[grown._replace(size=950)], past=[(3, 900, 0)]))
    store.finish_scan(third, NOW + 21, nodes=9, size=1)
    since_first = [
        (past.name, past.before, past.now) for past in store.report("growth", 9, since_scan=first)
    ]
    assert since_first == [("main.py", 100, 950), ("born", 0, 50), (".hidden", 100, 0)]
    since_second = [
        (past.name, past.before, past.now) for past in store.report("growth", 9, since_scan=second)
    ]
    assert since_second == [("main.py", 900, 950)]
    assert len(store.report("growth", 1, [-850, 3], since_scan=first)) == 1
    assert [size for _, size in store.history(3)] == [950, 900, 100]
    assert [size for _, size in store.history(free)] == [50, 50]
    assert store.history(8) == []


def test_history_is_kept_for_the_newest_scans(open_store: Callable[..., TreeStore]) -> None:
    store = open_store(max_scans=2)
    fill(store)
    for size in (200, 300, 400):
        scan, _ = store.begin_scan(NOW + size)
        store.apply(scan, Batch(updated=[NODES[2]._replace(size=size)], past=[(3, size - 100, 0)]))
        store.finish_scan(scan, NOW + size, nodes=9, size=1)
    assert [scan.id for scan in store.scans()] == [4, 3]
    assert [size for _, size in store.history(3)] == [400, 300]
    store.close()


def test_reports_are_ordered_and_hard_links_count_once(store: TreeStore) -> None:
    fill(store)
    assert [row.node.id for row in store.report("largest", 3)] == [7, 6, 4]
    first, *_ = store.report("largest", 1)
    assert [row.node.id for row in store.report("largest", 2, first.key)] == [6, 4]
    assert [row.node.id for row in store.report("oldest", 2)] == [6, 3]
    assert [row.node.id for row in store.report("empty-folders", 9)] == [9]
    assert [row[1:] for row in store.report("by-extension", 9)] == [
        ("", 2, 1100, 0), ("log", 1, 300, 0), ("py", 2, 300, 0),
    ]  # fmt: skip
    later = store.report("by-extension", 9, [-1100, ""])
    assert [row.extension for row in later] == ["log", "py"]
    ages = {row.age: row.files for row in store.report("by-age", 9, now_ms=NOW)}
    assert ages["under a day"] == 2
    assert ages["under a week"] == 1
    assert ages["under three years"] == 1
    assert [row.key for row in store.report("by-age", 2, [3], now_ms=NOW)] == [[4], [5]]
    plan = store.explain_report("largest", 3)
    assert "ORDER BY" in plan.sql
    assert plan.steps


def test_copies_are_found_by_digest_and_only_as_long_as_they_are_the_same(store: TreeStore) -> None:
    fill(store)
    assert [n.id for n in store.undigested(1)] == [3, 8]
    store.keep_digests([(3, 100, NOW - 40 * DAY, b"d" * 32), (8, 100, NOW, b"d" * 32)])
    assert list(store.undigested(1)) == []
    (row,) = store.report("duplicates", 9)
    assert row[:4] == ([-100, "64" * 32], b"d" * 32, 100, 2)
    assert [n.id for n in row.nodes] == [3, 8]
    assert store.report("duplicates", 9, row.key) == []
    assert "digests" in store.explain_report("duplicates", 9).sql
    assert store.select("s", Condition("is", ":", "duplicate"), Context(NOW)) == 2
    scan, _ = store.begin_scan(NOW + 5)
    store.apply(scan, Batch(updated=[NODES[2]._replace(mtime_ms=NOW + 5)]))
    assert store.report("duplicates", 9) == []
    assert store.digest(NODES[7]) == b"d" * 32
    assert [n.id for n in store.undigested(1)] == [3]


def test_selections_are_sets(store: TreeStore) -> None:
    fill(store)
    store.add("a", [3, 4, 99])
    store.add("b", [4, 7])
    assert [member.id for member in store.members("a", 9)] == [3, 4]
    for how, ids in (("union", [3, 4, 7]), ("intersection", [4]), ("difference", [3])):
        store.discard("c")
        store.combine("c", "union", "a")
        store.combine("c", how, "b")  # type: ignore[arg-type]
        assert [member.id for member in store.members("c", 9)] == ids
    store.discard("a", [3, 3, 7])
    assert [member.id for member in store.members("a", 9)] == [4]
    assert [member.id for member in store.members("b", 1, after=4)] == [7]


def test_totals_count_nothing_twice_and_know_what_is_stale(store: TreeStore) -> None:
    fill(store)
    store.add("s", [2, 3, 6, 7, 10])
    totals = store.totals("s")
    assert (totals.entries, totals.files, totals.folders, totals.stale) == (5, 4, 1, 0)
    assert totals.size == 600 + 1000
    store.add("files", [3, 4, 10])
    assert store.totals("files").size == 300
    scan, _ = store.begin_scan(NOW + 5)
    store.apply(scan, Batch(updated=[NODES[2]._replace(size=150)], removed=[7]))
    assert store.totals("s").stale == 2
    assert {m.id: m.stale for m in store.members("s", 9) if m.stale} == {3: "changed", 7: "gone"}


TEXTS = st.sampled_from(
    [
        "*.py",
        "main.py",
        "*",
        "src/**",
        "[",
        "'; DROP TABLE nodes; --",
        "%",
        "_",
        '"',
        "caf*",
        "deep",
    ]
) | st.text(st.characters(blacklist_characters="\0"), min_size=1, max_size=8)
CONDITIONS = st.one_of(
    st.builds(Condition, st.sampled_from(["name", "path"]), st.just(":"), TEXTS),
    st.builds(Condition, st.sampled_from(["ext", "under"]), st.just(":"), TEXTS),
    st.builds(Condition, st.just("kind"), st.just(":"), st.sampled_from(KINDS)),
    st.builds(
        Condition,
        st.sampled_from(["size", "depth", "age", "modified"]),
        st.sampled_from(["<", "<=", ">", ">=", "="]),
        st.sampled_from([0, 1, 2, 100, 300, 40 * 86_400, NOW, NOW - 2 * DAY]),
    ),
    st.builds(Condition, st.just("is"), st.just(":"), st.sampled_from(["empty", "hidden"])),
)
TREES = st.recursive(
    CONDITIONS,
    lambda inner: (
        st.builds(Not, inner)
        | st.builds(And, st.lists(inner, min_size=2, max_size=3).map(tuple))
        | st.builds(Or, st.lists(inner, min_size=2, max_size=3).map(tuple))
    ),
    max_leaves=6,
)
PATHS = {
    each.id: "/".join(step.name for step in NODES if step.id in way).strip("/")
    for each, way in (
        (n, w)
        for n, w in zip(
            NODES,
            [{1}, {2}, {2, 3}, {2, 4}, {2, 5}, {2, 5, 6}, {7}, {8}, {9}, {2, 10}],
            strict=True,
        )
    )
}


def plain(text: str) -> str:
    return text.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")


def fits(tree: Filter, each: Node) -> bool:
    """What a filter means, without any SQL."""
    if isinstance(tree, And):
        return all(fits(item, each) for item in tree.items)
    if isinstance(tree, Or):
        return any(fits(item, each) for item in tree.items)
    if isinstance(tree, Not):
        return not fits(tree.item, each)
    value = tree.value
    if isinstance(value, int):
        now = {"size": each.size, "depth": each.depth, "modified": each.mtime_ms,
               "age": (NOW - each.mtime_ms) / 1000}[tree.field]  # fmt: skip
        return {"<": now < value, "<=": now <= value, ">": now > value, ">=": now >= value,
                "=": now == value}[tree.op]  # fmt: skip
    path = PATHS[each.id]
    if tree.field == "name":
        return compile_glob(value).matches(plain(each.name))
    if tree.field == "path":
        return compile_glob(value).matches(plain(path))
    if tree.field == "ext":
        ending = each.name.rpartition(".")[2].lower()
        return each.kind == FILE and ending == value and each.name.rpartition(".")[0] != ""
    if tree.field == "kind":
        return KINDS[each.kind] == value
    if tree.field == "under":
        names = [name for name in value.split("/") if name not in ("", ".")]
        return path.split("/")[: len(names)] == names and len(path.split("/")) > len(names)
    if value == "hidden":
        return each.name.startswith(".")
    return (each.kind == FOLDER and each.children == 0) or (each.kind == FILE and each.size == 0)


@settings(max_examples=200)
@given(tree=TREES)
def test_a_filter_selects_what_it_means_and_no_text_escapes_its_parameter(
    tree: Filter, store: TreeStore
) -> None:
    if store.get(1) is None:
        fill(store)
    try:
        for condition in list_conditions(tree):
            if condition.field in ("name", "path"):
                compile_glob(str(condition.value))
    except InvalidPattern:
        with pytest.raises(InvalidPattern):
            store.select("s", tree, Context(NOW))
        return
    wanted = {each.id for each in NODES[1:] if fits(tree, each)}
    assert store.select("s", tree, Context(NOW)) == len(wanted)
    assert {member.id for member in store.members("s", 99)} == wanted
    explained = store.explain(tree, Context(NOW))
    texts = [t for t in explained.parameters if isinstance(t, str) and len(t) > 3]
    assert not any(text in explained.sql for text in texts if text not in ("deep", "main.py"))
    assert len(store.children(1, 99)) == 4
