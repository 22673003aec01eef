"""Verbs over a connection: what is asked, what is read, what is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

import journal
from journal.net.client.connect import connect
from journal.net.wire.limits import Limits
from tests.net.client.daemon import TinyDaemon
from tests.net.client.small import Small


def some(lease: journal.Lease | None) -> journal.Lease:
    assert lease is not None
    return lease


def test_groups(remote: journal.Store, tiny: TinyDaemon) -> None:
    """A result or an error for each, in order; what is not acceptable is not sent."""
    pages = remote.journal("pages")
    results = pages.put_many([journal.Put("a", 1), journal.Put("", 2), journal.Put("b", 3, priority=0)])
    assert [getattr(result, "outcome", None) for result in results] == ["inserted", None, "inserted"]
    assert isinstance(results[1], journal.Invalid)
    assert [put["key"] for put in tiny.asked[-1].parameters["puts"]] == ["a", "b"]
    leases = pages.claim_many(10, consumer="x")
    assert [lease.key for lease in leases] == ["a", "b"]
    errors = pages.done_many([*leases, 99])
    assert errors[:2] == [None, None] and isinstance(errors[2], journal.LeaseLost)


def test_a_group_that_is_larger_than_a_frame_is_sent_in_parts(remote: journal.Store, tiny: TinyDaemon) -> None:
    """Several frames, one list of results."""
    pages = remote.journal("pages")
    results = pages.put_many([journal.Put(f"k{i}", b"x" * 100_000) for i in range(25)])
    assert len(results) == 25 and {getattr(result, "outcome", None) for result in results} == {"inserted"}
    parts = [len(asked.parameters["puts"]) for asked in tiny.asked if asked.command.name == "PUT_MANY"]
    assert sum(parts) == 25 and len(parts) >= 3


def test_arguments_are_checked_before_anything_is_sent(remote: journal.Store, tiny: TinyDaemon) -> None:
    """The errors are those of the library, and the daemon is not bothered."""
    pages = remote.journal("pages")
    before = len(tiny.asked)
    for wrong in (
        lambda: pages.put("", 1),
        lambda: pages.put("a", object()),
        lambda: pages.put("a", 1, priority=256),
        lambda: pages.put("a", 1, delay="5 parsecs"),
        lambda: pages.put("a", 1, delay=1, process_date=1),
        lambda: pages.claim(lease=0),
        lambda: pages.claim(buckets="0-3"),
        lambda: pages.claim_many(0),
        lambda: pages.done("token"),
        lambda: pages.move("a"),
    ):
        with pytest.raises(journal.Invalid):
            wrong()
    assert len(tiny.asked) == before


GROUP = [journal.Put(f"k{n}", b"x" * 1000) for n in range(2000)]


@pytest.mark.parametrize("size", [1_045_000, 3_000_000], ids=["the daemon refuses it", "no frame holds it"])
@pytest.mark.parametrize("verb", ["put_many", "create_many"])
def test_an_entry_that_is_too_large_is_refused_alone(
    far_pages: journal.Journal, pages: journal.Journal, verb: str, size: int
) -> None:
    """The others of its group are put, in whatever frames they come, and the error names it."""
    group = [*GROUP, journal.Put("big", b"x" * size), journal.Put("last", 1)]
    results = getattr(far_pages, verb)(group)
    assert [place for place, result in enumerate(results) if not isinstance(result, journal.PutResult)] == [2000]
    assert isinstance(results[2000], journal.Invalid) and "'big'" in str(results[2000])
    assert "put a reference to the data" in str(results[2000])
    assert pages.count() == 2001 and pages.get("big") is None and pages.get("last") is not None
    only = getattr(far_pages, verb)([journal.Put("big", b"x" * size)])
    assert [type(result) for result in only] == [journal.Invalid] and pages.count() == 2001


def test_a_group_finds_its_way_into_smaller_frames(tmp_path: Path, small: Small) -> None:
    """A daemon that takes less at a time is given less; in order, each item once."""
    limits = Limits(frame_bytes_max=20_000)
    with TinyDaemon(tmp_path / "s", small, limits=limits) as tiny, connect(tiny.address) as store:
        results = store.journal("pages").put_many([*GROUP[:300], journal.Put("big", b"x" * 30_000), *GROUP[300:500]])
        assert isinstance(results.pop(300), journal.Invalid)
        assert {getattr(result, "outcome", None) for result in results} == {"inserted"} and len(results) == 500
        sent = [
            put["key"] for asked in tiny.asked if asked.command.name == "PUT_MANY" for put in asked.parameters["puts"]
        ]
        assert sent == [f"k{n}" for n in range(500)]


def test_one_entry_that_no_frame_holds_is_told_what_helps(far_pages: journal.Journal) -> None:
    """Which verb, how large, and the two ways out; the connection goes on."""
    with pytest.raises(journal.Invalid, match=r"PUT with \d+ bytes.*put a reference to the data.*frame_bytes_max"):
        far_pages.put("big", b"x" * 3_000_000)
    assert far_pages.put("small", 1).outcome == "inserted"
