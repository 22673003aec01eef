"""`done(next=…)` from afar: one request, one record."""

from __future__ import annotations

import pytest

import journal
import journal.aio
from journal import Put
from tests.net.client.daemon import TinyDaemon
from tests.net.server.asking import ask, grant, pack


def test_many_at_once(far_pages: journal.Journal, pages: journal.Journal) -> None:
    """A result, an error or None for each, in order; in as many frames as it takes."""
    far_pages.put_many([Put(f"k{n}", n, priority=n) for n in range(5)])
    leases = far_pages.claim_many(5)
    large = b"x" * 400_000
    results = far_pages.done_many(leases, next=[Put("a", large), None, Put("b", large), Put("c", large), Put("", 1)])
    assert [getattr(r, "outcome", None) for r in results] == ["inserted", None, "inserted", "inserted", None]
    assert results[1] is None and isinstance(results[4], journal.Invalid)
    assert sorted((e.key, e.status) for e in pages.scan()) == [("a", "W"), ("b", "W"), ("c", "W"), ("k4", "P")]
    with pytest.raises(journal.Invalid, match="next has 1 items"):
        far_pages.done_many(leases, next=[None])


def test_it_needs_the_right_to_put(store: journal.Store, pages: journal.Journal) -> None:
    """Who may only consume finishes without; and nobody puts under a name that is not its own."""
    pages.put("a", b"1")
    token = pages.claim(consumer="c").token  # type: ignore[union-attr]
    put = {"key": "b", "data": pack(1)}
    for by in (grant("c", "consume"), grant("c", "consume", "produce")):
        with pytest.raises(journal.AccessDenied):
            ask(store, "DONE", by=by, token=token, next={**put, "owner": "them"})
        with pytest.raises(journal.AccessDenied):
            ask(store, "DONE_MANY", by=by, tokens=[token], nexts=[{**put, "owner": "them"}])
    with pytest.raises(journal.AccessDenied):
        ask(store, "DONE", by=grant("c", "consume"), token=token, next=put)
    with pytest.raises(journal.Invalid):
        ask(store, "DONE_MANY", tokens=[token], nexts=[])
    assert ask(store, "DONE", by=grant("c", "consume", "produce"), token=token, next=put)[0] == "inserted"
    assert [e.key for e in pages.scan()] == ["b"]


def test_data_that_no_frame_can_hand_out_is_refused(store: journal.Store, pages: journal.Journal) -> None:
    """With its done; the others of a group are not."""
    pages.put_many([Put("a"), Put("b")])
    tokens = [lease.token for lease in pages.claim_many(2)]
    large = {"key": "c", "data": pack(b"x" * ((1 << 20) - 4000))}
    with pytest.raises(journal.Invalid, match="handed out"):
        ask(store, "DONE", token=tokens[0], next=large)
    refused, done = ask(store, "DONE_MANY", tokens=tokens, nexts=[large, None])
    assert refused["code"] == "invalid" and done is None
    assert [e.status for e in pages.scan()] == ["P"]


def test_a_plain_done_sends_what_it_always_sent(remote: journal.Store, tiny: TinyDaemon) -> None:
    """Nothing is added to the usual request."""
    pages = remote.journal("pages")
    pages.put("a", 1)
    lease = pages.claim()
    assert lease is not None
    assert lease.done() is None
    assert tiny.asked[-1].parameters == {"token": lease.token}
