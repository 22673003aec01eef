"""Fresh keys: one order over threads, none twice over forks."""

from __future__ import annotations

import os
import threading
from itertools import pairwise

import pytest

from journal.core.entry.uuid7 import created
from journal.errors import Invalid
from journal.roles import fresh_keys
from journal.roles.fresh_keys import KeySource, new_key


def test_keys_are_in_order_and_tell_their_time() -> None:
    """A thousand of one millisecond; then the clock goes back, and they go on."""
    source = KeySource()
    keys = [source.key(1_700_000_000_000) for _ in range(1000)] + [source.key(1_600_000_000_000) for _ in range(10)]
    assert all(a < b for a, b in pairwise(keys))
    assert {created(key) for key in keys} == {1_700_000_000_000}


def test_threads_never_get_the_same_and_each_sees_its_own_in_order() -> None:
    """Eight at once, of one millisecond."""
    source = KeySource()
    made: list[list[str]] = [[] for _ in range(8)]
    begin = threading.Barrier(8)

    def make(mine: list[str]) -> None:
        begin.wait()
        mine.extend(source.key(1_700_000_000_000) for _ in range(500))

    threads = [threading.Thread(target=make, args=(mine,)) for mine in made]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(a < b for mine in made for a, b in pairwise(mine))
    assert len({key for mine in made for key in mine}) == 8 * 500


def test_a_refused_time_changes_nothing() -> None:
    """The next key comes after the last one all the same."""
    source = KeySource()
    first = source.key(5)
    with pytest.raises(Invalid):
        source.key(-1)
    assert created(source.key(5)) == created(first) == 5


def test_a_forked_child_makes_others() -> None:
    """Even one that was forked while another thread was making a key."""
    before = new_key(1_700_000_000_000)
    out, into = os.pipe()
    with fresh_keys._source._lock:  # as that thread would hold it
        child = os.fork()
        if child == 0:
            os.write(into, "".join(new_key(1_700_000_000_000) for _ in range(10)).encode())
            os._exit(0)
    _, status = os.waitpid(child, 0)
    text = os.read(out, 4096).decode()
    os.close(out)
    os.close(into)
    assert status == 0
    theirs = {text[at : at + 36] for at in range(0, 360, 36)}
    ours = {before, *(new_key(1_700_000_000_000) for _ in range(10))}
    assert len(theirs | ours) == 21
