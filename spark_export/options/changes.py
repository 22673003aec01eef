"""
The options for reading changes: `readStream.format("journal")`, and `spark.read` with `changes`.

    changes               true              it is changes that are wanted, not entries
    start                 BEGIN, END,       after which change a new query, or a batch, begins; BEGIN: with the oldest that is left
                          or a cursor
    end                   END or a cursor   the last change of a batch read
    consumer              a name            a feed consumer that holds the log for the stream, and moves on with its commits
    max_rows_per_trigger  a number          how many changes a micro-batch has at most
    partitions            a number          into how many parts a micro-batch is read
    decode                json, msgpack     how the data is written
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from journal.core.arguments import consumer_name
from journal.core.log.cursor import Cursor
from journal.errors import Invalid
from spark_export.errors import OPTION_MISSING, invalid
from spark_export.options.common import (
    PARTITIONS_MAX,
    PLACE,
    JournalPlace,
    Parse,
    boolean,
    number,
    one_of,
    place_of,
    taken,
)

MAX_ROWS = 1_000_000
"""A micro-batch of this size takes some seconds: enough to catch up, and not so much that a failure costs an hour."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ChangeOptions:
    """The options of a reader of changes."""

    place: JournalPlace
    start: Cursor | str = "BEGIN"
    end: Cursor | str = "END"
    consumer: str | None = None
    max_rows_per_trigger: int = MAX_ROWS
    partitions: int | None = None
    decode: str = "json"
    latest: Cursor | None = None
    """Where the log ended when load() was called; not for users."""

    @classmethod
    def parse(cls, given: Mapping[str, str]) -> ChangeOptions:
        """The options, as Spark passes them on."""
        found = taken(given, CHANGES, "reading the changes of")
        if not found.pop("changes", False):
            raise invalid(
                OPTION_MISSING, "a stream of a journal has its changes, not its entries: say .option('changes', 'true')"
            )
        place = place_of(found)
        return cls(place=place, **found)


def _start(text: str) -> Cursor | str:
    word = text.strip()
    return word.upper() if word.upper() in ("BEGIN", "END") else Cursor.parse(word)


def _end(text: str) -> Cursor | str:
    word = text.strip()
    return "END" if word.upper() == "END" else Cursor.parse(word)


def _consumer(text: str) -> str:
    if not consumer_name(text):
        raise Invalid("it is empty: give the consumer a name")
    return text


CHANGES: dict[str, Parse] = {
    **PLACE,
    "changes": boolean,
    "start": _start,
    "end": _end,
    "consumer": _consumer,
    "max_rows_per_trigger": number(1, 1 << 40),
    "partitions": number(1, PARTITIONS_MAX),
    "decode": one_of("json", "msgpack"),
    "latest": Cursor.parse,
}
