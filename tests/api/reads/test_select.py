"""Selections and counts: by buckets, dates, status, owner and consumer, in pages."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import journal
from journal import Put, Range
from journal.core.buckets import BUCKETS_DEFAULT, bucket_of
from journal.core.entry.keys import key_bytes, murmur
from journal.engine.read import selection
from journal.testing import ManualClock

OWNERS = [None, "billing", "bill", "b" * 255]
CONSUMERS = ["", "mail-1", "mail-2"]


@pytest.fixture(autouse=True)
def _small_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    """Few entries fill many pages."""
    monkeypatch.setattr(selection, "ROWS", 3)
    monkeypatch.setattr(selection, "KEYS", 5)


def fill(pages: journal.Journal, clock: ManualClock, seed: int) -> None:
    """Entries of several priorities, dates, owners and consumers, in two generations."""
    chance = random.Random(seed)
    now = clock.now()
    for part in range(2):
        pages.put_many(
            [
                Put(
                    f"{part}-{n}",
                    n,
                    priority=chance.choice([0, 7, 100, 255]),
                    process_date=now + chance.choice([-5, 0, 1, 5, 900]),
                    owner=chance.choice(OWNERS),
                    expiration=chance.choice([None, None, now + 10**6]),
                )
                for n in range(25)
            ]
        )
        for _ in range(6):
            pages.claim(consumer=chance.choice(CONSUMERS), lease=10**5)
        if part == 0:
            pages.rotate()


def walk(pages: journal.Journal, limit: int, **wanted: Any) -> Iterator[journal.Entry]:
    """All pages, one after the other; what each says of itself holds."""
    after = None
    while True:
        page = pages.select(limit=limit, after=after, **wanted)
        assert len(page) == len(page.entries) <= limit
        assert page.has_more == (page.after is not None)
        assert len(page) == limit or not page.has_more
        yield from page
        if not page.has_more:
            return
        after = page.after


def expected(pages: journal.Journal, now: int, wanted: dict[str, Any]) -> list[journal.Entry]:
    """The same from a scan of everything."""
    holders = {lease.key: lease.consumer for lease in pages.leases()}
    buckets, owner, consumer = wanted.get("buckets"), wanted.get("owner"), wanted.get("consumer")

    def is_wanted(entry: journal.Entry) -> bool:
        status = wanted.get("status")
        return (
            (status is None or (entry.status == "P") == (status in ("P", "processing")))
            and (status != "available" or entry.process_date <= now)
            and wanted.get("since", 0) <= entry.process_date < wanted.get("until", 1 << 62)
            and (owner is None or entry.owner == owner)
            and (consumer is None or holders.get(entry.key) == consumer)
            and (buckets is None or bucket_of(murmur(key_bytes(entry.key)), BUCKETS_DEFAULT) in buckets)
        )

    return [entry for entry in pages.scan() if is_wanted(entry)]


FILTERS = st.fixed_dictionaries(
    {},
    optional={
        "status": st.sampled_from(["W", "P", "waiting", "processing", "available"]),
        "since": st.sampled_from([-5, 0, 1, 6]),
        "until": st.sampled_from([-5, 0, 1, 2, 900, 901]),
        "owner": st.sampled_from([*OWNERS[1:], "nobody"]),
        "consumer": st.sampled_from([*CONSUMERS, "nobody"]),
        "buckets": st.sampled_from(
            [Range(0, 1024), Range(0, 512), Range(512, 1024), Range(300, 310), Range(1023, 1024)]
        ),
    },
)


@given(FILTERS, st.integers(1, 9), st.integers(0, 3))
@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_pages_and_counts_say_what_a_scan_says(
    pages: journal.Journal, clock: ManualClock, filters: dict[str, Any], limit: int, seed: int
) -> None:
    """Whatever is asked for, however small the pages; everything once, in the order of work."""
    for lease in pages.leases():
        lease.done()
    pages.delete_many([journal.Delete(entry.key, owner=entry.owner) for entry in pages.scan()])
    fill(pages, clock, seed)
    now = clock.now()
    wanted = {name: value + now if name in ("since", "until") else value for name, value in filters.items()}
    found = expected(pages, now, wanted)
    assert list(walk(pages, limit, **wanted)) == found
    assert pages.count(**wanted) == len(found)


def test_statuses_as_time_passes(pages: journal.Journal, clock: ManualClock) -> None:
    """Available from the very millisecond of the process date on; again from that of the deadline on."""
    pages.put("a", delay=10)

    def statuses() -> list[str]:
        known = ("waiting", "available", "processing")
        counted = [status for status in known if pages.count(status=status)]
        assert counted == [status for status in known if len(pages.select(status=status))]
        assert counted == [status for status in known if list(pages.scan(status=status))]
        return counted

    assert statuses() == ["waiting"]
    clock.advance(9)
    assert statuses() == ["waiting"]
    clock.advance(1)
    assert statuses() == ["waiting", "available"]
    pages.claim(lease=5)
    assert statuses() == ["processing"]
    clock.advance(4)
    assert statuses() == ["processing"]
    clock.advance(1)
    assert statuses() == ["waiting", "available"]


def test_a_page_goes_on_where_the_last_one_ended(pages: journal.Journal) -> None:
    """Whatever happened in between: what is gone is not missed, what came before is not shown."""
    pages.put_many([Put(f"k{n}", priority=n) for n in range(10)])
    page = pages.select(limit=4)
    assert [entry.key for entry in page] == ["k0", "k1", "k2", "k3"] and page.has_more
    pages.delete_many(["k3", "k4"])  # the last of the page, and the first of the next
    pages.put("early", priority=0)
    pages.put("late", priority=99)
    rest = pages.select(limit=100, after=page.after)
    assert [entry.key for entry in rest] == ["k5", "k6", "k7", "k8", "k9", "late"]
    assert (rest.has_more, rest.after) == (False, None)


def test_an_exact_page_has_no_more(pages: journal.Journal) -> None:
    """has_more is exact."""
    pages.put_many([Put(f"k{n}", priority=n) for n in range(7)])
    assert [pages.select(limit=n).has_more for n in (1, 6, 7, 8)] == [True, True, False, False]
    assert pages.select(limit=6, buckets=Range(0, 1024)).has_more
    assert not pages.select(limit=3, status="P").has_more
    assert pages.select(until=0).entries == []


def test_entries_that_were_just_put_are_there(pages: journal.Journal) -> None:
    """Also those that only memory has yet; and their data, with all fields of the schema."""
    pages.put("a", {"x": 1}, owner="g")
    assert [(entry.key, entry.data) for entry in pages.select(owner="g")] == [("a", {"x": 1})]
    assert pages.count(owner="g", buckets=Range(0, 1024)) == 1


def test_a_schema_fills_what_is_missing(store: journal.Store) -> None:
    """As in a scan."""
    typed = store.journal("typed", schema=journal.Schema([journal.Field("a", "int64")]))
    typed.put("x", {"a": 1})
    store.journal("typed", schema=journal.Schema([journal.Field("a", "int64"), journal.Field("b", "text", default="")]))
    typed.rotate()
    assert list(typed.select()) == list(typed.scan())
    assert typed.select().entries[0].data == {"a": 1, "b": None}


def test_expired_ones_are_not_shown(pages: journal.Journal, clock: ManualClock) -> None:
    """Nor counted, unless they are under a lease."""
    for key in ("a", "b"):
        pages.put(key, expiration=clock.now() + 5, owner="g")
    pages.claim_key("a")
    clock.advance(5)
    for wanted in ({"owner": "g"}, {"buckets": Range(0, 1024)}, {"since": 1}):
        assert [entry.key for entry in pages.select(**wanted)] == ["a"]
        assert pages.count(**wanted) == 1


@pytest.mark.parametrize(
    "wanted",
    [
        {"limit": 0}, {"limit": 100_001}, {"limit": "1"}, {"limit": True}, {"after": "xyz"}, {"after": b"ab"},
        {"after": "00"}, {"status": "X"}, {"owner": ""}, {"owner": 7}, {"consumer": 7}, {"buckets": (0, 3)},
        {"buckets": Range(0, 1025)}, {"until": "1h"},
    ],
    ids=repr,
)  # fmt: skip
def test_wrong_arguments(pages: journal.Journal, wanted: dict[str, Any]) -> None:
    """Invalid, for counts too where they take the same."""
    with pytest.raises(journal.Invalid):
        pages.select(**wanted)
    if not wanted.keys() & {"limit", "after"}:
        with pytest.raises(journal.Invalid):
            pages.count(**wanted)


def test_a_readonly_look(tmp_path: Path, clock: ManualClock) -> None:
    """Sees what the last checkpoint has, by every way."""
    ways: list[dict[str, Any]] = [
        {}, {"owner": "bill"}, {"consumer": "mail-1"}, {"status": "P"}, {"status": "available"}, {"since": clock.now()},
    ]  # fmt: skip

    def seen(pages: journal.Journal) -> list[object]:
        pages_of = [(list(walk(pages, 4, **wanted)), pages.count(**wanted)) for wanted in ways]
        return [*pages_of, pages.owners(), pages.forecast(), pages.get_many([f"0-{n}" for n in range(30)])]

    with journal.open(tmp_path / "store", clock=clock) as store:
        fill(store.journal("pages"), clock, 1)
        before = seen(store.journal("pages"))
    with journal.open(tmp_path / "store", readonly=True, clock=clock) as look:
        assert seen(look.journal("pages")) == before
