"""
LISTEN. The daemon's part: which clients listen for entries that fall due, and which datagram goes out when. The client's part: what a
datagram says, which ones were lost, and when to claim without one. No socket, no clock.

    <work:pages DUE cookie=5f0c…;due=3;listener=7;next=1700000005000;sequence=12

The caller reports when the next entry of a journal falls due (`schedule`), and how many are due (`due`). The one timer of the daemon sleeps
until `deadline`; then `overdue` names the journals to ask the engine about, and `take` gives the datagrams to send.

L1  A datagram is a hint: it says that there is work, never what work. Losing one costs time, never work (V3).
L2  Every datagram of a listener has the next number of its sequence, whatever journal it is about, so a gap shows a loss. Renewing the
    lease tells the last number, so the loss of the last one shows too.
L3  One journal's news go to one listener at once, and then not again for GAP_MS: what comes meanwhile becomes one datagram at the end.
L4  A datagram goes only to the host that asked, over its own authenticated connection, and carries a cookie that only it was told:
    no client can have another host flooded, and a forged datagram does not count.
L5  A listener lives for LEASE_MS after it was renewed, and no longer than its connection. One that is over causes no wake-up.
L6  Nothing here grows with entries: only with listeners, and with journals that have listeners.

Of the client:

V1  Only a datagram with the right cookie and a number that is new counts; anything else is counted as ignored, and changes nothing.
V2  A gap in the sequence, or a renewal with a higher number than was received, is a loss: the client claims at once.
V3  Whatever is lost, a client claims by itself after at most `most_ms`, at times that are spread: a thousand clients that lost one
    datagram together do not claim together.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from journal.errors import Busy, Invalid, LineError, NotFound
from journal.net.wire.auth import Grant
from journal.net.wire.limits import DATAGRAM_BYTES_MAX
from journal.net.wire.line import LineAddress, Message, format_line, parse_line

LEASE_MS = 30_000
GAP_MS = 20
"""Fifty datagrams a second tell a backend as much as thousands would, and cost neither side a measurable part of a core."""
LISTENERS_MAX = 4096
HOLDER_MAX = 64
"""Listeners of one connection."""
COOKIE_BYTES = 16
ALL = "*"
_DIGITS_MAX = 19


class Datagram(NamedTuple):
    """What to send where."""

    address: tuple[str, int]
    data: bytes


@dataclass(slots=True, eq=False)
class Listener:
    """A client's registration for datagrams."""

    number: int
    holder: object
    address: tuple[str, int]
    journals: frozenset[str]
    grant: Grant
    cookie: bytes
    until: int = 0
    sequence: int = 0
    sent_at: dict[str, int] = field(default_factory=dict)
    waiting: set[str] = field(default_factory=set)
    """Journals whose news wait for the gap to end (L3)."""

    def wants(self, journal: str) -> bool:
        """Whether this is about what it asked for, and may see."""
        return (ALL in self.journals or journal in self.journals) and self.grant.may_see(journal)

    def reply(self) -> dict[str, Any]:
        """The reply to LISTEN."""
        return {
            "listener": self.number,
            "cookie": self.cookie.hex(),
            "lease_ms": LEASE_MS,
            "sequence": self.sequence,
        }


class Listeners:
    """All listeners of a daemon. One thread at a time; `now` is a clock that only runs forward: dates of entries are sent as they are."""

    def __init__(self, server: str, *, listeners_max: int = LISTENERS_MAX, gap_ms: int = GAP_MS) -> None:
        self._server = server
        self._listeners_max = listeners_max
        self._gap_ms = gap_ms
        self._listeners: dict[int, Listener] = {}
        self._last = 0
        self._audience: dict[str, list[Listener]] = {}
        """The listeners of a journal; computed on demand, discarded when a listener comes or goes."""
        self._expire_at: int | None = None
        """No lease ends before."""
        self._next: dict[str, int] = {}
        """When the next entry of a journal falls due, by the last report."""
        self._known: dict[str, tuple[int, int | None]] = {}
        """How many are due and when the next one is, by the last report."""
        self._later: list[tuple[int, int, str]] = []
        """Datagrams that wait for the end of a gap: when, to which listener, about which journal (L3)."""
        self._ready: list[Datagram] = []

    # -- listeners ----------------------------------------------------------------------------------------------------

    def add(
        self, holder: object, address: tuple[str, int], journals: Iterable[str], grant: Grant, cookie: bytes, now: int
    ) -> Listener:
        """A new listener; the address is the peer's own host with the port that it asked for (L4)."""
        if len(cookie) != COOKIE_BYTES:
            raise Invalid(f"a cookie has {COOKIE_BYTES} random bytes, not {len(cookie)}")
        if len(self._listeners) >= self._listeners_max:
            self._expire(now)
        if len(self._listeners) >= self._listeners_max:
            raise Busy(f"there are {self._listeners_max} listeners: poll, and try again later")
        if sum(listener.holder is holder for listener in self._listeners.values()) >= HOLDER_MAX:
            raise Busy(f"a connection has at most {HOLDER_MAX} listeners: one may ask for many journals")
        self._last += 1
        listener = Listener(self._last, holder, address, frozenset(journals), grant, cookie)
        listener.until = now + LEASE_MS
        self._listeners[listener.number] = listener
        self._audience.clear()
        self._expire_at = listener.until if self._expire_at is None else min(self._expire_at, listener.until)
        return listener

    def renew(
        self, number: int, holder: object, now: int, *, port: int | None = None, journals: Iterable[str] | None = None
    ) -> Listener:
        """A listener is still there (L5); what it asks for cannot be changed so: it is refused, not ignored."""
        listener = self._listeners.get(number)
        if listener is None or listener.holder is not holder or listener.until <= now:
            raise NotFound(
                f"there is no listener {number} of this connection: its lease was not renewed in time. LISTEN again"
            )
        if port not in (None, listener.address[1]) or (journals is not None and {*journals} != listener.journals):
            raise Invalid(
                f"a renewal names the same port and journals, and listener {number} has the port {listener.address[1]} and "
                f"{len(listener.journals)} journals: for others LISTEN without `listener`"
            )
        listener.until = now + LEASE_MS
        return listener

    def remove(self, number: int, holder: object) -> bool:
        """Remove a listener; False when there is none."""
        listener = self._listeners.get(number)
        if listener is None or listener.holder is not holder:
            return False
        del self._listeners[number]
        self._forget()
        return True

    def remove_all(self, holder: object) -> None:
        """A connection has ended (L5)."""
        for number in [n for n, listener in self._listeners.items() if listener.holder is holder]:
            del self._listeners[number]
        self._forget()

    def _expire(self, now: int) -> None:
        if self._expire_at is None or now < self._expire_at:
            return
        gone = [number for number, listener in self._listeners.items() if listener.until <= now]
        for number in gone:
            del self._listeners[number]
        self._expire_at = min((listener.until for listener in self._listeners.values()), default=None)
        if gone:
            self._forget()

    def _forget(self) -> None:
        """Remove the state of journals without listeners (L6)."""
        self._audience.clear()
        for journal in [j for j in {*self._next, *self._known} if not self.is_wanted(j)]:
            self._next.pop(journal, None)
            self._known.pop(journal, None)

    def is_wanted(self, journal: str) -> bool:
        """Whether a journal has listeners: the engine need not report on other journals."""
        return bool(self._wanting(journal))

    def _wanting(self, journal: str) -> list[Listener]:
        audience = self._audience.get(journal)
        if audience is None:
            audience = [listener for listener in self._listeners.values() if listener.wants(journal)]
            self._audience[journal] = audience
        return audience

    def __len__(self) -> int:
        return len(self._listeners)

    # -- reports of the engine ----------------------------------------------------------------------------------------

    def schedule(self, journal: str, next_due: int | None) -> None:
        """The next entry of a journal that is not due yet falls due then; None: there is none."""
        if next_due is None:
            self._next.pop(journal, None)
        elif self.is_wanted(journal):
            self._next[journal] = next_due

    def overdue(self, now: int) -> list[str]:
        """Journals of which an entry has fallen due: ask the engine how many there are, and say `due`."""
        found = sorted(journal for journal, at in self._next.items() if at <= now)
        for journal in found:
            del self._next[journal]
        return found

    def due(self, journal: str, number: int, next_due: int | None, now: int) -> None:
        """`number` entries are due now, and the next one at `next_due`: all listeners of the journal get a datagram (L3)."""
        self._expire(now)
        self.schedule(journal, next_due)
        if number < 1 or not self.is_wanted(journal):
            return
        self._known[journal] = number, next_due
        for listener in self._wanting(journal):
            if journal not in listener.waiting:
                at = listener.sent_at.get(journal, now - self._gap_ms) + self._gap_ms
                if at <= now:
                    self._tell(listener, journal, now)
                else:
                    listener.waiting.add(journal)
                    heapq.heappush(self._later, (at, listener.number, journal))

    def _tell(self, listener: Listener, journal: str, now: int) -> None:
        number, next_due = self._known[journal]
        listener.sequence += 1  # L2
        listener.sent_at[journal] = now
        parameters: dict[str, Any] = {
            "cookie": listener.cookie.hex(),
            "due": number,
            "listener": listener.number,
            "sequence": listener.sequence,
        }
        if next_due is not None:
            parameters["next"] = next_due
        message = Message("DUE", parameters, sent_from=LineAddress(self._server, journal))
        self._ready.append(Datagram(listener.address, format_line(message, bytes_max=DATAGRAM_BYTES_MAX)))

    # -- what to send -------------------------------------------------------------------------------------------------

    def take(self, now: int) -> list[Datagram]:
        """The datagrams to send now."""
        while self._later and self._later[0][0] <= now:
            _, number, journal = heapq.heappop(self._later)
            listener = self._listeners.get(number)
            if listener is not None and listener.until > now and journal in self._known:
                listener.waiting.discard(journal)
                self._tell(listener, journal, now)
        ready, self._ready = self._ready, []
        return ready

    @property
    def gap_at(self) -> int | None:
        """When the next gap ends that a listener's datagram waits for (L3)."""
        return self._later[0][0] if self._later else None

    @property
    def deadline(self) -> int | None:
        """When to look again: an entry falls due, or a gap ends. None: nothing will happen by itself (L5)."""
        times = [*self._next.values(), *(at for at, _, _ in self._later[:1])]
        return min(times, default=None)


# -- the client's part -------------------------------------------------------------------------------------------------


class Notice(NamedTuple):
    """The content of a datagram."""

    journal: str
    due: int
    next_due: int | None
    lost: int
    """How many before it did not come: they may have been about any journal (V2)."""


class Watch:
    """One registration with a daemon, made from the reply to LISTEN."""

    def __init__(self, reply: dict[str, Any], now: int) -> None:
        try:
            self.listener: int = reply["listener"]
            self.cookie: str = reply["cookie"]
            self.lease_ms: int = reply["lease_ms"]
            self.sequence: int = reply["sequence"]
        except (KeyError, TypeError) as e:
            raise Invalid("the daemon's reply to LISTEN lacks the listener, cookie, lease or sequence") from e
        self.lost = 0
        self.ignored = 0
        """Forged, garbled or repeated datagrams."""
        self.renew_at = now + self.lease_ms // 3

    def receive(self, raw: bytes, now: int) -> Notice | None:
        """The content of a datagram; None when it does not count (V1)."""
        notice = self._read(raw)
        if notice is None:
            self.ignored += 1
        return notice

    def _read(self, raw: bytes) -> Notice | None:
        try:
            message = parse_line(raw, bytes_max=DATAGRAM_BYTES_MAX)
        except LineError:
            return None
        given = message.parameters
        if message.command != "DUE" or message.sent_from is None or given.get("cookie") != self.cookie:
            return None
        numbers = {name: _number(given.get(name)) for name in ("listener", "sequence", "due", "next")}
        sequence, due = numbers["sequence"], numbers["due"]
        if numbers["listener"] != self.listener or sequence is None or due is None or sequence <= self.sequence:
            return None
        lost = self._heard(sequence - 1)
        self.sequence = sequence
        return Notice(message.sent_from.service, due, numbers["next"], lost)

    def _heard(self, before: int) -> int:
        lost = max(0, before - self.sequence)
        self.lost += lost
        self.sequence = max(self.sequence, before)
        return lost

    def renewed(self, sequence: int, now: int) -> int:
        """The lease was renewed, and the daemon had sent so many: how many did not come (V2)."""
        self.renew_at = now + self.lease_ms // 3
        return self._heard(sequence)


def _number(text: Any) -> int | None:
    is_number = type(text) is str and text.isascii() and text.isdigit() and len(text) <= _DIGITS_MAX
    return int(text) if is_number else None


class Poll:
    """When to claim without a notice: rarely, and not all clients at once (V3)."""

    def __init__(self, *, first_ms: int = 1000, most_ms: int = 30_000, jitter: float = 0.25) -> None:
        if not (0 < first_ms <= most_ms and 0 <= jitter < 1):
            raise Invalid(
                f"first_ms {first_ms}, most_ms {most_ms}, jitter {jitter}: 0 < first <= most and 0 <= jitter < 1"
            )
        self._first_ms = first_ms
        self._most_ms = most_ms
        self._jitter = jitter
        self._delay_ms = first_ms

    def next_at(self, now: int, chance: float, next_due: int | None = None) -> int:
        """
        When to ask next; `chance` is a random number from 0 to 1. An entry that is known to fall due is asked for then.

        Each time the wait is twice as long, up to `most_ms` at the very most.
        """
        spread = 1 - self._jitter * chance
        at = now + max(1, int(self._delay_ms * spread))
        self._delay_ms = min(self._delay_ms * 2, self._most_ms)
        return at if next_due is None else max(now, min(at, next_due))

    def lost(self) -> None:
        """A datagram was lost, or there was work that no datagram had announced: poll more often again."""
        self._delay_ms = self._first_ms
