"""What callers give is checked by the face: both backends refuse the same, with the same text, and nothing is changed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import journal
from journal import Cursor, Move, Put, Range

LOAD = "0" * 32
WRONG: dict[str, tuple[Callable[[journal.Journal], Any], str]] = {
    "no key": (lambda j: j.put("", 1), "a key has 1 to 1024 bytes, this one has 0"),
    "a long key": (lambda j: j.put("a" * 2000), "a key has 1 to 1024 bytes, this one has 2000"),
    "no data": (lambda j: j.put("a", object()), "the data is not a msgpack value: can not serialize 'object' object"),
    "a priority": (lambda j: j.put("a", 1, priority=True), "priority is True: it must be an int from 0 (first) to 255 (last)"),
    "a version": (lambda j: j.put("a", 1, version=-1), "version is -1: it must be an int from 0 to 4294967295"),
    "two dates": (lambda j: j.put("a", 1, delay=1, process_date=1), "give process_date or delay, not both"),
    "a level": (lambda j: j.put("a", 1, durability="x"), "durability is 'x': it must be one of full, interval, none"),
    "a level of a claim": (lambda j: j.claim(durability="x"), "durability is 'x': it must be one of full, interval, none"),
    "a level of many": (lambda j: j.put_many([], durability="x"), "durability is 'x': it must be one of full, interval, none"),
    "a level of moves": (lambda j: j.move_many([], durability="x"), "durability is 'x': it must be one of full, interval, none"),
    "no put": (lambda j: j.put_many([Put("a", 1), 7]), "a group has journal.Put objects, not 7"),  # type: ignore[list-item]
    "nothing to move": (lambda j: j.move("a"), "move needs a process_date, a delay or a priority"),
    "no buckets": (
        lambda j: j.claim(buckets="0-3"),  # type: ignore[arg-type]
        "buckets is '0-3': it must be a journal.Range, e.g. journal.Range.parse('0-3'), or None",
    ),
    "no time": (lambda j: j.claim(lease=0), "a lease lasts at least 1 ms"),
    "none of many": (lambda j: j.claim_many(0), "claim_many takes 1 to 100000 entries, not 0"),
    "a consumer": (lambda j: j.claim(consumer="x" * 300), "consumer has 0 to 255 bytes, this one has 300"),
    "no token": (lambda j: j.done("token"), "expected a Lease or its token (an int), not 'token'"),  # type: ignore[arg-type]
    "no next": (lambda j: j.done_many([1], next=[7]), "a group has journal.Put objects, not 7"),  # type: ignore[list-item]
    "a reason": (lambda j: j.bury(1, "x" * 5000), "reason has 0 to 4096 bytes, this one has 5000"),
    "a flag": (lambda j: j.raise_flag("paused", "x"), "the flag 'paused' says that a journal is paused: use pause"),
    "a key of many": (lambda j: j.get_many([7]), "a key is str or bytes, not int"),  # type: ignore[list-item]
    "a page": (lambda j: j.select(after="x"), "after is 'x': it must be what the page before this one has as `after`, or None"),
    "a limit": (lambda j: j.buried(limit=0), "limit is 0: it must be an int from 1 to 100000"),
    "buried ones": (
        lambda j: j.select(status="buried"),
        "buried entries are not in the order of work: use buried(limit=…, after=…), or scan(status='buried')",
    ),
    "a span": (lambda j: j.forecast(step="0s"), "step must be at least 1 ms"),
    "a rule": (lambda j: j.load([], on_conflict="x"), "on_conflict is 'x': it must be one of merge, replace, skip, error"),
    "a reject": (lambda j: j.load([], on_reject="x"), "on_reject is 'x': it must be one of fail, list"),
    "a name": (lambda j: j.load([], once=("", 1)), "the name of a load has 1 to 255 bytes, this one has 0"),
    "a number": (
        lambda j: j.load([], once=("a", "1")),  # type: ignore[arg-type]
        "the number of a load is '1': it must be an int from 0 to 9223372036854775807",
    ),
    "no part": (lambda j: j.load([7]), "part 0 is 7: it must be a load block (bytes) or the path of a part file"),  # type: ignore[list-item]
    "no block": (
        lambda j: j.load([b"x"]),
        "part 0 is damaged: b'x' is no load block: it must be what encode_block makes. Nothing was changed",
    ),
    "a start": (
        lambda j: j.feed(start=5),  # type: ignore[arg-type]
        "start is 5: it must be 'BEGIN', 'END' or a journal.Cursor (Cursor.parse makes one of a text)",
    ),
    "a copy": (
        lambda j: j.feed(copy=True), "a copy needs a consumer's name, and takes the entries that are there: leave start out",
    ),
    "a feed's name": (lambda j: j.feed(consumer=""), "a feed consumer has a name of at least one character"),
    "no cursor": (lambda j: j.changes(1, 2), "1 is no journal.Cursor"),  # type: ignore[arg-type]
    "a time to wait": (lambda j: j.within("x"), "timeout is 'x': write a number and a unit (ms, s, m, h, d, w), e.g. '30s'"),
    "a number of parts": (lambda j: j.snapshot().parts(0), "the number of parts is 0: it must be an int from 1 to 16384"),
}  # fmt: skip


@pytest.mark.parametrize("what", WRONG)
def test_what_is_wrong_is_refused_in_the_same_words(pages: journal.Journal, what: str) -> None:
    """By Invalid, before anything is done."""
    call, text = WRONG[what]
    with pytest.raises(journal.Invalid) as refused:
        call(pages)
    assert str(refused.value) == text
    assert pages.count() == 0


@pytest.mark.parametrize(
    ("call", "kind"),
    [
        (lambda j: j.move("x", priority=1), journal.NotFound),
        (lambda j: j.retry("x"), journal.NotFound),
        (lambda j: j.claim_key("x"), journal.NotFound),
        (lambda j: j.load_part(LOAD, "a"), journal.NotFound),
        (lambda j: j.load_commit(LOAD, ["a"]), journal.NotFound),
        (lambda j: j.load(["/nowhere"]), journal.NotFound),
        (lambda j: j.lease(77), journal.LeaseLost),
        (lambda j: j.lag(Cursor(9, 9)), journal.CursorUnavailable),
        (lambda j: j.count(buckets=Range(0, 5000)), journal.Invalid),
    ],
)
def test_what_is_not_there(pages: journal.Journal, call: Callable[[journal.Journal], Any], kind: type) -> None:
    """The same class of error."""
    with pytest.raises(kind):
        call(pages)


def test_a_group_tells_of_each(pages: journal.Journal) -> None:
    """What is wrong with one leaves the others."""
    assert [type(r) for r in pages.put_many([Put("a"), Put("")])] == [journal.PutResult, journal.Invalid]
    assert [type(r) for r in pages.move_many([Move("a", priority=1), Move("a"), Move("b", priority=1)])] == [
        journal.PutResult, journal.Invalid, journal.NotFound,
    ]  # fmt: skip
    assert [type(r) for r in pages.delete_many(["a", ""])] == [bool, journal.Invalid]
    assert [type(r) for r in pages.retry_many(["a", ""])] == [journal.NotFound, journal.Invalid]
    assert pages.put_many([]) == [] == pages.done_many([]) == pages.get_many([])
