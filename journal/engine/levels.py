"""How durable a call asked its record to be: on disk, with the operating system, or in our buffer."""

from __future__ import annotations

FULL, OS, NONE = 2, 1, 0
LEVELS = {"full": FULL, "interval": OS, "none": NONE}
