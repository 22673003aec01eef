"""
A toy: a log of numbered records in segments, right or wrong on request, to test the power-cut simulator with.

Run as a program it appends `count` records and writes a mark for each one that it promises to keep. `recover` tells which records a
directory still holds. The mistakes are the classic ones: `MISTAKES` names them.
"""

from __future__ import annotations

import os
import sys
import zlib
from pathlib import Path

MISTAKES = ("none", "ack-before-sync", "no-directory-sync", "rename-without-directory-sync")
PER_SEGMENT = 4
SIZE = 700  # a record spans sectors, and some span pages


def encode(number: int) -> bytes:
    body = number.to_bytes(4, "big") + bytes([number % 251 + 1]) * (SIZE - 8)
    return body + zlib.crc32(body).to_bytes(4, "big")


def recover(directory: Path) -> list[int]:
    """The numbers of the records found, in order, up to the first one that is not whole."""
    found: list[int] = []
    for path in sorted(directory.glob("*.log")) if directory.is_dir() else []:
        data = path.read_bytes()
        for begin in range(0, len(data), SIZE):
            record = data[begin : begin + SIZE]
            number = int.from_bytes(record[:4], "big")
            if record != encode(number) or number == 0:
                return found
            found.append(number)
    return found


def sync_directory(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    os.fsync(descriptor)
    os.close(descriptor)


def new_segment(directory: Path, number: int, mistake: str) -> int:
    """A preallocated file that gets its name by a rename."""
    name = directory / f"{number:06}.log"
    descriptor = os.open(directory / "new", os.O_RDWR | os.O_CREAT, 0o600)
    os.pwrite(descriptor, bytes(PER_SEGMENT * SIZE), 0)
    os.fdatasync(descriptor)
    os.rename(directory / "new", name)
    if mistake != "rename-without-directory-sync":
        sync_directory(directory)
    return descriptor


def append(descriptor: int, place: int, number: int, marks: int, mistake: str) -> None:
    mark = b'{"n": %d}\n' % number
    if mistake == "ack-before-sync":
        os.write(marks, mark)
    os.pwrite(descriptor, encode(number), place * SIZE)
    os.fdatasync(descriptor)
    if mistake != "ack-before-sync":
        os.write(marks, mark)


def main(directory: Path, marks_path: str, count: int, mistake: str) -> None:
    marks = os.open(marks_path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    directory.mkdir()
    if mistake != "no-directory-sync":
        sync_directory(directory.parent)
    segment = -1
    for number in range(1, count + 1):
        if (number - 1) % PER_SEGMENT == 0:
            if segment >= 0:
                os.close(segment)
            segment = new_segment(directory, number, mistake)
        append(segment, (number - 1) % PER_SEGMENT, number, marks, mistake)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]), sys.argv[4])
