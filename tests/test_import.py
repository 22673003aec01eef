"""`import journal`: what it loads, and that each public name is there."""

from __future__ import annotations

import subprocess
import sys

import journal


def test_import_loads_no_backend() -> None:
    """A program pays for the engine or the client when it first opens a store or connects: `import journal` loads neither."""
    code = "import journal, sys; print([name for name in sys.modules if name.startswith('journal.')])"
    loaded = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout
    assert "journal.errors" in loaded
    for package in ("journal.api", "journal.engine", "journal.net", "journal.core.requests"):
        assert package not in loaded


def test_every_public_name_is_there() -> None:
    """Names that are imported on first use are the public ones, and each is found where the table says."""
    for name in journal.__all__:
        assert getattr(journal, name) is not None
        assert name in dir(journal)
    assert set(journal._LATER) <= set(journal.__all__)
