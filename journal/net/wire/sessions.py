"""
Sessions: what lets a client ask again without anything happening twice.

A client has a session for as long as it lives, over all its connections, and numbers its requests through. The daemon keeps what the last
requests of each session came to. A request that comes a second time, on a new connection, is answered from there, or waits for the
answer that is still being made. A daemon that was restarted has forgotten: its hello says so (`epoch`), and the client does not ask again.

S1  A request whose command is not safe to repeat is handed to the engine at most once in a session, whatever connections break.
S2  A session belongs to the identity that began it; no other identity can ask for its answers.
S3  What is kept is bounded: answers by number and bytes, and by time once their connection is gone; sessions by number. A session whose
    answers are gone still knows which requests it has seen: they are refused as forgotten, not made again. One that was left with a bye
    is over at once.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from enum import Enum
from typing import Generic, TypeVar

from journal.core.requests.request import RetryRule
from journal.errors import Busy

H = TypeVar("H")

ANSWERS_MAX = 256
ANSWERS_BYTES_MAX = 4 << 20
KEPT_BYTES_MAX = 64 << 20
"""Of all sessions together."""
SESSIONS_MAX = 4096
LINGER_MS = 120_000
"""How long the answers of a session without a connection are kept."""

_KEPT = frozenset({RetryRule.KEY, RetryRule.TOKEN, RetryRule.REQUEST})
_REPEATABLE = frozenset({RetryRule.ALWAYS, RetryRule.KEY, RetryRule.TOKEN})


class Standing(Enum):
    """What a request is to its session."""

    NEW = "new"
    PENDING = "pending"
    """It came before, and is being done."""
    ANSWERED = "answered"
    FORGOTTEN = "forgotten"
    """It came before, must not be done twice, and its answer is gone."""


class KeptAnswers:
    """The answers of all sessions together."""

    __slots__ = ("_make_room", "bytes", "bytes_max")

    def __init__(self, bytes_max: int, make_room: Callable[[], bool]) -> None:
        """`make_room`: forgets the answers of a session that has no connection; False when there are none."""
        self.bytes = 0
        self.bytes_max = bytes_max
        self._make_room = make_room

    @property
    def is_full(self) -> bool:
        """Whether there are too many, also without those of sessions that were left: then the session that adds one drops its own."""
        while self.bytes > self.bytes_max and self._make_room():
            pass
        return self.bytes > self.bytes_max


class Session(Generic[H]):
    """What one client has asked for. `H` is the connection that it has now."""

    def __init__(self, key: tuple[str, bytes], kept: KeptAnswers, *, answers_max: int, answers_bytes_max: int) -> None:
        self.key = key
        self.kept = kept
        self.holder: H | None = None
        self.left_at: int | None = None
        self._highest = 0
        self._answers: OrderedDict[int, bytes | None] = OrderedDict()
        """By request; None: it is being done."""
        self._bytes = 0
        self._answers_max = answers_max
        self._answers_bytes_max = answers_bytes_max

    def has_seen(self, number: int) -> bool:
        """Whether a request came before, whatever became of it."""
        return number <= self._highest

    def begin(self, number: int, retry: RetryRule) -> Standing:
        """A request came (S1)."""
        if number > self._highest:
            self._highest = number
        elif number in self._answers:
            return Standing.PENDING if self._answers[number] is None else Standing.ANSWERED
        elif retry not in _REPEATABLE:
            return Standing.FORGOTTEN
        if retry in _KEPT:
            self._answers[number] = None
        return Standing.NEW

    def finish(self, number: int, answer: bytes) -> None:
        """A request was answered."""
        answers, kept = self._answers, self.kept
        if answers.get(number, answer) is not None:
            return
        answers[number] = answer
        size = len(answer)
        if len(answers) > self._answers_max:
            oldest = next(iter(answers))
            gone = answers[oldest]
            if gone is not None:  # the usual case: one comes, one goes
                del answers[oldest]
                size -= len(gone)
        self._bytes += size
        kept.bytes += size
        if len(answers) > self._answers_max or self._bytes > self._answers_bytes_max or kept.bytes > kept.bytes_max:
            self._trim()

    def answer(self, number: int) -> bytes:
        """What a request came to, that is ANSWERED."""
        answer = self._answers[number]
        assert answer is not None
        return answer

    def _trim(self) -> None:
        """Let the oldest answers go (S3); what is being done stays, and is bounded by what may be in flight."""
        answers = self._answers
        while len(answers) > self._answers_max or self._bytes > self._answers_bytes_max or self.kept.is_full:
            if not answers:
                return
            oldest = next(iter(answers))
            answer = answers[oldest]
            if answer is None:
                found = next((number for number, answer in answers.items() if answer is not None), None)
                if found is None:
                    return
                oldest, answer = found, answers[found]
            size = len(answer or b"")
            self._bytes -= size
            self.kept.bytes -= size
            del answers[oldest]

    def forget_answers(self) -> None:
        """Keep nothing of what was asked, and of what is being made, but that it was asked (S3)."""
        self.kept.bytes -= self._bytes
        self._bytes = 0
        self._answers.clear()

    @property
    def kept_bytes(self) -> int:
        """The size of the answers that are kept."""
        return self._bytes


class Sessions(Generic[H]):
    """The sessions of a daemon. One thread at a time."""

    def __init__(
        self,
        *,
        sessions_max: int = SESSIONS_MAX,
        answers_max: int = ANSWERS_MAX,
        answers_bytes_max: int = ANSWERS_BYTES_MAX,
        kept_bytes_max: int = KEPT_BYTES_MAX,
        linger_ms: int = LINGER_MS,
    ) -> None:
        self.kept = KeptAnswers(kept_bytes_max, self._forget_oldest)
        self._sessions_max = sessions_max
        self.answers_max = answers_max
        self._answers_bytes_max = answers_bytes_max
        self._linger_ms = linger_ms
        self._sessions: dict[tuple[str, bytes], Session[H]] = {}
        self._left: OrderedDict[tuple[str, bytes], None] = OrderedDict()
        """Of those, the ones without a connection, longest ago first: to find one to forget is no search."""
        self._laden: OrderedDict[tuple[str, bytes], None] = OrderedDict()
        """Of those, the ones that have their answers."""

    def attach(self, identity: str, name: bytes, holder: H, now: int) -> tuple[Session[H], H | None]:
        """The session of a client that has connected, and the connection that it had, if that is still there (S2)."""
        key = identity, name
        session = self._sessions.get(key)
        self.expire(now)
        if session is None:
            if len(self._sessions) >= self._sessions_max and not self._drop_oldest():
                raise Busy(f"there are {self._sessions_max} sessions with a connection: connect again later")
            session = Session(key, self.kept, answers_max=self.answers_max, answers_bytes_max=self._answers_bytes_max)
            self._sessions[key] = session
        self._left.pop(key, None)
        self._laden.pop(key, None)
        before, session.holder, session.left_at = session.holder, holder, None
        return session, before

    def detach(self, session: Session[H], holder: H, now: int) -> None:
        """A connection has ended; it may have been replaced already."""
        if session.holder is holder:
            session.holder, session.left_at = None, now
            if self._sessions.get(session.key) is session:
                self._left[session.key] = self._laden[session.key] = None

    def leave(self, session: Session[H], holder: H) -> None:
        """A client has sent its bye, with everything answered: the session is not needed any more."""
        if session.holder is holder and self._sessions.get(session.key) is session:
            self._drop(session.key)

    def expire(self, now: int) -> None:
        """Forget the answers of sessions that were left long ago (S3)."""
        while self._laden:
            left_at = self._sessions[next(iter(self._laden))].left_at
            if left_at is None or now - left_at < self._linger_ms:
                return
            self._forget_oldest()

    def _forget_oldest(self) -> bool:
        """Forget the answers of the session that was left first; False when there is none."""
        if not self._laden:
            return False
        key, _ = self._laden.popitem(last=False)
        self._sessions[key].forget_answers()
        return True

    def _drop_oldest(self) -> bool:
        """Forget the session that was left first; False when there is none."""
        if not self._left:
            return False
        self._drop(next(iter(self._left)))
        return True

    def _drop(self, key: tuple[str, bytes]) -> None:
        self._left.pop(key, None)
        self._laden.pop(key, None)
        self._sessions.pop(key).forget_answers()

    def __len__(self) -> int:
        return len(self._sessions)
