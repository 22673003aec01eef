"""
The report on a journal's generations: state, sizes, and what keeps each from being removed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from journal.core.entry.keys import PRIMARY_BYTES
from journal.core.entry.rows import decode_entry, place
from journal.core.log.cursor import base_of, place_of
from journal.core.values import Generation, Keeping
from journal.engine.feed.consumer import FeedConsumer
from journal.engine.log.generation_record import GenerationRecord
from journal.engine.state.file import GenerationRows
from journal.engine.state.reader import StoredState


def leased_in(state: StoredState, rows: GenerationRows) -> tuple[int, Keeping | None]:
    """How many entries of a generation are under a lease, and the one whose lease ends last."""
    held = [held for held in state.leases.by_token.values() if held.home is rows]
    last = max(held, key=lambda each: each.deadline, default=None)
    return len(held), None if last is None else Keeping(last.key, last.deadline)


class Report(NamedTuple):
    """What is told of the generations of a journal. Under the lock, with LMDB having all entries."""

    last: int
    """The offset of the last change of the active one."""
    consumers: Mapping[str, FeedConsumer]
    leased: Callable[[GenerationRows], tuple[int, Keeping | None]]
    """As `leased_in`."""
    is_compacting: bool
    """Whether logs are kept for later followers."""

    def tell(self, kept: Sequence[GenerationRecord], generations: Sequence[GenerationRows]) -> list[Generation]:
        """Those that are listed, of which some have rows; oldest first."""
        by_order = {rows.order: rows for rows in generations}
        ends = [k.began for k in kept[1:]]
        return [self._view(k, by_order.get(k.order), end) for k, end in zip(kept, [*ends, None], strict=True)]

    def _view(self, k: GenerationRecord, rows: GenerationRows | None, ended: int | None) -> Generation:
        state = "active" if k.last is None else "draining" if k.has_rows else "closed" if k.has_log else "gone"
        last = self.last if k.last is None else k.last
        log_kept_by = () if not k.has_log or k.last is None else ("compact" if self.is_compacting else "followers",)
        consumers = self._behind(base_of(k.order) + last) if k.has_log else ()
        if rows is None:
            return Generation(k.order, state, k.began, ended, last, 0, 0, 0, 0, log_kept_by, None, None, consumers)
        entries, buried = rows.size(), rows.size(b"buried")
        processing, lease = self.leased(rows)
        found = (
            ("entries", entries - processing),
            ("leases", processing),
            ("buried", buried),
            ("others", rows.has_others),
        )
        keeps = ("active",) if k.last is None else tuple(name for name, count in found if count)
        return Generation(
            k.order, state, k.began, ended, last, entries, processing, buried, rows.file.used_bytes(), keeps + log_kept_by,
            _first(rows), lease, consumers,
        )  # fmt: skip

    def _behind(self, last: int) -> tuple[str, ...]:
        """The feed consumers that have not acknowledged all up to this place."""
        return tuple(sorted(name for name, each in self.consumers.items() if place_of(each.held) < last))


def _first(rows: GenerationRows) -> Keeping | None:
    """The entry that comes first in the order of work; of shared files: of the first journal."""
    cursor = rows.by_order
    if not cursor.first():
        return None
    name, value = cursor.item()
    primary = name[-PRIMARY_BYTES:]
    return Keeping(decode_entry(primary, value).key, place(primary)[1])
