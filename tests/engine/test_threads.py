"""Many threads at once: every hand-over between callers, the sync thread and the keeper."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

import journal
from journal.engine import checkpoints

HANG_S = 100.0


def together(*works: Callable[[], None]) -> None:
    """Run each on a thread; fails when one raises or hangs."""
    errors: list[BaseException] = []

    def guarded(work: Callable[[], None]) -> None:
        try:
            work()
        except BaseException as e:  # noqa: BLE001 - told below
            errors.append(e)

    threads = [threading.Thread(target=guarded, args=(work,), daemon=True) for work in works]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(HANG_S)
    assert errors == []
    assert [thread.name for thread in threads if thread.is_alive()] == []


@pytest.mark.parametrize("durability", ["full", "interval", "none"])
def test_each_entry_is_worked_on_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, durability: str) -> None:
    """Four producers and four consumers, with a checkpoint every few dozen changes: nothing lost, nothing twice."""
    monkeypatch.setattr(checkpoints, "CHANGES_MIN", 32)
    monkeypatch.setattr(checkpoints, "CHANGES_FIRST", 32)
    monkeypatch.setattr(checkpoints, "CHANGES_MAX", 64)
    each, producers = 150, 4
    worked: Counter[object] = Counter()
    enough = threading.Event()
    with journal.open(tmp_path / "s", durability=durability) as store:
        pages = store.journal("pages", segment_bytes_max=1 << 16)

        def produce(name: int) -> None:
            for i in range(each):
                pages.put(f"{name}-{i}", i)

        def consume(name: int) -> None:
            for lease in pages.work(consumer=str(name), stop=enough):
                worked[lease.key] += 1
                lease.done()
                if sum(worked.values()) == each * producers:
                    enough.set()
                    pages.wake()

        together(*(lambda n=n: produce(n) for n in range(4)), *(lambda n=n: consume(n) for n in range(4)))  # type: ignore[misc]
        assert worked == Counter({f"{n}-{i}": 1 for n in range(producers) for i in range(each)})
        assert pages.count() == 0
        assert store.check() == []
        assert store.statistics()["journals"]["pages"]["checkpoints"] > 0
    with journal.open(tmp_path / "s") as store:
        assert store.journal("pages").count() == 0
        assert store.check() == []


def test_threads_that_put_one_key_merge_it(tmp_path: Path) -> None:
    """Under contention too a key has one entry, and each put one outcome."""
    outcomes: list[str] = []
    with journal.open(tmp_path / "s") as store:
        pages = store.journal("pages")

        def put() -> None:
            for i in range(40):
                outcomes.append(pages.put("same", i).outcome)

        together(*[put] * 8)
        assert Counter(outcomes) == {"inserted": 1, "merged": 319}
        assert pages.count() == 1
        entry = pages.get("same")
        assert entry is not None and entry.version == 320
        assert store.check() == []


def test_a_refusal_reaches_its_own_caller(tmp_path: Path) -> None:
    """Of many threads that create one key, one succeeds; the others are refused, and nobody else is."""
    results: list[str] = []
    with journal.open(tmp_path / "s") as store:
        pages = store.journal("pages")

        def create() -> None:
            for i in range(30):
                try:
                    pages.create(f"k{i}")
                    results.append("created")
                except journal.KeyExists:
                    results.append("refused")

        together(*[create] * 6)
        assert Counter(results) == {"created": 30, "refused": 150}
        assert pages.count() == 30


def test_puts_of_many_callers_are_one_record_with_a_result_for_each(tmp_path: Path) -> None:
    """New keys, keys that come twice, large data and options, all at once: every caller gets what it would get alone."""
    threads, each = 12, 40
    outcomes: Counter[tuple[str, str]] = Counter()
    cursors: set[journal.Cursor] = set()
    with journal.open(tmp_path / "s") as store:
        pages = store.journal("pages")

        def produce(name: int) -> None:
            for i in range(each):
                own = pages.put(f"{name}-{i}", b"x" * (5000 if i % 7 == 0 else 10), priority=i % 3)
                assert (own.outcome, own.version, own.priority) == ("inserted", 1, i % 3)
                shared = pages.put(f"shared-{i}", name, **({"delay": 0} if name % 2 else {}))
                outcomes[shared.outcome, f"shared-{i}"] += 1
                cursors.update((own.cursor, shared.cursor))

        together(*[lambda name=name: produce(name) for name in range(threads)])
        assert len(cursors) == 2 * threads * each
        assert all(outcomes["inserted", f"shared-{i}"] == 1 for i in range(each))
        assert all(outcomes["merged", f"shared-{i}"] == threads - 1 for i in range(each))
        assert pages.count() == (threads + 1) * each
        assert pages.statistics()["syncs"] < 2 * threads * each
        assert store.check() == []
    with journal.open(tmp_path / "s") as store:
        assert store.journal("pages").count() == (threads + 1) * each
