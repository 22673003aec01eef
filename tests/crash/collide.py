"""
Two keys with one murmur, made on purpose: whoever can choose keys can do this, so a store must not mind.

MurmurHash3 x64 128 mixes each half of a 16-byte block before it meets the state. A difference that the rotation puts into the highest
bit survives the additions and the multiplication by 5 as that one bit, and the next block takes it out again, whatever the seed.
"""

from __future__ import annotations

_C1, _C2 = 0x87C37B91114253D5, 0x4CF5AD432745937F
_WORD = (1 << 64) - 1


def twin(key: bytes) -> bytes:
    """Another key of 32 bytes with the murmur of this one."""
    if len(key) != 32:
        raise ValueError("two blocks of 16 bytes are needed")
    words = [int.from_bytes(key[begin : begin + 8], "little") for begin in range(0, 32, 8)]
    words[0] = _flip(words[0], 36, _C1, 31, _C2)  # turned by 27 bits: the highest bit of h1
    words[1] = _flip(words[1], 32, _C2, 33, _C1)  # turned by 31 bits: cancels what h1 adds to h2
    words[2] = _flip(words[2], 63, _C1, 31, _C2)  # takes the bit out of h1
    return b"".join(word.to_bytes(8, "little") for word in words)


def _flip(word: int, bit: int, first: int, turn: int, second: int) -> int:
    """The word whose mixed form differs in one bit."""
    mixed = _turn(word * first & _WORD, turn) * second & _WORD
    unmixed = (mixed ^ 1 << bit) * pow(second, -1, 1 << 64) & _WORD
    return _turn(unmixed, 64 - turn) * pow(first, -1, 1 << 64) & _WORD


def _turn(word: int, bits: int) -> int:
    return (word << bits | word >> (64 - bits)) & _WORD
