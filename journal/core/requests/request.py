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
    and a client that sends what it likes are refused alike. It does not change.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import MISSING, dataclass
from enum import StrEnum
from typing import Any, ClassVar, Generic, NoReturn, Self, TypeVar, dataclass_transform

from journal.core.quoting import shown
from journal.core.requests.parameters import Parameter, Parameters, check_parameters, read_parameters
from journal.core.requests.types import BYTES, COUNT, FieldType
from journal.errors import Invalid

R_co = TypeVar("R_co", covariant=True)
C = TypeVar("C")


class Role(StrEnum):
    """What an identity is allowed."""

    PRODUCE = "produce"
    CONSUME = "consume"
    ADMIN = "admin"


ANY_CONNECTION: frozenset[Role] = frozenset()
"""Every connection, also before its identity is known."""
KNOWN: frozenset[Role] = frozenset(Role)
"""Every identity."""
PRODUCE = frozenset({Role.PRODUCE})
CONSUME = frozenset({Role.CONSUME})
PRODUCE_OR_CONSUME = PRODUCE | CONSUME
ADMIN = frozenset({Role.ADMIN})


class RetryRule(StrEnum):
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
    retry: RetryRule
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
    is_of_holder: bool = False
    """Whether the holder of a lease, or of several, says with it that it is there: `token` or `tokens` are its leases."""
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
        fields = self.parameters.fields
        for name, value in given.items():
            if value is not None and name in fields:
                convert = fields[name].kind.from_wire
                values[name] = value if convert is None else convert(value)
        return self.request(**values)


@dataclass_transform(kw_only_default=True, frozen_default=True)
class Request(Generic[R_co]):
    """
    A verb with its arguments (T2); R is what it comes to.

    It behaves as a frozen dataclass with arguments by name. `dataclass` would compile methods for each of the 85 classes: 25 ms of an
    import that takes 150.
    """

    command: ClassVar[Command]

    def __init__(self, **given: Any) -> None:
        parameters = self.command.parameters
        if not parameters.fields.keys() >= given.keys():
            raise TypeError(f"{type(self).__name__} has no field {', '.join(given.keys() - parameters.fields.keys())}")
        for name in parameters.required:
            if name not in given:
                raise TypeError(f"{type(self).__name__} needs the field {name}")
        self.__dict__.update(given)  # what is left out has its default from the class
        self.__post_init__()

    def __post_init__(self) -> None:
        """Refuse what concerns several fields (T2)."""

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise AttributeError(f"a request does not change: {name} of {type(self).__name__}")

    def __delattr__(self, name: str) -> NoReturn:
        raise AttributeError(f"a request does not change: {name} of {type(self).__name__}")

    def _values(self) -> tuple[Any, ...]:
        return tuple(getattr(self, name) for name in self.command.parameters.fields)

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and self._values() == other._values()

    def __hash__(self) -> int:
        return hash((type(self), self._values()))

    def __repr__(self) -> str:
        fields = zip(self.command.parameters.fields, self._values(), strict=True)
        return f"{type(self).__name__}({', '.join(f'{name}={value!r}' for name, value in fields)})"

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

    def replaced(self, **given: Any) -> Self:
        """The same with other values of these fields."""
        return type(self)(**(self.__dict__ | given))

    def to_wire(self) -> dict[str, Any]:
        """Its parameters as they are sent; what has its default is left out."""
        given: dict[str, Any] = {}
        for name, parameter in self.command.parameters.fields.items():
            value = getattr(self, name)
            if value is parameter.default or (parameter.default is not MISSING and value == parameter.default):
                continue
            convert = parameter.kind.to_wire
            given[name] = value if convert is None else convert(value)
        return given


def request(
    name: str,
    roles: frozenset[Role],
    retry: RetryRule,
    reply: str,
    *,
    scope: Scope = Scope.JOURNAL,
    is_slow: bool = False,
    is_long: bool = False,
    is_of_log: bool = False,
    lends: bool = False,
    is_of_holder: bool = False,
    in_parts: bool = False,
    answers: tuple[str, ...] = (),
) -> Callable[[type[C]], type[C]]:
    """
    Declare a class of requests: its annotations are its fields, its docstring is the protocol's text.

    in_parts: the reply is a list that may be too long for a frame; `after` and `limit` ask for its parts, on the wire alone.
    """

    def declare(cls: type[C]) -> type[C]:
        made: Any = cls
        own = {
            field: Parameter(field, kind_of(annotation), (default := getattr(cls, field, MISSING)) is MISSING, default)
            for part in reversed(cls.__mro__)
            if part is not Request and issubclass(part, Request)
            for field, annotation in part.__annotations__.items()
        }
        parameters = [*own.values()]
        if in_parts:
            parameters += [Parameter("after", BYTES), Parameter("limit", COUNT)]
        made.command = Command(
            name, scope, roles, retry, Parameters(parameters, own), reply, " ".join((cls.__doc__ or "").split()),
            is_slow, is_long, is_of_log, lends, is_of_holder, answers, made,
        )  # fmt: skip
        return cls

    return declare


def kind_of(annotation: Any) -> FieldType:
    """The type of a field: what its annotation carries."""
    for part in (annotation, *getattr(annotation, "__args__", ())):
        for carried in getattr(part, "__metadata__", ()):
            if isinstance(carried, FieldType):
                return carried
    raise TypeError(f"{annotation} carries no type of the protocol")
