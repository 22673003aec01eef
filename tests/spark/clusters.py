"""
`python -m tests.spark.clusters`: the same jobs on a local cluster and on a standalone one, each with two executors, on the loopback.

Read from the files and through the daemon, export, load and stream; the driver has the daemon's token, and executors get it from there.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from contextlib import nullcontext
from pathlib import Path

import journal
from journal.net.wire.tokens import parse_tokens
from tests.spark.setting import ROOT, environment
from tests.spark.standalone import Standalone

ROWS = 20
SECRET = "0123456789abcdef" * 4
TIMEOUT_S = 1100


def jobs(master: str, store: journal.Store, place: Path) -> dict[str, object]:
    """What the jobs found, run by a driver of their own (tests.spark.cluster)."""
    store.journal("pages").put_many([journal.Put(f"k{n:02}", n) for n in range(ROWS)])
    copies = store.journal("copies")
    store.checkpoint()
    tokens = parse_tokens(f"spark {SECRET} produce,consume pages,copies *")
    with store.serve(tcp=[("127.0.0.1", 0)], tokens=tokens) as server:
        address = next(each for each in server.addresses if each.startswith("tcp:"))
        run = subprocess.run(
            [sys.executable, "-m", "tests.spark.cluster", master, str(store.path), address, str(place)],
            cwd=ROOT,
            env=environment(JOURNAL_TOKEN=f"spark:{SECRET}"),
            capture_output=True,
            text=True,
            timeout=TIMEOUT_S,
            check=False,
        )
    if run.returncode:
        return {"failed": run.stderr}
    found: dict[str, object] = json.loads(run.stdout.splitlines()[-1])
    return {**found, "copies": sorted(str(entry.key) for entry in copies.scan())}


def wanted() -> dict[str, object]:
    """All rows, from the files and through the daemon, there and back, in two executors; and no other user can reach them."""
    rows = [[f"k{n:02}", str(n)] for n in range(ROWS)]
    return {
        "files": rows,
        "daemon": rows,
        "elsewhere": [],
        "executors": 2,
        "exported": ROWS,
        "read back": ROWS,
        "loaded": ROWS,
        "streamed": ROWS,
        "copies": sorted(f"{word}k{n:02}" for n in range(ROWS) for word in ("", "again-")),
    }


def main() -> int:
    """Both, one after the other; 1 when one of them is not as wanted."""
    status = 0
    for name in ("local-cluster", "standalone"):
        began = time.monotonic()
        with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as top:
            place = Path(top)
            with (
                Standalone(place) if name == "standalone" else nullcontext() as cluster,
                journal.open(place / "work.journal") as store,
            ):
                found = jobs("local-cluster[2,1,1024]" if cluster is None else cluster.master, store, place)
        wrong = {what: found.get(what) for what, value in wanted().items() if found.get(what) != value}
        if wrong:
            status = 1
            print(f"{name}: wrong after {time.monotonic() - began:.0f} s: {wrong} {found.get('failed', '')}")
        else:
            print(
                f"{name}: read, exported, loaded and streamed {ROWS} rows on two executors, {time.monotonic() - began:.0f} s"
            )
    return status


if __name__ == "__main__":
    sys.exit(main())
