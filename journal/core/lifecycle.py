"""
What may happen to an entry. Every rule about status is here and nowhere else.

            put                    claim                    done
 (nothing) ─────► WAITING ──────────────────► PROCESSING ──────────► (gone)
                    ▲  └─ expired ► (gone)        │ │
                    ├────── release(at) ──────────┘ │
                    └────── deadline passed ────────┤ timeout counter + 1
                                                    └─ counter over the limit ► BURIED, and a flag is raised

The functions are pure: they take what is stored, a command and the time, and return an effect or raise a refusal. They
read no clock and touch no disk, so a test can walk every path.

L1  An entry has a lease if and only if its status is PROCESSING; the lease is active while deadline > now.
L2  A command that names a lease acts on that lease only: a late holder is refused even when the entry is leased again.
L3  The timeout counter moves once for each lease that ended without its holder, whichever call notices first, and for each that
    its holder released as failed. A put onto a waiting entry sets it to 0; a successor does not, for it says nothing about the
    attempt that runs. So a key that is put again in each round is buried like any other.
L4  A key that is processing has at most one successor. When the entry goes (done, bury, expiry) the successor takes its place and
    starts with a count of 0; when it waits again (release, deadline) the two merge by the journal's rules, as if the put had
    come now, and the count goes on. Under `keep` the first stands.
L5  A put whose insertion date, as its caller gave it, is older than the last accepted one of its key changes nothing.
L6  Neither the owner nor expiry touches an entry under an active lease.
L7  Every accepted change raises the version.
L8  A put of the same key that comes with `done` is the entry's own continuation: its owner stays and its version goes on.
L9  An entry keeps its place in the order of work until it gets another priority or process date, by a put (merge M4) or a move,
    or is released or retried; then its turn is that of the change which did it. A lost lease leaves it where it is.
"""

from __future__ import annotations

from typing import NamedTuple

from journal.core.entry.effects import Bury, Expire, PutEffect, Queue, Release, Replace, Timeout
from journal.core.entry.equality import is_same_packed
from journal.core.entry.keys import SLOT_AT, UserKey, buried_key, primary_key
from journal.core.entry.merge import PRESETS, merge
from journal.core.entry.rows import (
    BuriedRow,
    Row,
    at_place,
    encode_buried,
    encode_row,
    encode_successor,
    place,
)
from journal.core.limits import TIMEOUTS_MAX
from journal.core.settings import Settings
from journal.errors import Invalid, KeyExists, Leased, LeaseLost, NotDue, NotFound, NotOwner, VersionMismatch

INSERTED, MERGED, QUEUED, IGNORED, EXISTS = "inserted", "merged", "queued", "ignored", "exists"
REPLACED, SKIPPED = "replaced", "skipped"


class Found(NamedTuple):
    """What is stored of a key: nothing, a waiting entry, or one under a lease with or without a successor."""

    slot: bytes
    row: Row | None
    """With the version and the timeouts that count (rows R4)."""
    is_processing: bool = False
    successor: Row | None = None


class Decision(NamedTuple):
    """The outcome of a put: its name, the row as it is now, and the effect (None when nothing changes)."""

    outcome: str
    row: Row
    effect: PutEffect | Replace | Queue | None


class Holding(NamedTuple):
    """A lease that ends, with the row under it and its successor."""

    row: Row
    token: int
    successor: Row | None


def put(found: Found, new: Row, settings: Settings) -> Decision:
    """Put `new` onto what is stored of its key (L4, L5)."""
    row = found.row
    if row is None:
        return Decision(INSERTED, new, PutEffect(new.primary, encode_row(new)))
    _check_owner(row, new)
    last = found.successor or row
    if new.accepted < last.accepted:
        return Decision(IGNORED, last, None)
    if not found.is_processing:
        merged = merge(row, new, PRESETS[settings.merge], settings.postpone_max)
        if settings.merge == "keep":
            return Decision(IGNORED, row, None)
        return Decision(MERGED, merged, Replace(row.primary, merged.primary, encode_row(merged)))
    if found.successor is None:
        queued = new._replace(version=row.version + 1, owner=row.owner)
    elif settings.merge == "keep":
        return Decision(IGNORED, found.successor, None)
    else:
        queued = merge(found.successor, new, PRESETS[settings.merge], settings.postpone_max)
    return Decision(QUEUED, queued, Queue(found.slot, encode_successor(queued)))


def _check_owner(row: Row, new: Row) -> None:
    if row.owner and row.owner != new.owner:
        raise NotOwner(
            f"the entry {row.key!r} belongs to the producer group {row.owner.decode()!r}: put it with owner= that group"
        )


def replace(found: Found, new: Row) -> Decision:
    """Put `new` in the place of what is stored of its key, however old it is; behind it while that is processing (L4)."""
    row = found.row
    if row is None:
        return Decision(INSERTED, new, PutEffect(new.primary, encode_row(new)))
    _check_owner(row, new)
    replaced = merge(found.successor or row, new, PRESETS["replace"], None)
    if found.is_processing:
        return Decision(QUEUED, replaced, Queue(found.slot, encode_successor(replaced)))
    return Decision(REPLACED, replaced, Replace(row.primary, replaced.primary, encode_row(replaced)))


def skip(found: Found, new: Row) -> Decision:
    """Put a key that is not there; one that is stays as it is."""
    row = found.row
    if row is None:
        return Decision(INSERTED, new, PutEffect(new.primary, encode_row(new)))
    return Decision(SKIPPED, row, None)


def create(found: Found, new: Row, *, is_repeatable: bool = False) -> Decision:
    """Put a key that must not exist yet; with `is_repeatable` the same data of the same owner may be there already."""
    row = found.row
    if row is None:
        return Decision(INSERTED, new, PutEffect(new.primary, encode_row(new)))
    if not is_repeatable:
        raise KeyExists(f"there is an entry with the key {new.key!r}: use put to merge, or get to look at it")
    if row.owner != new.owner:
        whose = f"does not belong to {new.owner.decode()!r}" if new.owner else "belongs to a producer group"
        raise KeyExists(f"there is an entry with the key {new.key!r} that {whose}")
    if not is_same_packed(row.data, new.data):
        raise KeyExists(
            f"there is an entry with the key {new.key!r} and other data: use put to merge, or get to look at it"
        )
    return Decision(EXISTS, row, None)


def claimable(found: Found, key: UserKey, version: int | None, now: int) -> Row:
    """The entry that a consumer may claim by its key, or the reason why not."""
    row = found.row
    if row is None:
        raise NotFound(f"there is no entry with the key {key!r}")
    if found.is_processing:
        raise Leased(f"the entry {key!r} is under an active lease: wait until it is done or lost")
    check_version(row, version)
    _, date = place(row.primary)
    if date > now:
        raise NotDue(f"the entry {key!r} waits until {date}, for {date - now} ms more: claim it then, or move it")
    return row


def check_version(row: Row, version: int | None) -> None:
    """Refuse a caller that has an older copy (L7)."""
    if version is not None and version != row.version:
        raise VersionMismatch(f"the entry {row.key!r} has version {row.version}, not {version}: read it again")


def check_put(found: Found, key: UserKey, version: int | None) -> None:
    """
    Refuse a put by a caller that has an older copy (L7); 0 is the version of a key that is not there.

    Behind a lease the last accepted put counts, which is the successor: its version is in the result of that put. `get` shows the
    entry under the lease, so its version is refused then: that caller has not seen the successor.
    """
    row, successor = found.row, found.successor
    if version is None:
        return
    if row is None:
        if version != 0:
            raise VersionMismatch(f"there is no entry with the key {key!r}, of version {version} or any other")
    elif version == 0:
        raise VersionMismatch(
            f"there is an entry with the key {key!r}, of version {row.version}: 0 puts a new one only"
        )
    elif successor is None:
        check_version(row, version)
    elif version != successor.version or version == row.version:
        raise VersionMismatch(
            f"another put of the key {key!r} waits behind its lease, with version {successor.version}, not {version}"
        )


def change_by_owner(found: Found, key: UserKey, owner: bytes | None, version: int | None) -> Row:
    """The waiting entry that an owner may move or delete, or the reason why not (L6)."""
    row = found.row
    if row is None:
        raise NotFound(f"there is no entry with the key {key!r}")
    if row.owner and row.owner != owner:
        raise NotOwner(f"the entry {key!r} belongs to the producer group {row.owner.decode()!r}")
    check_version(row, version)
    if found.is_processing:
        raise Leased(f"the entry {key!r} is under an active lease: wait until it is done or lost")
    return row


def move(row: Row, priority: int, process_date: int, offset: int) -> tuple[Row, Replace]:
    """Give a waiting entry another place."""
    if process_date < row.insertion:
        raise Invalid(f"the process date {process_date} is earlier than the insertion date {row.insertion}")
    is_same = (priority, process_date) == place(row.primary)
    primary = row.primary if is_same else at_place(row.primary, priority, process_date, offset)  # L9
    moved = row._replace(primary=primary, at=offset, version=row.version + 1)
    return moved, Replace(row.primary, moved.primary, encode_row(moved))


def check_lease(token: int, held_token: int | None, deadline: int, now: int) -> None:
    """Refuse a late holder (L1, L2)."""
    if held_token != token:
        raise LeaseLost(
            f"the lease {token} is not active: it was finished or released, or its deadline passed and the entry may "
            "be with another consumer. Nothing was changed; claim again"
        )
    if deadline <= now:
        raise LeaseLost(f"the lease {token} ended {now - deadline} ms ago: extend in time or claim with a longer lease")


def heir(holding: Holding, offset: int) -> Row | None:
    """The successor as the entry that takes the place of one that goes (L4), or nothing."""
    successor = holding.successor
    if successor is None:
        return None
    return successor._replace(at=offset, version=max(successor.version, holding.row.version) + 1)


def promote(holding: Holding, offset: int) -> tuple[bytes | None, bytes | None]:
    """The heir's primary key and its bytes."""
    row = heir(holding, offset)
    return (None, None) if row is None else (row.primary, encode_row(row))


def follow(holding: Holding, new: Row, offset: int, settings: Settings) -> tuple[str, Row]:
    """
    The outcome of a put of the same key that comes with `done`, and the row that takes the place of the finished entry (L8).

    A successor that waits takes that place first, and the put meets it there as it would meet any waiting entry.
    """
    owner = holding.row.owner
    if owner:
        new = new._replace(owner=new.owner or owner)
        _check_owner(holding.row, new)
    waiting = heir(holding, offset)
    if waiting is None:
        return INSERTED, new._replace(version=holding.row.version + 1)
    decision = put(Found(new.primary[SLOT_AT:], waiting), new, settings)
    return decision.outcome, decision.row


def release(
    holding: Holding,
    process_date: int | None,
    now: int,
    offset: int,
    settings: Settings,
    *,
    priority: int | None = None,
    is_failure: bool = False,
) -> Release:
    """
    Give a lease back: the entry waits at `process_date` (None: now), with another priority if one is given. A successor is
    merged in (L4).

    A failure counts like a lease that ended without its holder (L3): one number counts all failed attempts on an entry.
    """
    row = holding.row
    if is_failure:
        row = row._replace(timeouts=min(row.timeouts + 1, TIMEOUTS_MAX))
    if process_date is None:
        process_date = max(now, row.insertion)
    elif process_date < row.insertion:
        raise Invalid(f"the process date {process_date} is earlier than the insertion date {row.insertion}")
    if priority is None:
        priority = place(row.primary)[0]
    waiting = row._replace(
        primary=at_place(row.primary, priority, process_date, offset), at=offset, version=row.version + 1
    )
    return _settle(holding, waiting, now, offset, settings)


def _settle(holding: Holding, waiting: Row, now: int, offset: int, settings: Settings) -> Release:
    """End a lease with the entry waiting, its successor merged in (L4)."""
    successor = holding.successor
    if successor is not None:
        version = max(waiting.version, successor.version) + 1
        if waiting.expiration and waiting.expiration <= now:
            waiting = successor  # what has expired is gone before a put meets it
        else:
            placed = successor._replace(at=offset)
            merged = merge(waiting, placed, PRESETS[settings.merge], settings.postpone_max)
            waiting = merged._replace(timeouts=waiting.timeouts)  # L3
        waiting = waiting._replace(at=offset, version=version)
    return Release(holding.row.primary, holding.token, waiting.primary, encode_row(waiting))


def expire_lease(
    holding: Holding, deadline: int, now: int, offset: int, settings: Settings
) -> Timeout | Release | Bury | Expire:
    """
    Take a lease back from a holder that fell silent (L3).

    Callers find the lease through its deadline, so an early call is a bug of ours and not an outcome for the user.
    """
    assert deadline <= now
    row = holding.row
    is_expired = 0 < row.expiration <= now
    if is_expired and holding.successor is None:
        return Expire([row.primary, row.key])
    timeouts = min(row.timeouts + 1, TIMEOUTS_MAX)
    if timeouts > settings.timeouts_max and not is_expired:
        reason = f"timed out {timeouts} times (timeouts_max {settings.timeouts_max})"
        return bury(holding._replace(row=row._replace(timeouts=timeouts)), reason, now, offset, flag="timeouts")
    # The process date stays: the entry returns to the place it had earned. A fresh one would let a crashing
    # backend push old work back for ever.
    if holding.successor is not None:
        return _settle(holding, row._replace(version=row.version + 1, timeouts=timeouts), now, offset, settings)
    return Timeout(row.primary, row.key, holding.token, row.version + 1, timeouts)


def bury(holding: Holding, reason: str, now: int, offset: int, flag: str | None = None) -> Bury:
    """Give an entry up. It stays until an operator retries or deletes it; its successor takes its place (L4)."""
    row = holding.row._replace(at=offset, version=holding.row.version + 1)
    name = buried_key(row.primary[SLOT_AT:], offset)
    primary, successor = promote(holding, offset)
    value = encode_buried(name, BuriedRow(now, reason, row))
    return Bury(holding.row.primary, holding.token, name, value, row.key, now, flag, primary, successor)


def retry(buried: BuriedRow, slot: bytes, now: int, offset: int) -> Row:
    """The entry that a buried one becomes: due now, its timeouts forgotten, an expiration that passed lifted."""
    row = buried.row
    priority, _ = place(row.primary)
    return row._replace(
        primary=primary_key(priority, max(now, row.insertion), offset, slot),
        expiration=row.expiration if row.expiration > now else 0,
        at=offset,
        version=row.version + 1,
        timeouts=0,
    )
