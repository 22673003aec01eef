"""Merged journals: many that share their files, each as if it were alone."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

import pytest

import journal
from journal import Cursor
from journal.testing import ManualClock

Copy = Callable[[journal.Store], Path]


@pytest.fixture
def two(store: journal.Store) -> tuple[journal.Journal, journal.Journal]:
    """Two merged journals."""
    return store.journal("a", merged=True), store.journal("b", merged=True)


Two = tuple[journal.Journal, journal.Journal]


def keys(pages: journal.Journal) -> list[object]:
    return [entry.key for entry in pages.scan()]


def test_the_same_key_is_another_entry_in_each(two: Two) -> None:
    """Puts, leases, successors and buried ones of one journal are none of another's."""
    a, b = two
    a.put("k", 1)
    b.put("k", 2, priority=3)
    lease = a.claim()
    assert lease is not None and lease.data == 1 and a.claim() is None
    assert a.put("k", 3).outcome == "queued"
    assert b.put("k", 4).outcome == "merged"
    with pytest.raises(journal.LeaseLost):
        b.done(lease)
    lease.bury("no")
    assert [each.entry.key for each in a.buried()] == ["k"] and b.buried() == []
    assert keys(a) == ["k"] and keys(b) == ["k"]
    assert a.get("k").data == 3 and b.get("k").data == 4  # type: ignore[union-attr]


def test_names_that_begin_alike_are_kept_apart(store: journal.Store) -> None:
    """A name that is the beginning of another, or sorts between, changes nothing."""
    names = ["a", "a-b", "a.b", "a0", "aa", "b", "A"]
    for name in names:
        store.journal(name, merged=True).put("k", name)
    for name in names:
        pages = store.journal(name)
        assert [(e.key, e.data) for e in pages.scan()] == [("k", name)] and pages.count() == 1


def test_each_has_its_own_settings(store: journal.Store, two: Two, clock: ManualClock) -> None:
    """Time-outs, merge rules; those of the files they have together."""
    a, b = two
    store.journal("a", timeouts_max=0)
    for pages in two:
        pages.put("k")
        pages.claim(lease="1s")
    clock.advance(2000)
    assert a.count() == 0 and len(a.buried()) == 1
    assert b.count(status="W") == 1
    assert [flag.journal for flag in store.flags()] == ["a"]
    store.lower(store.flags()[0])
    assert store.flags() == []


@pytest.mark.parametrize("given", [{"rotate": "1d"}, {"wipe": True}, {"log_bytes_max": 1 << 20}])
def test_settings_of_the_files_are_refused_for_one(store: journal.Store, given: dict[str, object]) -> None:
    """They say where to give them instead; nothing is declared."""
    with pytest.raises(journal.Invalid, match=r"store\.merged"):
        store.journal("a", merged=True, **given)
    assert store.journals() == []
    assert all(getattr(store.merged(**given).settings, name) == value for name, value in given.items())
    with pytest.raises(journal.Invalid, match="together"):
        store.merged(timeouts_max=3)


@pytest.mark.alone(reason="it declares others too")
def test_a_journal_stays_what_it_was_declared(store: journal.Store) -> None:
    """Merged or not is decided once."""
    store.journal("a", merged=True)
    store.journal("alone")
    with pytest.raises(journal.Invalid, match="merged is True"):
        store.journal("a", merged=False)
    with pytest.raises(journal.Invalid, match="merged is False"):
        store.journal("alone", merged=True)


@pytest.mark.alone(reason="it declares others too")
def test_they_are_listed_and_counted(store: journal.Store, two: Two) -> None:
    """Also those that are not open, and beside journals that have their own files."""
    a, b = two
    store.journal("alone").put("x")
    store.journal("empty", merged=True)
    for i in range(5):
        a.put(f"k{i}")
    b.put("k")
    b.claim()
    assert store.journals() == ["a", "alone", "b", "empty"]
    assert store.merged().counts() == {"a": 5, "b": 1}
    assert [pages.count() for pages in two] == [5, 1]
    assert (a.count(status="W"), b.count(status="P"), b.count(status="W")) == (5, 1, 0)


def test_counts_follow_everything(store: journal.Store, two: Two, clock: ManualClock) -> None:
    """Groups, merges, expiry, burying, deleting, rotation: the kept counts are those of a walk."""
    a, _ = two
    for pages in two:
        pages.put_many([journal.Put(f"g{i}", i) for i in range(40)])
        pages.put("e", expiration=clock.now() + 500)
        pages.put("g1", "again")
    a.done_many(a.claim_many(10))
    store.merged().rotate()
    a.put("g20", "moved")
    a.delete("g21")
    lease = a.claim()
    assert lease is not None
    lease.bury("x")
    clock.advance(1000)
    assert store.check() == []
    assert store.merged().counts() == {"a": len(keys(a)), "b": 40}
    assert a.count() == len(keys(a)) == 28


def test_one_record_order_and_one_sync_for_all(tmp_path: Path) -> None:
    """Cursors of all journals are places in one log; what waits for one sync is durable in all."""
    with journal.open(tmp_path / "s", durability="interval", sync_interval="1h") as store:
        a, b = store.journal("a", merged=True), store.journal("b", merged=True)
        cursors = [pages.put(f"k{i}").cursor for i in range(3) for pages in (a, b)]
        assert cursors == [Cursor(1, i) for i in range(6)]
        before = store.merged().statistics()["syncs"]
        a.wait_durable(cursors[-1])
        assert b.durable_cursor == cursors[-1]
        assert store.merged().statistics()["syncs"] == before + 1


def test_reopened_they_are_as_they_were(tmp_path: Path, clock: ManualClock, crashed: Copy) -> None:
    """After a close and after a crash, whether a journal is opened again or not."""
    with journal.open(tmp_path / "s", clock=clock) as store:
        for i in range(30):
            pages = store.journal(f"j{i}", merged=True)
            pages.put("done")
            pages.claim().done()  # type: ignore[union-attr]
            pages.put("leased")
            lease = pages.claim(lease="1h")
            pages.put("leased", "successor")
            pages.put("waiting", i, delay="1m")
            if i == 10:
                store.checkpoint()
            if i == 20:
                store.merged().rotate()
        assert lease is not None
        copy = crashed(store)
    for path in (copy, tmp_path / "s"):
        with journal.open(path, clock=clock) as store:
            for i in range(0, 30, 3):
                pages = store.journal(f"j{i}")
                assert keys(pages) == ["leased", "waiting"] and pages.get("waiting").data == i  # type: ignore[union-attr]
                (held,) = pages.leases()
                pages.done(held)
                pages.done(held)
                assert pages.get("leased").data == "successor"  # type: ignore[union-attr]
            assert store.check() == []
        with journal.open(path, clock=clock) as store:
            assert store.merged().counts() == {f"j{i}": 2 for i in range(30)}
            assert store.check() == []


def test_a_feed_has_the_changes_of_its_own_journal(two: Two) -> None:
    """In order, with the cursors that they have in the log of all; acknowledgements pass over what is another's."""
    a, b = two
    for i in range(10):
        b.put(f"x{i}")
        a.put(f"k{i}")
    b.put("last")
    with a.feed(consumer="mail", live=False) as feed:
        events = list(feed)
        assert [(e.namespace, e.key, e.cursor.offset) for e in events] == [("a", f"k{i}", 2 * i + 1) for i in range(10)]
        assert feed.unacked == 10 and feed.position == Cursor(1, 0)
        feed.ack(events[1:5])
        assert feed.position == Cursor(1, 0) and feed.unacked == 6
        feed.ack(events[0])
        assert feed.position == Cursor(1, 10)
    with a.feed(consumer="mail", live=False, wait_acks=False) as feed:
        seen = []
        for event in feed:
            seen.append(event.key)
            feed.ack(event)
        assert seen == [f"k{i}" for i in range(5, 10)]
        assert feed.position == Cursor(1, 20) and feed.unacked == 0 and feed.lag == 0


def test_consumers_of_two_journals_may_have_one_name(store: journal.Store, two: Two) -> None:
    """They are listed, moved and removed one by one; errors name them as their journal does."""
    a, b = two
    for pages in two:
        pages.put("k")
        with pages.feed(consumer="mail", live=False) as feed:
            assert feed.consumer == "mail"
            feed.ack(list(feed))
    with store.merged().feed(consumer="mail", live=False) as feed:
        assert [(e.namespace, e.key) for e in feed] == [("a", "k"), ("b", "k")]
    a.remove_feed("mail")
    assert a.feeds() == [] and [view.name for view in b.feeds()] == ["mail"]
    with pytest.raises(journal.NotFound, match="'mail' of journal a"):
        a.mark_feed("mail", Cursor(1, 0))
    assert [view.name for view in store.merged().feeds()] == ["mail"]


def test_a_copy_has_the_entries_of_its_own_journal(two: Two) -> None:
    """Then it follows, without gap or repeat."""
    a, b = two
    for i in range(5):
        a.put(f"k{i}")
        b.put(f"x{i}")
    with a.feed(consumer="c", copy=True, live=False) as feed:
        copied = list(feed)
        assert sorted(str(e.key) for e in copied[:-1]) == [f"k{i}" for i in range(5)]
        assert [e.mode for e in copied] == [*["copy"] * 5, "complete"]
        feed.ack(copied)
        b.put("other")
        a.put("new")
        assert [(e.mode, e.key) for e in feed] == [("sync", "new")]


def test_a_dropped_journal_is_gone(store: journal.Store, two: Two, clock: ManualClock) -> None:
    """With all that it had; the others are as they were, and the name can be used again."""
    a, b = two
    for i in range(600):
        a.put(f"k{i}", expiration=clock.now() + 10**6, owner="me")
    b.put("k")
    lease = a.claim()
    assert lease is not None
    a.put(lease.key, "successor", owner="me")
    a.claim().bury("x")  # type: ignore[union-attr]
    with a.feed(consumer="c", live=False):
        pass
    store.merged().rotate()
    store.drop("a")
    assert store.journals() == ["b"] and store.merged().counts() == {"b": 1}
    with pytest.raises(journal.StoreClosed, match="dropped"):
        a.put("k")
    with pytest.raises(journal.StoreClosed, match="dropped"):
        lease.done()
    assert store.check() == []
    again = store.journal("a", merged=True)
    assert keys(again) == [] and again.buried() == [] and again.feeds() == [] and again.put("k").outcome == "inserted"
    with pytest.raises(journal.NotFound):
        store.drop("c")


def test_followers_of_all_see_a_journal_go(store: journal.Store, two: Two) -> None:
    """Each entry, as a delete."""
    a, _ = two
    a.put("k")
    store.drop("a")
    events = [(e.namespace, e.op, e.verb, e.key) for e in store.merged().feed(live=False)]
    assert events == [("a", "insert", "put", "k"), ("a", "delete", "drop", "k")]


def test_a_drop_that_was_cut_short_is_gone_on_with(
    tmp_path: Path, clock: ManualClock, monkeypatch: pytest.MonkeyPatch, crashed: Copy
) -> None:
    """After a crash in the middle the journal is not there, and its name begins anew."""
    with journal.open(tmp_path / "s", clock=clock) as store:
        a = store.journal("a", merged=True)
        a.put_many([journal.Put(f"k{i}") for i in range(600)])
        steps = iter([None])
        real = journal.engine.store.clear_step

        def cut(*args: object) -> bool:
            next(steps)  # the second one does not come
            return real(*args)

        monkeypatch.setattr("journal.engine.store.clear_step", cut)
        with pytest.raises(StopIteration):
            store.drop("a")
        copy = crashed(store)
    monkeypatch.undo()
    for path in (copy, tmp_path / "s"):
        with journal.open(path, clock=clock) as store:
            assert store.journals() == []
            again = store.journal("a", merged=True)
            assert again.count() == 0 and keys(again) == []
            assert store.check() == []


def test_a_drop_does_not_overtake(
    tmp_path: Path, clock: ManualClock, monkeypatch: pytest.MonkeyPatch, crashed: Copy
) -> None:
    """Whatever came before it is there when it is: what survives is always a prefix of what happened."""
    with journal.open(tmp_path / "s", clock=clock, durability="none") as store:
        a, b = store.journal("a", merged=True), store.journal("b", merged=True)
        a.put("k")
        last = b.put("k")

        def cut(*args: object) -> bool:
            raise StopIteration

        monkeypatch.setattr("journal.engine.store.clear_step", cut)
        with pytest.raises(StopIteration):
            store.drop("a")
        assert b.durable_cursor >= last.cursor
        copy = crashed(store)
    monkeypatch.undo()
    with journal.open(copy, clock=clock) as store:
        assert store.journals() == ["b"] and keys(store.journal("b")) == ["k"]


def test_a_journal_with_its_own_files_is_dropped(store: journal.Store) -> None:
    """Its directory goes, and its name can be used again, for a merged one as well."""
    pages = store.journal("pages")
    pages.put("k")
    store.drop("pages")
    assert store.journals() == [] and not (store.path / "pages").exists()
    with pytest.raises(journal.StoreClosed):
        pages.put("k")
    assert store.journal("pages", merged=True).count() == 0
    assert sorted(path.name for path in store.path.iterdir()) == ["LOCK", "_merged", "catalog"]


def test_a_look_sees_merged_journals(tmp_path: Path) -> None:
    """From another store object, read-only; nothing can be written or dropped there."""
    with journal.open(tmp_path / "s") as store:
        a, b = store.journal("a", merged=True), store.journal("b", merged=True)
        a.put("k", 1)
        b.put("x", 2)
        a.claim()
    with journal.open(tmp_path / "s", readonly=True) as look:
        assert look.journals() == ["a", "b"] and look.merged().counts() == {"a": 1, "b": 1}
        there = look.journal("a")
        assert [(e.key, e.status) for e in there.scan()] == [("k", "P")]
        assert [e.verb for e in there.feed(live=False)] == ["put", "claim"]
        for refused in (lambda: there.put("z"), lambda: look.drop("a"), lambda: look.merged(wipe=True)):
            with pytest.raises(journal.ReadOnly):
                refused()
        assert look.check() == []


def test_schemas_count_from_the_next_generation_on(store: journal.Store) -> None:
    """Each journal's own; one that nothing happened in takes it at once."""
    one = journal.Schema(name="one", fields=[journal.Field("x", "int", required=True)])
    two = journal.Schema(name="two", fields=[journal.Field("y", "str", required=True)])
    a = store.journal("a", merged=True, schema=one)
    b = store.journal("b", merged=True)
    a.put("k", {"x": 1})
    b.put("k", "anything")
    with pytest.raises(journal.Invalid):
        a.put("k", {"y": "1"})
    store.journal("a", schema=two)
    a.put("k2", {"x": 2})
    store.merged().rotate()
    with pytest.raises(journal.Invalid):
        a.put("k3", {"x": 3})
    a.put("k3", {"y": "3"})
    assert {e.key: e.data for e in a.scan()} == {
        "k": {"x": 1, "y": None},
        "k2": {"x": 2, "y": None},
        "k3": {"x": None, "y": "3"},
    }
    b.put("k2", 5)
    store.checkpoint()


def test_survivors_of_all_journals_move(store: journal.Store, clock: ManualClock) -> None:
    """Generations do not pile up however many journals have entries far ahead; leased ones stay until they end."""
    store.merged(generations_max=2)
    names = [f"j{i}" for i in range(20)]
    for name in names:
        pages = store.journal(name, merged=True)
        pages.put("far", name, delay="365d")
        pages.put("now")
        pages.claim(lease="1h", consumer=name)
    for _ in range(6):
        store.merged().rotate()
        store.journal("busy", merged=True).put("k")
        store.checkpoint()
    with_rows = [g for g in store.merged().generations() if g.state in ("active", "draining")]
    assert len(with_rows) <= 3
    for name in names:
        pages = store.journal(name)
        assert keys(pages) == ["now", "far"]
        (lease,) = pages.leases(consumer=name)
        lease.done()
    for _ in range(3):
        store.merged().rotate()
        store.journal("busy").put("k")
        store.checkpoint()
    assert len([g for g in store.merged().generations() if g.state in ("active", "draining")]) <= 2
    assert store.check() == []


def test_workers_of_one_journal_sleep_while_others_work(tmp_path: Path) -> None:
    """A worker is handed its own journal's entries, also when it slept meanwhile."""
    with journal.open(tmp_path / "s") as store:
        a, b = store.journal("a", merged=True), store.journal("b", merged=True)
        got: list[object] = []

        def work() -> None:
            for lease in a.work():
                got.append(lease.key)
                lease.done()
                if len(got) == 3:
                    return

        thread = threading.Thread(target=work)
        thread.start()
        for i in range(3):
            b.put(f"x{i}")
            a.put(f"k{i}")
        thread.join(100)
        assert sorted(map(str, got)) == ["k0", "k1", "k2"] and b.count() == 3


def test_thousands_of_journals_are_not_loaded(tmp_path: Path) -> None:
    """An open store holds the state of those in use only."""
    with journal.open(tmp_path / "s", durability="none") as store:
        for i in range(300):
            store.journal(f"j{i}", merged=True).put("k", delay="1h")
    with journal.open(tmp_path / "s") as store:
        store.journal("j7").put("new")
        assert store.merged()._backend.p.state.states.keys() == {b"j7"}
        assert len(store.merged().counts()) == 300
        assert store.check() == []
        store.journal("j8").put("new")
        store.checkpoint()
        assert store.merged()._backend.p.state.states.keys() == {b"j7", b"j8"}


def test_a_drop_ends_who_follows(store: journal.Store, two: Two) -> None:
    """Feeds that are open, with a name or without, waiting or not: they end, and the drop is whole."""
    a, b = two
    a.put("k")
    named, live = a.feed(consumer="c", live=False), a.feed()
    assert next(named).key == next(live).key == "k"
    ended = threading.Thread(target=lambda: list(live))
    ended.start()
    store.drop("a")
    ended.join(100)
    assert not ended.is_alive() and store.journals() == ["b"]
    with pytest.raises(journal.StoreClosed):
        named.ack(Cursor(1, 0))
    assert store.journal("a", merged=True).feeds() == [] and b.put("x").outcome == "inserted"
