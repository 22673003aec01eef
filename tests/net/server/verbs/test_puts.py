"""What is put over the wire: data that stays packed, is one value, and can be handed out again."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

import journal
from journal import Field, Schema
from journal.core.entry.rows import unpack_data
from journal.engine.caller import check_packed
from journal.net.server.verbs.frame_sizes import fitted
from journal.net.server.verbs.open_feed import event_bytes
from journal.net.server.verbs.served_journal import served_of
from journal.net.wire.values import entry_from, error_from, group_to
from tests.net.server.asking import FRAME, ask, engine_of, pack

SCHEMA = Schema([Field("uri", "text", required=True), Field("depth", "uint8", default=0)], key="uri")
KEPT = [
    pytest.param(b"\xc4\x03abc", id="bytes"),
    pytest.param(b"\xc4\x00", id="no bytes"),
    pytest.param(b"\xcf" + b"\0" * 7 + b"\5", id="an int that is longer than it must be"),
    pytest.param(b"\x82\xa1b\x01\xa1a\x02", id="a map in its own order"),
    pytest.param(b"\x81\x01\xc0", id="a map with an int as a key"),
    pytest.param(b"\xc7\x01\x05x", id="an ext type"),
    pytest.param(b"\xc5\x00\x01x", id="bytes with a longer head"),
    pytest.param(b"\xc0", id="nothing"),
]
REFUSED = [
    pytest.param(b"\xc4", id="bytes without a length"),
    pytest.param(b"\xc4\x05abc", id="bytes that are cut"),
    pytest.param(b"\xc4\x02abc", id="bytes, and more"),
    pytest.param(b"\xc1", id="what is nothing"),
    pytest.param(b"\x01\x02", id="two values"),
    pytest.param(b"\x92\x01", id="a list that is cut"),
    pytest.param(b"\xdd\xff\xff\xff\xff", id="a list of four billion"),
    pytest.param(b"\xa1\xff", id="a text that is no text"),
    pytest.param(b"\x81\x90\xc0", id="a map with a list as a key"),
    pytest.param(b"\x91" * 5000 + b"\xc0", id="nested without end"),
    pytest.param(b"\xd6\xff\x01", id="a date that is cut"),
]


@pytest.mark.parametrize("data", KEPT)
def test_packed_data_comes_back_as_it_was(store: journal.Store, pages: journal.Journal, data: bytes) -> None:
    """Not one byte of it is changed, on any way; and the library reads it too."""
    ask(store, "PUT", key="a", data=data)
    ask(store, "PUT_MANY", puts=[{"key": "b", "data": data}])
    ask(store, "CREATE", key="c", data=data, owner="us")
    assert ask(store, "GET", key="a")[1] == data
    assert [entry[1] for entry in ask(store, "GET_MANY", keys=["b", "c"])] == [data] * 2
    assert [entry[1] for entry in ask(store, "SELECT")["entries"]] == [data] * 3
    leases = [ask(store, "CLAIM")["lease"], *ask(store, "CLAIM_MANY", n=2)["leases"]]
    assert [lease[1] for lease in leases] == [data] * 3
    assert ask(store, "LEASE", token=leases[0][5])[1] == data
    assert pages.lease(leases[0][5]).data == unpack_data(data)


@pytest.mark.parametrize("data", REFUSED)
def test_what_is_not_one_value_is_refused(store: journal.Store, pages: journal.Journal, data: bytes) -> None:
    """It would be an entry that nobody can read. Nothing is changed; of a group, the others are put."""
    for command in ("PUT", "CREATE"):
        for more in ({}, {"delay": 1}, {"key": b"k"}):
            with pytest.raises(journal.Invalid, match="not one packed msgpack value"):
                ask(store, command, **{"key": "a", "data": data, **more})
    assert pages.count() == 0
    good, bad = ask(store, "PUT_MANY", puts=[{"key": "b", "data": pack(1)}, {"key": "a", "data": data}])
    assert good[0] == "inserted" and bad["code"] == "invalid"
    assert pages.count() == 1


@given(st.binary(min_size=1, max_size=40))
def test_what_is_let_through_can_be_read(data: bytes) -> None:
    """Whatever bytes come: they are refused, or they are data."""
    try:
        assert check_packed(data) == data
    except journal.Invalid:
        return
    unpack_data(data)


def test_a_schema_looks_into_it(store: journal.Store) -> None:
    """Data is checked, its defaults filled in and its key formed, as in the library."""
    store.journal("pages", schema=SCHEMA)
    assert ask(store, "PUT", data=pack({"uri": "/a"}))[0] == "inserted"
    assert [each[0] for each in ask(store, "PUT_MANY", puts=[{"data": pack({"uri": "/b", "depth": 3})}])] == [
        "inserted"
    ]
    assert ask(store, "CREATE", data=pack({"uri": "/c"}), key="/c")[0] == "inserted"
    assert entry_from(ask(store, "GET", key="/a")).data == {"uri": "/a", "depth": 0}
    for wrong in (pack({"uri": "/d", "depth": 256}), pack({"depth": 1}), pack("text"), b"\xc1"):
        with pytest.raises(journal.Invalid):
            ask(store, "PUT", data=wrong)
        assert ask(store, "PUT_MANY", puts=[{"data": wrong}])[0]["code"] == "invalid"
    with pytest.raises(journal.Invalid, match="form the key"):
        ask(store, "PUT", key="other", data=pack({"uri": "/d"}))
    assert store.journal("pages").count() == 3


def test_readers_get_all_fields_of_the_schemas(store: journal.Store) -> None:
    """An entry of an older schema has None for what came later, over the wire too; SETTINGS has all fields."""
    pages = store.journal("pages", schema=SCHEMA)
    ask(store, "PUT", data=pack({"uri": "/a"}))
    store.journal("pages", schema=Schema([Field("uri", "text"), Field("site", "text")], key="uri"))
    pages.rotate()
    for command in ("SCAN", "SELECT"):
        (entry,) = map(entry_from, ask(store, command)["entries"])
        assert entry.data == {"uri": "/a", "depth": 0, "site": None} == next(pages.scan()).data
    assert entry_from(ask(store, "GET", key="/a")) == pages.get("/a")
    assert Schema.from_dict(ask(store, "SETTINGS")["union"]) == pages.schema


def test_a_schema_that_comes_in_between(
    store: journal.Store, pages: journal.Journal, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A generation with a schema begins while a put without one is on its way: its data is checked after all."""
    pages.put("a", 1)
    store.journal("pages", schema=SCHEMA)
    ask(store, "COUNT")
    served = served_of(engine_of(store), "pages")
    real = served.sized

    def pack_and_rotate(data: bytes) -> bytes:
        monkeypatch.setattr(served, "sized", real)
        pages.rotate()
        return real.pack(data)

    monkeypatch.setattr(served, "sized", replace(real, pack=pack_and_rotate))
    with pytest.raises(journal.Invalid, match="takes a dict"):
        ask(store, "PUT", key="b", data=pack("no map"))
    assert pages.count() == 1 and len(pages.generations()) == 2


def test_what_no_frame_could_hand_out_is_not_taken(store: journal.Store, pages: journal.Journal) -> None:
    """The largest data that is taken is claimed, read, buried and followed, whatever comes with it; a byte more is refused."""
    most = FRAME - 8192
    too_much = pack(b"x" * (most - 4))
    for command in ("PUT", "CREATE"):
        with pytest.raises(journal.Invalid, match=f"{most + 1} bytes, and {most} can be handed out in a frame"):
            ask(store, command, key="k", data=too_much)
    for command in ("PUT_MANY", "CREATE_MANY"):
        (error,) = ask(store, command, puts=[{"key": "k", "data": too_much}])
        assert error["code"] == "invalid" and f"'k' has {most + 1} bytes, and {most} can be" in error["message"]
        assert pages.count() == 0
    puts = [{"key": key, "data": too_much if key == "b" else pack(key)} for key in "abcd"]
    codes = [each["code"] if type(each) is dict else each[0] for each in ask(store, "PUT_MANY", puts=puts)]
    assert codes == ["inserted", "invalid", "inserted", "inserted"]
    assert sorted(str(entry.key) for entry in pages.scan()) == ["a", "c", "d"]
    pages.delete_many(["a", "c", "d"])
    largest = pack(b"x" * (most - 5))
    key, owner, consumer = "k" * 1024, "o" * 255, "c" * 255
    ask(store, "PUT", key=key, data=largest, owner=owner)
    assert ask(store, "GET", key=key)[1] == largest
    assert ask(store, "GET_MANY", keys=[key])[0][1] == largest
    assert ask(store, "SCAN")["entries"][0][1] == largest
    (lease,) = ask(store, "CLAIM_MANY", n=5, consumer=consumer)["leases"]
    ask(store, "RELEASE", token=lease[5])
    lease = ask(store, "CLAIM", consumer=consumer)["lease"]
    assert lease[1] == largest and ask(store, "LEASES", consumer=consumer)["leases"][0][1] == largest
    ask(store, "BURY", token=lease[5], reason="r" * 4096)
    assert ask(store, "BURIED")["buried"][0][0][1] == largest
    assert all(event_bytes(event) < FRAME - 256 for event in pages.feed(live=False))


def test_the_reply_to_a_group_always_fits(store: journal.Store, pages: journal.Journal) -> None:
    """What was done is told, however many of them failed, with whatever messages: these are cut."""
    errors = [journal.Invalid("ä" * 1000)] * 16_384
    wire = fitted(group_to(errors), FRAME - 256)
    assert len(pack(wire)) < FRAME - 128
    assert all(type(error_from(each)) is journal.Invalid for each in wire)
    assert str(error_from(fitted(group_to([journal.LeaseLost("short")]), FRAME)[0])) == "short"
    tokens = [*range(16_384)]
    replies = ask(store, "DONE_MANY", tokens=tokens)
    assert len(replies) == 16_384 and {reply["code"] for reply in replies} == {"lease_lost"}
    puts = [{"key": f"{i}", "data": b"\xc1" if i % 2 else pack(i)} for i in range(16_384)]
    replies = ask(store, "PUT_MANY", puts=puts)
    assert [type(reply) for reply in replies] == [list, dict] * 8192 and pages.count() == 8192
