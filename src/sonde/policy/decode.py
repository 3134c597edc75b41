"""Bytes of a file -> text, if they are text."""

from __future__ import annotations

from codecs import BOM_UTF8, BOM_UTF16_BE, BOM_UTF16_LE, BOM_UTF32_BE, BOM_UTF32_LE

_SNIFFED = 8192
# UTF-32 first: its little-endian mark begins with that of UTF-16.
MARKS = (
    (BOM_UTF8, "utf-8"),
    (BOM_UTF32_LE, "utf-32-le"),
    (BOM_UTF32_BE, "utf-32-be"),
    (BOM_UTF16_LE, "utf-16-le"),
    (BOM_UTF16_BE, "utf-16-be"),
)
_MARKED = tuple(mark for mark, _ in MARKS)
_PRINTED = bytes(set(range(256)) - set(range(32)) - {127} | set(b"\t\n\v\f\r\x1b"))


def decode_text(data: bytes) -> str | None:
    """The text of a file's bytes, without its byte order mark; None when it is not text."""
    for mark, encoding in MARKS:
        if data.startswith(mark):
            try:
                return data[len(mark) :].decode(encoding)
            except UnicodeDecodeError:
                break
    if b"\0" in data[:_SNIFFED]:
        return None
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        pass
    # Old Western text has next to no control characters, binary data about one byte in ten.
    if len(data.translate(None, _PRINTED)) * 500 > len(data):
        return None
    try:
        return data.decode("cp1252")
    except UnicodeDecodeError:
        return data.decode("latin-1")


def encode_text(data: bytes) -> bytes | None:
    """The text of a file's bytes as UTF-8, mostly the very bytes; None when it is not text."""
    if not data.startswith(_MARKED) and b"\0" not in data[:_SNIFFED]:
        if data.isascii():
            return data
        try:
            data.decode("utf-8")
        except UnicodeDecodeError:
            pass
        else:
            return data
    text = decode_text(data)
    return None if text is None else text.encode("utf-8", "surrogatepass")
