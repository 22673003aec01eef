"""The verbs of producers. See journal.core.requests.request."""

from typing import Annotated, Any

from journal.core.arguments import owner_bytes, version_number
from journal.core.entry import priority as priorities
from journal.core.entry.keys import key_bytes
from journal.core.entry.rows import pack_data
from journal.core.limits import PRIORITY_MAX
from journal.core.requests.fields import (
    Bool,
    Date,
    Duration,
    Key,
    Level,
    Owner,
    Packed,
    Priority,
    Version,
)
from journal.core.requests.parameters import Parameters, one_of_group
from journal.core.requests.request import PRODUCE, Request, RetryRule, request
from journal.core.requests.types import DATE, DURATION, FieldType, list_of
from journal.core.values import Delete, Move, Put, PutOptions, PutResult
from journal.errors import Invalid, JournalError

_DATES = ("process_date", "expiration", "insertion_date")


class _EntryRequest(Request[PutResult]):
    """What an entry is made of."""

    key: Key | None = None
    data: Packed
    priority: Priority = priorities.DEFAULT
    process_date: Date | None = None
    delay: Duration | None = None
    expiration: Date | None = None
    insertion_date: Date | None = None
    owner: Owner | None = None


@request("PUT", PRODUCE, RetryRule.KEY, "result")
class PutRequest(_EntryRequest):
    """Adds an entry or merges it into the one with this key. Without a key: the journal's schema forms it. With a version:
    `version_mismatch` when the entry has another one; 0: when there is one. Such a put is not sent again to another daemon."""

    version: Version | None = None
    durability: Level | None = None

    def __post_init__(self) -> None:
        check_dates(self)


@request("MOVE", PRODUCE, RetryRule.REQUEST, "result")
class MoveRequest(Request[PutResult]):
    """Another date or priority for an entry that is under no lease."""

    key: Key
    process_date: Date | None = None
    delay: Duration | None = None
    priority: Priority | None = None
    owner: Owner | None = None
    version: Version | None = None
    durability: Level | None = None

    def __post_init__(self) -> None:
        check_move(self)


@request("DELETE", PRODUCE, RetryRule.REQUEST, "bool")
class DeleteRequest(Request[bool]):
    """Removes an entry that is under no lease; false when there is none."""

    key: Key
    owner: Owner | None = None
    version: Version | None = None
    durability: Level | None = None


def _given(item: Any, *names: str) -> dict[str, Any]:
    """What of an item of a group is given, as it is sent; checked as a single one is."""
    sent: dict[str, Any] = {}
    for name in names:
        value = getattr(item, name)
        if value is not None:
            accept = MoveRequest.command.parameters[name].kind.accept
            assert accept is not None
            sent[name] = accept(name, value)
    return sent


def put_to(put: Put) -> dict[str, Any]:
    """A put of a group as it is sent."""
    if type(put) is not Put:
        raise Invalid(f"a group has journal.Put objects, not {put!r}")
    if put.key is not None:
        key_bytes(put.key)
    sent: dict[str, Any] = {} if put.key is None else {"key": put.key}
    sent["data"] = pack_data(put.data)
    if type(put.priority) is not int or not 0 <= put.priority <= PRIORITY_MAX or put.priority != priorities.DEFAULT:
        sent |= _given(put, "priority")
    options = put.options
    if options is None:
        return sent
    check_dates(options)
    for name in _DATES:
        if (date := getattr(options, name)) is not None and DATE.accept is not None:
            sent[name] = DATE.accept(name, date)
    if options.delay is not None and DURATION.accept is not None:
        sent["delay"] = DURATION.accept("delay", options.delay)
    return sent | _owner_and_version(options)


def _owner_and_version(item: Any) -> dict[str, Any]:
    sent: dict[str, Any] = {}
    if item.owner is not None:
        owner_bytes(item.owner)
        sent["owner"] = item.owner
    if item.version is not None:
        sent["version"] = version_number(item.version)
    return sent


def put_from(sent: dict[str, Any]) -> Put:
    """A put of a group that was sent; its data is packed."""
    priority = sent.get("priority")
    put = Put(sent.get("key"), sent["data"], priority=priorities.DEFAULT if priority is None else priority)
    if len(sent) > 2:
        options = [sent.get(name) for name in PutOptions._fields]
        if any(option is not None for option in options):
            put.options = PutOptions(*options)
    return put


def move_to(move: Move) -> dict[str, Any]:
    """A move of a group as it is sent."""
    if not isinstance(move, Move):
        raise Invalid(f"move_many takes journal.Move objects, not {move!r}")
    check_move(move)
    key_bytes(move.key)
    return {"key": move.key} | _given(move, "process_date", "delay", "priority") | _owner_and_version(move)


def check_dates(item: Any) -> None:
    """An entry has one date."""
    if item.process_date is not None and item.delay is not None:
        raise Invalid("give process_date or delay, not both")


def check_move(move: Any) -> None:
    """What a move must say."""
    check_dates(move)
    if move.process_date is None and move.delay is None and move.priority is None:
        raise Invalid("move needs a process_date, a delay or a priority")


def delete_to(delete: Any) -> dict[str, Any]:
    """A delete of a group as it is sent."""
    if not isinstance(delete, Delete):
        delete = Delete(delete)
    key_bytes(delete.key)
    return {"key": delete.key} | _owner_and_version(delete)


def _item(name: str, of: type[Request[Any]], to_wire: Any, from_wire: Any) -> FieldType:
    fields = Parameters(parameter for parameter in of.command.parameters.values() if parameter.name != "durability")
    return one_of_group(name, fields, to_wire, from_wire)


PUT_ITEM = _item("put", PutRequest, put_to, put_from)
PutItem = Annotated[Put, PUT_ITEM]
Puts = Annotated[list[Put], list_of(PUT_ITEM)]
Moves = Annotated[list[Move], list_of(_item("move", MoveRequest, move_to, lambda sent: Move(**sent)))]
Deletes = Annotated[list[Delete], list_of(_item("delete", DeleteRequest, delete_to, lambda sent: Delete(**sent)))]


@request("PUT_MANY", PRODUCE, RetryRule.KEY, "[result or error]")
class PutManyRequest(Request[list[PutResult | JournalError]]):
    """A group: one record, one sync. Each is a map with the parameters of PUT."""

    puts: Puts
    durability: Level | None = None


@request("CREATE", PRODUCE, RetryRule.REQUEST, "result")
class CreateRequest(_EntryRequest):
    """Adds an entry; `key_exists` when there is one. With `is_repeatable` one that has the same data and owner is no error:
    a program may ask again after `connection_lost`."""

    is_repeatable: Bool = False
    durability: Level | None = None

    def __post_init__(self) -> None:
        check_dates(self)


@request("CREATE_MANY", PRODUCE, RetryRule.REQUEST, "[result or error]")
class CreateManyRequest(Request[list[PutResult | JournalError]]):
    """Creates a group: one record, one sync."""

    puts: Puts
    is_repeatable: Bool = False
    durability: Level | None = None


@request("MOVE_MANY", PRODUCE, RetryRule.REQUEST, "[result or error]")
class MoveManyRequest(Request[list[PutResult | JournalError]]):
    """Moves a group: one record, one sync. Each is a map with the parameters of MOVE."""

    moves: Moves
    durability: Level | None = None


@request("DELETE_MANY", PRODUCE, RetryRule.REQUEST, "[bool or error]")
class DeleteManyRequest(Request[list[bool | JournalError]]):
    """Deletes a group: one record, one sync. Each is a map with the parameters of DELETE."""

    deletes: Deletes
    durability: Level | None = None
