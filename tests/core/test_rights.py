"""The table of rights: every cell, and the status that it depends on."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from journal.core.rights import (
    RIGHTS,
    Action,
    Relation,
    Status,
    allowed,
    check,
    consumer_role,
    producer_role,
    status_at,
)
from journal.errors import Leased, LeaseLost, NotOwner, Refused

# As people read it: a letter for available, waiting and processing. y: allowed, o: NotOwner, c: Leased (the contract), l: LeaseLost.
TABLE = """
                      read  move  delete  extend  release  done
    owner             yyy   yyc   yyc     lll     lll      lll
    other producer    ooo   ooo   ooo     lll     lll      lll
    lease's consumer  lly   ooo   ooo     lly     lly      lly
    other consumer    lll   ooo   ooo     lll     lll      lll
"""
LETTERS: dict[str, type[Refused] | None] = {"y": None, "o": NotOwner, "c": Leased, "l": LeaseLost}


def cells() -> dict[tuple[str, str, str], type[Refused] | None]:
    """The table above, cell by cell."""
    head, *lines = [line for line in TABLE.splitlines() if line.strip()]
    found = {}
    for line in lines:
        role, words = line[4:22].strip(), line[22:].split()
        for action, letters in zip(head.split(), words, strict=True):
            for status, letter in zip(("available", "waiting", "processing"), letters, strict=True):
                found[role, action, status] = LETTERS[letter]
    return found


CELLS = [pytest.param(*cell, refusal, id="-".join(cell).replace(" ", "_")) for cell, refusal in cells().items()]


@pytest.mark.parametrize(("role", "action", "status", "refusal"), CELLS)
def test_every_cell(role: str, action: str, status: str, refusal: type[Refused] | None) -> None:
    """Allowed, or refused with the error that says why; the message names all that count."""
    cell = Relation(role), Action(action), Status(status)
    assert RIGHTS[cell] is refusal
    if refusal is None:
        check(*cell, "k")
        assert cell[1] in allowed(cell[0], cell[2])
        return
    assert cell[1] not in allowed(cell[0], cell[2])
    with pytest.raises(refusal) as caught:
        check(*cell, "the-key")
    assert all(word in str(caught.value) for word in (role, action, status, "the-key"))


def test_there_are_no_other_cells() -> None:
    """4 roles, 6 actions, 3 statuses."""
    assert len(cells()) == len(RIGHTS) == 4 * 6 * 3
    assert {tuple(map(str, cell)) for cell in RIGHTS} == set(cells())


def test_the_rules_of_the_table() -> None:
    """Nobody but the two that are named may do anything; a contract is not broken; nobody may do everything."""
    for role in (Relation.OTHER_PRODUCER, Relation.OTHER_CONSUMER):
        assert [allowed(role, status) for status in Status] == [[], [], []]
    assert allowed(Relation.OWNER, Status.PROCESSING) == [Action.READ]
    assert allowed(Relation.HOLDER, Status.PROCESSING) == [Action.READ, Action.EXTEND, Action.RELEASE, Action.DONE]
    for status in Status:
        both = set(allowed(Relation.OWNER, status)) & set(allowed(Relation.HOLDER, status))
        assert both <= {Action.READ}, "owner and holder never may change the same entry at once"


@pytest.mark.parametrize(
    ("process_date", "deadline", "status"),
    [
        (99, None, "available"), (100, None, "available"), (101, None, "waiting"),
        (99, 101, "processing"), (99, 100, "available"), (99, 99, "available"),
        (101, 101, "processing"), (101, 100, "waiting"), (100, 0, "available"),
    ],
)  # fmt: skip
def test_the_status_at_100(process_date: int, deadline: int | None, status: str) -> None:
    """Due when the process date is now or before; a lease is active while its deadline is still to come."""
    assert status_at(process_date, deadline, 100) == status


@given(st.integers(0, 50), st.one_of(st.none(), st.integers(0, 50)), st.integers(0, 50))
def test_no_moment_belongs_to_two_or_to_nobody(process_date: int, deadline: int | None, now: int) -> None:
    """Somebody holds it, or it can be taken, or it is still to come: exactly one of the three."""
    is_held = deadline is not None and deadline > now
    is_due = process_date <= now
    expected = {"processing": is_held, "available": is_due and not is_held, "waiting": not is_due and not is_held}
    assert [status for status, holds in expected.items() if holds] == [status_at(process_date, deadline, now)]


def test_the_role_of_a_producer() -> None:
    """Its group decides; without an owner everybody is the owner."""
    assert producer_role("billing", "billing") is Relation.OWNER
    assert producer_role("billing", "mail") is producer_role("billing", None) is Relation.OTHER_PRODUCER
    assert producer_role(None, "mail") is producer_role(None, None) is producer_role("", "mail") is Relation.OWNER


def test_the_role_of_a_consumer() -> None:
    """Its token decides, not its name."""
    assert consumer_role(7, 7) is Relation.HOLDER
    assert consumer_role(7, 6) is consumer_role(7, None) is consumer_role(None, None) is Relation.OTHER_CONSUMER
    assert consumer_role(None, 7) is Relation.OTHER_CONSUMER
