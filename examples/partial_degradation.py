"""
Partial degradation: "I cannot do this now, give it to me later".

While the payment service is down, orders that need it are pushed back into the future: their leases are released, not failed, so nothing
counts against them. Everything else goes on as usual, and when the service is back the orders come by themselves.
"""

import threading

import journal


class Payments:
    """A service that is down at first."""

    is_up = False


def main() -> None:
    with journal.open("orders.journal") as store:
        orders = store.journal("orders")
        for n in range(6):
            orders.put(f"order-{n}", {"pay": "card" if n % 2 else "invoice"})

        pushed: set[str] = set()
        done: list[str] = []
        changed = threading.Condition()

        def handle(lease: journal.Lease) -> None:
            with changed:
                if lease.data["pay"] == "card" and not Payments.is_up:
                    lease.release(delay="200ms")  # later; this is no failure
                    pushed.add(str(lease.key))
                else:
                    lease.done()
                    done.append(str(lease.key))
                changed.notify_all()

        with journal.Consumer(orders, name="orders-1") as consumer:
            consumer.subscribe(handle)
            with changed:
                changed.wait_for(lambda: len(done) == 3 and len(pushed) == 3, 30)
                print("done while payments are down:", sorted(done))
                print("pushed back:", sorted(pushed))
                Payments.is_up = True
                print("payments are back")
                changed.wait_for(lambda: len(done) == 6, 30)
        print("done in the end:", sorted(done))
        print("counted as failures:", consumer.statistics()["failed"], "left:", orders.count())


if __name__ == "__main__":
    main()
