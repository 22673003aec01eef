"""
The check: recompute every index, counter and invariant from the entries and the log, and say what differs.

It only reads. When the log still has its beginning, it is replayed into an empty database and the result compared byte
for byte (the same log gives the same state); unless it was compacted: then it must have what decided each entry's data.
The logs of closed generations, which are there for followers only, are read to their ends, while callers go on.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

from journal.core.buckets import bucket_of
from journal.core.entry import effects as fx
from journal.core.entry.keys import SLOT_AT, UserKey, expiration_key, grave_key, key_bytes, murmur, owner_key
from journal.core.entry.rows import PROCESSING, Row, decode_buried, decode_entry, decode_lease, decode_successor
from journal.core.log.cursor import base_of, cursor_of
from journal.core.log.events import events_of
from journal.engine.files.lmdb import LmdbFile
from journal.engine.log.external import LogFiles
from journal.engine.log.generation_record import GenerationRecord
from journal.engine.log.reader import Reader, RecordPlace, list_segments
from journal.engine.merged.rows import unprefixed
from journal.engine.merged.sequence import Merging
from journal.engine.merged.states import OWN, Namespaces
from journal.engine.own_pipeline import OwnPipeline
from journal.engine.readonly import Look
from journal.engine.state.apply import JournalState
from journal.engine.state.file import DATABASES, GenerationRows
from journal.engine.state.range_orders import Ranges
from journal.errors import StorageError

REPLAY_BYTES_MAX = 32 << 20
_COMPARED = tuple(name for name in DATABASES if name not in (b"buckets", b"meta"))


def check(p: OwnPipeline, *, is_deep: bool = False) -> list[str]:
    """What is wrong with a journal, in words; empty when nothing is."""
    return _Check(p).run(is_deep=is_deep)


class _Check:
    """The check of one journal, or of what merged journals share."""

    def __init__(self, p: OwnPipeline) -> None:
        self._p = p
        self._state, self._writer, self._generations = p.state, p.log, p.generations
        self._followers, self._retention = p.consumers, p.retention

    def run(self, *, is_deep: bool) -> list[str]:
        """What is wrong."""
        p, state, log = self._p, self._state, self._writer
        is_look = isinstance(p, Look)
        closed = self._named(self._closed_logs())
        consumers = self._named(self._consumers())
        found = list(closed)
        with p.lock:
            now = p.enter()
            if not is_look:
                log.flush()
                state.save_leases()
            if isinstance(p, Merging):
                found += self._named(_nobodys(p))
            for name, each in self._states():
                found += [f"{name}: {line}" for line in _rows(each)]
                if not is_look:
                    found += [f"{name}: {line}" for line in (*_memory(each, now), *_homes(each), *_ranges(each, now))]
            if is_look:
                return found + consumers
            found += self._named(self._listed())
            logs = self._named(self._log(is_deep))
            found += logs
            if p.settings.compact and not closed and not logs:
                found += self._named(self._compacted())
            if log.synced >= log.next_offset:
                found.append(f"{p.name}: place {log.synced} is called durable, but the log ends at {log.next_offset}")
        return found + consumers

    def _named(self, lines: Iterator[str]) -> list[str]:
        return [f"{self._p.name}: {line}" for line in lines]

    def _consumers(self) -> Iterator[str]:
        """The offset log, and what it holds of the log."""
        try:
            yield from self._followers.check(self._retention.expected)
        except IndexError:
            yield "offset log: not compared, since a log that is kept has no segment"

    def _states(self) -> Iterator[tuple[str, JournalState]]:
        """The states of a journal, or of all that share their rows, with their names."""
        if isinstance(self._state, Namespaces):
            for name in self._state.names():
                yield name.decode(), self._state.state_of(name)
        else:
            yield self._p.name, self._state

    def _listed(self) -> Iterator[str]:
        """The list of generations against the files and what is open (generations U2, reader X1)."""
        kept = self._generations.kept
        orders = [k.order for k in kept]
        if orders != sorted(set(orders)) or [k.last is None for k in kept] != [False] * (len(kept) - 1) + [True]:
            yield f"generations: {orders} are not in order, or not the last one is active"
        if [k.order for k in kept if k.has_rows] != [rows.order for rows in self._state.generations]:
            yield "generations: those that have rows are not those that are open"
        for k in kept:
            directory = self._p.directory(k.order)
            if k.has_log and not (directory / "log").is_dir():
                yield f"generations: {directory / 'log'} is missing"
            if not k.has_log and not k.has_rows and directory.exists():
                yield f"generations: {directory} is there, although the generation is gone"

    def _log(self, is_deep: bool) -> Iterator[str]:
        """The records from the oldest segment on; replayed from the beginning when it is still there."""
        directory = self._writer.directory
        try:
            first = list_segments(directory)[0]
            reader = Reader(directory, self._p.name.encode(), RecordPlace(first, first, 0))
            small = sum(path.stat().st_size for path in directory.iterdir()) <= REPLAY_BYTES_MAX
            if first == 0 and len(self._generations.kept) == 1 and (small or is_deep):
                yield from self._replayed(reader)
            else:
                for _ in reader:
                    pass
            if reader.end != self._writer.end:
                yield f"log: the records end at {reader.end}, the engine goes on at {self._writer.end}"
        except (StorageError, IndexError) as e:
            yield f"log: {e}"

    def _closed_logs(self) -> Iterator[str]:
        """The logs of closed generations, each to its last change. Without the lock: they do not change, and may be long."""
        with self._p.lock:
            self._p.enter()
            closed = [k for k in self._generations.kept if k.has_log and k.last is not None]
        for k in closed:
            difference = self._closed_log(k)
            if difference is None:
                continue
            with self._p.lock:
                self._p.enter()
                if any(
                    each.order == k.order and each.has_log for each in self._generations.kept
                ):  # or it went meanwhile
                    yield difference

    def _closed_log(self, k: GenerationRecord) -> str | None:
        """What is wrong with the log of one closed generation."""
        files = LogFiles(self._p.directory(k.order) / "log", namespace=self._p.name.encode())
        following = 0
        try:
            for found in files.read():
                following = found.last + 1
        except StorageError as e:
            return f"log: {e}"
        if k.last is not None and following != k.last + 1:
            return f"log: the records of generation {k.order} end before {following}, its last is {k.last}"
        if files.let_go:
            return f"log: generation {k.order} does not have the changes {files.let_go}"
        return None

    def _compacted(self) -> Iterator[str]:
        """A log that is kept for later followers has what decided the data of each entry (compaction_rule D1)."""
        try:
            yield from self._undecided()
        except (StorageError, IndexError) as e:
            yield f"log: {e}"

    def _undecided(self) -> Iterator[str]:
        namespace = self._p.name.encode()
        logs = [(k, list_segments(self._p.directory(k.order) / "log")) for k in self._generations.kept if k.has_log]
        oldest = base_of(logs[0][0].order) + logs[0][1][0]
        missing: dict[tuple[str, UserKey | None], int] = {}
        for name, state in self._states():
            for primary, value in state.rows(b"entries"):
                row = decode_entry(primary, value)
                if row.at >= oldest:
                    missing[name, row.key] = row.at
        for k, segments in logs:
            reader = Reader(self._p.directory(k.order) / "log", namespace, RecordPlace(segments[0], segments[0], 0))
            for place, record, payload in reader:
                at = base_of(k.order) + place.offset + payload.changes - 1
                for event in events_of(record, payload, k.order):
                    if event.has_data and missing.get((event.namespace, event.key), at + 1) <= at:
                        del missing[event.namespace, event.key]
        for (_, key), at in missing.items():
            yield f"log: no change since {cursor_of(at)}, which wrote the entry {key!r}, has its data"

    def _replayed(self, reader: Reader) -> Iterator[str]:
        with tempfile.TemporaryDirectory(prefix="journal-check-") as folder:
            file = LmdbFile(Path(folder) / "rows.mdb", DATABASES)
            try:
                rows = GenerationRows(file, self._p.order)
                state = Namespaces([rows]) if isinstance(self._state, Namespaces) else JournalState([rows])
                is_whole = True
                for place, record, payload in reader:
                    is_whole = is_whole and type(payload.effect) is not fx.Skip
                    at = base_of(self._p.order) + place.offset
                    if is_whole and isinstance(state, Namespaces):
                        state.apply_to(record.namespace, payload.effect, at)
                    elif is_whole:
                        state.apply(payload.effect, at)
                if not is_whole:
                    return  # compacted: the last changes do not make the rows
                state.flush()
                state.save_leases()
                for name in _COMPARED:
                    read = _leases_now if name == b"leases" else _as_stored
                    yield from _differ(f"replayed {name.decode()}", read(state, name), read(self._state, name))
                if list(state.finished.tokens) != list(self._state.finished.tokens):
                    yield "replayed: the finished tokens differ"
                if not isinstance(state, Namespaces) and state.once.numbers != self._state.once.numbers:
                    yield "replayed: the numbers of loads differ"
            finally:
                file.abandon()


def _nobodys(p: Merging) -> Iterator[str]:
    """Rows and counts of shared files (rows B1, states M1)."""
    states = p.state
    for name in states.names():
        if name != OWN and name not in p.known:
            yield f"there are rows of {name!r}, which is no journal of the store"
        for rows in states.state_of(name).generations:
            for database in (b"entries", b"buried", b"successors"):
                counted = sum(1 for _ in rows.all(rows.file.databases[database]))
                if counted != rows.size(database):
                    yield f"{name!r} has {counted} {database.decode()} in generation {rows.order}, {rows.size(database)} are kept"


def _rows(state: JournalState) -> Iterator[str]:
    """Each index against the entries (reader X1, X2, X3)."""
    keys, expirations, owners = {}, set(), set()
    collisions = 0
    for primary, value in state.rows(b"entries"):
        try:
            row = decode_entry(primary, value)
        except StorageError as e:
            yield str(e)
            continue
        slot = primary[SLOT_AT:]
        if murmur(key_bytes(row.key)) != slot[:16]:
            yield f"entry {row.key!r}: its slot {slot.hex()} is not the murmur of its key"
        if slot in keys:
            yield f"slot {slot.hex()} has two entries"
        keys[slot] = primary
        collisions += bool(slot[16])
        if row.owner:
            owners.add(owner_key(row.owner, primary))
        if row.expiration and primary not in state.leases.by_primary:
            expirations.add(expiration_key(row.expiration, primary))
    yield from _differ("keys", keys, dict(state.rows(b"keys")))
    yield from _differ("expirations", dict.fromkeys(expirations, b""), dict(state.rows(b"expirations")))
    yield from _differ("owners", dict.fromkeys(owners, b""), dict(state.rows(b"owners")))
    if collisions != state.collisions:
        yield f"collisions: counted {collisions}, kept {state.collisions}"
    yield from _twins(state, keys)
    yield from _dependents(state, keys)
    for rows in state.generations:
        yield from _buckets(rows)


def _twins(state: JournalState, keys: dict[bytes, bytes]) -> Iterator[str]:
    """No user key twice among the slots of one murmur."""
    for slot, primary in keys.items():
        if slot[16] == 0:
            continue
        row = state.entry(primary)
        for ordinal in range(slot[16]):
            other = keys.get(slot[:16] + bytes((ordinal,)))
            if other is not None and state.entry(other).key == row.key:
                yield f"the key {row.key!r} has two entries"


def _dependents(state: JournalState, keys: dict[bytes, bytes]) -> Iterator[str]:
    """Rows that stand beside an entry: leases, successors; and the buried ones, which stand alone."""
    primaries = set(keys.values())
    for primary, value in state.rows(b"leases"):
        try:
            decode_lease(primary, value)
        except StorageError as e:
            yield str(e)
        if primary not in primaries:
            yield f"leases: {primary.hex()} has no entry"
    for slot, value in state.rows(b"successors"):
        try:
            decode_successor(slot, value)
        except StorageError as e:
            yield str(e)
        if keys.get(slot) not in state.leases.by_primary:
            yield f"successors: slot {slot.hex()} is not processing"
    graves = {}
    for name, value in state.rows(b"buried"):
        graves[grave_key(name)] = b""
        try:
            row: Row = decode_buried(name, value).row
            if murmur(key_bytes(row.key)) != grave_key(name)[:16]:
                yield f"buried: {name.hex()} has not the murmur of its key {row.key!r}"
        except StorageError as e:
            yield str(e)
    yield from _differ("graves", graves, dict(state.rows(b"graves")))


def _memory(state: JournalState, now: int) -> Iterator[str]:
    """What is in memory against the rows (leases H1, H3, H5; order O1, O4)."""
    leases = state.leases
    stored = {primary: decode_lease(primary, value) for primary, value in state.rows(b"leases")}
    processing = {primary: state.steps.moved_lease(row) for primary, row in stored.items() if row.status == PROCESSING}
    expired = {primary: row for primary, row in stored.items() if row.status != PROCESSING}
    yield from _differ("leases in memory", processing, {p: h.row() for p, h in leases.by_primary.items()})
    yield from _differ("expired leases in memory", expired, leases.expired_rows)
    if {h.token for h in leases.by_primary.values()} != set(leases.by_token):
        yield "leases: the tokens differ from the primary keys"
    by_consumer: dict[str, set[int]] = {}
    for held in leases.by_token.values():
        by_consumer.setdefault(held.consumer, set()).add(held.token)
    for consumer, tokens in by_consumer.items():
        if {held.token for held in leases.of(consumer)} != tokens:
            yield f"leases: the index by consumer is wrong for {consumer!r}, who has {len(tokens)}"
    successors = {slot for slot, _ in state.rows(b"successors")}
    flagged = {h.primary[SLOT_AT:] for h in leases.by_primary.values() if h.has_successor}
    if successors != flagged:
        yield f"successors: {len(successors)} rows, {len(flagged)} leases that know of one"
    deadline = leases.next_deadline()
    earliest = min((h.deadline for h in leases.by_token.values()), default=None)
    if deadline != earliest:
        yield f"leases: the next deadline is {deadline}, but the earliest lease ends at {earliest}"
    first = state.expirations(1)
    if first and (state.next_expiration is None or state.next_expiration > first[0][0]):
        yield f"expirations: the next is {first[0][0]}, but {state.next_expiration} is kept"
    for primary, _ in state.rows(b"entries"):
        mark, returned, bound = state.order.mark_of(primary[0])
        if primary in leases.by_primary or primary in returned or 0 < state.expiration_of(primary) <= now:
            continue  # a claim passes over what has expired, and the timers remove it (timers Y2)
        if mark is None or primary < mark:
            yield f"order: the waiting entry {primary.hex()} is below the mark and not among the returned"
        if primary < bound:
            yield f"order: the waiting entry {primary.hex()} is below the bound {bound.hex()}"


def _buckets(rows: GenerationRows) -> Iterator[str]:
    """The index by bucket (bucket_index Y1)."""
    index = rows.index
    expected = set() if index is None else {index.key(p) for p, _ in rows.all(rows.entries) if p < index.upto}
    yield from _differ(
        f"buckets of generation {rows.order}", dict.fromkeys(expected, b""), dict(rows.all(rows.buckets))
    )


def _ranges(state: JournalState, now: int) -> Iterator[str]:
    """Every waiting entry is found by the orders of the ranges in use (range_order J1)."""
    ranges = state.order
    if not isinstance(ranges, Ranges):
        return
    for rows in state.generations:
        if rows.index is None or not rows.index.is_complete:
            yield f"buckets: ranges are in use, but generation {rows.order} is not indexed"
        for primary, _ in rows.all(rows.entries):
            bucket = bucket_of(primary, ranges.buckets, SLOT_AT)
            for order in ranges.all():
                if bucket not in order.part or primary in state.leases.by_primary or order.finds(rows, primary):
                    continue
                if not 0 < state.expiration_of(primary) <= now:
                    yield f"order of the buckets {order.part}: the waiting entry {primary.hex()} would not be found"


def _homes(state: JournalState) -> Iterator[str]:
    """What is said of single generations (reader X1)."""
    for held in state.leases.by_primary.values():
        if held.home.get(held.primary, db=held.home.entries) is None:
            yield f"generations: the entry of lease {held.token} is not in generation {held.home.order}"
    for rows in state.generations:
        counted = sum(1 for slot, _ in rows.all(rows.keys) if slot[16])
        if counted != rows.collisions:
            yield f"collisions of generation {rows.order}: counted {counted}, kept {rows.collisions}"


def _as_stored(state: JournalState, name: bytes) -> dict[bytes, object]:
    return dict(state.rows(name))


def _leases_now(state: JournalState, name: bytes) -> dict[bytes, object]:
    """The leases by the clock of now: rows have the dates of their `at`, and when a row is written anew differs (clock_steps D2)."""
    found: dict[bytes, object] = {}
    for key, value in state.rows(name):
        lease = decode_lease(unprefixed(key) if isinstance(state, Namespaces) else key, value)
        if lease.status == PROCESSING:
            lease = state.steps.moved_lease(lease)._replace(at=0)
        found[key] = lease
    return found


def _differ(what: str, expected: Mapping[bytes, object], found: Mapping[bytes, object]) -> Iterator[str]:
    for name in expected.keys() - found.keys():
        yield f"{what}: {name.hex()} is missing"
    for name in found.keys() - expected.keys():
        yield f"{what}: {name.hex()} should not be there"
    for name in expected.keys() & found.keys():
        if expected[name] != found[name]:
            yield f"{what}: {name.hex()} differs"
