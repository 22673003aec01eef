"""
The commands of producers: parameters as journal.net has checked them in, columns of the wire out.

Whether the identity may act under an owner's name was checked with the parameters.

P1  A parameter that is null is one that was left out.
P2  What is stored through a frame can be handed out in one: data that leaves no room for what a lease has besides is refused.
P3  The reply to a group fits into a frame, whatever it came to: the messages of its errors are cut.
P4  The error of one item of a group is in the reply, in the item's place, and the other items are put.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from journal.core.entry import priority as priorities
from journal.core.quoting import shown
from journal.core.values import Delete, Move, Put, PutOptions, PutResult
from journal.errors import Invalid, JournalError
from journal.net.server.verbs.served_journal import Served
from journal.net.wire.auth import Grant
from journal.net.wire.error_codes import MESSAGE_BYTES_MAX
from journal.net.wire.values import error_to, result_to

_DEFAULT = priorities.DEFAULT
ERROR_BYTES = 60
RESULT_BYTES = 48
"""What an error without its message, and what a result takes in a frame, at most."""
_OPTIONS = PutOptions._fields
_USUAL = [None] * len(_OPTIONS)
_MOVE = ("process_date", "delay", "priority", "owner", "version")


def put(served: Served, given: dict[str, Any], grant: Grant) -> Any:
    """PUT."""
    data = given["data"]
    if len(data) > served.data_max:
        raise _too_large(served, given)
    if len(given) == 2 and "key" in given:  # the usual put
        outcome, cursor, *rest = served.wired.put(given["key"], data)
        return [outcome, [*cursor], *rest]
    get = given.get
    priority = get("priority")
    outcome, cursor, version, process_date, priority = served.wired.put(
        get("key"),
        data,
        priority=_DEFAULT if priority is None else priority,
        process_date=get("process_date"),
        delay=get("delay"),
        expiration=get("expiration"),
        insertion_date=get("insertion_date"),
        owner=get("owner"),
        version=get("version"),
        durability=get("durability"),
    )
    return [outcome, [*cursor], version, process_date, priority]


def create(served: Served, given: dict[str, Any], grant: Grant) -> Any:
    """CREATE."""
    data = given["data"]
    if len(data) > served.data_max:
        raise _too_large(served, given)
    get = given.get
    priority = get("priority")
    return result_to(
        served.wired.create(
            get("key"),
            data,
            priority=_DEFAULT if priority is None else priority,
            process_date=get("process_date"),
            delay=get("delay"),
            expiration=get("expiration"),
            insertion_date=get("insertion_date"),
            owner=get("owner"),
            is_repeatable=get("is_repeatable") or False,
            durability=get("durability"),
        )
    )


def put_many(served: Served, given: dict[str, Any], grant: Grant) -> Any:
    """PUT_MANY."""
    puts, refused = puts_of(served, given["puts"])
    results = served.wired.put_many(puts, durability=given.get("durability"))
    return fitted(with_refused(refused, results), served.room)


def create_many(served: Served, given: dict[str, Any], grant: Grant) -> Any:
    """CREATE_MANY."""
    puts, refused = puts_of(served, given["puts"])
    results = served.wired.create_many(
        puts,
        is_repeatable=given.get("is_repeatable") or False,
        durability=given.get("durability"),
    )
    return fitted(with_refused(refused, results), served.room)


def puts_of(served: Served, items: list[dict[str, Any]]) -> tuple[list[Put], dict[int, Invalid]]:
    """What is to be put; and by its place, in order, what is refused (P4)."""
    puts: list[Put] = []
    refused: dict[int, Invalid] = {}
    for place, item in enumerate(items):
        if len(item["data"]) > served.data_max:
            refused[place] = _too_large(served, item)
            continue
        priority = item.get("priority")
        put = Put(item.get("key"), item["data"], priority=_DEFAULT if priority is None else priority)
        if len(item) > 2:
            options = [item.get(name) for name in _OPTIONS]
            if options != _USUAL:
                put.options = PutOptions(*options)
        puts.append(put)
    return puts, refused


def with_refused(refused: dict[int, Invalid], results: list[Any]) -> list[Any]:
    """What all items of a group came to, those that were refused in their places."""
    for place, error in refused.items():
        results.insert(place, error)
    return results


def move(served: Served, given: dict[str, Any], grant: Grant) -> Any:
    """MOVE."""
    return result_to(
        served.wired.move(given["key"], durability=given.get("durability"), **{name: given.get(name) for name in _MOVE})
    )


def move_many(served: Served, given: dict[str, Any], grant: Grant) -> Any:
    """MOVE_MANY."""
    moves = [Move(item["key"], **{name: item.get(name) for name in _MOVE}) for item in given["moves"]]
    return fitted(served.wired.move_many(moves, durability=given.get("durability")), served.room)


def delete(served: Served, given: dict[str, Any], grant: Grant) -> Any:
    """DELETE."""
    get = given.get
    return served.wired.delete(given["key"], owner=get("owner"), version=get("version"), durability=get("durability"))


def delete_many(served: Served, given: dict[str, Any], grant: Grant) -> Any:
    """DELETE_MANY."""
    deletes = [Delete(item["key"], owner=item.get("owner"), version=item.get("version")) for item in given["deletes"]]
    return fitted(served.wired.delete_many(deletes, durability=given.get("durability")), served.room)


def fitted(results: Sequence[Any], room: int) -> list[Any]:
    """What the items of a group came to; the messages of errors are cut where they would fill a frame (P3)."""
    errors = sum(isinstance(result, JournalError) for result in results)
    if not errors:
        return [
            [result[0], [*result[1]], *result[2:]] if isinstance(result, PutResult) else result for result in results
        ]
    wire = [
        error_to(each) if isinstance(each, JournalError) else result_to(each) if isinstance(each, PutResult) else each
        for each in results
    ]
    message = max(0, room - RESULT_BYTES * (len(results) - errors) - ERROR_BYTES * errors) // errors
    if message < MESSAGE_BYTES_MAX:
        for each in wire:
            if type(each) is dict:
                each["message"] = each["message"].encode()[:message].decode("utf-8", "ignore")
    return wire


def _too_large(served: Served, given: dict[str, Any]) -> Invalid:
    return Invalid(
        f"the data of the entry {shown(given.get('key'))} has {len(given['data'])} bytes, and {served.data_max} can be handed out in "
        "a frame: put a reference to the data"
    )
