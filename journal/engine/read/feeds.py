"""
The following side of a journal: feeds over its log, and their consumers as an operator sees them.

A named consumer holds the log until it has acknowledged it: if one never returns, the log grows for ever. So they are
listed, with what each of them holds, and can be moved on or removed.
"""

from __future__ import annotations

from journal.api.backend import FeedOptions
from journal.core.log.cursor import Cursor
from journal.engine.feed.changes import check_life
from journal.engine.feed.consumer import Consumers, FeedConsumer, start_of
from journal.engine.feed.feed import EngineFeed
from journal.engine.pipeline import Pipeline
from journal.errors import ReadOnly


def open_feed(p: Pipeline, consumers: Consumers, options: FeedOptions) -> EngineFeed:
    """A feed over the log, for a consumer that is remembered or for none."""
    p.check_open()
    start, copy = options.start, options.copy
    if not p.is_writable and (options.consumer is not None or options.live):
        raise ReadOnly(
            "the store was opened with readonly=True: only a feed with live=False and without a consumer is possible"
        )

    def make(known: FeedConsumer | None, after: Cursor) -> EngineFeed:
        return EngineFeed(
            p, consumers, known, after, is_live=options.live, unacked_max=options.unacked_max, is_waiting=options.wait_acks
        )  # fmt: skip

    if options.consumer is None:
        check_life(p, start)
        with p.lock:
            return make(None, start_of(p, start))

    def open_known(known: FeedConsumer) -> EngineFeed:
        known.flush_ms = options.flush_ms
        return make(known, known.acks.position)

    return consumers.attach(options.consumer, "END" if copy else start, is_copy=copy, make=open_known)


def consumers_seen(p: Pipeline, consumers: Consumers) -> Consumers:
    """The feed consumers, as they are on disk in a store that another process owns."""
    p.check_open()
    if not p.is_writable:
        consumers.look()
    return consumers


def consumers_to_change(p: Pipeline, consumers: Consumers) -> Consumers:
    """The same, to change what they have acknowledged."""
    if not p.is_writable:
        raise ReadOnly("the store was opened with readonly=True: only its owner changes feed consumers")
    return consumers_seen(p, consumers)
