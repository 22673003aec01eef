"""Schemas as XML table declarations: what is read, and that nothing dangerous or unknown is."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from journal.core.schema.field import Field
from journal.core.schema.schema import Schema
from journal.core.schema.xml import BYTES_MAX, read_xml
from journal.errors import Invalid

PAGES = """<?xml version="1.0" encoding="latin-1"?>
<!-- pages to rebuild -->
<table name="pages" model="JOURNAL" row-key="site, uri">
  <description>Pages to <![CDATA[rebuild]]> &amp; more.</description>
  <schema>
    <column name="site" type="string" required="true"/>
    <column name="uri" type="string" required="1"><description>é</description></column>
    <column name="depth" type="uint8_t" default="0" required="false"/>
    <column name="seen" type="time_ms_t"><default> 1970-01-02T00:00:00Z </default></column>
    <column name="kind" type="string"><default> a &lt; b </default></column>
  </schema>
</table>
"""


def column(kind: str, default: str) -> str:
    """A declaration with one column."""
    return f'<table><schema><column name="a" type="{kind}"><default>{default}</default></column></schema></table>'


def test_a_schema_is_read_from_a_table_declaration() -> None:
    """The model in any case, the key with commas, defaults as attribute or element, texts as they stand."""
    assert Schema.from_xml(PAGES) == Schema(
        [
            Field("site", str, required=True),
            Field("uri", str, required=True),
            Field("depth", "uint8", default=0),
            Field("seen", "date_ms", default=datetime(1970, 1, 2, tzinfo=UTC)),
            Field("kind", str, default=" a < b "),
        ],
        key=["site", "uri"],
        name="pages",
    )


def test_what_is_optional_may_be_left_out() -> None:
    """A table needs no name, model, key or description."""
    assert Schema.from_xml('<table><schema><column name="a" type="oid"/></schema></table>') == Schema({"a": "uint64"})
    columns = '<column name="a" type="char"/><column name="b" type="int8"/>'
    assert Schema.from_xml(f'<table row-key="b a"><schema>{columns}</schema></table>').key == ("b", "a")


@pytest.mark.parametrize(
    ("kind", "text", "value"),
    [
        ("text", "", ""), ("bytes", "00 FF", b"\x00\xff"), ("bytes", "", b""), ("bool", " true ", True), ("bool", "0", False),
        ("int8", "-128", -128), ("uint64", "18446744073709551615", (1 << 64) - 1), ("int", "+7", 7), ("float", "1", 1.0),
        ("float64", "-1.5e3", -1500.0), ("float", ".5", 0.5), ("float", "-INF", float("-inf")), ("date_ms", "5", 5),
        ("date_ms", "1970-01-01T01:00:00.001+01:00", 1), ("list", "[1, null]", [1, None]), ("map", '{"a": "é"}', {"a": "é"}),
        ("any", "1.0", 1.0), ("any", '"x"', "x"), ("any", "null", None),
    ],
)  # fmt: skip
def test_a_default_is_written_as_text(kind: str, text: str, value: Any) -> None:
    """Each type has one plain way of writing it."""
    found = Schema.from_xml(column(kind, text)).fields[0].default
    assert found == value and type(found) is type(value)


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ("bytes", "0"), ("bytes", "xy"), ("bool", "yes"), ("bool", ""), ("int8", "128"), ("int", "1.0"), ("int", "1_000"), ("int", ""),
        ("int", "\u0661"), ("int", "9" * 5000), ("float", "one"), ("float", "1_0"), ("float", ""), ("date_ms", "today"), ("date_ms", "-1"),
        ("date_ms", "1970-01-02T00:00:00"), ("date_ms", ""), ("list", "{}"), ("list", "[1"), ("map", "[]"), ("any", "x"),
        ("any", "[" * 100_000), ("any", "9" * 5000), ("any", "99999999999999999999999"), ("any", '"\\ud800"'),
    ],
    ids=lambda value: repr(value)[:30],
)  # fmt: skip
def test_a_default_of_another_type_is_refused(kind: str, text: str) -> None:
    """The message names the column."""
    with pytest.raises(Invalid, match="'a'"):
        Schema.from_xml(column(kind, text))


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("<!DOCTYPE table>\n<table/>", "DOCTYPE"),
        ('<!DOCTYPE table SYSTEM "file:///etc/hostname">\n<table/>', "DOCTYPE"),
        ('<!DOCTYPE table PUBLIC "x" "http://localhost/x.dtd">\n<table/>', "DOCTYPE"),
        ('<!DOCTYPE t [<!ENTITY a "aaaa"><!ENTITY b "&a;&a;&a;">]>\n<table>&b;</table>', "DOCTYPE"),
        ('<!DOCTYPE t [<!ENTITY a SYSTEM "file:///etc/hostname">]>\n<table>&a;</table>', "DOCTYPE"),
        ('<!DOCTYPE t [<!ENTITY % a SYSTEM "file:///etc/hostname"> %a;]>\n<table/>', "DOCTYPE"),
        ('<?xml-stylesheet href="http://localhost/x.xsl"?>\n<table/>', "processing instruction"),
        ("<table><?x y?></table>", "processing instruction"),
        ("<table>&x;</table>", "undefined entity"),
        ('<table name="&x;"/>', "undefined entity"),
        ('<!ENTITY a "b"><table/>', "not XML"),
    ],
    ids=lambda value: value[:40],
)
def test_nothing_that_reaches_out_or_grows_is_read(text: str, what: str) -> None:
    """Document types, entities, external references and processing instructions are refused as such."""
    with pytest.raises(Invalid, match=what):
        Schema.from_xml(text)


FINE = '<column name="a" type="int"/>'


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("<context/>", "line 1 .*<context> as the root is not known: allowed is <table>"),
        ("<table>\n<block-size>1</block-size></table>", "line 2 .*<block-size> inside <table>"),
        (
            "<table>\n<schema>\n<column name='a' type='int'><min-value>1</min-value></column></schema></table>",
            "line 3 .*<min-value> inside <column>",
        ),
        (f"<table>\n<schema>{FINE}\n<table/></schema></table>", "line 3 .*<table> inside <schema>"),
        ("<table><description><b>x</b></description></table>", "<b> inside <description> .*text only"),
        ('<table\ndrop="drop"/>', "line 1 .*'drop' of <table> is not known: allowed is name, model, row-key"),
        ("<table>\n\n<schema>\n<column encrypt='x'/></schema></table>", "line 4 .*'encrypt' of <column>"),
        ("<table xmlns='x'/>", "'xmlns'"),
        ("<x:table/>", "<x:table>"),
        ('<table model="queue"/>', "the model is 'queue': it must be journal"),
        ('<table model=""/>', "the model is ''"),
        ("<table/>", "has no <schema>"),
        ("<table><schema/></table>", "1 to 4096 fields"),
        (f"<table><schema>{FINE}</schema><schema/></table>", "<schema> comes twice"),
        (f"<table><schema>{FINE}</schema></table><table/>", "junk after document element"),
        (f"<table><schema>{FINE}{FINE}</schema></table>", "'a' is declared twice"),
        (f"<table><schema>x{FINE}</schema></table>", "the text 'x' inside <schema>"),
        ("<table><schema><column name='a'/></schema></table>", "no attribute type"),
        ("<table><schema><column type='int'/></schema></table>", "no attribute name"),
        ("<table><schema><column name='' type='int'/></schema></table>", "name of a field"),
        (
            "<table>\n<schema>\n<column name='a' type='number'/></schema></table>",
            "line 3 .*'a': 'number' is not a type",
        ),
        (
            "<table><schema><column name='a' type='int' required='yes'/></schema></table>",
            "required of the column 'a' is 'yes'",
        ),
        (
            "<table><schema><column name='a' type='int' required='true' default='1'/></schema></table>",
            "required and has a default",
        ),
        (
            "<table><schema><column name='a' type='int' default='1'><default>1</default></column></schema></table>",
            "leave out one",
        ),
        (
            "<table><schema><column name='a' type='int'><default>1</default><default/></column></schema></table>",
            "<default> comes twice",
        ),
        (f"<table row-key=' , '><schema>{FINE}</schema></table>", "row-key names no column"),
        (f"<table row-key='b'><schema>{FINE}</schema></table>", "unknown field 'b'"),
        (f"<table name=''><schema>{FINE}</schema></table>", "name of a schema"),
        ("", "no element found"),
        ("<table>", "not XML"),
        ("<table a='1' a='2'/>", "duplicate attribute"),
        ("\0", "not XML"),
        ("\ud800", "lone surrogate"),
        ("<table>" * 100_000, "<table> inside <table>"),
        ("<" + "t" * 500_000 + "/>", "is not known"),
    ],
    ids=lambda value: value[:60],
)
def test_what_is_not_known_is_refused_by_name_and_line(text: str, reason: str) -> None:
    """Nothing is ignored: a declaration that asks for more than there is would be believed to have it."""
    with pytest.raises(Invalid, match=reason) as e:
        Schema.from_xml(text)
    assert len(str(e.value)) < 500


def test_large_texts_are_refused_unread() -> None:
    """The limit is in bytes, not characters."""
    fine = f"<table><schema>{FINE}</schema></table>"
    assert Schema.from_xml(fine + " " * (BYTES_MAX - len(fine))) == Schema({"a": int})
    for large in (
        fine + " " * (BYTES_MAX - len(fine) + 1),
        fine + f"<!--{'é' * (BYTES_MAX // 2)}-->",
        " " * (10 * BYTES_MAX),
    ):
        with pytest.raises(Invalid, match="too large"):
            read_xml(large)


@pytest.mark.parametrize("text", [None, b"<table/>", 1])
def test_only_text_is_read(text: Any) -> None:
    """Neither bytes nor paths: nothing is opened."""
    with pytest.raises(Invalid, match="from a text"):
        read_xml(text)


PIECES = st.sampled_from(
    [
        *(
            "<table>",
            "</table>",
            "<schema>",
            "</schema>",
            FINE,
            "<column name='b' type='text'>",
            "</column>",
            "<default>",
            "</default>",
        ),
        *(
            "<table row-key='a'>",
            "<description/>",
            "1",
            "x",
            " ",
            "\n",
            "<!-- -->",
            "<![CDATA[1]]>",
            "&lt;",
            "&x;",
            "<?x?>",
            "<!DOCTYPE x>",
        ),
    ]
)


@given(st.text() | st.lists(PIECES | st.text(max_size=3), max_size=12).map("".join))
def test_any_text_gives_a_schema_or_invalid(text: str) -> None:
    """And a schema that was read is whole."""
    try:
        schema = Schema.from_xml(text)
    except Invalid:
        return
    assert Schema.from_dict(schema.to_dict()) == schema


@given(st.data())
def test_a_text_cut_or_changed_gives_a_schema_or_invalid(data: st.DataObject) -> None:
    """As half a file, or one with a slip, does."""
    at = data.draw(st.integers(0, len(PAGES)))
    piece = data.draw(st.text(max_size=2) | PIECES)
    text = PAGES[:at] + piece + PAGES[at + data.draw(st.sampled_from([0, 1, 5, 10**6])) :]
    try:
        schema = Schema.from_xml(text)
    except Invalid:
        return
    assert schema.fields
