"""Compaction against a model: a follower of what is left ends where one ends who saw everything."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import journal
from journal import Cursor, Refused
from journal.core.log.events import Event
from journal.testing import ManualClock
from tests.engine.generations.compacting import SMALL, last_changes, mirror, told

KEYS = st.sampled_from(["a", "b", "c", b"a"])
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("put"), KEYS),
        st.tuples(st.just("put_many"), st.lists(KEYS, min_size=1, max_size=3, unique=True)),
        st.tuples(st.just("delete"), KEYS),
        st.tuples(
            st.sampled_from(["claim", "done", "release", "bury", "retry", "rotate", "roll", "compact"]), st.none()
        ),
    ),
    max_size=40,
)


class Run:
    """Makes steps; a consumer that acknowledges nothing would hold the log, so what happened is read before each pass."""

    def __init__(self, store: journal.Store) -> None:
        self.pages = store.journal("pages", **SMALL)
        self.leases: list[journal.Lease] = []
        self.all: dict[Cursor, Event] = {}
        self.number = 0

    def note(self) -> None:
        self.all |= {event.cursor: event for event in told(self.pages)}

    def step(self, verb: str, what: Any) -> None:
        pages = self.pages
        self.number += 1
        match verb:
            case "put":
                pages.put(what, self.number)
            case "put_many":
                pages.put_many([journal.Put(key, self.number) for key in what])
            case "delete":
                try:
                    pages.delete(what)
                except Refused:
                    pass
            case "claim":
                self.leases += pages.claim_many(2)
            case "done" | "release" | "bury" if self.leases:
                getattr(self.leases.pop(0), verb)()
            case "retry" if pages.buried():
                try:
                    pages.retry(pages.buried()[0].entry.key)
                except Refused:
                    pass  # there is a newer entry with this key
            case "rotate":
                pages.rotate()
            case "roll":
                with pages._backend.p.commit.io, pages._backend.p.lock:
                    if pages._backend.p.log.position:
                        pages._backend.p.log.roll()
            case "compact":
                self.note()
                pages.compact()


@pytest.mark.slow
@settings(deadline=None, max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(steps=STEPS)
def test_a_follower_ends_with_what_one_has_who_saw_everything(
    tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[str, Any]]
) -> None:
    """Nothing invented, the order kept, the last change of each key there, and the same data of every key."""
    with journal.open(tmp_path_factory.mktemp("model") / "s", durability="interval", clock=ManualClock(1)) as store:
        run = Run(store)
        for verb, what in steps:
            run.step(verb, what)
        run.step("compact", None)
        everything = [run.all[cursor] for cursor in sorted(run.all)]
        left = [event for event in told(run.pages) if event.op != "noop"]
        assert [event.cursor for event in left] == sorted({event.cursor for event in left})
        assert all(tuple(event)[1:] == tuple(run.all[event.cursor])[1:] for event in left)
        assert last_changes(left) == last_changes(everything)
        assert mirror(left) == mirror(everything)
        assert store.check() == []
