"""Every command of the protocol is done by something."""

from __future__ import annotations

from journal.core.requests.registry import COMMANDS
from journal.core.requests.request import Scope
from journal.net.server.verbs.handlers import HANDLERS, NAMED, SPECIAL, STORE

BY_CONNECTIONS = {
    *("REGISTER", "UNREGISTER", "COMMANDS", "PING", "ALIVE", "LISTEN", "UNLISTEN", "STATUS", "STOP"),
    *("SUBSCRIBE", "UNSUBSCRIBE", "FEED_OPEN", "FEED_NEXT", "FEED_ACK", "FEED_FAIL", "FEED_CLOSE"),
    *("SNAPSHOT_OPEN", "SNAPSHOT_SPLIT", "SNAPSHOT_READ", "SNAPSHOT_CLOSE", "BACKUP", "BACKUP_STATE"),
}
"""What belongs to a connection or to the daemon itself, and is done where these are."""


def test_every_command_is_handled() -> None:
    """Of each, one place does it; there is nothing else."""
    handled = [*HANDLERS, *NAMED, *STORE]
    assert {*handled} | BY_CONNECTIONS == COMMANDS.keys() and not {*handled} & BY_CONNECTIONS


def test_commands_are_handled_by_their_scope() -> None:
    """What is for the daemon gets the store, what is for a journal gets that."""
    assert all(COMMANDS[name].scope is Scope.JOURNAL for name in (*HANDLERS, *NAMED))
    assert all(COMMANDS[name].scope is Scope.DAEMON for name in STORE)


def test_what_is_special_is_among_the_handlers() -> None:
    """What is not comes to a request of the engine; what is for a name or the store is always slow: it may open journals."""
    assert all(HANDLERS[name] is handler for name, handler in SPECIAL.items())
    assert all(COMMANDS[name].is_slow for name in (*NAMED, *STORE))
