"""
The state: effects are applied here and nowhere else.

Live and in replay it is the same code, so that the same log gives the same state, byte for byte. Every index change of
an entry comes from `insert` and `_remove`; a row that should be there and is not is damage, never ignored.
"""

from __future__ import annotations

from typing import Any

import msgpack

from journal.core import effects as fx
from journal.core.keys import expiration_key, owner_key
from journal.core.rows import WAITING, LeaseRow, Row, decode_buried, decode_entry, encode_lease
from journal.engine.leases import Held
from journal.engine.stored import Stored
from journal.errors import StoreDamaged

PENDING_MAX = 256


class State(Stored):
    """What is stored, and how it changes."""

    def insert(self, row: Row, value: bytes) -> None:
        """A new entry, waiting, and its bytes (X1)."""
        primary = row[0]
        if is_stored := primary[25] > 0:
            self._put(primary, value, db=self._entries)
            self._put(primary[9:], primary, db=self._keys)
            self.collisions += 1
        else:
            self.pending[primary[9:]] = (row, value)
            if len(self.pending) >= PENDING_MAX:
                self.flush()
        self.order.added(primary, len(self.leases.by_token), is_stored)
        if row[2]:
            self._expires(primary, row.expiration)
        if row[7]:
            self._put(owner_key(row.owner, primary), b"", db=self._owners)

    def insert_many(self, items: list[tuple[bytes, bytes]], extras: list[tuple[bytes, int, bytes]]) -> None:
        """New entries in bulk, sorted, with ordinal 0; `extras`: (primary, expiration, owner) of those that have one."""
        txn = self.file.txn
        consumed, added = txn.cursor(db=self._entries).putmulti(items)
        if added != len(items):
            raise StoreDamaged(f"{self.file.path}: {consumed - added} of {len(items)} new entries were there already")
        txn.cursor(db=self._keys).putmulti(sorted([(primary[9:], primary) for primary, _ in items]))
        self.order.added_many([primary for primary, _ in items], len(self.leases))
        for primary, expiration, owner in extras:
            if expiration:
                self._expires(primary, expiration)
            if owner:
                self._put(owner_key(owner, primary), b"", db=self._owners)

    def _waits(self, primary: bytes, expiration: int) -> None:
        self.order.added(primary, len(self.leases))
        if expiration:
            self._expires(primary, expiration)

    def _expires(self, primary: bytes, expiration: int) -> None:
        self._put(expiration_key(expiration, primary), b"", db=self._expirations)
        if self.next_expiration is None or expiration < self.next_expiration:
            self.next_expiration = expiration
            self._on_expiration(expiration)

    def _must_delete(self, name: bytes, database: Any, what: str) -> None:
        if not self._delete(name, db=database):
            raise StoreDamaged(f"{self.file.path}: no {what} row {name.hex()} to remove")

    def _remove(self, primary: bytes, owner: bytes) -> None:
        """An entry goes; an heir brings its own keys row (X5)."""
        self._must_delete(primary, self._entries, "entries")
        self._must_delete(primary[9:], self._keys, "keys")
        if primary[25]:
            self.collisions -= 1
        if owner:
            self._must_delete(owner_key(owner, primary), self._owners, "owners")

    def _end_lease(self, primary: bytes) -> Held:
        held = self.leases.end(primary)
        if held.is_saved:
            self._must_delete(primary, self._leases, "leases")
        return held

    def _inherit(self, held: Held, primary: bytes | None, value: bytes | None) -> None:
        """An entry under a lease is gone; its successor, if any, takes the slot (life L4)."""
        self._remove(held.primary, held.owner)
        if primary is not None and value is not None:
            self._must_delete(primary[9:], self._successors, "successors")
            self.insert(decode_entry(primary, value), value)

    def claim(self, effect: fx.Claim, offset: int, rows: list[Row] | None = None) -> list[Held]:
        """Leases begin; `rows` are the entries as stored, when the caller has read them."""
        consumer, start, deadline, token, items = effect
        if rows is None:
            rows = [self.entry(primary) for primary in items[::4]]
        begun = []
        worn = self.leases.worn
        add = self.leases.add
        for i, row in enumerate(rows):
            at = 4 * i
            held = Held(
                row.primary, row.key, row.owner, row.expiration, items[at + 2], items[at + 3], start, deadline, token + i,
                offset + i, consumer,
            )  # fmt: skip
            add(held)
            if worn:
                held.is_saved = worn.pop(row.primary, None) is not None
            if row.expiration:
                self._must_delete(expiration_key(row.expiration, row.primary), self._expirations, "expirations")
            begun.append(held)
        self.leases.trim()
        return begun

    def claim_one(self, effect: fx.Claim, row: Row, offset: int) -> Held:
        """One lease begins; `claim` for the usual case."""
        consumer, start, deadline, token, items = effect
        primary, _, expiration, _, _, _, _, owner, key, _ = row
        held = Held(primary, key, owner, expiration, items[2], items[3], start, deadline, token, offset, consumer)
        leases = self.leases
        leases.add(held)
        slot = primary[9:]
        if slot in self.pending:
            self.lent[slot] = self.pending.pop(slot)
        if leases.worn:
            held.is_saved = leases.worn.pop(primary, None) is not None
        if expiration:
            self._must_delete(expiration_key(expiration, primary), self._expirations, "expirations")
        leases.trim()
        return held

    def done(self, items: list[Any]) -> None:
        """Leases are finished and their entries gone."""
        leases, fresh, delete, lent = self.leases, self._fresh, self._delete, self.lent
        entries, keys = self._entries, self._keys
        for at in range(0, len(items), 5):
            primary, token, heir = items[at], items[at + 2], items[at + 3]
            held = leases.end(primary)
            if held.is_saved:
                self._must_delete(primary, self._leases, "leases")
            leases.finish(token)
            fresh.append(token)
            if heir is None and not held.owner and not primary[25]:
                if lent.pop(primary[9:], None) is None and not (
                    delete(primary, db=entries) and delete(primary[9:], db=keys)
                ):
                    raise StoreDamaged(f"{self.file.path}: no entries or keys row of {primary.hex()} to remove")
            else:
                self.flush()
                self._inherit(held, heir, items[at + 4])

    def _replace(self, old: bytes, primary: bytes, value: bytes) -> None:
        before, after = self.entry(old), decode_entry(primary, value)
        if self.leases.worn.pop(old, None) is not None:
            self._must_delete(old, self._leases, "leases")
        if before.expiration:
            self._must_delete(expiration_key(before.expiration, old), self._expirations, "expirations")
        self._remove(old, before.owner)
        self.insert(after, value)

    def _release(self, effect: fx.Release) -> None:
        held = self._end_lease(effect.old)
        if held.has_successor:
            self._must_delete(effect.old[9:], self._successors, "successors")
        self._remove(effect.old, held.owner)
        self.insert(decode_entry(effect.primary, effect.value), effect.value)

    def _timeout(self, effect: fx.Timeout, offset: int) -> None:
        held = self.leases.end(effect.primary)
        lease = LeaseRow(WAITING, effect.version, effect.timeouts, held.start, held.deadline, held.token, offset, "")
        self._put(effect.primary, encode_lease(effect.primary, *lease[:7], b""), db=self._leases)
        self.leases.worn[effect.primary] = lease
        self._waits(effect.primary, held.expiration)

    def _drop(self, primary: bytes) -> None:
        """A waiting entry, or one whose lease has just ended, goes without an heir."""
        row = self.entry(primary)
        if primary in self.leases.by_primary:
            self._end_lease(primary)
        else:
            if row.expiration:
                self._must_delete(expiration_key(row.expiration, primary), self._expirations, "expirations")
            if self.leases.worn.pop(primary, None) is not None:
                self._must_delete(primary, self._leases, "leases")
        self._remove(primary, row.owner)

    def _bury(self, effect: fx.Bury) -> None:
        self._inherit(self._end_lease(effect.old), effect.primary, effect.successor)
        self._put(effect.name, effect.value, db=self._buried)
        if effect.flag is not None:
            reason = decode_buried(effect.name, effect.value).reason
            kept = self._get(effect.flag.encode(), db=self._flags)
            raised, count = (effect.date, 0) if kept is None else msgpack.unpackb(kept)[1::2]
            message = f"the entry {effect.key!r} was buried: {reason}"
            self._delete(effect.flag.encode(), db=self._flags)
            self._put(effect.flag.encode(), msgpack.packb((message, raised, effect.date, count + 1)), db=self._flags)

    def apply(self, effect: fx.Effect, offset: int) -> None:
        """Apply one effect, whatever it is."""
        if type(effect) is not fx.Put:
            self.flush()
        match effect:
            case fx.Put(primary, value):
                self.insert(decode_entry(primary, value), value)
            case fx.Puts(items):
                for primary, value in zip(items[::2], items[1::2], strict=True):
                    self.insert(decode_entry(primary, value), value)
            case fx.Replace(old, primary, value):
                self._replace(old, primary, value)
            case fx.Queue(slot, value):
                # Deleted first: a value that shrinks in place keeps pages that LMDB's verifier takes for damage.
                self._delete(slot, db=self._successors)
                self._put(slot, value, db=self._successors)
                self.leases.by_primary[self._primary_of(slot)].has_successor = True
            case fx.Claim():
                self.claim(effect, offset)
            case fx.Done(items):
                self.done(items)
            case fx.Extend(primary=primary, deadline=deadline, version=version):
                held = self.leases.by_primary[primary]
                held.deadline, held.version, held.at = deadline, version, offset
                self.leases.extended(held)
            case fx.Release():
                self._release(effect)
            case fx.Timeout():
                self._timeout(effect, offset)
            case fx.Bury():
                self._bury(effect)
            case fx.Retry(name, primary, value):
                self._must_delete(name, self._buried, "buried")
                self.insert(decode_entry(primary, value), value)
            case fx.Unbury(name=name):
                self._must_delete(name, self._buried, "buried")
            case fx.Delete(primary=primary):
                self._drop(primary)
            case fx.Expire(items):
                for primary in items[::2]:
                    self._drop(primary)
            case fx.Lower(name):
                self._must_delete(name.encode(), self._flags, "flags")
            case fx.Group(parts):
                for i, (verb, *args) in enumerate(parts):
                    self.apply(fx.from_list(verb, args), offset + i)
