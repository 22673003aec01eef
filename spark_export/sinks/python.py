"""A sink that calls a function of the user's with each batch. How often a message comes is at least once: the function decides the rest."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import TYPE_CHECKING, Any

from journal.errors import Invalid
from spark_export.pipelines.contract import SinkBatch
from spark_export.pipelines.message import messages_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

GIVES = ("batch", "messages")


class PythonSink:
    """
    `foreach_batch` is "module:function", or a function. It is called with the batch (contract.SinkBatch), or with gives="messages" with a
    list of message.Message, and must return when all of it is written; what it raises stops the sink.
    """

    def __init__(self, foreach_batch: str | Callable[[Any], Any], gives: str = "batch") -> None:
        if gives not in GIVES:
            raise Invalid(f"gives is {gives!r}: it must be one of {', '.join(GIVES)}")
        self._named = foreach_batch
        self._gives = gives

    def check(self) -> None:
        """Import the function."""
        self._function()

    def start(self, spark: SparkSession, pipeline: str, name: str) -> None:
        """See that the function is there."""
        self._function()

    def resume(self, position: int) -> int:
        """What the function has done is not known."""
        return position

    def write(self, batch: SinkBatch) -> None:
        """Call the function."""
        self._function()(batch if self._gives == "batch" else list(messages_of(batch.tables())))

    def close(self) -> None:
        """Nothing is held."""

    def _function(self) -> Callable[[Any], Any]:
        if callable(self._named):
            return self._named
        module, sign, name = self._named.partition(":")
        if not (module and sign and name):
            raise Invalid(f"foreach_batch is {self._named!r}: it must be module:function")
        try:
            found = getattr(import_module(module), name)
        except (ImportError, AttributeError) as e:
            raise Invalid(f"foreach_batch is {self._named!r}, which cannot be imported: {e}") from e
        if not callable(found):
            raise Invalid(f"foreach_batch is {self._named!r}, a {type(found).__name__}: it must be a function")
        function: Callable[[Any], Any] = found
        return function
