"""Files by pandoc, LibreOffice, AbiWord and others keep at least 99 % of their words.

`benchmarks/fidelity.py` makes these and a hundred more; `made.zip` holds some of them.
"""

from __future__ import annotations

import re
import unicodedata
import zipfile
from collections import Counter
from pathlib import Path

import pytest

from sonde.knowledge.formats import File
from sonde.knowledge.parsing import parse_file

HERE = Path(__file__).parent / "fidelity"
MADE = zipfile.ZipFile(HERE / "made.zip")
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
                                  "rich.libreoffice-from-docx.rtf", "rich.menu.html"])  # fmt: skip
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
