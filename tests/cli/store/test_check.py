"""journal check."""

from __future__ import annotations

from pathlib import Path

from tests.cli.conftest import Run


def test_a_sound_store_is_clean(run: Run, path: Path) -> None:
    """Exit code 0, also with --deep."""
    assert run("check", path) == (0, f"{path}: clean\n", "")
    assert run("check", path, "--deep", "--json").json == [{"store": str(path), "differences": []}]


def test_damage_is_named(run: Run, path: Path) -> None:
    """Exit code 1 and the file that is damaged; the store is not touched by looking."""
    rows = path / "pages" / "000001" / "rows.mdb"
    rotten = bytearray(rows.read_bytes())
    rotten[len(rotten) // 2] ^= 1
    rows.write_bytes(rotten)
    for _ in range(2):
        ran = run("check", path)
        assert ran.code == 1
        assert "rows.mdb" in ran.out
    (line,) = run("check", path, "--json").json
    assert len(line["differences"]) == 1
    assert rows.read_bytes() == rotten


def test_check_of_what_is_no_store(run: Run, tmp_path: Path) -> None:
    """Exit code 1, nothing made."""
    assert run("check", tmp_path / "missing").code == 1
    assert not (tmp_path / "missing").exists()
