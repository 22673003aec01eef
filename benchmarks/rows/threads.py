"""Group commit: many threads that put, against one."""

from __future__ import annotations

import threading
from pathlib import Path

from benchmarks.measure import DATA, Contender, interleave, say
from benchmarks.ours import Ours
from benchmarks.plan import Plan
from benchmarks.rows.calls import put_repeatedly
from benchmarks.table import Row


class _Crowd:
    """Threads that wait at a gate: making them is not part of what is measured."""

    def __init__(self, queue: Ours, size: int, calls: int) -> None:
        self._queue, self._size, self._calls = queue, size, calls
        self.errors: list[BaseException] = []
        self.assemble()

    def assemble(self) -> None:
        self._gate = threading.Barrier(self._size + 1)
        self._threads = [threading.Thread(target=self._work, daemon=True) for _ in range(self._size)]
        for thread in self._threads:
            thread.start()

    def run(self) -> None:
        self._gate.wait()
        for thread in self._threads:
            thread.join()
        if self.errors:
            raise self.errors[0]

    def dismiss(self) -> None:
        self._gate.abort()

    def _work(self) -> None:
        try:
            self._gate.wait()
            for _ in range(self._calls):
                self._queue.put(DATA)
        except threading.BrokenBarrierError:
            return
        except BaseException as error:  # noqa: BLE001 - told to the thread that measures
            self.errors.append(error)


def threads(directory: Path, plan: Plan) -> list[Row]:
    say(f"{plan.threads} threads that put")
    queue = Ours(directory / "threads", "full")
    crowd = _Crowd(queue, plan.threads, plan.thread_calls)
    one_thread, many_threads = "one thread", f"{plan.threads} threads"
    times = interleave(
        [
            Contender(one_thread, plan.thread_calls, lambda: put_repeatedly(queue, plan.thread_calls)),
            Contender(many_threads, plan.thread_calls * plan.threads, crowd.run, crowd.assemble),
        ],
        plan.thread_rounds,
    )
    crowd.dismiss()
    queue.close()
    what = f"full: {plan.threads} threads putting"
    # The reference is our own: a slower single thread would look like better group commit. So the rates stand beside it.
    rates = [1e6 / times[name].median_us for name in (many_threads, one_thread)]
    note = "{:,.0f} puts/s against {:,.0f}".format(*rates)
    return [Row.compare(what, times[many_threads], times[one_thread], 3.5, note=note)]
