"""The verbs of consumers as calls. What they do says journal.Journal; see journal.net.client.calls.call."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import Any, NamedTuple, Protocol

from journal.core.arguments import check_priority, consumer_name, lease_ms, listed, reason_text, version_number
from journal.core.buckets import Range
from journal.core.entry.keys import UserKey, key_bytes
from journal.core.limits import GROUP_MAX, LIST_MAX
from journal.core.quoting import shown
from journal.core.requests.registry import COMMANDS
from journal.core.times import DateLike, DurationLike, date_ms, duration_ms
from journal.core.values import Put, PutResult
from journal.errors import FrameError, Invalid, JournalError
from journal.net.client.calls.call import Call, Steps, as_it_is, call, nothing, part_of_list
from journal.net.client.calls.puts import check_put, item_of_put, one_result, parts, sent_part
from journal.net.wire.limits import DEFAULT
from journal.net.wire.values import COLUMNS, LeaseRow, error_from, lease_from, result_from

_CLAIM = COMMANDS["CLAIM"]
_DONE = COMMANDS["DONE"]
_DUES = int, type(None)
_TOKEN = COLUMNS["lease"].index("token")
CREDIT_MAX = DEFAULT.credit_max


class Tokened(Protocol):
    """A lease, of whatever kind."""

    @property
    def token(self) -> int:
        """What tells it from other leases."""


class Claimed(NamedTuple):
    """What a claim came to."""

    leases: list[LeaseRow]
    next_due: int | None
    """When to ask again, when there was none."""


def claim(
    journal: str,
    *,
    consumer: str = "",
    lease: DurationLike | None = None,
    durability: str | None = None,
    buckets: Range | None = None,
) -> Call[Claimed]:
    """
    Take the next entry that is due, under a lease; None when nothing is.

    Priorities from `slow_from` on come only when nothing else is due. With `buckets`: the next one of these.
    """
    how = _how(consumer, lease, buckets)
    if durability is not None:
        how["durability"] = durability
    return Call(_CLAIM, journal, how, _read_claim, undo=partial(_undo, journal))


def claim_many(
    journal: str,
    n: int,
    *,
    consumer: str = "",
    lease: DurationLike | None = None,
    durability: str | None = None,
    buckets: Range | None = None,
) -> Steps[list[LeaseRow]]:
    """
    Take up to `n` entries at once; slow ones (`slow_from`) only when there are no others.

    Fewer than there are when a frame (1 MiB) holds no more: ask again.
    """
    if type(n) is not int or not 1 <= n <= GROUP_MAX:
        raise Invalid(f"claim_many takes 1 to {GROUP_MAX} entries, not {n!r}")
    how = _how(consumer, lease, buckets)
    return _claimed_many(journal, n, how, durability)


def _claimed_many(journal: str, n: int, how: dict[str, Any], durability: str | None) -> Steps[list[LeaseRow]]:
    found: list[LeaseRow] = []
    while len(found) < n:
        wanted = min(n - len(found), LIST_MAX)
        asking = call("CLAIM_MANY", journal, _read_claims, n=wanted, **how, durability=durability)
        try:
            claimed: Claimed = yield asking._replace(undo=partial(_undo, journal))
        except JournalError:
            if not found:
                raise
            break  # the caller gets what was claimed so far; its next claim meets the error again
        found += claimed.leases
        if len(claimed.leases) < wanted:
            break
    return found


def claim_key(
    journal: str,
    key: UserKey,
    *,
    version: int | None = None,
    consumer: str = "",
    lease: DurationLike | None = None,
    durability: str | None = None,
) -> Call[LeaseRow]:
    """
    Take the entry with this key, which is due, under a lease, whatever comes before it in the order of work.

    NotFound, Leased (it is under a lease already), VersionMismatch (it is not the version that was asked for), NotDue or Paused.
    """
    key_bytes(key)
    version_number(version)
    how = _how(consumer, lease, None)
    claim = call("CLAIM_KEY", journal, lease_from, key=key, version=version, **how, durability=durability)
    return claim._replace(undo=partial(_undo, journal))


def done(
    journal: str, token: int | Tokened, *, next: Put | None = None, durability: str | None = None
) -> Call[PutResult | None]:
    """
    The work under a lease is finished: its entry goes. Repeating it succeeds and changes nothing.

    With `next`, a journal.Put of the same key or of another one, both are one change, and the result is that of the put
    ("repeated" when the lease was finished before). A put that is refused refuses the whole: the lease goes on.
    """
    given: dict[str, Any] = {"token": token if type(token) is int else token_of(token)}
    if durability is not None:
        given["durability"] = durability
    if next is not None:
        return Call(_DONE, journal, given | {"next": item_of_put(next)}, one_result)
    return Call(_DONE, journal, given, nothing)


def done_many(
    journal: str,
    leases: Iterable[Tokened | int],
    *,
    next: Iterable[Put | None] | None = None,
    durability: str | None = None,
) -> Steps[list[PutResult | JournalError | None]]:
    """
    Finish many leases with one record (more than 16,384, or than a frame holds: several); None or the error of each, in order.

    `next` has a journal.Put or None for each lease, as for `done`; then the list has the results of the puts, too.
    """
    tokens = [token_of(lease) for lease in listed(leases, "done_many")]
    if len(tokens) > GROUP_MAX:
        raise Invalid(f"done_many takes up to {GROUP_MAX} leases, not {len(tokens)}")
    if next is None:
        return _done_many(journal, tokens, durability)
    nexts = listed(next, "next")
    if len(nexts) != len(tokens):
        raise Invalid(f"next has {len(nexts)} items for {len(tokens)} leases: give a journal.Put or None for each")
    for put in nexts:
        if put is not None:
            check_put(put)
    return _done_with(journal, list(zip(tokens, nexts, strict=True)), durability)


def _done_many(journal: str, tokens: list[int], durability: str | None) -> Steps[list[PutResult | JournalError | None]]:
    results: list[PutResult | JournalError | None] = []
    for start in range(0, len(tokens), LIST_MAX):
        part = tokens[start : start + LIST_MAX]
        answers = yield call("DONE_MANY", journal, as_it_is, tokens=part, durability=durability)
        results += [None if answer is None else error_from(answer) for answer in answers]
    return results


def _done_with(
    journal: str, items: list[tuple[int, Put | None]], durability: str | None
) -> Steps[list[PutResult | JournalError | None]]:
    """The same with puts: as many in a frame as it holds."""

    def item_of(item: tuple[int, Put | None]) -> dict[str, Any]:
        return {"token": item[0]} | ({} if item[1] is None else item_of_put(item[1]))

    def ask(dones: list[dict[str, Any]]) -> Call[Any]:
        tokens = [item["token"] for item in dones]
        nexts = [{name: value for name, value in item.items() if name != "token"} or None for item in dones]
        return call("DONE_MANY", journal, as_it_is, tokens=tokens, nexts=nexts, durability=durability)

    results: list[PutResult | JournalError | None] = [None] * len(items)
    for places, part in parts(items, item_of, results):
        yield from sent_part(ask, "dones", places, part, _read_done, results)
    return results


def _read_done(answer: Any) -> PutResult | JournalError | None:
    return None if answer is None else result_from(answer)


def extend(journal: str, token: int | Tokened, lease: DurationLike | None = None) -> Call[tuple[int, int]]:
    """Ask for more time for a lease, from now on (never less than it has); the new deadline."""
    duration = None if lease is None else lease_ms(lease)
    return call("EXTEND", journal, _read_extended, token=token_of(token), lease=duration)


def release(
    journal: str,
    token: int | Tokened,
    *,
    delay: DurationLike | None = None,
    process_date: DateLike | None = None,
    priority: int | None = None,
    failed: bool = False,
    durability: str | None = None,
) -> Call[None]:
    """
    Give a lease back: the entry waits again, now, after a delay, or at a date; with its priority, or another one.

    `failed`: the work was tried and came to nothing; that raises `timeouts` of the entry, as a lost lease does.
    """
    if process_date is not None and delay is not None:
        raise Invalid("give process_date or delay, not both")
    date = None if process_date is None else date_ms(process_date, "process_date")
    later = None if delay is None else duration_ms(delay, "delay")
    number = token_of(token)
    if priority is not None:
        check_priority(priority)
    return call(
        "RELEASE", journal, nothing, token=number, delay=later, process_date=date, priority=priority, failed=failed or None,
        durability=durability,
    )  # fmt: skip


def bury(journal: str, token: int | Tokened, reason: str = "", *, durability: str | None = None) -> Call[None]:
    """Give an entry up: it is kept apart until it is retried or discarded."""
    reason_text(reason)
    return call("BURY", journal, nothing, token=token_of(token), reason=reason or None, durability=durability)


def retry(journal: str, key: UserKey, *, durability: str | None = None) -> Call[PutResult]:
    """Let the buried entry with this key (the last one) wait again, due now."""
    key_bytes(key)
    return call("RETRY", journal, one_result, key=key, durability=durability)


def retry_many(
    journal: str, keys: Iterable[UserKey], *, durability: str | None = None
) -> Steps[list[PutResult | JournalError]]:
    """
    Let the buried entries with these keys wait again, due now: one record (more than 16,384: several), one sync.

    The list has a result or an error for each, in order: NotFound, KeyExists (there is a newer one), Invalid.
    """
    wanted = listed(keys, "retry_many")
    if len(wanted) > GROUP_MAX:
        raise Invalid(f"retry_many takes up to {GROUP_MAX} keys, not {len(wanted)}: split the group")
    return _retry_many(journal, wanted, durability)


def _retry_many(journal: str, keys: list[UserKey], durability: str | None) -> Steps[list[PutResult | JournalError]]:
    def item_of(key: UserKey) -> dict[str, Any]:
        key_bytes(key)
        return {"key": key}

    def ask(items: list[dict[str, Any]]) -> Call[Any]:
        return call("RETRY_MANY", journal, as_it_is, keys=[item["key"] for item in items], durability=durability)

    results: list[Any] = [None] * len(keys)
    for places, part in parts(keys, item_of, results):
        yield from sent_part(ask, "items", places, part, result_from, results)
    return results


def discard(journal: str, key: UserKey, *, durability: str | None = None) -> Call[None]:
    """Delete the buried entry with this key (the last one)."""
    key_bytes(key)
    return call("DISCARD", journal, nothing, key=key, durability=durability)


def lease(journal: str, token: int | Tokened) -> Call[LeaseRow]:
    """The active lease of a token, as it is now, with what it is about; LeaseLost when it is not active any more."""
    return call("LEASE", journal, lease_from, token=token_of(token))


def leases(journal: str, *, consumer: str | None = None) -> Steps[list[LeaseRow]]:
    """The active leases, of one consumer or of all, by deadline: a consumer that restarts finds its own here."""
    if consumer is not None:
        consumer_name(consumer)
    return _leases(journal, consumer)


def _leases(journal: str, consumer: str | None) -> Steps[list[LeaseRow]]:
    found: list[LeaseRow] = []
    after: bytes | None = None
    while True:
        answer = yield call("LEASES", journal, as_it_is, consumer=consumer, after=after)
        rows, after = part_of_list(answer, "leases")
        found += map(lease_from, rows)
        if after is None:
            return sorted(found, key=lambda row: (row.deadline, row.token))


def subscribe(
    journal: str, *, consumer: str = "", lease: DurationLike | None = None, buckets: Range | None = None, credit: int
) -> Call[int]:
    """Have leases pushed as entries fall due; the number of the subscription."""
    if type(credit) is not int or not 1 <= credit <= CREDIT_MAX:
        raise Invalid(f"credit is {credit!r}: it must be an int from 1 to {CREDIT_MAX}")
    made = call("SUBSCRIBE", journal, _read_subscribed, **_how(consumer, lease, buckets), credit=credit)
    return made._replace(undo=lambda reply: [unsubscribe(journal, _read_subscribed(reply))])


def unsubscribe(journal: str, subscription: int) -> Call[None]:
    """Have no more leases pushed."""
    return call("UNSUBSCRIBE", journal, nothing, subscription=subscription)


def _read_subscribed(value: Any) -> int:
    match value:
        case {"subscription": int(number)}:
            return number
    raise FrameError(f"{shown(value)} is no answer to SUBSCRIBE: it has subscription")


def _undo(journal: str, result: Any) -> list[Call[Any]]:
    """Calls that release the leases of a claim whose caller has stopped waiting."""
    rows = (result.get("leases") or [result.get("lease")]) if type(result) is dict else [result]
    return [release(journal, row[_TOKEN]) for row in rows if type(row) is list and len(row) > _TOKEN]


def token_of(lease: Any) -> int:
    """The token of a lease, or a token."""
    if type(lease) is int:
        return lease
    token = getattr(lease, "token", None)
    if type(token) is not int:
        raise Invalid(f"expected a Lease or its token (an int), not {lease!r}")
    return token


def _how(consumer: str, lease: DurationLike | None, buckets: Range | None) -> dict[str, Any]:
    """Under which name, for how long, and of what to claim. Without a name: under that of the connection."""
    how: dict[str, Any] = {}
    if consumer != "":
        how["consumer"] = consumer_name(consumer)
    if lease is not None:
        how["lease"] = lease_ms(lease)
    if buckets is not None:
        how["buckets"] = buckets_text(buckets)
    return how


def buckets_text(buckets: Range | None) -> str | None:
    """A range of buckets on the wire."""
    if buckets is not None and not isinstance(buckets, Range):
        raise Invalid(f"buckets is {buckets!r}: it must be a journal.Range, e.g. journal.Range.parse('0-3'), or None")
    return None if buckets is None else str(buckets)


def _read_claim(value: Any) -> Claimed:
    if type(value) is dict and len(value) == 2 and "lease" in value and type(value.get("next_due", "")) in _DUES:
        lease = value["lease"]
        return Claimed([] if lease is None else [lease_from(lease)], value["next_due"])
    raise FrameError(f"{shown(value)} is no answer to CLAIM: it has lease and next_due")


def _read_claims(value: Any) -> Claimed:
    match value:
        case {"leases": list(leases), "next_due": int() | None as next_due}:
            return Claimed([lease_from(lease) for lease in leases], next_due)
    raise FrameError(f"{shown(value)} is no answer to CLAIM_MANY: it has leases and next_due")


def _read_extended(value: Any) -> tuple[int, int]:
    match value:
        case {"deadline": int(deadline), "version": int(version)}:
            return deadline, version
    raise FrameError(f"{shown(value)} is no answer to EXTEND: it has deadline and version")
