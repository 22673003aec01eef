"""Every verb through the real daemon: what comes of it is what the library itself says."""

from __future__ import annotations

from datetime import timedelta

import pytest

import journal
from journal.net.client.connect import connect
from journal.net.server.server import Server
from journal.testing import ManualClock


def test_a_store_is_found_by_its_path_and_by_its_addresses(server: Server, store: journal.Store) -> None:
    """All ways lead to one daemon."""
    for address in (store.path, str(store.path), *server.addresses):
        with connect(address, name="backend-1") as remote:
            assert remote.journals() == store.journals()


def test_journals_are_declared_changed_and_dropped(far: journal.Store, store: journal.Store) -> None:
    """With settings as the library takes them."""
    schema = journal.Schema([journal.Field("uri", "text")], key=["uri"])
    pages = far.journal("pages", processing_timeout="2m", postpone_max=timedelta(hours=1), schema=schema)
    assert pages.settings == store.journal("pages").settings
    assert (pages.settings.processing_timeout, pages.settings.postpone_max) == (120_000, 3_600_000)
    assert pages.schema == schema == store.journal("pages").schema
    assert pages.put(None, {"uri": "/home"}).outcome == "inserted"
    assert far.journal("plain").settings == store.journal("plain").settings
    assert far.journals() == ["pages", "plain"]
    far.drop("plain")
    assert store.journals() == ["pages"]
    with pytest.raises(journal.NotFound):
        far.drop("plain")


def test_producing(far_pages: journal.Journal, pages: journal.Journal, clock: ManualClock) -> None:
    """Put, create, move and delete, singly and in groups."""
    result = far_pages.put("a", {"n": 1}, priority=20, delay="5s", expiration=clock.now() + 60_000, owner="group")
    assert result == journal.PutResult("inserted", journal.Cursor(1, 0), 1, clock.now() + 5000, 20)
    assert far_pages.get("a") == pages.get("a")
    assert far_pages.put("a", {"n": 2}, owner="group").outcome == "merged"
    with pytest.raises(journal.KeyExists):
        far_pages.create("a", 1)
    assert far_pages.create("b", 1).outcome == "inserted"
    assert far_pages.create("b", 1, is_repeatable=True).outcome == "exists"
    made = far_pages.create_many([journal.Put("b", 2), journal.Put(b"c", 3)])
    assert isinstance(made[0], journal.KeyExists) and made[1].outcome == "inserted"  # type: ignore[union-attr]
    with pytest.raises(journal.NotOwner):
        far_pages.move("a", priority=1)
    assert far_pages.move("a", process_date=clock.now() + 9000, owner="group").outcome == "moved"
    moved = far_pages.move_many([journal.Move("b", priority=1), journal.Move("x", priority=1)])
    assert moved[0].priority == 1 and isinstance(moved[1], journal.NotFound)  # type: ignore[union-attr]
    assert far_pages.delete("b") is True and far_pages.delete("b") is False
    assert far_pages.delete_many([b"c", journal.Delete("a", owner="group"), "x"]) == [True, True, False]
    assert pages.count() == 0


def test_consuming(far_pages: journal.Journal, pages: journal.Journal, clock: ManualClock) -> None:
    """Claim, extend, release, bury, retry and done."""
    far_pages.put_many([journal.Put(f"k{i}", i, priority=i) for i in range(5)])
    lease = far_pages.claim(consumer="one", lease="10s")
    assert lease is not None and lease.key == "k0" and lease.deadline == clock.now() + 10_000
    (mine,) = pages.leases(consumer="one")
    for name in ("key", "data", "deadline", "token", "version", "priority", "process_date", "consumer", "start"):
        assert getattr(lease, name) == getattr(mine, name), name
    for name in ("timeouts", "owner", "expiration", "insertion_date"):
        assert getattr(lease, name) == getattr(mine, name), name
    clock.advance(1000)
    assert lease.extend("20s") == clock.now() + 20_000 == pages.lease(lease.token).deadline
    lease.release(delay="1m", failed=True)
    assert pages.get("k0").timeouts == 1  # type: ignore[union-attr]
    picked = far_pages.claim_key("k3", consumer="one")
    assert far_pages.lease(picked).token == picked.token
    picked.bury("unreadable")
    (buried,) = far_pages.buried()
    assert (buried.entry.key, buried.reason) == ("k3", "unreadable") and far_pages.buried() == pages.buried()
    assert far_pages.retry("k3").outcome == "retried"
    many = far_pages.claim_many(10, consumer="two", lease="1m")
    assert [lease.key for lease in many] == ["k1", "k2", "k3", "k4"]
    assert [lease.token for lease in far_pages.leases(consumer="two")] == [lease.token for lease in many]
    assert far_pages.done_many([*many, 7])[:4] == [None] * 4
    with pytest.raises(journal.LeaseLost):
        far_pages.done(lease.token)
    assert pages.count() == 1


def test_reading(far_pages: journal.Journal, pages: journal.Journal, clock: ManualClock) -> None:
    """Selections, scans, counts and forecasts are those of the library."""
    for i in range(30):
        pages.put(f"k{i:02}", {"i": i}, owner="even" if i % 2 == 0 else "odd", delay=i * 1000)
    pages.claim_many(2, consumer="one")
    assert list(far_pages.scan()) == list(pages.scan())
    since, until = clock.now() + 5000, clock.now() + 9000
    assert list(far_pages.scan(since=since, until=until)) == list(pages.scan(since=since, until=until))
    assert far_pages.count() == 30 and far_pages.count(status="processing", consumer="one") == pages.count(status="P")
    part = journal.Range.parse("0-511")
    assert far_pages.count(buckets=part) == pages.count(buckets=part)
    page = far_pages.select(owner="odd", limit=4)
    assert page == pages.select(owner="odd", limit=4) and page.has_more
    assert far_pages.select(owner="odd", limit=100, after=page.after) == pages.select(
        owner="odd", limit=100, after=page.after
    )
    assert far_pages.entries_of("even", limit=3) == pages.entries_of("even", limit=3)
    assert far_pages.count_of("even") == 15 and far_pages.owners() == {"even": 15, "odd": 15}
    assert far_pages.get_many(["k03", "x", "k00"]) == pages.get_many(["k03", "x", "k00"])
    assert far_pages.forecast(step="5s", horizon="1m") == pages.forecast(step="5s", horizon="1m")
    assert far_pages.statistics()["entries"] == 30
    assert far_pages.now() == clock.now()


def test_long_lists_come_in_parts(far_pages: journal.Journal, pages: journal.Journal) -> None:
    """A page, a scan and a look-up of more than a frame holds are whole."""
    keys = [f"k{i:03}" for i in range(40)]
    pages.put_many([journal.Put(key, b"x" * 60_000, priority=i) for i, key in enumerate(keys)])
    assert [entry.key for entry in far_pages.scan()] == keys
    assert [entry.key for entry in far_pages.select(limit=40)] == keys
    assert [getattr(entry, "key", None) for entry in far_pages.get_many(keys)] == keys


def test_the_log(far_pages: journal.Journal, pages: journal.Journal, store: journal.Store) -> None:
    """Generations, cursors, durability, compaction."""
    store.journal("pages", compact=True)
    first = far_pages.put("a", 1).cursor
    far_pages.wait_durable(first)
    assert far_pages.durable_cursor == pages.durable_cursor == first
    generation = far_pages.rotate()
    assert generation.order == 2 and far_pages.generations() == pages.generations()
    last = far_pages.put("b", 1).cursor
    assert far_pages.distance(first, last) == 1 == pages.distance(first, last)
    assert far_pages.shift(first, 1) == last and far_pages.lag(first) == 1
    assert far_pages.compact() == pages.compact()


def test_feed_consumers_are_kept(far_pages: journal.Journal, pages: journal.Journal) -> None:
    """Listed, marked, skipped and removed."""
    pages.feed(consumer="audit").close()
    cursors = [far_pages.put(f"k{i}", i).cursor for i in range(3)]
    assert far_pages.feeds() == pages.feeds()
    far_pages.mark_feed("audit", cursors[0])
    assert far_pages.skip_feed("audit", cursors[2]) is True and far_pages.skip_feed("audit", cursors[2]) is False
    assert far_pages.feeds() == pages.feeds() and far_pages.feeds()[0].position == cursors[0]
    far_pages.remove_feed("audit")
    assert pages.feeds() == []


def test_keeping(far: journal.Store, far_pages: journal.Journal, store: journal.Store) -> None:
    """Flags, statistics, checks."""
    far_pages.raise_flag("look", "here")
    (flag,) = far.flags()
    assert (flag.name, flag.message) == ("look", "here") and far.flags() == store.flags()
    far.lower(flag)
    assert store.flags() == []
    far.checkpoint()
    assert far.check() == [] == far.check(deep=True)
    assert far.statistics()["journals"].keys() == store.statistics()["journals"].keys()


def test_merged_journals(far: journal.Store, store: journal.Store) -> None:
    """What they have together."""
    far.journal("one", merged=True).put("a", 1)
    merged = far.merged(generations_max=4)
    assert merged.settings == store.merged().settings and merged.settings.generations_max == 4
    assert merged.counts() == {"one": 1} and merged.statistics()["entries"] == 1
    assert merged.generations() == store.merged().generations()
    with merged.feed(live=False) as feed:
        assert [event.key for event in feed] == ["a"]


def test_errors_of_the_store_are_raised_here(far_pages: journal.Journal, far: journal.Store) -> None:
    """With their classes."""
    with pytest.raises(journal.Invalid):
        far_pages.wait_durable(journal.Cursor(9, 9))
    with pytest.raises(journal.NotFound):
        far_pages.retry("nothing")
    with pytest.raises(journal.Invalid, match="durability"):
        far_pages.put("a", 1, durability="perhaps")
    with pytest.raises(journal.Invalid, match="unknown setting"):
        far.journal("other", colour="blue")
