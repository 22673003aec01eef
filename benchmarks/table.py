"""The report: rows, as a table for people and as JSON for programs."""

from __future__ import annotations

import dataclasses
import json
import os
import platform
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.measure import Ratio, Times


@dataclass(frozen=True)
class Row:
    """
    One line of the report.

    `ratio` is how many times as fast as the reference we are, so more is better, unless `is_at_most`: then it is what
    must stay small.
    """

    what: str
    ours: str
    against: str
    theirs: str
    ratio: float | None = None
    ratio_of_sums: float | None = None
    target: float | None = None
    is_at_most: bool = False
    unit: str = "×"
    note: str = ""

    @property
    def reached(self) -> bool | None:
        if self.ratio is None or self.target is None:
            return None
        return self.ratio <= self.target if self.is_at_most else self.ratio >= self.target

    @classmethod
    def compare(cls, what: str, ours: Times, theirs: Times, target: float | None, *, note: str = "") -> Row:
        ratio = Ratio.of(ours, theirs)
        return cls(
            what, us(ours.median_us), theirs.name, us(theirs.median_us), ratio.median, ratio.of_sums, target, note=note
        )

    @classmethod
    def best_of(cls, what: str, ours: Times, peers: Sequence[Times], target: float, *, note: str = "") -> Row:
        """Against the peer that does best beside us in the same rounds."""
        if not peers:
            return cls(what, us(ours.median_us), "no peer is installed", "", target=target, note=note)
        best = min(peers, key=lambda peer: Ratio.of(ours, peer).median)
        return cls.compare(what, ours, best, target, note=note)

    @classmethod
    def failed(cls, what: str, error: BaseException) -> Row:
        return cls(what, "failed", "", "", note=f"{type(error).__name__}: {error}")


@dataclass(frozen=True)
class Measured:
    """What one contender took, for the second table: every peer, not only the best."""

    what: str
    name: str
    durability: str
    median_us: float | None = None
    mean_us: float | None = None
    note: str = ""


def us(value: float) -> str:
    if value < 2:
        return f"{value:.2f} µs"
    return f"{value:,.1f} µs" if value < 10_000 else f"{value / 1000:,.1f} ms"


def render(rows: Iterable[Row]) -> str:
    lines = [("what", "ours", "against", "theirs", "ratio", "by sums", "target", "reached", "")]
    for row in rows:
        reached = {True: "yes", False: "NO", None: "–"}[row.reached]
        lines.append(
            (
                row.what,
                row.ours,
                row.against,
                row.theirs,
                _figure(row.ratio, row.unit),
                _figure(row.ratio_of_sums, row.unit),
                "–" if row.target is None else f"{'≤' if row.is_at_most else '≥'} {row.target:g} {row.unit}",
                reached,
                row.note,
            )
        )
    return _columns(lines)


def render_measured(measured: Iterable[Measured]) -> str:
    lines = [("measured", "by", "durability", "median", "mean", "")]
    for one in measured:
        median = "–" if one.median_us is None else us(one.median_us)
        mean = "–" if one.mean_us is None else us(one.mean_us)
        lines.append((one.what, one.name, one.durability, median, mean, one.note))
    return _columns(lines)


def _figure(value: float | None, unit: str) -> str:
    return "–" if value is None else f"{value:.2f} {unit}"


def _columns(lines: Sequence[tuple[str, ...]]) -> str:
    widths = [max(len(cell) for cell in column) for column in zip(*lines, strict=True)]
    out = ["  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip() for line in lines]
    out.insert(1, "  ".join("-" * width for width in widths if width))
    return "\n".join(out)


def environment(directory: Path) -> dict[str, Any]:
    """What the figures depend on, and that the reader cannot see from them."""
    return {
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.release()} {platform.machine()}",
        "processors": os.cpu_count(),
        "file_system": file_system(directory),
        "load": round(os.getloadavg()[0], 2),
    }


def file_system(directory: Path) -> str:
    """The type of the file system under a directory: on tmpfs a sync costs nothing and the report means little."""
    path, best, kind = str(directory.resolve()), "", "unknown"
    try:
        mounts = Path("/proc/mounts").read_text().splitlines()
    except OSError:
        return kind
    for mount in mounts:
        _, point, found, *_ = mount.split(" ")
        inside = path == point or path.startswith(point.rstrip("/") + "/")
        if inside and len(point) >= len(best):
            best, kind = point, found
    return kind


def write_json(path: Path, rows: Sequence[Row], measured: Sequence[Measured], about: dict[str, Any]) -> None:
    report = {
        "environment": about,
        "rows": [{**dataclasses.asdict(row), "reached": row.reached} for row in rows],
        "measured": [dataclasses.asdict(one) for one in measured],
    }
    path.write_text(json.dumps(report, indent=2, ensure_ascii=False) + "\n")
