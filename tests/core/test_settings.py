"""Settings: names, defaults, what may change and what may not."""

from __future__ import annotations

from dataclasses import FrozenInstanceError
from datetime import timedelta
from typing import Any

import pytest

from journal.core.settings import Settings, changed, check_name, from_map, to_map
from journal.errors import Invalid


@pytest.mark.parametrize("name", ["a", "A1", "pages", "0", "a.b-c_d", "x" * 64, "LOCKS", "catalog2"])
def test_good_names(name: str) -> None:
    """Letters, digits, and after the first also . _ -."""
    assert check_name(name) == name


@pytest.mark.parametrize(
    "name",
    ["", ".", "..", ".a", "-a", "_a", "a/b", "a\\b", "x" * 65, "é", "a b", "a\n", "a\0", "\u0661", "LOCK", "lock", "catalog",
     None, b"a", 1],
    ids=repr,
)  # fmt: skip
def test_wrong_names(name: Any) -> None:
    """Anything that could lead out of the store, or hide in it, and the store's own files."""
    with pytest.raises(Invalid):
        check_name(name)


def test_defaults_are_those_of_the_design() -> None:
    """An hour, five timeouts, slow from 200, 1 MiB, 1 GiB."""
    s = changed(None, {})
    assert (s.processing_timeout, s.timeouts_max, s.postpone_max, s.merge) == (3_600_000, 5, None, "merge")
    assert (s.slow_from, s.entry_bytes_max, s.segment_bytes_max, s.rotate) == (200, 1 << 20, 1 << 30, None)


def test_durations_become_milliseconds() -> None:
    """Text and timedelta at the edge, integers inside."""
    s = changed(None, {"processing_timeout": "30s", "postpone_max": timedelta(minutes=1)})
    assert (s.processing_timeout, s.postpone_max) == (30_000, 60_000)


def test_what_is_not_given_stays() -> None:
    """Opening with one setting changes that one only, and the old object not at all."""
    first = changed(None, {"timeouts_max": 1, "merge": "keep"})
    second = changed(first, {"timeouts_max": 2})
    assert (second.timeouts_max, second.merge) == (2, "keep")
    assert first.timeouts_max == 1
    assert changed(second, {}) == second
    with pytest.raises(FrozenInstanceError):
        first.timeouts_max = 3  # type: ignore[misc]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("processing_timeout", 0), ("processing_timeout", "soon"), ("processing_timeout", None),
        ("timeouts_max", -1), ("timeouts_max", 256), ("timeouts_max", True), ("timeouts_max", "5"),
        ("postpone_max", -1), ("postpone_max", "x"), ("merge", "latest"), ("merge", None), ("merge", []), ("slow_from", -1),
        ("slow_from", 257), ("entry_bytes_max", 0), ("entry_bytes_max", 1.5), ("segment_bytes_max", 100),
        ("rotate", "1y"), ("rotate", ["1d"]), ("merged", 1), ("timeline", ""), ("timeline", 5), ("unknown", 1),
    ],
)  # fmt: skip
def test_wrong_values_are_invalid(name: str, value: Any) -> None:
    """The message names the setting; nothing was changed."""
    kept = changed(None, {})
    with pytest.raises(Invalid, match=name):
        changed(kept, {name: value})
    assert kept == Settings()


def test_what_shapes_the_disk_cannot_change() -> None:
    """`timeline` is given when the journal is declared; giving the same again is fine."""
    kept = changed(None, {"timeline": "event-time"})
    assert changed(kept, {"timeline": "event-time"}) == kept
    with pytest.raises(Invalid, match="timeline"):
        changed(kept, {"timeline": "epoch-ms"})


def test_settings_are_read_back_from_the_catalog() -> None:
    """What is missing has its default; what a newer version wrote is left out."""
    s = changed(None, {"timeouts_max": 1, "rotate": "1d"})
    assert from_map(to_map(s)) == s
    assert from_map({"timeouts_max": 1, "new in 2.0": 5}) == Settings(timeouts_max=1)
