"""Functions between the commit log and a sink: what passes, what is changed, what is named when one fails."""

from __future__ import annotations

import logging
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from journal.errors import Invalid
from spark_export.pipelines.functions import FunctionFailed, applied, function_of
from spark_export.pipelines.message import Message, key_of, table_of

COLUMNS = {"id": pa.int64(), "name": pa.string(), "amount": pa.int64()}
ROWS: list[dict[str, Any]] = [
    {"id": 1, "name": "ada", "amount": 10},
    {"id": 2, "name": "bob", "amount": 20},
    {"id": 3, "name": None, "amount": None},
]


def _table(**options: Any) -> pa.Table:
    return table_of("people", ROWS, COLUMNS, key=("id",), first=7, **options)


def _through(*declared: dict[str, Any], table: pa.Table | None = None) -> pa.Table:
    return applied([function_of(one) for one in declared], _table() if table is None else table)


def _ids(table: pa.Table) -> list[int]:
    return table.column("id").to_pylist()


def shouting(message: Message) -> Message | None:
    """A user's function: it drops messages without a name."""
    if message.data["name"] is None:
        return None
    return message._replace(data={**message.data, "name": message.data["name"].upper()})


def failing(message: Message) -> Message:
    """A user's function that fails for one message."""
    if message.data["id"] == 2:
        raise ValueError("no second one")
    return message


def first_only(table: pa.Table) -> pa.Table:
    """A user's function over a batch."""
    return table.slice(0, 1)


def test_pick_and_omit_keep_the_key_while_they_can() -> None:
    """Fields of the top level are chosen; the key is known as long as all of its columns are there."""
    picked = _through({"pick": {"fields": ["id", "name", "absent"]}})
    assert picked.column("data").to_pylist() == [{"id": row["id"], "name": row["name"]} for row in ROWS]
    assert key_of(picked.schema) == ("id",)
    left = _through({"omit": {"fields": ["id"]}})
    assert left.column("data").to_pylist()[0] == {"name": "ada", "amount": 10}
    assert key_of(left.schema) == ()
    assert _ids(picked) == _ids(left) == [7, 8, 9]


def test_rename_takes_the_key_along() -> None:
    """A renamed key is still the key."""
    renamed = _through({"rename": {"fields": {"id": "uid"}}})
    assert renamed.column("data").to_pylist()[1] == {"uid": 2, "name": "bob", "amount": 20}
    assert key_of(renamed.schema) == ("uid",)


def test_remap_changes_listed_namespaces_only() -> None:
    """A namespace that is not listed stays."""
    assert set(_through({"remap": {"namespaces": {"people": "users"}}}).column("namespace").to_pylist()) == {"users"}
    assert set(_through({"remap": {"namespaces": {"other": "users"}}}).column("namespace").to_pylist()) == {"people"}


def test_opfilter_allows_or_denies() -> None:
    """What is allowed passes; what is denied does not."""
    table = _table(ops=["insert", "update", "delete"])
    assert _ids(_through({"opfilter": {"allow": ["insert", "update"]}}, table=table)) == [7, 8]
    assert _ids(_through({"opfilter": {"deny": ["insert"]}}, table=table)) == [8, 9]


@pytest.mark.parametrize(
    ("op", "match", "passing"),
    [("==", 10, [7]), (">", 10, [8]), (">=", 10, [7, 8]), ("<", 20, [7]), ("<=", 20, [7, 8])],
)
def test_skip_lets_pass_what_matches(op: str, match: int, passing: list[int]) -> None:
    """The comparison says what passes; null passes none."""
    assert _ids(_through({"skip": {"field": "amount", "op": op, "match": match}})) == passing


def test_skip_by_a_regular_expression_and_without_the_field() -> None:
    """An expression matches anywhere in the text; a message without the field does not pass."""
    assert _ids(_through({"skip": {"field": "name", "op": "=~", "match": "o"}})) == [8]
    assert _ids(_through({"skip": {"field": "absent", "op": "==", "match": 1}})) == []


def test_cast_is_exact_or_an_error_that_names_the_message() -> None:
    """A value that does not fit stops the chain at its message."""
    cast = _through({"cast": {"fields": {"amount": "decimal(10,2)"}}})
    assert cast.column("data").to_pylist()[0]["amount"] == Decimal("10.00")
    with pytest.raises(FunctionFailed, match=r"function 1 \(cast\) failed for message 7 \(insert in people\)"):
        _through({"cast": {"fields": {"name": "int64"}}})


def test_pretty_logs_and_changes_nothing(caplog: pytest.LogCaptureFixture) -> None:
    """Each message is a line of the log."""
    with caplog.at_level(logging.INFO, "journal.pipelines"):
        assert _through({"pretty": {"spaces": 0}}).equals(_table())
    assert len(caplog.records) == 3 and '"bob"' in caplog.text


def test_python_over_messages_and_batches() -> None:
    """A user's function changes messages or drops them; ids stay."""
    found = _through({"python": f"{__name__}:shouting"})
    assert [(row["id"], row["data"]["name"]) for row in found.to_pylist()] == [(7, "ADA"), (8, "BOB")]
    assert _ids(_through({"python": {"call": f"{__name__}:first_only", "over": "batch"}})) == [7]


def test_a_function_that_fails_names_the_message() -> None:
    """The second function fails for message 8: that is what the error says."""
    with pytest.raises(FunctionFailed, match=r"function 2 \(python\) failed for message 8 .*no second one") as caught:
        _through({"omit": {"fields": ["amount"]}}, {"python": f"{__name__}:failing"})
    assert caught.value.message_id == 8


def test_commands_pass_untouched() -> None:
    """Functions see changes of data only."""
    command = table_of("people", [{"command": "truncate"}], {"command": pa.string()}, ops="command")
    assert _through({"pick": {"fields": []}}, {"opfilter": {"deny": ["command"]}}, table=command).equals(command)


@pytest.mark.parametrize(
    ("declared", "said"),
    [
        ({"picks": {}}, "there is no function 'picks': they are pick, omit"),
        ({"pick": {"field": ["a"]}}, "pick takes fields; it was given field"),
        ({"pick": "a"}, "pick takes a table"),
        ({"pick": {}, "omit": {}}, "one word"),
        ({"opfilter": {"allow": ["upsert"]}}, "'upsert' is no op"),
        ({"opfilter": {}}, "either allow or deny"),
        ({"skip": {"field": "a", "op": "!=", "match": 1}}, "'!=' is no comparison"),
        ({"skip": {"field": "a", "op": "=~", "match": "("}}, "is no regular expression"),
        ({"cast": {"fields": {"a": "varchar"}}}, "'varchar' is no type"),
        ({"python": "json:absent"}, "cannot be imported"),
        ({"python": "json"}, "write module:function"),
    ],
)
def test_wrong_declarations_say_what_is_allowed(declared: dict[str, Any], said: str) -> None:
    """A declaration is refused before anything runs."""
    with pytest.raises(Invalid) as caught:
        function_of(declared)
    assert said in str(caught.value)
