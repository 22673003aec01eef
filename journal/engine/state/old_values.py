"""
The data before a change, for journals whose log keeps it (`log_old`): read before the effect is applied, and written with
its record.

V1  It belongs to the record and not to the effect: replay, compaction and the check do not look at it.
V2  Other journals pay nothing: the function that makes records is another one.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Protocol

import msgpack

from journal.core.entry import effects as fx
from journal.core.entry.keys import SLOT_AT
from journal.core.entry.rows import decode_entry
from journal.core.log.record import Encoder, Olds, encoder, encoder_with_old

if TYPE_CHECKING:
    from journal.engine.state.reader import StoredState


class HasState(Protocol):
    """A journal: its state may be another one after a replay."""

    @property
    def state(self) -> StoredState: ...


def encoder_of(journal: HasState, namespace: bytes, packer: msgpack.Packer | None = None, *, has_old: bool) -> Encoder:
    """What makes the records of a journal, with the data before each change or without."""
    if not has_old:
        return encoder(namespace, packer)
    return encoder_with_old(namespace, partial(_olds, journal), packer)


def _olds(journal: HasState, effect: fx.Effect) -> Olds | None:
    """The packed data before each change of an effect that is about to be applied; None when no change has any."""
    found = _each(journal.state, effect, {})
    return found if any(old is not None for old in found) else None


def _each(state: StoredState, effect: fx.Effect, written: dict[bytes, bytes]) -> Olds:
    """`written`: what earlier parts of the same group have put where, not stored yet."""
    match effect:
        case fx.Done(items):
            return [_data(state, primary, written) for primary in items[::5]]
        case fx.Expire(items):
            return [_data(state, primary, written) for primary in items[::2]]
        case fx.Clear(entries, buried, flags):
            olds: Olds = [_data(state, primary, written) for primary in entries[::2]]
            return olds + [None] * (len(buried) + len(flags))
        case fx.Replace(old, primary, value) | fx.Release(old, _, primary, value):
            before = _data(state, old, written)
            written[primary] = value
            return [before]
        case fx.DeleteEffect(primary, _):
            return [_data(state, primary, written)]
        case fx.PutEffect(primary, value):
            written[primary] = value
            return [None]
        case fx.LoadGroup(effects=[]):
            return [None]
        case fx.Group(parts) | fx.LoadGroup(effects=parts):
            return [old for verb, *args in parts for old in _each(state, fx.from_list(verb, args), written)]
        case _:
            return [None] * fx.changes(effect)


def _data(state: StoredState, primary: bytes, written: dict[bytes, bytes]) -> bytes | None:
    if primary in written:
        return decode_entry(primary, written[primary]).data
    slot = primary[SLOT_AT:]
    item = state.pending.get(slot) or state.lent.get(slot)
    return item[0].data if item is not None else state.entry(primary).data
