"""
A handler and what becomes of its lease: it returns, and the work is done; it raises, and the work is tried again later.

J1  A handler that answers its lease itself has the last word.
J2  A handler that raises an Exception has failed: the entry waits as the retry policy says, or is buried with the reason.
    How often it failed is kept with the entry (`timeouts`), so all consumers count together, over restarts, and a lost lease counts.
J3  An interrupt (KeyboardInterrupt, SystemExit) is no failure of the work: the entry goes back to its place, and the interrupt on its way.
J4  A handler that returns a journal.Put has it put with the `done`, as one change; one that is refused is a failure of the handler.
"""

from __future__ import annotations

import logging
import random
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from journal.core.limits import REASON_BYTES_MAX
from journal.core.retry import Retry
from journal.core.views import Put
from journal.engine.lease import Lease
from journal.errors import Invalid, LeaseLost, Refused

if TYPE_CHECKING:
    from journal.roles.consumer import Consumer

log = logging.getLogger("journal.consumer")

LOG_EVERY_MS = 60_000

Handler = Callable[[Lease], object]


def handle(consumer: Consumer, lease: Lease, handler: Handler) -> None:
    """Let a handler work on a lease, and answer for it."""
    try:
        result = handler(lease)
    except Exception as e:  # noqa: BLE001 - whatever it is: the work has failed, not the consumer
        note_failure(consumer, lease, e)
        _answer(consumer, lease, partial(fail, lease, e, consumer.retry))
    except BaseException:
        _answer(consumer, lease, partial(give_back, lease))
        raise
    else:
        if consumer.auto_done:
            try:
                _answer(consumer, lease, finish(lease, result))
            except (Invalid, Refused) as e:
                note_failure(consumer, lease, e)
                _answer(consumer, lease, partial(fail, lease, e, consumer.retry))


def finish(lease: Lease, result: object) -> Callable[[], object]:
    """How a lease is done whose handler returned this (J4)."""
    return partial(lease.done, next=result) if isinstance(result, Put) else lease.done


def note_failure(consumer: Consumer, lease: Lease, error: Exception) -> None:
    """Count a failure; the first one, and then one now and again, is logged with its traceback (never a line per entry)."""
    consumer.failed += 1
    now = consumer.time.running()
    if now >= consumer.log_failures_at:
        consumer.log_failures_at = now + LOG_EVERY_MS
        log.warning(
            "handler_failed consumer=%s key=%r failed=%d", consumer.name, lease.key, consumer.failed, exc_info=error
        )


def _answer(consumer: Consumer, lease: Lease, answer: Callable[[], object]) -> None:
    """Answer a lease unless that is done (J1), or too late: then it was lost, which is told elsewhere."""
    if lease._is_ended or not consumer.holds(lease):
        return
    try:
        answer()
    except LeaseLost:
        return


def fail(lease: Lease, error: BaseException, retry: Retry | None) -> None:
    """End a lease whose work came to nothing (J2)."""
    failures = lease.timeouts + 1
    if retry is None:
        lease.release(failed=True)
    elif retry.is_over(failures):
        lease.bury(reason_of(error, failures))
    else:
        lease.release(delay=retry.delay_ms(failures, random.random()), failed=True)


def give_back(lease: Lease) -> None:
    """End a lease as if it had not been: the entry goes back to its place."""
    lease.release(process_date=lease.process_date)


def reason_of(error: BaseException, failures: int) -> str:
    """Why an entry is given up, for a person; as much of it as there is room for."""
    text = f"failed {failures} times, at last with {type(error).__name__}: {error}"
    return text.encode(errors="backslashreplace")[:REASON_BYTES_MAX].decode(errors="ignore")
