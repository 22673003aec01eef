"""A program can switch by changing one line: the names and signatures of the remote classes are those of the library."""

from __future__ import annotations

import inspect
import re
from typing import Any

import pytest

import journal
from journal.engine.snapshots.snapshot import EngineSnapshot
from journal.net.client.connect import RemoteStore
from journal.net.client.journal import RemoteJournal
from journal.net.client.lease import RemoteLease
from journal.net.client.merged import RemoteMergedJournals
from journal.net.client.snapshot import RemoteSnapshot

PAIRS: dict[str, tuple[type, type]] = {
    "store": (journal.Store, RemoteStore),
    "journal": (journal.Journal, RemoteJournal),
    "merged": (journal.MergedJournals, RemoteMergedJournals),
    "lease": (journal.Lease, RemoteLease),
    "snapshot": (EngineSnapshot, RemoteSnapshot),
}
MISSING: dict[str, dict[str, str]] = {
    "store": {
        "path": "where the daemon keeps its files is its own business",
        "drifts": "stands in statistics()",
        "serve": "the daemon serves already",
    },
    "journal": {
        "measure_drift": "the daemon measures, with what PING carries",
    },
    "merged": {},
    "lease": {},
    "snapshot": {},
}
"""What the library has and a client has not, with the reason."""
TYPES = re.compile(r"\bRemote(?=[A-Z])|\bTokened\b")


def public(kind: type) -> dict[str, Any]:
    own = {name: inspect.getattr_static(kind, name) for name in dir(kind) if not name.startswith("_")}
    fields = {name: None for base in kind.__mro__ for name in getattr(base, "__slots__", ()) if name[0] != "_"}
    return own | {name: own.get(name) for name in fields} | _set_in_init(kind)


def _set_in_init(kind: type) -> dict[str, Any]:
    names: dict[str, Any] = {}
    for base in kind.__mro__:
        init = vars(base).get("__init__")
        if inspect.isfunction(init):
            names |= dict.fromkeys(re.findall(r"^\s+self\.([a-z]\w*)\b.* = ", inspect.getsource(init), re.MULTILINE))
    return names


def signature(thing: Any) -> list[tuple[str, Any, Any, str]]:
    if isinstance(thing, property):
        thing = thing.fget
    if not callable(thing):
        return []
    shown = {"Lease": "Tokened"}
    return [
        (p.name, p.kind, p.default, shown.get(str(p.annotation), TYPES.sub("", str(p.annotation))))
        for p in inspect.signature(thing).parameters.values()
        if p.name != "self"
    ]


@pytest.mark.parametrize("what", PAIRS)
def test_the_names_are_those_of_the_library(what: str) -> None:
    """Nothing is missing but what stands in the table with its reason, and nothing is more."""
    here, there = (set(public(kind)) for kind in PAIRS[what])
    assert here - there == set(MISSING[what])
    assert there - here == set()


@pytest.mark.parametrize("what", PAIRS)
def test_the_signatures_are_those_of_the_library(what: str) -> None:
    """Every verb takes what it takes in the library, under the same names and with the same defaults."""
    here, there = (public(kind) for kind in PAIRS[what])
    for name in sorted(here.keys() & there.keys()):
        mine, theirs = ([(n, k, d) for n, k, d, _ in signature(each[name])] for each in (there, here))
        assert mine == theirs, name
        assert isinstance(here[name], property) == isinstance(there[name], property), name


@pytest.mark.parametrize("what", PAIRS)
def test_every_verb_says_what_it_does(what: str) -> None:
    """Help is there, too."""
    for name, thing in public(PAIRS[what][1]).items():
        assert not (callable(thing) or isinstance(thing, property)) or thing.__doc__, name
