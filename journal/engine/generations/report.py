"""
The report on a journal's generations: state, sizes, and what keeps each from being removed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from journal.core.entry.keys import PRIMARY_BYTES
from journal.core.entry.rows import decode_entry, place
from journal.core.log.cursor import base_of, place_of
from journal.core.values import Generation, Keeping
from journal.engine.state.file import Rows

if TYPE_CHECKING:
    from journal.engine.generations.generations import Kept
    from journal.engine.pipeline import Pipeline


def tell(p: Pipeline, kept: Sequence[Kept], generations: Sequence[Rows]) -> list[Generation]:
    """All that the catalog still lists, oldest first. Under the lock, with LMDB having all entries."""
    by_order = {rows.order: rows for rows in generations}
    ends = [k.began for k in kept[1:]]
    return [_view(p, k, by_order.get(k.order), end) for k, end in zip(kept, [*ends, None], strict=True)]


def _view(p: Pipeline, k: Kept, rows: Rows | None, ended: int | None) -> Generation:
    state = "active" if k.last is None else "draining" if k.has_rows else "closed" if k.has_log else "gone"
    last = p.log.end.offset - 1 if k.last is None else k.last
    log_kept_by = (
        () if not k.has_log or k.last is None else ("compact",) if p.generations.is_compacting else ("followers",)
    )
    consumers = _consumers(p, base_of(k.order) + last) if k.has_log else ()
    if rows is None:
        return Generation(k.order, state, k.began, ended, last, 0, 0, 0, 0, log_kept_by, None, None, consumers)
    entries, buried = rows.size(), rows.size(b"buried")
    processing, lease = p.generations.leased(rows)
    found = (("entries", entries - processing), ("leases", processing), ("buried", buried), ("others", rows.has_others))
    keeps = ("active",) if k.last is None else tuple(name for name, count in found if count)
    return Generation(
        k.order, state, k.began, ended, last, entries, processing, buried, rows.file.used_bytes(), keeps + log_kept_by,
        _first(rows), lease, consumers,
    )  # fmt: skip


def _first(rows: Rows) -> Keeping | None:
    """The entry that comes first in the order of work; of shared files: of the first journal."""
    cursor = rows.by_order
    if not cursor.first():
        return None
    name, value = cursor.item()
    primary = name[-PRIMARY_BYTES:]
    return Keeping(decode_entry(primary, value).key, place(primary)[1])


def _consumers(p: Pipeline, last: int) -> tuple[str, ...]:
    """The feed consumers that have not acknowledged all up to this place."""
    return tuple(sorted(name for name, consumer in p.consumers.known.items() if place_of(consumer.held) < last))
