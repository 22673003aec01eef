"""Every command of the protocol is done by something."""

from __future__ import annotations

from journal.core.requests.registry import COMMANDS
from journal.core.requests.request import Scope
from journal.net.server.verbs.handlers import FAST, NAMED_SLOW, SLOW, STORE_FAST, STORE_SLOW

BY_CONNECTIONS = {
    *("REGISTER", "UNREGISTER", "COMMANDS", "PING", "ALIVE", "LISTEN", "UNLISTEN", "STATUS", "STOP"),
    *("SUBSCRIBE", "UNSUBSCRIBE", "FEED_OPEN", "FEED_NEXT", "FEED_ACK", "FEED_FAIL", "FEED_CLOSE"),
    *("SNAPSHOT_OPEN", "SNAPSHOT_SPLIT", "SNAPSHOT_READ", "SNAPSHOT_CLOSE", "BACKUP", "BACKUP_STATE"),
}
"""What belongs to a connection or to the daemon itself, and is done where these are."""


def test_every_command_is_handled() -> None:
    """Of each, one place does it; there is nothing else."""
    handled = [*FAST, *SLOW, *NAMED_SLOW, *STORE_FAST, *STORE_SLOW]
    assert {*handled} | BY_CONNECTIONS == COMMANDS.keys() and not {*handled} & BY_CONNECTIONS


def test_commands_are_handled_by_their_scope() -> None:
    """What is for the daemon gets the store, what is for a journal gets that."""
    assert all(COMMANDS[name].scope is Scope.JOURNAL for name in (*FAST, *SLOW, *NAMED_SLOW))
    assert all(COMMANDS[name].scope is Scope.DAEMON for name in (*STORE_FAST, *STORE_SLOW))


def test_what_takes_long_once_has_a_slow_form() -> None:
    """A claim by buckets makes their index when it is the first: these are the only ones in both tables."""
    assert FAST.keys() & SLOW.keys() == {"CLAIM", "CLAIM_MANY"}
