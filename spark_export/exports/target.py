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
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit

from journal.errors import Busy
from spark_export.errors import TARGET_BUSY, TARGET_INVALID, invalid, problem, spark_at
from spark_export.exports.manifest import NAME

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class ExportTarget(ABC):
    """The directory of an export, under its three names: `path`, `fresh` (where Spark writes) and `replaced`."""

    def __init__(self, shown: str, path: Any, fresh: Any, replaced: Any, new: str) -> None:
        self.shown = shown
        self.new = new
        """The address where Spark writes."""
        self._path, self._fresh, self._replaced = path, fresh, replaced

    @abstractmethod
    def locked(self) -> contextlib.AbstractContextManager[None]:
        """For the time of the block no other export writes to it (G2)."""

    @abstractmethod
    def manifest(self, *, is_new: bool = False) -> str | None:
        """The text of the manifest; None: there is none."""

    @abstractmethod
    def files(self) -> dict[str, int]:
        """What Spark has written, by name, with sizes: all files but Spark's marks and checksums."""

    @abstractmethod
    def write_manifest(self, text: str) -> None:
        """Add the manifest to the new directory."""

    @abstractmethod
    def _exists(self, path: Any) -> bool: ...

    @abstractmethod
    def _delete(self, path: Any) -> None:
        """Remove a directory, if it is there."""

    @abstractmethod
    def _rename(self, path: Any, to: Any) -> None: ...

    def is_there(self) -> bool:
        """Whether something has the target's name."""
        return self._exists(self._path)

    def clean(self) -> None:
        """Remove what was written under the hidden name; bring back an old one that lost its place (G3)."""
        if self._exists(self._replaced):
            if self.is_there():
                self._delete(self._replaced)
            else:
                self._rename(self._replaced, self._path)
        self._delete(self._fresh)

    def finish(self) -> None:
        """Give the new directory its name, by one rename, or two when something is replaced; what had it goes (G4)."""
        if self.is_there():
            self._delete(self._replaced)
            self._rename(self._path, self._replaced)
        self._rename(self._fresh, self._path)
        self._delete(self._replaced)


def target_of(written: str | os.PathLike[str], spark: Callable[[], SparkSession]) -> ExportTarget:
    """The target that a path or an address means; only an address needs Spark."""
    text = os.fspath(written)
    scheme = urlsplit(text).scheme
    if scheme in ("", "file"):
        return LocalTarget(unquote(urlsplit(text).path) if scheme else text)
    with spark_at(text):
        return HadoopTarget(text, spark())


class LocalTarget(ExportTarget):
    """A directory of a file system of this machine."""

    def __init__(self, path: str) -> None:
        whole = Path(os.path.abspath(path))
        if not whole.name:
            raise invalid(TARGET_INVALID, f"{path!r} cannot be the directory of an export: give one that can be made")
        fresh, replaced = (whole.with_name(f".{whole.name}.{word}") for word in ("exporting", "replaced"))
        super().__init__(str(whole), whole, fresh, replaced, fresh.as_uri())

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
            return Path(self._fresh if is_new else self._path, NAME).read_text(encoding="utf-8")
        except (FileNotFoundError, NotADirectoryError):
            return None

    def files(self) -> dict[str, int]:
        """All files but Spark's marks and checksums."""
        found: dict[str, int] = {}
        for path in sorted(self._fresh.rglob("*")):
            if path.is_file() and not path.name.startswith((".", "_")):
                found[path.relative_to(self._fresh).as_posix()] = path.stat().st_size
        return found

    def write_manifest(self, text: str) -> None:
        """Everything is on disk before the manifest is."""
        for path in self._fresh.rglob("*"):
            _sync(path)
        with open(self._fresh / NAME, "x", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        _sync(self._fresh)

    def _exists(self, path: Path) -> bool:
        return os.path.lexists(path)

    def _delete(self, path: Path) -> None:
        if path.exists():
            shutil.rmtree(path)

    def _rename(self, path: Path, to: Path) -> None:
        path.rename(to)
        _sync(self._path.parent)


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


class HadoopTarget(ExportTarget):
    """A directory of a file system that Hadoop knows: hdfs://, s3a://, abfs://, …; its renames are as atomic as that system's."""

    def __init__(self, address: str, spark: SparkSession) -> None:
        from pyspark.sql.utils import is_remote

        if is_remote():
            raise invalid(
                TARGET_INVALID,
                f"{address!r} needs Hadoop's file systems, which Spark Connect does not hand out: give a path, or use a classic session",
            )
        jvm: Any = spark.sparkContext._jvm
        self._jvm, path = jvm, jvm.org.apache.hadoop.fs.Path
        whole = path(address)
        if whole.getParent() is None:
            raise invalid(TARGET_INVALID, f"{address!r} cannot be the directory of an export: name one below it")
        fresh, replaced = (path(whole.getParent(), f".{whole.getName()}.{word}") for word in ("exporting", "replaced"))
        super().__init__(address, whole, fresh, replaced, str(fresh.toString()))
        self._fs: Any = whole.getFileSystem(spark.sparkContext._jsc.hadoopConfiguration())

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        """These file systems have no locks: of two exports at a time to one target, one is lost."""
        yield

    def manifest(self, *, is_new: bool = False) -> str | None:
        """The text of the manifest."""
        path = self._jvm.org.apache.hadoop.fs.Path(self._fresh if is_new else self._path, NAME)
        if not self._fs.exists(path):
            return None
        stream = self._fs.open(path)
        try:
            return bytes(self._jvm.org.apache.commons.io.IOUtils.toByteArray(stream)).decode()
        finally:
            stream.close()

    def files(self) -> dict[str, int]:
        """All files but Spark's marks."""
        found: dict[str, int] = {}
        top = self._fs.makeQualified(self._fresh).toString().rstrip("/") + "/"
        each = self._fs.listFiles(self._fresh, True)
        while each.hasNext():
            status = each.next()
            if not status.getPath().getName().startswith((".", "_")):
                found[status.getPath().toString().removeprefix(top)] = int(status.getLen())
        return dict(sorted(found.items()))

    def write_manifest(self, text: str) -> None:
        """The manifest."""
        stream = self._fs.create(self._jvm.org.apache.hadoop.fs.Path(self._fresh, NAME), False)
        try:
            stream.write(bytearray(text.encode()))
        finally:
            stream.close()

    def _exists(self, path: Any) -> bool:
        return bool(self._fs.exists(path))

    def _delete(self, path: Any) -> None:
        self._fs.delete(path, True)

    def _rename(self, path: Any, to: Any) -> None:
        if not self._fs.rename(path, to):
            raise invalid(TARGET_INVALID, f"{path.toString()} could not be renamed to {to.toString()}")
