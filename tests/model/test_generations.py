"""
Generations that change their schema, and go.

The model knows which form of data each generation has, and what must be left of a generation once nothing needs it:
its rows go with the last entry, its log with the last change that the consumer had not acknowledged.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import initialize, invariant, precondition, rule

from journal import Cursor
from tests.model.entries import Entries
from tests.model.forms import FORMS, PLAIN, Form
from tests.model.world import CONSUMER, SHRINK_S, effort


class Generations(Entries):
    """Entries whose data has a form, in generations that come and go."""

    def __init__(self) -> None:
        super().__init__()
        self.declared = PLAIN
        """What the next generation has."""
        self.forms: dict[int, Form] = {1: PLAIN}
        """What each generation has."""
        self.on_empty = "delete"
        self.wipe = False

    @initialize(
        durability=st.sampled_from(["full", "interval"]),
        on_empty=st.sampled_from(["delete", "reset", "truncate"]),
        wipe=st.booleans(),
        form=st.sampled_from(FORMS),
    )
    def begin(self, durability: str, on_empty: str, wipe: bool, form: Form) -> None:
        self.on_empty, self.wipe = on_empty, wipe
        self.declared = self.forms[1] = form
        self.start(durability, on_empty=on_empty, wipe=wipe, schema=form.schema)

    @property
    def active(self) -> Form:
        return self.forms[max(self.forms)]

    @property
    def top(self) -> Path:
        return self.path / "pages"

    # -- data -----------------------------------------------------------------------------------------------------------

    def written(self, key: Any, number: int) -> tuple[Any, Any, tuple[Any, Any] | None]:
        """Every fourth producer has not heard of the active schema, or has heard of the next one already."""
        form = self.active if number % 4 else FORMS[number // 4 % len(FORMS)]
        given_key, given = form.write(key, number)
        if self.active is PLAIN and form is not PLAIN:
            given = [given]  # what is a map without a schema may have fields that no schema knows
        return given_key, given, self.active.stored(given_key, given)

    def shown(self, data: Any) -> Any:
        """None for each field that some other data of this journal may have."""
        union = self.pages.schema
        return data if union is None or not isinstance(data, dict) else {f.name: None for f in union.fields} | data

    # -- rules ----------------------------------------------------------------------------------------------------------

    @rule(form=st.sampled_from(FORMS))
    def declare(self, form: Form) -> None:
        """It counts from the next generation on, or at once when nothing has happened in this one."""

        def change() -> bool:
            is_untouched = self.pages.generations()[-1].last_offset < 0
            assert self.store.journal("pages", schema=form.schema) is self.pages
            return is_untouched

        # On the keeper, so that nothing is carried in between.
        is_untouched = self.pages._backend.p.keeper.call(change)
        self.declared = form
        if is_untouched:
            self.forms[max(self.forms)] = form

    @rule()
    def rotate(self) -> None:
        """A spare file is the new one's, and the declared schema counts."""
        self.settle()
        self.undisturbed(self._rotate)  # no generation goes meanwhile: its file would be the spare one

    def _rotate(self) -> None:
        spare = self.top / "spare.mdb"
        inode = spare.stat().st_ino if spare.exists() else None
        order = self.pages.rotate().order
        assert order == max(self.forms) + 1
        self.forms[order] = self.declared
        if inode is not None:
            assert (self.top / f"{order:06d}" / "rows.mdb").stat().st_ino == inode

    @rule()
    def clear(self) -> None:
        """Everything that nobody holds is deleted, so that old generations may go."""
        for key in [row.key for row in self.model.rows.values() if not row.token]:
            assert self.pages.delete(key)
            del self.model.rows[key]
        while self.model.buried:
            self.discard()

    @rule()
    def tidy(self) -> None:
        """After a checkpoint only what is needed is left, and files are where the list of generations says."""
        self.store.checkpoint()
        self.settle()
        self.store.checkpoint()
        self.settle()
        position = self.pages.feeds()[0].position
        for g in self.pages.generations():
            if g.state == "active":
                continue
            assert (g.state == "draining") == (g.entries + g.buried > 0)
            is_followed = g.last_offset >= 0 and (g.order, g.last_offset) > position
            assert ("followers" in g.kept_by) == is_followed
            assert g.state != "closed" or is_followed
        self.files()

    def files(self) -> None:
        """What is in the journal's directory."""
        expected = {"offsets"}
        for g in self.pages.generations():
            parts = set()
            if g.state in ("active", "draining"):
                parts |= {"rows.mdb", "rows.mdb-lock"}
            if g.state == "active" or "followers" in g.kept_by:
                parts.add("log")
            if parts:
                expected.add(f"{g.order:06d}")
                assert set(os.listdir(self.top / f"{g.order:06d}")) == parts
        found = set(os.listdir(self.top))
        spare = self.top / "spare.mdb"
        if self.on_empty == "delete":
            assert not spare.exists()
        elif spare.exists() and self.wipe:
            assert not spare.read_bytes().strip(b"\0")
        assert found - {"spare.mdb"} == expected

    @precondition(lambda self: len(self.forms) > 1)
    @rule()
    def leave(self) -> None:
        """The consumer is removed: no log of an old generation is left. A new one begins at the end."""
        self.pages.remove_feed(CONSUMER)
        self.store.checkpoint()
        self.settle()
        assert all(g.state in ("active", "draining", "gone") for g in self.pages.generations())
        feed = self.pages.feed(consumer=CONSUMER, start="END", live=False)
        self.joined = feed.position
        feed.close()
        self.acked.clear()
        self.unacked.clear()

    @rule()
    def mirror(self) -> None:
        """A copy is all entries as they are, and the successors behind them; then comes what is new."""
        self.undisturbed(self._mirror)

    def _mirror(self) -> None:
        expected = []
        for row in self.model.rows.values():
            expected += [(each.key, self.shown(each.data)) for each in (row, row.successor) if each is not None]
        with self.pages.feed(consumer="mirror", copy=True, live=False) as feed:
            events = list(feed)
            copied = [(event.key, event.data) for event in events if event.mode == "copy"]
            assert sorted(copied, key=repr) == sorted(expected, key=repr)
            assert [event.mode for event in events].count("complete") == 1
            feed.ack(events)
            assert feed.lag == 0
        self.pages.remove_feed("mirror")

    # -- what must hold -------------------------------------------------------------------------------------------------

    @invariant()
    def listed(self) -> None:
        """Generations are told as they are, and the union has the fields of all that are left, and of all data."""
        self.undisturbed(self._listed)

    def _listed(self) -> None:
        self.model.tick(self.now)  # as the call does: an heir may have expired before it was one
        listed = self.pages.generations()
        assert [g.order for g in listed] == sorted(self.forms)
        assert [g.state for g in listed].count("active") == 1 and listed[-1].state == "active"
        assert sum(g.entries for g in listed) == len(self.model.rows)
        assert sum(g.processing for g in listed) == len(self.held())
        assert sum(g.buried for g in listed) == len(self.model.buried)
        union = {field.name for field in self.pages.schema.fields} if self.pages.schema is not None else set()
        for g in listed:
            assert g.state == "gone" or union >= set(self.forms[g.order].fields)
        for row in self.model.rows.values():
            assert not isinstance(row.data, dict) or union >= row.data.keys()
        for cursor in self.unacked:
            assert listed[cursor.order - 1].state != "gone"
        assert self.pages.distance(Cursor(1, -1), Cursor(listed[-1].order, listed[-1].last_offset)) == sum(
            g.last_offset + 1 for g in listed
        )


TestGenerations = Generations.TestCase
TestGenerations.settings = effort(40)
TestGenerations = pytest.mark.timeout(SHRINK_S)(TestGenerations)
TestGenerations = pytest.mark.alone(reason="it looks at a journal's own files")(TestGenerations)
