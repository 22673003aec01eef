"""
Run and look after a data pipeline that a file of TOML declares (docs/PIPELINES.md).

    journal pipeline check people.toml             validate it, reach source and sinks, show the picture; change nothing
    journal pipeline run people.toml               copy, then follow; Ctrl-C lets the sinks finish
    journal pipeline status people.toml            how far each sink is, and what stopped it
    journal pipeline show people.toml --from 9 --to 15
    journal pipeline next people.toml lake         deliver one message to a sink
    journal pipeline skip people.toml lake 14      acknowledge one message without sending it
    journal pipeline mark people.toml lake 15      all up to here is acknowledged
    journal pipeline replay people.toml lake 9     deliver again from here on
    journal pipeline stop people.toml
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from journal.cli.command import CliCommand, Declare, argument
from journal.cli.common import show
from journal.connect_or_open import connect_or_open
from journal.errors import Invalid
from spark_export.api.session import check_spark
from spark_export.pipelines.runtime.pipeline import Pipeline

if TYPE_CHECKING:
    from spark_export.pipelines.declaration import Declaration, SinkDeclaration
    from spark_export.pipelines.runtime.commit_log import CommitLog

FILE = argument("file", metavar="FILE", help="the declaration, in TOML")
SINK = argument("sink", metavar="SINK", help="the sink's name")
ID = argument("id", metavar="ID", type=int, help="the message's id")


def _check(args: argparse.Namespace, declared: Declaration) -> int:
    pipeline = Pipeline(args.file)
    found = pipeline.check(prepare=args.prepare)
    if args.json:
        sinks = [sink.name for sink in declared.sinks]
        show({"name": declared.name, "source": declared.source_type, "namespaces": found, "sinks": sinks})
        return 0
    print(pipeline)
    print(f"namespaces: {', '.join(found) or 'none match'}")
    return 0


def _run(args: argparse.Namespace, declared: Declaration) -> int:
    if args.no_spark:
        return _worked(args, None)
    from spark_export.cli.common import running

    with running(args.master, f"pipeline {declared.name}") as spark:
        return _worked(args, spark)


def _worked(args: argparse.Namespace, spark: Any) -> int:
    is_shown = sys.stderr.isatty() and not args.quiet
    before: dict[int, Any] = {}

    def progress(namespace: str, done: int, total: int | None) -> None:
        if is_shown:
            share = f" of about {total:,} ({done * 100 // total} %)" if total else ""
            print(f"\rcopying {namespace}: {done:,}{share}   ", end="", file=sys.stderr, flush=True)

    def started(run: Any) -> None:
        for number in (signal.SIGINT, signal.SIGTERM):
            before[number] = signal.signal(number, lambda *_: run.stop())

    try:
        report = Pipeline(args.file).run(
            spark, until_caught_up=args.until_caught_up, on_progress=progress, on_start=started
        )
    finally:
        for number, former in before.items():
            signal.signal(number, former)
    if is_shown:
        print(file=sys.stderr)
    if args.json:
        show({"last": report.last, "sinks": {name: one._asdict() for name, one in report.sinks.items()}})
    else:
        print(f"commit log: {report.last + 1:,} messages")
        for name, one in report.sinks.items():
            print(f"  {name}: at {one.position}" + (f", STOPPED: {one.error}" if one.error else ""))
    return 0 if all(one.error is None for one in report.sinks.values()) else 1


def _log_of(store: Any, declared: Declaration) -> CommitLog:
    from spark_export.pipelines.runtime.commit_log import CommitLog

    if f"pipeline-{declared.name}" not in store.journals():
        raise Invalid(f"pipeline {declared.name} has not run yet: there is no commit log of it in {declared.store}")
    return CommitLog(store, declared.name, [])


def _status(args: argparse.Namespace, declared: Declaration) -> int:
    with connect_or_open(declared.store) as store:
        commit_log = _log_of(store, declared)
        now, last = commit_log.pages.now(), commit_log.next_id - 1
        sinks = {}
        for sink in declared.sinks:
            offset = commit_log.offset(sink.name)
            behind = commit_log.after(offset.position, 1)
            sinks[sink.name] = {
                **offset._asdict(),
                "lag": last - offset.position,
                "lag_ms": max(0, now - behind[0].timestamp) if behind else 0,
            }
        states = {name: {"mode": one.mode, "position": one.position} for name, one in commit_log.states().items()}
        is_running = store.is_remote
    if args.json:
        show({"name": declared.name, "is_running": is_running, "last": last, "sinks": sinks, "namespaces": states})
        return 0
    print(f"pipeline {declared.name}: {'running' if is_running else 'stopped'}, commit log at {last}")
    for name, one in states.items():
        print(f"  namespace {name}: {one['mode']}, position {json.dumps(one['position'])}")
    for name, found in sinks.items():
        text = f"  sink {name}: at {found['position']}, behind by {found['lag']:,} messages and {found['lag_ms'] / 1000:.1f} s"
        if found["error"]:
            where = "a bulk" if found["failed_id"] is None else f"message {found['failed_id']}"
            text += f", STOPPED by {where}: {found['error']}"
        print(text)
    return 0


def _show(args: argparse.Namespace, declared: Declaration) -> int:
    from spark_export.pipelines.message import messages_of

    until = args.since + 99 if args.until is None else args.until
    if until < args.since:
        raise Invalid(f"--to {until} is before --from {args.since}: exchange them")
    with connect_or_open(declared.store) as store:
        commit_log = _log_of(store, declared)
        blocks = [one for one in commit_log.after(args.since - 1, until - args.since + 1) if one.first <= until]
        for message in messages_of(commit_log.tables(blocks)):
            if args.since <= message.id <= until:
                print(json.dumps(message._asdict(), default=str, ensure_ascii=True))
    return 0


def _stop(args: argparse.Namespace, declared: Declaration) -> int:
    from spark_export.pipelines.runtime.run import STOP

    with connect_or_open(declared.store) as store:
        if not store.is_remote:
            raise Invalid(f"pipeline {declared.name} is not running")
        _log_of(store, declared).offsets.put(STOP, os.getpid())
    print("asked to stop; the sinks finish what is in the commit log")
    return 0


def _operate(args: argparse.Namespace, declared: Declaration) -> int:
    found = [one for one in declared.sinks if one.name == args.sink]
    if not found:
        names = ", ".join(one.name for one in declared.sinks)
        raise Invalid(f"there is no sink {args.sink!r}: {args.file} has {names}")
    number = getattr(args, "id", None)
    with connect_or_open(declared.store) as store:
        if store.is_remote:
            raise Invalid(f"pipeline {declared.name} is running, or a daemon owns its store: stop it first")
        commit_log = _log_of(store, declared)
        if number is not None and not -1 <= number < commit_log.next_id:
            raise Invalid(f"there is no message {number}: the commit log ends at {commit_log.next_id - 1}")
        _changed(args, commit_log, found[0], declared)
        offset = commit_log.offset(args.sink)
    if args.json:
        show({"sink": args.sink, **offset._asdict()})
    else:
        print(f"sink {args.sink}: at {offset.position}")
    return 0


def _changed(args: argparse.Namespace, commit_log: CommitLog, sink: SinkDeclaration, declared: Declaration) -> None:
    offset = commit_log.offset(sink.name)
    match args.verb:
        case "next":
            _deliver(args, commit_log, sink, declared)
        case "skip":
            if args.id <= offset.position:
                raise Invalid(f"message {args.id} is acknowledged already: the sink is at {offset.position}")
            commit_log.save(sink.name, offset._replace(skipped=(*offset.skipped, args.id)))
        case "mark":
            commit_log.save(sink.name, offset._replace(position=args.id, failed_id=None, error=None))
        case "replay":
            oldest = commit_log.blocks[0].first if commit_log.blocks else commit_log.next_id
            if args.id < oldest:
                raise Invalid(f"message {args.id} is no longer in the commit log: the oldest is {oldest}")
            commit_log.save(sink.name, offset._replace(position=args.id - 1, failed_id=None, error=None))


def _deliver(
    args: argparse.Namespace, commit_log: CommitLog, declared_sink: SinkDeclaration, declared: Declaration
) -> None:
    from spark_export.pipelines.runtime.sink_loop import SinkLoop

    sink = Pipeline(args.file).parts()[1][declared_sink.name]
    loop = SinkLoop(commit_log, declared_sink, sink, batch=1)
    try:
        sink.start(None, declared.name, declared_sink.name)
        loop.prepare()
        offset = loop.offset
        commit_log.save(declared_sink.name, offset._replace(single_until=max(offset.single_until, offset.position + 1)))
        loop.prepare()
        if not loop.step():
            raise Invalid(f"sink {declared_sink.name} has everything: nothing is next")
    finally:
        sink.close()


def _verb(name: str, text: str, work: Callable[[argparse.Namespace, Declaration], int], *more: Declare) -> CliCommand:
    def run(args: argparse.Namespace) -> int:
        check_spark(is_needed=False)
        from spark_export.pipelines.declaration import read_declaration

        return work(args, read_declaration(args.file))

    return CliCommand(name, text, (FILE, *more), run)


VERBS = (
    _verb(
        "check", "Validate the declaration, reach source and sinks, and draw the pipeline; nothing is changed.", _check,
        argument("--prepare", action="store_true", help="set up first what the source needs for sync, such as triggers"),
    ),
    _verb(
        "run", "Copy, then follow. Ctrl-C, SIGTERM and `journal pipeline stop` let the sinks finish.", _run,
        argument("--until-caught-up", action="store_true", help="end when nothing is new"),
        argument("--no-spark", action="store_true", help="make every batch on this machine, without Spark"),
        argument("--master", default="local[*]", help="Spark's master (local[*])"),
        argument("--quiet", action="store_true", help="no progress"),
    ),
    _verb("status", "How far the namespaces and the sinks are, and what stopped a sink.", _status),
    _verb(
        "show", "Messages of the commit log, as JSON lines.", _show,
        argument("--from", dest="since", metavar="ID", type=int, default=0, help="the first message (0)"),
        argument("--to", dest="until", metavar="ID", type=int, help="the last message (99 behind the first)"),
    ),
    _verb("next", "Deliver one message to a sink of a pipeline that is stopped.", _operate, SINK),
    _verb("skip", "Acknowledge one message without sending it.", _operate, SINK, ID),
    _verb("mark", "Set a sink's offset: all up to this message is acknowledged.", _operate, SINK, ID),
    _verb("replay", "Deliver again to a sink, from this message on.", _operate, SINK, ID),
    _verb("stop", "Ask a run to end; its sinks finish what is in the commit log.", _stop),
)  # fmt: skip
