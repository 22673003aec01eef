"""Priorities by name: the smallest is handed out first (seed values of the journal table)."""

from __future__ import annotations

NOW = 0
IMPORTANT = 10
NEW_PAGE = 20
RESET = 50
DEFAULT = 100
UPDATES = 180
SLOW = 200
REVIEW = 230
TIME_ALLOWS = 255
