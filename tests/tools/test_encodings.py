"""Legacy encodings are told apart by their bytes, found in their own script, and shown rightly."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.trees import write_files

from sonde.app import App
from sonde.policy.read import decode_text
from sonde.runtime.work import Work
from sonde.text.encodings import guess_encoding
from sonde.tools.code import read_file_text
from sonde.tools.index import create_index
from sonde.tools.pages import lexical_search, regex_search

SENTENCES = {
    "cp932": "設定ファイルを読み込んでから、接続を開始します。失敗した場合は再試行してください。",
    "euc_jp": "この関数は文字列を受け取り、空白を取り除いた結果を返します。",
    "gb18030": "这个函数读取配置文件，然后建立网络连接，如果失败就重新尝试。",
    "koi8_r": "Эта функция читает файл настроек и открывает соединение с сервером.",
    "cp1251": "Если соединение потеряно, попытка повторяется через несколько секунд.",
    "euc_kr": "이 함수는 설정 파일을 읽고 서버와 연결을 시작합니다.",
    "cp1252": "Größe und Höhe prüfen – l'élève a déjà été noté “très bien”.",
}
WORDS = {
    "cp932": "再試行",
    "euc_jp": "文字列",
    "gb18030": "配置文件",
    "koi8_r": "соединение",
    "cp1251": "попытка",
    "euc_kr": "연결을",
    "cp1252": "prüfen",
}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "work"
    folder.mkdir()
    (folder / "pyproject.toml").write_text("")
    return folder


@pytest.mark.row("001-175")
@pytest.mark.parametrize("encoding", SENTENCES)
def test_a_text_is_decoded_by_the_evidence_in_its_bytes(encoding: str) -> None:
    sentence = SENTENCES[encoding]
    for text in (sentence, f"int main(void) {{\n    // {sentence}\n    return 0;\n}}\n"):
        data = text.encode(encoding)
        assert decode_text(data) == text
        assert guess_encoding(data) == encoding


@pytest.mark.parametrize("encoding", SENTENCES)
def test_a_character_that_is_cut_off_costs_only_itself(encoding: str) -> None:
    data = (SENTENCES[encoding] * 3).encode(encoding)
    decoded = decode_text(data[:-3]) or ""
    assert (SENTENCES[encoding] * 3).startswith(decoded.rstrip())
    assert len(decoded) >= len(SENTENCES[encoding] * 3) - 4


@given(st.text(alphabet="abcdefg éèêàçùïôöäüßñåæø", min_size=1))
def test_western_text_is_never_taken_for_another(text: str) -> None:
    spaced = " ".join(f"a{word}a" for word in text.split())
    assert guess_encoding(spaced.encode("cp1252")) == "cp1252"


@pytest.mark.row("001-175")
@pytest.mark.parametrize("encoding", SENTENCES)
def test_it_is_found_in_its_own_script_and_shown_as_written(
    open_app: Callable[..., App], root: Path, encoding: str
) -> None:
    data = f"# {SENTENCES[encoding]}\ndef otter():\n    return 1\n".encode(encoding)
    (root / "otter.py").write_bytes(data)
    app = open_app()
    create_index(app, work=Work())
    for verb in (lexical_search, regex_search):
        (found,) = verb(app, WORDS[encoding], path="otter.py", work=Work())["results"]["matches"]
        match = found["match"]
        assert WORDS[encoding] in match["content"]
        span = match["span"]
        shown = data[span["byte_start"] : span["byte_end"]].decode(encoding)
        assert shown == match["content"]


@pytest.mark.row("001-178")
def test_files_of_odd_forms_are_found_and_minified_code_comes_last(
    open_app: Callable[..., App], root: Path
) -> None:
    cell = {"cell_type": "code", "source": ["x = 1\n", "lynx_cell = 2\n"], "outputs": []}
    files = {
        "plan.ipynb": json.dumps({"cells": [cell], "nbformat": 4}, indent=1),
        "rows.csv": "name,weight\nheron_row,12\n",
        "wide.py": "def stork_wide():\n    return 1\n".encode("utf-16"),
        "old.py": "a = 1\rdef crane_old():\r    return 1\r",
        "dos.py": "a = 1\r\ndef eagle_dos():\r\n    return 1\r\n",
        "a.min.js": "x=1;" * 500 + "function otter_swim(){};" + "y=2;" * 500,
        "z.js": "function otter_swim() {\n  return 1;\n}\n",
    }
    write_files(root, files)
    app = open_app()
    create_index(app, work=Work())
    for word, path in (
        ("lynx_cell", "plan.ipynb"),
        ("heron_row", "rows.csv"),
        ("stork_wide", "wide.py"),
        ("crane_old", "old.py"),
        ("eagle_dos", "dos.py"),
    ):
        assert word in files_with(app, word)[path]
    assert list(files_with(app, "otter_swim")) == ["z.js", "a.min.js"]


def files_with(app: App, word: str) -> dict[str, str]:
    """The files with a word, best first, and the text shown of each."""
    rows = lexical_search(app, word, work=Work())["results"]["matches"]
    return {row["file"]["path"]: row["match"]["content"] for row in rows}


def test_lines_of_a_file_are_counted_as_by_searches(
    open_app: Callable[..., App], root: Path
) -> None:
    """Form feeds, as between the sections of GNU sources, and Unicode's separators end no line."""
    write_files(root, {"pages.c": "one\n\f\ntwo \v \x1c \u2028 \u0085\nthree\r\nfour\n"})
    app = open_app()
    line = regex_search(app, "^four", work=Work())["results"]["matches"][0]["match"]["line_number"]
    assert line == 5
    assert read_file_text(app, "pages.c", "5", work=Work()).body == "four\n"
    assert read_file_text(app, "pages.c", "3-4", work=Work()).body == (
        "two \v \x1c \u2028 \u0085\nthree\r\n"
    )
    assert read_file_text(app, "pages.c", "9-10", work=Work()).body == ""
