"""journal log: the changes of a store beside its owner, and of segment files that another program wrote."""

from __future__ import annotations

import shutil
import struct
import subprocess
import sys
from pathlib import Path
from zlib import crc32

import pytest

import journal
from journal.engine.log.reader import list_segments
from journal.testing import ManualClock
from tests.cli.conftest import Run

START = 1_700_000_000_000
FIRST = "001-0001-000000000000000000"


def record(offset: int, data: bytes, *, namespace: bytes = b"ns", timestamp: int = START, attribute: int = 1) -> bytes:
    """A record of the format without a checksum."""
    head = struct.pack(">QIQB", offset, 8 + len(namespace) + len(data), timestamp, attribute)
    return head + struct.pack(">I", len(namespace)) + namespace + struct.pack(">I", len(data)) + data


@pytest.fixture
def bare(tmp_path: Path) -> Path:
    """Two segments of another program: JSON and bytes, two namespaces, seconds and milliseconds."""
    directory = tmp_path / "bare"
    directory.mkdir()
    (directory / f"{0:020d}.log").write_bytes(
        record(0, b'{"a": 1}', attribute=0)
        + record(1, b"\xff\0", namespace=b"n\xfe", timestamp=1_700_000_000, attribute=1 | 1 << 2)
        + bytes(100)
    )
    (directory / f"{2:020d}.log").write_bytes(
        record(2, b"", attribute=2 | 4 << 2) + record(3, b"x" * 500, attribute=0x1F)
    )
    return directory


@pytest.fixture
def worked(tmp_path: Path) -> Path:
    """A store in which nearly everything happened once, without an owner."""
    clock = ManualClock(START)
    with journal.open(tmp_path / "w", clock=clock) as opened:
        pages = opened.journal("pages")
        pages.put("a", {"uri": "/a"}, owner="group")
        pages.put_many([journal.Put("b", 1), journal.Put(b"\xff", b"\0"), journal.Put("d")])
        pages.delete("a", owner="group")
        lease = pages.claim(consumer="backend")
        assert lease is not None
        lease.bury("unreadable")
    return tmp_path / "w"


def test_show_lists_every_change(run: Run, worked: Path) -> None:
    """Cursor, timestamp, date, mode, op, namespace, verb, key; a line for each change of a group."""
    ran = run("log", "show", worked)
    assert (ran.code, ran.err) == (0, "")
    lines = ran.out.splitlines()
    assert lines[0].split(maxsplit=6) == [
        FIRST, str(START), "2023-11-14T22:13:20.000Z", "sync", "insert", "pages", "put 'a' {'uri': '/a'}"
    ]  # fmt: skip
    assert [line.split(maxsplit=6)[4] for line in lines] == ["insert"] * 4 + ["delete", "update", "delete"]
    whats = [line.split(maxsplit=6)[6].split()[:2] for line in lines[1:]]
    taken = whats[4][1]
    assert whats == [
        ["put", "'b'"], ["put", r"b'\xff'"], ["put", "'d'"], ["delete", "'a'"], ["claim", taken], ["bury", taken]
    ]  # fmt: skip
    assert "consumer 'backend'" in lines[5] and "reason 'unreadable'" in lines[6]


def test_json_has_everything(run: Run, worked: Path) -> None:
    """One object a change; bytes as hex, tokens as text, data only where the log has it."""
    lines = run("log", "show", worked, "pages", "--json").json
    assert [line["offset"] for line in lines] == list(range(7))
    put, _, hexed, _, deleted, claimed, buried = lines
    assert put == {
        "cursor": FIRST, "order": 1, "offset": 0, "timestamp": START, "date": "2023-11-14T22:13:20.000Z", "attribute": 33,
        "mode": "sync", "op": "insert", "namespace": "pages", "verb": "put", "key": "a", "data": {"uri": "/a"},
        "priority": 100, "process_date": START, "insertion_date": START, "expiration": 0, "version": 1, "timeouts": 0,
        "owner": "group",
    }  # fmt: skip
    assert (hexed["key"], hexed["data"]) == ({"hex": "ff"}, {"hex": "00"})
    assert deleted["key"] == "a" and "data" not in deleted
    assert claimed["consumer"] == "backend" and claimed["deadline"] > START
    assert isinstance(claimed["token"], str) and claimed["token"] == buried["token"]
    assert buried["reason"] == "unreadable" and "old" in buried


@pytest.mark.parametrize(
    ("words", "offsets"),
    [
        ((), [0, 1, 2, 3, 4, 5, 6]),
        (("--from", "2", "--to", "4"), [2, 3, 4]),
        (("--from", "001-0001-000000000000000005"), [5, 6]),
        (("--from", "BEGIN", "--to", "0"), [0]),
        (("--from", "001-0001--1", "--to", "1"), [0, 1]),
        (("--to", "001-0001--1"), []),
        (("--to", "001-0009--1"), [0, 1, 2, 3, 4, 5, 6]),
        (("--from", "7"), []),
    ],
)
def test_from_and_to_are_included(run: Run, worked: Path, words: tuple[str, ...], offsets: list[int]) -> None:
    """Offsets or cursors, also in the middle of a group; beyond the end there is nothing."""
    ran = run("log", "show", worked, *words, "--json")
    assert ran.code == 0
    assert [line["offset"] for line in ran.json] == offsets


def test_oldest_and_newest(run: Run, worked: Path, bare: Path) -> None:
    """One change, in the same form; of a bare directory also by namespace."""
    assert run("log", "oldest", worked).out == run("log", "show", worked, "--to", "0").out
    assert run("log", "newest", worked, "pages").out == run("log", "show", worked, "--from", "6").out
    assert [line["offset"] for line in run("log", "newest", worked, "--json").json] == [6]
    assert run("log", "newest", bare).out.startswith("3  ")
    assert run("log", "oldest", bare).out.startswith("0  ")
    assert run("log", "newest", bare, "missing").code == 1


def test_an_empty_log_has_neither(run: Run, tmp_path: Path) -> None:
    """Exit code 1; nothing to show is no error."""
    with journal.open(tmp_path / "e") as opened:
        opened.journal("pages")
    for verb in ("oldest", "newest"):
        assert run("log", verb, tmp_path / "e") == (1, "the log has no changes\n", "")
        assert run("log", verb, tmp_path / "e", "--json") == (1, "", "")
    assert run("log", "show", tmp_path / "e") == (0, "", "")


def test_the_journal_must_be_clear(run: Run, worked: Path, tmp_path: Path) -> None:
    """One journal needs no name; of several, or a wrong one, the message names what there is."""
    with journal.open(worked) as opened:
        opened.journal("other").put("x")
    ran = run("log", "show", worked)
    assert (ran.code, ran.out) == (1, "") and "other, pages" in ran.err
    assert "'x'" in run("log", "show", worked, "other").out
    assert "other, pages" in run("log", "show", worked, "third").err
    for missing in (tmp_path / "missing", tmp_path):
        ran = run("log", "show", missing)
        assert (ran.code, ran.out) == (1, "") and "segment files" in ran.err


def test_generations_follow_each_other(run: Run, worked: Path) -> None:
    """In the order of their numbers, which may skip some; a cursor finds its generation."""
    shutil.copytree(worked / "pages" / "000001", worked / "pages" / "000003")
    (worked / "pages" / "000002").mkdir()
    lines = run("log", "show", worked, "--json").json
    assert [(line["order"], line["offset"]) for line in lines] == [(o, n) for o in (1, 3) for n in range(7)]
    lines = run("log", "show", worked, "--from", "001-0001-000000000000000006", "--to", "001-0003-000000000000000000",
                "--json").json  # fmt: skip
    assert [line["cursor"] for line in lines] == ["001-0001-000000000000000006", "001-0003-000000000000000000"]
    assert run("log", "newest", worked).out.startswith("001-0003-000000000000000006  ")
    ran = run("log", "show", worked, "--from", "001-0002--1")
    assert (ran.code, ran.out) == (1, "")
    assert "generation 2 has no log" in ran.err and FIRST in ran.err


def test_a_place_that_is_gone_is_refused(run: Run, tmp_path: Path) -> None:
    """The message names the oldest change; without --from, or with BEGIN, that is where it begins."""
    with journal.open(tmp_path / "s", durability="none") as opened:
        pages = opened.journal("pages", segment_bytes_max=1 << 16)
        for n in range(300):
            pages.put(f"{n}", "x" * 500)
    directory = tmp_path / "s" / "pages" / "000001" / "log"
    first, second = list_segments(directory)[:2]
    (directory / f"{first:020d}.log").unlink()
    ran = run("log", "show", tmp_path / "s", "--from", str(second - 1))
    assert (ran.code, ran.out) == (1, "")
    assert f"001-0001-{second:018d}" in ran.err
    for words in ((), ("--from", "BEGIN"), ("--from", str(second))):
        lines = run("log", "show", tmp_path / "s", *words, "--json").json
        assert [line["offset"] for line in lines] == list(range(second, 300))
    ran = run("log", "show", directory, "--from", "0")
    assert ran.code == 1 and f"begins with {second}" in ran.err


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (("--from", "-1"), "needs its generation"),
        (("--to", "END"), "not a fixed place"),
        (("--from", "3", "--to", "2"), "is after --to"),
    ],
)
def test_wrong_places_are_exit_code_two(run: Run, worked: Path, words: tuple[str, ...], reason: str) -> None:
    """With what is wrong."""
    ran = run("log", "show", worked, *words)
    assert (ran.code, ran.out) == (2, "")
    assert reason in ran.err


# --- nothing is changed, no owner is disturbed --------------------------------------------------------------------------


def test_show_works_beside_the_owner(run: Run, path: Path) -> None:
    """Changes are seen that no checkpoint has committed yet, and the owner goes on."""
    with journal.open(path) as opened:
        pages = opened.journal("pages")
        cursor = pages.put("new").cursor
        assert run("log", "newest", path, "--json").json[0]["cursor"] == str(cursor)
        assert len(run("log", "show", path, "--json").json) == 4
        assert pages.put("newer").outcome == "inserted"
        assert opened.check() == []


def test_nothing_is_written(run: Run, worked: Path) -> None:
    """Not even a torn tail is cut: that is for the owner to do."""
    segment = worked / "pages" / "000001" / "log" / f"{0:020d}.log"
    end = run("log", "newest", worked, "--json").json[0]["offset"] + 1
    data = bytearray(segment.read_bytes())
    last = data.rfind(struct.pack(">Q", end - 1), 0, data.rfind(b"pages"))
    torn = struct.pack(">QIQB", end, 50, START, 33) + b"\0\0\0\5pages"
    size = struct.unpack_from(">I", data, last + 8)[0] + 21
    data[last + size : last + size + len(torn)] = torn
    segment.write_bytes(data)

    def state() -> dict[Path, tuple[int, bytes]]:
        return {p: (p.stat().st_mtime_ns, p.read_bytes()) for p in worked.rglob("*") if p.is_file()}

    before = state()
    for verb in ("show", "oldest", "newest"):
        assert run("log", verb, worked).code == 0
    assert len(run("log", "show", worked).out.splitlines()) == end
    assert state() == before


def test_damage_is_told_with_its_place(run: Run, worked: Path) -> None:
    """After the changes before it; exit code 1, as JSON too."""
    segment = worked / "pages" / "000001" / "log" / f"{0:020d}.log"
    data = bytearray(segment.read_bytes())
    second = struct.unpack_from(">I", data, 8)[0] + 21
    data[second + 40] ^= 1
    segment.write_bytes(data)
    for words in ((), ("--json",)):
        ran = run("log", "show", worked, *words)
        assert ran.code == 1
        assert len(ran.out.splitlines()) == 1
        assert str(segment) in ran.err and f"byte {second}" in ran.err


def test_a_row_that_cannot_be_read_is_damage(run: Run, worked: Path) -> None:
    """The record is whole, but not what stands in it: the message names file and byte."""
    segment = worked / "pages" / "000001" / "log" / f"{0:020d}.log"
    data = bytearray(segment.read_bytes())
    size = struct.unpack_from(">I", data, 8)[0] + 21
    at = data.index(b"/a", 0, size)
    data[at : at + 2] = b"/b"
    data[size - 4 : size] = struct.pack(">I", crc32(data[: size - 4]))
    segment.write_bytes(data)
    ran = run("log", "show", worked)
    assert (ran.code, ran.out) == (1, "")
    assert str(segment) in ran.err and "byte 0" in ran.err


# --- another program's files ------------------------------------------------------------------------------------------


def test_show_of_foreign_files(run: Run, bare: Path) -> None:
    """Text as text, bytes as hex, long data cut, seconds and milliseconds as the same date, unknown bits as such."""
    ran = run("log", "show", bare)
    assert (ran.code, ran.err) == (0, "")
    lines = ran.out.splitlines()
    assert lines[0] == f"""0  {START} 2023-11-14T22:13:20.000Z  copy     insert   ns  '{{"a": 1}}'"""
    assert lines[1] == r"1  1700000000 2023-11-14T22:13:20.000Z  sync     update   b'n\xfe'  ff00"
    assert lines[2].split()[3:5] == ["complete", "noop"]
    assert "unknown 3 unknown 7" in lines[3] and "(502 characters)" in lines[3] and len(lines[3]) < 250


def test_json_of_foreign_files(run: Run, bare: Path) -> None:
    """All data, whole; no cursor, since the generation is not known."""
    lines = run("log", "show", bare, "--json").json
    assert lines[0] == {
        "offset": 0, "timestamp": START, "date": "2023-11-14T22:13:20.000Z", "attribute": 0, "mode": "copy",
        "op": "insert", "namespace": "ns", "data": '{"a": 1}',
    }  # fmt: skip
    assert (lines[1]["namespace"], lines[1]["data"]) == ({"hex": "6efe"}, {"hex": "ff00"})
    assert lines[3]["data"] == "x" * 500


def test_a_namespace_of_foreign_files(run: Run, bare: Path) -> None:
    """The JOURNAL word picks it; places are offsets, whatever generation a cursor names."""
    assert [line["offset"] for line in run("log", "show", bare, "ns", "--json").json] == [0, 2, 3]
    assert run("log", "newest", bare, "ns").out.startswith("3  ")
    words = ("--from", "001-0007-000000000000000001", "--to", "2")
    assert [line["offset"] for line in run("log", "show", bare, *words, "--json").json] == [1, 2]


def test_damaged_foreign_files(run: Run, bare: Path) -> None:
    """Segment and byte, exit code 1, after all that could be read."""
    path = bare / f"{2:020d}.log"
    data = path.read_bytes()
    second = len(record(2, b""))
    path.write_bytes(data[: second + 21] + b"\xff" + data[second + 22 :])
    ran = run("log", "show", bare)
    assert ran.code == 1
    assert len(ran.out.splitlines()) == 3
    assert f"{path} is damaged at byte {second}" in ran.err
    assert run("log", "oldest", bare).code == 0
    path.write_bytes(data[:-1])
    assert run("log", "show", bare).code == 0


def test_our_files_in_a_bare_directory(run: Run, worked: Path, tmp_path: Path) -> None:
    """A copy of a log directory alone is enough to see what was done."""
    shutil.copytree(worked / "pages" / "000001" / "log", tmp_path / "copy")
    lines = run("log", "show", tmp_path / "copy", "--json").json
    assert [line["verb"] for line in lines] == ["put"] * 4 + ["delete", "claim", "bury"]
    assert lines[0]["data"] == {"uri": "/a"} and "cursor" not in lines[0]


# --- the group as a command -------------------------------------------------------------------------------------------


def test_help_of_the_group(run: Run) -> None:
    """Each verb with a line, each with help of its own; without a verb the usage."""
    ran = run("log", "--help")
    assert ran.code == 0
    for verb in ("show", "oldest", "newest"):
        assert f"    {verb}" in ran.out
        helped = run("log", verb, "--help")
        assert helped.code == 0
        assert "STORE|DIR" in helped.out and "--json" in helped.out
    ran = run("log")
    assert (ran.code, ran.out) == (2, "") and "usage" in ran.err


def test_a_reader_that_goes_away_is_no_error(path: Path) -> None:
    """`journal log show … | head -1`: quiet."""
    with journal.open(path) as opened:
        opened.journal("pages").put_many([journal.Put(f"{i:05}", "x" * 100) for i in range(3000)])
    process = subprocess.Popen(
        [sys.executable, "-m", "journal", "log", "show", path], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert process.stdout is not None and process.stderr is not None
    process.stdout.readline()
    process.stdout.close()
    err = process.stderr.read()
    process.stderr.close()
    assert process.wait(100) == 0
    assert err == b""


def test_one_merged_journal_is_shown_out_of_many(run: Run, tmp_path: Path) -> None:
    """By its name; all of them without."""
    with journal.open(tmp_path / "s") as store:
        for name in ("a", "b", "a"):
            store.journal(name, merged=True).put(f"k-{name}")
    assert [each["key"] for each in run("log", "show", tmp_path / "s", "a", "--json").json] == ["k-a", "k-a"]
    assert len(run("log", "show", tmp_path / "s", "--json").json) == 3


def test_a_journal_that_is_not_there_is_no_merged_one(run: Run, tmp_path: Path) -> None:
    """All that are there are named, merged ones too; one that has no change yet, or was dropped, is known."""
    with journal.open(tmp_path / "m") as store:
        store.journal("pages").put("k")
        for name in ("one", "gone"):
            store.journal(name, merged=True).put(f"k-{name}")
        store.journal("new", merged=True)
        store.drop("gone")
    for words in ((), ("typo",)):
        ran = run("log", "show", tmp_path / "m", *words)
        assert (ran.code, ran.out) == (1, "")
        assert "_merged, new, one, pages" in ran.err
    assert run("log", "show", tmp_path / "m", "new") == (0, "", "")
    assert [line["key"] for line in run("log", "show", tmp_path / "m", "gone", "--json").json][:1] == ["k-gone"]


def test_a_damaged_catalog_does_not_hide_a_merged_journal(run: Run, tmp_path: Path) -> None:
    """Its changes are in the log; of others nothing is known."""
    with journal.open(tmp_path / "m") as store:
        store.journal("one", merged=True).put("k")
    (tmp_path / "m" / "catalog" / "catalog.mdb").write_bytes(b"x" * 8192)
    assert [line["key"] for line in run("log", "show", tmp_path / "m", "one", "--json").json] == ["k"]
    assert run("log", "show", tmp_path / "m", "typo").code == 1
