"""
Show how many entries fall due in the coming time, and where far more than usual (!).

With --rate, also how many consumers it takes and when: N entries a second that one consumer finishes.
"""

from __future__ import annotations

import argparse
from typing import Any

from journal.cli.command import JOURNAL, Options
from journal.cli.common import date, journal_of, show
from journal.core.forecast.forecast import Forecast
from journal.core.forecast.scaling import Scaling
from journal.core.requests.read import ForecastRequest
from journal.errors import Invalid

_AHEAD = Options(
    ForecastRequest,
    step="how long a step is, e.g. 30s; default 1m",
    horizon="how far to look ahead; default 1h",
    since="look ahead from here: milliseconds or ISO 8601; default: now",
)


def arguments(sub: argparse.ArgumentParser) -> None:
    """Declare them."""
    JOURNAL(sub)
    _AHEAD(sub)
    sub.add_argument("--rate", type=float, metavar="N", help="entries a second that one consumer finishes")
    sub.add_argument("--consumers", type=int, metavar="M", help="consumers that there are now; default 1")
    sub.add_argument("--late", default="0ms", help="how long an entry may wait once it is due; default 0")
    sub.add_argument("--lead", default="0ms", help="how long a consumer takes to start; default 0")


def run(args: argparse.Namespace) -> int:
    """Show."""
    if args.consumers is not None and args.rate is None:
        raise Invalid("--consumers needs --rate: how many entries a second one of them finishes")
    with journal_of(args, readonly_too=True) as pages:
        ahead = pages.forecast(**_AHEAD.given(args))
    hints = None
    if args.rate is not None:
        consumers = 1 if args.consumers is None else args.consumers
        hints = ahead.scaling(args.rate, consumers, late=args.late, lead=args.lead)
    if args.json:
        show(_map(ahead, hints))
        return 0
    print(ahead)
    for spike in ahead.spikes():
        print(
            f"spike from {date(spike.start)} to {date(spike.end)}: {spike.total} entries, {spike.peak} in the highest step, "
            f"where {spike.usual:g} are usual"
        )
    if hints is not None:
        print(hints)
    return 0


def _map(ahead: Forecast, hints: Scaling | None) -> dict[str, Any]:
    """The forecast as JSON has it."""
    return ahead.to_dict() | {
        "scaling": None
        if hints is None
        else {
            "consumers": hints.consumers,
            "rate": hints.rate,
            "most": hints.most,
            "empty_at": hints.empty_at,
            "plan": [change._asdict() for change in hints.plan],
            "needs": [need._asdict() for need in hints.needs],
        },
    }
