"""
What both ends of a connection have in common: bytes that wait to be sent, times by which something must happen, the end.

Z1  Nothing here reads a clock: `now` is an argument, milliseconds of a clock that only runs forward.
Z2  `deadline` is the next time at which `tick` has something to do; before it no call is needed, and an idle connection has one timer.
Z3  After the end nothing is taken in any more, and what was written before it can still be sent.
"""

from __future__ import annotations

from journal.errors import TimedOut
from journal.net.wire.frames import Decoder, Encoder, Frame, Pack
from journal.net.wire.limits import HELLO_BYTES_MAX, Limits


class Stream:
    """One end of a connection, without its socket."""

    def __init__(self, limits: Limits, now: int, pack: Pack | None = None) -> None:
        self.limits = limits
        self.outgoing = bytearray()
        """Send these bytes, then say how many were sent with `sent`."""
        self.is_ended = False
        self._idle_ms = limits.idle_ms
        self._send_ms = limits.send_ms
        self._decoder = Decoder(HELLO_BYTES_MAX)
        self._encode = Encoder(HELLO_BYTES_MAX, pack)
        self._hello_by: int | None = now + limits.hello_ms
        self._frame_by: int | None = None
        self._heard_by: int | None = None
        self._send_by: int | None = None
        self._stop_by: int | None = None

    @property
    def is_finished(self) -> bool:
        """Whether the socket can be closed: it has ended, and everything was sent."""
        return self.is_ended and not self.outgoing

    def sent(self, size: int, now: int) -> None:
        """So many bytes of `outgoing` were taken by the socket."""
        if size == len(self.outgoing):
            self.outgoing.clear()
            self._send_by = None
        elif size:
            del self.outgoing[:size]
            self._send_by = now + self._send_ms

    @property
    def deadline(self) -> int | None:
        """When `tick` must be called, if nothing comes before (Z2)."""
        times = self._send_by, self._hello_by, self._frame_by, self._heard_by, self._stop_by
        return min((time for time in times if time is not None), default=None)

    def _write(self, data: bytes, now: int) -> None:
        if not self.outgoing:
            self._send_by = now + self._send_ms
        self.outgoing += data

    def _send(self, frame: Frame, now: int) -> None:
        self._write(self._encode(frame), now)

    def _heard(self, now: int) -> None:
        if self._heard_by is not None:
            self._heard_by = now + self._idle_ms

    def _welcomed(self, frame_bytes_max: int, now: int) -> None:
        """The handshake is over: the other side is known, and may send more."""
        self._decoder.bytes_max = self._encode.bytes_max = frame_bytes_max
        self._hello_by = None
        self._heard_by = now + self._idle_ms

    def _part_began(self, now: int, *, has_part: bool, has_taken: bool) -> None:
        """A part of a frame must become a whole one in time, however many bytes of it trickle in."""
        if not has_part:
            self._frame_by = None
        elif self._frame_by is None or has_taken:
            self._frame_by = now + self.limits.frame_ms

    def _overdue(self, now: int) -> TimedOut | None:
        """What the other side did not do in time."""
        limits = self.limits
        for by, what in (
            (self._send_by, f"took nothing of {len(self.outgoing)} bytes for {limits.send_ms} ms"),
            (self._hello_by, f"did not finish the handshake within {limits.hello_ms} ms"),
            (self._frame_by, f"did not finish a frame within {limits.frame_ms} ms"),
            (self._heard_by, f"was silent for {self._idle_ms} ms"),
        ):
            if by is not None and by <= now:
                return TimedOut(f"the other side {what}")
        return None

    def _give_up_sending(self, now: int) -> None:
        """After the end: the other side takes no more."""
        if self._send_by is not None and self._send_by <= now:
            self.outgoing.clear()
            self._send_by = None

    def _end(self) -> None:
        """No time matters any more but that of the last bytes (Z3)."""
        self.is_ended = True
        self._hello_by = self._frame_by = self._heard_by = self._stop_by = None
