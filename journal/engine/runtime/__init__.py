"""
What runs by itself: the background thread, the clock and its watch, alarms, the places where workers sleep, the size of a step.

May import journal.core, journal.errors and journal.threads, and no other package of the engine but for types.
"""
