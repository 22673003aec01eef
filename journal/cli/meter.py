"""A progress bar on a terminal; elsewhere, and with --json, nothing."""

from __future__ import annotations

import sys
from types import TracebackType

WIDTH = 40


class Meter:
    """One bar on standard error; a context manager, which takes it away."""

    def __init__(self, *, is_quiet: bool) -> None:
        self._is_shown = not is_quiet and sys.stderr.isatty()
        self._last = ""

    def __enter__(self) -> Meter:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._last:
            print("\r" + " " * len(self._last) + "\r", end="", file=sys.stderr, flush=True)

    def show(self, done: int, total: int) -> None:
        """So many bytes of so many are done."""
        if not self._is_shown:
            return
        share = done / total if total else 0.0
        text = f"[{'#' * int(share * WIDTH):<{WIDTH}}] {int(share * 100):3d} %"
        if text != self._last:
            self._last = text
            print("\r" + text, end="", file=sys.stderr, flush=True)
