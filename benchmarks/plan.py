"""How much is measured: the full run and `--quick`."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Plan:
    rounds: int = 40
    """Rounds of single calls."""
    calls: int = 50
    """Synced calls in a round; calls that are not synced run ten times as many."""
    batch_rounds: int = 30
    batch: int = 1_000
    thread_rounds: int = 12
    thread_calls: int = 500
    """Calls of each thread in a round: the first and the last ones, when not all are at work, must not count much."""
    threads: int = 16
    many: int = 1_000_000
    """Entries waiting in the large store."""
    few: int = 1_000
    processing: int = 100_000
    journals: int = 5_000
    """Merged journals in one store."""
    future_per_priority: int = 400
    reopen_few: int = 10_000
    reopen_rounds: int = 7
    pause_seconds: float = 5.0
    load_entries: int = 75_000
    """Of each of two journals, for the load test; `load_per_second` of one for so many seconds, for the steady one."""
    load_per_second: int = 1_000
    load_seconds: int = 10
    clients: int = 16
    """Clients of a daemon, each a process; puts of each of them in a round."""
    client_calls: int = 200
    client_rounds: int = 15
    scheduled: int = 100_000
    """Entries in the future of a daemon that is listened to; entries that fall due one by one; how long nothing does."""
    datagrams: int = 1_000
    idle_seconds: float = 60.0

    spark_rounds: int = 5
    """A job takes seconds."""
    spark_sizes: tuple[int, int, int] = (100_000, 1_000_000, 3_000_000)
    """Of the journals that show whether time grows with the rows, and with nothing else."""

    @property
    def unsynced_calls(self) -> int:
        return self.calls * 10


FULL = Plan()
QUICK = Plan(
    rounds=12,
    batch_rounds=8,
    thread_rounds=5,
    many=100_000,
    journals=1_000,
    future_per_priority=100,
    reopen_rounds=3,
    pause_seconds=1.5,
    load_entries=7_500,
    load_seconds=3,
    client_rounds=5,
    datagrams=200,
    idle_seconds=12.0,
    spark_rounds=3,
    spark_sizes=(10_000, 100_000, 300_000),
)

SECTIONS = ("synced", "unsynced", "batches", "threads", "memory", "reopen", "waiting", "processing", "future", "pauses")
"""The parts of `engine`, for `--only`."""
NET_SECTIONS = ("durable", "single", "groups", "listen")
"""The parts of `net`."""
