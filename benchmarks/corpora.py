"""What is measured on: Django's source, and a tree of 10,000 source files."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path

from packages import fetch_archive, unpack_archive

DJANGO = "django-5.2.19.tar.gz"
MANY = (
    "transformers-5.22.2.tar.gz",
    "bokeh-3.9.2.tar.gz",
    "pandas-3.1.1.tar.gz",
    "grpcio-1.81.2.tar.gz",
)
MANY_FILES = 10_000
SOURCES = {".py", ".pyi", ".ts", ".js", ".c", ".cc", ".cpp", ".h", ".hpp"}


@dataclass(frozen=True)
class Corpus:
    """A folder with questions about it, a file to edit and patterns to grep for."""

    name: str
    folder: Path
    about: str
    questions: tuple[str, ...]
    edited: str = ""
    patterns: tuple[str, ...] = ()


def prepare_django(work: Path) -> Corpus:
    """Django's source archive as it is: code, tests, templates, translations, documentation."""
    folder = work / "corpora" / DJANGO.removesuffix(".tar.gz")
    if not (folder / ".git").exists():
        unpack_archive(fetch_archive(DJANGO, work / "downloads"), folder.parent)
        _mark_root(folder)
    return Corpus(
        "django",
        folder,
        f"{DJANGO} from PyPI, unpacked: {_count(folder):,} files",
        DJANGO_QUESTIONS,
        "django/core/paginator.py",
        (r"class \w+Middleware", "select_related", r"def get_\w+_display", "ValueError", r"TODO"),
    )


def prepare_database(work: Path) -> Corpus:
    """One package of Django: small enough to wait for all its deep vectors."""
    folder = work / "corpora" / "django-db"
    if not (folder / ".git").exists():
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(prepare_django(work).folder / "django" / "db", folder / "db")
        _mark_root(folder)
    about = f"the package django.db alone: {_count(folder):,} files"
    return Corpus("django.db", folder, about, DJANGO_QUESTIONS)


def prepare_many(work: Path) -> Corpus:
    """The first 10,000 source files of a few archives: Python, TypeScript, C and C++."""
    folder = work / "corpora" / "many"
    if not (folder / ".git").exists():
        unpacked = work / "corpora" / "unpacked"
        shutil.rmtree(folder, ignore_errors=True)
        left = MANY_FILES
        for name in MANY:
            unpack_archive(fetch_archive(name, work / "downloads"), unpacked)
            top = unpacked / name.removesuffix(".tar.gz")
            found = sorted(p for p in top.rglob("*") if p.suffix in SOURCES and p.is_file())
            for path in found[:left]:
                target = folder / path.relative_to(unpacked)
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.move(path, target)
            left -= min(left, len(found))
        shutil.rmtree(unpacked)
        if left:
            raise SystemExit(f"the archives hold {left} source files too few")
        _mark_root(folder)
    packages = ", ".join(name.removesuffix(".tar.gz") for name in MANY)
    return Corpus(
        "10,000 files",
        folder,
        f"{_count(folder):,} source files ({' '.join(sorted(SOURCES))}) of {packages} from PyPI",
        MANY_QUESTIONS,
    )


def use_folder(folder: Path) -> Corpus:
    """Any other folder, asked what could be asked of any project."""
    files = sorted(p for p in folder.rglob("*.py") if ".git" not in p.parts)
    edited = str(files[0].relative_to(folder)) if files else ""
    return Corpus(
        folder.name, folder.resolve(), f"a folder of {_count(folder):,} files",
        MANY_QUESTIONS, edited, ("TODO", "error", r"def \w+_all"),
    )  # fmt: skip


def _mark_root(folder: Path) -> None:
    """An empty .git makes it a project of its own, wherever it lies; written last."""
    (folder / ".git").mkdir()


def _count(folder: Path) -> int:
    return sum(1 for path in folder.rglob("*") if path.is_file())


def read_lines(text: str) -> tuple[str, ...]:
    """One question a line."""
    return tuple(line.strip() for line in text.strip().splitlines())


DJANGO_QUESTIONS = read_lines("""
    how are migrations put into order
    where is the CSRF token checked
    password hashing and upgrading old hashes
    how does the ORM turn lookups into SQL
    QuerySet.select_related
    paginate a list of objects
    template inheritance with blocks
    compile a template into nodes
    resolve a URL to a view
    how middleware is loaded and wrapped
    session data stored in signed cookies
    sending mail over SMTP
    serve static files during development
    collect static files into one folder
    cache a view's response
    memcached backend
    file uploads larger than memory
    multipart form parser
    validate an e-mail address
    ModelForm
    formset management form
    admin change list filters
    log entries of the admin
    permission check for a user
    authenticate with several backends
    password reset token
    create a superuser from the command line
    run the development server and reload on change
    autoreload with watchman
    translate strings lazily
    compile message files
    time zone conversion of datetimes
    parse ISO 8601 durations
    database router for several databases
    transaction.atomic
    savepoint rollback
    SQLite schema editor remakes a table
    PostgreSQL array field
    full text search vector
    spatial lookups and distance
    many to many through model
    generic foreign keys
    deletion collector cascade
    deferred loading of fields
    aggregate with group by
    window functions
    F expressions and combined expressions
    prefetch related objects
    bulk_create with conflicts
    signals sent before and after save
    system checks framework
    deserialize fixtures from JSON
    test client request factory
    live server test case
    parallel test runner
    ASGI request handling
    HttpResponse streaming
    conditional GET with ETag
    clickjacking protection header
    escape HTML in templates
""")

MANY_QUESTIONS = read_lines("""
    load pretrained model weights
    tokenize text into subwords
    rotary position embedding
    beam search generation
    quantize linear layers
    attention mask for padding
    training loop with gradient accumulation
    image processor resize and normalize
    merge two data frames on a column
    read CSV files in chunks
    group by and aggregate
    resample a time series
    rolling window mean
    parse dates from strings
    pivot table
    DataFrame.to_parquet
    draw a glyph on a canvas
    event handling for pan and zoom
    colour mapper palettes
    server session and document sync
    HTTP/2 frame parsing
    channel credentials and TLS handshake
    load balancing policy round robin
    retry throttling
    completion queue
    DNS resolver
    protobuf arena allocation
    hash map implementation
    base64 encoding
    cancel a call and clean up
""")
