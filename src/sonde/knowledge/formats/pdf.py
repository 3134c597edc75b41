"""PDF, read by pdfium: text by page, headings by the outline; scanned pages by tesseract."""

from __future__ import annotations

import re
import shutil
import subprocess
import time
import unicodedata
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from sonde.knowledge.formats import BY_TESSERACT, MAX_URL_CHARS, File, RefusedFormat, make_document
from sonde.stores.knowledge.base import Entry
from sonde.text.formats import count_of, read_time

SCAN_SECONDS = 300.0
"""For the scanned pages of a file, enough for about a hundred; others count as left out."""
_PAGE_SECONDS = 60.0  # for a page, which usually takes one to five
_DPI = 200  # enough for tesseract; pages are measured in points, 72 to the inch
_MAX_PIXELS = 40_000_000  # of a page: A2 at this resolution
_FEW_CHARS = 16  # a page with a picture and less text is scanned: the text is a stamp
MAX_HEADING_CHARS = 200  # longer entries of an outline are no headings
MAX_PACKED_BYTES = 1 << 20  # of a compressed part that is checked for damage
_PACKED = re.compile(
    rb"<<(?:(?!stream|endobj)[\s\S]){0,500}?/FlateDecode(?:(?!stream)[\s\S]){0,300}?stream\r?\n"
)
_OTHERWISE = re.compile(rb"/Image|/ASCII|/LZW|/RunLength")  # pictures and other filters
_TAG = re.compile("<[^>]*>")
_PICTURES, _RECORDINGS = {13: "stamp", 15: "drawing"}, (18, 19, 21, 25, 26)
"""Types of annotations in pdfium: pictures, unless they have text; sound and video."""
_BREAK = re.compile("(\\w+)(?:-|\u00ad|\u2010|\x02|\ufffe)[ \t]*\r?\n[ \t]*(\\w+)")
_SOFT = re.compile("[\u00ad\x02\ufffe]")
_ACCENT = re.compile("([\u00a8\u00b4`\u02c6\u02dc\u00b8\u02da]) ?([A-Za-z\u0131])")
_COMBINING = {"\u00a8": "\u0308", "\u00b4": "\u0301", "`": "\u0300", "\u02c6": "\u0302",
              "\u02dc": "\u0303", "\u00b8": "\u0327", "\u02da": "\u030a"}  # fmt: skip
_DATE = re.compile(r"D?:?(\d{4})(\d\d)?(\d\d)?(\d\d)?(\d\d)?(\d\d)?(?:([+-]\d\d)'?(\d\d)?|Z)?")


def parse_pdf(file: File) -> list[Entry]:
    """The text of a PDF. Damaged pages are skipped, scanned ones read by tesseract."""
    import pypdfium2

    try:
        document = pypdfium2.PdfDocument(file.data)
    except pypdfium2.PdfiumError as error:
        if "password" in str(error).lower():
            raise RefusedFormat("encrypted") from error
        raise RefusedFormat("broken", str(error)) from error
    lost: Counter[str] = Counter()
    attached = [document.get_attachment(n) for n in range(document.count_attachments())]
    pages, scanned = _read_pages(file, document, lost, attached)
    lost["damaged part"] += _count_damaged(file)
    read = _read_scans(document, scanned, pages) if scanned else 0
    kind = "unreadable page" if has_tesseract() else "scanned page"
    lost[kind] += len(scanned) - read
    said = document.get_metadata_dict()
    by_tesseract = f"{read} of {len(document)} pages" if read else ""
    facts = {"pages": str(len(document)), BY_TESSERACT: by_tesseract}
    parts = [*_mark_headings(document, pages), *_read_attached(file, attached, lost)]
    text = _join_lines("\n\n".join(parts))
    return [
        make_document(
            file, "pdf", said.get("Title", ""), text, lost=lost, facts=facts,
            author=said.get("Author", ""), keywords=said.get("Keywords", ""),
            created_at=_read_date(said.get("CreationDate", "")),
            last_modified=_read_date(said.get("ModDate", "")),
        )
    ]  # fmt: skip


def _read_pages(
    file: File, document: Any, lost: Counter[str], attached: list[Any]
) -> tuple[list[str], list[int]]:
    """The text of each page, and the indexes of scanned pages; adds to `attached`."""
    from pypdfium2 import PdfiumError

    pages: list[str] = []
    scanned: list[int] = []
    for number in range(len(document)):
        text = ""
        try:
            page = document[number]
            said = _read_annotations(page, number, lost, attached)
            text = "\n".join([_write_links(page, page.get_textpage()), *said])
            if len(text.strip()) < _FEW_CHARS and _has_picture(page):
                scanned.append(number)
            page.close()
        except PdfiumError as error:
            lost["damaged page"] += 1
            file.skip_part(f"page {number + 1}", str(error))
        pages.append(text)
    return pages, scanned


def _count_damaged(file: File) -> int:
    """Count compressed parts other than pictures that are damaged: pdfium ignores them silently."""
    places: list[str] = []
    for found in _PACKED.finditer(file.data) if b"/Encrypt" not in file.data else ():
        try:
            zlib.decompressobj().decompress(file.data[found.end() : found.end() + MAX_PACKED_BYTES])
        except zlib.error as error:
            if not _OTHERWISE.search(found[0]) and "data check" not in str(error):
                places.append(str(found.end()))
    if places:
        file.skip_part(f"byte {places[0]}", f"{count_of(len(places), 'part')} do not unpack")
    return len(places)


def _write_links(page: Any, text_page: Any) -> str:
    """The text of a page with the targets of its links."""
    from ctypes import byref, c_int, create_string_buffer

    from pypdfium2 import raw

    text: str = text_page.get_text_bounded()
    place, link = c_int(0), raw.FPDF_LINK()
    while raw.FPDFLink_Enumerate(page, byref(place), byref(link)):
        action = raw.FPDFLink_GetAction(link)
        size = raw.FPDFAction_GetURIPath(page.pdf, action, None, 0) if action else 0
        corners = raw.FS_RECTF()
        if not 0 < size <= MAX_URL_CHARS or not raw.FPDFLink_GetAnnotRect(link, byref(corners)):
            continue
        packed = create_string_buffer(size)
        raw.FPDFAction_GetURIPath(page.pdf, action, packed, size)
        target = packed.value.decode("utf-8", "replace")
        shown = text_page.get_text_bounded(corners.left, corners.bottom, corners.right, corners.top)
        shown = shown.strip()
        if shown and shown in text and target not in text and shown not in target:
            text = text.replace(shown, f"[{shown}]({target})", 1)
        elif target not in text:
            text = f"{text}\n{target}"
    return text


def _read_annotations(
    page: Any, number: int, lost: Counter[str], attached: list[Any]
) -> Iterator[str]:
    """Values of form fields, comments, and the text of stamps on a page."""
    from pypdfium2 import PdfAttachment, raw

    drawn: list[int] = []
    for at in range(raw.FPDFPage_GetAnnotCount(page)):
        annotation = raw.FPDFPage_GetAnnot(page, at)
        kind = raw.FPDFAnnot_GetSubtype(annotation)
        is_field = kind == raw.FPDF_ANNOT_WIDGET
        said = _read_value(annotation, b"V" if is_field else b"Contents")
        said = said or " ".join(_TAG.sub(" ", _read_value(annotation, b"RC")).split())
        if kind in (raw.FPDF_ANNOT_LINK, raw.FPDF_ANNOT_POPUP):
            pass
        elif said:
            yield said if is_field else f"Comment: {said}"
        elif not is_field and _has_text(annotation):
            drawn.append(at)
        elif kind in _PICTURES:
            lost[_PICTURES[kind]] += 1
        lost["recording"] += kind in _RECORDINGS
        if kind == raw.FPDF_ANNOT_FILEATTACHMENT:
            attached.append(PdfAttachment(raw.FPDFAnnot_GetFileAttachment(annotation), page.pdf))
        raw.FPDFPage_CloseAnnot(annotation)
    if drawn:
        yield _read_drawn(page.pdf, number, drawn)


def _read_value(annotation: Any, name: bytes) -> str:
    from ctypes import c_ushort

    from pypdfium2 import raw

    size = raw.FPDFAnnot_GetStringValue(annotation, name, None, 0)
    packed = (c_ushort * (size // 2))()
    raw.FPDFAnnot_GetStringValue(annotation, name, packed, size)
    return bytes(packed).decode("utf-16-le", "replace").strip("\0")


def _has_text(holder: Any, depth: int = 4, *, is_form: bool = False) -> bool:
    """Whether an annotation, or a form in it, is drawn with text objects."""
    from pypdfium2 import raw

    count = raw.FPDFFormObj_CountObjects if is_form else raw.FPDFAnnot_GetObjectCount
    get = raw.FPDFFormObj_GetObject if is_form else raw.FPDFAnnot_GetObject
    for each in (get(holder, number) for number in range(count(holder))):
        kind = raw.FPDFPageObj_GetType(each)
        is_form = kind == raw.FPDF_PAGEOBJ_FORM and depth > 0
        if kind == raw.FPDF_PAGEOBJ_TEXT or (is_form and _has_text(each, depth - 1, is_form=True)):
            return True
    return False


def _read_drawn(document: Any, number: int, drawn: Sequence[int]) -> str:
    """The text of drawn annotations, read from a copy of the page without its other objects."""
    from pypdfium2 import PdfDocument, raw

    copy = PdfDocument.new()
    copy.import_pages(document, [number])
    page = copy[0]
    for each in list(page.get_objects(max_depth=1)):
        page.remove_obj(each)
    for at in reversed(range(raw.FPDFPage_GetAnnotCount(page))):
        if at not in drawn:
            raw.FPDFPage_RemoveAnnot(page, at)
    page.gen_content()
    raw.FPDFPage_Flatten(page, raw.FLAT_NORMALDISPLAY)
    page.close()
    text: str = copy[0].get_textpage().get_text_bounded()
    return text


def _read_attached(file: File, attached: Iterable[Any], lost: Counter[str]) -> Iterator[str]:
    """The texts of attached files."""
    for each in attached:
        try:
            name = each.get_name()
            yield f"Attachment {name}:\n{file.read_nested(name, bytes(each.get_data()))}"
        except Exception:  # noqa: BLE001 - a bad attachment does not affect the document
            lost["attached file"] += 1


def _has_picture(page: Any) -> bool:
    from pypdfium2.raw import FPDF_PAGEOBJ_IMAGE

    return any(True for _ in page.get_objects(filter=[FPDF_PAGEOBJ_IMAGE], max_depth=4))


def _read_date(text: str) -> int | None:
    found = _DATE.match(text.strip())
    if not found:
        return None
    year, *rest = found.groups()[:6]
    lowest = ("01", "01", "00", "00", "00")
    month, day, hour, minute, second = (a or b for a, b in zip(rest, lowest, strict=True))
    zone = f"{found[7]}:{found[8] or '00'}" if found[7] else "+00:00"
    return read_time(f"{year}-{month}-{day}T{hour}:{minute}:{second}{zone}")


def _mark_headings(document: Any, pages: list[str]) -> list[str]:
    """The pages, with lines named in the outline as headings."""
    marked = [page.replace("\r\n", "\n") for page in pages]
    try:
        outline = [(each.level, each.get_title(), each.get_dest()) for each in document.get_toc()]
    except Exception:  # noqa: BLE001 - a broken outline costs only the marks
        return marked
    for level, title, place in outline:
        at = place.get_index() if place else None
        is_line = 0 < len(title.strip()) <= MAX_HEADING_CHARS
        if at is None or not (is_line and 0 <= at < len(marked)):
            continue
        words = r"\s+".join(map(re.escape, title.split()))
        found = re.search(
            rf"(?m)^((?:[\dIVXA-Z]+[.\d]*|Chapter \d+)?\s{{0,9}}){words}[ ]*$", marked[at]
        )
        if found:
            line = " ".join(found[0].split())
            before, behind = marked[at][: found.start()], marked[at][found.end() :]
            marked[at] = f"{before}{'#' * (level + 1)} {line}{behind}"
    return marked


def _join_lines(text: str) -> str:
    """Join words that were hyphenated at line ends, and accents with their letters.

    A word that has its hyphen elsewhere in the text keeps it.
    """
    text = text.replace("\r\n", "\n").replace("\0", "")
    compounds = {each.lower() for each in re.findall(r"\w+-\w+", text)}

    def join(found: re.Match[str]) -> str:
        first, second = found[1], found[2]
        keeps = f"{first}-{second}".lower() in compounds or first.isdigit() or second[0].isupper()
        hyphen = "-" if keeps and _SOFT.search(found[0]) is None else ""
        return f"{first}{hyphen}{second}\n"

    text = _SOFT.sub("", _BREAK.sub(join, text))
    # old TeX fonts have accents as separate characters
    return _ACCENT.sub(_compose, text) if "\u00a8" in text or "\u00b4" in text else text


def _compose(found: re.Match[str]) -> str:
    letter = "i" if found[2] == "\u0131" else found[2]
    made = unicodedata.normalize("NFC", letter + _COMBINING[found[1]])
    return made if len(made) == 1 else found[0]


def _read_scans(document: Any, scanned: list[int], pages: list[str]) -> int:
    """Read scanned pages as far as time allows. Returns how many had text."""
    if not has_tesseract():
        return 0
    end = time.monotonic() + SCAN_SECONDS
    count = 0
    for number in scanned:
        if time.monotonic() > end:
            break
        page = document[number]
        scale = min(_DPI / 72, (_MAX_PIXELS / max(1, page.get_width() * page.get_height())) ** 0.5)
        bitmap = page.render(scale=scale, grayscale=True)
        rows = memoryview(bitmap.buffer).cast("B")
        starts = range(0, bitmap.height * bitmap.stride, bitmap.stride)
        lines = (rows[start : start + bitmap.width] for start in starts)
        picture = b"P5 %d %d 255\n" % (bitmap.width, bitmap.height) + b"".join(lines)
        if text := read_picture(picture):
            pages[number] = text
            count += 1
    return count


def has_tesseract() -> bool:
    """Whether tesseract is installed, so that scanned pages can be read."""
    return shutil.which("tesseract") is not None


def read_picture(data: bytes) -> str:
    """The text that tesseract finds in a picture, in its installed languages."""
    program = shutil.which("tesseract")
    if program is None:
        return ""
    listed = subprocess.run([program, "--list-langs"], capture_output=True, text=True, check=False)
    names = set(listed.stdout.split("\n")[1:]) - {"osd"}
    known = [name for name in names if re.fullmatch(r"[a-zA-Z_/]{3,30}", name)]
    command = [program, "stdin", "stdout", "-l", "+".join(sorted(known)[:4]) or "eng"]
    try:
        done = subprocess.run(
            command, input=data, capture_output=True, timeout=_PAGE_SECONDS, check=False
        )
    except subprocess.TimeoutExpired:
        return ""
    return done.stdout.decode("utf-8", "replace").replace("\f", "").strip()
