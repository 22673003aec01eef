"""
The harness proves itself: engines that are wrong on purpose, each of which a campaign must catch.

A mutant is a patch of one function of the engine, made in the child and in the process that recovers. When the engine changes and a patch
no longer fits, `install` fails loudly: a mutant that changes nothing would prove nothing.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Any

from tests.crash.points import find


def replace(dotted: str, make: Callable[[Any], Any]) -> None:
    """Put another function in the place of one of the engine's, also where a module has imported it by name."""
    holder, name = find(dotted)
    real = getattr(holder, name)
    wrong = make(real)
    setattr(holder, name, wrong)
    for module in [module for module_name, module in sys.modules.items() if module_name.startswith("journal")]:
        if vars(module).get(name) is real:
            setattr(module, name, wrong)


def acknowledge_before_sync() -> None:
    """Callers do not wait for the sync that makes their record durable."""
    replace("journal.engine.log.group_commit:GroupCommit.wait", lambda _real: lambda *_args: None)


def skip_directory_sync() -> None:
    """Names of new and renamed files are never made durable."""
    import journal  # noqa: F401 - all modules that have imported it by name must be there

    replace("journal.engine.files.posix:sync_directory", lambda _real: lambda _path: None)


def cut_log_early() -> None:
    """Recovery drops the last whole record, as if it were torn."""

    def make(real: Any) -> Any:
        def records(self: Any) -> Iterator[Any]:
            held: Any = None
            end = self.end
            for item in real(self):
                if held is not None:
                    yield held
                held, end, self.end = item, self.end, end
            # `self.end` is where the last record that was handed out ended.

        return records

    replace("journal.engine.log.reader:Reader.__iter__", make)


def skip_expiration_index() -> None:
    """An index is written outside of the record's effect: not at all when a record is replayed after its entry was merged."""

    def make(real: Any) -> Any:
        calls = 0

        def expires(self: Any, home: Any, primary: bytes, expiration: int) -> None:
            nonlocal calls
            calls += 1
            if calls % 7:
                real(self, home, primary, expiration)

        return expires

    replace("journal.engine.state.apply:JournalState._expires", make)


def commit_rows_before_log() -> None:
    """A checkpoint commits rows whose records are not durable yet."""
    replace("journal.engine.log.group_commit:GroupCommit.sync_locked", lambda _real: lambda _self: None)
    replace("journal.engine.log.group_commit:GroupCommit.sync_now", lambda _real: lambda _self: None)


def drop_log_too_soon() -> None:
    """Segments are reused as soon as one checkpoint has passed them, though a power cut may undo that checkpoint."""

    def make(real: Any) -> Any:
        def passed(self: Any, _offset: int) -> None:
            real(self, self.next_offset)

        return passed

    replace("journal.engine.log.writer:LogWriter.passed", make)


def compact_unsynced() -> None:
    """What compaction writes takes the place of segments before it is durable."""
    from journal.engine.log import compactor

    class Unsynced:
        """The system's calls but one, for that module alone."""

        def __getattr__(self, name: str) -> Any:
            return (lambda _fd: None) if name == "fdatasync" else getattr(os, name)

    find("journal.engine.log.compactor:os.fdatasync")
    compactor.os = Unsynced()  # type: ignore[attr-defined]


def compact_others_first() -> None:
    """The segments that one is made of go before it has its name."""

    def make(real: Any) -> Any:
        def replaced(self: Any, part: Any, group: Any, made: Any) -> Any:
            from journal.engine.log.reader import segment_path

            for each in group[1:]:
                segment_path(part.directory, each.first).unlink()
                with self._host.lock:
                    if self._log.directory == part.directory:
                        self._log.replaced(each.first)
            return (yield from real(self, part, [group[0]._replace(behind=group[-1].behind)], made))

        return replaced

    replace("journal.engine.generations.compaction:Compaction._replace", make)


def trust_torn_records() -> None:
    """Records are taken without a look at their checksum."""

    def make(real: Any) -> Any:
        return lambda data, *rest: 0 if isinstance(data, memoryview) else real(data, *rest)

    replace("journal.core.log.record:crc32", make)


def never_shield() -> None:
    """Interrupts come anywhere, also where a lock is given up and taken again inside of a block that holds it."""
    from journal import shield

    find("journal.shield:shield_up")
    shield._main = None


def take_failed_syncs_for_a_full_disk(file: str) -> None:
    """A failed sync of such a file is an error that changed nothing: the next one is believed."""
    from journal.errors import StoreFailed, StoreFull

    def make(real: Any) -> Any:
        def sync(self: Any) -> None:
            try:
                real(self)
            except StoreFailed as error:
                raise StoreFull(str(error)) if self.path.name == file else error from error

        return sync

    replace("journal.engine.files.lmdb:LmdbFile.sync", make)


@dataclass(frozen=True, slots=True)
class Mutant:
    """How the engine is broken, and the campaign that must notice."""

    install: Callable[[], None]
    campaign: str
    durability: str = "full"
    seed: int = 0
    """Added to the campaign's: some mistakes need a program that writes much (see `Shape`)."""


MUTANTS: dict[str, Mutant] = {
    "ack-before-sync": Mutant(acknowledge_before_sync, "power"),
    "no-directory-sync": Mutant(skip_directory_sync, "power"),
    "log-cut-early": Mutant(cut_log_early, "kill", seed=4),
    "log-cut-early-power": Mutant(cut_log_early, "power"),
    "index-outside": Mutant(skip_expiration_index, "kill"),
    "rows-before-log": Mutant(commit_rows_before_log, "power", "interval"),
    "compact-unsynced": Mutant(compact_unsynced, "power", seed=4),
    "compact-others-first": Mutant(compact_others_first, "power", seed=2),
    "log-dropped-soon": Mutant(drop_log_too_soon, "power", seed=1),
    "no-shield": Mutant(never_shield, "interrupt", seed=1),
    "failed-sync-of-rows-is-full": Mutant(partial(take_failed_syncs_for_a_full_disk, "rows.mdb"), "losses", seed=32),
    "failed-sync-of-the-catalog-is-full": Mutant(
        partial(take_failed_syncs_for_a_full_disk, "catalog.mdb"), "losses", seed=24
    ),
}


def install(name: str) -> None:
    """Break the engine of this process."""
    MUTANTS[name].install()


def is_caught(name: str, seed: int, states: int, cycles: int) -> str | None:
    """Let the campaign loose on a mutant; what it found, or None when it noticed nothing."""
    from tests.crash import interrupt, kill, losses, power  # they know the names of the mutants

    mutant = MUTANTS[name]
    seed += mutant.seed
    if mutant.campaign == "losses":
        violation = next(losses.campaign(1, seed, losses.K_MAX, name), None)
    elif mutant.campaign == "power":
        _seen, violation = power.campaign(states, seed, mutant.durability, name)
    elif mutant.campaign == "interrupt":
        _seen, violation = interrupt.campaign(400, seed, name)
    else:
        _seen, violation = kill.campaign(cycles, seed, mutant=name)
    return None if violation is None else violation.what


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--only", choices=sorted(MUTANTS), action="append", help="one mutant; may be repeated (default: all)"
    )
    parser.add_argument("--states", type=int, default=6000, help="give up on a mutant after so many power cuts")
    parser.add_argument("--cycles", type=int, default=150, help="give up on a mutant after so many kills")
    parser.add_argument("--jobs", type=int, default=2, help="so many mutants at a time (default %(default)s)")


def main(given: argparse.Namespace) -> int:
    from tests.crash.campaign import quiet
    from tests.crash.strace import strace_missing

    why, missed = strace_missing(), []
    names: list[str] = []
    for name in given.only or MUTANTS:
        if MUTANTS[name].campaign in ("power", "losses") and why is not None:
            print(f"mutants: {name} skipped, {why}")
        else:
            names.append(name)
    look = partial(is_caught, seed=given.seed, states=given.states, cycles=given.cycles)
    # Half of the time a program runs under strace, on one processor: two mutants at a time use both. Each has a new
    # process, which no other mutant has patched.
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(given.jobs, mp_context=context, initializer=quiet, max_tasks_per_child=1) as pool:
        for name, found in zip(names, pool.map(look, names), strict=True):
            told = f"caught: {found.splitlines()[0][:160]}" if found else "WAS NOT NOTICED"
            print(f"mutants: {name} {told}", flush=True)
            missed += [] if found else [name]
    if missed:
        print(f"VIOLATION: the harness does not see {missed}")
        print(f"  reproduce: python -m tests.crash mutants --only {missed[0]} --seed {given.seed}")
    return 1 if missed else 0
