"""What may happen to an entry: every path, without a store."""

from __future__ import annotations

from typing import Any

import pytest

from journal.core import lifecycle
from journal.core.entry import effects as fx
from journal.core.entry.keys import SLOT_AT, turn_of
from journal.core.entry.rows import BuriedRow, Row, decode_buried, decode_entry, decode_successor, pack_data, place
from journal.core.lifecycle import Found, Holding
from journal.core.settings import Settings
from journal.errors import Invalid, KeyExists, Leased, LeaseLost, NotFound, NotOwner, VersionMismatch
from tests.core.rows_of import NOW, SLOT, row

PLAIN = Settings()
NEW = row(90, NOW + 5, data=pack_data("new"), at=20)


def released(effect: object) -> Row:
    assert isinstance(effect, fx.Release)
    return decode_entry(effect.primary, effect.value)


# -- put and create ---------------------------------------------------------------------------------------------------


def test_a_new_key_is_inserted() -> None:
    """Nothing stored: the row as it was asked for."""
    outcome, now, effect = lifecycle.put(Found(SLOT, None), NEW, PLAIN)
    assert (outcome, now) == ("inserted", NEW)
    assert isinstance(effect, fx.PutEffect)
    assert decode_entry(effect.primary, effect.value) == NEW


def test_a_waiting_key_is_merged() -> None:
    """The effect replaces the old place by the new one."""
    old = row(50, NOW + 100, version=3, timeouts=2)
    outcome, merged, effect = lifecycle.put(Found(SLOT, old), NEW, PLAIN)
    assert (outcome, place(merged.primary), merged.version, merged.timeouts) == ("merged", (50, NOW + 100), 4, 0)
    assert isinstance(effect, fx.Replace)
    assert effect.old == old.primary
    assert decode_entry(effect.primary, effect.value) == merged


def test_a_processing_key_gets_a_successor() -> None:
    """Queued behind it as asked for, not merged with the entry under the lease."""
    old = row(50, NOW + 100, version=3, data=pack_data("old"))
    outcome, queued, effect = lifecycle.put(Found(SLOT, old, True), NEW, PLAIN)
    assert (outcome, place(queued.primary), queued.data) == ("queued", (90, NOW + 5), pack_data("new"))
    assert queued.version > old.version
    assert isinstance(effect, fx.Queue)
    assert decode_successor(effect.slot, effect.value) == queued


def test_more_puts_merge_into_the_successor() -> None:
    """At most one: the third put meets the second."""
    first = row(10, NOW + 50, version=4)
    outcome, queued, effect = lifecycle.put(Found(SLOT, row(version=3), True, first), NEW, PLAIN)
    assert (outcome, place(queued.primary), queued.version) == ("queued", (10, NOW + 50), 5)
    assert queued.data == pack_data("new")
    assert isinstance(effect, fx.Queue)


@pytest.mark.parametrize("is_processing", [False, True])
def test_an_older_date_than_the_last_accepted_changes_nothing(is_processing: bool) -> None:
    """Stale by one millisecond is ignored, the same millisecond is not."""
    stored = row(accepted=NOW + 10)
    stale = NEW._replace(insertion=NOW + 9, accepted=NOW + 9)
    assert lifecycle.put(Found(SLOT, stored, is_processing), stale, PLAIN) == ("ignored", stored, None)
    same = NEW._replace(insertion=NOW + 10, accepted=NOW + 10)
    assert lifecycle.put(Found(SLOT, stored, is_processing), same, PLAIN).effect is not None


def test_stale_is_measured_against_the_successor() -> None:
    """The last accepted put of a processing key is its successor."""
    successor = row(accepted=NOW + 10)
    stale = NEW._replace(insertion=NOW + 9, accepted=NOW + 9)
    outcome, _, effect = lifecycle.put(Found(SLOT, row(), True, successor), stale, PLAIN)
    assert (outcome, effect) == ("ignored", None)


def test_keep_ignores_the_second_put() -> None:
    """The first wins; but a processing entry is not the waiting one: its first successor is kept."""
    keep = Settings(merge="keep")
    old = row()
    assert lifecycle.put(Found(SLOT, old), NEW, keep) == ("ignored", old, None)
    assert lifecycle.put(Found(SLOT, old, True), NEW, keep).outcome == "queued"
    assert lifecycle.put(Found(SLOT, old, True, old), NEW, keep) == ("ignored", old, None)


@pytest.mark.parametrize("owner", [b"", b"other"])
def test_another_producer_cannot_merge(owner: bytes) -> None:
    """An owned entry takes puts of its owner only, also as a successor; even when they are stale."""
    for stale in (0, 5):
        new = NEW._replace(owner=owner, insertion=NOW - stale)
        for found in (Found(SLOT, row(owner=b"o")), Found(SLOT, row(owner=b"o"), True)):
            with pytest.raises(NotOwner):
                lifecycle.put(found, new, PLAIN)


def test_the_owner_may_merge() -> None:
    """And stays the owner."""
    assert lifecycle.put(Found(SLOT, row(owner=b"o")), NEW._replace(owner=b"o"), PLAIN).row.owner == b"o"


@pytest.mark.parametrize("is_processing", [False, True])
def test_create_refuses_a_key_that_exists(is_processing: bool) -> None:
    """Waiting or processing, it is there."""
    with pytest.raises(KeyExists):
        lifecycle.create(Found(SLOT, row(), is_processing), NEW)
    assert lifecycle.create(Found(SLOT, None), NEW).outcome == "inserted"


# -- the owner --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("found", "owner", "version", "error"),
    [
        (Found(SLOT, None), None, None, NotFound),
        (Found(SLOT, row(owner=b"o")), None, None, NotOwner),
        (Found(SLOT, row(owner=b"o")), b"x", None, NotOwner),
        (Found(SLOT, row(version=3)), None, 2, VersionMismatch),
        (Found(SLOT, row()), None, 0, VersionMismatch),
        (Found(SLOT, row(), True), None, None, Leased),
    ],
)
def test_who_may_not_change_an_entry(found: Found, owner: Any, version: Any, error: type[Exception]) -> None:
    """Nothing there, another's, changed meanwhile, or under a lease."""
    with pytest.raises(error):
        lifecycle.change_by_owner(found, "a", owner, version)


@pytest.mark.parametrize(("stored", "owner"), [(b"", None), (b"", b"x"), (b"o", b"o")])
def test_who_may_change_an_entry(stored: bytes, owner: Any) -> None:
    """Its owner; anybody when it has none."""
    found = row(owner=stored, version=3)
    assert lifecycle.change_by_owner(Found(SLOT, found), "a", owner, 3) is found


@pytest.mark.parametrize(
    ("found", "version"),
    [
        (Found(SLOT, None), 1),
        (Found(SLOT, row(version=3)), 0),
        (Found(SLOT, row(version=3)), 2),
        (Found(SLOT, row(version=3), True), 4),
        (Found(SLOT, row(version=3), True, row(version=5)), 3),
        (Found(SLOT, row(version=5), True, row(version=5)), 5),
        (Found(SLOT, row(version=3), True, row(version=5)), 0),
    ],
)
def test_a_put_for_another_version_is_refused(found: Found, version: int) -> None:
    """Behind a lease the last accepted put counts, and who has not seen it is refused."""
    with pytest.raises(VersionMismatch):
        lifecycle.check_put(found, "a", version)


@pytest.mark.parametrize(
    ("found", "version"),
    [
        (Found(SLOT, None), 0),
        (Found(SLOT, row(version=3)), None),
        (Found(SLOT, row(version=3)), 3),
        (Found(SLOT, row(version=3), True), 3),
        (Found(SLOT, row(version=3), True, row(version=5)), 5),
    ],
)
def test_a_put_for_this_version_is_not(found: Found, version: int | None) -> None:
    """0 is that of a key that is not there."""
    lifecycle.check_put(found, "a", version)


def test_move_changes_the_place_only() -> None:
    """Data, dates and timeouts stay; the version rises."""
    old = row(version=3, timeouts=2, expiration=NOW + 50)
    moved, effect = lifecycle.move(old, 7, NOW + 9, 30)
    assert moved == old._replace(primary=moved.primary, at=30, version=4)
    assert place(moved.primary) == (7, NOW + 9)
    assert (effect.old, decode_entry(effect.primary, effect.value)) == (old.primary, moved)


def test_move_to_before_the_insertion_is_invalid() -> None:
    """A process date is never earlier than the insertion date."""
    with pytest.raises(Invalid):
        lifecycle.move(row(), 7, NOW - 1, 30)


# -- leases -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("held", "deadline"), [(None, 0), (6, NOW + 9), (5, NOW), (5, NOW - 1)])
def test_a_late_holder_is_refused(held: int | None, deadline: int) -> None:
    """No such lease, another lease of the entry, or at the very millisecond of the deadline."""
    with pytest.raises(LeaseLost):
        lifecycle.check_lease(5, held, deadline, NOW)


def test_a_lease_is_active_while_its_deadline_is_ahead() -> None:
    """One millisecond is enough."""
    lifecycle.check_lease(5, 5, NOW + 1, NOW)


def test_a_successor_takes_the_place_of_what_is_done() -> None:
    """With its own place and a version above both."""
    successor = row(10, NOW + 50, version=4)
    primary, value = lifecycle.promote(Holding(row(version=9), 5, successor), 30)
    assert primary is not None and value is not None
    assert decode_entry(primary, value) == successor._replace(at=30, version=10)
    assert lifecycle.promote(Holding(row(), 5, None), 30) == (None, None)


def test_what_comes_with_done_takes_the_place() -> None:
    """As it was asked for, with a version that goes on; it meets a successor as a put meets any waiting entry."""
    old = row(30, version=4, timeouts=2, accepted=NOW + 9)
    assert lifecycle.follow(Holding(old, 5, None), NEW, 20, PLAIN) == ("inserted", NEW._replace(version=5))
    successor = row(10, NOW + 50, version=6, data=pack_data("queued"))
    outcome, merged = lifecycle.follow(Holding(old, 5, successor), NEW, 20, PLAIN)
    assert (outcome, place(merged.primary), merged.version, merged.data) == ("merged", (10, NOW + 50), 8, NEW.data)
    for settings, new in ((Settings(merge="keep"), NEW), (PLAIN, NEW._replace(accepted=NOW - 1))):
        assert lifecycle.follow(Holding(old, 5, successor), new, 20, settings) == (
            "ignored",
            successor._replace(at=20, version=7),
        )


def test_what_comes_with_done_has_the_entrys_owner() -> None:
    """Nobody takes an owned key away by finishing it; a free one may get an owner."""
    owned = Holding(row(owner=b"o"), 5, None)
    assert lifecycle.follow(owned, NEW, 20, PLAIN)[1].owner == b"o"
    assert lifecycle.follow(owned, NEW._replace(owner=b"o"), 20, PLAIN)[1].owner == b"o"
    with pytest.raises(NotOwner):
        lifecycle.follow(owned, NEW._replace(owner=b"x"), 20, PLAIN)
    assert lifecycle.follow(Holding(row(), 5, None), NEW._replace(owner=b"x"), 20, PLAIN)[1].owner == b"x"


def test_release_lets_the_entry_wait_now_or_later() -> None:
    """The priority and the timeouts stay."""
    holding = Holding(row(30, NOW - 0, version=3, timeouts=2), 5, None)
    soon = released(lifecycle.release(holding, None, NOW + 7, 30, PLAIN))
    assert (place(soon.primary), soon.version, soon.timeouts, soon.at) == ((30, NOW + 7), 4, 2, 30)
    later = released(lifecycle.release(holding, NOW + 99, NOW + 7, 30, PLAIN))
    assert place(later.primary) == (30, NOW + 99)
    urgent = released(lifecycle.release(holding, None, NOW + 7, 30, PLAIN, priority=3))
    assert place(urgent.primary) == (3, NOW + 7)
    with pytest.raises(Invalid):
        lifecycle.release(holding, NOW - 1, NOW + 7, 30, PLAIN)


@pytest.mark.parametrize(
    ("preset", "data", "where"),
    [
        ("merge", "next", (10, NOW + 50)),
        ("keep", "first", (30, NOW)),
        ("debounce", "next", (10, NOW + 50)),
        ("replace", "next", (70, NOW + 50)),
    ],
)
@pytest.mark.parametrize("is_failure", [False, True])
def test_release_merges_the_successor(preset: str, data: str, where: tuple[int, int], is_failure: bool) -> None:
    """By the journal's rules, also when the first stands; the count of failures goes on, whatever a put would do to it."""
    successor = row(70 if preset == "replace" else 10, NOW + 50, version=4, data=pack_data("next"))
    holding = Holding(row(30, version=3, timeouts=2, data=pack_data("first")), 5, successor)
    waiting = released(lifecycle.release(holding, None, NOW, 30, Settings(merge=preset), is_failure=is_failure))
    assert (waiting.data, place(waiting.primary)) == (pack_data(data), where)
    assert (waiting.timeouts, waiting.version, waiting.at) == (3 if is_failure else 2, 5, 30)


@pytest.mark.parametrize("preset", ["merge", "keep", "debounce", "replace"])
def test_what_has_expired_meets_no_successor(preset: str) -> None:
    """It is gone, as it would be for a put that comes now: the successor takes its place as it was asked for."""
    successor = row(70, NOW + 50, version=9, data=pack_data("next"))
    holding = Holding(row(30, timeouts=2, expiration=NOW, data=pack_data("first")), 5, successor)
    for effect in (
        lifecycle.release(holding, None, NOW, 30, Settings(merge=preset)),
        lifecycle.expire_lease(holding, NOW, NOW, 30, Settings(merge=preset, timeouts_max=2)),
    ):
        assert released(effect) == successor._replace(at=30, version=10)


def test_a_lost_lease_counts_and_keeps_the_place() -> None:
    """The entry returns to the place it had earned."""
    old = row(version=3, timeouts=1)
    effect = lifecycle.expire_lease(Holding(old, 5, None), NOW, NOW, 30, Settings(timeouts_max=2))
    assert effect == fx.Timeout(old.primary, "a", 5, 4, 2)


@pytest.mark.parametrize(
    ("timeouts", "limit", "is_buried"), [(0, 0, True), (1, 2, False), (2, 2, True), (255, 255, False)]
)
def test_the_limit_buries_and_raises_a_flag(timeouts: int, limit: int, is_buried: bool) -> None:
    """Over the limit, not at it; the counter stays at 255."""
    effect = lifecycle.expire_lease(
        Holding(row(timeouts=timeouts), 5, None), NOW, NOW, 30, Settings(timeouts_max=limit)
    )
    assert isinstance(effect, fx.Bury if is_buried else fx.Timeout)
    if isinstance(effect, fx.Bury):
        buried = decode_buried(effect.name, effect.value)
        assert (effect.flag, buried.row.timeouts, buried.date) == ("timeouts", timeouts + 1, NOW)
    elif isinstance(effect, fx.Timeout):
        assert effect.timeouts == min(timeouts + 1, 255)


def test_a_lost_lease_of_an_expired_entry_ends_it() -> None:
    """It was only kept for its holder."""
    old = row(expiration=NOW)
    assert lifecycle.expire_lease(Holding(old, 5, None), NOW, NOW, 30, PLAIN) == fx.Expire([old.primary, "a"])
    alive = row(expiration=NOW + 1)
    assert isinstance(lifecycle.expire_lease(Holding(alive, 5, None), NOW, NOW, 30, PLAIN), fx.Timeout)


@pytest.mark.parametrize(
    ("preset", "data", "where"),
    [("merge", "next", (10, NOW + 50)), ("keep", "first", (30, NOW)), ("replace", "next", (10, NOW + 50))],
)
def test_a_lost_lease_with_a_successor_merges_and_counts(preset: str, data: str, where: tuple[int, int]) -> None:
    """The journal's rules decide what waits; the lease was lost all the same."""
    successor = row(10, NOW + 50, version=4, data=pack_data("next"))
    old = row(30, timeouts=1, data=pack_data("first"))
    waiting = released(
        lifecycle.expire_lease(Holding(old, 5, successor), NOW, NOW, 30, Settings(merge=preset, timeouts_max=2))
    )
    assert (waiting.data, waiting.timeouts, place(waiting.primary)) == (pack_data(data), 2, where)


def test_the_limit_buries_also_when_there_is_a_successor() -> None:
    """Nothing is lost: what was tried is kept apart, what came meanwhile takes its place and starts anew."""
    successor = row(10, NOW + 50, version=4, data=pack_data("next"))
    old = row(30, timeouts=2, data=pack_data("first"))
    effect = lifecycle.expire_lease(Holding(old, 5, successor), NOW, NOW, 30, Settings(timeouts_max=2))
    assert isinstance(effect, fx.Bury) and effect.flag == "timeouts"
    buried = decode_buried(effect.name, effect.value).row
    assert (buried.data, buried.timeouts) == (pack_data("first"), 3)
    assert effect.primary is not None and effect.successor is not None
    assert decode_entry(effect.primary, effect.successor) == successor._replace(at=30, version=5)


def test_bury_keeps_the_entry_and_promotes_the_successor() -> None:
    """A person's bury raises no flag."""
    successor = row(10, NOW + 50, version=4)
    old = row(version=3, timeouts=2)
    effect = lifecycle.bury(Holding(old, 5, successor), "unreadable", NOW + 1, 30)
    assert (effect.old, effect.token, effect.flag, effect.primary) == (old.primary, 5, None, successor.primary)
    assert decode_buried(effect.name, effect.value) == BuriedRow(NOW + 1, "unreadable", old._replace(at=30, version=4))


def test_retry_makes_it_due_and_forgets_the_timeouts() -> None:
    """An expiration that passed is lifted, one ahead is kept."""
    slot = SLOT[:16] + b"\3"
    for expiration, kept in ((NOW - 1, 0), (NOW, 0), (NOW + 1, NOW + 1), (0, 0)):
        buried = BuriedRow(NOW, "", row(30, timeouts=6, version=4, expiration=expiration))
        back = lifecycle.retry(buried, slot, NOW, 40)
        assert (place(back.primary), back.primary[SLOT_AT:]) == ((30, NOW), slot)
        assert (back.timeouts, back.version, back.expiration, back.at) == (0, 5, kept, 40)
        assert (back.key, back.data, back.insertion) == (buried.row.key, buried.row.data, buried.row.insertion)


@pytest.mark.parametrize(
    ("priority", "date", "turn"), [(50, NOW + 100, 3), (50, NOW + 99, 30), (51, NOW + 100, 30), (9, NOW + 9, 30)]
)
def test_a_move_that_moves_nothing_keeps_the_place(priority: int, date: int, turn: int) -> None:
    """Any other one comes behind all that are at its new priority and date."""
    moved, effect = lifecycle.move(row(50, NOW + 100, at=3), priority, date, 30)
    assert (place(moved.primary), turn_of(moved.primary), moved.at) == ((priority, date), turn, 30)
    assert effect.primary == moved.primary


def test_who_ends_a_lease_decides_on_the_place() -> None:
    """Released: behind all others, also at its own date. Lost: where it was. A successor: where its put stood."""
    held = row(30, NOW, at=3)
    released = lifecycle.release(Holding(held, 5, None), None, NOW, 30, PLAIN)
    assert (place(released.primary), turn_of(released.primary)) == ((30, NOW), 30)
    lost = lifecycle.expire_lease(Holding(held, 5, None), NOW, NOW, 30, PLAIN)
    assert isinstance(lost, fx.Timeout) and lost.primary == held.primary
    heir, _ = lifecycle.promote(Holding(held, 5, row(30, NOW + 9, at=12)), 30)
    assert heir is not None and turn_of(heir) == 12
    merged = lifecycle.expire_lease(Holding(held, 5, row(30, NOW + 9, at=12)), NOW, NOW, 30, PLAIN)
    assert isinstance(merged, fx.Release)
    assert (place(merged.primary), turn_of(merged.primary)) == ((30, NOW + 9), 12)


def test_a_retried_entry_comes_behind_all_others() -> None:
    """It is due now, as one that is put now."""
    buried = BuriedRow(NOW, "", row(30, NOW, at=3))
    assert turn_of(lifecycle.retry(buried, bytes(17), NOW, 30).primary) == 30
