"""A Python process that is told what to do over its standard input, and answers on its standard output, line by line."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from typing import Any


class Child:
    """
    Another process of this package: `python -m MODULE ARGUMENTS`, with `before` in front. It says that it is ready with its first line.
    """

    def __init__(self, module: str, *arguments: str, before: Sequence[str] = ()) -> None:
        self._what = f"{module} {' '.join(arguments)}"
        command = [*before, sys.executable, "-m", module, *arguments]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.pid = self._process.pid

    def tell(self, *words: object) -> None:
        assert self._process.stdin is not None
        print(*words, file=self._process.stdin, flush=True)

    def answer(self) -> Any:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError(f"{self._what} ended with {self._process.wait()} before it answered")
        return json.loads(line)

    def close(self) -> None:
        """It ends when nothing more is told."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()


def answer(value: object) -> None:
    """In a child: tell the parent."""
    print(json.dumps(value), flush=True)
