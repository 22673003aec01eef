"""
The options of the format "journal", parsed once into frozen objects: one class for reading, others for loads and changes.

O1  An option that is not known is refused, with the nearest one that is: a filter that is silently ignored gives wrong rows.
O2  Names are compared without case and underscores, since Spark lowers the case of what it passes on: `keyPrefix` is `key_prefix`.
O3  Nothing is opened here: a wrong option is reported before anything is touched.

To add a class: a frozen dataclass with a `place`, and a table of its options for `taken`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from difflib import get_close_matches
from typing import Any

from journal.core.limits import PRIORITY_MAX
from journal.core.settings import check_name
from journal.core.times import date_ms
from journal.errors import Invalid
from spark_export.columns.layout import RowFilter
from spark_export.errors import OPTION_INVALID, OPTION_MISSING, OPTION_UNKNOWN, invalid

Parse = Callable[[str], Any]

DECODES = ("auto", "fields", "json", "msgpack")
STATUSES = ("waiting", "available", "processing")
PARTITIONS_MAX = 10_000
_RANGE = re.compile(r"([0-9]{1,3})(?:-([0-9]{1,3}))?")


@dataclass(frozen=True, kw_only=True, slots=True)
class JournalPlace:
    """Where a journal is: a store's path or its daemon's address, the journal's name, and the identity of the client."""

    path: str
    journal: str
    token: str | None = None
    """identity:secret, for an address; None: JOURNAL_TOKEN of the driver's environment."""
    tls_ca: str | None = None
    """The file of the authorities, for tls://; None: JOURNAL_TLS_CA, else the system's."""

    @property
    def is_address(self) -> bool:
        """Whether it is a daemon's address, not a path."""
        return self.path.startswith(("unix:", "tcp://", "tls://"))


PLACE: dict[str, Parse] = {"path": str, "journal": check_name, "token": str, "tls_ca": str}


@dataclass(frozen=True, kw_only=True, slots=True)
class ReadOptions:
    """The options of `spark.read.format("journal")`."""

    place: JournalPlace
    rows: RowFilter
    columns: tuple[str, ...] | None = None
    decode: str = "auto"
    partitions: int | None = None
    snapshot: str | None = None
    """The name of a snapshot that was taken before; None: each load() takes its own."""

    @classmethod
    def parse(cls, given: Mapping[str, str]) -> ReadOptions:
        """The options of a reader, as Spark passes them on."""
        found = taken(given, READ, "reading")
        place = place_of(found)
        since, until = found.pop("from", None), found.pop("to", None)
        if since is not None and until is not None and since > until:
            raise invalid(OPTION_INVALID, f"from ({given['from']}) is after to ({given['to']}): exchange them")
        status, priority, prefix = (found.pop(name, None) for name in ("status", "priority", "key_prefix"))
        return cls(place=place, rows=RowFilter(status, priority, since, until, prefix), **found)


def taken(given: Mapping[str, str], known: Mapping[str, Parse], what: str) -> dict[str, Any]:
    """The options that were given, parsed, under their own names (O1, O2)."""
    names = {_bare(name): name for name in known}
    found: dict[str, Any] = {}
    for word, text in given.items():
        name = names.get(_bare(word))
        if name is None:
            near = get_close_matches(_bare(word), list(names), n=1)
            hint = f"did you mean {names[near[0]]!r}?" if near else f"the options are {', '.join(known)}"
            raise invalid(OPTION_UNKNOWN, f"unknown option {word!r} for {what} a journal: {hint}")
        try:
            found[name] = known[name](text)
        except Invalid as e:
            if str(e).startswith("[JOURNAL_"):
                raise
            raise invalid(OPTION_INVALID, f"option {name!r}: {e}") from e
    return found


def place_of(found: dict[str, Any]) -> JournalPlace:
    """The place among parsed options, taken out of them."""
    for name, example in (("path", ".load('work.journal')"), ("journal", ".option('journal', 'pages')")):
        if not found.get(name):
            raise invalid(OPTION_MISSING, f"the option {name!r} is missing: say {example}. It has no default")
    return JournalPlace(**{name: found.pop(name) for name in PLACE if name in found})


def _bare(name: str) -> str:
    return name.lower().replace("_", "")


def one_of(*words: str) -> Parse:
    """Takes one of some words."""

    def parse(text: str) -> str:
        word = text.strip().lower()
        if word not in words:
            raise Invalid(f"it is {text!r}: it must be one of {', '.join(words)}")
        return word

    return parse


def number(low: int, high: int) -> Parse:
    """Takes an integer from a range."""

    def parse(text: str) -> int:
        try:
            value = int(text)
        except ValueError:
            value = low - 1
        if not low <= value <= high:
            raise Invalid(f"it is {text!r}: it must be a number from {low} to {high}")
        return value

    return parse


def boolean(text: str) -> bool:
    """Takes true or false, as Spark writes them."""
    word = text.strip().lower()
    if word not in ("true", "false"):
        raise Invalid(f"it is {text!r}: it must be true or false")
    return word == "true"


def moment(text: str) -> int:
    """Takes milliseconds since the epoch, or an ISO 8601 date with a time zone."""
    word = text.strip()
    if word.isascii() and word.isdigit():
        return date_ms(int(word))
    try:
        parsed = datetime.fromisoformat(word)
    except ValueError as e:
        raise Invalid(f"it is {text!r}: it must be milliseconds, or an ISO 8601 date with a time zone") from e
    if parsed.tzinfo is None:
        raise Invalid(f"it is {text!r}, which has no time zone: add Z or +hh:mm")
    return date_ms(parsed)


def listed(text: str) -> tuple[str, ...]:
    """Takes words with commas between them, each once."""
    words = tuple(word.strip() for word in text.split(","))
    if not all(words) or len({word.lower() for word in words}) != len(words):
        raise Invalid(f"it is {text!r}: it must be names with commas between them, each once")
    return words


def priorities(text: str) -> tuple[int, ...]:
    """Takes priorities and ranges of them: "10", "0-99", "0-9,50,200-255"."""
    found: set[int] = set()
    for part in text.split(","):
        match = _RANGE.fullmatch(part.strip())
        low = int(match[1]) if match else 1
        high = int(match[2] or match[1]) if match else 0
        if not low <= high <= PRIORITY_MAX:
            raise Invalid(f"it is {text!r}: write priorities from 0 to {PRIORITY_MAX} and ranges of them, as in 0-9,50")
        found.update(range(low, high + 1))
    return tuple(sorted(found))


READ: dict[str, Parse] = {
    **PLACE,
    "status": one_of(*STATUSES),
    "priority": priorities,
    "from": moment,
    "to": moment,
    "key_prefix": str,
    "columns": listed,
    "decode": one_of(*DECODES),
    "partitions": number(1, PARTITIONS_MAX),
    "snapshot": str,
}


def asks_for_changes(given: Mapping[str, str]) -> bool:
    """Whether changes are wanted, not entries."""
    text = next((text for word, text in given.items() if _bare(word) == "changes"), "false")
    return bool(taken({"changes": text}, {"changes": boolean}, "reading")["changes"])
