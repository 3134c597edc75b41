"""One key per installation, whoever asks for it first."""

from __future__ import annotations

import stat
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from sonde.stores.users import load_signing_key


def test_all_who_start_at_once_get_the_same_key_and_leave_nothing_else(tmp_path: Path) -> None:
    home = tmp_path / "home"
    with ThreadPoolExecutor(16) as pool:
        keys = set(pool.map(lambda _: load_signing_key(home), range(64)))
    assert len(keys) == 1
    assert [path.name for path in home.iterdir()] == ["key"]
    assert stat.S_IMODE((home / "key").stat().st_mode) == 0o600


def test_a_file_system_without_links_keeps_a_key_too(tmp_path: Path) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError(1, "Operation not permitted")

    key = load_signing_key(tmp_path, refuse)
    assert load_signing_key(tmp_path, refuse) == key == (tmp_path / "key").read_bytes()


def test_where_nothing_can_be_kept_a_process_has_a_key_of_its_own(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    keys = {load_signing_key(tmp_path / "file" / "home") for _ in range(2)}
    assert [len(key) for key in keys] == [32, 32]
