"""
The judge: do the histories of all clients, and what was found at the end, keep the promises of a queue?

Every put has a key of its own. A *lease* is what one claim handed out of one key; its *start* and *deadline* are the daemon's own times. A
key's put may have been *made* more than once: a client asks again after a restart of the daemon (a put is asked again by its key), or
because it never got an answer. Counted strictly: once for each call of a put with this key that was not refused, and once more for each
death of the daemon between the beginning and the end of that call. In a round without deaths every put is made once at most.

Q1  Lost = 0. A key whose put was acknowledged was finished (a `done` was acknowledged, or is unknown), or is still there at the end.
Q2  Unexpected = 0. What comes out was put by a call that had begun by then and was not refused, and has the data that was put.
Q3  One holder at a time. When a key is handed out again, the lease before it was over by the daemon's own clock (its start is not before
    the other's deadline, extensions counted), or its holder had begun to release it, or had begun to finish it while the put may have
    been made again.
Q4  Finished once. A key has no more acknowledged `done`s than its put may have been made, and after that many it is not handed out again.
Q5  A put or create that was made once is answered with "inserted"; one is refused with KeyExists only when it may have been made before.
Q6  Nothing goes back. Tokens are handed out once, to one client. A claim that begins after another has ended has higher tokens; a put that
    begins after another has ended has a later cursor; of one and the same put each lease has a higher version than the one before.
Q7  Every refusal is one of those that a well-behaved client can meet, and nothing failed in a way that was not foreseen.

So an entry is handled twice only after a lease that was lost or given back, or after a reply that was unknown; `Verdict.repeated` counts
the reasons.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from tests.jepsen.history import Note, Op

PUTS = frozenset({"put", "create", "put_many"})
EXISTS = "exists"
"""The word for a create that was made before, by a call whose answer was lost: its cursor is of then."""
CLAIMS = frozenset({"claim", "claim_many", "leases", "work", "subscribe"})
DONES = frozenset({"done", "done_many"})
DEATHS = frozenset({"kill", "stop"})
"""Notes of the nemesis after which a daemon has forgotten what it was asked."""
FORESEEN = frozenset({
    "KeyExists", "LeaseLost", "StoreFull", "Stopping", "ConnectionLost", "TimedOut", "Busy", "StoreFailed", "StoreClosed",
})  # fmt: skip
"""What a well-behaved client of a disturbed daemon can be told (Q7)."""
SHOWN = 8
"""Violations that are told of each kind."""


@dataclass(slots=True)
class Put:
    """One call's put of one key."""

    op: Op
    key: str
    outcome: str
    word: str = ""
    cursor: tuple[int, int] = (0, 0)


@dataclass(slots=True)
class Lease:
    """What a claim handed out."""

    op: Op
    key: str
    token: int
    version: int
    start: int
    deadline: int
    data: str
    ends: list[Op] = field(default_factory=list)
    """Calls that were to end it."""


@dataclass(slots=True)
class Verdict:
    """What became of a round."""

    counts: Counter[str] = field(default_factory=Counter)
    repeated: Counter[str] = field(default_factory=Counter)
    """How often a key was handed out once more, by reason."""
    violations: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))
    """By promise."""

    def blame(self, promise: str, text: str) -> None:
        """A promise was broken."""
        self.violations[promise].append(text)

    @property
    def is_good(self) -> bool:
        """Whether all promises were kept."""
        return not self.violations

    def lines(self) -> list[str]:
        """What was broken, the first of each kind."""
        return [
            f"{promise}: {text}"
            + (f" (and {len(texts) - SHOWN} more)" if n == SHOWN - 1 and len(texts) > SHOWN else "")
            for promise, texts in sorted(self.violations.items())
            for n, text in enumerate(texts[:SHOWN])
        ]


def judge(ops: Sequence[Op], notes: Sequence[Note], still_there: Iterable[str]) -> Verdict:
    """Compare histories with the promises; `still_there`: the keys that were left at the end."""
    return _Judge(ops, notes, frozenset(still_there)).verdict()


class _Judge:
    def __init__(self, ops: Sequence[Op], notes: Sequence[Note], still_there: frozenset[str]) -> None:
        self.ops = ops
        deaths = [note for note in notes if note.event in DEATHS]
        self.died = sorted(note.more["at"] for note in deaths)
        self.dead = sorted(note.at for note in deaths)
        """When a daemon began to die, and when nothing was left of it."""
        self.still_there = still_there
        self.puts: dict[str, list[Put]] = defaultdict(list)
        self.leases: dict[str, list[Lease]] = defaultdict(list)
        self.by_token: dict[int, Lease] = {}
        self.dones: dict[str, list[tuple[int, Op]]] = defaultdict(list)
        """By key: the tokens that were to be finished, and the calls; those that were refused are left out."""
        self.said = Verdict()

    def verdict(self) -> Verdict:
        """All of it."""
        for op in self.ops:
            self._read(op)
        for key in sorted({*self.puts, *self.leases, *self.dones, *self.still_there}):
            self._lost(key)
            self._unexpected(key)
            self._one_holder(key)
            self._finished_once(key)
            self._made_once(key)
        self._nothing_goes_back()
        return self.said

    # -- reading ------------------------------------------------------------------------------------------------------

    def _read(self, op: Op) -> None:
        counts = self.said.counts
        counts[f"{op.verb} {op.outcome}"] += 1
        self._foreseen(op, op.error)
        if op.verb in PUTS:
            for n, (key, *_) in enumerate(op.asked):
                self._read_put(op, key, op.answer[n] if op.outcome == "ok" else None)
        elif op.verb in CLAIMS and op.outcome == "ok":
            for item in op.answer:
                self._read_lease(op, Lease(op, *item))
        elif op.verb == "extend":
            lease = self.by_token[op.asked[0][1]]
            if op.outcome == "ok":
                lease.deadline = max(lease.deadline, op.answer[0])
        elif op.verb in DONES or op.verb in ("release", "bury"):
            for n, (key, token) in enumerate(op.asked):
                self._read_end(op, key, token, op.answer[n] if op.outcome == "ok" and op.answer else None)

    def _foreseen(self, op: Op, error: str) -> None:
        if error and error.partition(":")[0] not in FORESEEN:
            self.said.blame("Q7", f"{op.client} {op.verb} {op.asked}: {error}")

    def _read_put(self, op: Op, key: str, answer: list[object] | None) -> None:
        if answer is None:
            put = Put(op, key, op.outcome)
        elif answer[0] == "error":
            put = Put(op, key, str(answer[2]))
            self._foreseen(op, str(answer[1]))
        else:
            word, order, offset = answer
            put = Put(op, key, "ok", str(word), (int(str(order)), int(str(offset))))
        self.puts[key].append(put)
        self.said.counts[f"puts {put.outcome}"] += 1

    def _read_lease(self, op: Op, lease: Lease) -> None:
        known = self.by_token.get(lease.token)
        if known is None:
            self.by_token[lease.token] = lease
            self.leases[lease.key].append(lease)
            self.said.counts["leases"] += 1
        elif known.key != lease.key or _who(known.op) != _who(op):
            self.said.blame("Q6", f"the token {lease.token} was handed out twice: {_shown(known)} and {_shown(lease)}")
        else:
            known.deadline = max(known.deadline, lease.deadline)  # the same lease, asked about once more

    def _read_end(self, op: Op, key: str, token: int, error: str | None) -> None:
        lease = self.by_token.get(token)
        if lease is None:
            self.said.blame("Q6", f"{op.client} ends the lease {token}, which nobody was given")
            return
        self._foreseen(op, error or "")
        if op.outcome != "fail" and error is None:
            lease.ends.append(op)
            if op.verb in DONES:
                self.dones[key].append((token, op))

    # -- promises -----------------------------------------------------------------------------------------------------

    def made(self, key: str) -> int:
        """How often a put may have been made."""
        return sum(1 + self._deaths(put.op) for put in self.puts[key] if put.outcome != "fail")

    def _deaths(self, op: Op) -> int:
        """Of the daemon, while a call was under way."""
        return bisect_right(self.died, op.ended) - bisect_left(self.dead, op.begun)

    def _lost(self, key: str) -> None:
        """Q1."""
        is_acknowledged = any(put.outcome == "ok" for put in self.puts[key])
        if is_acknowledged and not self.dones[key] and key not in self.still_there:
            leases = ", ".join(map(_shown, self.leases[key])) or "nobody ever got it"
            self.said.blame("Q1", f"{key} was acknowledged and is lost: {leases}")
            self.said.counts["lost"] += 1

    def _unexpected(self, key: str) -> None:
        """Q2."""
        begun = [put.op.begun for put in self.puts[key] if put.outcome != "fail"]
        for lease in self.leases[key]:
            why = ""
            if not begun or min(begun) > lease.op.until:
                why = "nobody had put it" if not self.puts[key] else "its put was refused, or had not begun"
            elif lease.data != key:
                why = f"it has other data: {lease.data}"
            if why:
                self.said.blame("Q2", f"{_shown(lease)}: {why}")
                self.said.counts["unexpected"] += 1
        if key in self.still_there and not begun:
            self.said.blame("Q2", f"{key} is there at the end, and nobody had put it")
            self.said.counts["unexpected"] += 1

    def _one_holder(self, key: str) -> None:
        """Q3, and Q6 for versions."""
        leases = sorted(self.leases[key], key=lambda lease: lease.token)
        is_made_once = self.made(key) == 1
        for before, after in pairwise(leases):
            reason = self._reason(before, after, is_made_once)
            if reason is None:
                self.said.blame("Q3", f"{_shown(after)} is given out while it is held: {_shown(before)}")
                self.said.counts["shared"] += 1
            else:
                self.said.repeated[reason] += 1
            if is_made_once and after.version <= before.version:
                self.said.blame("Q6", f"the version goes back from {_shown(before)} to {_shown(after)}")

    def _reason(self, before: Lease, after: Lease, is_made_once: bool) -> str | None:
        """Why a key may be handed out again."""
        if after.start >= before.deadline:
            return "lost lease"
        begun = [end for end in before.ends if end.begun < after.op.until]
        if any(end.verb in ("release", "bury") for end in begun):
            return "given back"
        return "unknown reply" if begun and not is_made_once else None

    def _finished_once(self, key: str) -> None:
        """Q4."""
        first: dict[int, int] = {}
        for token, op in self.dones[key]:
            if op.outcome == "ok":
                first[token] = min(op.ended, first.get(token, op.ended))
        made = self.made(key)
        if not made:
            return  # that is Q2's
        if len(first) > made:
            self.said.blame("Q4", f"{key} was finished {len(first)} times, and put {made} times at most")
            self.said.counts["finished again"] += 1
        elif len(first) == made:
            last = max(first.values())
            for lease in self.leases[key]:
                if lease.op.begun > last and lease.token not in first:
                    self.said.blame("Q4", f"{_shown(lease)} was handed out though it was finished before")
                    self.said.counts["finished again"] += 1
            if key in self.still_there:
                self.said.blame("Q4", f"{key} is still there though it was finished")

    def _made_once(self, key: str) -> None:
        """Q5."""
        puts = self.puts[key]
        if len(puts) == 1 and not self._deaths(puts[0].op):
            put = puts[0]
            if put.outcome == "ok" and put.word != "inserted":
                self.said.blame("Q5", f"{key} was put once, and the answer is {put.word}")
            if put.outcome == "fail" and put.op.error.startswith("KeyExists"):
                self.said.blame("Q5", f"{key} was created once, and the answer is {put.op.error}")

    def _nothing_goes_back(self) -> None:
        """Q6, for tokens and cursors."""
        claims: dict[int, list[int]] = defaultdict(list)
        for token, lease in self.by_token.items():
            if lease.op.verb in ("claim", "claim_many"):
                claims[id(lease.op)].append(token)
        by_id = {id(lease.op): lease.op for lease in self.by_token.values()}
        self._grows("token", [(by_id[number], min(tokens), max(tokens)) for number, tokens in claims.items()])
        cursors = [
            (put.op, put.cursor, put.cursor)
            for puts in self.puts.values()
            for put in puts
            if put.outcome == "ok" and put.word != EXISTS
        ]
        self._grows("cursor", cursors)

    def _grows(self, what: str, found: list[tuple[Op, object, object]]) -> None:
        """What begins after another has ended has more than it had."""
        ended = sorted(found, key=lambda item: item[0].ended)
        highest: object = None
        at = 0
        for op, low, _ in sorted(found, key=lambda item: item[0].begun):
            while at < len(ended) and ended[at][0].ended < op.begun:
                highest = ended[at][2] if highest is None else max(highest, ended[at][2])  # type: ignore[type-var]
                at += 1
            if highest is not None and low <= highest:  # type: ignore[operator]
                self.said.blame(
                    "Q6", f"the {what} of {op.client} {op.verb} is {low}, and an earlier call had {highest}"
                )


def _who(op: Op) -> str:
    """A client, whichever of its processes it was."""
    return op.client.partition("~")[0]


def _shown(lease: Lease) -> str:
    return (
        f"lease {lease.token} of {lease.key} (version {lease.version}, from {lease.start} to {lease.deadline}, given to "
        f"{lease.op.client}, ends {[(end.verb, end.outcome) for end in lease.ends]})"
    )
