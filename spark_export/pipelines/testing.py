"""
The test suite of a source's contract (spark_export.pipelines.contract), for pytest. The author of a source subclasses it:

    class TestMySource(SourceContract):
        @pytest.fixture(autouse=True)
        def place(self, tmp_path): ...          # make something to read
        def make_source(self): ...              # a new object for the same place, as after a restart
        def change(self): ...                   # change some rows
        def rows(self): ...                     # what is there now, {namespace: [row, …]}
        def fingerprint(self): ...              # whatever must not change by a check

It needs a fixture `spark` with a session. What it compares are the rows that a follower holds who applies all messages by their keys.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from spark_export.pipelines.contract import COMPLETE, COPY, SYNC, NamespaceState, PipelineSource, SourceCopy, SourcePart
from spark_export.pipelines.message import COLUMNS, DELETE, OPS, Message, key_of, messages_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Rows = dict[str, list[dict[str, Any]]]
Identity = tuple[str, str, int, str]
"""A message without its id: namespace, op, timestamp, data."""
EMPTY_LISTS = 3
"""After so many empty lists in a row there is nothing more: some sources look twice before they take a thing."""


class Follower:
    """Rows by key, as all messages so far make them."""

    def __init__(self) -> None:
        self._rows: dict[str, dict[str, dict[str, Any]]] = {}

    def copy(self, copy: SourceCopy) -> None:
        """Take the rows of a copy, from its frame or its parts."""
        held = self._rows.setdefault(copy.namespace, {})
        if copy.frame is not None:
            for row in copy.frame.toArrow().to_pylist():
                held[_key(row, copy.key)] = row
        else:
            self.take(copy.parts)

    def take(self, parts: Iterable[SourcePart]) -> None:
        """Apply the messages of parts."""
        for part in parts:
            key = key_of(part.table.schema)
            for message in messages_of([part.table]):
                held = self._rows.setdefault(message.namespace, {})
                if message.op == DELETE:
                    held.pop(_key(message.data, key), None)
                else:
                    place = _key(message.data, key)
                    held[place] = held.get(place, {}) | message.data  # message M2: what is absent stays

    def rows(self) -> Rows:
        """What it holds."""
        return {name: list(held.values()) for name, held in self._rows.items()}


class SourceContract:
    """Subclass it, and name the subclass Test…"""

    modes: ClassVar[Sequence[str]] = ("copy", "sync", "copy+sync")
    """Those that the source has; without sync only the copy is tested."""

    def make_source(self) -> PipelineSource:
        """A new object for the same place, as after a restart."""
        raise NotImplementedError

    def change(self) -> None:
        """Change at least two rows in the source, others each time."""
        raise NotImplementedError

    def rows(self) -> Rows:
        """What the source has now."""
        raise NotImplementedError

    def fingerprint(self) -> Any:
        """What a check must leave as it is."""
        raise NotImplementedError

    def test_check_changes_nothing(self) -> None:
        """It names the namespaces, and leaves the source as it is."""
        self.make_source().check(prepare=True)
        before = self.fingerprint()
        source = self.make_source()
        assert sorted(source.check()) == sorted(self.rows())
        source.close()
        assert self.fingerprint() == before
        assert source.timeline

    def test_copy_has_every_row(self, spark: SparkSession) -> None:
        """The copies are the source's rows, and well-formed."""
        source = self._started(spark, {}, self._copying)
        copies = list(source.copies(list(self.rows())))
        assert [copy.namespace for copy in copies] == list(self.rows())
        assert all((copy.frame is None) != (copy.parts == ()) for copy in copies)
        follower = Follower()
        for copy in copies:
            follower.copy(copy)
        assert _sorted(follower.rows()) == _sorted(self.rows())
        source.close()
        source.close()

    def test_copy_that_was_cut_short_is_begun_again(self, spark: SparkSession) -> None:
        """By contract C1: a source that is told that the copy is not finished gives all of it."""
        names = list(self.rows())
        source = self._started(spark, {}, self._copying)
        next(iter(source.copies(names)))
        source.close()
        states = {name: NamespaceState(name, COPY) for name in names}
        again, follower = self._started(spark, states, self._copying), Follower()
        for copy in again.copies(names):
            follower.copy(copy)
        again.close()
        assert _sorted(follower.rows()) == _sorted(self.rows())

    def test_copy_then_sync_leaves_nothing_out(self, spark: SparkSession) -> None:
        """By contract C1: also what changes while the copy is read."""
        if not self._has_sync:
            return
        source, follower = self._started(spark, {}, "copy+sync"), Follower()
        for copy in source.copies(list(self.rows())):
            self.change()
            follower.copy(copy)
        self.change()
        for parts in _drained(source):
            follower.take(parts)
        source.close()
        assert _sorted(follower.rows()) == _sorted(self.rows())

    def test_what_was_not_advanced_comes_again(self, spark: SparkSession) -> None:
        """By contract C2: nothing is consumed by being read."""
        if not self._has_sync:
            return
        states = self._copied(spark)
        self.change()
        seen = []
        for _ in range(2):
            source = self._started(spark, states, "copy+sync")
            seen.append(_identities(_drained(source)))
            source.close()
        assert seen[0]
        assert seen[0] == seen[1]

    def test_a_position_that_is_handed_back_does_not_come_again(self, spark: SparkSession) -> None:
        """By contract C3: whether it was advanced or not; and what is new comes."""
        if not self._has_sync:
            return
        states = self._copied(spark)
        for is_advanced in (False, True):
            self.change()
            source = self._started(spark, states, "copy+sync")
            lists = _drained(source)
            assert lists
            states |= _states(lists)
            if is_advanced:
                source.advance(lists[-1][-1].position)
            source.close()
            again = self._started(spark, states, "copy+sync")
            assert _identities(_drained(again)) == []
            again.close()

    def test_a_start_between_two_lists_gives_the_rest(self, spark: SparkSession) -> None:
        """By contract C2 C3: each position that was given is one to start from."""
        if not self._has_sync:
            return
        states = self._copied(spark)
        source = self._started(spark, states, "copy+sync")
        stream = source.sync()
        self.change()
        first = next(parts for parts in stream if parts)
        states |= _states([first])
        source.close()
        self.change()
        again, follower = self._started(spark, states, "copy+sync"), _identities([first])
        rest = _identities(_drained(again))
        again.close()
        assert rest
        assert not set(map(repr, rest)) & set(map(repr, follower))

    def test_messages_are_well_formed(self, spark: SparkSession) -> None:
        """One namespace a part, known ops, keys in deletes, positions that JSON holds."""
        if not self._has_sync:
            return
        states = self._copied(spark)
        self.change()
        source = self._started(spark, states, "copy+sync")
        for part in [part for parts in _drained(source) for part in parts]:
            assert tuple(part.table.column_names) == COLUMNS
            messages = list(messages_of([part.table]))
            assert len({message.namespace for message in messages}) == 1
            assert {message.op for message in messages} <= set(OPS)
            assert all(set(key_of(part.table.schema)) <= set(message.data) for message in messages)
            assert json.loads(json.dumps(part.position)) == part.position
        source.close()

    @property
    def _has_sync(self) -> bool:
        return "copy+sync" in self.modes

    @property
    def _copying(self) -> str:
        return "copy+sync" if self._has_sync else "copy"

    def _started(self, spark: SparkSession, states: Mapping[str, NamespaceState], mode: str) -> PipelineSource:
        source = self.make_source()
        source.check(prepare=True)
        source.start(spark, states, mode)
        return source

    def _copied(self, spark: SparkSession) -> dict[str, NamespaceState]:
        """The states after a whole copy."""
        source, follower, states = self._started(spark, {}, "copy+sync"), Follower(), {}
        for copy in source.copies(list(self.rows())):
            follower.copy(copy)
            position = json.loads(json.dumps(copy.position))
            states[copy.namespace] = NamespaceState(copy.namespace, COMPLETE, position)
        source.close()
        assert _sorted(follower.rows()) == _sorted(self.rows())
        return states


def _drained(source: PipelineSource) -> list[Sequence[SourcePart]]:
    """All lists that there are for now."""
    found: list[Sequence[SourcePart]] = []
    empty = 0
    for parts in source.sync():
        empty = 0 if parts else empty + 1
        if empty == EMPTY_LISTS:
            break
        if parts:
            found.append(parts)
    return found


def _states(lists: Iterable[Sequence[SourcePart]]) -> dict[str, NamespaceState]:
    """What the commit log knows when these are stored."""
    found: dict[str, NamespaceState] = {}
    for part in (part for parts in lists for part in parts):
        last = Message(**part.table.slice(part.table.num_rows - 1).to_pylist()[0])
        found[last.namespace] = NamespaceState(last.namespace, SYNC, json.loads(json.dumps(part.position)), last)
    return found


def _identities(lists: Iterable[Sequence[SourcePart]]) -> list[Identity]:
    messages = messages_of(part.table for parts in lists for part in parts)
    return [(each.namespace, each.op, each.timestamp, repr(each.data)) for each in messages]


def _key(row: Mapping[str, Any], key: Sequence[str]) -> str:
    """A place for a row; without a key the whole row is."""
    return repr([row[name] for name in key] if key else sorted(row.items()))


def _sorted(rows: Rows) -> Rows:
    return {name: sorted(some, key=repr) for name, some in sorted(rows.items())}
