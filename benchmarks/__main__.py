"""`python -m benchmarks engine | feed | forecast | generations | merged | net | roles | spark | peers | profile`."""

from __future__ import annotations

import argparse
import sys
import tempfile
from importlib import import_module
from pathlib import Path

from benchmarks.plan import FULL, NET_SECTIONS, QUICK, SECTIONS
from benchmarks.table import environment, render, render_measured, write_json

ROWS = ("feed", "forecast", "generations", "merged", "roles", "spark")
"""Reports of their own: a function of this name in a module of this name."""


def main() -> int:
    options = _parse()
    plan = QUICK if options.quick else FULL
    with tempfile.TemporaryDirectory(prefix="benchmarks-", dir=options.dir) as name:
        directory = Path(name)
        about = environment(directory)
        print(", ".join(f"{key.replace('_', ' ')}: {value}" for key, value in about.items()), flush=True)
        if about["file_system"] == "tmpfs":
            print(
                "This is tmpfs: a sync costs nothing here, so the synced rows mean nothing. Use --dir.", file=sys.stderr
            )
        if options.command == "peers":
            from benchmarks.rows.calls import peers_only

            print(render_measured(peers_only(directory, plan)))
            return 0
        if options.command == "profile":
            from benchmarks.hot_path import report as profile_report

            print(profile_report(directory))
            return 0
        from benchmarks.engine import Report, run

        if options.command in ROWS:
            rows = getattr(import_module(f"benchmarks.rows.{options.command}"), options.command)
            report = Report()
            report.add(options.command, lambda: rows(directory, plan))
        elif options.command == "net":
            from benchmarks.net.report import run as run_net

            report = run_net(directory, plan, options.only)
        else:
            report = run(directory, plan, options.only)
        print(render(report.rows))
        if report.measured:
            print("", render_measured(report.measured), sep="\n")
        if options.json is not None:
            write_json(options.json, report.rows, report.measured, about)
        return 1 if report.has_failed else 0


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks", description="How fast the engine is. A report, not a test."
    )
    parser.add_argument("command", choices=("engine", "net", *ROWS, "peers", "profile"))
    parser.add_argument("--quick", action="store_true", help="100,000 entries in place of 1,000,000, and fewer rounds")
    parser.add_argument(
        "--dir", type=Path, default=_disk(), help="where to measure; a directory on the disk in question"
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the figures as JSON")
    parser.add_argument("--only", choices=(*SECTIONS, *NET_SECTIONS), help="one section of `engine` or `net`")
    return parser.parse_args()


def _disk() -> Path:
    # /tmp is in memory on many systems; /var/tmp by convention is not.
    var_tmp = Path("/var/tmp")
    return var_tmp if var_tmp.is_dir() else Path(tempfile.gettempdir())


if __name__ == "__main__":
    sys.exit(main())
