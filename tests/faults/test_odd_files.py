"""Files with odd sizes, names, places and permissions."""

from __future__ import annotations

import os
import time
import unicodedata
from pathlib import Path
from typing import Any
from unicodedata import normalize

import pytest

ODD_NAMES = (
    "new\nline.py",
    "tab\tand\x07bell\x1b[31m.py",
    "right\u202eyp.txt",
    "zero\u200bwidth.py",
    " leading and trailing .py ",
    "-rf.py",
    "'quo\"te`s.py",
    "back\\slash.py",
    "star*[x]{y}?.py",
    "e\u0301t\u00e9.py",
    "é.py",
    "n" * 252 + ".py",
    "日本語.py",
    "🦭.py",
    "%s{0}.py",
    "CON.py",
    "...py",
)


def test_a_file_of_five_gigabytes_is_left_out_without_being_read(sonde: Any) -> None:
    huge = sonde.project / "huge.py"
    huge.touch()
    os.truncate(huge, 5 * 1024**3)
    began = time.monotonic()
    answer = sonde.ask("index", "--yes")
    assert time.monotonic() - began < 30
    assert answer["skipped"]["too_large"] == 1
    assert answer["filesIndexed"] == 31
    details = sonde.ask("status")["details"]
    assert {"path": "huge.py", "reason": "too_large", "detail": "5368709120 bytes"} in details[
        "skippedExamples"
    ]


def test_files_with_odd_names_are_indexed_and_found(sonde: Any) -> None:
    for number, name in enumerate(ODD_NAMES):
        (sonde.project / name).write_text(f"def oddity_{number}():\n    pass\n")
    assert sonde.ask("index", "--yes")["filesIndexed"] == 31 + len(ODD_NAMES)
    assert sonde.ask("index")["filesIndexed"] == 31 + len(ODD_NAMES)
    listed = sonde.ask("files", "*", "--limit", "100")["matches"]
    names = {normalize("NFC", name) for name in ODD_NAMES}
    assert names < set(listed)
    found = sonde.ask("grep", "oddity_[0-9]+", "--hidden")["matches"]
    assert {row["path"] for row in found} == names
    assert sonde.ask("search", "oddity_0")["results"][0]["path"] == ODD_NAMES[0]
    assert sonde.run("search", "oddity_1", "--limit", "50").returncode == 0


def test_names_that_are_no_text_are_left_out_and_counted(sonde: Any) -> None:
    root = os.fsencode(sonde.project)
    (sonde.project / "sub").mkdir()
    for name in (b"caf\xe9.py", b"\xff\xfe.py", b"sub/\x80.md"):
        with open(os.path.join(root, name), "wb") as file:  # noqa: PTH118, PTH123
            file.write(b"x = 1\n")
    os.mkdir(os.path.join(root, b"f\xf6lder"))  # noqa: PTH102, PTH118
    assert sonde.ask("index", "--yes")["skipped"]["bad_name"] == 4
    sonde.ask("search", "x")
    assert sonde.run("status").returncode == 0
    # one is a path on the command line
    done = sonde.run("search", "x", "--path", os.fsdecode(b"caf\xe9.py"))
    assert done.returncode == 1
    assert "Traceback" not in done.stderr


def test_very_deep_folders_are_left_out_and_counted(sonde: Any) -> None:
    place = sonde.project
    for _ in range(120):
        place = place / "deeper"
        place.mkdir()
        (place / "x.py").write_text("depth = 1\n")
    answer = sonde.ask("index", "--yes")
    assert answer["skipped"]["too_deep"] == 1
    assert answer["filesIndexed"] == 31 + 20


def test_special_files_and_links_are_not_opened(sonde: Any, tmp_path: Path) -> None:
    os.mkfifo(sonde.project / "pipe.py")
    (sonde.project / "loop").symlink_to(sonde.project)
    (sonde.project / "self.py").symlink_to("self.py")
    (tmp_path / "outside.py").write_text("def outside_only(): pass\n")
    (sonde.project / "out.py").symlink_to(tmp_path / "outside.py")
    answer = sonde.ask("index", "--yes")
    assert answer["skipped"] == {"denied": 1, "special": 1, "symlink": 3}
    assert sonde.ask("grep", "outside_only")["totalMatches"] == 0


@pytest.mark.row("001-176")
def test_a_tree_of_hard_links_is_indexed_but_not_the_files_of_another_user(
    sonde: Any, tmp_path: Path
) -> None:
    for place in list(sonde.project.rglob("*.py")):
        target = tmp_path / "original" / place.relative_to(sonde.project)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.hardlink_to(place)
    assert sonde.ask("index", "--yes")["filesIndexed"] == 31
    if os.geteuid() != 0:
        return
    (tmp_path / "theirs.py").write_text("def theirs_only(): pass\n")
    os.chown(tmp_path / "theirs.py", 4242, 4242)
    (sonde.project / "hard.py").hardlink_to(tmp_path / "theirs.py")
    assert sonde.ask("index")["skipped"]["hard_link"] == 1
    assert sonde.ask("grep", "theirs_only")["totalMatches"] == 0
    (example,) = sonde.ask("status")["details"]["skippedExamples"]
    assert example["path"] == "hard.py"


@pytest.mark.row("001-176")
def test_a_folder_of_which_nothing_may_be_indexed_says_why(sonde: Any) -> None:
    for place in sonde.project.rglob("*"):
        if place.is_file():
            place.unlink()
    (sonde.project / "only.pem").write_text("")
    answer = sonde.ask("index", "--yes")
    assert answer["filesIndexed"] == 0
    assert answer["message"] == "No file was indexed. Left out: 2 denied."


@pytest.mark.row("001-81")
def test_both_spellings_of_an_accent_are_one_name(sonde: Any) -> None:
    apart, whole = (normalize(form, "bücher/geänd.py") for form in ("NFD", "NFC"))
    path = sonde.project / apart
    path.parent.mkdir()
    path.write_text("def walrus_pages(): pass\n")
    sonde.ask("index", "--yes")
    for name in (apart, whole):
        assert sonde.ask("files", name)["matches"] == [whole]
        assert sonde.ask("files", f"{name.partition('/')[0]}/**")["matches"] == [whole]
        assert sonde.ask("search", "walrus_pages", "--path", name)["results"][0]["path"] == whole
        found = sonde.ask("grep", "walrus_pages", name)["matches"][0]["path"]
        assert unicodedata.normalize("NFC", found) == whole  # as it was typed
    path.write_text("def turnip_pages(): pass\n")
    assert sonde.ask("search", "turnip_pages")["results"][0]["path"] == whole
    # where both are there, one of them is named as left out
    twin = sonde.project / whole
    twin.parent.mkdir(exist_ok=True)
    twin.write_text("def second_pages(): pass\n")
    if not path.parent.samefile(twin.parent):
        assert sonde.ask("index")["skipped"]["same_name"] == 1
        assert sonde.ask("search", "second_pages")["results"][0]["path"] == whole


def test_files_that_may_not_be_read_are_left_out_and_come_back_when_they_may(sonde: Any) -> None:
    sonde = sonde.powerless()
    closed, shut = sonde.project / "closed.py", sonde.project / "shut"
    closed.write_text("def now_readable(): pass\n")
    shut.mkdir()
    (shut / "inside.py").write_text("def inside_shut(): pass\n")
    listed_only = sonde.project / "listed"
    listed_only.mkdir()
    (listed_only / "seen.py").write_text("x = 1\n")
    for path, mode in ((closed, 0), (shut, 0), (listed_only, 0o444)):
        path.chmod(mode)
    try:
        answer = sonde.ask("index", "--yes")
        assert answer["filesIndexed"] == 31
        assert answer["skipped"]["unreadable"] == 3
        examples = sonde.ask("status")["details"]["skippedExamples"]
        assert {row["path"] for row in examples} >= {"closed.py", "shut"}
        closed.chmod(0o644)
        assert sonde.ask("search", "now_readable")["results"][0]["path"] == "closed.py"
    finally:
        for path in (closed, shut, listed_only):
            path.chmod(0o755)
    assert sonde.ask("index")["filesIndexed"] == 34
    shut.chmod(0)
    try:
        assert sonde.ask("search", "inside_shut")["results"][:1] != ["shut/inside.py"]
    finally:
        shut.chmod(0o755)


@pytest.mark.row("001-118")
def test_a_project_folder_that_may_not_be_read_is_said_to_be(sonde: Any) -> None:
    sonde = sonde.powerless()
    outside = sonde.project.parent
    sonde.project.chmod(0)
    try:
        error = sonde.fail("index", "--project", str(sonde.project), "--yes", cwd=outside)
        assert error["code"] == "PERMISSION_DENIED"
        assert str(sonde.project) in error["developerMessage"]
    finally:
        sonde.project.chmod(0o755)


@pytest.mark.parametrize(
    "text", ["\ufeffx = 1\n", "x = 1\r\ny = 2\r\n", "x = 1\ry = 2\r", "no end"]
)
@pytest.mark.row("001-178")
def test_lines_are_counted_as_editors_count_them(sonde: Any, text: str) -> None:
    path = sonde.project / "lines.py"
    path.write_bytes(("# first\n" * 3 + text + "def sentinel_here(): pass").encode())
    sonde.ask("index", "--yes")
    (row,) = sonde.ask("grep", "sentinel_here")["matches"]
    hit = sonde.ask("search", "sentinel_here")["results"][0]
    assert hit["path"] == "lines.py"
    assert hit["startLine"] <= row["line"] <= hit["endLine"]
