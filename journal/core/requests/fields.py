"""The fields of requests: Python's type of each, with the type of the protocol (journal.core.requests.types) that it carries."""

from __future__ import annotations

from typing import Annotated, Any

from journal.core.buckets import Range
from journal.core.entry.keys import UserKey
from journal.core.log.cursor import Cursor
from journal.core.requests import types
from journal.core.snapshot_blocks import KeyRange

Key = Annotated[UserKey, types.KEY]
Keys = Annotated[list[UserKey], types.list_of(types.KEY)]
Prefix = Annotated[UserKey, types.PREFIX]
Packed = Annotated[Any, types.PACKED]
"""A value in the request of a program, packed bytes in one that came over the wire."""
Priority = Annotated[int, types.PRIORITY]
Date = Annotated[int, types.DATE]
Duration = Annotated[int, types.DURATION]
LeaseTime = Annotated[int, types.LEASE]
Span = Annotated[int, types.SPAN]
Owner = Annotated[str, types.OWNER]
Version = Annotated[int, types.VERSION]
Token = Annotated[int, types.TOKEN]
Tokens = Annotated[list[int], types.list_of(types.TOKEN)]
Consumer = Annotated[str, types.CONSUMER]
FeedConsumer = Annotated[str, types.FEED_CONSUMER]
Buckets = Annotated[Range, types.BUCKETS]
Level = Annotated[str, types.LEVEL]
Status = Annotated[str, types.STATUS]
Limit = Annotated[int, types.LIMIT]
Count = Annotated[int, types.COUNT]
Credit = Annotated[int, types.CREDIT]
Steps = Annotated[int, types.STEPS]
After = Annotated[bytes, types.AFTER]
BuriedAfter = Annotated[bytes, types.BURIED_AFTER]
Flagged = Annotated[str, types.FLAG]
Reason = Annotated[str, types.REASON]
Text = Annotated[str, types.TEXT]
Bool = Annotated[bool, types.BOOL]
Map = Annotated[dict[str, Any], types.MAP]
CursorField = Annotated[Cursor, types.CURSOR]
Cursors = Annotated[list[Cursor], types.list_of(types.CURSOR)]
Start = Annotated[str | Cursor, types.START]
Subscription = Annotated[int, types.ID]
Listener = Annotated[int, types.ID]
SnapshotName = Annotated[str, types.PLACES]
Service = Annotated[str, types.PLACES]
JournalName = Annotated[str, types.PLACES]
Ranges = Annotated[list[KeyRange], types.RANGES]
PartsCount = Annotated[int, types.PARTS]
Load = Annotated[str, types.LOAD]
LoadPartName = Annotated[str, types.PART]
LoadPartNames = Annotated[list[str], types.list_of(types.PART)]
PlaceInPart = Annotated[int, types.PLACE_IN_PART]
Piece = Annotated[bytes, types.PIECE]
Once = Annotated[tuple[str, int], types.ONCE]
OnConflict = Annotated[str, types.ON_CONFLICT]
OnReject = Annotated[str, types.ON_REJECT]
