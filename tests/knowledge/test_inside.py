"""What lies inside documents: fields, comments and files of a PDF, files in a DOCX, RTF lists."""

from __future__ import annotations

import io
import zipfile
from ctypes import POINTER, c_ushort, cast
from pathlib import Path

import pypdfium2
from pypdfium2 import raw

from sonde.knowledge.formats import LEFT_OUT, File
from sonde.knowledge.parsing import parse_file
from sonde.stores.knowledge.base import Entry

from .samples import make_pdf
from .test_losses import OFFICE, make_docx, pack


def read(name: str, data: bytes) -> tuple[Entry, str]:
    (entry,) = parse_file(File(name, data, 1))
    return entry, "".join(piece.text for piece in entry.pieces)


def make_annotated_pdf() -> bytes:
    field = b"/Annots [<</Subtype /Widget /FT /Tx /V (petrel) /Rect [0 0 9 9]>>] /Type /Page "
    document = pypdfium2.PdfDocument(
        make_pdf("Walrus on a page").replace(b"/Type /Page ", field, 1)
    )
    page = document[0]
    spelled = "ask Größe about it\0".encode("utf-16-le")
    for kind in (raw.FPDF_ANNOT_HIGHLIGHT, raw.FPDF_ANNOT_POPUP):
        annotation = raw.FPDFPage_CreateAnnot(page, kind)
        raw.FPDFAnnot_SetStringValue(annotation, b"Contents", cast(spelled, POINTER(c_ushort)))
        raw.FPDFPage_CloseAnnot(annotation)
    document.new_attachment("boats.csv").set_data(b"boat,length\notter,12\n")
    document.new_attachment("photo.raw").set_data(b"\0\1\2")
    out = io.BytesIO()
    document.save(out)
    return out.getvalue()


def test_comments_fields_and_files_of_a_pdf_come_in() -> None:
    entry, text = read("a.pdf", make_annotated_pdf())

    assert text.startswith("Walrus on a page")
    assert text.count("Comment: ask Größe about it") == 1
    assert "\npetrel" in text
    assert "Attachment boats.csv:\nboat | length\notter | 12" in text
    assert entry.facts[LEFT_OUT] == {"attached file": 1}


STAMP = b"""/Annots [
    <</Subtype /Stamp /Rect [9 9 99 99] /AP <</N 6 0 R>> >>
    <</Subtype /FreeText /Rect [9 199 99 299] /AP <</N 7 0 R>> >>
    <</Subtype /FreeText /Rect [9 99 99 199] /Contents (said) /AP <</N 7 0 R>> >>
    <</Subtype /Stamp /Rect [9 9 99 99] /AP <</N 8 0 R>> >>
    <</Subtype /Text /Rect [9 9 99 99] /RC (<p>rich <b>words</b></p>)>>
    <</Subtype /Screen /Rect [9 9 99 99]>>
] /Type /Page """


def test_stamps_come_in_by_the_text_that_they_are_drawn_with() -> None:
    form = (
        b"<</Type /XObject /Subtype /Form /BBox [0 0 90 90] %s /Length %d>>\nstream\n%s\nendstream"
    )
    fonts = b"/Resources <</Font <</F1 5 0 R>> >>"
    made = make_pdf("Walrus on a page").replace(b"/Type /Page ", STAMP, 1)
    for number, content in enumerate((b"(APPROVED)", b"(by hand)", b""), 6):
        drawn = b"BT /F1 9 Tf 5 40 Td %s Tj ET" % content if content else b"0 0 50 50 re f"
        made += b"\n%d 0 obj\n%s\nendobj" % (number, form % (fonts, len(drawn), drawn))
    entry, text = read("a.pdf", made)  # behind its end: pdfium makes the table of objects again
    assert text.startswith("Walrus on a page")
    assert [text.count(word) for word in ("APPROVED", "by hand", "Walrus", "Comment: said")] == [
        1, 1, 1, 1,
    ]  # fmt: skip
    assert "Comment: rich words" in text
    assert entry.facts[LEFT_OUT] == {"stamp": 1, "recording": 1}


def test_a_page_inside_a_docx_comes_in_where_it_stands() -> None:
    body = (
        f'<w:p><w:r><w:t>before</w:t></w:r></w:p><w:altChunk xmlns:r="{OFFICE}" r:id="rpage"/>'
        f'<w:altChunk xmlns:r="{OFFICE}" r:id="rgone"/><w:p><w:r><w:t>behind</w:t></w:r></w:p>'
    )
    packed = zipfile.ZipFile(io.BytesIO(make_docx(body, page="<html><p>A petrel</p></html>")))
    parts = {name: packed.read(name).decode() for name in packed.namelist()}
    moved = {name.replace("page.xml", "page.htm"): text.replace("page.xml", "page.htm")
             for name, text in parts.items()}  # fmt: skip

    entry, text = read("a.docx", pack(**moved))

    assert text.split() == ["before", "A", "petrel", "behind"]
    assert entry.facts[LEFT_OUT] == {"embedded object": 1}


def test_rtf_keeps_the_letter_behind_a_bullet_and_stars_inside_a_group() -> None:
    _, text = read("a.rtf", rb"{\rtf1 {\listtext\u8226 \tab}First {\b\*\cs7 item}{\*\gone x}\par}")

    assert text.split() == ["•", "First", "item"]


def test_slides_that_are_newer_than_their_ending_come_in() -> None:
    made = zipfile.ZipFile(Path(__file__).parent / "fidelity/made.zip")
    (name,) = (each for each in made.namelist() if each.endswith(".pptx"))

    assert read("a.ppt", made.read(name))[1] == read("a.pptx", made.read(name))[1]
