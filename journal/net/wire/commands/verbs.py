"""
The verbs of the library as commands. Rows of the table, see journal.net.wire.commands.command.

A reply never waits for anything but the disk, since replies come in the order of the requests: what waits for work is pushed.
`result`, `lease`, `entry` … are the values of journal.net.wire.values. Long lists come in parts that fit into a frame: `after` of a reply
asks for the next part, null says that it was the last.
"""

from __future__ import annotations

from journal.net.wire.commands import types as p
from journal.net.wire.commands.command import ADMIN, CONSUME, KNOWN, PRODUCE, Command, Retry, Role, Scope, command
from journal.net.wire.commands.types import Kind, Parameter, Parameters, one_of_group

_JOURNAL = Scope.JOURNAL
_DAEMON = Scope.DAEMON


def _need(name: str, kind: Kind) -> Parameter:
    return Parameter(name, kind, is_required=True)


_LEVEL = Parameter("durability", p.LEVEL)
_KEY = _need("key", p.KEY)
_TOKEN = _need("token", p.TOKEN)
_OWNER = Parameter("owner", p.OWNER)
_VERSION = Parameter("version", p.VERSION)
_CONSUMER = Parameter("consumer", p.CONSUMER)
_BUCKETS = Parameter("buckets", p.BUCKETS)
_REPEATABLE = Parameter("is_repeatable", p.BOOL)
_LEASE = Parameter("lease", p.LEASE)
_SUBSCRIPTION = _need("subscription", p.ID)
_SNAPSHOT = _need("snapshot", p.PLACES)
_STATUS = Parameter("status", p.STATUS)
_PAGE = (Parameter("after", p.BYTES), Parameter("limit", p.COUNT))
"""A part of a long list: `after` of a reply asks for the next part; null: that was the last."""
_RANGE = (_STATUS, Parameter("since", p.DATE), Parameter("until", p.DATE))
_NEW = (
    Parameter("key", p.KEY),
    _need("data", p.PACKED),
    Parameter("priority", p.PRIORITY),
    Parameter("process_date", p.DATE),
    Parameter("delay", p.DURATION),
    Parameter("expiration", p.DATE),
    Parameter("insertion_date", p.DATE),
    _OWNER,
)
_PUT = (*_NEW, _VERSION)
_MOVE = (
    _KEY,
    Parameter("process_date", p.DATE),
    Parameter("delay", p.DURATION),
    Parameter("priority", p.PRIORITY),
    _OWNER,
    _VERSION,
)
_DELETE = (_KEY, _OWNER, _VERSION)
_SELECT = (*_RANGE, _OWNER, _CONSUMER, _BUCKETS)
_PRODUCE_OR_CONSUME = frozenset({Role.PRODUCE, Role.CONSUME})
_ENTRIES = "{entries: [entry], after: bytes or null}"


def _group(name: str, item: str, fields: tuple[Parameter, ...]) -> Parameter:
    return _need(name, p.list_of(one_of_group(item, Parameters(fields))))


_ONE_PUT = one_of_group("put", Parameters(_PUT))
_PUTS = _group("puts", "put", _PUT)

PRODUCING: tuple[Command, ...] = (
    command(
        "PUT", _JOURNAL, PRODUCE, Retry.KEY, (*_PUT, _LEVEL), "result",
        "Adds an entry or merges it into the one with this key. Without a key: the journal's schema forms it. With a version: "
        "`version_mismatch` when the entry has another one; 0: when there is one. Such a put is not sent again to another daemon.",
    ),
    command(
        "PUT_MANY", _JOURNAL, PRODUCE, Retry.KEY, (_PUTS, _LEVEL), "[result or error]",
        "A group: one record, one sync. Each is a map with the parameters of PUT.",
    ),
    command(
        "CREATE", _JOURNAL, PRODUCE, Retry.REQUEST, (*_NEW, _REPEATABLE, _LEVEL), "result",
        "Adds an entry; `key_exists` when there is one. With `is_repeatable` one that has the same data and owner is no error: "
        "a program may ask again after `connection_lost`.",
    ),
    command(
        "CREATE_MANY", _JOURNAL, PRODUCE, Retry.REQUEST, (_PUTS, _REPEATABLE, _LEVEL), "[result or error]",
        "Creates a group: one record, one sync.",
    ),
    command(
        "MOVE", _JOURNAL, PRODUCE, Retry.REQUEST,
        (*_MOVE, _LEVEL), "result", "Another date or priority for an entry that is under no lease.",
    ),
    command(
        "MOVE_MANY", _JOURNAL, PRODUCE, Retry.REQUEST, (_group("moves", "move", _MOVE), _LEVEL), "[result or error]",
        "Moves a group: one record, one sync. Each is a map with the parameters of MOVE.",
    ),
    command(
        "DELETE", _JOURNAL, PRODUCE, Retry.REQUEST, (*_DELETE, _LEVEL), "bool",
        "Removes an entry that is under no lease; false when there is none.",
    ),
    command(
        "DELETE_MANY", _JOURNAL, PRODUCE, Retry.REQUEST, (_group("deletes", "delete", _DELETE), _LEVEL),
        "[bool or error]", "Deletes a group: one record, one sync. Each is a map with the parameters of DELETE.",
    ),
    command(
        "ENTRIES_OF", _JOURNAL, PRODUCE, Retry.ALWAYS, (_need("owner", p.OWNER), *_PAGE), _ENTRIES,
        "The entries of a producer group in the order of work, processing ones too.",
    ),
    command(
        "COUNT_OF", _JOURNAL, PRODUCE, Retry.ALWAYS, (_need("owner", p.OWNER),), "int",
        "How many entries a producer group has.",
    ),
)  # fmt: skip

_LOAD = _need("load", p.LOAD)

LOADING: tuple[Command, ...] = (
    command(
        "LOAD_BEGIN", _JOURNAL, PRODUCE, Retry.REQUEST, (), "{load}",
        "Begins a load whose parts come one by one, over any connections. It goes after an hour of silence, and with the daemon.",
    ),
    command(
        "LOAD_PART", _JOURNAL, PRODUCE, Retry.ALWAYS,
        (_LOAD, _need("part", p.PART), _need("at", p.PLACE_IN_PART), _need("piece", p.PIECE)), "int",
        "Adds a piece to a part, which is the bytes of a part file (docs/LOADS.md); how many it has now. A piece that came before is no "
        "error; an empty one only asks whether the load is there.",
    ),
    command(
        "LOAD_COMMIT", _JOURNAL, PRODUCE, Retry.REQUEST,
        (
            _LOAD, _need("parts", p.list_of(p.PART)), Parameter("on_conflict", p.ON_CONFLICT), Parameter("once", p.ONCE),
            Parameter("on_reject", p.ON_REJECT), _LEVEL,
        ),
        "loaded",
        "Loads all rows of these parts as one change. Repeated it is answered alike; with `once` also by a daemon that was restarted.",
    ),
    command(
        "LOAD_ABORT", _JOURNAL, PRODUCE, Retry.ALWAYS, (_LOAD,), "bool",
        "Gives a load up; false when there is none.",
    ),
)  # fmt: skip

CONSUMING: tuple[Command, ...] = (
    command(
        "CLAIM", _JOURNAL, CONSUME, Retry.REQUEST, (_CONSUMER, _LEASE, _LEVEL, _BUCKETS),
        "{lease: lease or null, next_due}",
        "Takes the next entry that is due. `next_due` says when to ask again, when there is none.",
    ),
    command(
        "CLAIM_MANY", _JOURNAL, CONSUME, Retry.REQUEST, (_need("n", p.COUNT), _CONSUMER, _LEASE, _LEVEL, _BUCKETS),
        "{leases: [lease], next_due}", "Takes up to n entries; fewer when a frame holds no more.",
    ),
    command(
        "CLAIM_KEY", _JOURNAL, CONSUME, Retry.REQUEST, (_KEY, _VERSION, _CONSUMER, _LEASE, _LEVEL), "lease",
        "Takes the entry with this key, whatever comes before it; `not_found`, `leased`, `version_mismatch` or `not_due`.",
    ),
    command(
        "DONE", _JOURNAL, CONSUME, Retry.TOKEN, (_TOKEN, Parameter("next", _ONE_PUT), _LEVEL), "null, or result with `next`",
        "The work is finished: the entry goes, and `next`, a map with the parameters of PUT, is put, both or none; that needs the role "
        "produce too. Repeating it is harmless: the outcome is `repeated`.",
    ),
    command(
        "DONE_MANY", _JOURNAL, CONSUME, Retry.TOKEN,
        (_need("tokens", p.list_of(p.TOKEN)), Parameter("nexts", p.list_of(p.or_null(_ONE_PUT))), _LEVEL), "[result, error or null]",
        "Finishes many with one record. `nexts`: for each token the map of the put that comes next, or null.",
    ),
    command(
        "EXTEND", _JOURNAL, CONSUME, Retry.TOKEN, (_TOKEN, _LEASE), "{deadline, version}",
        "More time, from now on; never less than it has.",
    ),
    command(
        "RELEASE", _JOURNAL, CONSUME, Retry.REQUEST,
        (
            _TOKEN, Parameter("delay", p.DURATION), Parameter("process_date", p.DATE), Parameter("priority", p.PRIORITY),
            Parameter("failed", p.BOOL), _LEVEL,
        ),
        "null", "Gives the entry back: it waits again, now or later, with its priority or another one. `failed`: an attempt that counts.",
    ),
    command(
        "BURY", _JOURNAL, CONSUME, Retry.REQUEST, (_TOKEN, Parameter("reason", p.TEXT), _LEVEL), "null",
        "Gives the entry up; it is kept apart.",
    ),
    command(
        "LEASE", _JOURNAL, CONSUME, Retry.ALWAYS, (_TOKEN,), "lease",
        "The active lease of a token, as it is now; `lease_lost` when there is none any more.",
    ),
    command(
        "LEASES", _JOURNAL, CONSUME, Retry.ALWAYS, (_CONSUMER, *_PAGE), "{leases: [lease], after: bytes or null}",
        "The active leases of a consumer: after a restart it finds its own here. Of all: admin.",
    ),
    command(
        "SUBSCRIBE", _JOURNAL, CONSUME, Retry.CONNECTION, (_CONSUMER, _LEASE, _BUCKETS, Parameter("credit", p.CREDIT)),
        "{subscription}", "Leases are pushed as entries fall due, as many as there is credit for.",
    ),
    command(
        "UNSUBSCRIBE", _JOURNAL, CONSUME, Retry.CONNECTION, (_SUBSCRIPTION,), "null",
        "No more leases are pushed; what was pushed is still leased.",
    ),
)  # fmt: skip

READING: tuple[Command, ...] = (
    command("GET", _JOURNAL, _PRODUCE_OR_CONSUME, Retry.ALWAYS, (_KEY,), "entry or null", "The entry with this key."),
    command(
        "GET_MANY", _JOURNAL, _PRODUCE_OR_CONSUME, Retry.ALWAYS, (_need("keys", p.list_of(p.KEY)),), "[entry or null]",
        "The entries with these keys, in order; fewer than keys when it is too much for one reply: ask for the rest.",
    ),
    command(
        "SELECT", _JOURNAL, _PRODUCE_OR_CONSUME, Retry.ALWAYS, (*_SELECT, *_PAGE), _ENTRIES,
        "Entries in the order of work, of which all that is given holds.",
    ),
    command(
        "SCAN", _JOURNAL, _PRODUCE_OR_CONSUME, Retry.ALWAYS,
        (*_RANGE, *_PAGE), _ENTRIES, "Entries in the order of work.",
    ),
    command(
        "COUNT", _JOURNAL, _PRODUCE_OR_CONSUME, Retry.ALWAYS, _SELECT, "int",
        "How many entries there are, of which all that is given holds.",
    ),
    command(
        "FORECAST", _JOURNAL, KNOWN, Retry.ALWAYS,
        (Parameter("step", p.SPAN), Parameter("horizon", p.SPAN), Parameter("since", p.DATE)), "forecast",
        "How many entries fall due in each of the coming steps, by priority and status.",
    ),
    command(
        "STATISTICS", _JOURNAL, KNOWN, Retry.ALWAYS, (), "map", "Counters and sizes of a journal.",
    ),
    command(
        "SETTINGS", _JOURNAL, KNOWN, Retry.ALWAYS, (), "map",
        "How a journal behaves, with its schema; `union`: all fields that its data may have.",
    ),
    command("GENERATIONS", _JOURNAL, KNOWN, Retry.ALWAYS, (), "[generation]", "The periods of a journal."),
    command(
        "DISTANCE", _JOURNAL, KNOWN, Retry.ALWAYS, (_need("a", p.CURSOR), _need("b", p.CURSOR)), "int",
        "How many changes come after a, up to b.",
    ),
    command(
        "SHIFT", _JOURNAL, KNOWN, Retry.ALWAYS, (_need("cursor", p.CURSOR), _need("n", p.STEPS)), "cursor",
        "The cursor n changes later, or earlier.",
    ),
    command("LAG", _JOURNAL, KNOWN, Retry.ALWAYS, (_need("cursor", p.CURSOR),), "int", "How many changes come after it."),
    command(
        "OLDEST_CURSOR", _JOURNAL, KNOWN, Retry.ALWAYS, (), "cursor",
        "The oldest cursor from which all changes can be read.",
    ),
    command("DURABLE_CURSOR", _JOURNAL, KNOWN, Retry.ALWAYS, (), "cursor", "The last change that is on disk."),
    command(
        "WAIT_DURABLE", _JOURNAL, KNOWN, Retry.ALWAYS, (_need("cursor", p.CURSOR),), "null",
        "Answered when the change at this cursor, and all before it, are on disk.",
    ),
)  # fmt: skip

SNAPSHOTS: tuple[Command, ...] = (
    command(
        "SNAPSHOT_OPEN", _JOURNAL, CONSUME, Retry.REQUEST, (),
        "{snapshot, cursor, taken, size, schema: map or null}",
        "Copies all entries as they are now. The copy goes when it is closed, or when nobody has read of it for five minutes.",
    ),
    command(
        "SNAPSHOT_SPLIT", _JOURNAL, CONSUME, Retry.ALWAYS, (_SNAPSHOT, _need("parts", p.PARTS), _need("ranges", p.RANGES)),
        "{ranges, at: [bytes]}",
        "Those of the ranges that have entries, and the primary keys between parts of about the same size.",
    ),
    command(
        "SNAPSHOT_READ", _JOURNAL, CONSUME, Retry.ALWAYS, (_SNAPSHOT, _need("ranges", p.RANGES)), "block",
        "The first entries of the ranges, as many as fit into a frame. Ask for what comes after the last of them, until there is none.",
    ),
    command(
        "SNAPSHOT_CLOSE", _JOURNAL, CONSUME, Retry.ALWAYS, (_SNAPSHOT,), "null",
        "Removes a copy; one that is gone already is no error.",
    ),
)  # fmt: skip

FOLLOWING: tuple[Command, ...] = (
    command(
        "CHANGES", _JOURNAL, CONSUME, Retry.ALWAYS,
        (_need("after", p.CURSOR), _need("until", p.CURSOR), Parameter("limit", p.COUNT)),
        "{events: [event], after: cursor or null, blank: map or null}",
        "The changes after one cursor, up to and with that of another, without a feed.",
    ),
    command(
        "FEED_OPEN", _JOURNAL, CONSUME, Retry.CONNECTION,
        (
            Parameter("consumer", p.FEED_CONSUMER), Parameter("start", p.START), Parameter("live", p.BOOL),
            Parameter("copy", p.BOOL), Parameter("flush", p.DURATION), Parameter("unacked_max", p.COUNT),
            Parameter("credit", p.CREDIT),
        ),
        "{subscription, position: cursor, again: cursor, blank: map or null}",
        "Opens a feed. With credit its events are pushed; without, FEED_NEXT asks for them. What comes up to `again` was delivered before: "
        "one at a time.",
    ),
    command(
        "FEED_NEXT", _JOURNAL, CONSUME, Retry.CONNECTION, (_SUBSCRIPTION, _need("n", p.COUNT)),
        "{events: [event], is_end}", "The next events that are there, up to n; none is not the end of a live feed.",
    ),
    command(
        "FEED_ACK", _JOURNAL, CONSUME, Retry.CONNECTION, (_SUBSCRIPTION, _need("cursors", p.list_of(p.CURSOR))),
        "{position: cursor, unacked}", "Acknowledges changes.",
    ),
    command(
        "FEED_FAIL", _JOURNAL, CONSUME, Retry.CONNECTION, (_SUBSCRIPTION, Parameter("cursors", p.list_of(p.CURSOR))),
        "{again: cursor}", "What was not acknowledged comes again, one at a time, up to that cursor.",
    ),
    command("FEED_CLOSE", _JOURNAL, CONSUME, Retry.CONNECTION, (_SUBSCRIPTION,), "null", "Ends a feed."),
    command(
        "FEEDS", _JOURNAL, KNOWN, Retry.ALWAYS, _PAGE, "{feeds: [feed], after: bytes or null}",
        "The feed consumers of a journal.",
    ),
    command(
        "FEED_REMOVE", _JOURNAL, ADMIN, Retry.REQUEST, (_need("consumer", p.FEED_CONSUMER),), "null",
        "Forgets a feed consumer.",
    ),
    command(
        "FEED_MARK", _JOURNAL, ADMIN, Retry.ALWAYS,
        (_need("consumer", p.FEED_CONSUMER), _need("cursor", p.CURSOR)), "null", "Sets a feed consumer's position.",
    ),
    command(
        "FEED_SKIP", _JOURNAL, ADMIN, Retry.REQUEST,
        (_need("consumer", p.FEED_CONSUMER), _need("cursor", p.CURSOR)), "bool",
        "Acknowledges one change for a feed consumer.",
    ),
)  # fmt: skip

KEEPING: tuple[Command, ...] = (
    command(
        "OWNERS", _JOURNAL, ADMIN, Retry.ALWAYS, _PAGE, "{owners: [[text, int]], after: bytes or null}",
        "The producer groups that have entries, and how many.",
    ),
    command(
        "RAISE_FLAG", _JOURNAL, _PRODUCE_OR_CONSUME, Retry.REQUEST,
        (_need("name", p.FLAG), _need("message", p.TEXT), _LEVEL), "null",
        "Has a person look at something: raises a flag, or raises it once more.",
    ),
    command(
        "PAUSE", _JOURNAL, ADMIN, Retry.ALWAYS, (Parameter("reason", p.TEXT), _LEVEL), "null",
        "Nothing is handed out until RESUME, by claims, pushes or LISTEN; all else goes on. Asked again it has another reason.",
    ),
    command(
        "RESUME", _JOURNAL, ADMIN, Retry.REQUEST, (_LEVEL,), "bool",
        "What is due is handed out again; false when the journal was not paused.",
    ),
    command(
        "BURIED", _JOURNAL, ADMIN, Retry.ALWAYS, (Parameter("prefix", p.PREFIX), Parameter("reason", p.TEXT), *_PAGE),
        "{buried: [buried], after: bytes or null}",
        "The entries that were given up on, in the order of burial; those whose key begins so, and whose reason has this text.",
    ),
    command("RETRY", _JOURNAL, ADMIN, Retry.REQUEST, (_KEY, _LEVEL), "result", "Lets a buried entry wait again."),
    command(
        "RETRY_MANY", _JOURNAL, ADMIN, Retry.REQUEST, (_need("keys", p.list_of(p.KEY)), _LEVEL), "[result or error]",
        "Lets many wait again: one record, one sync.",
    ),
    command("DISCARD", _JOURNAL, ADMIN, Retry.REQUEST, (_KEY, _LEVEL), "null", "Deletes a buried entry."),
    command("ROTATE", _JOURNAL, ADMIN, Retry.REQUEST, (), "generation", "Begins a new generation."),
    command("COMPACT", _JOURNAL, ADMIN, Retry.REQUEST, (), "compacted", "Compacts the log now."),
    command(
        "DECLARE", _JOURNAL, ADMIN, Retry.ALWAYS, (Parameter("settings", p.MAP),), "map",
        "Declares a journal, or changes its settings; answers all of them.",
    ),
    command("DROP", _JOURNAL, ADMIN, Retry.REQUEST, (), "null", "Deletes a journal with all that is in it."),
    command(
        "JOURNALS", _DAEMON, KNOWN, Retry.ALWAYS, _PAGE, "{journals: [text], after: bytes or null}",
        "The journals that the identity may see.",
    ),
    command(
        "MERGED", _DAEMON, ADMIN, Retry.ALWAYS, (Parameter("settings", p.MAP),), "map",
        "The settings that merged journals have together, after changing those that are given; for who may see `_merged`.",
    ),
    command(
        "FLAGS", _DAEMON, ADMIN, Retry.ALWAYS, (), "[flag]",
        "What a person must look at, on the journals that the identity may see.",
    ),
    command(
        "LOWER", _DAEMON, ADMIN, Retry.REQUEST, (_need("journal", p.PLACES), _need("name", p.FLAG)), "null",
        "A person has looked: takes a flag down.",
    ),
    command(
        "STORE_STATISTICS", _DAEMON, ADMIN, Retry.ALWAYS, (), "map",
        "Counters and sizes of the store, and of the journals that the identity may see.",
    ),
    command("CHECKPOINT", _DAEMON, ADMIN, Retry.ALWAYS, (), "null", "Commits everything for readers outside."),
    command(
        "BACKUP", _DAEMON, ADMIN, Retry.REQUEST, (_need("path", p.TEXT),), "null",
        "Begins a backup in a directory of the daemon's machine, by its absolute path; for who may see all journals. One at a time.",
    ),
    command(
        "BACKUP_STATE", _DAEMON, ADMIN, Retry.ALWAYS, (), "{done, total, backup: backup or null}",
        "How many bytes of how many are done of the last backup, and what it came to: an error, or null while it is made.",
    ),
    command(
        "CHECK", _DAEMON, ADMIN, Retry.ALWAYS, (Parameter("deep", p.BOOL),), "[text]",
        "Recomputes every index and counter of the journals that the identity may see; what differs, in words.",
    ),
)  # fmt: skip

ROWS: tuple[Command, ...] = (*PRODUCING, *LOADING, *CONSUMING, *READING, *SNAPSHOTS, *FOLLOWING, *KEEPING)
GROUPS: dict[str, tuple[Command, ...]] = {
    "Producing": PRODUCING,
    "Loading": LOADING,
    "Consuming": CONSUMING,
    "Reading": READING,
    "Snapshots": SNAPSHOTS,
    "Following": FOLLOWING,
    "Keeping": KEEPING,
}

NOT_COMMANDS: dict[str, str] = {
    "name": "a client knows what it asks about",
    "schema": "stands in SETTINGS",
    "shows_all": "a daemon shows all; a look at a store's files may not",
    "now": "PING tells the daemon's time",
    "measure_drift": "the daemon measures, with what PING carries",
    "load": "LOAD_BEGIN, LOAD_PART for each piece, LOAD_COMMIT",
    "wake": "wakes threads of one process",
    "work": "SUBSCRIBE, or CLAIM with LISTEN: a reply waits for no work",
}
"""What else a Journal has, and what stands in its place."""
STORE_NOT_COMMANDS: dict[str, str] = {
    "path": "where the daemon keeps its files is its own business",
    "close": "STOP ends the daemon, which closes its store",
    "drifts": "stands in STORE_STATISTICS",
    "serve": "the daemon does that already",
}
"""What else a Store has, and what stands in its place."""
