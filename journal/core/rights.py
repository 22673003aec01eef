"""
The rights on an entry: a table of roles, actions and statuses.

                        read        move        delete      extend      release     done
    owner               yes         unless      unless      –           –           –
                                    processing  processing
    other producer      –           –           –           –           –           –
    lease's consumer    processing  –           –           processing  processing  processing
    other consumer      –           –           –           –           –           –

A producer is known by its group, a consumer by the token of its lease. "The lease's consumer" is the caller that gives the token
of the last lease of the entry: while that lease is active it may act, afterwards it is late and gets `LeaseLost`.

R1  The status is never stored: it follows from the row and now. *processing*: there is a lease, and deadline > now. Else
    *available*: process date <= now. Else *waiting*. So at the very millisecond of its deadline a lease is over, and at that of
    its process date an entry is due: no moment belongs to two consumers, and there is no gap between two statuses.
R2  An active lease is a contract: the owner is refused with `Leased`, whatever the date.
R3  Ownership is checked first: a producer of another group gets `NotOwner`, which does not reveal whether the entry is leased.
R4  An entry without an owner belongs to all: every producer is its owner.
R5  Taking a lease is no right of the table but how a consumer becomes the lease's: any consumer may, of an available entry.
    And `done` with a token that was finished already succeeds and changes nothing, since replies get lost.
"""

from __future__ import annotations

from enum import StrEnum

from journal.errors import Leased, LeaseLost, NotOwner, Refused


class Relation(StrEnum):
    """What a caller is to one entry."""

    OWNER = "owner"
    OTHER_PRODUCER = "other producer"
    HOLDER = "lease's consumer"
    OTHER_CONSUMER = "other consumer"


class Action(StrEnum):
    """What a caller wants to do with it."""

    READ = "read"
    MOVE = "move"
    DELETE = "delete"
    EXTEND = "extend"
    RELEASE = "release"
    DONE = "done"


class Status(StrEnum):
    """What an entry is, at a time (R1)."""

    AVAILABLE = "available"
    WAITING = "waiting"
    PROCESSING = "processing"


Refusal = type[Refused] | None
"""The error that an attempt meets; None: it is allowed."""

_ANY: tuple[Refusal, ...] = (None, None, None)
_FREE: tuple[Refusal, ...] = (None, None, Leased)
_HELD: tuple[Refusal, ...] = (LeaseLost, LeaseLost, None)
_STRANGE: tuple[Refusal, ...] = (NotOwner, NotOwner, NotOwner)
_LOST: tuple[Refusal, ...] = (LeaseLost, LeaseLost, LeaseLost)

_ROWS: dict[Relation, tuple[tuple[Refusal, ...], ...]] = {
    #                     read      move      delete    extend  release done      each: available, waiting, processing
    Relation.OWNER:          (_ANY,     _FREE,    _FREE,    _LOST,  _LOST,  _LOST),
    Relation.OTHER_PRODUCER: (_STRANGE, _STRANGE, _STRANGE, _LOST,  _LOST,  _LOST),
    Relation.HOLDER:         (_HELD,    _STRANGE, _STRANGE, _HELD,  _HELD,  _HELD),
    Relation.OTHER_CONSUMER: (_LOST,    _STRANGE, _STRANGE, _LOST,  _LOST,  _LOST),
}  # fmt: skip

RIGHTS: dict[tuple[Relation, Action, Status], Refusal] = {
    (role, action, status): refusal
    for role, row in _ROWS.items()
    for action, cell in zip(Action, row, strict=True)
    for status, refusal in zip(Status, cell, strict=True)
}
"""The table: what each attempt meets."""


def status_at(process_date: int, deadline: int | None, now: int) -> Status:
    """The status of an entry; `deadline` is that of its last lease, None when it has none (R1)."""
    if deadline is not None and deadline > now:
        return Status.PROCESSING
    return Status.AVAILABLE if process_date <= now else Status.WAITING


def producer_role(owner: str | None, group: str | None) -> Relation:
    """What a producer of `group` is to an entry of `owner` (R4)."""
    return Relation.OWNER if not owner or owner == group else Relation.OTHER_PRODUCER


def consumer_role(last_token: int | None, token: int | None) -> Relation:
    """What a consumer with `token` is to an entry whose last lease had `last_token`."""
    return Relation.HOLDER if token is not None and token == last_token else Relation.OTHER_CONSUMER


def allowed(role: Relation, status: Status) -> list[Action]:
    """All actions that the role may take at this status."""
    return [action for action in Action if RIGHTS[role, action, status] is None]


def check(role: Relation, action: Action, status: Status, key: str | bytes) -> None:
    """Refuse what is not allowed."""
    refusal = RIGHTS[role, action, status]
    if refusal is not None:
        may = ", ".join(allowed(role, status)) or "nothing"
        raise refusal(
            f"{action} of the entry {key!r}, which is {status}, is refused to the role '{role}': it may {may}. {_ADVICE[refusal]}"
        )


_ADVICE: dict[type[Refused], str] = {
    NotOwner: "Name the producer group that the entry belongs to",
    Leased: "Wait until the lease is done or lost",
    LeaseLost: "Only the holder of the active lease may: claim the entry, and finish or extend in time",
}
