"""
Jobs, workers with heartbeats, and a worker that dies.

A worker takes a job for four seconds at a time and says "I am still at it" after each step. The first one is killed with -9 in
the middle of its work: no other process has to notice. When its last heartbeat is four seconds old the job goes to the next worker.
"""

import signal
import subprocess
import sys
from collections.abc import Callable

import journal

STEPS = (25, 50, 75, 100)


def work(worker: str, jobs: journal.Journal, do_step: Callable[[], object]) -> None:
    """Do a job, with a heartbeat after each step."""
    with journal.Consumer(jobs, name=worker, lease="4s", extend=False) as consumer:
        for lease in consumer:
            print(f"{worker} begins {lease.key}, lost before: {lease.timeouts}", flush=True)
            for percent in STEPS:
                print(f"{worker} {lease.key} {percent}%", flush=True)
                do_step()
                lease.extend()  # the heartbeat
            lease.done()
            print(f"{worker} finished {lease.key}", flush=True)
            return


def main() -> None:
    with journal.open("jobs.journal") as store:
        store.journal("jobs").put("video-1", {"file": "holiday.mov"})

    # A store belongs to one process, so the first worker is a process of its own that has the store for itself.
    first = subprocess.Popen(
        [sys.executable, __file__, "worker-1"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert first.stdin is not None
    assert first.stdout is not None
    for _ in range(3):
        print(first.stdout.readline().rstrip(), flush=True)
        first.stdin.write("\n")
        first.stdin.flush()
    first.send_signal(signal.SIGKILL)
    first.wait()
    first.stdin.close()
    first.stdout.close()
    print("worker-1 was killed", flush=True)

    with journal.open("jobs.journal") as store:
        jobs = store.journal("jobs")
        (lease,) = jobs.leases()
        print(f"{lease.key} is still with {lease.consumer}", flush=True)
        work("worker-2", jobs, lambda: None)  # sleeps until the lease of worker-1 has run out
        print("left:", jobs.count())


if __name__ == "__main__":
    if len(sys.argv) > 1:
        with journal.open("jobs.journal") as opened:
            work(sys.argv[1], opened.journal("jobs"), sys.stdin.readline)  # a line lets it go on
    else:
        main()
