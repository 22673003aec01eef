"""Claims over the wire: what fits into a frame, when to ask again, and the index of buckets."""

from __future__ import annotations

import pytest

import journal
from journal.core.limits import CONSUMER_BYTES_MAX
from journal.net.server.verbs.claims import TakesLong, next_due
from journal.net.server.verbs.frame_sizes import LEASE_BYTES
from journal.net.server.verbs.handlers import HANDLERS
from journal.net.server.verbs.served_journal import served_of
from journal.net.wire.auth import EVERYTHING
from journal.testing import ManualClock
from tests.net.server.asking import FRAME, ask, engine_of, pack, pipeline_of

START = 1_700_000_000_000
FRAME_ROOM = FRAME - 96
"""Data that a journal takes, and no frame can hold with all that comes with it."""


def test_when_to_ask_again(store: journal.Store, pages: journal.Journal, clock: ManualClock) -> None:
    """When nothing is due, the date before which nothing falls due; null when nothing waits."""
    for command, nothing in (("CLAIM", {"lease": None}), ("CLAIM_MANY", {"leases": []})):
        given = {"n": 3} if command == "CLAIM_MANY" else {}
        assert ask(store, command, **given) == nothing | {"next_due": None}
    pages.put("b", 1, delay=700, priority=3)
    pages.put("a", 1, delay=500)
    assert ask(store, "CLAIM") == {"lease": None, "next_due": START + 500}
    assert ask(store, "CLAIM_MANY", n=2) == {"leases": [], "next_due": START + 500}
    clock.advance(500)
    assert ask(store, "CLAIM")["lease"][0] == "a"
    assert ask(store, "CLAIM") == {"lease": None, "next_due": START + 700}


def test_when_to_ask_again_for_buckets(store: journal.Store, pages: journal.Journal, clock: ManualClock) -> None:
    """A date before which nothing of these buckets falls due: when it has come, it is known better."""
    pages.put("a", 1, delay=500)
    bucket = next(i for i in range(4) if pages.count(buckets=journal.Range(i * 256, i * 256 + 256)))
    dates = [ask(store, "CLAIM", buckets=f"{i * 256}-{i * 256 + 255}")["next_due"] for i in range(4)]
    assert dates[bucket] == START + 500 and {*dates} <= {None, START + 500}
    assert ask(store, "CLAIM_MANY", n=2, buckets="0-1023")["next_due"] == START + 500
    clock.advance(500)
    others = [ask(store, "CLAIM", buckets=f"{i * 256}-{i * 256 + 255}") for i in range(4) if i != bucket]
    assert others == [{"lease": None, "next_due": None}] * 3


def test_a_claim_of_many_takes_what_fits(store: journal.Store, pages: journal.Journal) -> None:
    """Entries come in order and once each, whatever their sizes; what did not fit was not taken."""
    sizes = [300_000, 400_000, 500_000, 10, 20, 900_000, 30, 200_000, *[90_000] * 30]
    for i, size in enumerate(sizes):
        pages.put(f"{i:02}", b"x" * size, process_date=START - 1000 + i)
    taken = []
    while leases := ask(store, "CLAIM_MANY", n=100, consumer="c")["leases"]:
        taken.append([lease[0] for lease in leases])
        assert pages.count(status="processing") == sum(map(len, taken))
    assert [key for keys in taken for key in keys] == [f"{i:02}" for i in range(len(sizes))]
    assert taken[:3] == [["00", "01"], ["02", "03", "04"], ["05", "06"]]
    assert len(pages.leases()) == len(sizes)


def test_a_claim_for_more_than_there_are_takes_what_fits(store: journal.Store, pages: journal.Journal) -> None:
    """Also when fewer are due than were asked for."""
    pages.put_many([journal.Put(f"k{i}", b"x" * 500_000, priority=i) for i in range(3)])
    assert [lease[0] for lease in ask(store, "CLAIM_MANY", n=10)["leases"]] == ["k0", "k1"]
    assert len(pages.leases()) == 2
    assert [lease[0] for lease in ask(store, "CLAIM_MANY", n=10)["leases"]] == ["k2"]


def test_a_claim_of_many_small_ones_takes_them_all(store: journal.Store, pages: journal.Journal) -> None:
    """It asks the engine a few times, not for each: as many as a frame holds in three or four goes."""
    pages.put_many([journal.Put(f"{i}", b"x") for i in range(3000)])
    served = served_of(engine_of(store), "pages")
    takes = []
    real = pipeline_of(pages).state.take
    pipeline_of(pages).state.take = lambda *args: takes.append(args[1]) or real(*args)  # type: ignore[method-assign,func-returns-value]
    try:
        leases = HANDLERS["CLAIM_MANY"](served, {"n": 2500, "consumer": ""}, EVERYTHING)["leases"]
    finally:
        del pipeline_of(pages).state.take
    assert len(leases) == 2500 and len(takes) < 10
    leases = ask(store, "CLAIM_MANY", n=2500)["leases"]
    assert len(leases) == 500


@pytest.mark.parametrize("command", ["CLAIM", "CLAIM_MANY", "CLAIM_KEY"])
@pytest.mark.parametrize("buckets", [None, "0-1022"])
def test_what_fits_into_no_frame_waits_where_it_was(
    store: journal.Store, pages: journal.Journal, command: str, buckets: str | None
) -> None:
    """An entry that was put in the daemon's own process may be too large: who asks for it hears so, others get what comes behind it."""
    store.journal("pages", entry_bytes_max=1 << 22)
    pages.put("large", b"x" * (FRAME + 1), priority=1)
    pages.put("small", b"x", priority=2)
    pages.put("later", b"x", priority=2, delay=500)
    before = pages.get("large")
    if command == "CLAIM_KEY":
        for _ in range(2):
            with pytest.raises(journal.Invalid, match=r"'large', has \d+ bytes of data, and a frame has room for"):
                ask(store, command, key="large")
    else:
        given = {"CLAIM": {}, "CLAIM_MANY": {"n": 3}}[command] | ({} if buckets is None else {"buckets": buckets})
        reply = ask(store, command, **given)
        (lease,) = reply["leases"] if command == "CLAIM_MANY" else [reply["lease"]]
        assert lease[0] == "small"
        for _ in range(3):
            assert ask(store, command, **given)["next_due"] == START + 500
        pages.done(lease[5])
    after = pages.get("large")
    assert before is not None and after is not None
    assert pages.leases() == [] and after.process_date == before.process_date and after.timeouts == 0
    mine = pages.claim(consumer="host")
    assert mine is not None and mine.key == "large"
    mine.done()


def test_people_are_told_of_what_fits_into_no_frame(store: journal.Store, pages: journal.Journal) -> None:
    """With a flag that names it, raised once for each such entry; a claim that passes over it writes nothing else."""
    pages.put("large", b"x" * FRAME_ROOM, priority=1)
    pages.put_many([journal.Put(f"k{n}", b"x", priority=2) for n in range(5)])
    for _ in range(5):
        assert ask(store, "CLAIM")["lease"] is not None
    (flag,) = store.flags()
    assert (flag.journal, flag.name, flag.count) == ("pages", "too_large", 1)
    assert "'large'" in flag.message and "--frame-bytes-max" in flag.message
    end = pipeline_of(pages).log.next_offset
    assert ask(store, "CLAIM") == {"lease": None, "next_due": None}
    assert pipeline_of(pages).log.next_offset == end
    pages.put("larger", b"x" * FRAME_ROOM, priority=1)
    assert ask(store, "CLAIM_MANY", n=5)["leases"] == []
    (flag,) = store.flags()
    assert flag.count == 2 and "'larger'" in flag.message


def test_the_largest_entry_that_fits_is_handed_out(store: journal.Store, pages: journal.Journal) -> None:
    """By a claim of one and of many alike, whoever claims."""
    room = served_of(engine_of(store), "pages").room - LEASE_BYTES - CONSUMER_BYTES_MAX - len("k") - len(pack(b"")) - 3
    for command, given, of in (("CLAIM", {}, "lease"), ("CLAIM_MANY", {"n": 2}, "leases")):
        for consumer in ("", "c" * CONSUMER_BYTES_MAX):
            pages.put("k", b"x" * room)
            found = ask(store, command, consumer=consumer, **given)[of]
            lease = found if of == "lease" else found[0]
            assert lease[0] == "k"
            pages.done(lease[5])
    pages.put("k", b"x" * (room + 1))
    assert ask(store, "CLAIM")["lease"] is None
    assert ask(store, "CLAIM_MANY", n=2)["leases"] == []
    assert pages.leases() == []


def test_the_first_claim_by_buckets_takes_long(store: journal.Store, pages: journal.Journal) -> None:
    """The index is made by a slow command, once; before that nothing is done on the daemon's own thread."""
    pages.put("a", 1)
    served = served_of(engine_of(store), "pages")
    for command, given in (("CLAIM", {"buckets": "0-511"}), ("CLAIM_MANY", {"n": 1, "buckets": "0-511"})):
        with pytest.raises(TakesLong):
            HANDLERS[command](served, given, EVERYTHING)
    assert HANDLERS["CLAIM"](served, {"buckets": "0-1023"}, EVERYTHING)["lease"][0] == "a"  # all of them need no index
    ask(store, "CLAIM", buckets="0-511")
    HANDLERS["CLAIM"](served, {"buckets": "512-1023"}, EVERYTHING)


def test_the_next_date_is_read_from_memory(
    store: journal.Store, pages: journal.Journal, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No key is looked at for it."""
    pages.put("a", 1, delay=500)
    served = served_of(engine_of(store), "pages")
    monkeypatch.setattr(pipeline_of(pages).state, "_cursor", None)
    assert next_due(served) == START + 500


def test_what_is_done_twice(store: journal.Store, pages: journal.Journal) -> None:
    """Repeating a DONE is harmless; repeating what it is not is refused."""
    ask(store, "PUT", key="a", data=pack(1))
    token = ask(store, "CLAIM")["lease"][5]
    ask(store, "DONE", token=token)
    ask(store, "DONE", token=token)
    assert ask(store, "DONE_MANY", tokens=[token]) == [None]
    with pytest.raises(journal.LeaseLost):
        ask(store, "RELEASE", token=token)
    assert pages.count() == 0
