"""
The commands of loads: parts that come in pieces, and their commit, which takes long and has a worker's thread.

L1  What an identity may not put it may not load: rows of a producer group that it may not act under, and data that could not be
    handed out in a frame, are wrong rows (served_journal.Wired).
L2  The reply fits into a frame: the reasons of rejected rows are cut.
"""

from __future__ import annotations

from typing import Any

from journal.net.server.verbs.served_journal import Served
from journal.net.wire.auth import Grant
from journal.net.wire.values import loaded_to

ROW_BYTES = 24
"""What a rejected row takes in a frame, without its reason, at most."""


def begin(served: Served, given: dict[str, Any], grant: Grant) -> Any:
    """LOAD_BEGIN."""
    return {"load": served.as_(grant).load_begin().id}


def part(served: Served, given: dict[str, Any], grant: Grant) -> Any:
    """LOAD_PART."""
    return served.as_(grant)._load_piece(given["load"], given["part"], given["at"], given["piece"])


def commit(served: Served, given: dict[str, Any], grant: Grant) -> Any:
    """LOAD_COMMIT."""
    once = given.get("once")
    loaded = served.as_(grant).load_commit(
        given["load"],
        given["parts"],
        on_conflict=given.get("on_conflict") or "merge",
        once=None if once is None else (once[0], once[1]),
        on_reject=given.get("on_reject") or "fail",
        durability=given.get("durability"),
    )
    wire = loaded_to(loaded)
    rejected = wire[-1]
    if rejected:
        room = max(0, served.room // len(rejected) - ROW_BYTES)
        for row in rejected:
            row[2] = row[2].encode()[:room].decode("utf-8", "ignore")
    return wire


def abort(served: Served, given: dict[str, Any], grant: Grant) -> Any:
    """LOAD_ABORT."""
    return served.as_(grant).load_abort(given["load"])
