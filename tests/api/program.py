"""A program that may have its store in its own process, or over a connection: mypy sees one type (tests.api.test_types)."""

from __future__ import annotations

import sys

import journal


def opened(where: str, *, is_remote: bool) -> journal.Store:
    """The one line that differs."""
    return journal.connect(where) if is_remote else journal.open(where)


def work(store: journal.Store) -> list[str | bytes]:
    """Everything else does not."""
    pages: journal.Journal = store.journal("pages", processing_timeout="2m")
    result: journal.PutResult = pages.put("/home", {"uri": "/home"}, priority=journal.NEW_PAGE)
    pages.wait_durable(result.cursor)
    pages.put_many([journal.Put("/a"), journal.Put("/b")])
    found: list[str | bytes] = []
    lease: journal.Lease | None = pages.claim(consumer="backend-1", lease="30s")
    if lease is not None:
        with lease:
            found.append(lease.key)
    leases: list[journal.Lease] = pages.claim_many(10, consumer="backend-1")
    found += [each.key for each in leases]
    pages.done_many(leases)
    feed: journal.Feed = pages.feed(live=False)
    with feed:
        assert any(event.key == "/home" for event in feed)
    snapshot: journal.Snapshot = pages.snapshot()
    with snapshot:
        assert sum(len(block.values) for part in snapshot.parts(2) for block in part.read()) == 0
    merged: journal.MergedJournals = store.merged()
    assert merged.counts() == {}
    producer = journal.Producer(pages, group="shop")
    producer.publish({"n": 1})
    with journal.Consumer(pages, name="backend-1") as consumer:
        consumer.subscribe()
        taken = consumer.take_nowait()
        assert taken is not None
        taken.done()
    return found


def main() -> None:
    """In both ways, one after the other."""
    where = sys.argv[1]
    with opened(where, is_remote=False) as store:
        assert work(store) == ["/home", "/a", "/b"]
        with store.serve(), opened(where, is_remote=True) as far:
            assert work(far) == ["/home", "/a", "/b"]


if __name__ == "__main__":
    main()
