"""
The commit log of a pipeline: a journal `pipeline-<name>` whose keys are namespaces, and `pipeline-<name>-sinks` with the sinks' offsets.

A record is a block: messages of one namespace with one set of columns, as bytes of Arrow. Messages are numbered from 0 without gaps; a
block says the id of its first one. The entry of a namespace is its last block, so it tells the mode, the source's position and the last
message, and compaction keeps it. A named feed consumer for each sink holds the log back.

G1  `append` returns when its blocks are durable, all of them or none: they are one record.
G2  Ids are given here and by one process: the one that owns the store.
G3  A sink's offset is the last id up to which everything is written, dropped or skipped; ids above it that an operator skipped are kept
    beside it.
G4  The journal lets go of what every sink has acknowledged, but for the last block of each namespace.
"""

from __future__ import annotations

import bisect
import json
import threading
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import pyarrow as pa

import journal
from journal import Journal, Store
from journal.core.log.cursor import Cursor
from journal.errors import Invalid, JournalError
from spark_export.options.common import JournalPlace
from spark_export.pipelines.contract import COMPLETE, COPY, NamespaceState
from spark_export.pipelines.message import messages_of, with_ids
from spark_export.stores.open_store import opened_to_read

FORMAT = 1
BLOCK_ROWS = 10_000
"""Messages of a block: about 1 MB of usual rows, so that a task has work and a sink's batch is cut finely enough."""
_OPTIONS = pa.ipc.IpcWriteOptions(compression="lz4")


class Block(NamedTuple):
    """Where a block is, and what it is about; not its messages."""

    after: Cursor
    cursor: Cursor
    first: int
    messages: int
    namespace: str
    timestamp: int
    """When it was appended (ms)."""
    schema: bytes
    """The serialised schema of its messages, the same object for all blocks that have the same one."""

    @property
    def last(self) -> int:
        """The id of its last message."""
        return self.first + self.messages - 1


class SinkOffset(NamedTuple):
    """What is kept of a sink: how far it is, what was skipped above that, and what stopped it."""

    position: int = -1
    skipped: tuple[int, ...] = ()
    single_until: int = -1
    """Messages up to here are delivered one at a time: a bulk of them has failed."""
    failed_id: int | None = None
    error: str | None = None


def packed(table: pa.Table) -> bytes:
    """Messages as the bytes of a block."""
    out = pa.BufferOutputStream()
    with pa.ipc.new_stream(out, table.schema, options=_OPTIONS) as writer:
        writer.write_table(table)
    return bytes(out.getvalue())


def unpacked(data: dict[str, Any]) -> pa.Table:
    """The messages of a block, with their ids."""
    with pa.ipc.open_stream(data["arrow"]) as reader:
        return with_ids(reader.read_all(), data["first"])


def read_block(place: JournalPlace, after: str, cursor: str) -> pa.Table:
    """The messages of one block, in any process that reaches the store."""
    with opened_to_read(place) as pages:
        for event in pages.changes(Cursor.parse(after), Cursor.parse(cursor)):
            if str(event.cursor) == cursor:
                return unpacked(event.data)
    raise Invalid(
        f"block {cursor} of {place.journal} is not in its log: a sink has acknowledged it, or it was compacted"
    )


class CommitLog:
    """The commit log and the offsets of a pipeline, in a store that is open."""

    def __init__(self, store: Store, pipeline: str, sinks: Sequence[str]) -> None:
        self.pipeline = pipeline
        self.pages: Journal = store.journal(
            f"pipeline-{pipeline}",
            compact=True,
            timeline=f"counter({pipeline})",
            merge="replace",
            entry_bytes_max=64 << 20,
        )
        self.offsets: Journal = store.journal(f"pipeline-{pipeline}-sinks", merge="replace")
        self._lock = threading.Lock()
        self.grown = threading.Condition(self._lock)
        self.blocks: list[Block] = []
        self._schemas: dict[bytes, bytes] = {}
        entries = list(self.pages.scan())
        self.next_id = max((entry.data["first"] + entry.data["count"] for entry in entries), default=0)
        known = {view.name for view in self.pages.feeds()}
        for name in sinks:
            if name not in known:
                self.pages.feed(consumer=name, start="BEGIN", live=False).close()
        self._cursor = self.pages.oldest_cursor
        self._index(self.pages.changes(self._cursor, self.pages.durable_cursor))

    def states(self) -> dict[str, NamespaceState]:
        """What is known of each namespace, for the source."""
        found = {}
        for entry in self.pages.scan():
            data = entry.data
            last = list(messages_of([unpacked(data).slice(max(0, data["count"] - 1), 1)]))
            found[str(entry.key)] = NamespaceState(
                str(entry.key), data["mode"], json.loads(data["position"]), last[0] if last else None
            )
        return found

    def append(self, parts: Sequence[tuple[str, pa.Table | bytes, int, Any]], mode: str) -> int:
        """Append blocks (namespace, messages or their bytes, count, position) as one record (G1); the last id that there is then."""
        puts, first = [], self.next_id
        for namespace, table, count, position in parts:
            arrow = table if isinstance(table, bytes) else packed(table)
            data = {
                "v": FORMAT,
                "first": first,
                "count": count,
                "mode": mode,
                "position": json.dumps(position),
                "arrow": arrow,
            }
            puts.append(journal.Put(namespace, data))
            first += count
        for result in self.pages.put_many(puts):
            if isinstance(result, JournalError):
                raise result
            if result.outcome == "ignored":
                raise Invalid(
                    "the store's clock was set back behind the last message of a namespace: wait until it has passed that time"
                )
        with self.grown:
            self.next_id = first
            self._index(self.pages.changes(self._cursor, self.pages.durable_cursor))
            self.grown.notify_all()
        return first - 1

    def complete(self, namespace: str, position: Any, schema: pa.Schema) -> None:
        """The copy of a namespace is finished: a block without messages of its own says so, and repeats the last one for the reader."""
        entry = self.pages.get(namespace)
        last = schema.empty_table() if entry is None else unpacked(entry.data)
        self.append([(namespace, last.slice(max(0, last.num_rows - 1)), 0, position)], COMPLETE)

    def after(self, position: int, limit: int) -> list[Block]:
        """The blocks with messages above an id, up to about so many messages."""
        with self._lock:
            start = bisect.bisect_right(self.blocks, position, key=lambda block: block.last)
            found: list[Block] = []
            for block in self.blocks[start:]:
                if found and block.last - position > limit:
                    break
                found.append(block)
            return found

    def tables(self, blocks: Iterable[Block]) -> Iterator[pa.Table]:
        """The messages of blocks, on the driver."""
        for block in blocks:
            for event in self.pages.changes(block.after, block.cursor):
                if event.cursor == block.cursor:
                    yield unpacked(event.data)

    def offset(self, sink: str) -> SinkOffset:
        """What is kept of a sink."""
        entry = self.offsets.get(sink)
        return SinkOffset() if entry is None else SinkOffset(**{**entry.data, "skipped": tuple(entry.data["skipped"])})

    def save(self, sink: str, offset: SinkOffset) -> None:
        """Keep a sink's offset, and let go of the blocks that it has acknowledged (G3, G4)."""
        while offset.position + 1 in offset.skipped:
            offset = offset._replace(position=offset.position + 1)
        kept = tuple(number for number in offset.skipped if number > offset.position)
        self.offsets.put(sink, {**offset._asdict(), "skipped": list(kept)})
        with self._lock:
            index = bisect.bisect_right(self.blocks, offset.position, key=lambda block: block.last)
            passed = self.blocks[index - 1].cursor if index else None
        if passed is not None:
            self.pages.mark_feed(sink, passed)

    def forget(self, position: int) -> None:
        """Drop what all sinks have acknowledged from the list of blocks in memory."""
        with self._lock:
            del self.blocks[: bisect.bisect_right(self.blocks, position, key=lambda block: block.last)]

    def _index(self, events: Iterable[Any]) -> None:
        for event in events:
            if event.has_data and event.data["count"]:
                with pa.ipc.open_stream(event.data["arrow"]) as reader:
                    schema = bytes(reader.schema.serialize())
                schema = self._schemas.setdefault(schema, schema)
                data = event.data
                self.blocks.append(
                    Block(
                        self._cursor,
                        event.cursor,
                        data["first"],
                        data["count"],
                        str(event.key),
                        event.timestamp,
                        schema,
                    )
                )
            self._cursor = event.cursor


def mode_of(states: dict[str, NamespaceState], namespace: str) -> str:
    """How far a namespace is; one that is not known has its copy before it."""
    return states[namespace].mode if namespace in states else COPY
