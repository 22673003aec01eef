"""
Look at the log: the changes of a journal, or of a directory of segment files of any program. Changes nothing.

Works beside the process that owns the store, and shows what the operating system has: the newest changes may not be
durable yet. A bare directory holds segments named <first offset, 20 digits>.log, with or without checksums; other files
in it are left alone. Damage is reported with its file and byte, after all changes before it, and the exit code is 1.
All verbs take --json: one object a line, with everything that the log has of a change.
"""

from __future__ import annotations

import argparse
import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import journal
from journal.cli.command import argument, command
from journal.cli.common import date, report
from journal.core.entry.effects import SKIP, Skip
from journal.core.log.cursor import Cursor
from journal.core.log.events import MODES, OPS, Event, events_of
from journal.core.log.record import Record
from journal.core.settings import MERGED
from journal.engine.log.external import FoundRecord, LogFiles
from journal.errors import CursorUnavailable, Invalid, LogDamaged, NotFound, StorageError

_GENERATION = re.compile(r"[0-9]{6,}")
_CUT = 100
_SKIP = OPS[SKIP]
_SECONDS_MAX = 10**11
"""Some programs stamp in seconds. As seconds this is the year 5138, as milliseconds 1973: before any such log."""


class ShownChange(NamedTuple):
    """One change, as it is shown."""

    cursor: Cursor
    fields: dict[str, Any]
    """Everything, for JSON."""
    line: str
    """For people, without the cursor."""


class LogSource(NamedTuple):
    """The logs of the generations, in order. A bare directory is one log, and its generation is not known."""

    path: Path
    logs: list[tuple[int, LogFiles]]
    namespace: bytes | None
    """Only records of this one."""
    is_bare: bool


def place(word: str) -> Cursor:
    """A place in the log."""
    try:
        return Cursor.parse(word)
    except Invalid as e:
        raise argparse.ArgumentTypeError(str(e)) from e


_SOURCE = (
    argument("store", metavar="STORE|DIR", help="a store's directory, or a bare directory of segment files"),
    argument(
        "journal", metavar="JOURNAL", nargs="?",
        help="the journal's name; may be left out if the store has one only. Of a bare directory: only this namespace",
    ),
)  # fmt: skip


@command(
    "show", *_SOURCE,
    argument(
        "--from", dest="start", metavar="N|CURSOR", type=place,
        help="from this change on: an offset of the first generation, or a cursor. Default: the oldest there is",
    ),
    argument("--to", dest="end", metavar="M|CURSOR", type=place, help="up to this change, it included. Default: all"),
)  # fmt: skip
def run_show(args: argparse.Namespace) -> int:
    """Show the changes, one a line: cursor, timestamp, date, mode, op, namespace, what was done to which key."""
    source = _source(args.store, args.journal)
    try:
        for change in _changes(source, args.start, args.end):
            _print(change, args, source)
    finally:
        for _, log in source.logs:
            for first, last in log.let_go:
                print(f"journal: the owner let offsets {first} to {last} go while they were read", file=sys.stderr)
    return 0


@command("oldest", *_SOURCE)
def run_oldest(args: argparse.Namespace) -> int:
    """Show the oldest change that the log still has. Exits with 1 when it has none."""
    source = _source(args.store, args.journal)
    changes = (change for change in _changes(source, None, None) if change.fields["op"] != _SKIP)
    return _one(next(changes, None), args, source)


@command("newest", *_SOURCE)
def run_newest(args: argparse.Namespace) -> int:
    """Show the newest change. Exits with 1 when there is none."""
    source = _source(args.store, args.journal)
    for order, log in reversed(source.logs):
        found = log.newest(source.namespace)
        if found is not None:
            return _one(_shown(found, order)[-1], args, source)
    return _one(None, args, source)


VERBS = (run_show, run_oldest, run_newest)


# --- where the logs are -----------------------------------------------------------------------------------------------


def _source(word: str, name: str | None) -> LogSource:
    """The logs that were meant. Found by the directories alone: a damaged catalog must not hide the log."""
    path = Path(word)
    try:
        if not path.is_dir():
            raise NotFound(f"{word} is not a directory: give a store, or a directory of segment files")
        if not (path / "catalog").is_dir():
            return _bare(path, name)
        names = sorted(child.name for child in path.iterdir() if child.name != "catalog" and _generations(child))
        if name is None and len(names) == 1:
            name = names[0]
        if name in names:
            return LogSource(path, _logs(path / name), None, is_bare=False)
        members = _members(path) if MERGED in names else []
        if name is not None and MERGED in names:
            source = LogSource(path, _logs(path / MERGED), os.fsencode(name), is_bare=False)
            if name in members or _has_changes(
                source
            ):  # the latter of one that was dropped, or if the catalog is damaged
                return source
    except OSError as e:
        raise StorageError(f"cannot read {word}: {e.strerror}") from e
    found = "say which journal" if name is None else f"there is no journal {name!r}"
    raise NotFound(f"{found}: {word} has {', '.join(sorted({*names, *members})) or 'none'}")


def _members(path: Path) -> list[str]:
    """The journals that the catalog names; none when it cannot be read."""
    try:
        with journal.open(path, readonly=True) as store:
            return store.journals()
    except journal.JournalError:
        return []


def _logs(top: Path) -> list[tuple[int, LogFiles]]:
    """The logs in a journal's directory."""
    return [
        (order, LogFiles(directory / "log", namespace=os.fsencode(top.name)))
        for order, directory in _generations(top)
        if (directory / "log").is_dir()
    ]


def _has_changes(source: LogSource) -> bool:
    """Whether the log has a change of the namespace; True if it is damaged before one: the reader reports the damage."""
    try:
        return next(_changes(source, None, None), None) is not None
    except LogDamaged:
        return True


def _bare(path: Path, name: str | None) -> LogSource:
    log = LogFiles(path)
    if not log.segments():
        raise NotFound(f"{path} is neither a store nor a directory of segment files (<first offset, 20 digits>.log)")
    return LogSource(path, [(1, log)], None if name is None else os.fsencode(name), is_bare=True)


def _generations(directory: Path) -> list[tuple[int, Path]]:
    """The generations of a journal's directory, in order."""
    if not directory.is_dir():
        return []
    return sorted((int(c.name), c) for c in directory.iterdir() if _GENERATION.fullmatch(c.name) and c.is_dir())


# --- what is in them --------------------------------------------------------------------------------------------------


def _changes(source: LogSource, start: Cursor | None, end: Cursor | None) -> Iterator[ShownChange]:
    """The changes from one place to another, both included."""
    if source.is_bare:
        start, end = (cursor and cursor._replace(order=1) for cursor in (start, end))
    if start and end and start > end:
        raise Invalid(f"--from {start} is after --to {end}: nothing is between them")
    _check_available(source, start)
    for order, log in source.logs:
        if (start and order < start.order) or (end and order > end.order):
            continue
        first = start.offset if start and order == start.order else 0
        stop = end.offset + 1 if end and order == end.order else None
        for found in log.read(first, stop):
            if source.namespace is not None and found.record.namespace != source.namespace:
                continue
            for change in _shown(found, order):
                offset = change.cursor.offset
                if offset >= first and (stop is None or offset < stop):
                    yield change


def _check_available(source: LogSource, start: Cursor | None) -> None:
    """Refuse to begin where the log does not begin any more; BEGIN is wherever it begins."""
    if start is None or start == (1, -1):
        return
    begins = {order: segments[0] for order, log in source.logs if (segments := log.segments())}
    if not begins or max(start.offset, 0) >= begins.get(start.order, 1 << 64):
        return
    if source.is_bare:
        raise CursorUnavailable(f"offset {start.offset} is not in {source.path}: its log begins with {begins[1]}")
    oldest = Cursor(*min(begins.items()))
    where = f"begins with offset {begins[start.order]}" if start.order in begins else "has no log"
    raise CursorUnavailable(
        f"{start} is not in the log: generation {start.order} {where}. The oldest change that is available is {oldest}"
    )


def _shown(found: FoundRecord, order: int) -> list[ShownChange]:
    """The changes of a record."""
    if found.payload is None:
        return [_raw(found.record, order)]
    if type(found.payload.effect) is Skip:
        return [_skipped(found.record, found.payload.effect, order)]
    try:
        return [_change(event, found.record) for event in events_of(found.record, found.payload, order)]
    except StorageError as e:
        raise LogDamaged(f"{found.path} holds at byte {found.position} what cannot be read: {e}") from e


def _change(event: Event, record: Record) -> ShownChange:
    """A change of ours."""
    fields = _common(record, event.timestamp, event.timestamp)
    fields |= {"mode": event.mode, "op": event.op, "namespace": event.namespace, "verb": event.verb, "key": event.key}
    rest = event._asdict()
    for name in ("priority", "process_date", "insertion_date", "expiration", "version", "timeouts", "owner", "consumer",
                 "deadline", "reason", "flag"):  # fmt: skip
        if rest[name] is not None:
            fields[name] = rest[name]
    if event.token is not None:
        fields["token"] = str(event.token)  # as text: some JSON readers cut large integers
    for name, has in (("data", event.has_data), ("old", event.has_old)):
        if has:
            fields[name] = rest[name]
    words = [event.verb] if event.key is None else [event.verb, repr(event.key)]
    words += [f"{name} {rest[name]!r}" for name in ("consumer", "flag", "reason") if rest[name]]
    if event.has_data:
        words.append(_cut(repr(event.data)))
    return ShownChange(event.cursor, fields, _line(fields, " ".join(words)))


def _skipped(record: Record, skip: Skip, order: int) -> ShownChange:
    """Changes that compaction took out, as one."""
    fields = _common(record, record.timestamp, record.timestamp)
    fields |= {"mode": MODES[record.attribute & 3], "op": _SKIP, "namespace": _text(record.namespace)}
    fields["changes"] = skip.changes
    return ShownChange(Cursor(order, record.offset), fields, _line(fields, f"{skip.changes} changes were taken out"))


def _raw(record: Record, order: int) -> ShownChange:
    """A change of another program: its data is any bytes."""
    seconds = record.timestamp < _SECONDS_MAX
    mode, op = record.attribute & 3, record.op
    fields = _common(record, record.timestamp, record.timestamp * (1000 if seconds else 1))
    fields |= {
        "mode": MODES[mode] if mode < len(MODES) else f"unknown {mode}",
        "op": OPS[op] if op < len(OPS) else f"unknown {op}",
        "namespace": _text(record.namespace),
        "data": _text(record.data),
    }
    data = fields["data"]
    words = repr(data) if isinstance(data, str) else data.hex()
    return ShownChange(Cursor(order, record.offset), fields, _line(fields, _cut(words)))


def _common(record: Record, timestamp: int, ms: int) -> dict[str, Any]:
    return {"timestamp": timestamp, "date": date(ms), "attribute": record.attribute}


def _text(data: bytes) -> str | bytes:
    """Text where it is text."""
    try:
        return data.decode()
    except UnicodeDecodeError:
        return data


# --- how they look ----------------------------------------------------------------------------------------------------


def _line(fields: dict[str, Any], what: str) -> str:
    namespace = fields["namespace"]
    name = namespace if isinstance(namespace, str) and namespace.isprintable() else repr(namespace)
    return f"{fields['timestamp']} {fields['date']}  {fields['mode']:8} {fields['op']:7}  {name}  {what}".rstrip()


def _cut(text: str) -> str:
    """As much as a line can take."""
    return text if len(text) <= _CUT else f"{text[:_CUT]}… ({len(text)} characters)"


def _print(change: ShownChange, args: argparse.Namespace, source: LogSource) -> None:
    order, offset = change.cursor
    where = {"offset": offset} if source.is_bare else {"cursor": str(change.cursor), "order": order, "offset": offset}
    report(args, where | change.fields, f"{offset if source.is_bare else change.cursor}  {change.line}")


def _one(change: ShownChange | None, args: argparse.Namespace, source: LogSource) -> int:
    if change is None:
        if not args.json:
            print("the log has no changes")
        return 1
    _print(change, args, source)
    return 0
