"""
A request: a verb of the library with its arguments, as a value. Each verb is declared once, as a class of this package; what the
protocol sends, what a daemon checks, its dispatch, the documentation of the protocol and the way a client sends it follow from that.

    role    what the identity must have: any of them, or admin
    retry   whether a client may send it again when the answer was lost
              always      repeating it changes nothing
              key         it comes to the same entry: at least once
              token       it is for one lease, and a lease ends once
              request     only to the same daemon, which remembers what the request with this id came to
              connection  it lives and ends with its connection: opened anew, not repeated
              never

T1  A class says all that a backend, a client and a daemon must agree on: fields with their types and defaults, role, retry, reply, how
    long it may take. What the verb does is said by its method of journal.api.
T2  A request is checked when it exists: its fields have the values of their types (`of`, `from_wire`), and what concerns several of
    them, or what an embedded caller may say and the verb refuses, is checked as it is made (`__post_init__`). So a program, a client
    and a client that sends what it likes are refused alike.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import MISSING, dataclass, fields
from enum import StrEnum
from inspect import cleandoc
from typing import Any, ClassVar, Generic, Self, TypeVar, dataclass_transform, get_args

from journal.core.quoting import shown
from journal.core.requests.parameters import Parameter, Parameters, check_parameters, read_parameters
from journal.core.requests.types import BYTES, COUNT, Kind
from journal.errors import Invalid

R_co = TypeVar("R_co", covariant=True)
C = TypeVar("C")


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
PRODUCE_OR_CONSUME = PRODUCE | CONSUME
ADMIN = frozenset({Role.ADMIN})


class Retry(StrEnum):
    """Whether a request may be sent again when its answer was lost."""

    ALWAYS = "always"
    KEY = "key"
    TOKEN = "token"
    REQUEST = "request"
    CONNECTION = "connection"
    NEVER = "never"


class Scope(StrEnum):
    """What a request is for."""

    DAEMON = "daemon"
    JOURNAL = "journal"


@dataclass(frozen=True, slots=True, eq=False)
class Command:
    """What a class of requests declares (T1)."""

    name: str
    scope: Scope
    roles: frozenset[Role]
    retry: Retry
    parameters: Parameters
    reply: str
    """Of what a reply consists; see journal.net.wire.values."""
    summary: str
    is_slow: bool = False
    """Whether it may read much or wait: a daemon makes it on a thread apart."""
    is_long: bool = False
    """Whether it may take as long as it takes: a client waits for it while the daemon is there."""
    is_of_log: bool = False
    """Whether all merged journals together can be asked, as they have one log."""
    lends: bool = False
    """Whether its reply is leases that were taken for it."""
    answers: tuple[str, ...] = ()
    """The messages that answer it in a line; empty: it cannot be sent as a line."""
    request: type[Request[Any]] | None = None

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

    def from_wire(self, given: Mapping[str, Any]) -> Request[Any]:
        """The request that was sent; its parameters are checked already. One that is null was left out."""
        assert self.request is not None
        values: dict[str, Any] = {}
        for name, value in given.items():
            if value is not None and name in self.request.__slots__:
                convert = self.parameters[name].kind.from_wire
                values[name] = value if convert is None else convert(value)
        return self.request(**values)


class Request(Generic[R_co]):
    """A verb with its arguments (T2); R is what it comes to."""

    __slots__: ClassVar[tuple[str, ...]] = ()
    command: ClassVar[Command]

    @classmethod
    def of(cls, **given: Any) -> Self:
        """The request of a caller's arguments, checked; None: left out."""
        parameters = cls.command.parameters
        for name, value in given.items():
            parameter = parameters[name]
            accept = parameter.kind.accept
            if accept is not None and (value is not None or parameter.default is not None):
                given[name] = accept(name, value)
        return cls(**given)

    def to_wire(self) -> dict[str, Any]:
        """Its parameters as they are sent; what has its default is left out."""
        given: dict[str, Any] = {}
        for name, parameter in self.command.parameters.fields:
            value = getattr(self, name)
            if value is parameter.default or (parameter.default is not MISSING and value == parameter.default):
                continue
            convert = parameter.kind.to_wire
            given[name] = value if convert is None else convert(value)
        return given


@dataclass_transform(kw_only_default=True, frozen_default=True)
def request(
    name: str,
    roles: frozenset[Role],
    retry: Retry,
    reply: str,
    *,
    scope: Scope = Scope.JOURNAL,
    is_slow: bool = False,
    is_long: bool = False,
    is_of_log: bool = False,
    lends: bool = False,
    in_parts: bool = False,
    answers: tuple[str, ...] = (),
) -> Callable[[type[C]], type[C]]:
    """
    Declare a class of requests: its annotations are its fields, its docstring is the protocol's text.

    in_parts: the reply is a list that may be too long for a frame; `after` and `limit` ask for its parts, on the wire alone.
    """

    def declare(cls: type[C]) -> type[C]:
        made: Any = dataclass(frozen=True, kw_only=True, slots=True)(cls)
        parameters = [
            Parameter(each.name, kind_of(made.__annotations__[each.name]), each.default is MISSING, each.default)
            for each in fields(made)
        ]
        own = tuple((each.name, each) for each in parameters)
        if in_parts:
            parameters += [Parameter("after", BYTES), Parameter("limit", COUNT)]
        made.command = Command(
            name, scope, roles, retry, Parameters(parameters, own), reply, " ".join(cleandoc(cls.__doc__ or "").split()),
            is_slow, is_long, is_of_log, lends, answers, made,
        )  # fmt: skip
        declared: type[C] = made
        return declared

    return declare


def kind_of(annotation: Any) -> Kind:
    """The type of a field: what its annotation carries."""
    for part in (annotation, *get_args(annotation)):
        for carried in getattr(part, "__metadata__", ()):
            if isinstance(carried, Kind):
                return carried
    raise TypeError(f"{annotation} carries no type of the protocol")
