"""A long query is read as people read it: where it points counts more than what it repeats."""

import os
import subprocess
import sys
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sonde.ranking.question import Places, read_question, read_report

REPORT = """Session drops cookies on redirect

<!-- Please search for existing reports first. -->

**Describe the bug**

After a redirect `Session.resolve_redirects` loses the cookie that `set_cookie` stored, see
https://example.org/owner/shop/blob/main/shop/net/jar.py#L12 and shop.net.adapters.HTTPAdapter.

```
Traceback (most recent call last):
  File "/home/me/try.py", line 3, in <module>
    shop.get("http://localhost")
  File "/usr/lib/python3.11/site-packages/shop/net/sessions.py", line 210, in resolve_redirects
    raise TooManyRedirects
```

**Environment**
python: 3.11.2
shop: 1.4.0
"""


def test_a_report_is_read_in_its_parts() -> None:
    report = read_report(REPORT)
    assert report
    assert report.title == "Session drops cookies on redirect"
    assert "loses the cookie" in report.body
    assert "Describe the bug" not in report.body
    assert "Please search" not in report.body
    assert "3.11.2" not in report.body
    assert report.frames[-1][-3:] == ("shop", "net", "sessions")
    assert {"Session.resolve_redirects", "set_cookie"} <= set(report.spelled)


@pytest.mark.parametrize(
    ("path", "rate"),
    [
        ("shop/net/sessions.py", 2),
        ("src/shop/net/jar.py", 2),
        ("shop/net/adapters.py", 2),
        ("shop/net/__init__.py", 2),
        ("other/jar.py", 1),
        ("shop/billing/invoice.py", 0),
    ],
)
def test_the_files_that_a_report_names_are_known(path: str, rate: int) -> None:
    report = read_report(REPORT)
    assert report
    assert Places([*report.frames, *report.paths]).rate(path) == rate


def test_names_are_compared_with_the_title_alone() -> None:
    question = read_question(REPORT)
    assert question.text == "Session drops cookies on redirect"
    assert "traceback" not in question.words
    assert len(question.asked) == 2


def test_a_bare_stack_trace_goes_by_what_went_wrong() -> None:
    trace = "Traceback (most recent call last):\n" + '  File "a/b.py", line 1, in f\n    f()\n' * 9
    report = read_report(trace + "ValueError: mode must be text")
    assert report
    assert report.title == "ValueError: mode must be text"


@pytest.mark.parametrize("text", ["", "how are cookies kept", "two\nlines", "x " * 90])
def test_ordinary_questions_are_no_reports(text: str) -> None:
    assert read_report(text) is None


def test_frames_of_other_languages_are_found() -> None:
    text = (
        "It fails while rendering the page\n\n"
        "    at renderPage (/srv/app/web/render.js:10:5)\n"
        "    at com.acme.web.Page.show(web/Page.java:77)\n"
        "web/server.go:120 +0x1d\n"
    ) + "and more words to make it a report of some length. " * 5
    report = read_report(text)
    assert report
    assert [frame[-2:] for frame in report.frames] == [
        ("web", "render"),
        ("web", "page"),
        ("web", "server"),
    ]


@given(st.text(min_size=200, max_size=3000))
def test_any_long_text_is_a_legal_question(text: str) -> None:
    question = read_question(text)
    assert len(question.words) <= 64
    assert 1 <= len(question.asked) <= 2


@pytest.mark.parametrize(
    "piece",
    ["<!--", "a", "a.", "a/", "\n", "at (", "`", "**", "- a: 1.", "<a ", 'File "', "https://"],
)
def test_no_text_takes_long_to_read(piece: str) -> None:
    text = "A title that says something\n" + piece * (60_000 // len(piece))
    began = time.process_time()
    read_question(text)
    assert time.process_time() - began < 1.0


def test_a_report_is_read_alike_in_every_process():
    """Terms that occur equally often keep the order of the report, whatever the hash seed."""
    script = (
        "from sonde.ranking.question import read_report\n"
        "code = ' '.join(f'name{n}' for n in range(60))\n"
        "print(read_report('It breaks\\n\\n```\\n' + code + '\\n```\\n' + 'more ' * 80).terms)"
    )
    read = {
        subprocess.run(
            [sys.executable, "-c", script],
            env={**os.environ, "PYTHONHASHSEED": str(seed)},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in range(4)
    }
    assert len(read) == 1
