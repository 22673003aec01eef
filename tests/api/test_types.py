"""A program that mypy checks strictly can switch between journal.open and journal.connect."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

PROGRAM = Path(__file__).with_name("program.py")
ROOT = PROGRAM.parents[2]


def mypy(program: Path, cache: Path) -> subprocess.CompletedProcess[str]:
    """What mypy says of a program."""
    options = ["--strict", "--cache-dir", str(cache), "--follow-imports", "silent"]
    return subprocess.run(
        [sys.executable, "-m", "mypy", *options, str(program)], cwd=ROOT, capture_output=True, text=True, check=False
    )


def test_one_type_for_both(tmp_path: Path) -> None:
    """No cast, no union: mypy --strict has nothing to say of such a program; of a wrong one it has, whichever line made its store."""
    checked = mypy(PROGRAM, tmp_path / "cache")
    assert checked.returncode == 0, checked.stdout + checked.stderr
    wrong = tmp_path / "wrong.py"
    wrong.write_text(
        "import journal\nx: int = journal.connect('a').journal('b').claim()\ny: int = journal.open('a').journals()\n"
    )
    found = mypy(wrong, tmp_path / "cache").stdout
    assert '"Lease | None"' in found and '"list[str]"' in found and "Found 2 errors" in found


def test_it_runs_in_both_ways(tmp_path: Path) -> None:
    """With the same answers."""
    subprocess.run(
        [sys.executable, "-m", "tests.api.program", tmp_path / "work.journal"], cwd=ROOT, check=True, timeout=100
    )
