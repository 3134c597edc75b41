"""Whether a path is within reach is decided with little work, however the path is spelt."""

from __future__ import annotations

from pathlib import Path

import pytest

from sonde.errors import OutsideRoots
from sonde.policy.reach import Reach


def test_only_folders_that_exist_are_looked_up(tmp_path: Path) -> None:
    asked: list[Path] = []

    def sees(root: Path) -> bool:
        asked.append(root)
        return root == tmp_path

    reach = Reach("anna", roots=(), sees=sees)
    reach.require(tmp_path.joinpath(*["x"] * 2_000), way_down=True)
    with pytest.raises(OutsideRoots):
        reach.require(Path("/nowhere", *["x"] * 2_000), way_down=True)
    assert len(asked) < 20
