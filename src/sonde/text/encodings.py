"""Detection of legacy encodings.

Japanese is recognised by kana, Chinese by common characters (level 1 of GB 2312), Korean by
syllables, Russian by words of Cyrillic letters alone; anything else is Western. UTF-16 without a
byte order mark is recognised by Latin characters and the absence of control characters.
"""

from __future__ import annotations

import codecs
import re
from contextlib import suppress

_SAMPLE_BYTES = 1 << 16  # enough for all tests
_KANA = re.compile("[\u3041-\u30fe]")
_HALF_KANA = re.compile("[\uff61-\uff9f]")
_OTHER = re.compile(r"[^\x00-\x7f]")
_RUN = re.compile(rb"([A-Za-z]?)([\x80-\xff]+)([A-Za-z]?)")
_CYRILLIC = bytes(range(0xC0, 0x100)) + bytes.fromhex("a8 aa af b2 b3 b8 ba bf")  # ё є ї і
_LOWER_KOI = bytes(range(0xC0, 0xE0))  # where CP1251 has its capitals
_HIGH = bytes(range(0x80, 0x100))
_MIN_KANA = 0.15  # share of kana in Japanese; Chinese has none
_MIN_COMMON = 0.85  # level 1 has over 99 % of Chinese text, without names and punctuation
_MIN_LETTERS = 0.9  # share of letters in Russian; the rest are quotes and dashes
_MIN_SYLLABLES = 10  # fewer pairs may be in the range of Hangul by chance
_DECLARED = re.compile(r"(\A\s*<\?xml[^>]*?)\s+encoding=[\"'][^\"'>]*[\"']")
_NO_TEXT = re.compile("[\0-\x08\x0e-\x1a\x1c-\x1f\x7f-\x9f\ue000-\uf8ff\ufdd0-\ufdef\ufff0-\uffff]")
"""Control characters, private use characters, and noncharacters."""
_MAX_NO_TEXT = 500  # one such character in this many may be damage


def guess_encoding(data: bytes) -> str:
    """The encoding of text that is neither UTF-8 nor has a byte order mark; `cp1252` by default."""
    sample = data[:_SAMPLE_BYTES]
    high = len(sample) - len(sample.translate(None, _HIGH))
    for name in ("cp932", "euc_jp"):
        text = _decode(sample, name)
        others = len(_OTHER.findall(text)) or 1
        if len(_KANA.findall(text)) >= _MIN_KANA * others > 2 * len(_HALF_KANA.findall(text)):
            return name
    runs = _RUN.findall(sample)
    letters = len(sample) - len(sample.translate(None, _CYRILLIC))
    mixed = sum(len(run) for before, run, after in runs if before or after)
    words = any(len(run) > 2 for _, run, _ in runs)
    if words and letters >= _MIN_LETTERS * high and 2 * mixed < high:
        lower = len(sample) - len(sample.translate(None, _LOWER_KOI))
        return "koi8_r" if 2 * lower > letters else "cp1251"
    pairs = [one.encode("gb18030") for one in _OTHER.findall(_decode(sample, "gb18030"))]
    common = sum(len(one) == 2 and one[1] > 0xA0 and 0xA0 < one[0] < 0xD8 for one in pairs)
    if pairs and common >= _MIN_COMMON * len(pairs):
        hangul = sum(one[0] in range(0xB0, 0xC9) or one[0] < 0xA4 for one in pairs)
        korean = hangul == len(pairs) >= _MIN_SYLLABLES and _decode(sample, "euc_kr")
        return "euc_kr" if korean else "gb18030"
    return "cp1252"


def _decode(data: bytes, name: str) -> str:
    """Decode without a character that is cut off at the end; empty if the encoding is wrong."""
    with suppress(UnicodeDecodeError):
        return codecs.getincrementaldecoder(name)().decode(data)
    return ""


def decode_legacy(data: bytes) -> str:
    """Decode text that is not UTF-8, as Latin-1 if no encoding fits."""
    return _decode(data, guess_encoding(data)) or data.decode("latin-1")


def decode_utf16(data: bytes) -> str | None:
    """Decode UTF-16 with or without a byte order mark; None if it is something else.

    In short texts, most characters must be Latin. Longer ones need few, such as spaces and digits:
    binary data would contain characters that no text has.
    """
    if data[:2] in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE) and data[2:4] != b"\0\0":
        return _decode(data, "utf-16") or None
    sample = data[:_SAMPLE_BYTES]
    name = "utf-16-be" if sample[::2].count(0) > sample[1::2].count(0) else "utf-16-le"
    text = _decode(data, name) if b"\0" in sample and _is_text(_decode(sample, name)) else ""
    return text if _is_text(text) else None


def to_utf8(data: bytes) -> bytes:
    """Convert UTF-16 to UTF-8, which all parsers read; other data are returned unchanged."""
    text = decode_utf16(data)
    return data if text is None else _DECLARED.sub(r"\1", text, count=1).encode()


def _is_text(text: str) -> bool:
    latin = len(text.encode("latin-1", "ignore"))
    enough = latin > 1 and latin > min(len(text) / 2, 8 + len(text) / 50)
    return enough and len(_NO_TEXT.findall(text)) * _MAX_NO_TEXT <= len(text)
