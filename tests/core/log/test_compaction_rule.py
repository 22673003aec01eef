"""Which changes must last: the last of each key and the last that decides its data, in a table that holds so many keys."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from journal.core.entry import effects as fx
from journal.core.entry.keys import PLACE_BYTES, PRIMARY_BYTES
from journal.core.entry.rows import encode_entry
from journal.core.log.compaction_rule import Latest, marks_of

PRIMARY = bytes(PRIMARY_BYTES)
SECRET = b"s" * 16


def entry(key: str | bytes) -> bytes:
    return encode_entry(PRIMARY, 1, 0, 1, 0, 1, 0, b"owner", key, b"\xc0")


def test_every_effect_says_what_it_is_a_change_of() -> None:
    """A new effect without an answer is an error, not a change that is lost."""
    text, raw = (b"tk", True), (b"bk", True)
    touched = (b"tk", False)
    known: dict[type[fx.Effect], tuple[fx.Effect, list[tuple[bytes, bool]]]] = {
        fx.PutEffect: (fx.PutEffect(PRIMARY, entry("k")), [text]),
        fx.PutsEffect: (fx.PutsEffect([PRIMARY, entry("k"), PRIMARY, entry(b"k")]), [text, raw]),
        fx.Replace: (fx.Replace(PRIMARY, PRIMARY, entry("k")), [text]),
        fx.Queue: (fx.Queue(PRIMARY[PLACE_BYTES:], PRIMARY[:PLACE_BYTES] + entry("k")), [text]),
        fx.Claim: (fx.Claim("c", 1, 2, 3, [PRIMARY, "k", 1, 0, PRIMARY, b"k", 1, 0]), [touched, (b"bk", False)]),
        fx.Done: (fx.Done([PRIMARY, "k", 1, None, None, PRIMARY, b"k", 2, PRIMARY, entry(b"k")]), [text, raw]),
        fx.Extend: (fx.Extend(PRIMARY, "k", 1, 2, 3), [touched]),
        fx.Release: (fx.Release(PRIMARY, 1, PRIMARY, entry("k")), [text]),
        fx.Timeout: (fx.Timeout(PRIMARY, "k", 1, 2, 3), [touched]),
        fx.Bury: (fx.Bury(PRIMARY, 1, b"", b"", "k", 1, "buried", None, None), [text, (b"fburied", True)]),
        fx.RetryEffect: (fx.RetryEffect(b"", PRIMARY, entry("k")), [text]),
        fx.DeleteEffect: (fx.DeleteEffect(PRIMARY, "k"), [text]),
        fx.Expire: (fx.Expire([PRIMARY, "k", PRIMARY, b"k"]), [text, raw]),
        fx.Lower: (fx.Lower("k"), [(b"fk", True)]),
        fx.Unbury: (fx.Unbury(b"", "k"), [touched]),
        fx.Group: (
            fx.Group([fx.to_list(fx.DeleteEffect(PRIMARY, "k")), fx.to_list(fx.Unbury(b"", "k"))]),
            [text, touched],
        ),
        fx.Carry: (fx.Carry([PRIMARY, entry("k")], [], [], []), []),
        fx.Raise: (fx.Raise("k", "message", 1), [(b"fk", True)]),
        fx.Skip: (fx.Skip(3), []),
        fx.Clear: (fx.Clear([PRIMARY, "k", PRIMARY, b"k"], [b"n"], ["k"]), [text, raw, (b"fk", True)]),
        fx.LoadEffect: (fx.LoadEffect("n", 1, [PRIMARY, entry("k"), PRIMARY, entry(b"k")]), [text, raw]),
        fx.LoadGroup: (fx.LoadGroup("n", 1, [fx.to_list(fx.DeleteEffect(PRIMARY, "k"))]), [text]),
        fx.StepEffect: (fx.StepEffect(-3_600_000, 9, 12), []),
    }
    assert known.keys() == fx.VERBS.keys()
    for effect, marks in known.values():
        assert marks_of(effect) == marks
    assert marks_of(fx.Bury(PRIMARY, 1, b"", b"", "k", 1, None, None, None)) == [text]


def test_namespaces_do_not_share_keys() -> None:
    """Nor does a name run into a key."""
    latest = Latest(SECRET)
    assert len({latest.digest(b"a", b"tk"), latest.digest(b"b", b"tk"), latest.digest(b"at", b"k")}) == 3
    assert latest.digest(b"a", b"tk") != Latest(b"t" * 16).digest(b"a", b"tk")


CHANGES = st.lists(st.tuples(st.integers(0, 30), st.booleans()), max_size=200)


@given(CHANGES, st.integers(0, 40))
def test_it_keeps_what_a_model_keeps(changes: list[tuple[int, bool]], keys_max: int) -> None:
    """With room for all keys exactly the last changes; with less room more, never less."""
    wanted = set()
    for key in {key for key, _ in changes}:
        mine = [i for i, (k, _) in enumerate(changes) if k == key]
        wanted.add(mine[-1])
        wanted |= set([i for i in mine if changes[i][1]][-1:])
    found = set()
    latest = Latest(SECRET, keys_max)
    for i in range(len(changes) - 1, -1, -1):
        key, is_decisive = changes[i]
        if latest.keeps(latest.digest(b"n", b"t%d" % key), is_decisive):
            found.add(i)
    assert found >= wanted
    if keys_max > 30:
        assert found == wanted


def test_the_table_grows() -> None:
    """Far beyond its first size, and forgets nothing on the way."""
    latest = Latest(SECRET, keys_max=20_000)
    digests = [latest.digest(b"n", b"t%d" % n) for n in range(30_000)]
    assert all(latest.keeps(digest, is_decisive=True) for digest in digests)
    again = [latest.keeps(digest, is_decisive=True) for digest in digests]
    assert again == [False] * 20_000 + [True] * 10_000
