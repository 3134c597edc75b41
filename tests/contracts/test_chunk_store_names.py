"""Names of definitions and files, and who imports a file."""


def test_names_of_definitions_come_back_whatever_letters_they_have(store, make_file):
    odd = ["Größe.ab", 'say "hi"', "back\\slash", '["x","type",']
    store.replace(
        [
            make_file("a.py", "x\n", symbols=["A.b", "operator[]"]),
            make_file("odd.md", "y\n", symbols=odd),
            make_file("b.py", "z\n"),
        ]
    )
    found = store.symbols_of(["a.py", "odd.md", "b.py", "gone.py"])
    assert {path: outline.list_names() for path, outline in found.items()} == {
        "a.py": [("A.b", "function"), ("operator[]", "function")],
        "odd.md": [(name, "function") for name in odd],
        "b.py": [],
    }


def test_importers_are_counted_again_after_every_change(store, make_file):
    store.replace([make_file("a.py", "x\n", imports=["os"])])
    assert store.importers(["os", "json"]) == {"os": 1}
    store.replace([make_file("b.py", "y\n", imports=["os", "json"])])
    assert store.importers(["os", "json"]) == {"os": 2, "json": 1}
    store.remove(["a.py"])
    assert store.importers(["os"]) == {"os": 1}


def test_files_are_found_by_the_beginning_of_a_name(store, make_file):
    store.replace([
        make_file("b.py", "x\n", symbols=["Cart.totalPrice"]),
        make_file("a.py", "y\n", symbols=["total_weight"]),
        make_file("totals.py", "z\n"),
    ])  # fmt: skip
    assert store.paths_beginning("Total", 10) == ["a.py", "b.py", "totals.py"]
    assert store.paths_beginning("total_p", 10) == ["b.py"]
    assert store.paths_beginning("total", 1) == ["a.py"]
    assert store.paths_beginning("price", 10) == store.paths_beginning('"', 10) == []


def test_names_are_listed_by_their_length(store, make_file):
    store.replace([
        make_file("ab.py", "x\n", symbols=["Cart.totalPrice"], imports=["os.path"]),
        make_file("b.py", "y\n", symbols=["total_price", "Größe"]),
    ])  # fmt: skip
    assert sorted(store.known_names(2, 10)) == ["ab", "grosse", "ospath", "totalprice"]
    assert store.known_names(14, 14) == ["carttotalprice"]
    store.remove(["ab.py"])
    assert sorted(store.known_names(2, 99)) == ["grosse", "totalprice"]


def test_files_under_a_folder_or_of_one_name(store, make_file):
    inside = ["lib/a.py", "lib/b/c.py", "lib/caf\udce9.py"]
    others = ["lib", "lib.py", "lib-2/a.py", "lib0/a.py", "a/lib/a.py", "caf\udce9/a.py"]
    store.replace([make_file(path, "x\n") for path in (*inside, *others)])
    assert sorted(store.files(under="lib")) == sorted([*inside, "lib"])
    assert sorted(store.files(under="lib/b")) == ["lib/b/c.py"]
    assert list(store.files(under="caf\udce9")) == ["caf\udce9/a.py"]
    assert store.files(under="gone") == {}
