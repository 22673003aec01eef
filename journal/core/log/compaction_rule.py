"""
Which changes must last when a log is compacted: the last of each key, and the last that says what its data is.

A log is walked from its newest change to its oldest. A change is kept when nothing newer was seen of its key; and when
all that was seen is claims and the like, which leave the data as it is, it is kept if it decides the data. So a follower
that begins with a compacted log ends with the same data of each key as one that saw everything (events N2).

D1  Of each key at least the last change and the last one that decides its data are kept. Whenever in doubt, more is.
D2  A key belongs to a namespace. Two keys are told apart by 16 bytes of a keyed hash whose secret is not known in advance:
    unlike murmurs these cannot be made to collide.
D3  At most `keys_max` keys are known, in about 34 bytes each; of all other keys every change is kept.
D4  What is done to a flag is a change of that flag. Carried rows and skips are no change of any key: they never stay.
"""

from __future__ import annotations

import struct
from array import array
from hashlib import blake2b

from journal.core.entry import effects as fx
from journal.core.entry.keys import PLACE_BYTES, UserKey
from journal.core.entry.rows import entry_key

KEYS_MAX = 1 << 20
_FIRST_SIZE = 1 << 12
_PAIR = struct.Struct("<QQ").unpack
_TOUCHED, _DECIDED = 1, 2

Mark = tuple[bytes, bool]
"""What a change is of, and whether it decides the data."""


def marks_of(effect: fx.Effect) -> list[Mark]:
    """One for each change of an effect and for each flag that it raises, in order; none of what never stays (D4)."""
    match effect:
        case fx.PutEffect(_, value) | fx.Replace(value=value) | fx.Release(value=value) | fx.RetryEffect(value=value):
            return [(_key(entry_key(value)), True)]
        case fx.PutsEffect(items) | fx.LoadEffect(items=items):
            return [(_key(entry_key(value)), True) for value in items[1::2]]
        case fx.Queue(_, value):
            return [(_key(entry_key(value[PLACE_BYTES:])), True)]
        case fx.Claim(items=items):
            return [(_key(key), False) for key in items[1::4]]
        case fx.Done(items):
            return [(_key(key), True) for key in items[1::5]]
        case fx.Expire(items):
            return [(_key(key), True) for key in items[1::2]]
        case fx.Extend(key=key) | fx.Timeout(key=key) | fx.Unbury(key=key):
            return [(_key(key), False)]
        case fx.DeleteEffect(key=key) | fx.Bury(key=key, flag=None):
            return [(_key(key), True)]
        case fx.Bury(key=key, flag=str() as flag):
            return [(_key(key), True), (_flag(flag), True)]
        case fx.Lower(name) | fx.Raise(name=name):
            return [(_flag(name), True)]
        case fx.Group(parts) | fx.LoadGroup(effects=parts):
            return [mark for verb, *args in parts for mark in marks_of(fx.from_list(verb, args))]
        case fx.Clear(entries, _, flags):
            return [*((_key(key), True) for key in entries[1::2]), *((_flag(name), True) for name in flags)]
        case fx.Carry() | fx.Skip() | fx.StepEffect():
            return []
    raise TypeError(f"{type(effect).__name__} has no key: say in {__name__} what it is a change of")


def _key(key: UserKey) -> bytes:
    return b"t" + key.encode() if isinstance(key, str) else b"b" + key


def _flag(name: str) -> bytes:
    return b"f" + name.encode()


class Latest:
    """The keys of which something newer was seen: a hash table in three arrays, since a set would take three times it."""

    def __init__(self, secret: bytes, keys_max: int = KEYS_MAX) -> None:
        self._secret = secret
        self._keys_max = keys_max
        self._count = 0
        self._make(_FIRST_SIZE)

    def _make(self, size: int) -> None:
        self._mask = size - 1
        self._low, self._high = array("Q", bytes(8 * size)), array("Q", bytes(8 * size))
        self._seen = bytearray(size)

    def digest(self, namespace: bytes, what: bytes) -> bytes:
        """The 16 bytes that stand for a mark's key in a namespace (D2), which has no zero byte."""
        return blake2b(namespace + b"\0" + what, digest_size=16, key=self._secret).digest()

    def keeps(self, digest: bytes, is_decisive: bool) -> bool:
        """Whether a change must stay; asked once for each, the newest first (D1)."""
        low, high = _PAIR(digest)
        seen, mask = self._seen, self._mask
        at = low & mask
        while found := seen[at]:
            if self._low[at] == low and self._high[at] == high:
                if found == _DECIDED or not is_decisive:
                    return False
                seen[at] = _DECIDED
                return True
            at = (at + 1) & mask
        if self._count < self._keys_max:
            seen[at], self._low[at], self._high[at] = _DECIDED if is_decisive else _TOUCHED, low, high
            self._count += 1
            if self._count * 2 > mask:
                self._grow()
        return True

    def _grow(self) -> None:
        old = [(low, high, seen) for low, high, seen in zip(self._low, self._high, self._seen, strict=True) if seen]
        self._make(2 * len(self._seen))
        for low, high, seen in old:
            at = low & self._mask
            while self._seen[at]:
                at = (at + 1) & self._mask
            self._seen[at], self._low[at], self._high[at] = seen, low, high
