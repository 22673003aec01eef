"""
Tables of Spark's catalog: `CREATE TABLE pages USING journal OPTIONS (journal 'pages') LOCATION '/data/work.journal'`.

Spark keeps the options of a table, but hands none of them to a Python source that reads it: the reader gets an empty map, and the columns
as they are in the catalog. So the options are kept where the reader finds them, in the metadata of the first column.

C1  Of what Spark hands to `schema()` when a table is made, `option.…` is what the user wrote as OPTIONS, and `location` is the path; all
    else (owner, provider, comment, TBLPROPERTIES) is the catalog's own, and is not looked at. An option that is not known is refused.
C2  A table with a token is refused: all that see the catalog would see it, and so would the files that are written from the table.
C3  Options that come with a query (`SELECT … FROM pages WITH (status 'waiting')`) win over those of the table.
C4  A table whose columns do not come from `schema()` has no place to read: CREATE TABLE with columns, and what saveAsTable made. Spark
    does not ask us before it makes one, so the first read of it says what to do.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, MutableMapping
from urllib.parse import unquote, urlsplit

from pyspark.sql.datasource import CaseInsensitiveDict
from pyspark.sql.types import StructField, StructType

from spark_export.errors import OPTION_INVALID, OPTION_MISSING, invalid

KEPT = "journal_options"
_OPTION = "option."


def is_made(given: Mapping[str, str]) -> bool:
    """Whether a table is made of these options: only then Spark names the provider."""
    return "provider" in given


def own_options(given: Mapping[str, str]) -> MutableMapping[str, str]:
    """The options of the table that is made (C1)."""
    found = {name[len(_OPTION) :]: text for name, text in given.items() if name.lower().startswith(_OPTION)}
    if place := given.get("location"):
        found = {name: text for name, text in found.items() if name.lower() != "path"} | {"path": _path(place)}
    if any(name.lower() == "token" for name in found):
        raise invalid(
            OPTION_INVALID,
            "a table keeps its options where other users see them: leave token out, and set JOURNAL_TOKEN in the driver's environment",
        )  # C2
    return CaseInsensitiveDict(found)


def kept(struct: StructType, options: Mapping[str, str]) -> StructType:
    """The same columns, with the options of their table."""
    first = struct[0]
    metadata = {**(first.metadata or {}), KEPT: json.dumps(dict(options), sort_keys=True)}
    return StructType([StructField(first.name, first.dataType, first.nullable, metadata), *struct.fields[1:]])


def is_table(given: Mapping[str, str]) -> bool:
    """Whether it is a table that is read: any other reader has a path."""
    return "path" not in given


def recalled(given: Mapping[str, str], schema: StructType) -> tuple[MutableMapping[str, str], StructType]:
    """The options of the table that is read, with those of the query above them (C3), and the columns without them."""
    text = schema[0].metadata.get(KEPT) if schema.fields and schema[0].metadata else None
    if text is None:
        raise invalid(
            OPTION_MISSING,
            "the option 'path' is missing: say .load('work.journal'). It has no default. If this is a table of the catalog, it was made "
            "with columns of its own or by saveAsTable, which does not keep where its journal is: DROP TABLE, then CREATE TABLE … USING "
            "journal OPTIONS (journal '…') LOCATION '…' without columns; rows are added by df.write.format('journal').save('…')",
        )  # C4
    first = schema[0]
    metadata = {name: value for name, value in first.metadata.items() if name != KEPT}
    bare = StructType([StructField(first.name, first.dataType, first.nullable, metadata), *schema.fields[1:]])
    return CaseInsensitiveDict({**json.loads(text), **given}), bare


def _path(location: str) -> str:
    """Spark makes a URI of a path."""
    return unquote(urlsplit(location).path) if location.startswith("file:") else location
