"""
Everything that a journal shows, in one order: two stores with the same dump cannot be told apart by their users.

What a reopen may change (counters of the process, cursors, the opening number) is not part of it.
"""

from __future__ import annotations

import dataclasses
import hashlib
from typing import Any

import journal
from journal.core.entry.keys import SLOT_AT, TURN_AT
from journal.core.entry.rows import Row
from journal.engine.merged.sequence import Member
from journal.engine.merged.states import OWN


def dump(pages: journal.Journal, *, is_token_shown: bool = True) -> list[str]:
    """Entries, leases and buried entries with all their columns. Tokens tell openings apart, so two stores may differ in them."""
    columns = LEASE if is_token_shown else tuple(name for name in LEASE if name != "token")
    lines = [f"entry {_columns(entry)}" for entry in pages.scan()]
    lines += [f"lease {_columns(lease, columns)}" for lease in pages.leases()]
    lines += _behind(pages)
    if is_token_shown:
        lines += [f"finished {token}" for token in pages._backend.p.state.finished.tokens]
    lines += _neighbours(pages)
    lines += [f"buried {_columns(found.entry)} {found.reason!r} {found.date}" for found in pages.buried()]
    return sorted(lines)


def _neighbours(pages: journal.Journal) -> list[str]:
    """What the other merged journals have, as it is stored; `at` and the checksum are no part of it."""
    p = pages._backend.p
    if not isinstance(p, Member):
        return []
    lines = []
    with p.lock:
        p.enter()
        for name in p.shared.state.names():
            if name in (p.only, OWN):
                continue
            state = p.shared.state.state_of(name)
            state.flush()
            for primary, value in state.rows(b"entries"):
                row = _placeless(state.counted(state.row(primary, value)))
                lines.append(f"{name.decode()} {primary in state.leases.by_primary} {_short(row)}")
    return lines


def _behind(pages: journal.Journal) -> list[str]:
    """What waits behind a lease. Users see it only when the lease ends, so it is read from the rows."""
    p = pages._backend.p
    with p.lock:
        p.enter()
        rows = [p.state.successor(held) for held in p.state.leases.by_primary.values() if held.has_successor]
    return [f"behind {_short(_placeless(row))}" for row in rows]


def _placeless(row: Row) -> Row:
    """Without what is a place in the log: that depends on what was written before the program began."""
    return row._replace(at=0, primary=row.primary[:TURN_AT] + bytes(SLOT_AT - TURN_AT) + row.primary[SLOT_AT:])


LEASE = ("key", "data", "priority", "process_date", "deadline", "token", "timeouts", "version", "consumer")


def _columns(value: Any, names: tuple[str, ...] = ()) -> str:
    chosen = names or tuple(column.name for column in dataclasses.fields(value))
    return " ".join(f"{name}={_short(getattr(value, name))}" for name in chosen)


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:40]}…{hashlib.blake2b(text.encode(), digest_size=8).hexdigest()}"


def digest(lines: list[str]) -> str:
    """A name for a dump."""
    return hashlib.blake2b("\n".join(lines).encode(), digest_size=12).hexdigest()


def difference(expected: list[str], found: list[str]) -> str:
    """What differs, short enough for a message."""
    missing, extra = sorted(set(expected) - set(found)), sorted(set(found) - set(expected))
    return "\n".join([*(f"  - {line}" for line in missing[:6]), *(f"  + {line}" for line in extra[:6])])
