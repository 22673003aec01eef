"""
What replies and pushes hold: the columns of each value on the wire, and the way there and back.

A value is a list of its columns in the order of COLUMNS. Data travels packed, a cursor as [order, offset], an error in the
place of a result as a map {"code", "message", "fields"}.

W1  `x_from(x_to(v)) == v`. Reading is strict about the number of columns: a version of the protocol fixes it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeVar

from journal.core.entry.keys import PRIMARY_BYTES, UserKey
from journal.core.entry.rows import BuriedRow, Row, place, unpack_data
from journal.core.forecast.forecast import Forecast, Load
from journal.core.log.cursor import Cursor
from journal.core.log.events import Event, More, Where
from journal.core.quoting import shown
from journal.core.snapshot_blocks import Block
from journal.core.values import (
    Buried,
    Compacted,
    Entry,
    FeedView,
    Flag,
    Generation,
    Keeping,
    Loaded,
    Page,
    PutResult,
    Rejected,
)
from journal.errors import FrameError, JournalError
from journal.net.wire.error_codes import from_wire, to_wire

T = TypeVar("T")
_new = tuple.__new__  # a NamedTuple without the call of its __new__, a Python function


class LentRow(NamedTuple):
    """A lease as it is handed over."""

    key: UserKey
    data: bytes
    """Packed."""
    priority: int
    process_date: int
    deadline: int
    token: int
    timeouts: int
    version: int
    consumer: str
    start: int
    owner: str | None
    insertion_date: int
    expiration: int

    @property
    def group(self) -> str | None:
        """The producer group of the entry, by the name that journal.Lease reads."""
        return self.owner


COLUMNS: dict[str, tuple[str, ...]] = {
    "result": ("outcome", "cursor", "version", "process_date", "priority"),
    "lease": LentRow._fields,
    "entry": (
        "key", "data", "priority", "process_date", "insertion_date", "expiration", "status", "timeouts", "owner", "version",
        "start_date",
    ),
    "buried": ("entry", "reason", "date"),
    "flag": ("journal", "name", "message", "raised", "modified", "count"),
    "generation": Generation._fields,
    "keeping": Keeping._fields,
    "compacted": Compacted._fields,
    "forecast": ("now", "step_ms", "overdue", "steps", "later"),
    "load": ("start", "end", "counts"),
    "feed": FeedView._fields,
    "loaded": (
        "cursor", "inserted", "merged", "replaced", "queued", "ignored", "skipped", "is_repeated", "rejected",
    ),
    "rejected": Rejected._fields,
    "block": Block._fields,
    "event": ("order", "timestamp", "mode", "namespace", "offset", "op", "verb", "primary", "value", "more"),
}  # fmt: skip
"""What a value of each kind consists of."""


def _columns(kind: str, value: Any) -> list[Any]:
    if type(value) is not list or len(value) != len(COLUMNS[kind]):
        raise FrameError(f"a {kind} has {len(COLUMNS[kind])} columns, not {shown(value)}")
    return value


def _reading(kind: str, make: Callable[[], T]) -> T:
    """A value that its columns do not fit is the other side's error."""
    try:
        return make()
    except (TypeError, ValueError, IndexError, AttributeError) as e:
        raise FrameError(f"a {kind} with columns that do not fit: {shown(str(e))}") from e


def cursor_to(cursor: Cursor) -> list[int]:
    """A cursor on the wire."""
    return list(cursor)


def cursor_from(value: Any) -> Cursor:
    """A cursor from the wire."""
    if type(value) is not list or [type(part) for part in value] != [int, int]:
        raise FrameError(f"{shown(value)} is no cursor: [order, offset]")
    return Cursor(*value)


def result_to(result: PutResult | JournalError) -> Any:
    """What a put came to, or its error."""
    if isinstance(result, JournalError):
        return error_to(result)
    return [result[0], list(result[1]), *result[2:]]


def result_from(value: Any) -> PutResult | JournalError:
    """What a put came to, or its error."""
    if type(value) is dict:
        return error_from(value)
    outcome, cursor, *rest = _columns("result", value)
    return PutResult(outcome, cursor_from(cursor), *rest)


def deleted_from(value: Any) -> bool | JournalError:
    """Whether there was an entry to delete, or why it was not deleted."""
    return value if type(value) is bool else error_from(value)


def error_to(error: BaseException | None) -> Any:
    """An error within a result; None where there was none."""
    return None if error is None else dict(zip(("code", "message", "fields"), to_wire(error), strict=True))


def error_from(value: Any) -> JournalError:
    """An error within a result."""
    match value:
        case {"code": str(code), "message": str(message), "fields": dict(fields)}:
            return from_wire(code, message, fields)
    raise FrameError(f"{shown(value)} is no error: it has code, message and fields")


def lease_from(value: Any) -> LentRow:
    """A lease from the wire."""
    return _new(LentRow, _columns("lease", value))


def lease_to(held: Any, data: bytes, insertion: int) -> list[Any]:
    """A lease on the wire, of what a claim takes (journal.engine.work.claim.Taken)."""
    priority, process_date = place(held.primary)
    owner = held.owner
    return [
        held.key, data, priority, process_date, held.deadline, held.token, held.timeouts, held.version, held.consumer,
        held.start, owner.decode() if owner else None, insertion, held.expiration,
    ]  # fmt: skip


def entry_to(row: Row, status: str = "W", start: int = 0) -> list[Any]:
    """An entry on the wire, as journal.core.values.entry_of makes one."""
    priority, process_date = place(row.primary)
    return [
        row.key, row.data, priority, process_date, row.insertion, row.expiration, status, row.timeouts,
        row.owner.decode() or None, row.version, start,
    ]  # fmt: skip


def entry_from(value: Any) -> Entry:
    """An entry from the wire."""
    key, data, *rest = _columns("entry", value)
    return _reading("entry", lambda: Entry(key, unpack_data(data), *rest))


def page_from(value: Any) -> Page:
    """Some entries from the wire."""
    match value:
        case {"entries": list(entries), "after": None | bytes() as after}:
            return Page(
                [entry_from(entry) for entry in entries], after is not None, None if after is None else after.hex()
            )
    raise FrameError(f"{shown(value)} is no page: it has entries and after")


def buried_to(buried: BuriedRow) -> list[Any]:
    """A buried entry on the wire."""
    return [entry_to(buried.row, "B"), buried.reason, buried.date]


def buried_from(value: Any) -> Buried:
    """A buried entry from the wire."""
    entry, reason, date = _columns("buried", value)
    return Buried(entry_from(entry), reason, date)


def flag_to(flag: Flag) -> list[Any]:
    """A flag on the wire."""
    return [getattr(flag, name) for name in COLUMNS["flag"]]


def flag_from(value: Any) -> Flag:
    """A flag from the wire."""
    return Flag(*_columns("flag", value))


def generation_to(generation: Generation) -> list[Any]:
    """A generation on the wire."""
    *rest, kept_by, first, last, consumers = generation
    return [*rest, list(kept_by), first and list(first), last and list(last), list(consumers)]


def generation_from(value: Any) -> Generation:
    """A generation from the wire."""
    *rest, kept_by, first, last, consumers = _columns("generation", value)
    return _reading(
        "generation",
        lambda: Generation._make([*rest, tuple(kept_by), _keeping_from(first), _keeping_from(last), tuple(consumers)]),
    )


def _keeping_from(value: Any) -> Keeping | None:
    return None if value is None else Keeping(*_columns("keeping", value))


def forecast_to(forecast: Forecast) -> list[Any]:
    """The load ahead on the wire."""
    steps = [_load_to(step) for step in forecast.steps]
    return [forecast.now, forecast.step_ms, _load_to(forecast.overdue), steps, _load_to(forecast.later)]


def forecast_from(value: Any) -> Forecast:
    """The load ahead from the wire."""
    now, step_ms, overdue, steps, later = _columns("forecast", value)
    return _reading(
        "forecast",
        lambda: Forecast(now, step_ms, _load_from(overdue), tuple(map(_load_from, steps)), _load_from(later)),
    )


def _load_to(load: Load) -> list[Any]:
    return [load.start, load.end, [[priority, status, count] for (priority, status), count in load.counts.items()]]


def _load_from(value: Any) -> Load:
    start, end, counts = _columns("load", value)
    return Load(start, end, {(priority, status): count for priority, status, count in counts})


def compacted_from(value: Any) -> Compacted:
    """What compaction came to; to the wire it is `list(compacted)`."""
    return Compacted(*_columns("compacted", value))


def loaded_to(loaded: Loaded) -> list[Any]:
    """What a load came to, on the wire."""
    cursor, *rest, _ = (getattr(loaded, name) for name in COLUMNS["loaded"])
    return [cursor_to(cursor), *rest, [list(each) for each in loaded.rejected]]


def loaded_from(value: Any) -> Loaded:
    """What a load came to, from the wire."""
    cursor, *counts, is_repeated, rejected = _columns("loaded", value)
    if not {int}.issuperset(map(type, counts)) or type(is_repeated) is not bool or type(rejected) is not list:
        raise FrameError(f"a loaded with columns that do not fit: {shown(value)}")
    rows = [Rejected(*_columns("rejected", each)) for each in rejected]
    return Loaded(cursor_from(cursor), **dict(zip(COLUMNS["loaded"][1:], [*counts, is_repeated, rows], strict=True)))


def feed_to(view: FeedView) -> list[Any]:
    """A feed consumer on the wire."""
    return [view.name, cursor_to(view.position), view.lag, view.held_bytes, view.mode, view.is_open]


def feed_from(value: Any) -> FeedView:
    """A feed consumer from the wire."""
    name, position, *rest = _columns("feed", value)
    return FeedView(name, cursor_from(position), *rest)


def event_to(event: Event) -> list[Any]:
    """An event on the wire: the bytes that the log has, which the client reads as the engine would."""
    where, offset, op, verb, primary, value, more = event
    return [where.order, where.timestamp, where.mode, where.namespace, offset, op, verb, primary, value, list(more)]


def event_from(value: Any, blank: dict[str, Any] | None = None) -> Event:
    """An event from the wire; `blank` has a None for each field of the journal's schemas, as FEED_OPEN answered."""
    order, timestamp, mode, namespace, offset, op, verb, primary, entry, more = _columns("event", value)
    if type(more) is not list or not {bytes, type(None)}.issuperset((type(primary), type(entry))):
        raise FrameError(f"an event at {shown(offset)} with columns that do not fit")
    where = Where(order, timestamp, mode, namespace, blank)
    return _reading("event", lambda: Event((where, offset, op, verb, primary, entry, More(*more))))


def block_to(block: Block) -> list[Any]:
    """A block on the wire: the primary keys as one piece of bytes, lease rows as pairs with the number of their entry."""
    return [b"".join(block.primaries), block.values, [[at, value] for at, value in block.leases.items()]]


def block_from(value: Any) -> Block:
    """A block from the wire; its checksums have not been looked at."""
    keys, values, leases = _columns("block", value)
    if (
        type(keys) is not bytes
        or type(values) is not list
        or type(leases) is not list
        or len(keys) != PRIMARY_BYTES * len(values)
        or not {bytes}.issuperset(map(type, values))
    ):
        raise FrameError(f"a block with columns that do not fit: {shown(value)}")
    held: dict[int, bytes] = {}
    for pair in leases:
        match pair:
            case [int(at), bytes(lease)] if 0 <= at < len(values):
                held[at] = lease
            case _:
                raise FrameError(f"{shown(pair)} is no lease of a block: [number of its entry, lease]")
    return Block([keys[at : at + PRIMARY_BYTES] for at in range(0, len(keys), PRIMARY_BYTES)], values, held)


def group_to(results: Sequence[Any]) -> list[Any]:
    """What the items of a group came to: results, errors, and what is on the wire as it is."""
    return [
        [each[0], [*each[1]], *each[2:]]
        if isinstance(each, PutResult)
        else error_to(each)
        if isinstance(each, JournalError)
        else each
        for each in results
    ]
