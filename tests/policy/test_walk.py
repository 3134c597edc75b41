"""The walk: what it yields, what it leaves out and why, and that a single check agrees."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path
from unicodedata import normalize

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sonde.errors import FileMissing, InvalidPattern, OutsideRoots
from sonde.policy.admit import REASONS, Rules
from sonde.policy.roots import stamp_file
from sonde.policy.walk import check_path, walk_files, walk_folders
from sonde.types import ListedFile, Skipped


def make_files(root: Path, *paths: str, text: str = "x") -> None:
    for path in paths:
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text)


def tell(root: Path, rules: Rules | None = None) -> dict[str, str]:
    """Path -> "ok" or the reason, in the order of the walk."""
    found = walk_files(root, rules or Rules())
    return {one.path: "ok" if isinstance(one, ListedFile) else one.reason for one in found}


def test_files_come_in_the_order_of_their_names_with_size_and_time(tmp_path: Path) -> None:
    make_files(tmp_path, "b.py", "a/z.py", "a.py", "a/b/c.py")
    found = list(walk_files(tmp_path, Rules()))
    assert [one.path for one in found] == ["a/b/c.py", "a/z.py", "a.py", "b.py"]
    facts = (tmp_path / "b.py").stat()
    stamp = stamp_file(facts)
    expected = ListedFile("b.py", facts.st_size, facts.st_mtime_ns, stamp, facts.st_ctime_ns)
    assert found[-1] == expected


@pytest.mark.row("001-68")
def test_a_denied_folder_is_one_entry_and_nothing_overrides_it(tmp_path: Path) -> None:
    make_files(tmp_path, "node_modules/a/i.js", "node_modules/b/i.js", ".env", "src/a.js")
    make_files(tmp_path, ".sondeignore", text="!node_modules/\n!.env\n")
    told = tell(tmp_path, Rules(include=("**/*", "node_modules/**", ".env")))
    assert told == {
        ".env": "denied",
        ".sondeignore": "ok",
        "node_modules": "denied",
        "src/a.js": "ok",
    }


@pytest.mark.row("001-70")
def test_exclude_drops_files_and_whole_folders(tmp_path: Path) -> None:
    make_files(tmp_path, "gen/a.py", "src/gen/b.py", "src/c.min.js", "src/d.js")
    told = tell(tmp_path, Rules(exclude=("gen", "*.min.js")))
    assert told == {
        "gen": "excluded",
        "src/c.min.js": "excluded",
        "src/d.js": "ok",
        "src/gen": "excluded",
    }


@pytest.mark.parametrize("pattern", ["gen/", "gen/**", "/gen/*", "g*/", "{gen,other}"])
def test_an_excluded_folder_is_one_entry(tmp_path: Path, pattern: str) -> None:
    make_files(tmp_path, "gen/a.py", "gen/b/c.py", "a.py")
    assert tell(tmp_path, Rules(exclude=(pattern,))) == {"a.py": "ok", "gen": "excluded"}


def test_a_root_that_is_no_folder_is_an_error(tmp_path: Path) -> None:
    make_files(tmp_path, "a.py")
    for root in (tmp_path / "gone", tmp_path / "a.py"):
        with pytest.raises(FileMissing):
            list(walk_files(root, Rules()))


def test_exclude_looks_at_nothing_above_the_project(tmp_path: Path) -> None:
    make_files(tmp_path / "tmp/proj", "a.py")
    assert tell(tmp_path / "tmp/proj", Rules(exclude=("tmp/**", "tmp"))) == {"a.py": "ok"}


@pytest.mark.row("001-70")
def test_include_narrows(tmp_path: Path) -> None:
    make_files(tmp_path, "a.py", "b.md", "src/c.py")
    told = tell(tmp_path, Rules(include=("src/**", "*.md")))
    assert told == {"a.py": "not_included", "b.md": "ok", "src/c.py": "ok"}


def test_a_broken_pattern_is_an_error_at_once(tmp_path: Path) -> None:
    with pytest.raises(InvalidPattern):
        list(walk_files(tmp_path, Rules(exclude=("[a",))))


@pytest.mark.row("001-69")
def test_of_several_reasons_the_first_in_order_is_told(tmp_path: Path) -> None:
    refused = (".env", "excluded.png", "ignored.png", "picture.png", "large.txt")
    make_files(tmp_path, *refused, text="too large")
    make_files(tmp_path, "small.txt", "small.md")
    make_files(tmp_path, ".gitignore", text=".env\n*cluded.png\nignored.png\n")
    rules = Rules(exclude=(".env", "excluded.png", ".git*"), include=("*.md",), max_file_bytes=3)
    assert tell(tmp_path, rules) == {
        ".env": "denied",
        ".gitignore": "excluded",
        "excluded.png": "excluded",
        "ignored.png": "ignored",
        "large.txt": "too_large",
        "picture.png": "binary",
        "small.md": "ok",
        "small.txt": "not_included",
    }


@pytest.mark.row("001-78")
def test_links_are_not_followed_wherever_they_lead(tmp_path: Path) -> None:
    make_files(tmp_path, "outside/secret.txt", "proj/src/a.py")
    root = tmp_path / "proj"
    (root / "file").symlink_to("src/a.py")
    (root / "folder").symlink_to("../outside")
    (root / "loop").symlink_to(".")
    (root / "nowhere").symlink_to("gone")
    told = tell(root)
    assert told.pop("src/a.py") == "ok"
    assert set(told.values()) == {"symlink"}
    assert check_path(root, "folder/secret.txt", Rules()) == Skipped("folder/secret.txt", "symlink")


def test_special_files_are_left_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)  # the name of a socket must be short
    os.mkfifo(tmp_path / "fifo")
    with socket.socket(socket.AF_UNIX) as server:
        server.bind("socket")
    wanted = {"fifo": "special", "socket": "special"}
    if os.geteuid() == 0:
        try:
            os.mknod(tmp_path / "zero", 0o020666, os.makedev(1, 5))
            wanted["zero"] = "special"
        except PermissionError:
            pass  # a container without the right to make devices
    assert tell(tmp_path) == wanted


def test_a_second_hard_link_is_refused_unless_it_is_the_owners(tmp_path: Path) -> None:
    make_files(tmp_path, "outside.txt", "proj/a.txt")
    os.link(tmp_path / "outside.txt", tmp_path / "proj/inside.txt")
    assert tell(tmp_path / "proj") == {"a.txt": "ok", "inside.txt": "hard_link"}
    allowed = tell(tmp_path / "proj", Rules(owner=os.getuid()))
    assert allowed == {"a.txt": "ok", "inside.txt": "ok"}


@pytest.mark.row("001-84")
def test_twenty_folders_deep_is_walked_and_twenty_one_is_not(tmp_path: Path) -> None:
    deep = "/".join(f"d{level}" for level in range(20))
    make_files(tmp_path, f"{deep}/in.py", f"{deep}/d20/out.py")
    assert tell(tmp_path) == {f"{deep}/d20": "too_deep", f"{deep}/in.py": "ok"}


@pytest.mark.row("001-76")
def test_one_byte_over_the_limit_is_too_large(tmp_path: Path) -> None:
    (tmp_path / "full.txt").write_bytes(b"x" * 1024 * 1024)
    (tmp_path / "over.txt").write_bytes(b"x" * (1024 * 1024 + 1))
    assert tell(tmp_path) == {"full.txt": "ok", "over.txt": "too_large"}


@pytest.mark.skipif(sys.platform == "darwin", reason="the file system refuses such names")
def test_names_that_are_not_utf8_are_shown_readably(tmp_path: Path) -> None:
    (tmp_path / os.fsdecode(b"bad\xff.py")).write_text("x")
    (tmp_path / os.fsdecode(b"dir\xfe")).mkdir()
    (tmp_path / os.fsdecode(b"dir\xfe/a.py")).write_text("x")
    assert tell(tmp_path) == {"bad\\xff.py": "bad_name", "dir\\xfe": "bad_name"}


@pytest.mark.parametrize(
    "name", ["new\nline.py", "tab\t.py", "zero\u200bwidth.py", "\u202est.a.ts", "日"]
)
def test_odd_names_that_round_trip_are_files_like_others(tmp_path: Path, name: str) -> None:
    make_files(tmp_path, name)
    assert tell(tmp_path) == {name: "ok"}
    assert isinstance(check_path(tmp_path, name, Rules()), ListedFile)


def test_a_repository_inside_is_walked_without_its_git(tmp_path: Path) -> None:
    make_files(tmp_path, "lib/.git/config", "lib/a.py", "sub/.git", "sub/b.py")
    assert tell(tmp_path) == {
        "lib/.git": "denied",
        "lib/a.py": "ok",
        "sub/.git": "denied",
        "sub/b.py": "ok",
    }


def test_an_unreadable_folder_is_reported_and_the_rest_is_walked(tmp_path: Path) -> None:
    make_files(tmp_path, "closed/a.py", "open/b.py", "open/c.py")
    (tmp_path / "closed").chmod(0)
    (tmp_path / "open/c.py").chmod(0)
    program = (
        "import os, sys\n"
        "from pathlib import Path\n"
        "from sonde.policy.admit import Rules, Source\n"
        "from sonde.policy.read import FileReader\n"
        "from sonde.policy.walk import check_path, walk_files\n"
        "if os.geteuid() == 0: os.setgroups([]); os.setgid(65534); os.setuid(65534)\n"
        "root = Path('.')\n"
        "for one in walk_files(root, Rules()): print(one.path, getattr(one, 'reason', 'ok'))\n"
        "print(check_path(root, 'closed/a.py', Rules()).reason)\n"
        "print(FileReader(Source('', root, Rules())).read('closed/a.py').reason)\n"
        "print(FileReader(Source('', root, Rules())).read('open/c.py').reason)\n"
    )
    for folder in (tmp_path, *tmp_path.parents[:3]):
        if folder.stat().st_uid == os.geteuid() and folder != Path(folder.anchor):
            folder.chmod(folder.stat().st_mode | 0o055)
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    (tmp_path / "closed").chmod(0o755)
    told = ["closed unreadable", "open/b.py ok", "open/c.py ok", *["unreadable"] * 3]
    assert done.stdout.splitlines() == told, done.stderr


def test_an_empty_project_has_no_files(tmp_path: Path) -> None:
    assert tell(tmp_path) == {}


def test_a_check_says_missing_folder_and_outside(tmp_path: Path) -> None:
    make_files(tmp_path, "src/a.py")
    assert check_path(tmp_path, "src/b.py", Rules()) == Skipped(
        "src/b.py", "missing", "No such file or directory"
    )
    assert check_path(tmp_path, "src/a.py/b", Rules()) == Skipped("src/a.py/b", "missing")
    assert check_path(tmp_path, "src", Rules()) == Skipped("src", "folder")
    assert check_path(tmp_path, str(tmp_path / "src/a.py"), Rules()).path == "src/a.py"
    with pytest.raises(OutsideRoots):
        check_path(tmp_path, "../x", Rules())


_names = st.sampled_from(
    (
        "a",
        "b.py",
        "c.md",
        ".env",
        "node_modules",
        "x.png",
        "big.txt",
        "dist",
        "link",
        "hard",
        "e\u0301",
    )
)
_rules = st.builds(
    Rules,
    include=st.sampled_from((("**/*",), ("*.py",), ("a/**", "*.md"))),
    exclude=st.sampled_from(((), ("a/a",), ("*.md",), ("b.py/",), ("**/a/*",))),
    respect_gitignore=st.booleans(),
    max_file_bytes=st.sampled_from((5, 1024)),
    max_depth=st.sampled_from((1, 2, 20)),
    folds_case=st.booleans(),
)


@given(
    paths=st.lists(st.lists(_names, min_size=1, max_size=4).map("/".join), max_size=12),
    ignored=st.sampled_from(("", "a/\n", "*.md\n!c.md", "/b.py", "**/a")),
    rules=_rules,
)
@settings(max_examples=120)
def test_a_single_check_agrees_with_the_walk(
    tmp_path_factory: pytest.TempPathFactory, paths: list[str], ignored: str, rules: Rules
) -> None:
    root = tmp_path_factory.mktemp("tree")
    for path in paths:
        make_one(root, path)
    (root / ".gitignore").write_text(ignored)
    walked = {one.path: one for one in walk_files(root, rules)}
    assert all(check_path(root, path, rules) == one for path, one in walked.items())
    for place in root.rglob("*"):
        path = normalize("NFC", place.relative_to(root).as_posix())
        alone = check_path(root, path, rules)
        if path in walked or (isinstance(alone, Skipped) and alone.reason == "folder"):
            continue
        above = next(walked[p.as_posix()] for p in Path(path).parents if p.as_posix() in walked)
        assert isinstance(alone, Skipped)
        assert isinstance(above, Skipped)
        assert alone == Skipped(path, above.reason, above.detail)
        assert alone.reason in REASONS
    # one folder at a time is the same walk, and so are the folders that it comes through
    entered = set(walk_folders(root, rules))
    assert "" in entered
    for place in (each for each in root.rglob("*") if each.is_dir()):
        path = normalize("NFC", place.relative_to(root).as_posix())
        below = {one.path: one for one in walk_files(root, rules, path)}
        if path in entered:
            assert below == {n: one for n, one in walked.items() if n.startswith(f"{path}/")}
        else:
            assert not below


def make_one(root: Path, path: str) -> None:
    place = root / path
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        if place.name == "link":
            place.symlink_to("a")
        elif place.name == "hard":
            place.write_text("x")
            os.link(place, place.with_name("hard2"))
        else:
            place.write_text("x" * (100 if place.name == "big.txt" else 1))
    except OSError:
        pass  # an earlier path put a file or a folder where this one wants the other


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="needs /proc")
def test_a_folder_outside_leaves_nothing_open(tmp_path: Path) -> None:
    before = len(list(Path("/proc/self/fd").iterdir()))
    for _ in range(5):
        with pytest.raises(OutsideRoots):
            list(walk_files(tmp_path, Rules(), "../elsewhere"))
    assert len(list(Path("/proc/self/fd").iterdir())) == before
