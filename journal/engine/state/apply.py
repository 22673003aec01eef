"""
The state: effects are applied here and nowhere else.

Live and in replay it is the same code, so that the same log gives the same state, byte for byte. Every index change of
an entry comes from `insert` and `_remove`; a row that should be there and is not is damage, never ignored.

Z1  An effect changes the home of the entry that it names, and the active generation, to which all inserts go.
Z2  After a crash in the middle of a checkpoint an older generation's file may be ahead of the replay. Then what a record
    does to its entries is done already, in the file and in what was loaded from it: it is passed over (`_home` is None).
    The active generation is committed last and is never ahead.
"""

from __future__ import annotations

from operator import itemgetter
from typing import Any

from journal.core.entry import effects as fx
from journal.core.entry.keys import ORDINAL_AT, SLOT_AT, SLOT_BYTES, expiration_key, grave_key, owner_key
from journal.core.entry.rows import (
    ENTRY_HEAD,
    OWNER_AT,
    WAITING,
    LeaseRow,
    Row,
    decode_buried,
    decode_entry,
    encode_lease,
)
from journal.engine.state.file import GenerationRows
from journal.engine.state.flags import raise_flag
from journal.engine.state.leases import Held
from journal.engine.state.reader import StoredState
from journal.engine.state.sorting import is_sorted, sorted_by_hash
from journal.errors import StoreDamaged

PENDING_MAX = 256
BULK = 1024
"""So many new entries of one record, or more, are sorted and given to LMDB at once."""
_ORDINAL = itemgetter(ORDINAL_AT)
_NEVER = bytes(8)


class JournalState(StoredState):
    """What is stored, and how it changes. `at` is a record's place over all generations (cursor.at_of)."""

    def insert(self, row: Row, value: bytes) -> None:
        """A new entry, waiting, and its bytes (reader X1)."""
        primary = row[0]
        if is_stored := primary[ORDINAL_AT] > 0:
            self.active.put(primary, value, db=self._entries)
            self.active.put(primary[SLOT_AT:], primary, db=self._keys)
            if self.active.index is not None:
                self.active.index.add([primary])
            self.active.collisions += 1
            self.collisions += 1
        else:
            self.pending[primary[SLOT_AT:]] = (row, value)
            if len(self.pending) >= PENDING_MAX:
                self.flush()
        self.order.added(primary, len(self.leases.by_token), is_stored)
        if row[2]:
            self._expires(self.active, primary, row.expiration)
        if row[7]:
            self.active.put(owner_key(row.owner, primary), b"", db=self.active.owners)

    def insert_usual(self, slot: bytes, row: Row, value: bytes) -> None:
        """`insert` of an entry that has no owner and does not expire."""
        if slot[16]:
            self.insert(row, value)
            return
        pending = self.pending
        pending[slot] = (row, value)
        if len(pending) >= PENDING_MAX:
            self.flush()
        self.order.added(row[0], len(self.leases.by_token), False)

    def insert_many(self, items: list[tuple[bytes, bytes]], extras: list[tuple[bytes, int, bytes]]) -> None:
        """New entries in bulk, sorted, with ordinal 0; `extras`: (primary, expiration, owner) of those that have one."""
        cursor = self.active.cursor
        consumed, added = cursor(db=self._entries).putmulti(items)
        if added != len(items):
            raise StoreDamaged(f"{self.file.path}: {consumed - added} of {len(items)} new entries were there already")
        cursor(db=self._keys).putmulti(sorted([(primary[SLOT_AT:], primary) for primary, _ in items]))
        if self.active.index is not None:
            self.active.index.add([primary for primary, _ in items])
        self.order.added_many([primary for primary, _ in items], len(self.leases))
        for primary, expiration, owner in extras:
            if expiration:
                self._expires(self.active, primary, expiration)
            if owner:
                self.active.put(owner_key(owner, primary), b"", db=self.active.owners)

    def insert_keys(self, slots: list[bytes], primaries: list[bytes]) -> None:
        """Where entries are that were inserted: slots in order, and their primary keys."""
        self.active.put_sorted(self._keys, slots, primaries)

    def insert_entries(self, primaries: list[bytes], values: list[bytes], *, has_more: bool) -> None:
        """Very many new entries in the order of work, without their keys; some may expire or have an owner (`has_more`)."""
        active = self.active
        added = active.put_sorted(self._entries, primaries, values)
        if added != len(primaries):
            raise StoreDamaged(f"{self.file.path}: {len(primaries) - added} of {len(primaries)} new entries were there")
        if active.index is not None:
            active.index.add(primaries)
        self.order.added_many(primaries, len(self.leases))
        if not has_more:
            return
        expirations = [
            value[12:20] + primary for primary, value in zip(primaries, values, strict=True) if value[12:20] != _NEVER
        ]
        if expirations:
            expirations.sort()
            active.put_sorted(active.expirations, expirations, [b""] * len(expirations))
            self._next_expiration(int.from_bytes(expirations[0][:8], "big"))
        owned = [(primary, value) for primary, value in zip(primaries, values, strict=True) if value[OWNER_AT]]
        if owned:
            owners = [owner_key(value[ENTRY_HEAD : ENTRY_HEAD + value[OWNER_AT]], name) for name, value in owned]
            active.put_sorted(active.owners, sorted(owners), [b""] * len(owners))

    def _insert_all(self, items: list[bytes]) -> None:
        """New entries of one record: primary, value, …"""
        primaries, values = items[::2], items[1::2]
        if len(primaries) < BULK or any(map(_ORDINAL, primaries)):
            for primary, value in zip(primaries, values, strict=True):
                self.insert(decode_entry(primary, value), value)
            return
        if not is_sorted(primaries):
            pairs = sorted(zip(primaries, values, strict=True))
            primaries, values = [pair[0] for pair in pairs], [pair[1] for pair in pairs]
        self.insert_entries(primaries, values, has_more=True)
        both = sorted_by_hash([primary[SLOT_AT:] + primary for primary in primaries], 0)
        self.insert_keys([each[:SLOT_BYTES] for each in both], [each[SLOT_BYTES:] for each in both])

    def _expires(self, home: GenerationRows, primary: bytes, expiration: int) -> None:
        home.put(expiration_key(expiration, primary), b"", db=home.expirations)
        home.is_dirty = True
        self._next_expiration(expiration)

    def _next_expiration(self, expiration: int) -> None:
        if self.next_expiration is None or expiration < self.next_expiration:
            self.next_expiration = expiration
            self.on_expiration(expiration)

    def _home(self, primary: bytes, at: int) -> GenerationRows | None:
        """The generation that a record finds this entry in; None when that one is ahead of the record (Z2)."""
        if not self.older:
            return self.active
        for rows in reversed(self.generations):
            if rows.get(primary, db=rows.entries) is not None:
                return None if at < rows.ahead_at else rows
        if any(at < rows.ahead_at for rows in self.older):
            return None
        raise StoreDamaged(f"{self.file.path}: no entry at primary key {primary.hex()}, which the log names")

    def _lease_of(self, primary: bytes, at: int) -> Held | None:
        """The lease that a record ends or changes; None when its generation is ahead of the record (Z2)."""
        held = self.leases.by_primary.get(primary)
        if held is None:
            if self._home(primary, at) is None:
                return None
            raise KeyError(f"no lease on {primary.hex()}")
        return None if at < held.home.ahead_at else held

    def _end_lease(self, held: Held) -> None:
        self.leases.end(held.primary)
        if held.is_saved:
            held.home.must_delete(held.primary, held.home.leases, "leases")

    def _remove(self, home: GenerationRows, primary: bytes, owner: bytes) -> None:
        """An entry goes; an heir brings its own keys row (reader X5)."""
        home.remove_entry(primary)
        if home.index is not None:
            home.index.remove(primary)
        if primary[ORDINAL_AT]:
            home.collisions -= 1
            self.collisions -= 1
        if owner:
            home.must_delete(owner_key(owner, primary), home.owners, "owners")

    def claim(self, effect: fx.Claim, at: int, rows: list[Row] | None = None) -> list[Held]:
        """Leases begin; `rows` are the entries as stored, when the caller has read them."""
        begun = []
        for i, primary in enumerate(effect.items[::4]):
            home = self._home(primary, at + i) if self.older else self.active
            if home is not None:
                row = self.entry(primary) if rows is None else rows[i]
                begun.append(self._begin_lease(effect, i, row, at + i, home))
        return begun

    def claim_one(self, effect: fx.Claim, row: Row, at: int) -> Held:
        """One lease begins, on an entry that LMDB may not have yet."""
        slot = row[0][SLOT_AT:]
        item = self.pending.pop(slot, None)
        if item is not None:
            self.lent[slot] = item
        home = self.taken_from if item is None else self.active
        held = self.leases.begin(effect, 0, row, at, home)
        if row[2]:
            home.must_delete(expiration_key(row[2], row[0]), home.expirations, "expirations")
        return held

    def _begin_lease(self, effect: fx.Claim, i: int, row: Row, at: int, home: GenerationRows) -> Held:
        held = self.leases.begin(effect, i, row, at, home)
        if row[2]:
            home.must_delete(expiration_key(row[2], row[0]), home.expirations, "expirations")
        return held

    def done(self, items: list[Any], at: int) -> None:
        """Leases are finished and their entries gone."""
        leases, finish, lent = self.leases, self.finished.add, self.lent
        each = iter(items)
        for primary, _, token, heir, value in zip(each, each, each, each, each, strict=True):
            finish(token)
            held = leases.by_primary.get(primary)
            if held is None or at < held.home.ahead_at:
                held = self._lease_of(primary, at)
            at += 1
            if held is not None:
                leases.end(primary)
                if held.is_saved:
                    held.home.must_delete(primary, held.home.leases, "leases")
                if heir is not None or held.owner or primary[ORDINAL_AT]:
                    self.flush()
                    self._remove(held.home, primary, held.owner)
                elif lent.pop(primary[SLOT_AT:], None) is None:
                    self._remove(held.home, primary, b"")
            if heir is not None:
                self._inherit(held, heir, value)

    def _inherit(self, held: Held | None, primary: bytes, value: bytes) -> None:
        """The entry of a lease is gone; its successor, or the put that came with `done`, takes the slot (lifecycle L4, L8)."""
        if held is not None:
            held.home.has_moved = True
            if held.has_successor:
                held.home.must_delete(primary[SLOT_AT:], held.home.successors, "successors")
        self.insert(decode_entry(primary, value), value)

    def _replace(self, old: bytes, primary: bytes, value: bytes, at: int) -> None:
        home = self._home(old, at)
        if home is not None:
            home.has_moved = True
            before = self.entry(old)
            if self.leases.expired_rows.pop(old, None) is not None:
                home.must_delete(old, home.leases, "leases")
            if before.expiration:
                home.must_delete(expiration_key(before.expiration, old), home.expirations, "expirations")
            self._remove(home, old, before.owner)
        self.insert(decode_entry(primary, value), value)

    def _release(self, effect: fx.Release, at: int) -> None:
        held = self._lease_of(effect.old, at)
        if held is not None:
            self._end_lease(held)
            held.home.has_moved = True
            if held.has_successor:
                held.home.must_delete(effect.old[SLOT_AT:], held.home.successors, "successors")
            self._remove(held.home, effect.old, held.owner)
        self.insert(decode_entry(effect.primary, effect.value), effect.value)

    def _expire_lease(self, effect: fx.Timeout, at: int) -> None:
        held = self._lease_of(effect.primary, at)
        if held is None:
            return
        self.leases.end(effect.primary)
        lease = LeaseRow(WAITING, effect.version, effect.timeouts, held.start, held.deadline, held.token, at, "")
        home = held.home
        home.put(effect.primary, encode_lease(effect.primary, *lease[:7], b""), db=home.leases)
        home.is_dirty = True
        self.leases.expired_rows[effect.primary] = lease
        self.order.returned(effect.primary, len(self.leases))
        if held.expiration:
            self._expires(home, effect.primary, held.expiration)

    def _drop(self, primary: bytes, at: int) -> None:
        """Remove a waiting entry, or one whose lease has just ended; no entry takes its slot."""
        home = self._home(primary, at)
        if home is None:
            return
        row = self.entry(primary)
        held = self.leases.by_primary.get(primary)
        if held is not None:
            self._end_lease(held)
            if held.has_successor:
                home.must_delete(primary[SLOT_AT:], home.successors, "successors")
        else:
            if row.expiration:
                home.must_delete(expiration_key(row.expiration, primary), home.expirations, "expirations")
            if self.leases.expired_rows.pop(primary, None) is not None:
                home.must_delete(primary, home.leases, "leases")
        self._remove(home, primary, row.owner)

    def _bury(self, effect: fx.Bury, at: int) -> None:
        held = self._lease_of(effect.old, at)
        if held is not None:
            self._end_lease(held)
            held.home.has_moved = True
            self._remove(held.home, effect.old, held.owner)
        if effect.primary is not None and effect.successor is not None:
            self._inherit(held, effect.primary, effect.successor)
        self._lay(effect.name, effect.value)
        if effect.flag is not None:
            reason = decode_buried(effect.name, effect.value).reason
            raise_flag(self.active, effect.flag, f"the entry {effect.key!r} was buried: {reason}", effect.date)

    def _lay(self, name: bytes, value: bytes) -> None:
        """A buried row comes to the active generation."""
        active = self.active
        active.put(name, value, db=active.buried)
        active.put(grave_key(name), b"", db=active.graves)

    def _unbury(self, name: bytes, at: int) -> None:
        """A buried row goes, from whichever generation has it."""
        for rows in reversed(self.generations):
            if rows.get(name, db=rows.buried) is not None:
                if at >= rows.ahead_at:
                    rows.has_moved = True
                    rows.must_delete(name, rows.buried, "buried")
                    rows.must_delete(grave_key(name), rows.graves, "graves")
                return
        if not any(at < rows.ahead_at for rows in self.older):
            raise StoreDamaged(f"{self.file.path}: no buried row {name.hex()} to remove")

    def _queue(self, slot: bytes, value: bytes, at: int) -> None:
        """A successor is kept in its entry's home."""
        for rows in reversed(self.generations):
            primary = rows.get(slot, db=rows.keys)
            if primary is None:
                continue
            if at >= rows.ahead_at:
                # Deleted first: a value that shrinks in place keeps pages that LMDB's verifier takes for damage.
                rows.delete(slot, db=rows.successors)
                rows.put(slot, value, db=rows.successors)
                rows.is_dirty = True
                self.leases.by_primary[primary].has_successor = True
            return
        if not any(at < rows.ahead_at for rows in self.older):
            raise StoreDamaged(f"{self.file.path}: no entry in slot {slot.hex()}, which the log names")

    def _carry(self, effect: fx.Carry, at: int) -> None:
        """Entries, the lease rows of those that have one and buried rows move to the active generation, as they are."""
        active, leases = self.active, self.leases
        active.growth.carried()
        rows = dict(zip(effect.expired_rows[::2], effect.expired_rows[1::2], strict=True))
        for primary, value in zip(effect.entries[::2], effect.entries[1::2], strict=True):
            lease, row = rows.get(primary), decode_entry(primary, value)
            if lease is not None and lease[4] != WAITING:
                row = row._replace(expiration=0)  # not in the index while it is under a lease (reader X1)
            held, home = leases.by_primary.get(primary), self._home(primary, at)
            if home is not None:
                home.has_moved = True
                if primary in leases.expired_rows or (held is not None and held.is_saved):
                    home.must_delete(primary, home.leases, "leases")
                if held is not None and held.has_successor:
                    home.must_delete(primary[SLOT_AT:], home.successors, "successors")
                if row.expiration:
                    home.must_delete(expiration_key(row.expiration, primary), home.expirations, "expirations")
                self._remove(home, primary, row.owner)
            self.insert(row, value)
        self.flush()
        for primary, value in rows.items():
            active.put(primary, value, db=active.leases)
            held = leases.by_primary.get(primary)
            if held is None:
                self._load_lease(active, primary, self._lease(active, primary, value))
            else:
                held.home, held.is_saved = active, True
        for slot, value in zip(effect.successors[::2], effect.successors[1::2], strict=True):
            active.put(slot, value, db=active.successors)
            leases.by_primary[self._primary_of(active, slot)].has_successor = True
        for i in range(0, len(effect.buried), 2):
            self._unbury(effect.buried[i], at)
            self._lay(effect.buried[i], effect.buried[i + 1])

    def _clear(self, effect: fx.Clear, at: int) -> None:
        """A part of a journal that is being dropped goes."""
        for i, primary in enumerate(effect.entries[::2]):
            self._drop(primary, at + i)
        for i, name in enumerate(effect.buried, len(effect.entries) // 2):
            self._unbury(name, at + i)
        for flag in effect.flags:
            self.active.must_delete(flag.encode(), self.active.flags, "flags")
        self.look_for_pause()

    def apply(self, effect: fx.Effect, at: int) -> None:
        """Apply one effect, whatever it is."""
        if type(effect) is not fx.PutEffect:
            self.flush()
        match effect:
            case fx.PutEffect(primary, value):
                self.insert(decode_entry(primary, value), value)
            case fx.PutsEffect(items):
                self._insert_all(items)
            case fx.Replace(old, primary, value):
                self._replace(old, primary, value, at)
            case fx.Queue(slot, value):
                self._queue(slot, value, at)
            case fx.Claim():
                self.claim(effect, at)
            case fx.Done(items):
                self.done(items, at)
            case fx.Extend(primary=primary, deadline=deadline, version=version):
                held = self._lease_of(primary, at)
                if held is not None:
                    held.deadline, held.version, held.at = deadline, version, at
                    self.leases.extended(held)
            case fx.Release():
                self._release(effect, at)
            case fx.Timeout():
                self._expire_lease(effect, at)
            case fx.Bury():
                self._bury(effect, at)
            case fx.RetryEffect(name, primary, value):
                self._unbury(name, at)
                self.insert(decode_entry(primary, value), value)
            case fx.Unbury(name=name):
                self._unbury(name, at)
            case fx.DeleteEffect(primary=primary):
                self._drop(primary, at)
            case fx.Expire(items):
                for i, primary in enumerate(items[::2]):
                    self._drop(primary, at + i)
            case fx.Lower(name):
                self.active.must_delete(name.encode(), self.active.flags, "flags")
                self.look_for_pause()
            case fx.Raise(name, message, date):
                raise_flag(self.active, name, message, date)
                self.look_for_pause()
            case fx.StepEffect():
                self.step(effect, at)
            case fx.Carry():
                self._carry(effect, at)
            case fx.Clear():
                self._clear(effect, at)
            case fx.Group(parts):
                self._apply_each(parts, at)
            case fx.LoadEffect(name, number, items):
                self._insert_all(items)
                self.once.set(name, number, at + len(items) // 2 - 1)
            case fx.LoadGroup(name, number, parts):
                self._apply_each(parts, at)
                self.once.set(name, number, at + max(len(parts), 1) - 1)

    def _apply_each(self, parts: list[Any], at: int) -> None:
        for i, (verb, *args) in enumerate(parts):
            self.apply(fx.from_list(verb, args), at + i)
