"""Acknowledgements of a feed: exact, out of order, redelivery one at a time; against a plain set."""

from __future__ import annotations

import threading
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import journal
from journal import Invalid, Refused, Unacknowledged
from journal.engine.feed import log_tail
from tests.engine.feed.following import at, caught_up, keys, put


def test_a_consumer_goes_on_after_its_position(pages: journal.Journal) -> None:
    """`start` counts for a new consumer only."""
    put(pages, "a", "b", "c")
    with caught_up(pages, consumer="audit") as feed:
        events = list(feed)
        feed.ack(events[:2])
        assert (feed.position, feed.lag, feed.unacked) == (at(1), 1, 1)
        feed.ack(events[2])
    put(pages, "d")
    with caught_up(pages, consumer="audit", start="END") as feed:
        assert keys(feed) == ["d"]


def test_acknowledgements_are_exact(pages: journal.Journal) -> None:
    """Out of order, singly, in bulk, repeated: what was not named comes again, whatever came after it."""
    put(pages, *"abcdefgh")
    with caught_up(pages, consumer="audit") as feed:
        events = list(feed)
        feed.ack(events[7])
        feed.ack(events[5].cursor, events[1].cursor)
        feed.ack([events[0], events[3].cursor], events[3])
        feed.ack(events[7])
        assert (feed.position, feed.unacked) == (at(1), 3)
    with caught_up(pages, consumer="audit") as feed:
        again = []
        for event in feed:
            again.append(event.key)
            feed.ack(event)
        assert again == ["c", "e", "g"]
        assert (feed.position, feed.lag) == (at(7), 0)


@pytest.mark.parametrize(
    ("named", "left"),
    [("abc", "defgh"), ("bcd", "aefgh"), ("bd", "acefgh"), ("dcb", "aefgh"), ("bbc", "adefgh"), ("abcdefgh", "")],
)
def test_a_list_says_what_each_of_its_events_says(pages: journal.Journal, named: str, left: str) -> None:
    """In order, as they came, or not; some twice; the generations that they are of need not be one."""
    caught_up(pages, consumer="audit").close()  # which holds the log
    for number, key in enumerate("abcdefgh"):
        if number == 4 and not pages.settings.merged:
            pages.rotate()
        pages.put(key)
    with caught_up(pages, consumer="audit") as feed:
        events = {str(event.key): event for event in feed}
        feed.ack([events[key] for key in named])
        assert feed.unacked == len(left)
    with caught_up(pages, consumer="audit") as feed:
        again = ""
        for event in feed:
            again += str(event.key)
            feed.ack([event])
    assert again == left


def test_what_was_never_delivered_cannot_be_acknowledged(pages: journal.Journal) -> None:
    """And nothing of a list that holds such a cursor is taken."""
    put(pages, "a", "b")
    with caught_up(pages, consumer="audit") as feed:
        first = next(feed)
        with pytest.raises(Invalid, match="never delivered"):
            feed.ack([first.cursor, at(1)])
        assert feed.position == at(-1)
        for wrong in ("x", 3, [None]):
            with pytest.raises(Invalid, match="Cursor"):
                feed.ack(wrong)  # type: ignore[arg-type]


@pytest.mark.embedded(reason="what is on its way over a connection counts as delivered")
def test_after_a_failure_they_come_one_at_a_time(pages: journal.Journal) -> None:
    """The next one only when the one before is acknowledged; then normal flow."""
    put(pages, *"abcdef")
    with caught_up(pages, consumer="audit") as feed:
        a, b, c, d = (next(feed) for _ in range(4))
        feed.ack(b)
        feed.fail(d)
        assert next(feed).key == "a"
        assert feed.is_redelivering
        with pytest.raises(Unacknowledged, match="delivered again"):
            next(feed)
        feed.ack(a)
        assert next(feed).key == "c"
        with pytest.raises(Unacknowledged):
            next(feed)
        feed.ack(c.cursor)
        assert next(feed).key == "d"
        feed.ack(d)
        assert [next(feed).key, next(feed).key] == ["e", "f"]
        assert not feed.is_redelivering
        assert next(feed, None) is None


def test_a_failure_of_what_is_acknowledged_is_refused(pages: journal.Journal) -> None:
    """Or of what was never delivered; nothing is delivered again then."""
    put(pages, "a", "b", "c")
    with caught_up(pages, consumer="audit") as feed:
        a = next(feed)
        feed.ack(a)
        for wrong in (a, at(2)):
            with pytest.raises(Invalid):
                feed.fail(wrong)
        assert keys(feed) == ["b", "c"]


def test_an_exception_in_the_block_brings_them_again(pages: journal.Journal) -> None:
    """One at a time, when the consumer comes back; what comes after them flows."""
    put(pages, *"abc")

    def process() -> None:
        with caught_up(pages, consumer="audit") as feed:
            for event in feed:
                if event.key == "b":
                    raise RuntimeError(event.key)
                feed.ack(event)

    with pytest.raises(RuntimeError, match="b"):
        process()
    with caught_up(pages, consumer="audit") as feed:
        assert next(feed).key == "b"
        with pytest.raises(Unacknowledged):
            next(feed)
        feed.ack(at(1))
        assert next(feed).key == "c"


def test_what_is_delivered_and_not_acknowledged_is_bounded(pages: journal.Journal) -> None:
    """More is refused, and comes when there is room; going back is possible at the bound too."""
    put(pages, *"abcde")
    with caught_up(pages, consumer="audit", unacked_max=2) as feed:
        a, b = next(feed), next(feed)
        with pytest.raises(Unacknowledged, match="unacked_max"):
            next(feed)
        feed.ack(b)
        assert next(feed).key == "c"
        with pytest.raises(Unacknowledged):
            next(feed)
        feed.fail()
        assert next(feed).key == "a"
        feed.ack(a)
        assert next(feed).key == "c"


def test_iteration_can_wait_for_another_thread(pages: journal.Journal) -> None:
    """wait_acks: the bound, and one at a time, hold the iteration until somebody acknowledges."""
    put(pages, *"abcd")
    feed = caught_up(pages, consumer="audit", unacked_max=1, wait_acks=True)
    seen: list[journal.Event] = []
    is_seen = threading.Semaphore(0)

    def iterate() -> None:
        for event in feed:
            seen.append(event)
            is_seen.release()

    thread = threading.Thread(target=iterate, daemon=True)
    thread.start()
    for n in range(4):
        assert is_seen.acquire(timeout=300)
        assert len(seen) == n + 1
        feed.ack(seen[n])
    thread.join(100)
    assert not thread.is_alive()
    feed.close()


def test_consumers_are_independent(pages: journal.Journal) -> None:
    """Each has its own position; a feed without a name has none."""
    put(pages, "a", "b")
    with caught_up(pages, consumer="one") as one, caught_up(pages, consumer="two") as two, caught_up(pages) as free:
        one.ack(list(one))
        assert keys(two) == ["a", "b"]
        assert keys(free) == ["a", "b"]
        assert (one.position, two.position, free.position) == (at(1), at(-1), at(1))
        assert (one.lag, two.lag, free.lag) == (0, 2, 0)
        with pytest.raises(Invalid, match="without a consumer"):
            free.ack(at(0))
    assert [view.name for view in pages.feeds()] == ["one", "two"]


@pytest.mark.embedded(reason="a connection keeps its feeds until it ends")
def test_a_feed_that_was_forgotten_is_closed(pages: journal.Journal) -> None:
    """Whoever forgets it can open another, and gets again what was not acknowledged."""
    put(pages, *"abc")

    def process() -> Any:
        feed = caught_up(pages, consumer="audit")
        for event in feed:
            feed.ack(event)
            break
        return next(feed).key

    assert process() == "b"
    assert not pages.feeds()[0].is_open
    with caught_up(pages, consumer="audit") as feed:
        assert next(feed).key == "b"
        assert feed.is_redelivering


def test_leaving_the_loop_loses_nothing(pages: journal.Journal) -> None:
    """A loop that was left goes on where it was, by another loop or by next."""
    put(pages, *"abcdef")
    feed = caught_up(pages)
    seen = []
    for event in feed:
        seen.append(event.key)
        if event.key == "b":
            break
    seen.append(next(feed).key)
    for event in feed:
        seen.append(event.key)
        if event.key == "d":
            break
    assert seen + keys(feed) == list("abcdef")


def test_one_name_is_open_once(pages: journal.Journal) -> None:
    """The second is refused, and harms nothing; after closing it is free."""
    put(pages, "a")
    with caught_up(pages, consumer="audit") as feed:
        with pytest.raises(Refused, match="open already"):
            pages.feed(consumer="audit")
        feed.ack(list(feed))
    with caught_up(pages, consumer="audit") as feed:
        assert keys(feed) == []
    feed.close()
    with pytest.raises(journal.StoreClosed, match="closed"):
        feed.ack(at(0))


steps = st.lists(
    st.one_of(
        st.tuples(st.just("put"), st.integers(1, 4)),
        st.tuples(st.just("next"), st.integers(1, 5)),
        st.tuples(st.just("ack"), st.integers(0, 30)),
        st.tuples(st.just("fail"), st.none()),
        st.tuples(st.just("reopen"), st.none()),
        st.tuples(st.just("restart"), st.none()),
    ),
    max_size=40,
)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(steps)
def test_a_plain_set_of_acknowledgements_agrees(tmp_path_factory: pytest.TempPathFactory, program: list[Any]) -> None:
    """Whatever happens in whatever order: what is delivered is what a list of changes and a set of acks say."""
    path = tmp_path_factory.mktemp("model") / "s"
    block, log_tail.BLOCK_BYTES = log_tail.BLOCK_BYTES, 256
    store = journal.open(path, durability="interval")
    pages = store.journal("pages")
    feed = caught_up(pages, consumer="audit", unacked_max=8)
    total, acked, high, again_to, after, held = 0, set[int](), -1, -1, -1, -1
    try:
        for verb, number in program:
            if verb == "put":
                pages.put_many([journal.Put(f"k{total + n}", n) for n in range(number)])
                total += number
            elif verb == "next":
                for _ in range(number):
                    expected = next((n for n in range(after + 1, total) if n not in acked), None)
                    is_again = expected is not None and expected <= again_to
                    is_held = held >= 0 and held not in acked
                    is_full = not is_again and high + 1 - len(acked) >= 8
                    if expected is not None and (is_held or is_full):
                        with pytest.raises(Unacknowledged):
                            next(feed)
                        continue
                    event = next(feed, None)
                    assert (None if event is None else event.cursor.offset) == expected
                    if expected is not None:
                        after, high = expected, max(high, expected)
                        held = expected if is_again else -1
            elif verb == "ack":
                if number > high:
                    with pytest.raises(Invalid):
                        feed.ack(at(number))
                else:
                    feed.ack(at(number))
                    acked.add(number)
            else:
                if verb == "fail":
                    feed.fail()
                elif verb == "reopen":
                    feed.close()
                    feed = caught_up(pages, consumer="audit", unacked_max=8)
                else:
                    store.close()
                    store = journal.open(path, durability="interval")
                    pages = store.journal("pages")
                    feed = caught_up(pages, consumer="audit", unacked_max=8)
                again_to, held = high, -1
                after = next(n for n in range(total + 1) if n not in acked) - 1
            assert feed.position == at(next(n for n in range(total + 1) if n not in acked) - 1)
            assert feed.lag == total - len(acked)
        assert store.check() == []
    finally:
        log_tail.BLOCK_BYTES = block
        store.close()
