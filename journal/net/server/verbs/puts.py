"""PUT. The other commands of producers need nothing but their request (handlers H1)."""

from __future__ import annotations

from typing import Any

from journal.core.entry import priority as priorities
from journal.core.requests.produce import PutRequest
from journal.net.server.verbs.served_journal import Served
from journal.net.wire.auth import Grant
from journal.net.wire.values import result_to

_DEFAULT = priorities.DEFAULT


def put(served: Served, given: dict[str, Any], grant: Grant) -> Any:
    """PUT; the usual one makes no request object."""
    puts, data = served.journal.puts, given["data"]
    if (
        len(given) == 2
        and len(data) <= served.data_max
        and type(key := given.get("key")) is str
        and key.isascii()
    ):  # fmt: skip
        outcome, cursor, *rest = puts.usual(key, data, _DEFAULT, None, served.sized)
        return [outcome, [*cursor], *rest]
    asked: Any = PutRequest.command.from_wire(given)
    return result_to(puts.any(asked, served.everyone))
