"""What an import costs by format and size: entries, CPU seconds, peak memory of all its processes.

    python benchmarks/import_scale.py --texts FOLDER... [--mb 1 10] [--file-mb 100] [--only mbox]

Each file holds so many MB of real text in chapters of about 20 kB, or has so many MB itself. DOCX,
ODT, EPUB and XLSX are written here with what a reader of them needs, PDF by pdfium, XLS by `xlwt`
if it is installed. Each is imported by `sonde knowledge import` into an empty library, without the
background process, with vectors of the static model.
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import sys
import tempfile
import zipfile
from collections.abc import Callable, Iterator, Mapping
from itertools import cycle
from multiprocessing import get_context
from pathlib import Path
from xml.sax.saxutils import escape, quoteattr

from children import folder_mb, run_child

CHAPTER_CHARS = 20_000
PAGE_LINES, LINE_CHARS = 50, 90
ODF = "urn:oasis:names:tc:opendocument:xmlns"
OOXML = "http://schemas.openxmlformats.org"
W, S = f"{OOXML}/wordprocessingml/2006/main", f"{OOXML}/spreadsheetml/2006/main"
REL = f"{OOXML}/officeDocument/2006/relationships"

Chapters = Iterator[str]


def read_chapters(folders: list[Path]) -> list[str]:
    """Real texts in chapters: paragraphs of one text, each text once."""
    chapters: dict[str, None] = {}
    for folder in folders:
        for path in sorted(folder.rglob("*")):
            if path.suffix in (".md", ".rst", ".txt") and path.is_file():
                text = path.read_text("utf-8", "ignore").replace("\r", "").replace("\f", "")
                text = "".join(c for c in text if c.isprintable() or c == "\n")
                for at in range(0, len(text), CHAPTER_CHARS):
                    if len(text) - at > CHAPTER_CHARS // 4:
                        chapters[text[at : at + CHAPTER_CHARS]] = None
    return list(chapters)


def take(chapters: list[str], mb: int) -> Chapters:
    """So many MB of chapters, from the first one again when all were taken."""
    left = mb * 1_000_000
    for each in cycle(chapters):
        if left <= 0:
            return
        yield each
        left -= len(each.encode())


def write_mbox(path: Path, chapters: Chapters) -> None:
    """Messages of a third of a chapter, which is what lists have on average."""
    with path.open("w", encoding="utf-8") as target:
        number = 0
        for each in chapters:
            for at in range(0, len(each), CHAPTER_CHARS // 3):
                number += 1
                body = each[at : at + CHAPTER_CHARS // 3].replace("\nFrom ", "\n>From ")
                target.write(
                    f"From a@example.org Mon Jan  1 10:00:00 2024\nMessage-ID: <{number}@x>\n"
                    f"From: Anna <a@example.org>\nTo: Bob <b@example.org>\nSubject: Part {number}\n"
                    "Date: Mon, 1 Jan 2024 10:00:00 +0000\nMIME-Version: 1.0\n"
                    f"Content-Type: text/plain; charset=utf-8\n\n{body}\n\n"
                )


def write_pdf(path: Path, chapters: Chapters) -> None:
    """Pages of 50 lines; letters beyond Latin-1 are left out."""
    import ctypes

    import pypdfium2
    from pypdfium2 import raw

    document = pypdfium2.PdfDocument.new()
    font = raw.FPDFText_LoadStandardFont(document, b"Helvetica")
    lines = (line[at : at + LINE_CHARS] for each in chapters for line in each.split("\n")
             for at in range(0, len(line), LINE_CHARS))  # fmt: skip
    while page_lines := [line for _, line in zip(range(PAGE_LINES), lines, strict=False)]:
        page = document.new_page(595, 842)
        for number, line in enumerate(page_lines):
            shown = raw.FPDFPageObj_CreateTextObj(document, font, 9)
            said = line.encode("latin-1", "ignore").decode("latin-1").encode("utf-16-le") + b"\0\0"
            raw.FPDFText_SetText(shown, ctypes.cast(said, ctypes.POINTER(ctypes.c_ushort)))
            raw.FPDFPageObj_Transform(shown, 1, 0, 0, 1, 40, 800 - number * 15)
            raw.FPDFPage_InsertObject(page, shown)
        page.gen_content()
        page.close()
    document.save(str(path))


def _pack(path: Path, members: Mapping[str, str | Iterator[str]]) -> None:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        for name, content in members.items():
            with archive.open(name, "w", force_zip64=True) as member:
                for part in [content] if isinstance(content, str) else content:
                    member.write(part.encode())


def _relations(*rows: tuple[str, str, str]) -> str:
    listed = "".join(f'<Relationship Id="{key}" Type="{REL}/{kind}" Target="{target}"/>'
                     for key, kind, target in rows)  # fmt: skip
    space = f"{OOXML}/package/2006/relationships"
    return f'<Relationships xmlns="{space}">{listed}</Relationships>'


def write_docx(path: Path, chapters: Chapters) -> None:
    """A paragraph for each line, a heading for each chapter."""

    def body() -> Iterator[str]:
        yield f'<w:document xmlns:w="{W}"><w:body>'
        for number, each in enumerate(chapters, 1):
            yield ('<w:p><w:pPr><w:pStyle w:val="Heading1"/></w:pPr>'
                   f"<w:r><w:t>Chapter {number}</w:t></w:r></w:p>")  # fmt: skip
            yield "".join(f"<w:p><w:r><w:t>{escape(line)}</w:t></w:r></w:p>"
                          for line in each.split("\n"))  # fmt: skip
        yield "</w:body></w:document>"

    main = _relations(("r1", "officeDocument", "word/document.xml"))
    types = f'<Types xmlns="{OOXML}/package/2006/content-types"/>'
    _pack(path, {"[Content_Types].xml": types, "_rels/.rels": main, "word/document.xml": body()})


def write_odt(path: Path, chapters: Chapters) -> None:
    """A paragraph for each line, a heading for each chapter."""

    def body() -> Iterator[str]:
        spaces = f'xmlns:office="{ODF}:office:1.0" xmlns:text="{ODF}:text:1.0"'
        yield f"<office:document-content {spaces}><office:body><office:text>"
        for number, each in enumerate(chapters, 1):
            yield f'<text:h text:outline-level="1">Chapter {number}</text:h>'
            yield "".join(f"<text:p>{escape(line)}</text:p>" for line in each.split("\n"))
        yield "</office:text></office:body></office:document-content>"

    _pack(path, {"mimetype": "application/vnd.oasis.opendocument.text", "content.xml": body()})


def write_html(path: Path, chapters: Chapters) -> None:
    """One page with a section for each chapter."""
    with path.open("w", encoding="utf-8") as target:
        target.write("<!doctype html><html><head><meta charset=utf-8><title>Texts</title></head>"
                     "<body><nav><a href=/>Home</a></nav><main>")  # fmt: skip
        for number, each in enumerate(chapters, 1):
            paragraphs = "".join(f"<p>{escape(line)}</p>\n" for line in each.split("\n"))
            target.write(f"<h2>Chapter {number}</h2>{paragraphs}")
        target.write("</main></body></html>")


def write_epub(path: Path, chapters: Chapters) -> None:
    """A file for each chapter."""
    pages = {
        f"c{number}.xhtml": '<html xmlns="http://www.w3.org/1999/xhtml"><body>'
        f"<h1>Chapter {number}</h1>"
        + "".join(f"<p>{escape(line)}</p>" for line in each.split("\n"))
        + "</body></html>"
        for number, each in enumerate(chapters, 1)
    }
    items = "".join(f'<item id="{name}" href="{name}"/>' for name in pages)
    spine = "".join(f'<itemref idref="{name}"/>' for name in pages)
    package = (
        '<package xmlns="http://www.idpf.org/2007/opf"><metadata><title '
        'xmlns="http://purl.org/dc/elements/1.1/">Texts</title></metadata>'
        f"<manifest>{items}</manifest><spine>{spine}</spine></package>"
    )
    container = (
        '<container xmlns="urn:oasis:names:tc:opendocument:xmlns:container"><rootfiles>'
        '<rootfile full-path="book.opf"/></rootfiles></container>'
    )
    _pack(path, {"META-INF/container.xml": container, "book.opf": package, **pages})


def _rows(chapters: Chapters) -> Iterator[list[str]]:
    for each in chapters:
        words = each.split()
        for at in range(0, len(words), 24):
            yield [str(at), *(" ".join(words[k : k + 4]) for k in range(at, at + 24, 4))]


def write_csv(path: Path, chapters: Chapters) -> None:
    """Rows of a number and six cells of four words."""
    with path.open("w", encoding="utf-8", newline="") as target:
        csv.writer(target).writerows(_rows(chapters))


def write_xlsx(path: Path, chapters: Chapters) -> None:
    """The same rows, texts in the cells."""

    def sheet() -> Iterator[str]:
        yield f'<worksheet xmlns="{S}"><sheetData>'
        for at, (number, *cells) in enumerate(_rows(chapters), 1):
            inside = zip("BCDEFG", map(escape, cells), strict=False)
            shown = "".join(f'<c r="{column}{at}" t="inlineStr"><is><t>{cell}</t></is></c>'
                            for column, cell in inside)  # fmt: skip
            yield f'<row r="{at}"><c r="A{at}"><v>{number}</v></c>{shown}</row>'
        yield "</sheetData></worksheet>"

    book = (
        f'<workbook xmlns="{S}" xmlns:r="{REL}"><sheets>'
        '<sheet name="Texts" sheetId="1" r:id="r1"/></sheets></workbook>'
    )
    _pack(path, {
        "[Content_Types].xml": f'<Types xmlns="{OOXML}/package/2006/content-types"/>',
        "_rels/.rels": _relations(("r1", "officeDocument", "xl/workbook.xml")),
        "xl/workbook.xml": book,
        "xl/_rels/workbook.xml.rels": _relations(("r1", "worksheet", "worksheets/sheet1.xml")),
        "xl/worksheets/sheet1.xml": sheet(),
    })  # fmt: skip


def write_xls(path: Path, chapters: Chapters) -> None:
    """The same rows in sheets of 65,536, which is all that XLS has."""
    import xlwt

    book, sheet = xlwt.Workbook(), None
    for at, row in enumerate(_rows(chapters)):
        if at % 65_536 == 0:
            sheet = book.add_sheet(f"Texts {at // 65_536}")
        for column, cell in enumerate(row):
            sheet.write(at % 65_536, column, cell[:32_000])
    book.save(str(path))


def write_enex(path: Path, chapters: Chapters) -> None:
    """A note for each chapter, every tenth with a picture of 100 kB."""
    with path.open("w", encoding="utf-8") as target:
        target.write('<?xml version="1.0" encoding="UTF-8"?><en-export>')
        for number, each in enumerate(chapters, 1):
            inner = "".join(f"<div>{escape(line)}</div>" for line in each.split("\n"))
            picture = (
                f"<resource><data encoding='base64'>{'QUJD' * 33_333}</data><mime>image/png</mime>"
                "</resource>"
            )
            target.write(
                f"<note><title>Chapter {number}</title><created>20240101T{number % 24:02}0000Z"
                f"</created><content><![CDATA[<en-note>{inner}</en-note>]]></content>"
                f"{picture if number % 10 == 0 else ''}</note>"
            )
        target.write("</en-export>")


def _messages(chapter: str) -> list[str]:
    return [line for line in chapter.split("\n") if line.strip()]


def write_chatgpt(path: Path, chapters: Chapters) -> None:
    """A conversation for each chapter, a message for each line."""
    talks = []
    for number, each in enumerate(chapters, 1):
        mapping: dict[str, object] = {}
        parent = None
        for at, line in enumerate(_messages(each)):
            key = f"{number}-{at}"
            mapping[key] = {
                "id": key, "parent": parent, "children": [], "message": {
                    "id": key, "author": {"role": "assistant" if at % 2 else "user"},
                    "create_time": 1_700_000_000 + at,
                    "content": {"content_type": "text", "parts": [line]}},
            }  # fmt: skip
            parent = key
        talks.append({"title": f"Chapter {number}", "conversation_id": f"c{number}",
                      "create_time": 1_700_000_000, "current_node": parent,
                      "mapping": mapping})  # fmt: skip
    path.write_text(json.dumps(talks))


def write_telegram(path: Path, chapters: Chapters) -> None:
    """A chat for each chapter, a message for each line."""
    chats = [
        {"name": f"Chapter {number}", "id": number, "type": "personal_chat", "messages": [
            {"id": at, "type": "message", "date": "2024-01-01T10:00:00", "from": f"P{at % 3}",
             "from_id": f"user{at % 3}", "text": line}
            for at, line in enumerate(_messages(each), 1)]}
        for number, each in enumerate(chapters, 1)
    ]  # fmt: skip
    path.write_text(json.dumps({"chats": {"list": chats}}, ensure_ascii=False))


def write_whatsapp(path: Path, chapters: Chapters) -> None:
    """One conversation, a message for each line."""
    with path.open("w", encoding="utf-8") as target:
        for number, line in enumerate(line for each in chapters for line in _messages(each)):
            day, minute = number // 1440 % 28 + 1, number % 1440
            at = f"{day:02}/01/2024, {minute // 60:02}:{minute % 60:02}"
            target.write(f"{at} - Person {number % 3}: {line}\n")


def write_slack(path: Path, chapters: Chapters) -> None:
    """An archive of one channel, a day for each chapter."""
    days = {"users.json": json.dumps([{"id": "U1", "name": "anna"}, {"id": "U2", "name": "bob"}])}
    for number, each in enumerate(chapters, 1):
        rows = [{"type": "message", "user": f"U{at % 2 + 1}", "text": line,
                 "ts": f"{1_600_000_000 + number * 86_400 + at}.000100"}
                for at, line in enumerate(_messages(each))]  # fmt: skip
        days[f"general/day-{number}.json"] = json.dumps(rows)
    _pack(path, days)


def write_markdown(path: Path, chapters: Chapters) -> None:
    """A folder with a note for each chapter."""
    path.mkdir()
    for number, each in enumerate(chapters, 1):
        (path / f"note {number}.md").write_text(f"# Chapter {number}\n\n{each}", "utf-8")


def write_opml(path: Path, chapters: Chapters) -> None:
    """An outline with an item for each chapter, and one below it for each line."""
    with path.open("w", encoding="utf-8") as target:
        target.write("<opml version='2.0'><head><title>Texts</title></head><body>")
        for number, each in enumerate(chapters, 1):
            lines = "".join(f"<outline text={quoteattr(line)}/>" for line in _messages(each))
            target.write(f"<outline text='Chapter {number}'>{lines}</outline>\n")
        target.write("</body></opml>")


def write_bookmarks(path: Path, chapters: Chapters) -> None:
    """A folder for each chapter, a bookmark for each line, with an icon as browsers write it."""
    icon = "data:image/png;base64," + "QUJD" * 400
    with path.open("w", encoding="utf-8") as target:
        target.write("<!DOCTYPE NETSCAPE-Bookmark-file-1>\n<DL><p>\n")
        for number, each in enumerate(chapters, 1):
            target.write(f"<DT><H3>Chapter {number}</H3>\n<DL><p>\n")
            for at, line in enumerate(_messages(each)):
                url = f"https://example.org/{number}/{at}"
                given = f'HREF="{url}" ADD_DATE="1700000000" ICON="{icon}"'
                target.write(f"<DT><A {given}>{escape(line)}</A>\n")
            target.write("</DL><p>\n")
        target.write("</DL><p>\n")


def _notes(chapters: Chapters) -> Iterator[str]:
    for each in chapters:
        for at in range(0, len(each), 1000):
            part = each[at : at + 1000].replace("\\", "\\\\")
            yield part.replace("\n", "\\n")


def write_ics(path: Path, chapters: Chapters) -> None:
    """Events with a description of a thousand characters."""
    with path.open("w", encoding="utf-8") as target:
        target.write("BEGIN:VCALENDAR\nVERSION:2.0\n")
        for number, text in enumerate(_notes(chapters)):
            target.write(
                f"BEGIN:VEVENT\nUID:{number}@x\nSUMMARY:Event {number}\nDESCRIPTION:{text}\n"
                "DTSTART:20240101T100000Z\nEND:VEVENT\n"
            )
        target.write("END:VCALENDAR\n")


def write_vcf(path: Path, chapters: Chapters) -> None:
    """Contacts with a note of a thousand characters."""
    with path.open("w", encoding="utf-8") as target:
        for number, text in enumerate(_notes(chapters)):
            target.write(
                f"BEGIN:VCARD\nVERSION:3.0\nUID:{number}@x\nFN:Person {number}\n"
                f"EMAIL:p{number}@example.org\nNOTE:{text}\nEND:VCARD\n"
            )


WRITERS: Mapping[str, Callable[[Path, Chapters], None]] = {
    "texts.mbox": write_mbox, "texts.pdf": write_pdf, "texts.docx": write_docx,
    "texts.odt": write_odt, "texts.epub": write_epub, "texts.html": write_html,
    "texts.csv": write_csv, "texts.xlsx": write_xlsx, "texts.xls": write_xls,
    "texts.enex": write_enex, "chatgpt.json": write_chatgpt, "slack.zip": write_slack,
    "whatsapp.txt": write_whatsapp, "telegram.json": write_telegram, "markdown": write_markdown,
    "outline.opml": write_opml, "bookmarks.html": write_bookmarks, "events.ics": write_ics,
    "contacts.vcf": write_vcf,
}  # fmt: skip


def measure(path: Path, home: Path) -> str:
    """A row of the table: what the import brought in and cost."""
    env = {**os.environ, "SONDE_HOME": str(home), "SONDE_DAEMON": "off"}
    command = [sys.executable, "-m", "sonde.cli.main", "--json", "knowledge", "import", str(path)]
    cost = run_child(command, env, home, allowed=(0, 1))
    report = json.loads(cost.output)
    refused = ", ".join(f"{n} {reason}" for reason, n in report["skipped"].items())
    came = f"{report['added']:,}" + (f" ({refused})" if refused else "")
    return f"| {measure_size(path):,.1f} | {came} | {cost.cpu_s:.1f} | {cost.peak_mb:.0f} |"


def main() -> None:
    """Make, import and report one file of each format and size."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--texts", type=Path, nargs="+", required=True)
    parser.add_argument("--mb", type=int, nargs="*", default=[1, 10])
    parser.add_argument("--file-mb", type=int, nargs="*", default=[])
    parser.add_argument("--only", nargs="+", default=[])
    args = parser.parse_args()
    chapters = read_chapters(args.texts)
    print(f"{len(chapters):,} chapters, load {os.getloadavg()[0]:.1f}", file=sys.stderr)
    print("| format | MB of text | MB of file | entries | CPU s | peak MB |")
    print("|---|---|---|---|---|---|")
    for name in WRITERS:
        if not args.only or any(each in name for each in args.only):
            sizes = [(mb, False) for mb in args.mb] + [(mb, True) for mb in args.file_mb]
            for mb, of_file in sizes:
                with tempfile.TemporaryDirectory() as made, tempfile.TemporaryDirectory() as home:
                    text_mb = mb
                    if of_file:
                        text_mb = round(
                            mb / measure_size(make(name, Path(made) / "small", chapters, 1))
                        )
                    path = make(name, Path(made), chapters, text_mb)
                    print(f"| {name} | {text_mb} {measure(path, Path(home))}", flush=True)


def make(name: str, folder: Path, chapters: list[str], mb: int) -> Path:
    """A file with so many MB of text, written by a child process.

    The peak of a process counts what its parent held when it was forked.
    """
    folder.mkdir(exist_ok=True)
    maker = get_context("fork").Process(
        target=WRITERS[name], args=(folder / name, take(chapters, mb))
    )
    maker.start()
    maker.join()
    if maker.exitcode:
        raise SystemExit(f"{name} was not made")
    return folder / name


def measure_size(path: Path) -> float:
    """MB of a file or a folder."""
    return folder_mb(path) if path.is_dir() else path.stat().st_size / 1e6


if __name__ == "__main__":
    main()
