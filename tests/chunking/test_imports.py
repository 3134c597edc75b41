"""How many modules a source imports, each counted once."""

from __future__ import annotations

import pytest

from sonde.chunking.imports import count_imports


@pytest.mark.parametrize(
    ("language", "text", "count"),
    [
        ("python", "import a, b as c\nfrom a.x import d, e\nimport a\n", 3),
        ("go", 'import (\n  "fmt"\n  "os"\n)\nimport "fmt"\n', 2),
        ("typescript", 'import x from "./y";\nimport {z} from "./y";\n', 1),
        ("python", "print('import nothing')\n", 0),
        ("cobol", "import a\n", 0),
    ],
)
def test_each_module_counts_once_and_other_languages_have_none(
    language: str, text: str, count: int
) -> None:
    assert count_imports(text, language) == count
