"""
What a source and a sink are: two small contracts. Third parties implement them and are found by entry point.

Entry points: `journal.sources` and `journal.sinks`, named by the `type` of a declaration; each is a class that is called with the keywords
of its table in the declaration (those that all share are taken out before: namespace, mode, functions, name, on_error).

A source's promises:
C1  `copy` gives every row of a namespace at one moment that is not before the moment at which `sync` begins: changes in between may come
    twice, none is left out. A copy that was cut short is begun again.
C2  `sync` gives changes in the source's order, each list of parts being stored as one record, and consumes nothing: what it has given
    comes again after a restart until `advance` was called with its position, or until its position was handed back at `start`.
C3  A part whose position the source was started with is not given again.
A sink's promises:
C4  `write` returns when the whole batch is as durable as the target makes it. It raises otherwise, and may then have written a part.
C5  `resume` is told the last id that is acknowledged, removes what it can of later ones, and returns the last id that the target has
    for sure: above the one it was told when the target itself remembers it (exactly once), the same one otherwise.
Both: `check` reaches the other side, changes nothing, and raises with what to do.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

    from spark_export.pipelines.message import Message

COPY, SYNC, COMPLETE = "copy", "sync", "complete"


class NamespaceState(NamedTuple):
    """What the commit log knows of a namespace: how far its copy is, and the last message that was sent."""

    namespace: str
    mode: str
    """COPY: the copy is not finished; COMPLETE: it is, and no change has come yet; SYNC: changes have come."""
    position: Any = None
    """The source's own position of the last part: whatever it gave there (JSON)."""
    last: Message | None = None


class SourcePart(NamedTuple):
    """Messages of one namespace with one set of columns, on their way into the commit log. Ids are given there."""

    table: pa.Table
    """As spark_export.pipelines.message has it; at least one row."""
    position: Any = None
    """Where the source is after this part (JSON); handed back by `start` and `advance`."""


class SourceCopy(NamedTuple):
    """A namespace to be copied: by Spark, in parallel, where the source can; else part by part."""

    namespace: str
    key: tuple[str, ...]
    frame: DataFrame | None = None
    """Its rows (columns of the data alone); partitioned. The pipeline makes inserts of them, in the tasks."""
    parts: Iterable[SourcePart] = ()
    """In place of a frame: its rows as inserts."""
    rows: int | None = None
    """About how many there are, for the progress bar."""
    timestamp: int = 0
    """Of all its messages, when `frame` is given."""
    position: Any = None
    """Where the source is when the copy is complete."""


class PipelineSource(Protocol):
    """Where messages come from. All calls are made on the driver, by one thread."""

    timeline: str
    """What the timestamps of its messages mean: "epoch_ms", "external(name)", …"""

    def check(self, *, prepare: bool = False) -> Sequence[str]:
        """
        Reach the source; return its namespaces. With `prepare`, set up what sync needs (triggers, a publication) first.

        Without it nothing is changed, and what is missing for sync is an error that names `journal pipeline check --prepare`.
        """

    def start(self, spark: SparkSession | None, states: Mapping[str, NamespaceState], mode: str) -> None:
        """
        Begin, with a session of Spark if there is one, and with what the commit log knows of each namespace.

        `mode` is "copy", "sync" or "copy+sync".
        """

    def copies(self, namespaces: Sequence[str]) -> Iterator[SourceCopy]:
        """The namespaces' rows (C1); only those that are named: their copy is not finished."""

    def sync(self) -> Iterator[Sequence[SourcePart]]:
        """
        Changes, each list being one record of the commit log (C2). An empty list: nothing new for now; the caller waits, and asks for the
        next one. It ends when the source will never have more.
        """

    def advance(self, position: Any) -> None:
        """All parts up to this position are stored: the source may forget them."""

    def close(self) -> None:
        """Let go of connections and snapshots. May be called more than once, and from a pipeline that fails."""


class SinkBatch(Protocol):
    """Messages for a sink, after its filter and its functions, in order. Ids grow; those that were dropped are missing."""

    first: int
    """The id of the first message that this batch is about; it may be one that was dropped."""
    last: int
    """The id of the last one that it is about: what is acknowledged when the batch is written."""

    def tables(self) -> Iterator[pa.Table]:
        """The messages on the driver, as tables in order."""

    def frames(self) -> Sequence[tuple[str, tuple[str, ...], DataFrame]]:
        """
        The messages in Spark: for each namespace and set of columns its name, the key's columns, and a frame with the columns id, op,
        timestamp, namespace, data (a struct). Frames may be read more than once. Order within a namespace is that of the ids.
        """

    @property
    def is_small(self) -> bool:
        """A batch that is on the driver already: `tables` costs nothing, `frames` a Spark job."""


class PipelineSink(Protocol):
    """Where messages go. All calls of one sink are made by one thread of the driver."""

    def check(self) -> None:
        """Reach the target and see that it can be written; change nothing."""

    def start(self, spark: SparkSession | None, pipeline: str, name: str) -> None:
        """Begin. `pipeline` and `name` identify the sink where the target remembers what it has."""

    def resume(self, position: int) -> int:
        """Told the last id that is acknowledged (-1: none), return the last one that the target has (C5)."""

    def write(self, batch: SinkBatch) -> None:
        """Write all of it (C4)."""

    def close(self) -> None:
        """Let go of connections. May be called more than once."""
