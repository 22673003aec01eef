"""
Is this recovered store one that may be?

`recover` opens what a crash left, looks at everything, shows that the store still works, and closes it. `judge` compares what it showed
with a reference run of the same program.

O1  The recovered dump is that after k whole calls, for a k between the last call that had to survive and the last one begun.
O2  `store.check()` and LMDB's verifier find nothing.
O3  A put, a claim and a done work on it, what is left of its log can be followed and compacted, and a reopen shows the
    same again.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import lmdb.verify

import journal
from journal.testing import ManualClock
from tests.crash.dump import difference, digest, dump
from tests.crash.marks import Mark
from tests.crash.program import Shape

PROBE = "crash-probe"


@dataclass(frozen=True, slots=True)
class Recovered:
    """What a recovered store showed, or why it is not acceptable."""

    dump: list[str]
    problem: str | None = None


def recover(path: Path, shape: Shape, now: int) -> Recovered:
    """Open a crashed store, look, use it, reopen it (O2, O3)."""
    found: list[str] = []
    try:
        with reopened(path, shape, now) as (store, pages):
            found = dump(pages)
            if problems := store.check():
                return Recovered(found, f"check() after recovery: {problems[:3]}")
            token = _use(pages)
            _follow(pages)
            if shape.is_compacting:
                pages.compact()
                if problems := store.check():
                    return Recovered(found, f"check() after compaction: {problems[:3]}")
        with reopened(path, shape, now) as (store, pages):
            again = dump(pages)
            again.remove(f"finished {token}")
            if again != found:
                return Recovered(found, f"another reopen shows something else:\n{difference(found, again)}")
        return Recovered(found, verify(path))
    except Exception as error:  # noqa: BLE001 - whatever comes out of a recovery is a finding
        return Recovered(found, f"{type(error).__name__}: {error}")


@contextmanager
def reopened(path: Path, shape: Shape, now: int) -> Iterator[tuple[journal.Store, journal.Journal]]:
    """A store and its journal, opened for a look."""
    with journal.open(path, durability="full", claims=shape.claims, clock=ManualClock(now)) as store:
        yield store, shape.journal(store)


def _use(pages: journal.Journal) -> int:
    """A put, a claim and a done, in front of everything else (O3); the token of the finished lease."""
    pages.put(PROBE, {"probe": 1}, priority=0, insertion_date=1, process_date=1, durability="full")
    lease = pages.claim(consumer=PROBE)
    assert lease is not None and lease.key == PROBE, f"a put in front of all others was not the next claimed: {lease}"
    lease.done()
    assert pages.get(PROBE) is None, "an entry is there after its done"
    return lease.token


def _follow(pages: journal.Journal) -> None:
    """All that is left of the log, to its end (O3)."""
    with pages.feed(live=False) as feed:
        changes = pages.lag(feed.position)
        found = sum(1 for _ in feed)
        assert found == changes or pages.settings.compact or pages.settings.merged, f"{found} of {changes} changes came"


def verify(path: Path) -> str | None:
    """What LMDB's own verifier finds in the files of a closed store (O2)."""
    for file in sorted(path.rglob("*.mdb")):
        if file.name in ("spare.mdb", "new.mdb"):
            continue  # room for a coming generation, which may be wiped, or what was never finished: nothing reads it
        if problems := lmdb.verify.verify(str(file)):
            return f"lmdb verify {file.relative_to(path)}: {problems[:3]}"
    return None


def judge(recovered: Recovered, reference: Sequence[Mark], low: int, high: int) -> str | None:
    """What is wrong with a recovered store, given the calls that had to survive and those that had begun (O1)."""
    if recovered.problem is not None:
        return recovered.problem
    found = digest(recovered.dump)
    for mark in reference[low : high + 1]:
        if digest(mark.dump) == found:
            return None
    elsewhere = [mark.number for mark in reference if digest(mark.dump) == found]
    expected = reference[min(low, len(reference) - 1)]
    return (
        f"calls {low} to {min(high, len(reference) - 1)} were possible, found "
        + (f"the state after call {elsewhere}" if elsewhere else "a state that never was")
        + f"; against the state after call {low} ({expected.verb}):\n{difference(expected.dump, recovered.dump)}"
    )
