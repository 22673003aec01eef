"""A manifest is read as it was written; anything else is refused."""

from __future__ import annotations

import json

import pytest

from journal import Cursor, Field, Invalid, Schema
from spark_export.exports.manifest import ExportManifest

SCHEMA = Schema(
    [Field("uri", "text", required=True), Field("raw", "bytes", default=b"\0\xff")], key="uri", name="pages"
)
MANIFEST = ExportManifest(
    store="work.journal",
    journal="pages",
    cursor=Cursor(3, 17),
    since=Cursor(2, -1),
    taken=1_700_000_000_000,
    rows=12,
    deleted=3,
    timeline="epoch-ms",
    schema=SCHEMA,
    decode="auto",
    filters={"status": "waiting"},
    format="parquet",
    columns={"type": "struct", "fields": []},
    partition_by=("priority",),
    base64=("key_bytes",),
    files={"a.parquet": 10, "b.parquet": 5},
)


def test_a_manifest_is_read_as_it_was_written() -> None:
    """Cursors, schemas with defaults of bytes, and sizes."""
    text = MANIFEST.to_json()
    assert ExportManifest.from_json(text, "here") == MANIFEST
    assert json.loads(text)["bytes"] == MANIFEST.bytes == 15


@pytest.mark.parametrize("cut", range(0, len(MANIFEST.to_json()) - 2, 41))
def test_a_part_of_a_manifest_is_none(cut: int) -> None:
    """A crash may leave any part of it."""
    with pytest.raises(Invalid, match=r"^\[JOURNAL_TARGET_INVALID\] here is no manifest"):
        ExportManifest.from_json(MANIFEST.to_json()[:cut], "here")


@pytest.mark.parametrize(
    ("name", "value"),
    [("cursor", "x"), ("cursor", None), ("schema", 5), ("schema", {"v": 1}), ("partition_by", 7), ("strange", 1)],
)
def test_odd_values_are_refused(name: str, value: object) -> None:
    """Each with an error of ours."""
    kept = json.loads(MANIFEST.to_json()) | {name: value}
    with pytest.raises(Invalid, match=r"^\[JOURNAL_TARGET_INVALID\]"):
        ExportManifest.from_json(json.dumps(kept), "here")


def test_another_version_is_named() -> None:
    """And what is known."""
    kept = json.loads(MANIFEST.to_json()) | {"version": 2}
    with pytest.raises(Invalid, match=r"^\[JOURNAL_TARGET_INVALID\] here has version 2, and 1 is known"):
        ExportManifest.from_json(json.dumps(kept), "here")
