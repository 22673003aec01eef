"""A forked child inherits a feed: a clear error on use, and no harm to the parent's."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import journal

PROGRAM = """
import faulthandler, os, sys, threading
import journal

store = journal.open(sys.argv[1])
pages = store.journal("pages")
for n in range(20):
    pages.put(f"k{n}")
feed = pages.feed(consumer="audit", live=False)
feed.ack(next(feed))
live = pages.feed(consumer="live")
thread = threading.Thread(target=lambda: [live.ack(event) for event in live], daemon=True)
thread.start()
pid = os.fork()
if pid == 0:
    faulthandler.dump_traceback_later(20, exit=True)  # a hang names its place
    bad = []
    calls = [
        lambda: next(feed), lambda: feed.ack(journal.Cursor(1, 0)), feed.fail, lambda: feed.lag, pages.feeds,
        lambda: pages.feed(), lambda: pages.feed(consumer="other"), lambda: pages.remove_feed("audit"),
        lambda: pages.mark_feed("audit", journal.Cursor(1, 5)), lambda: next(live),
    ]
    for n, call in enumerate(calls):
        try:
            call()
            bad.append(f"{n} returned")
        except journal.ForkedStore:
            pass
        except BaseException as e:
            bad.append(f"{n} {e!r}")
    feed.position, feed.unacked
    feed.close()
    live.close()
    print(*bad, sep="\\n", file=sys.stderr, flush=True)
    os._exit(1 if bad else 0)
_, status = os.waitpid(pid, 0)
rest = list(feed)
feed.ack(rest)
looked = threading.Event()
while live.lag:
    looked.wait(0.001)
assert len(rest) == 19, len(rest)
store.close()
thread.join(100)
sys.exit(os.waitstatus_to_exitcode(status))
"""


def test_a_child_is_refused_and_the_parent_goes_on(tmp_path: Path) -> None:
    """Every call raises ForkedStore in the child; the parent's consumers are where they would have been without it."""
    run = subprocess.run(
        # Later Pythons warn of any fork beside threads: that is what this program is about.
        [sys.executable, "-X", "dev", "-W", "ignore:This process", "-c", PROGRAM, tmp_path / "s"],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert (run.returncode, run.stderr.strip()) == (0, "")
    with journal.open(tmp_path / "s") as store:
        views = store.journal("pages").feeds()
        assert [(view.name, view.position.offset, view.lag) for view in views] == [("audit", 19, 0), ("live", 19, 0)]
        assert store.check() == []
