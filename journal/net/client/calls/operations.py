"""The verbs of operators, as calls. journal.Store documents what they do; see journal.net.client.calls.call."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import timedelta
from typing import Any

from journal.core.arguments import name_text, reason_text
from journal.core.limits import FLAG_BYTES_MAX
from journal.core.quoting import shown
from journal.core.schema.schema import Schema
from journal.core.settings import Settings, check_name, from_map
from journal.core.times import duration_ms
from journal.core.values import Flag
from journal.errors import FrameError, Invalid
from journal.net.client.calls.call import Call, Steps, as_it_is, call, nothing, part_of_list
from journal.net.wire.values import flag_from


def settings(journal: str) -> Call[Settings]:
    """How a journal behaves."""
    return call("SETTINGS", journal, from_map)


def schema(journal: str) -> Call[Schema | None]:
    """All fields that the data may have: the union over the generations that are left."""
    return call("SETTINGS", journal, _read_union)


def _read_union(value: Any) -> Schema | None:
    union = value.get("union")
    return None if union is None else Schema.from_dict(union)


def declare(journal: str, settings: dict[str, Any]) -> Call[Settings]:
    """Open a journal, or declare it."""
    return call("DECLARE", journal, from_map, settings=_plain(settings))


def merged(settings: dict[str, Any]) -> Call[Settings]:
    """The settings that merged journals have together."""
    return call("MERGED", "", from_map, settings=_plain(settings) or None)


def raise_flag(journal: str, name: str, message: str, *, durability: str | None = None) -> Call[None]:
    """Have a person look at something: raise a flag, or raise it once more; `store.flags()` shows it until it is lowered."""
    name_text(name, "name", FLAG_BYTES_MAX)
    reason_text(message)
    return call("RAISE_FLAG", journal, nothing, name=name, message=message, durability=durability)


def pause(journal: str, reason: str = "", *, durability: str | None = None) -> Call[None]:
    """
    Hand nothing out until `resume`, over restarts too; a journal that is paused already gets another reason.

    Claims find nothing and workers sleep. Puts, done, extend and release go on, and so do timers. The flag "paused" says
    why and since when, and so does `statistics()`; it goes with `resume` and cannot be lowered.
    """
    return call("PAUSE", journal, nothing, reason=reason_text(reason) or None, durability=durability)


def resume(journal: str, *, durability: str | None = None) -> Call[bool]:
    """Hand out again what is due, and wake sleeping workers; False when the journal was not paused."""
    return call("RESUME", journal, as_it_is, durability=durability)


def ping(**reckoned: Any) -> Call[tuple[int, int]]:
    """The heartbeat: when the daemon received it and answered, by its own clock."""
    return call("PING", "", _read_pong, **reckoned)


def now() -> Call[int]:
    """The daemon's time."""
    return call("PING", "", lambda value: _read_pong(value)[1])


def _read_pong(value: Any) -> tuple[int, int]:
    match value:
        case {"received": int(received), "answered": int(answered)}:
            return received, answered
    raise FrameError(f"{shown(value)} is no answer to PING: it has received and answered")


def register(name: str) -> Call[None]:
    """Give the connection a name."""
    return call("REGISTER", "", nothing, service=name)


def listen(port: int, journals: Iterable[str], listener: int | None = None) -> Call[dict[str, Any]]:
    """Ask for datagrams to this port when something falls due; with `listener`: renew that."""
    return call("LISTEN", "", as_it_is, port=port, journals=sorted(journals), listener=listener)


def unlisten(listener: int) -> Call[bool]:
    """Ask for no more."""
    return call("UNLISTEN", "", as_it_is, listener=listener)


def journals() -> Steps[list[str]]:
    """The names of all journals."""
    found: list[str] = []
    after: bytes | None = None
    while True:
        answer = yield call("JOURNALS", "", as_it_is, after=after)
        rows, after = part_of_list(answer, "journals")
        found += rows
        if after is None:
            return found


def flags() -> Call[list[Flag]]:
    """What a person must look at."""
    return call("FLAGS", "", lambda rows: [flag_from(row) for row in rows])


def lower(flag: Flag) -> Call[None]:
    """A person has looked: take a flag down."""
    if not isinstance(flag, Flag):
        raise Invalid(f"{flag!r} is no journal.Flag, as store.flags() returns them")
    return call("LOWER", "", nothing, journal=flag.journal, name=flag.name)


def drop(name: str) -> Call[None]:
    """Delete a journal with all that is in it, also what is under a lease."""
    check_name(name)
    return call("DROP", name, nothing)


def statistics() -> Call[dict[str, Any]]:
    """Counters and sizes of the store and of its journals."""
    return call("STORE_STATISTICS", "", as_it_is)


def checkpoint() -> Call[None]:
    """Commit everything to LMDB now, so that readers outside of the daemon see it."""
    return call("CHECKPOINT", "", nothing)


def check(*, deep: bool = False) -> Call[list[str]]:
    """Recompute every index, counter and invariant from the entries and the log; what differs, in words."""
    return call("CHECK", "", as_it_is, deep=deep or None)


def _plain(settings: dict[str, Any]) -> dict[str, Any]:
    """Settings as they can be sent."""
    return {name: _value(name, value) for name, value in settings.items()}


def _value(name: str, value: Any) -> Any:
    if isinstance(value, Schema):
        return value.to_dict()
    return duration_ms(value, name) if isinstance(value, timedelta) else value
