"""OLE files: mail that Outlook saved, whose streams are properties; workbooks with a password."""

from __future__ import annotations

import struct
from collections.abc import Mapping

import pytest

from sonde.knowledge.formats import LEFT_OUT, File, RefusedFormat
from sonde.knowledge.parsing import parse_file

SECTOR, SMALL = 512, 64
END, FREE = 0xFFFFFFFE, 0xFFFFFFFF
Tree = Mapping[str, "bytes | Tree"]


def write_ole(tree: Tree) -> bytes:
    """An OLE file with these storages and streams, each of less than 4,096 bytes."""
    rows: list[tuple[str, bytes, int]] = []
    links = {0: [FREE, FREE]}  # of each row: the next one beside it, the first one inside it

    def add(name: str, content: bytes | Tree, kind: int) -> int:
        number = len(rows)
        rows.append((name, content if isinstance(content, bytes) else b"", kind))
        links[number] = [FREE, FREE]
        before = None
        for inner, inside in content.items() if isinstance(content, Mapping) else ():
            at = add(inner, inside, 2 if isinstance(inside, bytes) else 1)
            if before is None:
                links[number][1] = at
            else:
                links[before][0] = at
            before = at
        return number

    add("Root Entry", tree, 5)
    content, small, directory = b"", list[int](), list[bytes]()
    for number, (name, data, kind) in enumerate(rows):
        count = -(-len(data) // SMALL)
        start = len(small) if count else END
        small += [*range(len(small) + 1, len(small) + count), END] if count else []
        content += data.ljust(count * SMALL, b"\0")
        spelled = name.encode("utf-16-le") + b"\0\0"
        head = struct.pack("<64sHBBIII", spelled, len(spelled), kind, 1, FREE, *links[number])
        directory.append(head + bytes(36) + struct.pack("<IQ", start, len(data)))
    directory[0] = directory[0][:116] + struct.pack("<IQ", 0, len(content))
    parts = [content, struct.pack(f"<{len(small)}I", *small), b"".join(directory)]
    starts, chain, body = list[int](), list[int](), b""
    for part in parts:
        count = -(-len(part) // SECTOR)
        starts.append(len(chain))
        chain += [*range(len(chain) + 1, len(chain) + count), END]
        body += part.ljust(count * SECTOR, b"\0")
    table = len(chain)
    assert table < SECTOR // 4
    chain += [0xFFFFFFFD, *[FREE] * (SECTOR // 4 - table - 1)]
    small_sectors = starts[2] - starts[1]
    head = struct.pack("<5H10x8I", 0x3E, 3, 0xFFFE, 9, 6, 1, starts[2], 0, 4096, starts[1],
                       small_sectors, END, 0)  # fmt: skip
    places = struct.pack("<109I", table, *[FREE] * 108)
    signature = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(16)
    return signature + head + places + body + struct.pack(f"<{len(chain)}I", *chain)


def text(key: int, value: str) -> tuple[str, bytes]:
    return f"__substg1.0_{key:04X}001F", value.encode("utf-16-le")


def fixed(head: int, **values: int) -> tuple[str, bytes]:
    rows = [struct.pack("<HHIQ", 3, int(key[1:], 16), 6, value) for key, value in values.items()]
    return "__properties_version1.0", bytes(head) + b"".join(rows)


# 1 January 2024, 10:00 UTC, in steps of 100 ns since 1601
SENT = (1_704_103_200 + 11_644_473_600) * 10_000_000
FORWARDED = dict(
    [fixed(24, k0039=SENT), text(0x0037, "Old plan"), text(0x1000, "The petrel stays at home.")]
)
MESSAGE: Tree = dict([
    fixed(32, k0039=2**63, k0E06=SENT, k3FFD=1251),
    text(0x001A, "IPM.Note"), text(0x0037, "Plan"), text(0x1035, "<1@example.org>"),
    text(0x0C1A, "Anna"), text(0x0C1F, "/O=FLEET/CN=ANNA"), text(0x5D01, "anna@example.org"),
    text(0x1000, "The walrus sails."),
    ("__substg1.0_10130102", "<p>The walrus sails.</p>".encode("cp1251")),
    ("__recip_version1.0_#00000000", dict([
        fixed(8, k0C15=1), ("__substg1.0_3001001E", "Борис\0".encode("cp1251")),
        text(0x39FE, "boris@example.org")])),
    ("__recip_version1.0_#00000001", dict([
        fixed(8, k0C15=2), text(0x3001, "Carl"), text(0x3003, "carl@example.org")])),
    ("__attach_version1.0_#00000000", dict([
        fixed(8), text(0x3707, "größe.csv"),
        ("__substg1.0_37010102", b"boat,length\notter,12\n")])),
    ("__attach_version1.0_#00000001", dict([
        fixed(8), text(0x3707, "Old plan"), ("__substg1.0_3701000D", FORWARDED)])),
    ("__attach_version1.0_#00000002", dict([
        fixed(8), text(0x3707, "photo.jpg"), text(0x370E, "image/jpeg"),
        ("__substg1.0_37010102", b"\xff\xd8")])),
])  # fmt: skip


def test_a_message_of_outlook_comes_in_with_its_people_attachments_and_time() -> None:
    (entry,) = parse_file(File("plan.msg", write_ole(MESSAGE), 1))

    said = "".join(piece.text for piece in entry.pieces)
    assert (entry.title, entry.media_type, entry.path) == ("Plan", "email", "<1@example.org>")
    assert entry.created_at == 1_704_103_200_000
    assert said.startswith(
        "From: Anna <anna@example.org>\nTo: Борис <boris@example.org>\nCc: Carl <carl@example.org>"
    )
    assert said.count("The walrus sails.") == 1
    assert "Attachment größe.csv:\nboat | length\notter | 12" in said
    assert "Subject: Old plan" in said
    assert "The petrel stays at home." in said
    assert entry.facts["attachments"] == ["größe.csv", "Old plan", "photo.jpg"]
    assert entry.facts[LEFT_OUT] == {"picture": 1}


def test_a_body_that_is_only_packed_rtf_is_counted() -> None:
    body = {"__substg1.0_10090102": b"LZFu"}
    data = write_ole(dict([fixed(32), text(0x0037, "Plan"), *body.items()]))

    (entry,) = parse_file(File("plan.msg", data, 1))

    assert entry.facts[LEFT_OUT] == {"attached file": 1}


def test_a_contact_says_what_to_export_it_as() -> None:
    data = write_ole(dict([fixed(32), text(0x001A, "IPM.Contact")]))

    with pytest.raises(RefusedFormat, match=r"unknown: Contact of Outlook: export it as VCF"):
        parse_file(File("carl.msg", data, 1))


def test_a_workbook_with_a_password_says_so() -> None:
    records = struct.pack("<HH", 0x0809, 0) + struct.pack("<HH", 0x002F, 0)
    for name, tree in (("a.xls", {"Workbook": records}), ("a.xlsb", {"EncryptedPackage": b"x"})):
        with pytest.raises(RefusedFormat, match="encrypted"):
            parse_file(File(name, write_ole(tree), 1))
