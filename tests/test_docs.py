"""
Every example in the documents runs, and every link leads somewhere.

A document is turned into a program: its lines, with everything blanked that is not in a block tagged ```python. Line numbers stay, so
that a traceback names the place in the document. Blocks of one document follow each other in one process, in an empty
directory. A block tagged ```python no-run is for reading only.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
DOCUMENTS = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
FENCE = re.compile(r"^(?P<fence>`{3,}|~{3,})\s*(?P<info>.*?)\s*$")
LINK = re.compile(r"(?<!!)\[[^\]]+\]\((?P<target>[^)\s]+)\)")


def split(text: str) -> tuple[list[str], list[str]]:
    """(program, prose) of a document, each as long as the document, with the other's lines blank."""
    program: list[str] = []
    prose: list[str] = []
    fence: str | None = None
    is_run = False
    for line in text.splitlines():
        match = FENCE.match(line)
        if fence is None and match:
            fence, is_run = match["fence"], match["info"] == "python"
        elif fence is not None and match and match["fence"].startswith(fence) and not match["info"]:
            fence = None
        else:
            program.append(line if fence is not None and is_run else "")
            prose.append(line if fence is None else "")
            continue
        program.append("")
        prose.append("")
    assert fence is None, "a block is not closed"
    return program, prose


def documents() -> list[object]:
    return [pytest.param(path, id=path.relative_to(ROOT).as_posix()) for path in DOCUMENTS]


@pytest.mark.parametrize("document", documents())
def test_examples_run(document: Path, tmp_path: Path) -> None:
    """What a reader copies works."""
    program, _ = split(document.read_text(encoding="utf-8"))
    if not any(program):
        return
    script = tmp_path / document.with_suffix(".py").name
    script.write_text("\n".join(program) + "\n", encoding="utf-8")
    place = tmp_path / "empty"
    place.mkdir()
    paths = [str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
    run = subprocess.run(
        [sys.executable, "-X", "dev", "-W", "error", str(script)],
        cwd=place,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert run.returncode == 0, run.stdout + run.stderr


@pytest.mark.parametrize("document", documents())
def test_links_lead_somewhere(document: Path) -> None:
    """A link into the checkout names a file that is there."""
    _, prose = split(document.read_text(encoding="utf-8"))
    targets = [match["target"].partition("#")[0] for line in prose for match in LINK.finditer(line)]
    local = [target for target in targets if target and not re.match(r"[a-z]+:", target)]
    assert [target for target in local if not (document.parent / target).exists()] == []


@pytest.mark.parametrize("document", documents())
def test_prose_is_wrapped(document: Path) -> None:
    """At 100 columns; tables, and what is made from the code, have lines of their own."""
    _, prose = split(document.read_text(encoding="utf-8"))
    text = re.sub(
        r"<!-- made.*?<!-- end -->", lambda made: "\n" * made[0].count("\n"), "\n".join(prose), flags=re.DOTALL
    )
    lines = enumerate(text.split("\n"), 1)
    assert [number for number, line in lines if len(line) > 100 and not line.lstrip().startswith("|")] == []


def test_a_document_keeps_its_line_numbers() -> None:
    """The splitter takes python blocks and nothing else."""
    text = "a\n```python\nx = 1\n```\nb\n```python no-run\ny\n```\n```sh\nz\n```\n"
    program, prose = split(text)
    assert program == ["", "", "x = 1", "", "", "", "", "", "", "", ""]
    assert prose == ["a", "", "", "", "b", "", "", "", "", "", ""]
