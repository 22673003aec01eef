"""
Generated keys: UUIDs of version 7 (RFC 9562), which sort by the time of their creation.

    bits   48                    4     12        2     62
           Unix time in ms       0111  random a  10    random b

Without version and variant that is one number of 122 bits, `ms << 74 | random`, and its order is the order of the text. This
module computes the next number from the last one; `journal.roles.fresh_keys` supplies the random bits and the time.

U1  Whatever follows is greater: within one millisecond, and when the clock has been set back. It then counts on from the last
    one, by a random step, and where a millisecond is used up it takes from the next.
U2  In a new millisecond the random part begins in its lower half, so that there are at least 2^41 more before the next one.
U3  `created` is what the clock said, unless it was set back: then it is the latest that it had said.
"""

from __future__ import annotations

import re

from journal.errors import Invalid

RANDOM_BYTES = 10
"""How many random bytes one key takes."""

_RANDOM_BITS = 74
_LOW_BITS = 62
_STEP_BITS = 32
_TIME_MAX = (1 << 48) - 1
_TEXT = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}", re.IGNORECASE | re.ASCII)


def following(last: int, now_ms: int, chance: bytes) -> int:
    """The number of a new key: after `last` (-1: there is none) and, if that is later, of `now_ms` (U1, U2)."""
    if type(now_ms) is not int or not 0 <= now_ms <= _TIME_MAX:
        raise Invalid(f"now_ms is {now_ms!r}: a key can tell times from 0 to {_TIME_MAX} milliseconds since the epoch")
    if len(chance) != RANDOM_BYTES:
        raise Invalid(f"a key takes {RANDOM_BYTES} random bytes, not {len(chance)}")
    random = int.from_bytes(chance, "big")
    if now_ms > last >> _RANDOM_BITS:
        return now_ms << _RANDOM_BITS | random & (1 << _RANDOM_BITS - 1) - 1
    number = last + 1 + (random & (1 << _STEP_BITS) - 1)
    if number >> _RANDOM_BITS > _TIME_MAX:
        raise Invalid("there is no later UUID of version 7: the clock stands at the end of the year 10889")
    return number


def text_of(number: int) -> str:
    """The key as people write it: 36 characters."""
    high, low = number >> _LOW_BITS, number & (1 << _LOW_BITS) - 1
    whole = f"{(high >> 12) << 16 | 0x7000 | high & 0xFFF:016x}{1 << 63 | low:016x}"
    return f"{whole[:8]}-{whole[8:12]}-{whole[12:16]}-{whole[16:20]}-{whole[20:]}"


def number_of(text: str) -> int | None:
    """The number of a UUID of version 7; None when the text is none."""
    if type(text) is not str or _TEXT.fullmatch(text) is None:
        return None
    whole = int(text.replace("-", ""), 16)
    return (whole >> 80) << _RANDOM_BITS | (whole >> 64 & 0xFFF) << _LOW_BITS | whole & (1 << _LOW_BITS) - 1


def created(key: str | bytes) -> int | None:
    """When a key was made, in ms since the epoch; None when it does not tell: it is not the text of a UUID of version 7."""
    number = number_of(key) if type(key) is str else None
    return None if number is None else number >> _RANDOM_BITS
