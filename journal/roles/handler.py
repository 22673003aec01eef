"""
A handler and its lease: when the handler returns, the work is done; when it raises, the work is retried later.

J1  When a handler answers its lease itself, that answer stands.
J2  A handler that raises an Exception has failed: the entry waits as the retry policy says, or is buried with the reason.
    How often it failed is kept with the entry (`timeouts`), so all consumers count together, over restarts, and a lost lease counts.
J3  An interrupt (KeyboardInterrupt, SystemExit) is no failure of the work: the entry goes back to its place, and the interrupt is raised.
J4  A handler that returns a journal.Put has it put with the `done`, as one change; one that is refused is a failure of the handler.
J5  Each failure is logged with key, attempt and traceback, up to a number of lines of a journal (journal.roles.failures); the next line
    says how many were left out.
J6  An entry that is buried for its failures raises the flag FLAG on its journal, as one whose leases were lost too often does.
"""

from __future__ import annotations

import logging
import random
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from journal.api.lease import Lease
from journal.core.limits import REASON_BYTES_MAX
from journal.core.values import Put
from journal.errors import Invalid, JournalError, LeaseLost, Refused

if TYPE_CHECKING:
    from journal.roles.consumer import Consumer

log = logging.getLogger("journal.consumer")

FLAG = "failures"

Handler = Callable[[Lease], object]


def handle(consumer: Consumer, lease: Lease, handler: Handler) -> None:
    """Let a handler work on a lease, and answer for it."""
    try:
        result = handler(lease)
    except Exception as e:  # noqa: BLE001 - whatever it is: the work has failed, not the consumer
        note_failure(consumer, lease, e)
        _answer(consumer, lease, partial(fail, consumer, lease, e))
    except BaseException:
        _answer(consumer, lease, partial(give_back, lease))
        raise
    else:
        if consumer.auto_done:
            try:
                _answer(consumer, lease, finish(lease, result))
            except (Invalid, Refused) as e:
                note_failure(consumer, lease, e)
                _answer(consumer, lease, partial(fail, consumer, lease, e))


def finish(lease: Lease, result: object) -> Callable[[], object]:
    """How a lease is done whose handler returned this (J4)."""
    return partial(lease.done, next=result) if isinstance(result, Put) else lease.done


def check_handler(handler: object) -> None:
    """Refuse what cannot be called, before there is work for it."""
    if not callable(handler):
        raise Invalid(f"the handler is {handler!r}: it must be a function that takes a lease")


def note_failure(consumer: Consumer, lease: Lease, error: Exception) -> None:
    """Count a failure, and log it with its traceback, unless there are too many lines already (J5)."""
    consumer.failed += 1
    left_out = consumer.failures.take(consumer.time.running())
    if left_out is not None:
        log.warning(
            "handler_failed journal=%s consumer=%s key=%r attempt=%d left_out=%d",
            consumer.journal.name, consumer.name, lease.key, lease.timeouts + 1, left_out, exc_info=error,
        )  # fmt: skip


def _answer(consumer: Consumer, lease: Lease, answer: Callable[[], object]) -> None:
    """Answer a lease unless that is done (J1), or too late: then it was lost, which is reported elsewhere."""
    if lease.is_ended or not consumer.holds(lease):
        return
    try:
        answer()
    except LeaseLost:
        return


def fail(consumer: Consumer, lease: Lease, error: BaseException) -> None:
    """End a lease whose handler failed (J2)."""
    failures, retry = lease.timeouts + 1, consumer.retry
    if retry is None:
        lease.release(failed=True)
    elif retry.is_over(failures):
        reason = reason_of(error, failures)
        lease.bury(reason)
        try:
            consumer.journal.raise_flag(FLAG, _cut(f"the entry {lease.key!r} was buried: {reason}"))
        except JournalError as e:  # the entry is buried, and shows it by itself
            log.warning("flag_not_raised journal=%s key=%r error=%s", consumer.journal.name, lease.key, e)
    else:
        lease.release(delay=retry.delay_ms(failures, random.random()), failed=True)


def give_back(lease: Lease) -> None:
    """End a lease as if it had not been: the entry goes back to its place."""
    lease.release(process_date=lease.process_date)


def reason_of(error: BaseException, failures: int) -> str:
    """Why an entry is given up, for the operator; cut to the room that there is."""
    return _cut(f"failed {failures} times, at last with {type(error).__name__}: {error}")


def _cut(text: str) -> str:
    return text.encode(errors="backslashreplace")[:REASON_BYTES_MAX].decode(errors="ignore")
