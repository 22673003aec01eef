"""
A command: one row of the table of all commands (journal.net.wire.commands.registry).

    role    what the identity must have: any of them, or admin
    retry   whether a client may send it again when the answer was lost
              always      repeating it changes nothing
              key         it comes to the same entry: at least once
              token       it is for one lease, and a lease ends once
              request     only to the same daemon, which remembers what the request with this id came to
              connection  it lives and ends with its connection: opened anew, not repeated
              never

T1  Every command has one row. A row says all that a client and a daemon must agree on, but what the verb does: that is the library's.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from journal.errors import Invalid
from journal.net.wire.commands.types import Parameter, Parameters, check_parameters, read_parameters
from journal.net.wire.quoting import shown


class Role(StrEnum):
    """What an identity is allowed."""

    PRODUCE = "produce"
    CONSUME = "consume"
    ADMIN = "admin"


ANYBODY: frozenset[Role] = frozenset()
"""Every connection, also before its identity is known."""
KNOWN: frozenset[Role] = frozenset(Role)
"""Every identity."""
PRODUCE = frozenset({Role.PRODUCE})
CONSUME = frozenset({Role.CONSUME})
ADMIN = frozenset({Role.ADMIN})


class Retry(StrEnum):
    """Whether a command may be sent again when its answer was lost."""

    ALWAYS = "always"
    KEY = "key"
    TOKEN = "token"
    REQUEST = "request"
    CONNECTION = "connection"
    NEVER = "never"


class Scope(StrEnum):
    """What a command is for."""

    DAEMON = "daemon"
    JOURNAL = "journal"


@dataclass(frozen=True, slots=True)
class Command:
    """One row of the table (T1)."""

    name: str
    scope: Scope
    roles: frozenset[Role]
    retry: Retry
    parameters: Parameters
    reply: str
    summary: str
    answers: tuple[str, ...] = ()
    """The messages that answer it in a line; empty: it cannot be sent as a line."""

    def check(self, journal: str, parameters: Mapping[str, Any]) -> None:
        """Refuse a request that is not well-formed."""
        if (self.scope is Scope.JOURNAL) is not bool(journal):
            self._check_journal(journal)
        check_parameters(self.name, self.parameters, parameters)

    def read(self, journal: str, written: Mapping[str, str]) -> dict[str, Any]:
        """The parameters of a line, checked."""
        if not self.answers:
            raise Invalid(f"{self.name} cannot be sent as a line: use frames")
        self._check_journal(journal)
        return read_parameters(self.name, self.parameters, written)

    def _check_journal(self, journal: str) -> None:
        if self.scope is Scope.JOURNAL and not journal:
            raise Invalid(f"{self.name} is for a journal: name it")
        if self.scope is Scope.DAEMON and journal:
            raise Invalid(f"{self.name} is for the daemon, not for the journal {shown(journal)}")


def command(
    name: str,
    scope: Scope,
    roles: frozenset[Role],
    retry: Retry,
    parameters: tuple[Parameter, ...],
    reply: str,
    summary: str,
    answers: tuple[str, ...] = (),
) -> Command:
    """A row, with its parameters by name."""
    return Command(name, scope, roles, retry, Parameters(parameters), reply, summary, answers)
