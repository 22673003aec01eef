"""Files that are kept for a coming generation."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from journal.engine import disposal


def test_a_spare_that_comes_meanwhile_is_left_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """While one spare file is made fresh, the disposal of another generation puts its own there."""
    (tmp_path / "next").mkdir()
    spare, fresh = tmp_path / disposal.SPARE, tmp_path / "next" / "rows.mdb"
    spare.write_bytes(b"old" * 1000)
    fresh.write_bytes(b"fresh")
    for path in (spare, fresh):
        path.chmod(0o600)
    real = os.fdatasync

    def fdatasync(fd: int) -> None:
        real(fd)
        (tmp_path / "other").write_bytes(b"another one")
        os.rename(tmp_path / "other", spare)

    monkeypatch.setattr(os, "fdatasync", fdatasync)
    disposal.reuse_spare(tmp_path, fresh, "reset")
    assert fresh.read_bytes() == b"fresh" + (b"old" * 1000)[5:]
    assert spare.read_bytes() == b"another one"
    assert sorted(os.listdir(tmp_path / "next")) == ["rows.mdb"]


def test_without_a_spare_the_fresh_file_stays(tmp_path: Path) -> None:
    """Nothing is there to be reused."""
    fresh = tmp_path / "rows.mdb"
    fresh.write_bytes(b"fresh")
    disposal.reuse_spare(tmp_path, fresh, "truncate")
    assert fresh.read_bytes() == b"fresh"
