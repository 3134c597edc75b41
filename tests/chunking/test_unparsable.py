"""Sources from whose errors a parser does not recover in any time are cut by lines."""

from __future__ import annotations

import subprocess
import sys

from sonde.chunking.grammars import parse_tree
from sonde.chunking.parse import parse_source

# while it is being edited; the lengths of names matter, and memory grows without end
HALF_EDITED = """\
    override fun makeTextma(sessionsess: RecordsReco, whetherw: Boolean): String {
        val rowsOf = inputRowi!!.first()
        val headinghe = rowsOf.listTextlis(whetherw)
# line 1 of 1300
        return asStringasString.makerma(excha, rowsOf.paper().first, headinghe, sessionsess, whetherw)
    }
) : Separateseparatesepar(stateme, pickedColsp) {
    override fun makeTextma(sessionsess: RecordsReco, whetherw: Boolean): String {
        val chosenRo = pickedColsp.makeTextma(sessionsess, whetherw)
        val newQuer = sessionsess.ki.newQuer
        val asStringasString = when (newQuer.homeho) {
            ModeOfItm.FlavoursFlavoursFla.Compa, ModeOfItm.FlavoursFlavoursFla.FirstOn -> SecondOneSecondOneSec.FirstMak
            else -> newQuer.asStringasString
        }
"""  # noqa: E501


def test_a_source_that_the_parser_cannot_finish_is_cut_by_lines() -> None:
    code = "import sys; from sonde.chunking.parse import parse_source as parse;"
    code += "print(len(parse('a.kt', sys.stdin.read(), kind='code').chunks))"
    done = subprocess.run(
        [sys.executable, "-c", code],
        input=HALF_EDITED, capture_output=True, text=True, timeout=120, check=True,
    )  # fmt: skip
    assert done.stdout == "1\n"
    assert parse_tree("kotlin", HALF_EDITED.encode()) is None


def test_the_parser_is_as_good_as_new_after_that() -> None:
    assert parse_tree("kotlin", HALF_EDITED.encode()) is None
    parsed = parse_source("b.kt", "fun second(): Int {\n    return 2\n}\n", kind="code")
    assert [symbol.name for symbol in parsed.symbols] == ["second"]


def test_broken_sources_are_parsed_nearly_always() -> None:
    whole = (
        "class Some {\n    fun f(a: Int) = when (a) {\n        1 -> 2\n        else -> 3\n    }\n"
    )
    for cut in range(len(whole)):
        assert parse_tree("kotlin", (whole[:cut] + "#\n" + whole[cut:]).encode()) is not None


def test_halves_of_pairs_do_not_crash_the_parser() -> None:
    """A source that is given up in the middle of them, in a process of its own: it would end it."""
    unit = "a);`\U0001f642{\u6f22<}[}\xdf.>`:,aa\x0c\n\ud800'\x0c\r\ud800]e\r:)"
    code = (
        "from sonde.chunking.parse import parse_source\n"
        f"text = {unit!a} * 124\n"
        "parsed = parse_source('a.lua', text, kind='code')\n"
        "assert ''.join(chunk.text for chunk in parsed.chunks) == text\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
