"""
A time buffer between two queues: what comes out of one goes into the other, some time later.

The two queues stand for topics of a message broker. In between everything waits in a journal, on disk, for as long as it should. A
message has a key: when the buffer dies after it passed one on and before it noted that, it passes it on again with the same key, and
the reader of the second queue can tell.
"""

import queue
import threading
import time

import journal

DELAY_MS = 300


def main() -> None:
    first: queue.SimpleQueue[tuple[str, str] | None] = queue.SimpleQueue()
    second: queue.SimpleQueue[tuple[str, str]] = queue.SimpleQueue()

    with journal.open("buffer.journal") as store:
        buffer = store.journal("buffer")
        reader = journal.Producer(buffer, group="reader")

        def read() -> None:
            """From the first queue into the buffer; a message that comes twice is one."""
            while (message := first.get()) is not None:
                key, text = message
                outcome = reader.publish(text, key=key, delay=DELAY_MS).outcome
                print(f"{key} buffered: {outcome}", flush=True)

        def write(lease: journal.Lease) -> None:
            """From the buffer into the second queue, at its time."""
            second.put((str(lease.key), lease.data))

        reading = threading.Thread(target=read)
        reading.start()
        began = time.monotonic()
        for message in (("m1", "one"), ("m2", "two"), ("m1", "one"), None):
            first.put(message)
        reading.join()
        print("in the second queue at first:", second.qsize())
        with journal.Consumer(buffer, name="writer") as writer:
            writer.subscribe(write)
            arrived = sorted(second.get(timeout=30) for _ in range(2))
        print("later:", arrived, "not too early:", time.monotonic() - began >= DELAY_MS / 1000)
        print("left in the buffer:", buffer.count())


if __name__ == "__main__":
    main()
