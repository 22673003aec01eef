"""What the tests of the daemon's commands share: a request as a connection would hand it on, with both frames made and read."""

from __future__ import annotations

from typing import Any

import msgpack

import journal
from journal.core.requests.registry import command_named
from journal.core.requests.request import Role
from journal.engine.backend import EngineJournal
from journal.engine.pipeline import Pipeline
from journal.engine.store import EngineStore
from journal.net.server.verbs.handlers import HANDLERS, NAMED, STORE, make_slowly
from journal.net.server.verbs.served_journal import served_of
from journal.net.wire.auth import EVERYTHING, Grant
from journal.net.wire.frames import Decoder, Encoder, Reply, RequestFrame
from journal.net.wire.limits import DEFAULT

FRAME = DEFAULT.frame_bytes_max


def grant(identity: str, *roles: str, journals: str = "*", names: str = "") -> Grant:
    """What an identity may do."""
    return Grant(identity, frozenset(map(Role, roles)), tuple(journals.split(",")), tuple(names.split()))


def engine_of(store: journal.Store) -> EngineStore:
    """The store behind its face."""
    engine = store._backend
    assert isinstance(engine, EngineStore)
    return engine


def pipeline_of(pages: journal.Journal) -> Pipeline:
    """That of a journal of this process."""
    backend = pages._backend
    assert isinstance(backend, EngineJournal)
    return backend.p


def pack(value: Any) -> bytes:
    packed: bytes = msgpack.packb(value)
    return packed


def ask(
    store: journal.Store,
    command: str,
    name: str = "pages",
    /,
    *,
    by: Grant = EVERYTHING,
    frame: int = FRAME,
    **given: Any,
) -> Any:
    """The value of the reply; raises what a client would get as a failure."""
    row = command_named(command)
    name = "" if row.scope == "daemon" else name
    request = _over_the_wire(RequestFrame(1, command, name, given), FRAME)
    row.check(request.journal, request.parameters)
    by.check(row, request.journal, request.parameters)
    result = _handled(store, command, name, request.parameters, by)
    return _over_the_wire(Reply(1, result), frame).result


def _handled(store: journal.Store, command: str, name: str, given: dict[str, Any], by: Grant) -> Any:
    engine = engine_of(store)
    if command in NAMED:
        return NAMED[command](engine, name, given, by)
    if not name:
        return STORE[command](engine, given, by)
    return make_slowly(HANDLERS[command], served_of(engine, name, by), given, by)


def _over_the_wire(frame: Any, bytes_max: int) -> Any:
    decoder = Decoder(bytes_max)
    decoder.feed(Encoder(bytes_max)(frame))
    return decoder.next()


def parts(store: journal.Store, command: str, of: str, name: str = "pages", **given: Any) -> list[list[Any]]:
    """All parts of a long list."""
    found: list[list[Any]] = []
    after = None
    while True:
        reply = ask(store, command, name, after=after, **given)
        assert reply.keys() == {of, "after"}
        found.append(reply[of])
        after = reply["after"]
        if after is None:
            return found
        assert reply[of], "a part that is empty and not the last"


def whole(store: journal.Store, command: str, of: str, name: str = "pages", **given: Any) -> list[Any]:
    """A long list."""
    return [item for part in parts(store, command, of, name, **given) for item in part]
