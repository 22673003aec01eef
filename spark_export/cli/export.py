"""
Write the entries of a journal to files, with Spark: parquet, csv, json, orc, …

The target is a new directory, with a manifest (_manifest.json) that says at which cursor it shows the journal. With --since only what has
changed after a cursor, or after an earlier export, is written, and keys that are gone are marked.

    journal export work.journal pages exports/full --hold nightly
    journal export work.journal pages exports/monday --since exports/full --hold nightly
"""

from __future__ import annotations

import argparse
import json
import sys
import warnings

from journal.cli.command import JOURNAL
from spark_export.errors import LEFT_OUT
from spark_export.options.common import DECODES, STATUSES


def arguments(sub: argparse.ArgumentParser) -> None:
    """Declare them."""
    JOURNAL(sub)
    sub.add_argument("target", metavar="TARGET", help="the directory: a path, or an address that Spark can write to")
    sub.add_argument("--format", default="parquet", help="any that Spark writes (parquet)")
    sub.add_argument(
        "--partition-by", metavar="COLUMN", action="append", default=[], help="a column that becomes directories"
    )
    sub.add_argument("--since", metavar="CURSOR|DIRECTORY", help="only what has changed after this cursor or export")
    sub.add_argument(
        "--hold", metavar="NAME", help="have the log kept from here on, under this name, for the next --since"
    )
    sub.add_argument("--replace", action="store_true", help="replace a target that is there")
    sub.add_argument("--status", choices=STATUSES, help="only these; available: waiting, and due")
    sub.add_argument("--priority", metavar="LIST", help="only these priorities, as in 0-9,50")
    sub.add_argument("--from", metavar="DATE", help="only with this process date or a later one")
    sub.add_argument("--to", metavar="DATE", help="only with a process date before this one")
    sub.add_argument("--key-prefix", metavar="TEXT", help="only text keys that begin with this")
    sub.add_argument("--columns", metavar="LIST", help="only these columns, with commas between them")
    sub.add_argument(
        "--decode", choices=DECODES, help="how the data comes: fields of the schema, JSON, or msgpack bytes"
    )
    sub.add_argument(
        "--option", metavar="NAME=VALUE", action="append", default=[], help="an option for the format's writer"
    )
    sub.add_argument("--partitions", type=int, metavar="N", help="into how many parts it is divided (by its size)")
    sub.add_argument("--master", default="local[*]", help="where Spark runs (local[*], all cores of this machine)")


def run(args: argparse.Namespace) -> int:
    """Do it."""
    from spark_export.cli.common import pairs, running

    read = {
        name: getattr(args, name) for name in ("status", "priority", "from", "to", "key_prefix", "columns", "decode")
    }
    with running(args.master, app=f"journal export {args.journal}") as spark, warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=rf"\[{LEFT_OUT}\]")  # told below
        from spark_export.api.export import export

        manifest = export(
            args.store,
            args.journal,
            args.target,
            format=args.format,
            partition_by=args.partition_by,
            since=args.since,
            hold=args.hold,
            replace=args.replace,
            read=read,
            options=pairs(args.option),
            partitions=args.partitions,
            spark=spark,
            progress=False if args.json else None,
        )
    if args.json:
        print(json.dumps(json.loads(manifest.to_json()), ensure_ascii=False))
    else:
        gone = f", {manifest.deleted:,} of them deleted" if manifest.since is not None else ""
        print(
            f"{manifest.rows:,} rows{gone}, {len(manifest.files)} files, {manifest.bytes:,} bytes in {args.target}, "
            f"up to cursor {manifest.cursor}"
        )
        if manifest.left_out is not None:
            print(f"journal: [{LEFT_OUT}] {manifest.left_out}", file=sys.stderr)
    return 0
