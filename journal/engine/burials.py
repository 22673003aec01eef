"""The entries that were given up on: who looks at them, lets them wait again, or lets them go."""

from __future__ import annotations

from functools import partial

from journal.core import effects as fx
from journal.core import life
from journal.core.cursor import cursor_of
from journal.core.keys import UserKey, buried_in, key_bytes, murmur
from journal.core.rows import BuriedRow, encode_row, place
from journal.core.views import Buried, PutResult, buried_of
from journal.engine.side import Side
from journal.engine.stored import Stored
from journal.errors import KeyExists, NotFound, StoreDamaged
from journal.shield import shielded


@shielded
class Burials(Side):
    """The verbs for buried entries."""

    def buried(self) -> list[Buried]:
        """The entries that were given up on, in the order of burial."""
        p = self._p
        with p.lock:
            p.enter()
            return [buried_of(p.state.buried(name, value)) for name, value in sorted(p.state.rows(b"buried"))]

    def retry(self, key: UserKey, *, durability: str | None = None) -> PutResult:
        """Let the buried entry with this key (the last one) wait again, due now."""
        raw = key_bytes(key)
        p = self._p
        level = p.level_of(durability, p.level)

        def make() -> tuple[PutResult, int]:
            now = p.enter()
            name, buried = self._buried(key, raw)
            found = self._find(key, raw, now)
            if found.row is not None:
                raise KeyExists(
                    f"there is a newer entry with the key {key!r}: discard the buried one, or finish the other"
                )
            row = life.retry(buried, found.slot, now, p.log.next_offset)
            effect = fx.Retry(name, row.primary, encode_row(row))
            at = p.write(effect, 1, now, level, partial(p.state.apply, effect))
            p.tally.retry["retried"] += 1
            priority, date = place(row.primary)
            return PutResult("retried", cursor_of(at), row.version, date, priority), at

        return p.change(level, make)

    def discard(self, key: UserKey, *, durability: str | None = None) -> None:
        """Delete the buried entry with this key (the last one)."""
        raw = key_bytes(key)
        p = self._p
        level = p.level_of(durability, p.level)

        def make() -> tuple[None, int]:
            now = p.enter()
            effect = fx.Unbury(self._buried(key, raw)[0], key)
            at = p.write(effect, 1, now, level, partial(p.state.apply, effect), is_essential=True)
            p.tally.discard["discarded"] += 1
            return None, at

        p.change(level, make)

    def _buried(self, key: UserKey, raw: bytes) -> tuple[bytes, BuriedRow]:
        state = self._p.state
        for name, value in reversed(_buried_of(state, raw)):
            buried = state.buried(name, value)
            if buried.row.key == key:
                return name, buried._replace(row=state.steps.moved(buried.row))
        raise NotFound(f"there is no buried entry with the key {key!r}")


def _buried_of(state: Stored, raw: bytes) -> list[tuple[bytes, bytes]]:
    """The buried rows whose key has this murmur, in the order of burial."""
    digest, found = murmur(raw), []
    for rows in state.generations:
        for grave, _ in rows.all(rows.graves, digest):
            name = buried_in(grave)
            value = rows.get(name, db=rows.buried)
            if value is None:
                raise StoreDamaged(f"{rows.file.path}: no buried entry {name.hex()}, which an index names")
            found.append((name, value))
    return sorted(found)
