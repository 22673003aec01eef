"""
Exponential retries: what fails waits longer and longer, and is given up on in the end.

How often an entry has failed is kept with it, so it does not matter which consumer tries next, nor whether the program was restarted
in between. What is given up on is buried, with the reason, until a person decides.
"""

import threading
from operator import ge

import journal


def main() -> None:
    with journal.open("hooks.journal") as store:
        hooks = store.journal("hooks")
        attempts: dict[str, int] = {}
        waits: dict[str, list[int]] = {"flaky": [], "broken": []}
        last: dict[str, int] = {}
        finished = threading.Event()

        def call(lease: journal.Lease) -> None:
            key = str(lease.key)
            attempts[key] = attempts.get(key, 0) + 1
            if key in last:
                waits[key].append(lease.process_date - last[key])
            last[key] = lease.process_date
            if key == "broken" or attempts[key] < 3:
                raise ConnectionError("503 Service Unavailable")

        hooks.put("flaky", {"url": "https://example.org/a"})
        hooks.put("broken", {"url": "https://example.org/b"})
        retry = journal.Retry(first="50ms", factor=2, cap="1s", jitter=0, failures_max=5)
        with journal.Consumer(hooks, name="caller-1", retry=retry) as caller:
            caller.subscribe(call)
            while hooks.count():
                finished.wait(0.02)
        print("flaky was done after attempt", attempts["flaky"])
        print("broken was given up on after attempt", attempts["broken"])
        (buried,) = hooks.buried()
        print("reason:", buried.reason)
        asked = [
            retry.delay_ms(failures, 0) for failures in range(1, 5)
        ]  # 50, 100, 200, 400: however late it was tried
        print("each wait was as long as asked for:", all(map(ge, waits["broken"], asked)))
        hooks.retry("broken")  # a person has mended it
        print("waiting again:", [entry.key for entry in hooks.scan()])


if __name__ == "__main__":
    main()
