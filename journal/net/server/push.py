"""
Push: leases that are delivered over the stream as entries fall due, to consumers that are free and healthy.

    SUBSCRIBE ─► the consumer's own active leases first ─► whatever falls due, as long as there is credit ─► UNSUBSCRIBE, the end

P1  Nothing is claimed without credit, or for a consumer that is silent (journal.core.consumer.health): its entries go to other consumers.
P2  What is claimed is pushed, or given back at once when its connection has ended meanwhile. A lease that was pushed stays its consumer's
    until it ends: one that comes again under its name gets it first.
P3  Entries are dealt in turn, TURN at a time: a fast consumer cannot take everything.
P4  The last item of a subscription that cannot go on, since its journal is no more, is the error, whatever its credit is.
P5  A lease counts against its consumer when it expired. One that was ended in time was answered, whether by the consumer on this
    connection, by its workers on other connections, or by the program that has the store.
"""

from __future__ import annotations

import logging
from collections import deque
from functools import partial
from typing import TYPE_CHECKING, Any

from journal.core.consumer.health import Health
from journal.core.requests.registry import COMMANDS
from journal.core.requests.types import range_of
from journal.engine.store import EngineStore
from journal.errors import ConnectionLost, Invalid, JournalError, NotFound
from journal.net.server.connection import Peer, steady_ms
from journal.net.server.due_notices import Watched, Watching
from journal.net.server.verbs.claims import claim_many, give_back
from journal.net.server.verbs.lists import own_leases
from journal.net.server.verbs.served_journal import Served, served_of
from journal.net.wire.auth import Grant
from journal.net.wire.values import error_to

if TYPE_CHECKING:
    from journal.net.server.dispatcher import Hub

log = logging.getLogger("journal.daemon")

TURN = 16
SILENT_MAX = 3
"""Leases that a consumer may leave unanswered, one after the other (as journal.Consumer has it)."""
EXPIRED_MAX = 64
TOKEN = 5
DEADLINE = 4
"""Columns of a lease on the wire."""
_OF_HOLDERS = frozenset(name for name, command in COMMANDS.items() if command.is_of_holder)


class PushSubscription:
    """What one connection gets of one journal."""

    def __init__(self, peer: Peer, number: int, watched: Watched, parameters: dict[str, Any]) -> None:
        self.peer = peer
        self.number = number
        self.watched = watched
        self.consumer: str = parameters["consumer"]
        self.claim = {
            name: parameters[name] for name in ("consumer", "lease", "buckets") if parameters.get(name) is not None
        }
        settings = watched.served.journal.settings
        self.health = Health(SILENT_MAX, parameters.get("lease") or settings.processing_timeout)
        self.first: deque[list[Any]] = deque()
        """Leases that it had before it came."""
        self.pushed: dict[int, int] = {}
        """Leases that are with the consumer: their deadlines, as far as is known here."""
        self.expired: deque[int] = deque()
        """The last ones that it let pass: it may still say something about them."""
        self.claimed = 0
        """Leases that wait for the disk before they are pushed."""

    @property
    def served(self) -> Served:
        """The journal."""
        return self.watched.served

    def room(self) -> int:
        """How many leases it can take (P1)."""
        return 0 if self.health.is_silent else self.peer.connection.credit(self.number) - self.claimed


class Pushing:
    """All subscriptions for leases. On the daemon's thread."""

    def __init__(self, hub: Hub, watching: Watching) -> None:
        self._hub = hub
        self._watching = watching
        self._of: dict[Peer, dict[int, PushSubscription]] = {}
        self._turns: dict[Watched, deque[PushSubscription]] = {}
        self._users: dict[Watched, Any] = {}
        self._holders: dict[tuple[str, int], PushSubscription] = {}
        """By journal and token: the subscription that has the lease, or had it and let it expire."""
        hub.own |= {"SUBSCRIBE": self._subscribe, "UNSUBSCRIBE": self._unsubscribe}
        hub.on_end.append(self._ended)
        hub.on_credit.append(self._credited)
        hub.on_drain.append(self._drained)
        watching.on_gone.append(self._gone)

    @property
    def count(self) -> int:
        """How many there are."""
        return sum(map(len, self._of.values()))

    # -- coming and going ---------------------------------------------------------------------------------------------

    def _subscribe(self, peer: Peer, number: int, journal: str, parameters: dict[str, Any]) -> Any:
        make = partial(_prepared, self._hub.store, journal, parameters, peer.connection.grant)
        return self._hub.later(peer, number, "SUBSCRIBE", make, partial(self._begin, peer, number, parameters))

    def _begin(self, peer: Peer, number: int, parameters: dict[str, Any], made: tuple[Served, list[Any]]) -> Any:
        served, own = made
        if peer.connection.is_ended:
            raise ConnectionLost("the connection has ended")
        subscribed = peer.connection.subscribe(number, parameters.get("credit") or 0)
        watched = self._watching.watch(served)
        subscription = PushSubscription(peer, subscribed, watched, parameters)
        if not any(other.consumer == subscription.consumer for other in self._turns.get(watched, ())):
            subscription.first.extend(own)
        self._of.setdefault(peer, {})[subscription.number] = subscription
        if watched not in self._turns:
            self._turns[watched] = deque()
            self._users[watched] = partial(self._deal, watched)
            watched.users.append(self._users[watched])
        self._turns[watched].append(subscription)
        self._hub.on_answer = self._answered
        return {"subscription": subscription.number}

    def _unsubscribe(self, peer: Peer, number: int, journal: str, parameters: dict[str, Any]) -> Any:
        subscription = self._of.get(peer, {}).pop(parameters["subscription"], None)
        if subscription is None:
            raise NotFound(f"this connection has no subscription {parameters['subscription']}")
        peer.connection.unsubscribe(subscription.number)
        self._remove(subscription)
        return None

    def _ended(self, peer: Peer) -> None:
        for subscription in self._of.pop(peer, {}).values():
            self._remove(subscription)

    def _remove(self, subscription: PushSubscription) -> None:
        watched = subscription.watched
        turns = self._turns[watched]
        turns.remove(subscription)
        for token in (*subscription.pushed, *subscription.expired):
            if self._holders.get((watched.name, token)) is subscription:
                del self._holders[watched.name, token]
        if not turns:
            del self._turns[watched]
            self._watching.forget(watched, self._users.pop(watched))
        else:
            self._watching.look_soon(watched)  # other consumers may take what it could not
        if not self.count:
            self._hub.on_answer = None

    # -- dealing ------------------------------------------------------------------------------------------------------

    def _credited(self, peer: Peer, number: int) -> None:
        subscription = self._of.get(peer, {}).get(number)
        if subscription is not None:
            subscription.health.asked()
            self._watching.look_soon(subscription.watched)

    def _drained(self, peer: Peer) -> None:
        for subscription in self._of.get(peer, {}).values():
            self._watching.look_soon(subscription.watched)

    def _gone(self, watched: Watched, error: JournalError) -> None:
        """The journal was dropped, or failed: the last item of each subscription is the error (P4)."""
        for subscription in list(self._turns.get(watched, ())):
            self._end(subscription, error)

    def _end(self, subscription: PushSubscription, error: JournalError) -> None:
        """It cannot go on (P4)."""
        peer = subscription.peer
        del self._of[peer][subscription.number]
        peer.connection.push_last(subscription.number, error_to(error), steady_ms())
        self._hub.touch(peer)
        self._remove(subscription)

    def _deal(self, watched: Watched, now: int) -> bool:
        """Push what is due to the subscriptions that have room, in turn (P3); whether there was something."""
        turns = self._turns[watched]
        idle, has_given = 0, False
        while idle < len(turns):
            subscription = turns[0]
            turns.rotate(-1)
            if self._give(subscription, now):
                idle, has_given = 0, True
            else:
                idle += 1
        return has_given

    def _give(self, subscription: PushSubscription, now: int) -> bool:
        """Give one subscription its turn; whether it may take more."""
        self._look_after(subscription, now)
        room = min(subscription.room(), TURN)
        if room < 1:
            return False
        if subscription.first:
            self._push(subscription, [subscription.first.popleft()], None)
            return True
        grant = subscription.peer.connection.grant
        leases: list[Any] = claim_many(subscription.served, {"n": room, **subscription.claim}, grant)["leases"]
        if not leases:
            return False
        if self._hub.has_waits:
            subscription.claimed += len(leases)
            self._hub.settle(partial(self._settled, subscription, leases))
        else:
            self._push(subscription, leases, None)
        return True  # fewer than there is room for may be what a frame holds: more may be due

    def _settled(self, subscription: PushSubscription, leases: list[Any], error: JournalError | None) -> None:
        subscription.claimed -= len(leases)
        self._push(subscription, leases, error)

    def _push(self, subscription: PushSubscription, leases: list[Any], error: JournalError | None) -> None:
        peer = subscription.peer
        if error is not None:
            log.warning("not_pushed journal=%s error=%s", subscription.watched.name, error)
            return
        try:
            is_sent = peer.connection.push(subscription.number, leases, steady_ms())
        except Invalid as e:  # no frame can hold it: the subscription ends with that error
            give_back(subscription.served.journal, leases)
            self._end(subscription, e)
            return
        if is_sent:
            time = self._hub.store.time
            for lease in leases:
                subscription.pushed[lease[TOKEN]] = time.running_at(lease[DEADLINE])
                self._holders[subscription.watched.name, lease[TOKEN]] = subscription
            self._hub.touch(peer)
        else:
            give_back(subscription.served.journal, leases)  # P2: the connection has ended

    # -- healthy consumers --------------------------------------------------------------------------------------------

    def _look_after(self, subscription: PushSubscription, now: int) -> None:
        """Leases that it let pass are counted against it (P5)."""
        leases = subscription.served.p.state.leases
        time = self._hub.store.time
        running = time.running()
        for token, deadline in list(subscription.pushed.items()):
            if deadline > running:
                continue
            held = leases.by_token.get(token)
            if held is not None and held.deadline > now:
                subscription.pushed[token] = time.running_at(held.deadline)  # it was extended
                continue
            del subscription.pushed[token]
            if held is None and token not in leases.expired_tokens:
                self._holders.pop((subscription.watched.name, token), None)
                subscription.health.heard(is_accepted=True)
                continue
            subscription.expired.append(token)
            if len(subscription.expired) > EXPIRED_MAX:
                self._holders.pop((subscription.watched.name, subscription.expired.popleft()), None)
            if subscription.health.lost(now):
                log.warning(
                    "consumer_silent consumer=%s journal=%s peer=%s",
                    subscription.consumer, subscription.watched.name, subscription.peer.name,
                )  # fmt: skip

    def _answered(self, peer: Peer, journal: str, command: str, parameters: dict[str, Any], is_accepted: bool) -> None:
        """Leases were answered: by the consumer itself, or by its workers on another connection (P5)."""
        if command not in _OF_HOLDERS:
            return
        heard = {each: None for each in self._of.get(peer, {}).values() if each.health.is_silent}
        for token in parameters.get("tokens") or [parameters.get("token")]:
            subscription = self._holders.get((journal, token))
            if subscription is None or not peer.connection.grant.may_act_as(subscription.consumer):
                continue
            heard[subscription] = None
            if command != "EXTEND":
                subscription.pushed.pop(token, None)
                if token not in subscription.expired:
                    self._holders.pop((journal, token), None)
        for subscription in heard:
            if subscription.health.heard(is_accepted=is_accepted):
                self._watching.look_soon(subscription.watched)


def _prepared(store: EngineStore, journal: str, parameters: dict[str, Any], grant: Grant) -> tuple[Served, list[Any]]:
    """On a worker's thread: the journal, with an index if it is claimed by buckets, and the leases that the consumer has already."""
    served = served_of(store, journal, grant)
    buckets = parameters.get("buckets")
    if buckets is not None:
        served.journal.claims.index(range_of(buckets))
    return served, own_leases(served, parameters["consumer"], grant)
