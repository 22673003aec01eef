"""Invariants have letters: `(reader X5)` is found in the docstring of the module reader."""

from __future__ import annotations

import ast
import io
import re
import tokenize
from pathlib import Path

from tests.test_tidy import name, python_files, tree

STATED = re.compile(r"^([A-Z]{1,2})(\d+)  ", re.MULTILINE)
CITED = re.compile(r"(?<![\w.#/-])([A-Z]{1,2}\d{1,2})(?![\w.-])")
CITING = re.compile(r"([\w.]+)(?: [A-Z]{1,2}\d+,?)*\s+$")
"""What comes before a cited invariant of another module: the name of the module, and perhaps other invariants of it."""


def stated(path: Path) -> set[str]:
    """The invariants that a module states."""
    return {letter + number for letter, number in STATED.findall(ast.get_docstring(tree(path)) or "")}


def test_a_letter_of_invariants_is_of_one_module_in_its_folder() -> None:
    """So that a letter tells the module to those who know the folder."""
    modules: dict[tuple[Path, str], set[str]] = {}
    for path in python_files("journal", "spark_export"):
        for invariant in stated(path):
            modules.setdefault((path.parent, invariant.rstrip("0123456789")), set()).add(path.name)
    assert {where: names for where, names in modules.items() if len(names) > 1} == {}


def test_invariants_of_other_modules_are_cited_by_the_modules_name() -> None:
    """`(reader X5)`; without a name an invariant is that of the module itself."""
    by_name: dict[str, set[str]] = {}
    for path in python_files("journal", "spark_export"):
        by_name.setdefault(path.parent.name if path.stem == "__init__" else path.stem, set()).update(stated(path))
    unknown = []
    for path in python_files("journal", "spark_export"):
        own = stated(path)
        for token in tokenize.generate_tokens(io.StringIO(path.read_text(encoding="utf-8")).readline):
            if token.type != tokenize.COMMENT and not token.string.startswith('"""'):
                continue
            for cited in CITED.finditer(token.string):
                before = CITING.search(token.string[: cited.start()])
                whose = "" if before is None else before[1].rpartition(".")[2]
                if cited[1] not in own and cited[1] not in by_name.get(whose, ()):
                    unknown.append(f"{name(path)}:{token.start[0]} {cited[1]}")
    assert unknown == []
