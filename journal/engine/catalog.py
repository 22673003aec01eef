"""
The catalog: the record of a store's journals, and of how often it was opened.

    catalog/catalog.mdb   "journals": name -> crc u32, msgpack {settings, generations, digests}
                          "meta":     "opening", "format" -> crc u32, msgpack int; "dropping" -> crc u32, msgpack [name, …];
                                      "identity" -> crc u32, msgpack text: of this store and no other
                                      "dropped:<name>", "forgotten": former lives (journal.engine.former_names)

A1  The opening number is synced before anything else happens in an opening: no token comes twice.
A2  A journal is named here only after all its files are durable, and its digest is taken back before they change.
A3  The generation numbers that a dropped journal used (former_names) are written in the commit that drops it.
A4  After a write that failed in its sync the disk may have either state. All journals of the store rest on it: nothing is
    written here any more, and nothing that one of the two names is removed, until a reopen finds out which it is.
A5  A store of another format is refused before anything of it is changed.
"""

from __future__ import annotations

import secrets
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple
from zlib import crc32

import msgpack

from journal.core.settings import MERGED, Settings, from_map, to_map
from journal.engine import former_names
from journal.engine.files.lmdb import LmdbError, LmdbFile, check_before_open, create, translate
from journal.engine.files.posix import make_directory
from journal.engine.former_names import Life
from journal.engine.log.generation_record import GenerationRecord
from journal.errors import NotFound, StorageError, StoreDamaged, StoreFailed

FORMAT = 2
"""Of everything in a store. 1: stores without a number, whose entries had no order within a millisecond."""
_NAMES = (b"journals", b"meta")
_CRC = struct.Struct(">I")
MAP_BYTES = 1 << 28
LONG = 64
SLACK_BYTES = 128 << 10
"""Free pages from the start, so that a store can be opened and closed on a disk that is full."""


class Listed(NamedTuple):
    """What the catalog says of a journal."""

    settings: Settings
    generations: list[GenerationRecord]
    """Oldest first; the last one is active."""
    digests: dict[int, int | None]
    """Of the rows after a clean close, by order; none while they are open."""


class Catalog:
    """Used on the keeper's thread only."""

    def __init__(self, store: Path, *, readonly: bool = False) -> None:
        path = store / "catalog" / "catalog.mdb"
        if not readonly:
            make_directory(path.parent)
            if not path.exists():
                create(path, _NAMES, slack_bytes=SLACK_BYTES)
        elif not path.exists():
            raise NotFound(f"{store} is not a store: there is no {path}")
        check_before_open(path, None, is_deep=True, is_live=readonly)
        self.file = self._file = LmdbFile(path, _NAMES, map_bytes=MAP_BYTES, readonly=readonly)
        self._known: dict[str, Listed] = {}
        """What was written last, when the list of generations is LONG: it takes longer to read than to write."""
        self.failed: StoreFailed | None = None
        """Why the whole store does nothing more until a reopen (A4)."""
        self.on_failure: Callable[[StoreFailed], None] = lambda error: None
        """Set by the store: passes the failure to all journals."""
        self.opening = self._read(b"meta", b"opening", 0)
        found = self._read(b"meta", b"format", 1 if self.opening else FORMAT)
        if found != FORMAT:
            self._file.abandon()
            raise StorageError(_other_format(store, found))  # A5
        self.identity: str = self._read(b"meta", b"identity", "")
        if not readonly:
            if not self.identity:
                self.identity = secrets.token_hex(16)
                self._put(b"meta", b"identity", self.identity)
            self.opening += 1
            self._put(b"meta", b"format", FORMAT)
            self._write(b"meta", b"opening", self.opening)  # A1

    def journals(self) -> list[str]:
        """The names of all journals."""
        names = []
        dropping = self.dropping()
        for name, value in self._file.txn.cursor(db=self._file.databases[b"journals"]):
            self._decode(name, value)  # damage is reported as such, and not as a journal with a strange name
            if name != MERGED.encode() and name.decode() not in dropping:
                names.append(name.decode())
        return names

    def has(self, name: bytes) -> bool:
        """Whether something is listed under a name, also a journal that is being dropped."""
        return self._file.txn.get(name, db=self._file.databases[b"journals"]) is not None

    def names(self) -> set[bytes]:
        """All that is listed."""
        return {
            bytes(name) for name in self._file.txn.cursor(db=self._file.databases[b"journals"]).iternext(values=False)
        }

    def dropping(self) -> list[str]:
        """The merged journals that are being dropped."""
        names: list[str] = self._read(b"meta", b"dropping", [])
        return names

    def set_dropping(self, name: str, *, is_dropping: bool) -> None:
        """List a merged journal as one that is being dropped, or not any more; durable on return."""
        names = [each for each in self.dropping() if each != name]
        self._write(b"meta", b"dropping", [*names, name] if is_dropping else names)

    def remove(self, name: str) -> None:
        """A journal is no more; durable on return."""
        self._remember_life(name)  # A3
        self._known.pop(name, None)
        self._file.txn.delete(name.encode(), db=self._file.databases[b"journals"])
        self.set_dropping(name, is_dropping=False)

    def former(self, name: str) -> Life:
        """Up to where the names of generations are used up, for a journal that is declared under this name."""
        kept = self._read(b"meta", former_names.row_of(name), None)
        return self._forgotten() if kept is None else Life(*kept)

    def _forgotten(self) -> Life:
        """The bounds of a name that is not remembered (former_names N3)."""
        return Life(*self._read(b"meta", former_names.FORGOTTEN, Life()))

    def _lives(self) -> dict[str, Life]:
        cursor = self._file.txn.cursor(db=self._file.databases[b"meta"])
        found: dict[str, Life] = {}
        if cursor.set_range(former_names.PREFIX):
            for key, value in cursor.iternext():
                if not key.startswith(former_names.PREFIX):
                    break
                found[key[len(former_names.PREFIX) :].decode()] = Life(*self._decode(bytes(key), value))
        return found

    def _remember_life(self, name: str) -> None:
        """Not committed."""
        listed = self.get(name)
        assert listed is not None
        shared = self.get(MERGED) if listed.settings.merged else listed
        assert shared is not None
        ended = former_names.ended(self.former(name), shared.generations[-1].order, is_merged=listed.settings.merged)
        known = self._lives()
        kept, forgotten = former_names.remembered(known, name, ended, self._forgotten())
        for gone in known.keys() - kept.keys():
            self._file.txn.delete(former_names.row_of(gone), db=self._file.databases[b"meta"])
        self._put(b"meta", former_names.row_of(name), kept[name])
        self._put(b"meta", former_names.FORGOTTEN, forgotten)

    def check(self) -> list[str]:
        """What is wrong with former lives: their cursors must not be valid for the journal that has the name now."""
        found = []
        for name, life in self._lives().items():
            listed = self.get(name)
            if listed is not None and listed.generations[0].order <= former_names.bound(
                life, is_merged=listed.settings.merged
            ):
                found.append(
                    f"{name}: its first generation is {listed.generations[0].order}, but a journal that was dropped had {life}"
                )
        return found

    def get(self, name: str) -> Listed | None:
        """What is listed under a name."""
        if name in self._known:
            return self._known[name]
        kept = self._read(b"journals", name.encode(), None)
        if kept is None:
            return None
        return Listed(
            from_map(kept["settings"]), [GenerationRecord(*each) for each in kept["generations"]], dict(kept["digests"])
        )

    def set(self, name: str, listed: Listed) -> None:
        """List a journal; durable on return."""
        self._known.pop(name, None)  # after an error it is not known what is listed
        content = {"settings": to_map(listed.settings), "generations": listed.generations, "digests": listed.digests}
        self._write(b"journals", name.encode(), content)
        if len(listed.generations) >= LONG:
            self._known[name] = listed

    def restored(self, jump: int, digests: dict[str, dict[int, int | None]]) -> None:
        """The store was made of a backup: it is another one, whose openings begin further on, and its rows are as these digests say."""
        self.opening, self.identity = self.opening + jump, secrets.token_hex(16)
        self._put(b"meta", b"opening", self.opening)
        self._put(b"meta", b"identity", self.identity)
        for name, each in digests.items():
            listed = self.get(name)
            assert listed is not None
            self.set(name, listed._replace(digests=each))
        self._file.commit()
        self._file.sync()

    def fail(self, error: StoreFailed) -> None:
        """Something that all journals rest on could not be made durable (A4)."""
        if self.failed is None:
            self.failed = error
            self.on_failure(error)

    def renew(self) -> None:
        """For a reader: look at what is committed now."""
        self._file.renew()

    def close(self) -> None:
        """Close the file."""
        self._file.abandon()

    def _read(self, database: bytes, name: bytes, default: Any) -> Any:
        value = self._file.txn.get(name, db=self._file.databases[database])
        return default if value is None else self._decode(name, value)

    def _decode(self, name: bytes, value: bytes) -> Any:
        if len(value) < 4 or _CRC.unpack_from(value)[0] != crc32(value[4:], crc32(name)):
            raise StoreDamaged(f"{self._file.path}: the row {name!r} does not match its checksum")
        return msgpack.unpackb(value[4:], strict_map_key=False)

    def _put(self, database: bytes, name: bytes, content: Any) -> None:
        """Not committed."""
        body = msgpack.packb(content)
        value = _CRC.pack(crc32(body, crc32(name))) + body
        self._file.txn.put(name, value, db=self._file.databases[database])

    def _write(self, database: bytes, name: bytes, content: Any) -> None:
        if self.failed is not None:
            raise self.failed
        try:
            try:
                self._put(database, name, content)
            except LmdbError as e:
                self._file.restart()
                raise translate(e, self._file.path, "cannot write to") from e
            self._file.commit()
            self._file.sync()
        except StoreFailed as e:
            self.fail(e)
            raise


def _other_format(store: Path, found: Any) -> str:
    """Why a store cannot be opened, and what to do."""
    if type(found) is int and found < FORMAT:
        return (
            f"{store} was written by an earlier version of journal, in format {found}, and this one reads and writes format "
            f"{FORMAT}: nothing was changed. Open it with the version that wrote it, and let its entries be finished there; or "
            "read them there (`journal ls --json`, `pages.scan()`, an export) and put or load them into a new store"
        )
    return (
        f"{store} was written by a newer version of journal, in format {found!r:.20}, and this one reads and writes format "
        f"{FORMAT}: nothing was changed. Update journal"
    )
