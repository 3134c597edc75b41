"""Files by pandoc, LibreOffice, AbiWord and others keep at least 99 % of their words.

`benchmarks/fidelity.py` makes these and a hundred more; `made.zip` holds some of them. `marks.zip`
holds what LibreOffice made of `marks.fodt`, which has a word beginning with "zm" in every place
where a text may hide, of slides with groups, a chart, a table, links and a comment, and of
workbooks with a comment, a link and a chart.
"""

from __future__ import annotations

import io
import re
import struct
import unicodedata
import zipfile
from collections import Counter
from pathlib import Path

import olefile
import pytest

from sonde.knowledge.formats import LEFT_OUT, File
from sonde.knowledge.parsing import parse_file

HERE = Path(__file__).parent / "fidelity"
MADE = zipfile.ZipFile(HERE / "made.zip")
MARKS = zipfile.ZipFile(HERE / "marks.zip")
_MARKUP = re.compile(r"^---$.*?^---$|\(https?://[^)]*\)|^\[\^\d\]:|\[\^\d\]|^:::[^\n]*|^ *\d+\. ",
                     re.DOTALL | re.MULTILINE)  # fmt: skip


def words(text: str) -> Counter[str]:
    text = unicodedata.normalize("NFKC", text).lower()
    return Counter(re.findall(r"[\u4e00-\u9fff]|[^\W_\u4e00-\u9fff]+", text))


@pytest.mark.parametrize("name", MADE.namelist())
def test_the_words_of_a_document_survive(name):
    (entry,) = parse_file(File(name, MADE.read(name), 1))
    text = "".join(piece.text for piece in entry.pieces)
    (source,) = HERE.glob(f"source/{name.split('.')[0]}.*")
    wanted = words(_MARKUP.sub("", source.read_text()))
    missing = wanted - words(text)
    assert missing.total() <= 0.01 * wanted.total(), missing
    assert "\ufffd" not in text
    assert "Menu 3" not in text


@pytest.mark.parametrize("name", ["rich.pandoc.docx", "rich.pandoc.odt", "rich.pandoc.epub",
                                  "rich.libreoffice-from-docx.rtf",
                                  "rich.libreoffice-from-docx.doc", "rich.menu.html"])  # fmt: skip
def test_structure_and_metadata_survive(name):
    (entry,) = parse_file(File(name, MADE.read(name), 1))
    text = "".join(piece.text for piece in entry.pieces)
    assert (entry.title, entry.facts["author"]) == ("Fleet review", "Anna Trevorrow")
    assert {"harbour", "fleet"} <= set(entry.tags) or name.endswith(
        ".epub"
    )  # pandoc leaves them out
    for heading in ("# The fleet of Port Ellery", "## Boats and their crews", "### Repairs"):
        assert heading in text
    assert "(https://example.org/register)" in text
    assert re.search(r"Otter +\| +9 +\| +Lindqvist", text)
    assert re.search(r"autumn\.\[?1(?s:.*)1[.\]]\s+The yard at Kilbrannan", text)


@pytest.mark.parametrize("name", ["slides.pandoc.pptx", "slides.libreoffice-from-pptx.ppt"])
def test_titles_of_slides_are_headings(name):
    (entry,) = parse_file(File(name, MADE.read(name), 1))
    lines = "".join(piece.text for piece in entry.pieces).split("\n")
    assert sum(line.startswith("# ") for line in lines) >= 3


def read_marks(name: str) -> tuple[str, dict[str, int]]:
    (entry,) = parse_file(File(name, MARKS.read(name), 1))
    return "".join(piece.text for piece in entry.pieces), entry.facts.get(LEFT_OUT, {})


@pytest.mark.parametrize("ending", ["docx", "odt", "fodt", "rtf", "doc"])
def test_text_in_every_place_of_a_document_survives(ending):
    text, lost = read_marks(f"marks.{ending}")
    places = "header inserted footnote endnote comment control textbox nested listone footer"
    for place in places.split():
        assert text.count(f"zm{place}") == 1, place
    assert "[zmlinktext](https://zmlink.example.org/x)" in text
    assert "zmcella | zmcellb" in text
    assert "shapeType" not in text  # a property of the text box
    assert "zmdeleted" not in text
    assert lost["tracked deletion"] == 1
    if ending != "doc":
        assert "Comment by C: zmcomment said" in text
        assert re.search(r"^# \s*Zmheadone$", text, re.MULTILINE)
        assert text.count("#") == 1  # tables of a text have names that nobody sees


@pytest.mark.parametrize(
    ("was", "named"),
    [("marks.doc", "docx"), ("book.xls", "xlsx"), ("slides.ppt", "pptx"), ("marks.odt", "doc")],
)
def test_a_file_of_another_ending_is_read_as_what_it_is(was, named):
    (entry,) = parse_file(File(f"x.{named}", MARKS.read(was), 1))
    (same,) = parse_file(File(was, MARKS.read(was), 1))
    assert entry.pieces == same.pieces


def test_charts_and_what_lies_on_sheets_survive():
    slides, lost = read_marks("slides.odp")
    for word in "zmgrouped zmgroupdeep zmcharttitle zmseries zmcatone zmcattwo zmnotes".split():
        assert word in slides
    assert "embedded object" not in lost
    assert read_marks("slides.ppt")[1]["embedded object"] == 1
    for ending in ("xls", "ods"):
        text, _ = read_marks(f"book.{ending}")
        assert "zmxcomment" in text
        assert "https://zmxlink.example.org/" in text
        assert "# zmsecond\nzmsecondcell" in text


def test_slides_of_powerpoint_97_keep_their_tables_links_comments_groups_and_notes():
    text, lost = read_marks("deck.ppt")
    first, second = text.split("Slide 2")
    assert "zmaone | zmatwo | zmathree\nzmbone |  | zmbthree" in first
    assert "See [zmlinktext](https://zmfirst.example.org/x) and more" in first
    assert "[zmgrouplink](https://zmgroup.example.org/)" in first
    assert "zmdeep in a group" in first
    assert "Comment by Zmauthor: zmremark said" in first
    assert "zmnoteone" in first
    assert "zmnotetwo" in second
    assert not lost


def test_the_values_of_a_chart_do_not_replace_cells_of_its_sheet():
    file = io.BytesIO(MARKS.read("chart.xls"))
    book = olefile.OleFileIO(file, write_mode=True)
    records = book.openstream("Workbook").read()
    setup = records.index(struct.pack("<HH", 0xA1, 34), records.index(b"\x09\x08\x10\0\0\x06\x20"))
    cached = struct.pack("<HHHHHd", 0x0203, 14, 0, 0, 0, 99.0) + struct.pack("<HH16x", 0x1065, 16)
    book.write_stream("Workbook", records[:setup] + cached + records[setup + len(cached) :])
    (entry,) = parse_file(File("chart.xls", file.getvalue(), 1))
    text = "".join(piece.text for piece in entry.pieces)
    assert text.startswith("# zmsheet\nzmboat | zmtons\nzmwalrus | 12\n")
    assert "zmcharttitle" in text
    assert "zmzero | 0\n0\n" in text
    assert "99" not in text
