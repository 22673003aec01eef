"""A short run of the fuzzer."""

from __future__ import annotations

from tests.net.wire.fuzz import run


def test_malformed_conversations_harm_nothing() -> None:
    """They end with an error of the protocol or go on; some of what they ask is still good."""
    ends = run(4000, seed=7)
    assert ends["went on"] > 100 and ends["ended"] > 500 and ends["handed out"] > 1000
