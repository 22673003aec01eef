"""
Where an export goes: a directory that appears whole, or not at all.

Spark writes into a hidden directory beside the target (`.NAME.exporting`), the manifest is added to it, and then it gets its name. On
file systems of this machine that is one rename; elsewhere (hdfs://, s3a://, …) Hadoop's file system does it, as atomically as it renames.

G1  What has the target's name is whole: it has a manifest, written before the name.
G2  One export at a time for a target (on this machine's file systems: a lock beside it, `.NAME.lock`).
G3  What an interrupted export left is found under the hidden names by the next one: a whole one is given its name, an unfinished one is
    removed, and an old one that was being replaced comes back.
G4  A target that is there is not touched unless it is to be replaced; then the old one goes when the new one has its name.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol
from urllib.parse import unquote, urlsplit

from journal.errors import Busy
from spark_export.errors import TARGET_BUSY, TARGET_INVALID, invalid, problem, spark_at
from spark_export.exports.manifest import NAME

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class ExportTarget(Protocol):
    """The directory of an export, under its three names."""

    shown: str
    new: str
    """Where Spark writes."""

    def locked(self) -> contextlib.AbstractContextManager[None]:
        """For the time of the block no other export writes to it (G2)."""

    def manifest(self, *, is_new: bool = False) -> str | None:
        """The text of the manifest; None: there is none."""

    def is_there(self) -> bool:
        """Whether something has the target's name."""

    def files(self) -> dict[str, int]:
        """What Spark has written, by name, with sizes."""

    def write_manifest(self, text: str) -> None:
        """Add the manifest to the new directory."""

    def clean(self) -> None:
        """Remove what was written under the hidden name; bring back an old one that lost its place (G3)."""

    def finish(self) -> None:
        """Give the new directory its name; what had it goes (G4)."""


def target_of(written: str | os.PathLike[str], spark: Callable[[], SparkSession]) -> ExportTarget:
    """The target that a path or an address means; only an address needs Spark."""
    text = os.fspath(written)
    scheme = urlsplit(text).scheme
    if scheme in ("", "file"):
        return LocalTarget(unquote(urlsplit(text).path) if scheme else text)
    with spark_at(text):
        return HadoopTarget(text, spark())


class LocalTarget:
    """A directory of a file system of this machine."""

    def __init__(self, path: str) -> None:
        self._path = Path(os.path.abspath(path))
        if not self._path.name:
            raise invalid(TARGET_INVALID, f"{path!r} cannot be the directory of an export: give one that can be made")
        self._new = self._path.with_name(f".{self._path.name}.exporting")
        self._old = self._path.with_name(f".{self._path.name}.replaced")
        self.shown = str(self._path)
        self.new = self._new.as_uri()

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        """G2, by a file lock that goes with the process."""
        place = self._path.with_name(f".{self._path.name}.lock")
        try:
            place.parent.mkdir(parents=True, exist_ok=True)
            fd = _flocked(place)
        except BlockingIOError as e:
            raise problem(
                Busy, TARGET_BUSY, f"another export to {self.shown} is under way: wait for it, or choose another target"
            ) from e
        except OSError as e:
            raise invalid(TARGET_INVALID, f"{place.parent} cannot be written to: {e.strerror}") from e
        try:
            yield
        finally:
            place.unlink(missing_ok=True)
            os.close(fd)

    def manifest(self, *, is_new: bool = False) -> str | None:
        """The text of the manifest."""
        try:
            return ((self._new if is_new else self._path) / NAME).read_text(encoding="utf-8")
        except (FileNotFoundError, NotADirectoryError):
            return None

    def is_there(self) -> bool:
        """Whether something has the target's name."""
        return os.path.lexists(self._path)

    def files(self) -> dict[str, int]:
        """All files but Spark's marks and checksums."""
        found: dict[str, int] = {}
        for path in sorted(self._new.rglob("*")):
            if path.is_file() and not path.name.startswith((".", "_")):
                found[path.relative_to(self._new).as_posix()] = path.stat().st_size
        return found

    def write_manifest(self, text: str) -> None:
        """Everything is on disk before the manifest is."""
        for path in self._new.rglob("*"):
            _sync(path)
        with open(self._new / NAME, "x", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        _sync(self._new)

    def clean(self) -> None:
        """G3."""
        if self._old.exists():
            if self.is_there():
                shutil.rmtree(self._old)
            else:
                self._old.rename(self._path)
        if self._new.exists():
            shutil.rmtree(self._new)

    def finish(self) -> None:
        """One rename; two when something is replaced."""
        if self.is_there():
            if self._old.exists():
                shutil.rmtree(self._old)
            self._path.rename(self._old)
        self._new.rename(self._path)
        _sync(self._path.parent)
        if self._old.exists():
            shutil.rmtree(self._old)


def _flocked(place: Path) -> int:
    """A descriptor that holds the lock on a file. The holder before removes the file at its end, so the name must still refer to it."""
    while True:
        fd = os.open(place, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if os.path.lexists(place) and os.path.samestat(os.fstat(fd), os.lstat(place)):
                return fd
        except BaseException:
            os.close(fd)
            raise
        os.close(fd)


def _sync(path: Path) -> None:
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


class HadoopTarget:
    """A directory of a file system that Hadoop knows: hdfs://, s3a://, abfs://, …"""

    def __init__(self, address: str, spark: SparkSession) -> None:
        jvm: Any = spark.sparkContext._jvm
        self._jvm = jvm
        whole = jvm.org.apache.hadoop.fs.Path(address)
        if whole.getParent() is None:
            raise invalid(TARGET_INVALID, f"{address!r} cannot be the directory of an export: name one below it")
        self._path = whole
        self._new = self._beside("exporting")
        self._old = self._beside("replaced")
        self._fs: Any = whole.getFileSystem(spark.sparkContext._jsc.hadoopConfiguration())
        self.shown = address
        self.new = str(self._new.toString())

    def _beside(self, word: str) -> Any:
        return self._jvm.org.apache.hadoop.fs.Path(self._path.getParent(), f".{self._path.getName()}.{word}")

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        """These file systems have no locks: of two exports at a time to one target, one is lost."""
        yield

    def manifest(self, *, is_new: bool = False) -> str | None:
        """The text of the manifest."""
        path = self._jvm.org.apache.hadoop.fs.Path(self._new if is_new else self._path, NAME)
        if not self._fs.exists(path):
            return None
        stream = self._fs.open(path)
        try:
            return bytes(self._jvm.org.apache.commons.io.IOUtils.toByteArray(stream)).decode()
        finally:
            stream.close()

    def is_there(self) -> bool:
        """Whether something has the target's name."""
        return bool(self._fs.exists(self._path))

    def files(self) -> dict[str, int]:
        """All files but Spark's marks."""
        found: dict[str, int] = {}
        top = self._fs.makeQualified(self._new).toString().rstrip("/") + "/"
        each = self._fs.listFiles(self._new, True)
        while each.hasNext():
            status = each.next()
            if not status.getPath().getName().startswith((".", "_")):
                found[status.getPath().toString().removeprefix(top)] = int(status.getLen())
        return dict(sorted(found.items()))

    def write_manifest(self, text: str) -> None:
        """The manifest."""
        stream = self._fs.create(self._jvm.org.apache.hadoop.fs.Path(self._new, NAME), False)
        try:
            stream.write(bytearray(text.encode()))
        finally:
            stream.close()

    def clean(self) -> None:
        """G3."""
        if self._fs.exists(self._old):
            if self.is_there():
                self._fs.delete(self._old, True)
            else:
                self._rename(self._old, self._path)
        self._fs.delete(self._new, True)

    def finish(self) -> None:
        """As atomically as the file system renames."""
        if self.is_there():
            self._fs.delete(self._old, True)
            self._rename(self._path, self._old)
        self._rename(self._new, self._path)
        self._fs.delete(self._old, True)

    def _rename(self, one: Any, other: Any) -> None:
        if not self._fs.rename(one, other):
            raise invalid(TARGET_INVALID, f"{one.toString()} could not be renamed to {other.toString()}")
