"""
Frames: what goes over a stream, as msgpack with a length in front.

    length u32 BE | msgpack [kind, …]

    0 hello     name "journal", lowest version, highest version, {options}     both sides, first
    1 prove     identity, proof                                              client: its identity
    2 welcome   identity, [roles], proof                                     daemon: the identity that it accepted
    3 request   id, command, journal ("" for the daemon), {parameters}         client
    4 reply     id, result                                                   daemon, in the order of the requests
    5 failure   id (0: the connection), code, message, {fields}              daemon, in place of a reply
    6 push      subscription, sequence, [items]                              daemon, as much as there is credit for
    7 credit    subscription, number                                         client
    8 bye       reason                                                       both sides, last
    9 alive     number in flight                                             daemon, while an answer takes long

F1  A length is checked as soon as its four bytes are there: nothing of a frame that is too long is waited for.
F2  Strict: exact types, no ext types, maps with text keys, a list no longer than LIST_MAX, nothing nested deeper than NESTING_MAX.
F3  Total: any bytes give frames or a FrameError, and nothing else. After the first error a decoder is dead.
F4  The data of entries travels packed, as bytes: its content is not looked at here, and costs nothing to pass on.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any, NamedTuple, NoReturn

import msgpack

from journal.core.limits import ID_MAX as ID_MAX
from journal.core.limits import LIST_MAX
from journal.core.quoting import shown
from journal.errors import FrameError, Invalid
from journal.net.wire.limits import NAME_MAX, NESTING_MAX
from journal.net.wire.line import COMMAND, PLACE

MAGIC = "journal"
VERSION = 1
"""Every language has integers up to here."""
LENGTH = struct.Struct(">I")
_COMPACT_BYTES = 1 << 16


class Hello(NamedTuple):
    """The first frame of each side: versions, and what the options say (journal.net.wire.auth)."""

    magic: str
    low: int
    high: int
    options: dict[str, Any]


class Prove(NamedTuple):
    """The identity of a client, with the proof that it has the secret of that identity."""

    identity: str
    proof: bytes


class Welcome(NamedTuple):
    """The handshake is over. The proof shows that the daemon has the secret too; empty when none was asked for."""

    identity: str
    roles: list[str]
    proof: bytes


class RequestFrame(NamedTuple):
    """A command for the daemon or for one of its journals."""

    id: int
    command: str
    journal: str
    parameters: dict[str, Any]


class Reply(NamedTuple):
    """What a request came to."""

    id: int
    result: Any


class Failure(NamedTuple):
    """The error that a request met; with id 0: the error that ends the connection."""

    id: int
    code: str
    message: str
    fields: dict[str, Any]


class Push(NamedTuple):
    """What a subscription delivers, numbered from 1."""

    subscription: int
    sequence: int
    items: list[Any]


class Credit(NamedTuple):
    """So many more items may be pushed."""

    subscription: int
    number: int


class Bye(NamedTuple):
    """Nothing more comes from this side."""

    reason: str


class Alive(NamedTuple):
    """The daemon works on so many requests: the one that takes long holds back the answer to a PING too."""

    in_flight: int


Frame = Hello | Prove | Welcome | RequestFrame | Reply | Failure | Push | Credit | Bye | Alive


def name_of(kind: type[Frame]) -> str:
    """What a frame is called in messages."""
    return kind.__name__.lower().removesuffix("frame")


KINDS: tuple[type[Frame], ...] = (Hello, Prove, Welcome, RequestFrame, Reply, Failure, Push, Credit, Bye, Alive)
"""The place of a kind is its number."""
_KIND_OF = {kind: number for number, kind in enumerate(KINDS)}
REPLY = KINDS.index(Reply)
REQUEST = KINDS.index(RequestFrame)
_TYPES: tuple[list[type], ...] = (
    [str, int, int, dict],
    [str, bytes],
    [str, list, bytes],
    [int, str, str, dict],
    [int, object],  # any value
    [int, str, str, dict],
    [int, int, list],
    [int, int],
    [str],
    [int],
)
_REQUEST_TYPES = [int, *_TYPES[REQUEST]]
_TEXTS = frozenset({str})
_COMMAND = COMMAND.fullmatch
_PLACE = PLACE.fullmatch
_SCALARS = frozenset({int, str, bytes, bool, float, type(None)})
_REPLY_HEAD = bytes((0x93, REPLY))
"""How the body of a reply begins: a list of three, and its kind."""
_length_at = LENGTH.unpack_from
_new = tuple.__new__  # a NamedTuple without the call of its __new__, a Python function


Pack = Callable[[Any], bytes]
LARGER = "send less at a time, put a reference to the data, or give both sides larger frames (frame_bytes_max)"


def packer() -> Pack:
    """What packs values; for one thread at a time. It has a buffer of 256 KiB, so all users on one thread share one."""
    pack: Pack = msgpack.Packer(use_bin_type=True).pack
    return pack


class TooLong(Invalid):
    """What is to be sent is more than a frame may have. Nothing was sent; in parts it may go."""


class Encoder:
    """Frames to bytes; one for each connection."""

    __slots__ = ("_pack", "bytes_max")

    def __init__(self, bytes_max: int, pack: Pack | None = None) -> None:
        self._pack = pack or packer()
        self.bytes_max = bytes_max

    def __call__(self, frame: Frame) -> bytes:
        """The bytes of a frame; refuses what could not be read at the other end."""
        try:
            last = frame[-1]
            if type(last) not in _SCALARS:
                check_plain(last, NESTING_MAX)
            body: bytes = self._pack((_KIND_OF[type(frame)], *frame))
        except (TypeError, ValueError, OverflowError, RecursionError, FrameError) as e:
            raise Invalid(f"a {name_of(type(frame))} cannot be sent: {shown(str(e))}") from e
        if len(body) > self.bytes_max:
            raise self._too_long(name_of(type(frame)), len(body))
        return LENGTH.pack(len(body)) + body

    def reply(self, number: int, result: Any) -> bytes:
        """The bytes of a reply whose result was made here, of plain values: it is not looked through once more."""
        return self._plain("reply", (REPLY, number, result))

    def request(self, number: int, command: str, journal: str, parameters: dict[str, Any]) -> bytes:
        """The bytes of a request whose parameters were formed here, of plain values."""
        return self._plain(command, (REQUEST, number, command, journal, parameters))

    def _plain(self, what: str, values: tuple[Any, ...]) -> bytes:
        try:
            body: bytes = self._pack(values)
        except (TypeError, ValueError, OverflowError, RecursionError) as e:
            raise Invalid(f"a {what} cannot be sent: {shown(str(e))}") from e
        if len(body) > self.bytes_max:
            raise self._too_long(what, len(body))
        return LENGTH.pack(len(body)) + body

    def _too_long(self, what: str, size: int) -> TooLong:
        return TooLong(f"{what} with {size} bytes is more than one frame may have ({self.bytes_max}): {LARGER}")


class Decoder:
    """Bytes to frames: `feed` what came, then take frames with `next` until there is none."""

    __slots__ = ("_at", "_buffer", "_error", "bytes_max")

    def __init__(self, bytes_max: int) -> None:
        self.bytes_max = bytes_max
        self._buffer = bytearray()
        self._at = 0
        self._error: FrameError | None = None

    def feed(self, data: bytes | bytearray | memoryview) -> None:
        """Take bytes; a length that is too long is met here (F1)."""
        if self._error is not None:
            raise self._error
        if self._at == len(self._buffer):
            self._buffer.clear()
            self._at = 0
        elif self._at > _COMPACT_BYTES:
            del self._buffer[: self._at]
            self._at = 0
        self._buffer += data
        if len(self._buffer) - self._at >= 4:
            self._length()

    def is_whole(self, data: bytes) -> bool:
        """Whether these bytes are one frame, and nothing came before: then the caller may `decode` it without feeding it."""
        return (
            self._at == len(self._buffer)
            and 4 < len(data) <= self.bytes_max + 4
            and LENGTH.unpack_from(data)[0] == len(data) - 4
            and self._error is None
        )

    def next(self) -> Frame | None:
        """The next frame that is whole, or None."""
        if self._error is not None:
            raise self._error
        start = self._at + 4
        if len(self._buffer) < start:
            return None
        end = start + self._length()
        if len(self._buffer) < end:
            return None
        body = self._buffer[start:end]
        self._at = end
        try:
            return decode(body)
        except FrameError as e:
            self._fail(e)

    def _length(self) -> int:
        length: int = LENGTH.unpack_from(self._buffer, self._at)[0]
        if not 0 < length <= self.bytes_max:
            self._fail(
                FrameError(
                    f"a frame says that it has {length} bytes, and 1 to {self.bytes_max} are allowed: send smaller "
                    "batches, or raise the limit on both sides"
                )
            )
        return length

    def _fail(self, error: FrameError) -> NoReturn:
        self._error = error
        self._buffer.clear()
        self._at = 0
        raise error

    @property
    def buffered(self) -> int:
        """Bytes that were fed and not taken as frames."""
        return len(self._buffer) - self._at

    @property
    def has_part(self) -> bool:
        """Whether a frame has begun and is not whole."""
        here = self.buffered
        return 0 < here < 4 or (here >= 4 and here < 4 + int(LENGTH.unpack_from(self._buffer, self._at)[0]))


def unpack(body: bytes | bytearray) -> Any:
    """The value of a body."""
    try:
        return msgpack.unpackb(body, ext_hook=_no_ext, max_ext_len=0, max_array_len=min(len(body), LIST_MAX))
    except (ValueError, TypeError, RecursionError, MemoryError, msgpack.UnpackException) as e:
        raise FrameError(f"a frame of {len(body)} bytes is not msgpack as it is used here: {shown(str(e))}") from e


def decode(body: bytes | bytearray) -> Frame:
    """The frame of a body (F2, F3)."""
    value = unpack(body)
    if type(value) is not list or not value:
        raise FrameError(f"a frame is a list that begins with its kind, not {shown(value)}")
    if value[0] == REQUEST and list(map(type, value)) == _REQUEST_TYPES:  # the usual case
        parameters = value[4]
        if not (_SCALARS.issuperset(map(type, parameters.values())) and _TEXTS.issuperset(map(type, parameters))):
            check_plain(parameters, NESTING_MAX)
        request: RequestFrame = _new(RequestFrame, value[1:])
        _check_request(request)
        return request
    kind = value.pop(0)
    if type(kind) is not int or not 0 <= kind < len(KINDS):
        raise FrameError(
            f"a frame of the unknown kind {shown(kind)}: those of version {VERSION} are 0 to {len(KINDS) - 1}"
        )
    if list(map(type, value)) != _TYPES[kind] and kind != REPLY:
        raise _mistyped(kind, value)
    if not _SCALARS.issuperset(map(type, value)):
        for field in value:
            if type(field) not in _SCALARS:
                check_plain(field, NESTING_MAX)
    frame: Frame = _new(KINDS[kind], value)
    check = _CHECKS[kind]
    if check is not None:
        check(frame)
    return frame


def _mistyped(kind: int, fields: list[Any]) -> FrameError:
    name, types = name_of(KINDS[kind]), _TYPES[kind]
    if len(fields) != len(types):
        return FrameError(f"a {name} frame has {len(types)} fields, not {len(fields)}")
    wrong, expected = next((f, t) for f, t in zip(fields, types, strict=True) if type(f) is not t)
    return FrameError(f"a {name} frame has {shown(wrong)} where {expected.__name__} is expected")


# Numbers in range, names that are names: no later code has to check them again.


def _check_request(frame: RequestFrame) -> None:
    number, command, journal, _ = frame
    if not 1 <= number <= ID_MAX:
        raise FrameError(f"a request has the id {shown(number)}: it must be from 1 to {ID_MAX}")
    if command not in _commands:
        if len(command) > NAME_MAX or _COMMAND(command) is None:
            raise FrameError(f"a request has the command {shown(command)}: upper-case letters, digits and _")
        _remember(_commands, command)
    if journal not in _places:
        if len(journal) > NAME_MAX or _PLACE(journal) is None:
            raise FrameError(f"a request is for the journal {shown(journal)}, which cannot be one")
        _remember(_places, journal)


# Names that were looked at before: a pattern takes longer than a look-up.
_commands: set[str] = set()
_places = {""}
_SEEN_MAX = 1024


def _remember(names: set[str], name: str) -> None:
    if len(names) < _SEEN_MAX:
        names.add(name)


def _check_answer(frame: Reply | Failure) -> None:
    if type(frame) is Reply and (tuple.__len__(frame) != 2 or type(frame[0]) is not int):
        raise _mistyped(REPLY, list(frame))
    if not 0 <= frame[0] <= ID_MAX:
        raise FrameError(f"an answer has the id {shown(frame[0])}: it must be from 0 to {ID_MAX}")


def _check_numbers(frame: Push | Credit) -> None:
    if not (1 <= frame[0] <= ID_MAX and 1 <= frame[1] <= ID_MAX):
        raise FrameError(f"a subscription's frame has {shown(frame[0])} and {shown(frame[1])}: from 1 to {ID_MAX}")


_CHECKS: tuple[Callable[[Any], None] | None, ...] = (
    None, None, None, _check_request, _check_answer, _check_answer, _check_numbers, _check_numbers, None, None,
)  # fmt: skip


def whole_replies(data: bytes, bytes_max: int) -> tuple[list[tuple[int, Any]], int]:
    """
    The replies, by number and result, that data begins with, as far as they are whole, and how many bytes they take. What else is there is
    for a Decoder to judge. They come to the same as from there, without an object and a call for each step.
    """
    found: list[tuple[int, Any]] = []
    at, size = 0, len(data)
    while data[at + 4 : at + 6] == _REPLY_HEAD:
        end = at + 4 + _length_at(data, at)[0]
        if not at + 4 < end <= min(size, at + 4 + bytes_max):
            break
        value = unpack(data[at + 4 : end])
        _, number, result = value
        if type(number) is not int or not 0 <= number <= ID_MAX:
            break
        if type(result) not in _SCALARS:
            check_plain(result, NESTING_MAX)
        found.append((number, result))
        at = end
    return found, at


def check_plain(value: Any, depth: int) -> None:
    """Refuse what is nested deeper than `depth` or is no plain value (F2)."""
    if type(value) is list:
        inner = value
    elif type(value) is dict:
        if not _TEXTS.issuperset(map(type, value)):
            raise FrameError("a map in a frame has a key that is no text")
        inner = list(value.values())
    else:
        raise FrameError(f"a frame holds {shown(value)}: plain values only")
    if depth < 1:
        raise FrameError(f"lists and maps in a frame are nested deeper than {NESTING_MAX}")
    if len(inner) > LIST_MAX:
        raise FrameError(f"a list in a frame has {len(inner)} items, and {LIST_MAX} are allowed: send less at a time")
    if not _SCALARS.issuperset(map(type, inner)):
        for item in inner:
            if type(item) not in _SCALARS:
                check_plain(item, depth - 1)


def _no_ext(code: int, data: bytes) -> NoReturn:
    raise ValueError(f"ext type {code}")
