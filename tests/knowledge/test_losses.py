"""Nothing is lost silently: what a file holds comes in, and what cannot be read is counted."""

from __future__ import annotations

import contextlib
import io
import json
import os
import shutil
import zipfile
from email.message import EmailMessage
from typing import Any

import pytest

from sonde.knowledge.formats import LEFT_OUT, LOSSES, File, RefusedFormat
from sonde.knowledge.importing import import_source
from sonde.knowledge.parsing import parse_file
from sonde.runtime.work import Work
from sonde.stores.knowledge.base import Entry
from sonde.stores.knowledge.sqlite import SqliteKnowledge
from sonde.types import Skipped

from .samples import make_pdf

W = 'xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main"'
OFFICE = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"


def parse(name: str, data: bytes, left: list[Skipped] | None = None, **options: Any) -> list[Entry]:
    return parse_file(File(name, data, 1), left_out=left, **options)


def text_of(entry: Entry) -> str:
    return "".join(piece.text for piece in entry.pieces)


def pack(**parts: str) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        for name, text in parts.items():
            archive.writestr(name, text)
    return out.getvalue()


def make_docx(body: str, **notes: str) -> bytes:
    """A document with parts: footnotes, comments, header1."""
    relations = "".join(
        f'<Relationship Id="r{name}" Type="{OFFICE}/{name.rstrip("1")}" Target="{name}.xml"/>'
        for name in notes
    )
    head = '<Relationships xmlns="http://schemas.openxmlformats.org/package/2006/relationships">'
    return pack(**{
        "_rels/.rels": f'{head}<Relationship Id="a" Type="{OFFICE}/officeDocument" '
                       'Target="word/document.xml"/></Relationships>',
        "word/_rels/document.xml.rels": f"{head}{relations}</Relationships>",
        "word/document.xml": f"<w:document {W}><w:body>{body}</w:body></w:document>",
        **{f"word/{name}.xml": text for name, text in notes.items()},
    })  # fmt: skip


def run(text: str) -> str:
    return f"<w:r><w:t>{text}</w:t></w:r>"


def test_word_documents_come_in_whole():
    nested = f"<w:tbl><w:tr><w:tc><w:p>{run('nested')}</w:p></w:tc></w:tr></w:tbl>"
    body = (
        f"<w:p><w:ins>{run('inserted')}</w:ins><w:del><w:r><w:delText>deleted</w:delText></w:r></w:del>"
        f"<w:sdt><w:sdtContent>{run('inline')}</w:sdtContent></w:sdt>"
        '<w:r><w:footnoteReference w:id="2"/></w:r>'
        f"<w:r><w:pict><w:txbxContent><w:p>{run('boxed')}</w:p></w:txbxContent></w:pict></w:r></w:p>"
        f"<w:sdt><w:sdtContent><w:p>{run('control')}</w:p></w:sdtContent></w:sdt>"
        f"<w:tbl><w:tr><w:tc><w:p>{run('outer')}</w:p>{nested}</w:tc></w:tr></w:tbl>"
    )
    notes = {
        "footnotes": f'<w:footnotes {W}><w:footnote w:id="2"><w:p>{run("noted")}</w:p></w:footnote>'
        "</w:footnotes>",
        "comments": f'<w:comments {W}><w:comment w:id="0" w:author="Ann"><w:p>{run("remark")}</w:p>'
        "</w:comment></w:comments>",
        "header1": f"<w:hdr {W}><w:p>{run('heading')}</w:p></w:hdr>",
        "footer1": f"<w:ftr {W}><w:p>{run('footing')}</w:p></w:ftr>",
    }
    (entry,) = parse("x.docx", make_docx(body, **notes))
    text = text_of(entry)
    for word in ("inserted inline boxed control outer nested noted remark heading footing").split():
        assert word in text
    assert "deleted" not in text
    assert "Comment by Ann: remark" in text
    assert entry.facts[LEFT_OUT] == {"tracked deletion": 1}


def test_a_damaged_part_is_skipped_and_named():
    left: list[Skipped] = []
    data = make_docx(f"<w:p>{run('kept')}</w:p>", comments="<broken")
    (entry,) = parse("x.docx", data, left)
    assert text_of(entry).strip() == "kept"
    assert entry.facts[LEFT_OUT] == {"damaged part": 1}
    assert [(each.path, each.reason) for each in left] == [("x.docx/word/comments.xml", "damaged")]


def make_pages(*streams: bytes) -> bytes:
    """A PDF with a page for each stream."""
    one = make_pdf("First page").replace(b"/Kids [3 0 R] /Count 1", b"/Kids [3 0 R 6 0 R] /Count 2")
    start = one.index(b"xref")
    picture = (b"<< /Type /XObject /Subtype /Image /Width 1 /Height 1 /BitsPerComponent 8 "
               b"/ColorSpace /DeviceGray /Length 1 >>\nstream\nx\nendstream")  # fmt: skip
    drawn = b"/Resources << /XObject << /I 8 0 R >> >>"
    objects = [
        b"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 300 300] /Contents 7 0 R %s >>" % drawn,
        b"<< /Length %d >>\nstream\n%s\nendstream" % (len(streams[0]), streams[0]),
        picture,
    ]
    extra = b"".join(b"%d 0 obj\n%s\nendobj\n" % (at, each) for at, each in enumerate(objects, 6))
    return one[:start] + extra + b"trailer << /Size 9 /Root 1 0 R >>\n%%EOF"


@pytest.mark.skipif(shutil.which("tesseract") is not None, reason="tesseract would read the page")
def test_a_scanned_page_is_counted_without_tesseract():
    (entry,) = parse("x.pdf", make_pages(b"q 300 0 0 300 0 0 cm /I Do Q"))
    assert "First page" in text_of(entry)
    assert entry.facts[LEFT_OUT] == {"scanned page": 1}


@pytest.mark.skipif(shutil.which("tesseract") is None, reason="tesseract is not installed")
def test_scanned_text_is_read_by_tesseract(tmp_path):
    from PIL import Image, ImageDraw, ImageFont

    image = Image.new("L", (900, 200), 255)
    ImageDraw.Draw(image).text((40, 60), "Walrus harbour", 0, ImageFont.load_default(size=64))
    image.save(tmp_path / "scan.pdf", resolution=100)
    (entry,) = parse("scan.pdf", (tmp_path / "scan.pdf").read_bytes())
    assert "Walrus harbour" in text_of(entry)
    assert entry.facts["read_by_tesseract"] == "1 of 1 pages"


@pytest.mark.skipif(shutil.which("tesseract") is None, reason="tesseract is not installed")
def test_scans_are_read_once_tesseract_is_installed(tmp_path, monkeypatch):
    from PIL import Image, ImageDraw, ImageFont

    image = Image.new("L", (900, 200), 255)
    ImageDraw.Draw(image).text((40, 60), "Walrus harbour", 0, ImageFont.load_default(size=64))
    (tmp_path / "scans").mkdir()
    image.save(tmp_path / "scans" / "scan.png")
    installed = os.environ["PATH"]
    with contextlib.closing(SqliteKnowledge(tmp_path / "store")) as store:
        monkeypatch.setenv("PATH", str(tmp_path))
        report = import_source(store, tmp_path / "scans", Work())
        assert (report.added, report.left_out) == (1, {"unread picture": 1})
        assert import_source(store, tmp_path / "scans", Work()).unchanged == 1
        monkeypatch.setenv("PATH", installed)
        report = import_source(store, tmp_path / "scans", Work())
        assert (report.updated, report.left_out) == (1, {})
        (entry,) = store.list_entries("media")
        assert "Walrus harbour" in text_of(entry)
        assert import_source(store, tmp_path / "scans", Work()).unchanged == 1


def test_a_pdf_with_a_broken_page_keeps_the_others():
    data = make_pages(b"").replace(
        b"/Type /Page /Parent 2 0 R /MediaBox [0 0 300 300] /Contents 7",
        b"/Type /Nope /Parent 2 0 R /MediaBox [0 0 300 300] /Contents 7",
    )
    assert "First page" in text_of(parse("x.pdf", data)[0])


def test_words_cut_at_line_ends_are_put_together():
    from sonde.knowledge.formats.pdf import _join_lines

    text = "a harbour-\nmaster of well-known and well-\nknown Gr\u00a8 oße"
    assert _join_lines(text) == "a harbourmaster\n of well-known and well-known\n Größe"


@pytest.mark.parametrize("encoding", ["windows-1251", "koi8-r", "shift_jis", "gbk"])
def test_a_page_is_read_in_the_encoding_that_it_names(encoding):
    said = {"shift_jis": "海の灯台は古い", "gbk": "海边的灯塔很旧"}.get(
        encoding, "Письма с острова"
    )
    menu = "".join(f"<li><a href='/{n}'>Menu entry {n}</a></li>" for n in range(30))
    page = f"<html><head><meta charset={encoding}></head><nav>{menu}</nav><p>{said} {said}</p>"
    (entry,) = parse("x.html", page.encode(encoding))
    assert text_of(entry) == f"{said} {said}"


def test_the_article_comes_in_and_not_the_menus():
    page = """<html><head><title>Nets</title><link rel=canonical href="https://gull.org/nets">
    <script type="application/ld+json">{"@type": "Article", "author": {"name": "Ann Gull"},
    "datePublished": "2024-03-01"}</script></head><body>
    <svg><title>Search icon</title></svg><div class="cookie-banner">We use cookies</div>
    <nav><a href=/>Home</a> <a href=/a>About</a></nav>
    <article><h1>How to mend nets</h1><p>Take <a href="/twine">twine</a>.</p>
    <table><tr><th>Size<th>Use<tr><td>2<td>herring</table></article>
    <footer>All rights reserved</footer></body></html>"""
    (entry,) = parse("x.html", page.encode())
    assert text_of(entry) == (
        "# How to mend nets\n\nTake [twine](https://gull.org/twine).\n\nSize | Use\n2 | herring"
    )
    assert (entry.title, entry.url) == ("Nets", "https://gull.org/nets")
    assert (entry.facts["author"], entry.created_at) == ("Ann Gull", 1_709_251_200_000)
    assert entry.facts[LEFT_OUT] == {"menu": 3}


def test_a_page_without_closing_tags_is_read():
    (entry,) = parse("x.html", b"<head><title>T</title><p>words of the page")
    assert (entry.title, text_of(entry)) == ("T", "words of the page")


def make_mail(**heads: str) -> EmailMessage:
    mail = EmailMessage()
    for name, value in {"From": "a@b.org", "Subject": "hello", **heads}.items():
        mail[name.replace("_", "-")] = value
    return mail


def test_mail_comes_in_with_its_attachments_and_what_it_forwards():
    inner = make_mail(Subject="earlier")
    inner.set_content("forwarded words")
    mail = make_mail(X_Gmail_Labels="Inbox,Fleet")
    mail.set_content("see below")
    mail.add_attachment("notes of the yard", filename="notes.txt")
    docx = make_docx(f"<w:p>{run('attached words')}</w:p>")
    mail.add_attachment(docx, "application", "octet-stream", filename="a.docx")
    mail.add_attachment(b"\0\1", "application", "octet-stream", filename="b.bin")
    mail.add_attachment(inner)
    (entry,) = parse("x.eml", bytes(mail))
    for words in ("see below", "notes of the yard", "attached words", "forwarded words", "earlier"):
        assert words in text_of(entry)
    assert entry.tags == ("Inbox", "Fleet")
    assert entry.facts[LEFT_OUT] == {"attached file": 1}


def test_the_page_of_a_mail_is_read_where_the_plain_text_says_something_else():
    mail = make_mail()
    mail.set_content("Your mail program shows no pages. Read this message online, please.")
    mail.add_alternative(
        "<p>The boats leave at <b>seven</b> from the old yard.</p>", subtype="html"
    )
    assert "The boats leave at seven" in text_of(parse("x.eml", bytes(mail))[0])
    mail.clear_content()
    mail.set_content("The boats\nleave at seven -- Ann")
    mail.add_alternative("<p>The boats leave at <b>seven</b></p><p>Ann</p>", subtype="html")
    assert text_of(parse("x.eml", bytes(mail))[0]).endswith("leave at seven -- Ann")


def test_a_line_of_a_body_that_begins_with_from_splits_no_mail():
    box = (
        b"From a@b Mon Jan  1 10:00:00 2024\nSubject: one\nFrom: a@b\n\nDear all,\n\n"
        b"From the desk of nobody\nFrom here: it goes\nNote: splitword\n\n"
        b"From a@b Mon Jan  1 11:00:00 2024\nSubject: two\nFrom: a@b\n\n>From the sea\n"
    )
    one, two = parse("x.mbox", box)
    assert "splitword" in text_of(one)
    assert text_of(two).endswith("\nFrom the sea")


def test_a_mail_without_an_encoding_is_read():
    raw = b"From: a@b\nTo: c@d\nSubject: x\nContent-Type: text/plain\n\nGr\xf6\xdfe\n"
    assert "Größe" in text_of(parse("x.eml", raw)[0])


def test_a_mailbox_larger_than_a_part_is_read_in_parts(tmp_path):
    from sonde.knowledge.formats.mail import split_mailbox

    mail = (
        b"From a@b Mon Jan  1 10:00:00 2024\nSubject: %d\nFrom: a@b\n\n"
        + b"word " * 9_000
        + b"\n\n"
    )
    box = b"".join(mail % number for number in range(20))
    parts = list(
        split_mailbox((box[at : at + 50_000] for at in range(0, len(box), 50_000)), 100_000)
    )
    assert b"".join(parts) == box
    assert 3 < len(parts) <= 20
    assert all(part.startswith(b"From a@b") for part in parts)


def test_settings_are_no_prompts():
    for name, data in (
        ("package.json", b'{"name": "x", "version": "1", "main": "index.js"}'),
        ("en.json", b'{"hello": "Hello", "bye": "Bye"}'),
        ("ci.yml", b"name: CI\non: push\njobs: {}\n"),
        ("user.json", b'{"id": "user-1", "email": "a@b.org"}'),
    ):
        with pytest.raises(RefusedFormat) as refused:
            parse(name, data)
        assert refused.value.reason == "unknown"
    (entry,) = parse("people.csv", b"name,content\nAnn,captain\n")
    assert (entry.source, text_of(entry)) == ("media", "name | content\nAnn | captain")


@pytest.mark.parametrize(
    ("name", "text"),
    [("package.json", '{"name": "walrus"}'), ("rows.jsonl", '{"animal": "walrus"}\n'),
     ("ci.yml", "jobs: [walrus]\n"), ("data.xml", "<a>walrus</a>"), ("walrus", "walrus\n")],
)  # fmt: skip
def test_any_text_that_is_named_comes_in_and_none_of_a_folder(tmp_path, name, text):
    (tmp_path / "folder").mkdir()
    named = tmp_path / "folder" / name
    named.write_text(text)
    with contextlib.closing(SqliteKnowledge(tmp_path / "store")) as store:
        assert import_source(store, tmp_path / "folder", Work()).skipped == {"unknown": 1}
        assert import_source(store, named, Work()).added == 1
        (entry,) = store.list_entries("media")
        assert (text_of(entry), entry.media_type) == (text, "txt")
        named.write_bytes(b"\x00\x01\xff" * 99)
        assert not import_source(store, named, Work()).updated


@pytest.mark.parametrize("name", "a.docx a.pdf a.json a.mbox a.enex a.md a.xls a.epub a".split())
def test_an_empty_file_is_called_empty(name):
    for data in (b"", b" \n"):
        with pytest.raises(RefusedFormat, match="no_text: the file is empty"):
            parse(name, data)


def test_every_loss_says_what_to_do():
    assert all(advice for advice in LOSSES.values())


def test_the_report_counts_what_was_left_out(tmp_path):
    root = tmp_path / "root"
    root.mkdir()
    (root / "x.docx").write_bytes(make_docx(f"<w:p>{run('a')}<w:del>{run('b')}</w:del></w:p>"))
    store = SqliteKnowledge(tmp_path / "store")
    try:
        report = import_source(store, root, Work())
    finally:
        store.close()
    assert (report.added, report.left_out) == (1, {"tracked deletion": 1})


def test_a_notebook_and_a_latex_document():
    cells = [{"cell_type": "markdown", "source": ["# Tides\n", "High water"]},
             {"cell_type": "code", "source": "print(1)", "outputs": [
                 {"output_type": "stream", "text": ["1\n"]},
                 {"output_type": "display_data", "data": {"image/png": "AAAA"}}]}]  # fmt: skip
    (entry,) = parse(
        "x.ipynb", json.dumps({"cells": cells, "nbformat": 4, "metadata": {}}).encode()
    )
    assert (entry.title, text_of(entry)) == (
        "Tides",
        "# Tides\nHigh water\n\n```\nprint(1)\n```\n\n1",
    )
    assert entry.facts[LEFT_OUT] == {"picture": 1}
    tex = rb"""\documentclass{article}\title{The \emph{fleet}}\author{Ann}\begin{document}
    \section{Boats
    and nets}\label{s} Gr\"o\ss e is 5\,\% % a comment
    \href{https://x.org}{here}\footnote{noted} and $x^2$.\end{document}"""
    (entry,) = parse("x.tex", tex)
    assert (entry.title, entry.facts["author"]) == ("The fleet", "Ann")
    assert "## Boats and nets\n" in text_of(entry)
    for words in ("Größe", "[here](https://x.org)", "noted", "x^2"):
        assert words in text_of(entry)
    assert "comment" not in text_of(entry)


def test_a_document_in_asciidoc_has_its_author():
    (entry,) = parse("x.adoc", b"= The fleet\nAnn Bell <ann@x.org>\n2024-03-01\n\nBoats.\n")
    assert (entry.title, entry.facts["author"]) == ("The fleet", "Ann Bell")
    (entry,) = parse("y.adoc", b"= The fleet\n\nBoats lie here.\n")
    assert "author" not in entry.facts


def test_a_folder_called_logseq_is_a_folder():
    (entry,) = parse("notes/logseq/pages/Sea.md", b"the sea")
    assert text_of(entry) == "the sea"


def test_a_file_that_is_not_read_says_what_to_do():
    for name, advice in (("a.mobi", "EPUB"), ("a.pst", "MSG or EML"), ("a.mp3", "transcript")):
        with pytest.raises(RefusedFormat, match=advice):
            parse(name, b"\0\1\2")
