"""
Scheduled e-mails, and one that is cancelled.

A shop publishes mails for later when a customer registers or buys: no cron job looks for what is due. Until its time has come a
mail is the shop's: it can be moved, or cancelled, because the customer has come back by himself.
"""

import threading

import journal


def main() -> None:
    with journal.open("shop.journal") as store:
        mails = store.journal("mails")
        shop = journal.Producer(mails, group="shop")

        # A natural key: a program that asks again, after a crash say, does not send it twice.
        shop.publish({"to": "ann", "text": "welcome"}, key="ann/welcome")
        shop.publish({"to": "ann", "text": "how do you like it?"}, key="ann/8h", delay="2s")
        shop.publish({"to": "bob", "text": "you left something behind"}, key="bob/basket", delay="1s")
        shop.publish({"to": "cid", "text": "your invoice"}, key="cid/invoice", delay="1h")
        again = shop.publish({"to": "ann", "text": "welcome"}, key="ann/welcome")
        print("published again:", again.outcome)

        print("bob came back: cancelled", shop.delete("bob/basket"))
        shop.move("cid/invoice", delay="200ms")
        print("cid wants it now: moved")

        sent = []
        all_sent = threading.Event()

        def send(lease: journal.Lease) -> None:
            print("to", lease.data["to"] + ":", lease.data["text"], flush=True)
            sent.append(lease.key)
            if len(sent) == 3:
                all_sent.set()

        with journal.Consumer(mails, name="mailer-1", lease="30s") as mailer:
            mailer.subscribe(send)  # in a thread of its own; what returns is done
            all_sent.wait(30)
        print("left:", mails.count())


if __name__ == "__main__":
    main()
