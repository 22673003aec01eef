"""A standalone cluster on the loopback: a master and workers, each a Java of its own, as Spark's package has them."""

from __future__ import annotations

import os
import re
import subprocess
import threading
from pathlib import Path
from types import TracebackType

import pyspark

from spark_export.api.java import java_home

READY_S = 240
MASTER = re.compile(r"Starting Spark master at (spark://\S+)")
WORKER = re.compile(r"Successfully registered with master")


class Program:
    """One of them; ready when it has said so."""

    def __init__(self, place: Path, ready: re.Pattern[str], *words: str) -> None:
        spark = Path(pyspark.__file__).parent
        environment = {**os.environ, "SPARK_LOCAL_IP": "127.0.0.1", "SPARK_HOME": str(spark)}
        if (home := java_home()) is not None:
            environment["JAVA_HOME"] = home
        self._said: list[str] = []
        self._ready = ready
        self._is_ready = threading.Event()
        self.match: re.Match[str] | None = None
        self.process = subprocess.Popen(
            [str(spark / "bin" / "spark-class"), *words],
            cwd=place,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        self._thread = threading.Thread(target=self._listen, daemon=True)
        self._thread.start()

    def _listen(self) -> None:
        assert self.process.stderr is not None
        for line in self.process.stderr:
            self._said.append(line)
            if self.match is None and (match := self._ready.search(line)) is not None:
                self.match = match
                self._is_ready.set()
        self._is_ready.set()

    def wait_ready(self) -> re.Match[str]:
        """Until it is; what it said."""
        assert self._is_ready.wait(READY_S) and self.match is not None, "".join(self._said[-50:])
        return self.match

    def stop(self) -> None:
        """End it."""
        self.process.terminate()
        try:
            self.process.wait(60)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait(60)
        self._thread.join()
        assert self.process.stderr is not None
        self.process.stderr.close()


class Standalone:
    """A master and two workers with a core each; a context manager."""

    def __init__(self, place: Path) -> None:
        self._place = place
        self._programs: list[Program] = []
        self.master = ""

    def _start(self, ready: re.Pattern[str], *words: str) -> Program:
        program = Program(self._place, ready, *words)
        self._programs.append(program)
        return program

    def __enter__(self) -> Standalone:
        try:
            where = ("--host", "127.0.0.1", "--port", "0", "--webui-port", "0")
            self.master = self._start(MASTER, "org.apache.spark.deploy.master.Master", *where).wait_ready()[1]
            worker = ("org.apache.spark.deploy.worker.Worker", *where, "--cores", "1", "--memory", "1g")
            workers = [
                self._start(WORKER, *worker, "--work-dir", str(self._place / f"worker-{n}"), self.master)
                for n in range(2)
            ]
            for each in workers:
                each.wait_ready()
        except BaseException:
            self._stop()
            raise
        return self

    def _stop(self) -> None:
        for program in reversed(self._programs):
            program.stop()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop()
