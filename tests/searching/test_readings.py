"""How a query is read that is no question, by its spelling alone."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.drawing import draw_text

from sonde.searching.readings import read_literally

PLACES = {
    "src/a/b.py": ("src/a/b.py", 0),
    "b.py:120": ("b.py", 120),
    "./b.py:120:7": ("./b.py", 120),
    "b.py:120-140": ("b.py", 120),
    'File "src/a.py", line 12': ("src/a.py", 12),
    '  File "/opt/my app/c.py", line 12, in run\n    return go()': ("/opt/my app/c.py", 12),
    "a/b.py#L10-L20": ("a/b.py", 10),
    "a/b.py +12": ("a/b.py", 12),
    "a/b.py, line 12": ("a/b.py", 12),
    r"C:\src\shop\b.py:12": ("src/shop/b.py", 12),
    r"src\a\b.py": ("src/a/b.py", 0),
    "https://github.com/o/r/blob/main/src/a.py#L10": ("github.com/o/r/blob/main/src/a.py", 10),
    "+++ b/src/x.py": ("b/src/x.py", 0),
    "app/[id]/page.tsx": ("app/[id]/page.tsx", 0),
    "my folder/a b.py": ("my folder/a b.py", 0),
    "`README.md`": ("README.md", 0),
    "Makefile": ("Makefile", 0),
    ".gitignore": (".gitignore", 0),
    "src/utils/": ("src/utils", 0),
    # stack traces and compilers
    "at com.shop.Cart.add(Cart.java:42)": ("com/shop/Cart.java", 42),
    "  at java.base/java.util.ArrayList.get(ArrayList.java:427) ~[na:1.8]": (
        "java/util/ArrayList.java",
        427,
    ),
    "at run (/app/src/a.js:10:5)": ("app/src/a.js", 10),
    "    at async file:///app/src/x.mjs:1:2": ("app/src/x.mjs", 1),
    "\t/go/src/shop/main.go:23 +0x1d": ("go/src/shop/main.go", 23),
    "thread 'main' panicked at src/main.rs:10:5:": ("src/main.rs", 10),
    "  --> src/main.rs:4:5": ("src/main.rs", 4),
    r"   at Shop.Cart.Add(Item i) in C:\src\Cart.cs:line 42": ("src/Cart.cs", 42),
    "\tfrom /app/lib/a.rb:12:in `run'": ("app/lib/a.rb", 12),
    "#0 /var/www/a.php(12): run()": ("var/www/a.php", 12),
    "src/a.ts(12,5): error TS2304: Cannot find name 'x'.": ("src/a.ts", 12),
    "src/a.c:12:5: error: expected ';' before 'x'": ("src/a.c", 12),
    "#1  0x00007f in run (x=1) at src/a.c:42": ("src/a.c", 42),
    "src/a.py:12:def run(x):": ("src/a.py", 12),
}
GLOBS = ["*.tf", "src/**/test_*.py", "*_test.go", "*.{ts,tsx}", "config.*", "src/*", "**/auth*.ts"]
EXPRESSIONS = [
    r"def \w+_handler\(", "^import .* as np$", r"foo|bar\d+", "foo.*bar", "(get|set)Name",
    "[a-z]+_test", r"\bfoo\b", "(?i)todo", r"^\s*return", r"href=[^>]+>", r"foo\.bar",
    r"C:\\\w+", r"(?P<id>\d+)", "import .* from ['\"]react['\"]", r"zzz\d+qqq",
]  # fmt: skip
TEXTS = {
    '"connection refused"': "connection refused",
    "'not a number'": "not a number",
    "“not found”": "not found",
    "ValueError: invalid literal for int() with base 10: 'x'": (
        "invalid literal for int() with base 10: 'x'"
    ),
    "2024-01-01 12:00:00,123 ERROR shop: no route to 10.0.0.1:5432": (
        "shop: no route to 10.0.0.1:5432"
    ),
    "error[E0382]: borrow of moved value: `x`": "borrow of moved value: `x`",
    "shop.errors.Unpaid: order 7 is not paid": "order 7 is not paid",
    "Failed to open '/tmp/x': No such file": "Failed to open '/tmp/x': No such file",
    "writes are not allowed while 'frozen' is set": "writes are not allowed while 'frozen' is set",
    "The basket is closed.": "The basket is closed.",
    "Error: nothing to pay (?) today": "nothing to pay (?) today",
}
QUESTIONS = """
foo(bar)|what is x?|C++|array[0]|List<String>|operator[]|$var|*args|**kwargs|obj->field|np.array
foo.bar()|Foo::bar|std::vector<int>|x[i-j]|(string)[]|import java.util.*|import java.util.*;|a?.b
re.compile(r"(\\d+)\\.foo")|x.replace(/\\s+/g, "")|\\section{foo}|\\(a, b) -> a
map (\\x -> x + 1)|how to match \\d+ in regex|what does .* mean|regex for [a-z]+|^18.0.0|^C|user$
how does the client handle 404 errors|Error handling|ERROR handling in client|[^1]|f(x)=x^2|100%
failed login attempts after 3 tries|error: how are errors handled|KeyError: 'x'|"x"|''|a / b
**bold**|localhost:8080|example.com:8080|10.0.0.1|1.2.3|v1.2.3|key: value
SELECT * FROM users|GET /users/{id}
@app.route("/users/<int:id>")|#include <stdio.h>|<div class="foo">|println!("{}", x)|a && b
*/*|foo{2,3}|how is the price in src/cart.py computed|parse_url|ParseUrl|where is the cart
größe|海象|foo.bar.baz|max-age|--max-age|how is the cart closed.|Done.
const x = /\\d+/g|self.assertEqual(a, b)|x = y ? 1 : 2|!important|:root|--verbose|git log --oneline
"""


@pytest.mark.parametrize("query", PLACES)
def test_a_place_is_read_as_a_path_and_a_line(query: str) -> None:
    reading = read_literally(query)
    assert reading
    assert (reading.kind, reading.text, reading.line) == ("path", *PLACES[query])


def test_a_test_is_named_with_its_file() -> None:
    reading = read_literally("tests/test_a.py::TestX::test_b[1-2]")
    assert reading
    assert (reading.kind, reading.text, reading.name) == ("path", "tests/test_a.py", "test_b")


@pytest.mark.parametrize("query", GLOBS)
def test_a_glob_is_read_as_one(query: str) -> None:
    reading = read_literally(query)
    assert reading
    assert (reading.kind, reading.text) == ("glob", query)


@pytest.mark.parametrize("query", EXPRESSIONS)
def test_a_regular_expression_is_read_as_one(query: str) -> None:
    reading = read_literally(query)
    assert reading
    assert (reading.kind, reading.text) == ("regex", query)


@pytest.mark.parametrize("query", TEXTS)
def test_a_text_or_a_message_is_read_as_one(query: str) -> None:
    reading = read_literally(query)
    assert reading
    assert (reading.kind, reading.text) == ("text", TEXTS[query])


@pytest.mark.parametrize(
    "query",
    [query for line in QUESTIONS.strip().split("\n") for query in line.split("|")]
    + ["foo|bar", "string|null", "open(READ|WRITE)", "(string|number)[]", "|x| x + 1"],
)
def test_questions_and_code_are_read_as_questions(query: str) -> None:
    assert read_literally(query) is None


@pytest.mark.parametrize(
    "query", ["Node.js", "a.b.c", "and/or", "application/json", "java.util.*", r"App\Service\Bar"]
)
def test_what_is_only_spelled_like_a_path_may_be_something_else(query: str) -> None:
    reading = read_literally(query)
    assert reading
    assert not reading.is_certain


marks = draw_text("ab/\\.:*?()[]{}|^$\"'` 1\n-+#L", 80)


@given(st.one_of(marks, draw_text(st.characters(exclude_categories=()), 60)))
def test_any_string_can_be_read(query: str) -> None:
    reading = read_literally(query)
    assert reading is None or reading.text


@pytest.mark.parametrize(
    "part", ["a.", "a.py", '"a.py', "-\\ba-z", "[x=<[^", "'", "12:00:00 ", "(", "a-"]
)
def test_no_string_takes_long_to_read(part: str) -> None:
    began = time.process_time()
    for _ in range(3):
        read_literally(part * (1000 // len(part)))
    assert time.process_time() - began < 1.0  # some 50 ms; what backtracks takes minutes
