"""
The shape of the project, kept by a test instead of by memory.

T1  Imports go down only, along LAYERS, and packages form no cycle; imports for types alone count. Every module has a layer.
T2  The pure layers touch no clock, disk, socket or thread, and use three libraries: the standard one, msgpack and mmh3.
T3  One module imports lmdb, and it is the engine's.
T4  No file grows past LINES_MAX, and no folder past FILES_MAX, without a reason beside its name.
T5  Nothing unfinished, nothing that sleeps, nothing undocumented, no path of somebody's machine.

Rules are tables at the top; the functions below only read them. A rule that makes a piece of code worse is changed here, with the reason.
"""

from __future__ import annotations

import ast
import re
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent

# The protocol has no socket: bytes and times in, bytes and events out.
WIRE: tuple[str, ...] = ("journal.net.wire",)

# From the ground up. A module may import from its own row and from the rows above it in this table, which lie below it in
# the building. The longest name that fits decides. `journal` alone is the public face, the package's __init__.
LAYERS: tuple[tuple[str, ...], ...] = (
    ("journal.errors",),
    ("journal.shield", "journal.threads"),
    (
        *(
            "journal.core.limits",
            "journal.core.quoting",
            "journal.core.times",
            "journal.core.periods",
            "journal.core.rights",
        ),
        *("journal.core.statistics", "journal.core.histogram", "journal.core.counters"),
    ),
    ("journal.core.entry",),
    ("journal.core.consumer", "journal.core.forecast", "journal.core.log", "journal.core.schema"),
    ("journal.core",),
    ("journal.core.loads",),
    ("journal.core.requests",),
    ("journal.api",),
    WIRE,
    ("journal.loads",),
    ("journal.engine.arguments", "journal.engine.former_names", "journal.engine.files"),
    ("journal.engine.log", "journal.engine.runtime"),
    ("journal.engine.state",),
    ("journal.engine.feed", "journal.engine.snapshots"),
    ("journal.engine.generations",),
    ("journal.engine.checkpoints",),
    (
        "journal.engine.caller",
        "journal.engine.catalog",
        "journal.engine.handlers",
        "journal.engine.pipeline",
        "journal.engine.own_pipeline",
    ),
    ("journal.engine.backups", "journal.engine.readonly", "journal.engine.work"),
    ("journal.engine.loads", "journal.engine.read"),
    ("journal.engine.backend", "journal.engine.ground"),
    ("journal.engine.merged",),
    ("journal.engine",),
    ("journal.roles",),
    ("journal.net",),
    ("journal.net.client.connection",),
    ("journal.net.client",),
    ("journal", "journal._open", "journal.aio", "journal.connect_or_open", "journal.testing"),
    ("journal.net.server.runtime",),
    ("journal.net.server.verbs",),
    ("journal.net.server",),
    ("journal.cli", "journal.__main__"),
    ("spark_export.errors",),
    ("spark_export.columns",),
    ("spark_export.options",),
    ("spark_export.stores",),
    ("spark_export.exports", "spark_export.loads", "spark_export.snapshots"),
    ("spark_export.files", "spark_export.source"),
    ("spark_export.api",),
    ("spark_export.pipelines",),
    ("spark_export.sources", "spark_export.sinks"),
    ("spark_export.pipelines.runtime",),
    ("spark_export", "spark_export.cli"),
    ("pyspark_journal",),
)

# Packages whose own modules count one by one when cycles are looked for: some lie below their sub-packages, some above.
SPINES = ("journal", "journal.cli", "journal.core", "journal.engine", "journal.net", "journal.net.wire", "spark_export")

# Imports that go up or round, and why. Each is one to be cut; a new one is none to be added.
UPWARD: dict[tuple[str, str], str] = {
    ("journal.engine.backups.backup", "journal.engine.store"): "the type of the store that is copied, which calls it",
    (
        "journal.engine.store",
        "journal.net.server.server",
    ): "store.serve() is the daemon's way in; imported when it is called",
}

# What must not be reached by any chain of imports: (from, except, target, reason).
UNREACHABLE: tuple[tuple[str, tuple[str, ...], str, str], ...] = (
    ("journal.net", ("journal.net.server",), "journal.engine", "a client is installed where there is no lmdb"),
    ("journal.net", ("journal.net.server",), "lmdb", "a client is installed where there is no lmdb"),
    ("journal.net.client", (), "journal.engine", "a client is installed where there is no lmdb"),
    ("journal.net.client", (), "journal.roles", "a client is installed where there is no lmdb"),
    ("journal.net.client", (), "lmdb", "a client is installed where there is no lmdb"),
    ("journal", (), "spark_export", "the exporter stands on the library, never the other way round"),
)

PURE = ("journal.errors", "journal.core", *WIRE)
PURE_LIBRARIES = {"msgpack", "mmh3"}
# What of the standard library reads a clock, a disk, a socket or a random source, or starts something.
IMPURE = {
    *("time", "sched", "signal", "random", "secrets", "uuid"),
    *("os", "io", "pathlib", "shutil", "tempfile", "glob", "mmap", "fcntl", "sqlite3", "dbm", "shelve", "resource"),
    *("socket", "socketserver", "select", "selectors", "ssl", "http", "urllib", "asyncio"),
    *("threading", "_thread", "queue", "concurrent", "multiprocessing", "subprocess", "contextvars"),
    *("importlib", "ctypes", "logging"),
}
IMPURE_CALLS = {
    "open",
    "print",
    "input",
    "exec",
    "eval",
    "__import__",
    "datetime.now",
    "datetime.utcnow",
    "datetime.today",
    "date.today",
}

LINES_MAX = 450
LONG_FILES: dict[str, str] = {  # path: the reason why it is one noun all the same
    "journal/api/journal.py": "every verb of a journal, with its signature and its text, stands in one class",
}

FILES_MAX = 20  # of a folder, without its __init__
FULL_FOLDERS: dict[str, str] = {
    "tests/crash": "the crash harness is one program, whose parts share everything",
}

SLEEPERS: dict[str, str] = {}  # path of a test module: why no clock can be moved there

SKIPPED = {
    ".git",
    ".venv",
    ".venv-spark-4.2",  # scripts/test-spark
    ".hypothesis",
    ".mypy_cache",
    ".pytest_cache",
    ".ruff_cache",
    ".benchmarks",
    "__pycache__",
    "build",
    "dist",
}
TEXT = {".py", ".md", ".toml", ".sh", ".cfg", ".ini", ".yml", ".yaml", ".txt", ".json"}

UNFINISHED = re.compile(r"\b(?:TO(?:DO)|FIX(?:ME)|X(?:XX))\b")
# journal/engine/work is a package.
SOMEBODYS_PATH = re.compile(r"/(?:home|Users)/[A-Za-z0-9_.-]+/|(?<!journal/engine)/(?:root|work)/[A-Za-z0-9_.]")


# --- reading the tree -------------------------------------------------------------------------------------------------


@cache
def files() -> tuple[Path, ...]:
    """Every text file of the checkout. Walked, not asked from git: an unpacked archive is tested as well."""
    found: list[Path] = []
    for path in sorted(ROOT.rglob("*")):
        parts = path.relative_to(ROOT).parts
        if any(part in SKIPPED or part.endswith((".egg-info", ".journal")) for part in parts) or not path.is_file():
            continue
        if path.suffix in TEXT or (not path.suffix and parts[0] in {"scripts", ".ci"}):
            found.append(path)
    return tuple(found)


def name(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def python_files(*tops: str) -> list[Path]:
    return [path for path in files() if path.suffix == ".py" and (not tops or path.relative_to(ROOT).parts[0] in tops)]


@cache
def tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"), filename=str(path))


def module_of(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


@cache
def modules() -> dict[str, Path]:
    return {module_of(path): path for path in python_files("journal", "spark_export")}


def is_under(module: str, package: str) -> bool:
    return module == package or module.startswith(package + ".")


@cache
def imports(module: str) -> tuple[tuple[int, str], ...]:
    """(line, full name) of everything that a module imports, wherever in it: a hidden import is an import too."""
    path = modules()[module]
    package = module if path.name == "__init__.py" else module.rpartition(".")[0]
    return tuple(_imports(tree(path), package))


def _imports(module: ast.Module, package: str) -> Iterator[tuple[int, str]]:
    for node in ast.walk(module):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                above = package.split(".")
                above = above[: len(above) - node.level + 1]
                base = ".".join([*above, base] if base else above)
            for alias in node.names:
                # `from journal.core import keys` imports a module, `from journal.core.entry.keys import Key` a name of one.
                inner = f"{base}.{alias.name}"
                yield node.lineno, inner if inner in modules() else base


def layer(module: str) -> int | None:
    """The row of LAYERS a module is in; the public face is no roof for whatever else lies in the package."""
    rows = [
        (len(package), row)
        for row, packages in enumerate(LAYERS)
        for package in packages
        if (module == package if package == "journal" else is_under(module, package))
    ]
    return max(rows)[1] if rows else None


def reached(module: str) -> dict[str, str]:
    """Everything a module leads to, with the module that imports it. Packages above it are not followed: see T1."""
    found: dict[str, str] = {}
    pending = [module]
    while pending:
        here = pending.pop()
        for _, target in imports(here):
            if target not in found:
                found[target] = here
                if target in modules():
                    pending.append(target)
    return found


# --- T1 to T3: layers -------------------------------------------------------------------------------------------------


def test_every_module_has_a_layer() -> None:
    """A new module says where in the building it stands."""
    assert [module for module in modules() if layer(module) is None] == [], "give it a row in LAYERS"


def test_imports_go_down_only() -> None:
    """No lower layer knows of a higher one."""
    wrong = []
    for module, path in modules().items():
        here = layer(module)
        for line, target in imports(module):
            there = layer(target) if is_under(target, "journal") or is_under(target, "spark_export") else None
            if here is not None and there is not None and there > here and (module, target) not in UPWARD:
                wrong.append(f"{name(path)}:{line} imports {target}")
    assert wrong == []


def unit(module: str) -> str:
    """What counts as one when cycles are looked for: a package without its sub-packages, or a module of a spine."""
    if modules()[module].name == "__init__.py":
        return module
    package = module.rpartition(".")[0]
    return module if package in SPINES else package


def units(left_out: Iterable[tuple[str, str]] = ()) -> dict[str, set[str]]:
    """Which unit imports which, but for some imports."""
    found: dict[str, set[str]] = {unit(module): set() for module in modules()}
    for module in modules():
        for _, target in imports(module):
            if target in modules() and unit(target) != unit(module) and (module, target) not in left_out:
                found[unit(module)].add(unit(target))
    return found


def cycle(graph: dict[str, set[str]]) -> list[str]:
    """The units that are on a cycle, or lie between two."""
    left = {here: set(there) for here, there in graph.items()}
    while gone := {here for here, there in left.items() if not there} | (
        left.keys() - {target for there in left.values() for target in there}
    ):
        left = {here: there - gone for here, there in left.items() if here not in gone}
    return sorted(left)


def test_packages_form_no_cycle() -> None:
    """Each package can be read, tested and thought about without those that stand on it. Types count: they must be read too."""
    assert cycle(units(UPWARD)) == []


def test_upward_imports_are_still_there() -> None:
    """An exception that nothing uses any more goes, so that it cannot come back."""
    wrong = []
    for module, target in UPWARD:
        rest = [pair for pair in UPWARD if pair != (module, target)]
        here, there = layer(module), layer(target)
        is_used = module in modules() and any(found == target for _, found in imports(module))
        is_up = here is not None and there is not None and there > here
        if not is_used or not (is_up or cycle(units(rest))):
            wrong.append((module, target))
    assert wrong == []


@pytest.mark.parametrize(("start", "exceptions", "target", "reason"), UNREACHABLE)
def test_some_things_are_out_of_reach(start: str, exceptions: tuple[str, ...], target: str, reason: str) -> None:
    """What a part must do without is not brought in by a detour either."""
    wrong = []
    for module in modules():
        if not is_under(module, start) or any(is_under(module, exception) for exception in exceptions):
            continue
        for found, by in reached(module).items():
            if is_under(found, target):
                wrong.append(f"{module} reaches {found} through {by}")
    assert wrong == [], reason


def test_pure_layers_use_no_clock_disk_socket_or_thread() -> None:
    """Rules take `now` as an argument and return what must change: anything else could not be replayed."""
    wrong = []
    for module, path in modules().items():
        if not any(is_under(module, package) for package in PURE):
            continue
        for line, target in imports(module):
            top = target.partition(".")[0]
            if top in {"journal", "__future__"} or top in PURE_LIBRARIES:
                continue
            if top in IMPURE or top not in sys.stdlib_module_names:
                wrong.append(f"{name(path)}:{line} imports {target}")
        wrong.extend(
            f"{name(path)}:{node.lineno} calls {ast.unparse(node.func)}"
            for node in ast.walk(tree(path))
            if isinstance(node, ast.Call) and ".".join(ast.unparse(node.func).split(".")[-2:]) in IMPURE_CALLS
        )
    assert wrong == []


def test_one_module_imports_lmdb() -> None:
    """LMDB's traps are known in one place, and nobody can walk past it."""
    importers = [module for module in modules() if any(is_under(target, "lmdb") for _, target in imports(module))]
    assert all(is_under(module, "journal.engine") for module in importers), importers
    assert len(importers) <= 1, importers


# --- T4 and T5: files -------------------------------------------------------------------------------------------------


def test_files_are_short() -> None:
    """A file this long holds two nouns, or has a reason that somebody wrote down."""
    lines = {name(path): len(path.read_text(encoding="utf-8").splitlines()) for path in python_files()}
    assert {path: n for path, n in lines.items() if n > LINES_MAX and path not in LONG_FILES} == {}


def test_folders_are_small() -> None:
    """A folder this full is a list, not a map."""
    assert {path: n for path, n in folders().items() if n > FILES_MAX and path not in FULL_FOLDERS} == {}


def folders() -> Counter[str]:
    return Counter(name(path.parent) for path in python_files() if path.name != "__init__.py")


def test_exceptions_are_still_needed() -> None:
    """An exception that nothing uses any more goes."""
    lines = {name(path): len(path.read_text(encoding="utf-8").splitlines()) for path in python_files()}
    assert [path for path in LONG_FILES if lines.get(path, 0) <= LINES_MAX] == []
    assert [path for path in FULL_FOLDERS if folders()[path] <= FILES_MAX] == []
    assert [path for path in SLEEPERS if path not in lines or not list(sleeps(ROOT / path))] == []
    assert all(reason.strip() for reason in [*LONG_FILES.values(), *FULL_FOLDERS.values(), *SLEEPERS.values()])


def test_every_module_has_a_docstring() -> None:
    """A module says what it owns. An empty __init__ has nothing to say."""
    assert [name(path) for path in python_files() if tree(path).body and not ast.get_docstring(tree(path))] == []


def test_nothing_is_left_unfinished() -> None:
    """What is missing is an issue, not a note in the code."""
    assert matches(UNFINISHED, (path for path in files() if path.suffix != ".md")) == []


def test_no_path_of_somebodys_machine() -> None:
    """The checkout works anywhere."""
    assert matches(SOMEBODYS_PATH, files()) == []


def matches(pattern: re.Pattern[str], paths: Iterator[Path] | tuple[Path, ...]) -> list[str]:
    return [
        f"{name(path)}:{number}: {line.strip()}"
        for path in paths
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        if pattern.search(line)
    ]


def sleeps(path: Path) -> Iterator[int]:
    for node in ast.walk(tree(path)):
        is_call = isinstance(node, ast.Call) and ast.unparse(node.func) == "time.sleep"
        is_import = (
            isinstance(node, ast.ImportFrom) and node.module == "time" and any(a.name == "sleep" for a in node.names)
        )
        if is_call or is_import:
            yield node.lineno  # type: ignore[attr-defined]


def test_tests_do_not_sleep() -> None:
    """A test moves a clock or waits for an event: a sleep is either too short on a busy machine or too long on every other."""
    wrong = [
        f"{name(path)}:{line}" for path in python_files("tests") if name(path) not in SLEEPERS for line in sleeps(path)
    ]
    assert wrong == []
