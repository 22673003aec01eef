"""`journal generations` and `journal rotate`."""

from __future__ import annotations

import os
from pathlib import Path

import journal
from tests.cli.conftest import Run


def test_rotate_begins_a_generation_and_generations_lists_them(tmp_path: Path, run: Run) -> None:
    """With what keeps each."""
    store = str(tmp_path / "s")
    run("put", store, "pages", "a")
    assert run("rotate", store, "pages").out == "generation 2 is active\n"
    listed = run("generations", store, "pages", "--json").json
    assert [(g["order"], g["state"], g["entries"], g["kept_by"]) for g in listed] == [
        (1, "draining", 1, ["entries"]),
        (2, "active", 0, ["active"]),
    ]
    assert "kept by entries" in run("generations", store, "pages").out


def test_only_the_owner_rotates(tmp_path: Path, run: Run) -> None:
    """A store in use is refused, and so is a journal that is not there."""
    path = tmp_path / "s"
    with journal.open(path) as store:
        store.journal("pages").put("a")
        store.checkpoint()
        found = run("rotate", str(path), "pages")
        assert found.code == 1 and "StoreLocked" not in found.out and str(os.getpid()) in found.err
    assert run("generations", str(path), "nothing").code == 1
