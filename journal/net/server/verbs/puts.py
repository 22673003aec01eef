"""
The commands of producers that put data: parameters as journal.net has checked them in, columns of the wire out.

Whether the identity may act under an owner's name was checked with the parameters.

P1  A parameter that is null is one that was left out.
P2  What is stored through a frame can be handed out in one: data that leaves no room for what a lease has besides is refused.
P3  The reply to a group fits into a frame, whatever it came to: the messages of its errors are cut.
P4  The error of one item of a group is in the reply, in the item's place, and the other items are put.
"""

from __future__ import annotations

from typing import Any

from journal.core.entry import priority as priorities
from journal.core.quoting import shown
from journal.core.requests.produce import CreateRequest, PutRequest, put_from
from journal.core.values import Put
from journal.errors import Invalid
from journal.net.server.verbs.frame_sizes import fitted
from journal.net.server.verbs.served_journal import Served
from journal.net.wire.auth import Grant
from journal.net.wire.values import group_to, result_to

_DEFAULT = priorities.DEFAULT


def put(served: Served, given: dict[str, Any], grant: Grant) -> Any:
    """PUT."""
    data = given["data"]
    if len(data) > served.data_max:
        raise _too_large(served, given)
    puts = served.journal.puts
    if len(given) == 2 and type(key := given.get("key")) is str and key.isascii():  # the usual put
        outcome, cursor, *rest = puts.usual(key, data, _DEFAULT, None, served.everyone)
        return [outcome, [*cursor], *rest]
    asked: Any = PutRequest.command.from_wire(given)
    return result_to(puts.any(asked, served.everyone))


def create(served: Served, given: dict[str, Any], grant: Grant) -> Any:
    """CREATE."""
    if len(given["data"]) > served.data_max:
        raise _too_large(served, given)
    return result_to(served.journal.call(CreateRequest.command.from_wire(given), served.everyone))


def put_many(served: Served, given: dict[str, Any], grant: Grant) -> Any:
    """PUT_MANY."""
    puts, refused = puts_of(served, given["puts"])
    results = served.journal.put_many(puts, given.get("durability"), caller=served.everyone)
    return fitted(group_to(with_refused(refused, results)), served.room)


def create_many(served: Served, given: dict[str, Any], grant: Grant) -> Any:
    """CREATE_MANY."""
    puts, refused = puts_of(served, given["puts"])
    results = served.journal.put_many(
        puts,
        given.get("durability"),
        is_create=True,
        is_repeatable=given.get("is_repeatable") or False,
        caller=served.everyone,
    )
    return fitted(group_to(with_refused(refused, results)), served.room)


def puts_of(served: Served, items: list[dict[str, Any]]) -> tuple[list[Put], dict[int, Invalid]]:
    """What is to be put; and by its place, in order, what is refused (P4)."""
    puts: list[Put] = []
    refused: dict[int, Invalid] = {}
    for place, item in enumerate(items):
        if len(item["data"]) > served.data_max:
            refused[place] = _too_large(served, item)
        else:
            puts.append(put_from(item))
    return puts, refused


def with_refused(refused: dict[int, Invalid], results: list[Any]) -> list[Any]:
    """What all items of a group came to, those that were refused in their places."""
    for place, error in refused.items():
        results.insert(place, error)
    return results


def _too_large(served: Served, given: dict[str, Any]) -> Invalid:
    return Invalid(
        f"the data of the entry {shown(given.get('key'))} has {len(given['data'])} bytes, and {served.data_max} can be handed out in "
        "a frame: put a reference to the data"
    )
