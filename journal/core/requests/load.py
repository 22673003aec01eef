"""The verbs of loads. See journal.core.requests.request."""

from journal.core.loads.session import part_names
from journal.core.requests.fields import (
    Level,
    Load,
    LoadPartName,
    LoadPartNames,
    Once,
    OnConflict,
    OnReject,
    Piece,
    PlaceInPart,
)
from journal.core.requests.request import PRODUCE, Request, RetryRule, request
from journal.core.values import Loaded


@request("LOAD_BEGIN", PRODUCE, RetryRule.REQUEST, "{load}", is_slow=True)
class LoadBeginRequest(Request[str]):
    """Begins a load whose parts come one by one, over any connections. It goes after an hour of silence, and with the daemon."""


@request("LOAD_PART", PRODUCE, RetryRule.ALWAYS, "int", is_slow=True)
class LoadPartRequest(Request[int]):
    """Adds a piece to a part, which is the bytes of a part file (docs/LOADS.md); how many it has now. A piece that came before is no
    error; an empty one only asks whether the load is there."""

    load: Load
    part: LoadPartName
    at: PlaceInPart
    piece: Piece


@request("LOAD_COMMIT", PRODUCE, RetryRule.REQUEST, "loaded", is_slow=True, is_long=True)
class LoadCommitRequest(Request[Loaded]):
    """Loads all rows of these parts as one change. Repeated it is answered alike; with `once` also by a daemon that was restarted."""

    load: Load
    parts: LoadPartNames
    on_conflict: OnConflict = "merge"
    once: Once | None = None
    on_reject: OnReject = "fail"
    durability: Level | None = None

    def __post_init__(self) -> None:
        part_names(self.parts)  # no part counts twice


@request("LOAD_ABORT", PRODUCE, RetryRule.ALWAYS, "bool", is_slow=True)
class LoadAbortRequest(Request[bool]):
    """Gives a load up; false when there is none."""

    load: Load
