"""What every chunk store must do; a new backend is "make this list pass"."""

from __future__ import annotations

import threading

import numpy as np
import pytest

from sonde.text.words import index_terms
from sonde.types import AllOf, AnyOf, Filter, Symbol


def places(store, scored):
    """Where hits are, best first."""
    found = store.chunks([each.id for each in scored])
    return [(chunk.path, chunk.span.start_line) for chunk in found]


def texts(chunks):
    return [chunk.text for chunk in chunks]


def embed_all(store, model, vector_of):
    chunks = store.missing(model, 1_000)
    rows = np.stack([vector_of(chunk) for chunk in chunks])
    store.put_vectors(model, [chunk.digest for chunk in chunks], rows)


def only(*paths):
    return Filter(paths=frozenset(paths))


class TestFiles:
    def test_an_empty_store_answers_everything_with_nothing(self, store, unit):
        assert (store.counts().files, store.counts().chunks) == (0, 0)
        assert dict(store.files()) == {}
        assert store.chunks([1, 2]) == []
        assert store.chunks_of("a.py") == []
        assert store.lexical(["word"], 10) == []
        assert store.dense("m", unit(1), 10) == []
        assert store.missing("m", 10) == []
        assert store.coverage("m") == (0, 0)
        assert store.paths_named(["a"]) == set()
        assert store.trigram_candidates("word") == set()
        assert store.verify() == []

    def test_what_was_stored_comes_back_in_file_order(self, store, make_file):
        file = make_file("src/a.py", "one\n", "two\n", "three\n", names=["A", "A.b", ""])
        store.replace([file])
        stored = store.chunks_of("src/a.py")
        assert texts(stored) == ["one\n", "two\n", "three\n"]
        assert [(c.path, c.span, c.header, c.symbol, c.digest) for c in stored] == [
            (c.path, c.span, c.header, c.symbol, c.digest) for c in file.chunks
        ]
        assert store.files() == {"src/a.py": file.state}
        assert (store.counts().files, store.counts().chunks) == (1, 3)

    def test_chunks_come_in_the_order_asked_for_and_gone_ones_are_left_out(self, store, make_file):
        store.replace([make_file("a.py", "one\n", "two\n")])
        first, second = (chunk.id for chunk in store.chunks_of("a.py"))
        assert texts(store.chunks([second, 987_654, first])) == ["two\n", "one\n"]

    def test_replacing_leaves_nothing_of_the_predecessor(self, store, make_file):
        store.replace([make_file("a.py", "old words\n", symbols=["old"], imports=["older"])])
        old = [chunk.id for chunk in store.chunks_of("a.py")]
        assert store.term_counts(["old"]) == {"old": 1}
        store.replace([make_file("a.py", "new words\n")])
        assert store.chunks(old) == []
        assert store.lexical(["old"], 10) == []
        assert store.paths_named(["old"]) == set()
        assert store.importers(["older"]) == {}
        assert store.trigram_candidates("old words") == set()
        assert store.term_counts(["old", "new", "words"]) == {"old": 0, "new": 1, "words": 1}
        assert store.verify() == []

    def test_the_last_of_two_files_with_one_path_wins(self, store, make_file):
        store.replace([make_file("a.py", "first\n"), make_file("a.py", "second\n")])
        assert texts(store.chunks_of("a.py")) == ["second\n"]

    def test_removing_forgets_known_files_and_ignores_others(self, store, make_file):
        store.replace([make_file("a.py", "aaa\n"), make_file("b.py", "bbb\n")])
        store.remove(["a.py", "never.py"])
        assert set(store.files()) == {"b.py"}
        assert store.lexical(["aaa"], 10) == []

    def test_touching_changes_the_state_and_keeps_the_chunks(self, store, make_file):
        store.replace([make_file("a.py", "aaa\n", mtime_ns=1)])
        ids = [chunk.id for chunk in store.chunks_of("a.py")]
        touched = make_file("a.py", "aaa\n", mtime_ns=99).state
        store.touch([touched, make_file("unknown.py", "x").state])
        assert store.files() == {"a.py": touched}
        assert [chunk.id for chunk in store.chunks_of("a.py")] == ids

    def test_states_of_some_files_leave_unknown_ones_out(self, store, make_file):
        files = [make_file(path, "x\n") for path in ("a.py", "b.py", "caf\udce9.py")]
        store.replace(files)
        assert store.files(["caf\udce9.py", "b.py", "gone.py"]) == {
            "b.py": files[1].state,
            "caf\udce9.py": files[2].state,
        }
        assert store.files([]) == {}

    def test_clearing_forgets_everything(self, store, make_file, unit):
        store.replace([make_file("a.py", "aaa\n")])
        embed_all(store, "m", lambda _: unit(1))
        store.clear()
        assert (store.counts().files, store.counts().chunks) == (0, 0)
        assert store.dense("m", unit(1), 10) == []
        store.replace([make_file("a.py", "aaa\n")])
        assert store.coverage("m") == (0, 1)
        assert store.verify() == []

    def test_every_change_of_files_makes_the_generation_grow(self, store, make_file, unit):
        file = make_file("a.py", "aaa\n")
        seen = [store.generation()]
        for change in (
            lambda: store.replace([file]),
            lambda: store.touch([file.state]),
            lambda: store.remove(["a.py"]),
            store.clear,
        ):
            change()
            seen.append(store.generation())
        assert seen == sorted(set(seen))

    def test_a_file_without_chunks_is_a_file(self, store, make_file):
        store.replace([make_file("empty.py")])
        assert set(store.files()) == {"empty.py"}
        assert store.paths_named(["empty"]) == {"empty.py"}
        assert store.counts().chunks == 0

    def test_any_text_and_any_path_survives(self, store, make_file):
        odd = ["a'b\"c.py", "line\nbreak.py", "caf\udce9.py", "日本/語.py", "%_*?.py", "nul\0.py"]
        content = "tab\t nul\0 quote' \" emoji 🎉 surrogate \ud800 end\n"
        store.replace([make_file(path, content) for path in odd])
        assert set(store.files()) == set(odd)
        for path in odd:
            assert texts(store.chunks_of(path)) == [content]
            assert places(store, store.lexical(["emoji"], 10, only(path))) == [(path, 1)]
        store.remove(odd)
        assert dict(store.files()) == {}


class TestNames:
    def test_files_are_known_by_stem_and_by_what_they_define(self, store, make_file):
        store.replace(
            [
                make_file("src/http_client.test.py", "x\n", symbols=["Foo.barBaz"]),
                make_file("src/other.py", "y\n", symbols=["mod::Thing", "naïve"]),
            ]
        )
        client, other = "src/http_client.test.py", "src/other.py"
        for name in ("httpclient", "barbaz", "foobarbaz", "http_client", "Foo.barBaz"):
            assert store.paths_named([name]) == {client}, name
        assert store.paths_named(["thing"]) == store.paths_named(["naive"]) == {other}
        assert store.paths_named(["bar", "", '"', "known : x"]) == set()
        assert store.paths_named(["other", "barbaz"]) == {client, other}

    def test_importers_count_files_not_mentions(self, store, make_file):
        store.replace(
            [
                make_file("a.py", "x\n", imports=["os", "os", "json_tools"]),
                make_file("b.py", "y\n", imports=["os"]),
                make_file("os.py", "z\n"),
            ]
        )
        assert store.importers(["os", "jsontools", "nothing"]) == {"os": 2, "jsontools": 1}

    def test_symbols_come_back_as_they_were_written(self, store, make_file):
        store.replace([make_file("a.py", "x\n", symbols=["A.b", "c"]), make_file("b.py", "y\n")])
        first, second = Symbol("A.b", "function", 1, 1, 1), Symbol("c", "function", 2, 2, 2)
        found = store.symbols_of(["a.py", "b.py", "gone.py"]).items()
        assert {p: list(one) for p, one in found} == {"a.py": [first, second], "b.py": []}


class TestWords:
    def test_rare_words_and_names_and_paths_rank_first(self, store, make_file):
        filler = [make_file(f"f{n}.py", f"common text number {n}\n") for n in range(20)]
        store.replace(
            [
                *filler,
                make_file("parser/main.py", "nothing here\n"),
                make_file("b.py", "a parser is mentioned\n"),
                make_file("c.py", "def parser_of(): common\n", names=["parser_of"]),
            ]
        )
        ranked = places(store, store.lexical(["parser"], 10))
        assert ranked == [("c.py", 1), ("parser/main.py", 1), ("b.py", 1)]
        assert places(store, store.lexical(["common", "mentioned"], 1)) == [("b.py", 1)]

    def test_ties_are_broken_by_path_then_line_whatever_the_limit(self, store, make_file):
        for path in ("z.py", "a.py", "m.py"):
            store.replace([make_file(path, "same\n", "same\n")])
        expected = [(p, line) for p in ("a.py", "m.py", "z.py") for line in (1, 2)]
        for limit in range(1, 7):
            assert places(store, store.lexical(["same"], limit)) == expected[:limit]

    def test_no_query_word_can_break_the_search(self, store, make_file):
        store.replace([make_file("a.py", "AND or near 日本語 Übung 🎉 not1\n")])
        for text in ("AND", "near", "日本", "ubung", "🎉", "not1"):
            assert places(store, store.lexical(index_terms(text), 5)) == [("a.py", 1)], text
        nasty = ['"', "*", "a*", "path:x", "NEAR(", "-", "\0", "\ud800", "(", "x OR y", "'", "{}"]
        for text in nasty:
            assert isinstance(store.lexical([text], 5), list)
        assert store.lexical([], 5) == store.lexical(["and"], 0) == []

    def test_a_hundred_thousand_words_are_a_legal_query(self, store, make_file):
        store.replace([make_file("a.py", "needle\n"), make_file("b.py", "hay\n")])
        terms = [*(f"w{n}" for n in range(200)), "needle", *(f"x{n}" for n in range(100_000))]
        assert places(store, store.lexical(terms, 5)) == [("a.py", 1)]

    def test_a_filter_finds_its_file_even_by_the_commonest_word(self, open_store, make_file):
        store = open_store(postings=10)
        store.replace([make_file(f"f{n:03}.py", "common word\n") for n in range(60)])
        store.replace([make_file("rare.py", "rare stuff\n")])
        found = store.lexical(["rare", "common"], 5, only("f042.py", "unknown.py"))
        assert places(store, found) == [("f042.py", 1)]
        assert store.lexical(["common"], 5, only()) == []
        assert store.lexical(["common"], 5, only("unknown.py")) == []

    def test_the_commonest_words_yield_to_rarer_ones(self, open_store, make_file):
        store = open_store(postings=10)
        store.replace([make_file(f"f{n:03}.py", "common word\n") for n in range(60)])
        store.replace([make_file("rare.py", "rare common\n")])
        assert places(store, store.lexical(["common", "rare"], 5)) == [("rare.py", 1)]
        assert len(store.lexical(["common"], 100)) == 61

    def test_a_filter_over_many_files_keeps_the_ranking(self, store, make_file):
        files = [make_file(f"f{n:03}.py", "word " * (n % 7 + 1) + "\n") for n in range(120)]
        store.replace(files)
        wanted = only(*(f"f{n:03}.py" for n in range(0, 120, 2)))
        everything = places(store, store.lexical(["word"], 500))
        assert (
            places(store, store.lexical(["word"], 20, wanted))
            == [place for place in everything if place[0] in wanted.paths][:20]
        )


class TestTrigrams:
    def test_a_file_that_holds_the_text_is_a_candidate_in_any_case(self, store, make_file):
        store.replace(
            [make_file("a.py", "def Needle(x):\n", "  pass\n"), make_file("b.py", "hay\n")]
        )
        assert store.trigram_candidates(AllOf(("needle(", "PASS"))) == {"a.py"}
        assert store.trigram_candidates("needle", only("b.py")) == set()
        assert store.trigram_candidates("nowhere to be found") == set()

    def test_needs_may_be_nested(self, store, make_file):
        store.replace([make_file(f"{word}.py", f"{word} = here\n") for word in ("left", "right")])
        here = AllOf((AnyOf(("left =", "up =")), "HERE"))
        assert store.trigram_candidates(here) == {"left.py"}
        assert store.trigram_candidates(AnyOf((here, "right"))) == {"left.py", "right.py"}
        assert store.trigram_candidates(AnyOf((here, "z"))) == {"left.py", "right.py"}
        assert not store.trigram_candidates(AllOf((here, "right", "left = here " * 900)))

    def test_short_strings_exclude_nothing(self, store, make_file):
        store.replace([make_file("a.py", "x\n"), make_file("b.py", "y\n")])
        assert (
            store.trigram_candidates("zz")
            == store.trigram_candidates(AllOf(()))
            == {"a.py", "b.py"}
        )
        assert store.trigram_candidates(AllOf(()), only("b.py")) == {"b.py"}

    def test_text_across_the_border_of_two_chunks_is_found(self, store, make_file):
        store.replace([make_file("a.py", "one long li", "ne of text")])
        assert store.trigram_candidates("long line of") == {"a.py"}

    def test_folding_that_changes_the_length_loses_nothing(self, store, make_file):
        store.replace([make_file("a.md", "Große STRASSE İstanbul ﬁne ςΣ\n")])
        for text in ("große", "GROSSE", "straße", "İstanbul", "fine", "ΣΣ", "ﬁne"):
            assert store.trigram_candidates(text) == {"a.md"}, text


class TestVectors:
    def test_the_nearest_come_first_and_chunks_without_vector_are_absent(
        self, store, make_file, unit
    ):
        store.replace([make_file("a.py", "one\n", "two\n", "three\n"), make_file("b.py", "four\n")])
        one, two, three = store.chunks_of("a.py")
        rows = np.stack([unit(1, 0), unit(1, 1), unit(-1, 0)])
        store.put_vectors("m", [one.digest, two.digest, three.digest], rows)
        found = store.dense("m", unit(1, 0), 10)
        assert [each.id for each in found] == [one.id, two.id, three.id]
        assert [each.score for each in found] == pytest.approx([1, 0.5**0.5, -1], abs=2e-3)
        assert [each.id for each in store.dense("m", unit(1, 0), 1)] == [one.id]
        assert store.dense("other", unit(1), 10) == []
        assert store.coverage("m") == (3, 4)
        assert texts(store.missing("m", 10)) == ["four\n"]

    def test_zero_vectors_count_as_done_and_are_never_retrieved(self, store, make_file, unit):
        store.replace([make_file("a.py", "one\n", "two\n")])
        one, two = store.chunks_of("a.py")
        store.put_vectors("m", [one.digest, two.digest], np.stack([unit(0), unit(0, 1)]))
        assert [each.id for each in store.dense("m", unit(0, 1), 10)] == [two.id]
        assert store.coverage("m") == (2, 2)
        assert not store.vectors("m", [one.id])[one.id].any()
        assert store.dense("m", unit(0), 10) == []

    def test_a_filter_acts_before_the_limit(self, store, make_file, unit):
        store.replace([make_file(f"f{n:02}.py", f"text {n}\n") for n in range(40)])
        embed_all(store, "m", lambda chunk: unit(1, 0 if chunk.path < "f39" else 5))
        assert places(store, store.dense("m", unit(1), 1, only("f39.py"))) == [("f39.py", 1)]
        assert store.dense("m", unit(1), 5, only("unknown.py")) == []

    def test_ties_are_broken_by_path_then_line(self, store, make_file, unit):
        for path in ("z.py", "a.py", "m.py"):
            store.replace([make_file(path, "1\n", "2\n")])
        embed_all(store, "m", lambda _: unit(1))
        expected = [(p, line) for p in ("a.py", "m.py", "z.py") for line in (1, 2)]
        for limit in (1, 3, 6):
            assert places(store, store.dense("m", unit(1), limit)) == expected[:limit]

    def test_a_changed_file_keeps_the_vectors_of_its_equal_chunks(self, store, make_file, unit):
        store.replace([make_file("a.py", "kept\n", "changed\n")])
        embed_all(store, "m", lambda chunk: unit(1) if "kept" in chunk.text else unit(0, 1))
        store.replace([make_file("a.py", "kept\n", "new\n")])
        assert store.coverage("m") == (1, 2)
        assert texts(store.missing("m", 5)) == ["new\n"]
        assert places(store, store.dense("m", unit(1), 5)) == [("a.py", 1)]

    def test_files_without_chunks_hide_nobodys_removal(self, store, make_file, unit):
        store.replace([make_file("empty.py"), make_file("full.py", "one\n", "two\n")])
        embed_all(store, "m", lambda _: unit(1))
        assert store.coverage("m") == (2, 2)
        store.replace([make_file("empty.py"), make_file("full.py", "three\n")])
        assert store.coverage("m") == (0, 1)
        assert store.dense("m", unit(1), 5) == []

    def test_the_newest_files_are_missing_first(self, store, make_file):
        store.replace([make_file(f"{n}.py", f"t{n}\n", mtime_ns=n) for n in (5, 9, 1, 7)])
        assert texts(store.missing("m", 3)) == ["t9\n", "t7\n", "t5\n"]

    def test_digests_with_a_vector_are_known_even_before_their_chunks(self, store, make_file, unit):
        file = make_file("a.py", "one", "two")
        first, second = (chunk.digest for chunk in file.chunks)
        store.put_vectors("m", [first], unit(1.0)[None, :])
        assert store.known_digests("m", [first, second]) == {first}
        assert store.known_digests("other", [first]) == set()

    def test_vectors_of_two_models_do_not_mix(self, store, make_file, unit):
        store.replace([make_file("a.py", "one\n")])
        (chunk,) = store.chunks_of("a.py")
        store.put_vectors("deep", [chunk.digest], unit(1)[None, :])
        store.put_vectors("static", [chunk.digest], np.eye(1, 8, 3, np.float32))
        assert store.vectors("static", [chunk.id])[chunk.id] == pytest.approx(np.eye(8)[3])
        assert store.vectors("deep", [chunk.id])[chunk.id] == pytest.approx(unit(1))
        assert store.vectors("deep", [chunk.id + 99]) == {}
        assert len(store.dense("static", np.eye(8, dtype=np.float32)[3], 5)) == 1

    def test_a_second_vector_for_a_digest_takes_the_place_of_the_first(
        self, store, make_file, unit
    ):
        store.replace([make_file("a.py", "one\n")])
        (chunk,) = store.chunks_of("a.py")
        store.put_vectors("m", [chunk.digest], unit(1)[None, :])
        store.dense("m", unit(1), 1)
        store.put_vectors("m", [chunk.digest], unit(0, 1)[None, :])
        (hit,) = store.dense("m", unit(0, 1), 5)
        assert hit.score == pytest.approx(1, abs=2e-3)

    def test_compacting_changes_no_answer(self, store, make_file, unit):
        for turn in range(4):
            store.replace([make_file(f"f{n}.py", f"text {n} {turn}\n") for n in range(8)])
            embed_all(store, "m", lambda chunk: unit(*chunk.digest[:6]))
        query = unit(*range(6))
        before = (store.lexical(["text"], 50), store.dense("m", query, 50), store.files())
        store.compact()
        assert (store.lexical(["text"], 50), store.dense("m", query, 50), store.files()) == before
        assert store.coverage("m") == (8, 8)
        assert store.verify() == []


class TestReaders:
    def test_readers_never_fail_or_see_half_a_write(self, store, make_file, unit):
        store.replace([make_file(f"{n}.py", "turn 0\n") for n in range(5)])
        done, wrong = threading.Event(), []

        def read() -> None:
            while not done.is_set():
                seen = {state.size for state in store.files().values()}
                if len(seen) != 1:
                    wrong.append(seen)
                store.lexical(["turn"], 5)
                store.dense("m", unit(1), 5)

        readers = [threading.Thread(target=read) for _ in range(2)]
        for reader in readers:
            reader.start()
        for turn in range(1, 12):
            store.replace([make_file(f"{n}.py", "turn " + "x" * turn) for n in range(5)])
            embed_all(store, "m", lambda _: unit(1))
        store.compact()
        done.set()
        for reader in readers:
            reader.join()
        assert wrong == []
        assert store.verify() == []
