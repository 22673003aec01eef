"""The limits of everything, in one place. A value without a limit is a defect."""

from __future__ import annotations

KEY_BYTES_MAX = 1024
OWNER_BYTES_MAX = 255
CONSUMER_BYTES_MAX = 255
REASON_BYTES_MAX = 4096
FLAG_BYTES_MAX = 255
ENTRY_BYTES_MAX_DEFAULT = 1 << 20
ENTRY_BYTES_MAX_LIMIT = 1 << 27
GROUP_BYTES_MAX = 64 << 20
"""The changes of one put_many, claim_many or done_many are one record: it must fit into memory and a segment."""
GROUP_MAX = 100_000
LOAD_BYTES_MAX = 1 << 30
"""What the rows of one load take in its record, which must fit into memory some times over, in a file and in the map."""
LOAD_NAMES_MAX = 1024
"""Names of loads whose last number is remembered (`load_numbers`); the ones that were used longest ago go first."""
LOAD_NAME_BYTES_MAX = 255
LOAD_REJECTS_MAX = 4096
"""A load that has more wrong rows is refused as a whole: the list of those that were left out is always complete."""
STAGED_LOADS_MAX = 64
STAGED_PARTS_MAX = 10_000
STAGED_BYTES_MAX = 16 << 30
"""Loads of a store that are under way, the parts of each, and the bytes of all parts that wait in files."""
BLOCK_BYTES_MAX = 1 << 28
"""A load block holds at least one of the largest entries."""
RECORD_BYTES_MAX = LOAD_BYTES_MAX + (1 << 26)
"""A record holds at most two of the largest entries, a group, or a load: what is written can be read again."""
PRIORITY_MAX = 255
ORDINAL_MAX = 255
TIMEOUTS_MAX = 255
VERSION_MAX = (1 << 32) - 1
DATE_MAX = (1 << 63) - 1
"""Dates are u64 on disk; msgpack, SQL and Spark want them signed."""
DURATION_MAX = 1000 * 86_400_000 * 366
"""A thousand years: anything above is a unit that was mixed up."""
SEGMENT_BYTES_DEFAULT = 1 << 30
SEGMENT_BYTES_MIN = 1 << 16
SEGMENT_BYTES_LIMIT = 1 << 40
FINISHED_MAX = 1 << 15
"""Tokens of finished leases that are remembered, so that a repeated `done` succeeds."""
PAST_MAX = 4096
"""Generations that are gone and whose last offset is remembered, for the arithmetic of cursors."""
NEVER = 1 << 63
"""A date or a place in the log that does not come."""
CREDIT_MAX = 10_000
"""Leases or changes of one subscription that may be on their way."""
LIST_MAX = 16_384
"""Items of one list in a frame. An unpacker allocates room for as many as a header claims: this bounds it."""
TEXT_BYTES_MAX = 4096
"""Of a text in a frame that has no limit of its own."""
ID_MAX = (1 << 53) - 1
"""Of the numbers that the two sides of a connection give to requests and subscriptions."""
