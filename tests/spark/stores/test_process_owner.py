"""What a killed process has left goes at once; what is in use stays."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

import journal

pytest.importorskip("pyarrow", reason="pip install 'journal[spark]'")

import pyarrow as pa

from spark_export.api.load import _sweep
from spark_export.loads.plan import commit, planned, stage
from spark_export.loads.staging import begin
from spark_export.options.load import WriteOptions
from spark_export.stores.open_store import opened_to_write
from spark_export.stores.process_owner import driver, is_gone, own

WORKER = """
import sys
from spark_export.stores.process_owner import own
from spark_export.loads.staging import begin
from spark_export.options.load import WriteOptions
staging = begin(WriteOptions.parse({"path": sys.argv[1], "journal": "pages"}))
with staging.part("half") as part:
    print(own(), flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def options(tmp_path: Path) -> WriteOptions:
    """Of a store with a journal, without an owner."""
    with journal.open(tmp_path / "work.journal") as store:
        store.journal("pages")
    return WriteOptions.parse({"path": str(tmp_path / "work.journal"), "journal": "pages"})


def left(options: WriteOptions) -> list[str]:
    return [child.name for child in Path(options.place.path).parent.iterdir() if ".load-" in child.name]


def test_parts_of_a_killed_loader_go_with_the_next_load(options: WriteOptions) -> None:
    """While it lives they stay, with loads beside it."""
    words = [sys.executable, "-c", WORKER, options.place.path]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as loader:
        assert loader.stdout is not None
        holder = loader.stdout.readline().strip()
        assert not is_gone(holder)
        begin(options).remove()
        assert len(left(options)) == 1, "the one that is being written"
        loader.kill()
        os.waitid(os.P_PID, loader.pid, os.WEXITED | os.WNOWAIT)
        assert is_gone(holder), "also while its end was not asked for"
    assert is_gone(holder) and len(left(options)) == 1
    begin(options).remove()
    assert left(options) == []


def test_a_load_of_spark_lives_with_its_driver(options: WriteOptions) -> None:
    """Not with the worker in which it was planned: another one commits it."""
    batch = pa.record_batch({"key": ["a"]})
    plan = planned(options, batch.schema)
    assert (plan.staging.directory or "").endswith(f".{driver()}") and driver() != own()
    begin(options).remove()
    assert commit(plan, [stage([batch], plan, 0)], None).inserted == 1
    assert left(options) == []


def test_only_who_is_known_to_be_gone_is_gone() -> None:
    """A process of another machine, of another container, or what is no process, is not."""
    machine, pid, start = own().split("-")
    assert not is_gone(own()) and not is_gone(driver()) and not is_gone(f"{machine}-1-0")
    assert not is_gone(f"{'0' * 12}-{pid}-{start}") and not is_gone("") and not is_gone("x")
    assert is_gone(f"{machine}-{1 << 30}-{start}") and is_gone(f"{machine}-{1 << 90}-{start}")
    if start != "0":
        assert is_gone(f"{machine}-{pid}-{int(start) + 1}"), "another process has its number now"


def test_what_a_killed_program_left_in_the_temporary_directory_goes(tmp_path: Path) -> None:
    """What is in use there stays, and so does what others call alike."""
    machine, _, start = own().split("-")
    names = [f"journal-load-{own()}-abc", f"journal-load-{machine}-{1 << 30}-{start}-abc", "journal-load-abc"]
    for name in names:
        (tmp_path / name).mkdir()
        (tmp_path / name / "staged").touch()
    _sweep(str(tmp_path))
    assert {child.name for child in tmp_path.iterdir()} == {names[0], names[2]}


def test_a_turn_leaves_no_file(options: WriteOptions, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Two that wait for each other still take one turn at a time."""
    (tmp_path / "tmp").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "tmp"))
    code = (
        "import sys; from spark_export.stores.open_store import opened_to_write; from spark_export.options.load import WriteOptions\n"
        "options = WriteOptions.parse({'path': sys.argv[1], 'journal': 'pages'})\n"
        "for n in range(15):\n"
        "    with opened_to_write(options.place) as pages: pages.put(f'{sys.argv[2]}-{n}')\n"
    )
    words = [sys.executable, "-c", code, options.place.path]
    environment = {**os.environ, "TMPDIR": str(tmp_path / "tmp")}
    others = [subprocess.Popen([*words, str(n)], env=environment) for n in range(3)]
    assert [other.wait(120) for other in others] == [0, 0, 0]
    with opened_to_write(options.place) as pages:
        assert pages.count() == 45
    assert list((tmp_path / "tmp").iterdir()) == []
