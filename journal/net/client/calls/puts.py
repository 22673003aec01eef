"""The verbs of producers as calls. What they do says journal.Journal; see journal.net.client.calls.call."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from functools import partial
from typing import Any

from journal.core.arguments import check_priority, listed, owner_bytes, version_number
from journal.core.entry import priority as priorities
from journal.core.entry.keys import UserKey, key_bytes
from journal.core.entry.rows import pack_data
from journal.core.limits import GROUP_MAX, KEY_BYTES_MAX, LIST_MAX, PRIORITY_MAX
from journal.core.log.cursor import Cursor
from journal.core.quoting import shown
from journal.core.requests.registry import COMMANDS
from journal.core.requests.request import Retry
from journal.core.times import DateLike, DurationLike, date_ms, duration_ms
from journal.core.values import Delete, Move, Put, PutResult
from journal.errors import Invalid, JournalError
from journal.net.client.calls.call import Call, Steps, as_it_is, call
from journal.net.wire.frames import TooLong
from journal.net.wire.limits import DEFAULT
from journal.net.wire.values import COLUMNS, deleted_from, result_from

GROUP_BYTES = DEFAULT.frame_bytes_max * 3 // 4
"""What of a group is sent in one frame, by a guess that is never too low for what it leaves free. Where frames are smaller it is halved."""
_ITEM_BYTES = 160
"""The names and numbers of one item."""
_PUT = COMMANDS["PUT"]
_COLUMNS = len(COLUMNS["result"])
_new = tuple.__new__  # a NamedTuple without the call of its __new__, a Python function


def put(
    journal: str,
    key: UserKey | None,
    data: Any = None,
    *,
    priority: int = priorities.DEFAULT,
    process_date: DateLike | None = None,
    delay: DurationLike | None = None,
    expiration: DateLike | None = None,
    insertion_date: DateLike | None = None,
    owner: str | None = None,
    version: int | None = None,
    durability: str | None = None,
) -> Call[PutResult]:
    """
    Add an entry, or merge it into the one with this key; the result says which.

    With a schema the data is checked, and the key may be None when the schema says what forms it. With `version`, the one
    that the caller has read: VersionMismatch when it is another one by now; 0: when there is an entry.
    """
    if (
        type(key) is str
        and type(priority) is int
        and process_date is None
        and delay is None
        and expiration is None
        and insertion_date is None
        and owner is None
        and version is None
        and key.isascii()
        and 0 < len(key) <= KEY_BYTES_MAX
        and 0 <= priority <= PRIORITY_MAX
    ):
        # The usual put, without a call for each step.
        item: dict[str, Any] = {"key": key, "data": pack_data(data)}
        if priority != priorities.DEFAULT:
            item["priority"] = priority
        if durability is not None:
            item["durability"] = durability
        return _new(Call, (_PUT, journal, item, one_result, False, None))
    item = _put(key, data, priority, process_date, delay, expiration, insertion_date, owner, version)
    made = call("PUT", journal, one_result, **item, durability=durability)
    return made if version is None else _once(made)


def _once(made: Call[Any]) -> Call[Any]:
    """The same call, not to be made again by another daemon: what it has put would refuse it."""
    return made._replace(command=replace(made.command, retry=Retry.REQUEST))


def create(
    journal: str,
    key: UserKey | None,
    data: Any = None,
    *,
    priority: int = priorities.DEFAULT,
    process_date: DateLike | None = None,
    delay: DurationLike | None = None,
    expiration: DateLike | None = None,
    insertion_date: DateLike | None = None,
    owner: str | None = None,
    is_repeatable: bool = False,
    durability: str | None = None,
) -> Call[PutResult]:
    """
    Add an entry; KeyExists when there is one with this key.

    With `is_repeatable` an entry that has the same data and the same owner is the outcome "exists" instead, so a caller that
    got no answer can retry. Nothing is changed then, and the result has the version, the dates and the cursor of what is there.
    """
    item = _put(key, data, priority, process_date, delay, expiration, insertion_date, owner)
    return call("CREATE", journal, one_result, **item, is_repeatable=is_repeatable or None, durability=durability)


def put_many(
    journal: str, puts: Iterable[Put], *, durability: str | None = None
) -> Steps[list[PutResult | JournalError]]:
    """
    Put a group: one record, one sync; all that is not refused stands or falls together. A group that is larger than a
    frame (1 MiB) is several records, one after the other.

    The list has a result or an error for each put, in order. A key that comes twice is merged as it would be.
    """
    return _group("PUT_MANY", journal, "puts", listed(puts, "put_many"), item_of_put, result_from, durability)


def create_many(
    journal: str, puts: Iterable[Put], *, is_repeatable: bool = False, durability: str | None = None
) -> Steps[list[PutResult | JournalError]]:
    """Create a group, as `put_many` puts one: KeyExists for a key that is there; `is_repeatable` as for `create`."""
    more = {"is_repeatable": True} if is_repeatable else {}
    return _group(
        "CREATE_MANY", journal, "puts", listed(puts, "create_many"), item_of_put, result_from, durability, more
    )


def delete(
    journal: str,
    key: UserKey,
    *,
    owner: str | None = None,
    version: int | None = None,
    durability: str | None = None,
) -> Call[bool]:
    """Remove an entry that is under no active lease; False when there is none."""
    return call(
        "DELETE", journal, as_it_is, **_delete(Delete(key, owner=owner, version=version)), durability=durability
    )


def move(
    journal: str,
    key: UserKey,
    *,
    process_date: DateLike | None = None,
    delay: DurationLike | None = None,
    priority: int | None = None,
    owner: str | None = None,
    version: int | None = None,
    durability: str | None = None,
) -> Call[PutResult]:
    """Give an entry that is under no active lease another date or priority."""
    item = _move(Move(key, process_date=process_date, delay=delay, priority=priority, owner=owner, version=version))
    return call("MOVE", journal, one_result, **item, durability=durability)


def move_many(
    journal: str, moves: Iterable[Move], *, durability: str | None = None
) -> Steps[list[PutResult | JournalError]]:
    """
    Move a group: one record, one sync; all that is not refused stands or falls together. A group that is larger than a
    frame is several records.

    The list has a result or an error for each, in order: NotFound, NotOwner, VersionMismatch, Leased, Invalid.
    """
    return _group("MOVE_MANY", journal, "moves", listed(moves, "move_many"), _move, result_from, durability)


def delete_many(
    journal: str, deletes: Iterable[Delete | UserKey], *, durability: str | None = None
) -> Steps[list[bool | JournalError]]:
    """
    Delete a group, given as keys or as journal.Delete: one record, one sync; larger than a frame: several.

    The list says of each whether there was an entry, or why it was not deleted: NotOwner, VersionMismatch, Leased.
    """
    items = listed(deletes, "delete_many")
    return _group("DELETE_MANY", journal, "deletes", items, _delete, deleted_from, durability)


def one_result(value: Any) -> PutResult:
    """What a put came to."""
    if type(value) is list and len(value) == _COLUMNS:
        outcome, cursor, version, date, priority = value
        if type(cursor) is list and len(cursor) == 2 and type(cursor[0]) is int and type(cursor[1]) is int:
            return _new(PutResult, (outcome, _new(Cursor, cursor), version, date, priority))
    result = result_from(value)
    if isinstance(result, JournalError):
        raise result
    return result


# -- items ----------------------------------------------------------------------------------------------------------------


def _put(
    key: UserKey | None,
    data: Any,
    priority: int,
    process_date: DateLike | None,
    delay: DurationLike | None,
    expiration: DateLike | None,
    insertion_date: DateLike | None,
    owner: str | None,
    version: int | None = None,
) -> dict[str, Any]:
    if key is not None:
        key_bytes(key)
    item: dict[str, Any] = {"key": key, "data": pack_data(data)}
    if type(priority) is not int or not 0 <= priority <= PRIORITY_MAX:
        check_priority(priority)
    if priority != priorities.DEFAULT:
        item["priority"] = priority
    if process_date is not None and delay is not None:
        raise Invalid("give process_date or delay, not both")
    for name, date in (("process_date", process_date), ("expiration", expiration), ("insertion_date", insertion_date)):
        if date is not None:
            item[name] = date_ms(date, name)
    if delay is not None:
        item["delay"] = duration_ms(delay, "delay")
    if owner is not None:
        owner_bytes(owner)
        item["owner"] = owner
    if version is not None:
        item["version"] = version_number(version)
    if key is None:
        del item["key"]
    return item


def check_put(item: Any) -> None:
    """What a group is made of."""
    if type(item) is not Put:
        raise Invalid(f"a group has journal.Put objects, not {item!r}")


def item_of_put(item: Put) -> dict[str, Any]:
    """A put as it is sent."""
    check_put(item)
    options = item.options
    return _put(item.key, item.data, item.priority, *((None,) * 6 if options is None else options))


def _move(item: Move) -> dict[str, Any]:
    if not isinstance(item, Move):
        raise Invalid(f"move_many takes journal.Move objects, not {item!r}")
    if item.process_date is not None and item.delay is not None:
        raise Invalid("give process_date or delay, not both")
    if item.process_date is None and item.delay is None and item.priority is None:
        raise Invalid("move needs a process_date, a delay or a priority")
    key_bytes(item.key)
    given = {
        "process_date": None if item.process_date is None else date_ms(item.process_date, "process_date"),
        "delay": None if item.delay is None else duration_ms(item.delay, "delay"),
        "priority": None if item.priority is None else check_priority(item.priority),
    }
    return {"key": item.key} | _given(given) | _whose(item.owner, item.version)


def _delete(item: Delete | UserKey) -> dict[str, Any]:
    if not isinstance(item, Delete):
        item = Delete(item)
    key_bytes(item.key)
    return {"key": item.key} | _whose(item.owner, item.version)


def _whose(owner: str | None, version: int | None) -> dict[str, Any]:
    if owner is not None:
        owner_bytes(owner)
    version_number(version)
    return _given({"owner": owner, "version": version})


def _given(values: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value is not None}


# -- groups ---------------------------------------------------------------------------------------------------------------


def _group(
    command: str,
    journal: str,
    name: str,
    items: list[Any],
    item_of: Callable[[Any], dict[str, Any]],
    read: Callable[[Any], Any],
    durability: str | None,
    more: dict[str, Any] | None = None,
) -> Steps[list[Any]]:
    """Send a group in as many frames as it needs. What is not acceptable gets its error here, in its place."""
    if len(items) > GROUP_MAX:
        raise Invalid(f"{command.lower()} takes up to {GROUP_MAX} entries, not {len(items)}: split the group")
    if name == "puts":
        for item in items:
            check_put(item)
    return _sent(command, journal, name, items, item_of, read, {"durability": durability, **(more or {})})


def _sent(
    command: str,
    journal: str,
    name: str,
    items: list[Any],
    item_of: Callable[[Any], dict[str, Any]],
    read: Callable[[Any], Any],
    more: dict[str, Any],
) -> Steps[list[Any]]:
    results: list[Any] = [None] * len(items)
    for places, part in parts(items, item_of, results):
        yield from sent_part(partial(call, command, journal, as_it_is, **more), name, places, part, read, results)
    return results


def sent_part(
    ask: Callable[..., Call[Any]],
    name: str,
    places: list[int],
    part: list[dict[str, Any]],
    read: Callable[[Any], Any],
    results: list[Any],
) -> Steps[None]:
    """Send a part of a group. Frames may be smaller than was guessed: then in halves, down to the item that fits into none."""
    asking = ask(**{name: part})
    if name == "puts" and any("version" in item for item in part):
        asking = _once(asking)
    try:
        answers = yield asking
    except TooLong as e:
        if len(part) == 1:
            results[places[0]] = Invalid(f"the entry {shown(part[0].get('key'))} fits into no frame: {e}")
            return
        half = len(part) // 2
        for cut in (slice(half), slice(half, None)):
            yield from sent_part(ask, name, places[cut], part[cut], read, results)
        return
    for place, answer in zip(places, answers, strict=True):
        results[place] = read(answer)


def parts(
    items: list[Any], item_of: Callable[[Any], dict[str, Any]], results: list[Any]
) -> Iterator[tuple[list[int], list[dict[str, Any]]]]:
    """The parts of a group that fit into a frame each, with the places of their items; errors go into the results."""
    places: list[int] = []
    part: list[dict[str, Any]] = []
    size = 0
    for place, item in enumerate(items):
        try:
            wire = item_of(item)
        except Invalid as e:
            results[place] = e
            continue
        room = _ITEM_BYTES + len(wire.get("data", b"")) + 4 * len(wire.get("key", ()))
        if part and (size + room > GROUP_BYTES or len(part) >= LIST_MAX):
            yield places, part
            places, part, size = [], [], 0
        places.append(place)
        part.append(wire)
        size += room
    if part:
        yield places, part
