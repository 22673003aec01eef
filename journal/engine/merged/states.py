"""
The state of many journals that share their generations: a State for each of them, over views of the same files.

A journal's state is loaded when a caller needs it, or when replay finds a record of it; thousands of unused journals cost
nothing but their rows.

M1  A record belongs to the journal that its namespace names, and changes the rows of that one only.
M2  `touched` holds all states with changes that LMDB, or the rows of leases and counts, do not have yet. A checkpoint
    writes these and looks at no other.
M3  A state is used by `state_of` only: it may have been made before a commit, a rotation or a reload, and then sees to
    the transactions of now first.
"""

from __future__ import annotations

from collections.abc import Container
from functools import partial

from journal.core.entry.effects import Effect, StepEffect
from journal.engine.log.reader import RecordPlace
from journal.engine.merged.rows import PrefixedRows, behind, name_in
from journal.engine.state.apply import JournalState
from journal.engine.state.file import GenerationRows

OWN = b"_merged"
"""The namespace of what belongs to no journal: flags of the whole. No journal can have this name."""


class Namespaces(JournalState):
    """The rows of all journals that share them, and the states of those that are in use. Under the lock."""

    def __init__(self, generations: list[GenerationRows], used: Container[bytes] = ()) -> None:
        """`used`: whose states are kept in memory after a checkpoint, although nothing happens to them."""
        self.epoch = 0
        """Raised when states must look at the transactions again (M3)."""
        self.states: dict[bytes, JournalState] = {}
        self.touched: dict[bytes, JournalState] = {}
        self._used = used
        self._epochs: dict[bytes, int] = {}
        super().__init__(generations)

    def use(self, generations: list[GenerationRows] | None = None) -> None:
        """Work with these generations and with the transactions that are open now."""
        super().use(generations)
        self.epoch += 1

    def state_of(self, name: bytes) -> JournalState:
        """The state of one journal, as of now (M3)."""
        state = self.states.get(name)
        if state is None:
            state = self.states[name] = JournalState(self._views(name, {}), finished=self.finished, steps=self.steps)
            state.on_index = partial(self.touched.__setitem__, name, state)
            self._epochs[name] = self.epoch
            state.load()
            state.rebuild_order()
        elif self._epochs[name] != self.epoch:
            known = {rows.base: rows for rows in state.generations if isinstance(rows, PrefixedRows)}
            state.use(self._views(name, known))
            self._epochs[name] = self.epoch
        return state

    def _views(self, name: bytes, known: dict[GenerationRows, PrefixedRows]) -> list[GenerationRows]:
        views: list[GenerationRows] = []
        for rows in self.generations:
            view = known.get(rows)
            if view is None:
                view = PrefixedRows(rows, name)
                view.load()
            views.append(view)
        return views

    def names(self) -> list[bytes]:
        """All that have rows, or are in use; found by a seek for each."""
        found = set(self.states)
        for rows in self.generations:
            for database, handle in rows.file.databases.items():
                cursor = rows.cursor(db=handle)
                more = cursor.first() if database != b"meta" else False
                while more:
                    name = name_in(cursor.key())
                    found.add(name)
                    more = cursor.set_range(behind(name))
        return sorted(found)

    def apply_to(self, name: bytes, effect: Effect, at: int) -> None:
        """Apply an effect to the journal that it belongs to (M1); a step of the clock moves the leases of all."""
        if type(effect) is StepEffect:
            self.step(effect, at)
            return
        state = self.state_of(name)
        self.touched[name] = state
        state.apply(effect, at)

    def apply(self, effect: Effect, at: int) -> None:
        """Apply an effect that belongs to no journal."""
        self.apply_to(OWN, effect, at)

    def step(self, step: StepEffect, at: int) -> None:
        """The clock was set: those that are not in use see it when they are loaded."""
        super().step(step, at)
        for name, state in self.states.items():
            if len(state.leases):
                state.leases.move(step.by, at)
                self.touched[name] = state

    def load(self) -> RecordPlace:
        """Forget all states; the place in the log up to which the rows are applied."""
        for state in self.states.values():
            state.order.clear()  # wakes the workers that sleep on a range of it
        self.states.clear()
        self.touched.clear()
        self._epochs.clear()
        for rows in self.generations:
            place, self.time = rows.load()
        self.finished.load(self.active)
        self.steps.load(self.active)
        return place

    def keep(self, order: int, applied: RecordPlace, now: int) -> None:
        """Write what a checkpoint commits besides the rows, and unload the states that are not in use."""
        super().keep(order, applied, now)
        for name in [name for name in self.states if name not in self._used]:
            del self.states[name], self._epochs[name]

    def rebuild_order(self) -> None:
        """After replay, and when the clock was set back."""
        for name in list(self.states):
            self.state_of(name).rebuild_order()

    def flush(self) -> None:
        """Give LMDB all entries that it does not have yet."""
        for name, state in self.touched.items():
            self.state_of(name)
            state.flush()

    def save_leases(self) -> None:
        """Write the rows of leases, the numbers of loads, and the counts (M2)."""
        for name, state in self.touched.items():
            self.state_of(name)
            state.save_leases()
            state.once.keep(state.active)
            for rows in state.generations:
                if isinstance(rows, PrefixedRows):
                    rows.keep_counts()
        self.touched.clear()
