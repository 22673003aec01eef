"""The queues we compare with, one file each. See `peer.py` for what an adapter may do."""

from benchmarks.peers import beanstalkd, huey, litequeue, persist_queue
from benchmarks.peers.peer import Peer, Setting

SETTINGS: tuple[Setting, ...] = (
    *persist_queue.SETTINGS,
    *huey.SETTINGS,
    *litequeue.SETTINGS,
    *beanstalkd.SETTINGS,
)

__all__ = ["SETTINGS", "Peer", "Setting"]
