"""
The manifest of an export: what is in the directory, and where in the journal it ends. `_manifest.json`, written last.

    version, journal, store        whose rows these are
    cursor                         they show exactly the changes up to here
    since                          null: all entries; else those that have changed after this cursor, and deletions
    taken                          when the snapshot was taken, engine time in ms
    rows, deleted                  how many rows, and how many of them say that a key is gone
    buried, successors             how many the journal had when it was taken: no rows have them
    timeline                       what the dates mean
    schema, decode                 the journal's schema (null: none), and how the data was written
    filters                        the options that left rows out ({}: none)
    format, columns, partition_by  how Spark wrote it: format, its schema as JSON, columns that became directories
    base64                         columns of bytes that the format cannot hold, which are written as base64
    files, bytes                   each file with its size
    request                        a digest of what was asked for (spark_export.exports.request)

M1  A directory with a manifest is a whole export: the manifest is there before the directory gets its name.
M2  Names that begin with _ are not read by Spark, so a reader of the directory does not see the manifest.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from typing import Any

from journal.core.log.cursor import Cursor
from journal.core.schema.schema import Schema
from spark_export.errors import TARGET_INVALID, invalid

NAME = "_manifest.json"
VERSION = 1


@dataclass(frozen=True, kw_only=True, slots=True)
class ExportManifest:
    """The result of an export."""

    store: str
    journal: str
    cursor: Cursor
    since: Cursor | None = None
    taken: int
    rows: int
    deleted: int = 0
    buried: int = 0
    successors: int = 0
    timeline: str
    schema: Schema | None = None
    decode: str
    filters: dict[str, str] = field(default_factory=dict)
    format: str
    columns: dict[str, Any]
    partition_by: tuple[str, ...] = ()
    base64: tuple[str, ...] = ()
    files: dict[str, int] = field(default_factory=dict)
    request: str = ""

    @property
    def bytes(self) -> int:
        """The size of all files."""
        return sum(self.files.values())

    @property
    def left_out(self) -> str | None:
        """What an export of the whole journal does not have of it, a warning before the journal is dropped; None: nothing."""
        if self.since is not None or self.filters or not (self.buried or self.successors):
            return None
        return (
            f"the journal {self.journal!r} has {self.buried} buried entries, and {self.successors} that wait behind one that is being "
            "processed: they are not in the export, and would be lost if the journal were dropped and loaded from it. Retry or discard "
            "the buried ones, and have those under a lease done"
        )

    def to_json(self) -> str:
        """As it is written."""
        kept = asdict(self) | {
            "version": VERSION,
            "cursor": str(self.cursor),
            "since": None if self.since is None else str(self.since),
            "schema": None if self.schema is None else self.schema.to_dict(),
            "bytes": self.bytes,
        }
        return json.dumps(kept, indent=1, ensure_ascii=False, default=_hex) + "\n"

    @classmethod
    def from_json(cls, text: str, where: str) -> ExportManifest:
        """As it was written."""
        try:
            kept = json.loads(text)
            if (version := kept.pop("version")) != VERSION:
                raise invalid(
                    TARGET_INVALID, f"{where} has version {version!r}, and {VERSION} is known: use a newer journal"
                )
            del kept["bytes"]
            since, schema = kept.pop("since"), kept.pop("schema")
            return cls(
                cursor=Cursor.parse(kept.pop("cursor")),
                since=None if since is None else Cursor.parse(since),
                schema=None if schema is None else Schema.from_dict(_unhex(schema)),
                partition_by=tuple(kept.pop("partition_by")),
                base64=tuple(kept.pop("base64")),
                **kept,
            )
        except (ValueError, TypeError, KeyError, AttributeError) as e:
            if str(e).startswith("[JOURNAL_"):
                raise
            raise invalid(TARGET_INVALID, f"{where} is no manifest of an export: {e}") from e


def _hex(value: Any) -> Any:
    """Defaults of fields may be bytes, which JSON has not."""
    if isinstance(value, bytes):
        return {"$hex": value.hex()}
    raise TypeError(f"{value!r} has no place in a manifest")


def _unhex(value: Any) -> Any:
    if isinstance(value, dict):
        return bytes.fromhex(value["$hex"]) if value.keys() == {"$hex"} else {k: _unhex(v) for k, v in value.items()}
    return [_unhex(each) for each in value] if isinstance(value, list) else value
