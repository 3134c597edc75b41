"""One question has one answer, in whichever process it is asked."""

from __future__ import annotations

from typing import Any


def test_the_best_file_is_first_and_the_order_the_same_in_every_process(sonde: Any) -> None:
    # far more files that mention the words than a search looks at closely
    for number in range(400):
        text = "".join(f"def f{number}_{n}(a, b):\n    return {n} * a + b\n\n\n" for n in range(9))
        (sonde.project / f"more{number}.py").write_text(text)
    sonde.ask("index", "--yes")
    answers = []
    for seed in "1234":
        sonde.environ["PYTHONHASHSEED"] = seed
        rows = sonde.ask("search", "function_7", "--limit", "50", "--max-tokens", "20000")[
            "results"
        ]
        assert rows[0]["path"] == "pkg2/mod7.py"
        answers.append(rows)
    assert all(rows == answers[0] for rows in answers)
