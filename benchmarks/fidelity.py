"""How much of a document survives its import: words, order, headings, tables, links, metadata.

    python benchmarks/fidelity.py make FOLDER      # by pandoc, LibreOffice, pdflatex and others
    python benchmarks/fidelity.py measure FOLDER   # a table; with --json, figures by file
    PYTHONPATH=OLD/src python benchmarks/fidelity.py measure FOLDER --json   # of another version

The sources lie in tests/knowledge/fidelity/source. The truth is their text as pandoc writes it.
"""

from __future__ import annotations

import argparse
import json
import re
import resource
import shutil
import subprocess
import sys
import tempfile
import time
import unicodedata
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SOURCES = ROOT / "tests/knowledge/fidelity/source"
TEXTS = ("rich", "prose", "chinese", "cyrillic")
PANDOC = ("docx", "odt", "rtf", "epub", "html", "tex", "ipynb", "opml", "rst", "org", "adoc", "md")
OFFICE = {
    "docx": ("doc", "odt", "rtf", "pdf", "html"), "odt": ("docx", "doc", "rtf", "pdf", "fodt"),
    "pptx": ("ppt", "odp", "pdf"), "xlsx": ("xls", "ods", "fods"),
}  # fmt: skip
ENCODINGS = {"cyrillic": ("windows-1251", "koi8-r"), "chinese": ("gbk",), "prose": ("iso-8859-1",)}
NO_HEAD = {
    "python.eml",
    "abiword.odt",
    "abiword.rtf",
    "pandoc.rtf",
    "pandoc.ipynb",
    "wkhtmltopdf.pdf",
}
NO_AUTHOR = NO_HEAD | {"chromium.pdf", "libreoffice-from-odt.rtf"}
"""Files whose programs write no title or author into them."""
NO_TABLE = {"pandoc.opml", "pdflatex2.pdf"}
"""Files whose programs leave tables out, or cannot set them in two columns."""
DATED = {
    "pandoc.html",
    "menu.html",
    "pandoc.epub",
    "pandoc.md",
    "pandoc.tex",
    "pandoc.org",
    "pandoc.rst",
}
"""Files that hold the date of the text; the others, the time when they were made."""
MENU = (
    "<nav><ul>"
    + "".join(f"<li><a href='/p{n}'>Menu {n}</a></li>" for n in range(12))
    + "</ul></nav>"
    "<div class='cookie-banner'>We use cookies. <button>Accept</button></div>"
)


def run(*command: str, cwd: Path | None = None) -> bool:
    """Run a program; False if it is missing or fails."""
    if shutil.which(command[0]) is None:
        return False
    done = subprocess.run(command, cwd=cwd, capture_output=True, timeout=180, check=False)
    return done.returncode == 0


def make(folder: Path) -> None:
    """Make a file of every format from every source; names are SOURCE.PROGRAM.FORMAT."""
    folder.mkdir(parents=True, exist_ok=True)
    for name in (*TEXTS, "slides"):
        source = str(SOURCES / f"{name}.md")
        for form in ("pptx",) if name == "slides" else PANDOC:
            target = str(folder / f"{name}.pandoc.{form}")
            kind = {"tex": "latex", "adoc": "asciidoc", "md": "markdown"}.get(form, form)
            run("pandoc", "-s", "-t", kind, source, "-o", target)
        if name != "slides":
            run("pandoc", "-s", "-t", "markdown", source, "-o", str(folder / f"{name}.pandoc.md"))
    if run("soffice", "--version"):
        make_by_office(folder)
    for source in folder.glob("*.pandoc.docx"):
        for form in ("rtf", "odt"):
            run(
                "abiword",
                f"--to={form}",
                "-o",
                str(folder / f"{source.stem.split('.')[0]}.abiword.{form}"),
                str(source),
            )
    for name in ("rich", "prose"):
        make_by_latex(folder, name)
    for name in TEXTS:
        page = folder / f"{name}.pandoc.html"
        if name != "chinese":  # it has no such font, and writes no text
            run("wkhtmltopdf", "-q", str(page), str(folder / f"{name}.wkhtmltopdf.pdf"))
        run("chromium", "--headless", "--no-sandbox", "--disable-gpu", "--no-first-run",
            f"--print-to-pdf={folder / f'{name}.chromium.pdf'}", f"file://{page}")  # fmt: skip
    table = str(SOURCES / "table.csv")
    shutil.copy(table, folder / "table.source.csv")
    for form in ("xlsx", "ods", "xls"):
        run("ssconvert", table, str(folder / f"table.gnumeric.{form}"))
    make_by_libraries(folder)


def make_by_office(folder: Path) -> None:
    """Convert by LibreOffice, one run for each pair of formats."""
    with tempfile.TemporaryDirectory() as made:
        run("soffice", "--headless", "--infilter=CSV:44,34,76,1",
            "--convert-to", "xlsx", "--outdir", made, str(SOURCES / "table.csv"))  # fmt: skip
        shutil.copy(Path(made) / "table.xlsx", folder / "table.libreoffice.xlsx")
    for form, others in OFFICE.items():
        sources = [str(path) for path in folder.glob(f"*.pandoc.{form}")]
        sources += [str(path) for path in folder.glob(f"*.libreoffice.{form}") if form == "xlsx"]
        for other in others:
            with tempfile.TemporaryDirectory() as made:
                run("soffice", "--headless", "--convert-to", other, "--outdir", made, *sources)
                for path in Path(made).iterdir():
                    name = path.name.split(".")[0]
                    shutil.copy(path, folder / f"{name}.libreoffice-from-{form}.{other}")


def make_by_latex(folder: Path, name: str) -> None:
    """A PDF in one and in two columns."""
    text = (
        (folder / f"{name}.pandoc.tex").read_text()
        if (folder / f"{name}.pandoc.tex").exists()
        else ""
    )
    for kind, options in (("pdflatex", ""), ("pdflatex2", "twocolumn")):
        with tempfile.TemporaryDirectory() as made:
            paper = Path(made) / "paper.tex"
            body = (
                text
                if not options
                else re.sub(r"(?s)\\begin\{longtable\}.*?\\end\{longtable\}", "", text)
            )
            paper.write_text(
                re.sub(r"\\documentclass\[[^\]]*\]", rf"\\documentclass[{options}]", body, count=1)
            )
            if text and not run("pdflatex", "-interaction=batchmode", "paper.tex", cwd=Path(made)):
                run("pdflatex", "-interaction=batchmode", "paper.tex", cwd=Path(made))
            if (Path(made) / "paper.pdf").exists():
                shutil.copy(Path(made) / "paper.pdf", folder / f"{name}.{kind}.pdf")


def make_by_libraries(folder: Path) -> None:
    """Mail and web pages: the standard library's mail, pages with menus and old encodings."""
    from email.message import EmailMessage
    from mailbox import mbox

    box = mbox(str(folder / "all.python.mbox"))
    for name in TEXTS:
        page = folder / f"{name}.pandoc.html"
        if not page.exists():
            continue
        html = page.read_text()
        with_menu = html.replace("<body>", f"<body>{MENU}<main>").replace(
            "</body>", "</main></body>"
        )
        (folder / f"{name}.menu.html").write_text(with_menu)
        for encoding in ENCODINGS.get(name, ()):
            named = with_menu.replace('charset="utf-8"', f'charset="{encoding}"')
            (folder / f"{name}.{encoding}.html").write_bytes(
                named.encode(encoding, "xmlcharrefreplace")
            )
        mail = EmailMessage()
        mail["From"], mail["To"], mail["Subject"] = "anna@example.org", "bob@example.org", name
        mail["Message-ID"] = f"<{name}@example.org>"
        mail.set_content("See the attachment.")
        office = folder / f"{name}.pandoc.docx"
        mail.add_attachment(
            office.read_bytes(), "application", "octet-stream", filename=office.name
        )
        (folder / f"{name}.python.eml").write_bytes(bytes(mail))
        box.add(mail)
    box.close()


def plain(name: str, *, without_notes: bool = False, without_table: bool = False) -> str:
    """The text of a source without the numbers of its lists and notes."""
    if name == "table":
        return (SOURCES / "table.csv").read_text().replace(",", " ")
    path = str(SOURCES / f"{name}.md")
    done = subprocess.run(
        ["pandoc", "-t", "plain", "--wrap=none", path], capture_output=True, check=True
    )
    text = re.sub(r"(?m)^[ ]*\d+\.[ ]|\[\d+\]", "", done.stdout.decode())  # numbers are no words
    if without_table:
        text = "\n".join(
            line
            for line in text.split("\n")
            if not re.match(r" +(Boat|Walrus|Otter|Petrel) ", line)
        )
    return text.split("Mention the grant")[0] if without_notes else text


def words(text: str) -> list[str]:
    """Words of a text; each ideograph is one."""
    text = unicodedata.normalize("NFKC", text).lower()
    return re.findall(r"[\u4e00-\u9fff]|[^\W_\u4e00-\u9fff]+", text)


def order(truth: list[str], found: list[str]) -> float:
    """The share of the words that occur once in both that keep their order."""
    once = [
        {word: at for at, word in enumerate(each) if Counter(each)[word] == 1}
        for each in (truth, found)
    ]
    places = [once[1][word] for word in once[0] if word in once[1]]
    tails: list[int] = []
    from bisect import bisect_left

    for place in places:
        at = bisect_left(tails, place)
        tails[at : at + 1] = [place]
    return len(tails) / len(places) if places else 1.0


def share(wanted: list[str], found: Iterator[str] | list[str]) -> float | None:
    """The share of the wanted ones that are found; None if none is wanted."""
    have = set(found)
    return sum(each in have for each in wanted) / len(wanted) if wanted else None


def judge(path: Path) -> dict[str, object]:
    """The figures of one file."""
    from sonde.knowledge.formats import File, RefusedFormat
    from sonde.knowledge.parsing import parse_file

    name, kind = path.name.split(".", 1)
    began = time.process_time()
    try:
        entries = parse_file(File(path.name, path.read_bytes(), 1))
    except RefusedFormat as error:
        return {"refused": f"{error.reason} {error.detail}".strip()}
    took = time.process_time() - began
    entry = entries[0]
    text = "\n".join("".join(piece.text for piece in each.pieces) for each in entries)
    truth = (
        "\n".join(plain(each) for each in TEXTS)
        if name == "all"
        else plain(name, without_notes=path.suffix == ".pdf", without_table=kind in NO_TABLE)
    )
    wanted, found = words(truth), words(text)
    missing = Counter(wanted) - Counter(found)
    source = "" if name in ("all", "table") else (SOURCES / f"{name}.md").read_text()
    heads = [" ".join(words(each)) for each in re.findall(r"(?m)^#+ (.+)$", source)]
    marked = [
        " ".join(words(each)) for each in re.findall(r"(?m)^[ ]*(?:#+|=+|\*+|- ) ?(.+)$", text)
    ]
    rows = [
        words(row) for row in re.findall(r"(?m)^\|(?!-)(.+)\|$", source) if kind not in NO_TABLE
    ]
    lines = [words(line) for line in text.split("\n")]
    links = re.findall(r"\]\((https?://[^)]+)\)", source)
    said = dict(re.findall(r"(?m)^(title|author|date|keywords): (.+)$", source))
    front = entry.facts.get("front_matter") or {}
    author = entry.facts.get("author") or front.get("author")
    created = time.strftime("%Y-%m-%d", time.gmtime(entry.created_at / 1000))
    return {
        "words": 1 - missing.total() / max(1, len(wanted)),
        "order": order(wanted, found),
        "headings": share(heads, marked),
        "tables": share([str(row) for row in rows], [str(line) for line in lines]),
        "links": share(links, re.findall(r"https?://[^\s)>\]\[]+", text)),
        "title": entry.title == said["title"] if said and kind not in NO_HEAD else None,
        "author": author == said["author"] if said and kind not in NO_AUTHOR else None,
        "date": created == said["date"] if said and kind in DATED else None,
        "seconds": round(took, 3), "missing": sorted(missing)[:12],
    }  # fmt: skip


def measure(folder: Path) -> dict[str, dict[str, object]]:
    """The figures of every file."""
    names = sorted(
        path for path in folder.iterdir() if path.is_file() and path.name.count(".") >= 2
    )
    return {path.name: judge(path) for path in names}


def main() -> None:
    """Make or measure."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("verb", choices=("make", "measure"))
    parser.add_argument("folder", type=Path)
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    if args.verb == "make":
        make(args.folder)
        print(sum(1 for _ in args.folder.iterdir()), "files")
        return
    rows = measure(args.folder)
    if args.json:
        print(json.dumps(rows, indent=1, ensure_ascii=False))
        return
    for name, row in rows.items():
        shown = [
            f"{key} {value:.3f}" if isinstance(value, float) else f"{key} {value}"
            for key, value in row.items()
            if value is not None
        ]
        print(f"{name:44}", "  ".join(shown))
    print(
        f"{len(rows)} files, {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024} MB",
        file=sys.stderr,
    )


if __name__ == "__main__":
    main()
