"""EPUB, Markdown, plain text, notebooks, LaTeX, outlines and pictures."""

from __future__ import annotations

import io
import posixpath
import re
import unicodedata
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import unquote

from sonde.knowledge.formats import (
    BY_TESSERACT,
    File,
    RefusedFormat,
    decode_bytes,
    list_dicts,
    make_document,
    open_archive,
    parse_xml,
    read_media_facts,
    read_member,
    split_front,
)
from sonde.knowledge.formats.data_files import load_json
from sonde.knowledge.formats.pages import declared_charset, read_html
from sonde.knowledge.formats.pdf import has_tesseract, read_picture
from sonde.stores.knowledge.base import Entry
from sonde.text.formats import read_mail_date, read_time

_EPUB = "{urn:oasis:names:tc:opendocument:xmlns:container}"
_OPF = "{http://www.idpf.org/2007/opf}"
_DC = "{http://purl.org/dc/elements/1.1/}"
_DRM = "META-INF/encryption.xml"
_HEADS: Mapping[str, tuple[str, ...]] = {
    "org": (r"(?im)^#\+(title|author|date): +(.+)$",),
    "adoc": (r"(?m)\A(=) (.+)$", r"\A=( ).+\n([^\W\d_][^:;<\n]*)",
             r"(?m)^:(author|date|revdate): +(.+)$"),
    "rst": (r"(?m)\A()(?:[=*#~-]{3,}\n)?(\S.*)\n[=*#~-]{3,}$", r"(?im)^:(author|date): +(.+)$"),
}  # fmt: skip
"""Patterns for title, author and date in text formats: a name or mark, and the value."""


def parse_epub(file: File) -> list[Entry]:
    """The chapters of an EPUB in reading order; skips and reports damaged ones."""
    archive = open_archive(file.data)
    container = parse_xml(read_member(archive, "META-INF/container.xml"))
    rootfile = container.find(f".//{_EPUB}rootfile")
    place = rootfile.get("full-path", "") if rootfile is not None else ""
    package = parse_xml(read_member(archive, place))
    items = {item.get("id"): item.get("href", "") for item in package.iter(f"{_OPF}item")}
    base = posixpath.dirname(place)
    parts: list[str] = []
    lost: Counter[str] = Counter()
    if _DRM in archive.NameToInfo and b"rights" in read_member(archive, _DRM):
        raise RefusedFormat("encrypted", "it is protected against copying")
    for reference in package.iter(f"{_OPF}itemref"):
        href = unquote(items.get(reference.get("idref"), ""))
        name = posixpath.normpath(posixpath.join(base, href)) if href else ""
        if name not in archive.NameToInfo:
            continue
        try:
            data = read_member(archive, name)
        except RefusedFormat as error:
            lost["damaged part"] += 1
            file.skip_part(name, error.detail)
            continue
        parts.append(read_html(decode_bytes(data, declared_charset(data)) or "")[1])
    title = package.findtext(f".//{_DC}title") or file.stem
    names = {"source": "source", "link": "identifier", "date": "date"}
    said = {key: package.findtext(f".//{_DC}{name}") for key, name in names.items()}
    said["tags"] = [each.text for each in package.iter(f"{_DC}subject") if each.text]
    text, known = "\n\n".join(filter(None, parts)), read_media_facts(said, file, "epub")
    author = package.findtext(f".//{_DC}creator") or ""
    return [make_document(file, "epub", title, text, author=author, lost=lost, **known)]


def parse_markdown(file: File) -> list[Entry]:
    """A Markdown document; its front matter gives title, address, kind, tags and times."""
    front, body = split_front(file.text())
    title, known = str(front.get("title") or ""), read_media_facts(front, file, "markdown")
    return [make_document(file, "markdown", title, body, facts={"front_matter": front}, **known)]


def parse_plain_text(file: File) -> list[Entry]:
    """Plain text, with title and author of Org, AsciiDoc and reStructuredText."""
    text = file.text()
    heads = _HEADS.get(file.suffix.replace("asciidoc", "adoc"), ())
    said = {name.lower(): value.strip() for pattern in heads
            for name, value in re.findall(pattern, text[:4_000])}  # fmt: skip
    title = said.get("title") or said.get("=") or said.get("") or ""
    date = read_time(said.get("date") or said.get("revdate") or "")
    author = said.get("author") or said.get(" ", "")
    return [make_document(file, "txt", title, text, author=author, created_at=date)]


def parse_image(file: File) -> list[Entry]:
    """The metadata of a picture, and its text if tesseract is installed."""
    from PIL import ExifTags, Image

    taken = None
    with Image.open(io.BytesIO(file.data)) as image:
        facts = {"format": str(image.format), "size": f"{image.width}x{image.height}"}
        texts = {str(key): each for key, each in image.info.items() if isinstance(each, str)}
        facts |= {key: text[:2_000] for key, text in texts.items()}
        for code, value in image.getexif().items():
            name = ExifTags.TAGS.get(code, "")
            if name and isinstance(value, str | int | float):
                facts[name] = str(value)[:500]
            if name == "DateTime":
                taken = str(value).replace(":", "-", 2)
    text = "\n".join(f"{key}: {value}" for key, value in facts.items())
    if seen := read_picture(file.data):
        facts[BY_TESSERACT] = "the text in the picture"
        text = f"{seen}\n\n{text}"
    lost = Counter({"unread picture": int(not has_tesseract())})
    created = read_time(taken)
    return [make_document(file, "image", "", text, lost=lost, facts=facts, created_at=created)]


def is_notebook(value: Any) -> bool:
    """Whether JSON is a Jupyter notebook."""
    return isinstance(value, dict) and isinstance(value.get("cells"), list) and "nbformat" in value


def parse_notebook(file: File, value: Any = None) -> list[Entry]:
    """A notebook: text, code and outputs."""
    value = value or load_json(file)
    if not is_notebook(value):
        raise RefusedFormat("broken", "not a notebook")
    known = value.get("metadata") if isinstance(value.get("metadata"), dict) else {}
    language = str((known.get("language_info") or {}).get("name") or "")
    lost: Counter[str] = Counter()
    parts: list[str] = []
    for cell in list_dicts(value["cells"]):
        text = _join_source(cell.get("source"))
        is_code = cell.get("cell_type") == "code" and text
        parts.append(f"```{language}\n{text}\n```" if is_code else text)
        for output in list_dicts(cell.get("outputs")):
            parts += _read_output(output, lost)
    text = "\n\n".join(filter(None, parts))
    heading = re.search(r"(?m)^# +(.+)$", text)
    title = str(known.get("title") or "") or (heading[1] if heading else "")
    author = ", ".join(str(each.get("name") or "") for each in list_dicts(known.get("authors")))
    return [make_document(file, "notebook", title, text, lost=lost, author=author)]


def _join_source(source: Any) -> str:
    return "".join(map(str, source)) if isinstance(source, list) else str(source or "")


def _read_output(output: Mapping[str, Any], lost: Counter[str]) -> Iterator[str]:
    if output.get("output_type") == "stream":
        yield _join_source(output.get("text")).rstrip()
    elif output.get("output_type") == "error":
        yield f"{output.get('ename')}: {output.get('evalue')}"
    data = output.get("data") or {}
    if data.get("text/markdown") or data.get("text/plain"):
        yield _join_source(data.get("text/markdown") or data.get("text/plain"))
    elif data.get("text/html"):
        yield read_html(_join_source(data["text/html"]))[1]
    lost["picture"] += any(name.startswith("image/") for name in data)


_COMMENT = re.compile(r"(?m)(?<!\\)%.*$\n?")
_LATEX_HEADING = re.compile(
    r"\\(part|chapter|section|subsection|subsubsection|paragraph)\*?\s*(?:\[[^\]]*\])?\s*\{"
)
_TITLE = re.compile(r"(?m)^(#+ )\{((?:[^{}]|\{[^{}]*\})*)\}[ \t]*\n?")
_LEVELS = {"part": 1, "chapter": 1, "section": 2, "subsection": 3, "subsubsection": 4,
           "paragraph": 5}  # fmt: skip
_DROPPED = re.compile(
    r"\\(?:label|ref|eqref|pageref|bibliographystyle|bibliography|includegraphics|usepackage|documentclass|"
    r"vspace|hspace|input|include|pagestyle|thispagestyle|setlength|setcounter|newcommand|renewcommand|"
    r"hypersetup|graphicspath|addbibresource|definecolor|color|index|linewidth|setmainfont|geometry)\*?"
    r"(?:\s*\[[^\[\]]*\])*(?:\s*\{(?:[^{}]|\{(?:[^{}]|\{[^{}]*\})*\})*\})*"
)
_CODE = re.compile(r"(?s)(\\begin\{(?:verbatim|lstlisting|minted)\*?\}.*?"
                   r"\\end\{(?:verbatim|lstlisting|minted)\*?\})")  # fmt: skip
_BEGIN_END = re.compile(r"\\(?:begin|end)\{\w+\*?\}(?:\[[^\]]*\])?(?:\{\w+\})?")
_HREF = re.compile(r"\\href\s*\{([^{}]*)\}\s*\{((?:[^{}]|\{[^{}]*\})*)\}")
_LETTERS = {
    "ss": "ß", "ae": "æ", "AE": "Æ", "oe": "œ", "OE": "Œ", "o": "ø", "O": "Ø", "aa": "å",
    "AA": "Å", "l": "ł", "L": "Ł", "ldots": "…", "dots": "…", "textbackslash": "\\\\",
    "LaTeX": "LaTeX", "TeX": "TeX", "textasciitilde": "~", "S": "§", "copyright": "©",
    "textendash": "–", "textemdash": "—", "and": ",", "euro": "€", "pounds": "£",
}  # fmt: skip


def parse_latex(file: File) -> list[Entry]:
    """The text of a LaTeX document; of the commands, headings, links and formulas stay."""
    text = file.text()
    names = ("title", "author", "date")
    said = {name: _plain_latex(_argument(text, f"\\{name}")) for name in names}
    _, begin, body = text.partition("\\begin{document}")
    body = (body if begin else text).partition("\\end{document}")[0]
    author, when = " ".join(said["author"].split()), read_time(said["date"])
    text = _write_latex(body)
    return [make_document(file, "latex", said["title"], text, author=author, created_at=when)]


def _argument(text: str, command: str) -> str:
    """The first braced argument of a command."""
    found = re.search(re.escape(command) + r"\s*(?:\[[^\]]*\])?\s*\{", text)
    if not found:
        return ""
    depth = 1
    for at in range(found.end(), min(len(text), found.end() + 10_000)):
        depth += {"{": 1, "}": -1}.get(text[at], 0)
        if not depth:
            return text[found.end() : at]
    return ""


def _write_latex(body: str) -> str:
    parts = _CODE.split(body)
    parts[::2] = map(_plain_latex, parts[::2])
    parts[1::2] = (_BEGIN_END.sub("", block) for block in parts[1::2])
    return re.sub(r"\n{3,}", "\n\n", "\n".join(parts)).strip()


def _plain_latex(text: str) -> str:
    text = _DROPPED.sub("", _COMMENT.sub("", text))
    text = re.sub(r"\\hypertarget\s*\{[^{}]*\}", "", text)
    text = _LATEX_HEADING.sub(lambda found: f"\n\n{'#' * _LEVELS[found[1]]} {{", text)
    text = _TITLE.sub(lambda found: f"{found[1]}{' '.join(found[2].split())}\n", text)
    text = _HREF.sub(lambda found: f"[{found[2]}]({found[1]})", text)
    text = compose_accents(text)
    text = re.sub(r"\\item\s*\[([^\]]*)\]", r"\n- \1 ", text)
    text = re.sub(r"\\item\b\s*", "\n- ", text)
    text = re.sub(
        r"\\(?:begin|end)\s*\{[\w*]+\}(?:\s*\[[^\]]*\])?(?:\{[lcrpX|@{}.\d\\\w ]*\})?", "\n", text
    )
    text = re.sub(r"\\\\(?:\[[^\]]*\])?", "\n", text)
    text = re.sub(r"\\(?:foot(?:note|cite)|marginpar)\s*\{", " {", text)
    text = re.sub(r"\\([#$%&_{}])", lambda f: {"{": "\1", "}": "\2"}.get(f[1], f[1]), text)
    text = re.sub(r"\\([A-Za-z]+)\*?(?:\[[^\]]*\])?[ ]?", lambda f: _LETTERS.get(f[1], ""), text)
    text = text.replace("``", "“").replace("''", "”").replace("---", "—").replace("--", "–")
    text = re.sub(r"(?<!\\)&", " | ", text.replace("~", " "))
    text = re.sub(r"\\[,;:! ]", " ", text)
    return re.sub(r"[{}]", "", text).replace("\1", "{").replace("\2", "}").replace("$", "")


def parse_opml(file: File) -> list[Entry]:
    """An outline as nested bullets; feeds with their addresses."""
    root = parse_xml(file.data)
    if root.tag != "opml":
        raise RefusedFormat("unknown", "not an outline")
    said = {each.tag: each.text or "" for each in root.iterfind("head/*")}
    lines = [line for each in root.iterfind("body/outline") for line in _write_outline(each, 0)]
    author = said.get("ownerName", "")
    when = read_mail_date(said.get("dateCreated", ""))
    title, text = said.get("title", ""), "\n".join(lines)
    return [make_document(file, "outline", title, text, author=author, created_at=when)]


def _write_outline(node: Any, depth: int) -> Iterator[str]:
    text = node.get("text") or node.get("title") or ""
    if "<" in text:
        text = read_html(text)[1].replace("\n", " ")
    target = node.get("xmlUrl") or node.get("url") or node.get("htmlUrl") or ""
    line = f"[{text}]({target})" if target and text and text != target else text or target
    yield "  " * min(depth, 20) + f"- {line}"  # deeper is not readable
    for name in ("_note", "description", "htmlUrl"):
        if node.get(name) and node.get(name) != target:
            yield "  " * min(depth + 1, 20) + node.get(name)
    for each in node.iterfind("outline"):
        yield from _write_outline(each, depth + 1)


_ACCENTS = {
    '"': "\u0308", "'": "\u0301", "`": "\u0300", "^": "\u0302", "~": "\u0303", "c": "\u0327",
    "r": "\u030a", "v": "\u030c", "=": "\u0304", "u": "\u0306", "H": "\u030b", ".": "\u0307",
}  # fmt: skip
_ACCENT = re.compile(r"""\\(?:(["'`^~=.])\s*|([crvuH])(?=\{|\s))\s*\{?\\?([A-Za-z])\}?""")


def compose_accents(text: str) -> str:
    """LaTeX with accent commands replaced by accented letters."""
    return _ACCENT.sub(lambda f: unicodedata.normalize("NFC", f[3] + _ACCENTS[f[1] or f[2]]), text)
