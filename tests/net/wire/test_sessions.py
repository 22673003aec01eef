"""What a daemon remembers of its clients' requests."""

from __future__ import annotations

import pytest

from journal.core.requests.request import RetryRule
from journal.errors import Busy
from journal.net.wire.sessions import Sessions, Standing


def sessions(**options: int) -> Sessions[str]:
    return Sessions(**options)


def test_a_request_is_done_once() -> None:
    """It is new, then pending, then answered."""
    session, _ = sessions().attach("a", b"s", "one", 0)
    assert session.begin(1, RetryRule.REQUEST) is Standing.NEW
    assert session.begin(1, RetryRule.REQUEST) is Standing.PENDING
    session.finish(1, b"answer")
    session.finish(1, b"another")
    assert session.begin(1, RetryRule.REQUEST) is Standing.ANSWERED and session.answer(1) == b"answer"


def test_what_is_forgotten_is_not_done_again() -> None:
    """Unless repeating it is harmless."""
    session, _ = sessions(answers_max=2).attach("a", b"s", "one", 0)
    for number, retry in enumerate([RetryRule.REQUEST, RetryRule.KEY, RetryRule.TOKEN, RetryRule.REQUEST], 1):
        session.begin(number, retry)
        session.finish(number, b"x")
    assert session.begin(1, RetryRule.REQUEST) is Standing.FORGOTTEN
    assert session.begin(2, RetryRule.KEY) is Standing.NEW
    assert session.begin(3, RetryRule.TOKEN) is Standing.ANSWERED
    assert session.begin(4, RetryRule.REQUEST) is Standing.ANSWERED
    assert session.begin(5, RetryRule.ALWAYS) is Standing.NEW
    assert session.begin(5, RetryRule.ALWAYS) is Standing.NEW
    assert session.begin(5, RetryRule.NEVER) is Standing.FORGOTTEN


def test_answers_are_bounded_in_bytes() -> None:
    """The oldest go; what is being done stays."""
    session, _ = sessions(answers_bytes_max=100).attach("a", b"s", "one", 0)
    session.begin(1, RetryRule.REQUEST)
    for number in range(2, 50):
        session.begin(number, RetryRule.REQUEST)
        session.finish(number, b"x" * 30)
        assert session.kept_bytes <= 100
    assert session.begin(1, RetryRule.REQUEST) is Standing.PENDING
    assert session.begin(49, RetryRule.REQUEST) is Standing.ANSWERED
    assert session.begin(40, RetryRule.REQUEST) is Standing.FORGOTTEN


def test_a_session_is_its_identitys() -> None:
    """Another identity with the same name of a session gets another session."""
    all_ = sessions()
    first, _ = all_.attach("a", b"s", "one", 0)
    other, before = all_.attach("b", b"s", "two", 0)
    assert other is not first and before is None
    again, before = all_.attach("a", b"s", "three", 0)
    assert again is first and before == "one" and first.holder == "three"
    all_.detach(first, "one", 5)
    assert first.holder == "three" and first.left_at is None


def test_sessions_are_bounded() -> None:
    """Those that were left go when room is needed, and their answers after a while; those in use stay."""
    all_ = sessions(sessions_max=2, linger_ms=100)
    first, _ = all_.attach("a", b"1", "one", 0)
    second, _ = all_.attach("a", b"2", "two", 0)
    with pytest.raises(Busy):
        all_.attach("a", b"3", "three", 0)
    all_.detach(first, "one", 10)
    all_.detach(second, "two", 20)
    third, _ = all_.attach("a", b"3", "three", 30)
    assert len(all_) == 2 and all_.attach("a", b"2", "two", 30)[0] is second
    second.begin(1, RetryRule.REQUEST)
    second.finish(1, b"x" * 40)
    all_.detach(second, "two", 50)
    all_.expire(149)
    assert second.kept_bytes == all_.kept.bytes == 40
    all_.expire(150)
    assert second.kept_bytes == all_.kept.bytes == 0
    assert len(all_) == 2 and all_.attach("a", b"3", "x", 150)[0] is third


def test_a_session_without_its_answers_does_nothing_twice() -> None:
    """What it has seen is refused, what may be repeated is done, and what is new goes on; an answer that comes late is not kept."""
    all_ = sessions(linger_ms=100)
    session, _ = all_.attach("a", b"1", "one", 0)
    for number in (1, 2, 3):
        session.begin(number, RetryRule.REQUEST)
    session.finish(1, b"answer")
    all_.detach(session, "one", 0)
    assert all_.attach("a", b"1", "two", 100)[0] is session
    session.finish(2, b"late")
    assert [session.begin(number, RetryRule.REQUEST) for number in (1, 2, 3)] == [Standing.FORGOTTEN] * 3
    assert session.begin(2, RetryRule.KEY) is Standing.NEW and session.begin(4, RetryRule.REQUEST) is Standing.NEW
    assert all_.kept.bytes == 0


def test_a_session_that_is_left_for_good_is_gone() -> None:
    """Not one that another connection has by now."""
    all_ = sessions()
    session, _ = all_.attach("a", b"1", "one", 0)
    session.begin(1, RetryRule.REQUEST)
    session.finish(1, b"answer")
    all_.attach("a", b"1", "two", 0)
    all_.leave(session, "one")
    assert len(all_) == 1
    all_.leave(session, "two")
    all_.detach(session, "two", 0)
    assert len(all_) == 0 and all_.kept.bytes == 0
    assert all_.attach("a", b"2", "three", 1)[0] is not session


def test_the_answers_of_all_sessions_together_are_bounded() -> None:
    """Those of sessions that were left go first; then who adds one lets his own go."""
    all_ = sessions(kept_bytes_max=100)
    left, _ = all_.attach("a", b"left", "one", 0)
    here, _ = all_.attach("a", b"here", "two", 0)
    for session in (left, here):
        session.begin(1, RetryRule.REQUEST)
        session.finish(1, b"x" * 40)
    all_.detach(left, "one", 5)
    here.begin(2, RetryRule.REQUEST)
    here.finish(2, b"x" * 40)
    assert left.kept_bytes == 0 and all_.kept.bytes == here.kept_bytes == 80
    left.begin(2, RetryRule.REQUEST)
    left.finish(2, b"x" * 40)
    assert all_.kept.bytes == 80
    here.begin(3, RetryRule.REQUEST)
    here.finish(3, b"x" * 40)
    assert all_.kept.bytes == 80
    assert here.begin(1, RetryRule.REQUEST) is Standing.FORGOTTEN
    assert here.begin(2, RetryRule.REQUEST) is Standing.ANSWERED
