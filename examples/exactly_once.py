"""
An effect that happens once, whatever happens to the worker.

No queue can promise that work is *processed* once: a worker may die after it did something and before it said so. But the effect
can be made to happen once: it is stored together with the key of its entry, in one transaction, and a worker that finds the key there
has nothing more to do.

Here the effect is a payment in an SQLite database. A worker is killed with -9 at every step, one after the other; then one may finish.
"""

import os
import signal
import sqlite3
import subprocess
import sys

import journal

STEPS = (
    "before the effect",
    "in the middle of the transaction",
    "after the effect, before done",
    "after done, before the caller was told",
    "",
)


def open_bank() -> sqlite3.Connection:
    bank = sqlite3.connect("bank.sqlite", isolation_level=None)
    bank.execute("PRAGMA synchronous = FULL")
    bank.execute("CREATE TABLE IF NOT EXISTS payments (key TEXT PRIMARY KEY, cents INTEGER NOT NULL)")
    return bank


def work(step: str) -> None:
    """A worker that dies at a step; with no step it works until nothing is left."""

    def die_at(here: str) -> None:
        if step == here:
            os.kill(os.getpid(), signal.SIGKILL)

    bank = open_bank()
    with journal.open("payments.journal") as store:
        # After a restart under its name it gets its lease back at once; no other worker has to wait until it runs out.
        consumer = journal.Consumer(store.journal("payments"), name="payer", lease="10m")
        consumer.subscribe()
        while (lease := consumer.take_nowait()) is not None:
            die_at("before the effect")
            bank.execute("BEGIN IMMEDIATE")
            # The key is the entry's: a second attempt changes nothing.
            bank.execute("INSERT OR IGNORE INTO payments VALUES (?, ?)", (lease.key, lease.data))
            die_at("in the middle of the transaction")
            bank.execute("COMMIT")
            die_at("after the effect, before done")
            lease.done()
            die_at("after done, before the caller was told")
        consumer.close()


def main() -> None:
    with journal.open("payments.journal") as store:
        for n in range(3):
            store.journal("payments").put(f"payment-{n}", 100)
    bank = open_bank()
    for step in STEPS:
        worker = subprocess.run([sys.executable, __file__, step], check=False)
        count, total = bank.execute("SELECT count(*), sum(cents) FROM payments").fetchone()
        fate = f"killed {step}" if worker.returncode == -signal.SIGKILL else "finished"
        print(f"{fate}: payments {count}, cents {total or 0}", flush=True)
    bank.close()
    with journal.open("payments.journal") as store:
        print("left:", store.journal("payments").count())


if __name__ == "__main__":
    if len(sys.argv) > 1:
        work(sys.argv[1])
    else:
        main()
