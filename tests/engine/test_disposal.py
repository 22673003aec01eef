"""Files that are kept for a coming generation."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

import journal
from journal.engine import disposal
from tests.top import top


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


def unlinked_bytes(monkeypatch: pytest.MonkeyPatch) -> dict[str, bytes]:
    """What was in each file when it was unlinked."""
    seen: dict[str, bytes] = {}
    real = os.unlink

    def unlink(path: Path) -> None:
        seen["/".join(Path(path).parts[-2:])] = Path(path).read_bytes()
        real(path)

    monkeypatch.setattr(os, "unlink", unlink)
    return seen


@pytest.mark.parametrize("wipe", [False, True])
def test_what_a_crash_left_is_wiped_before_it_is_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, wipe: bool
) -> None:
    """A disposal that was cut short, before or in the middle of a wipe, is completed by the next open."""
    path = tmp_path / "s"
    with journal.open(path) as store:
        pages = store.journal("pages", wipe=wipe)
        pages.put_many([journal.Put(f"k{i}", b"secret" * 50) for i in range(100)])
    own = path / top()
    for order in ("000007.gone", "000008-rows.gone"):
        shutil.copytree(own / "000001", own / order)
    with (own / "000008-rows.gone/rows.mdb").open("r+b") as file:
        file.write(bytes(8192))
    seen = unlinked_bytes(monkeypatch)
    with journal.open(path) as store:
        assert store.journal("pages").count() == 100
    assert sorted(os.listdir(own)) == ["000001"]
    wanted = ["000007.gone/rows.mdb", "000008-rows.gone/rows.mdb", "log/00000000000000000000.log"]
    assert all((b"secret" in seen[name]) is not wipe for name in wanted)
