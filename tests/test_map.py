"""
docs/MAP.md is true: the names on it exist, and calls go the ways that it shows.

A way is run while a profile function notes, on all threads, when each function of the page is first called on each thread. A step
is the first call of its function on the thread that the page names ("On the keeper: …"; else that of the step before), and
steps come in the order of the page. What other threads do meanwhile does not count. Names alone are checked of the load by Spark.
"""

from __future__ import annotations

import ast
import re
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from itertools import accumulate
from pathlib import Path
from types import CodeType, FrameType
from typing import Any, NamedTuple

import pytest

import journal
from journal.core.entry import keys
from journal.testing import ManualClock

ROOT = Path(__file__).resolve().parent.parent
PAGE = (ROOT / "docs" / "MAP.md").read_text(encoding="utf-8")
DATA = ("store", "journal", "generation", "segment", "record", "entry row", "lease", "feed position")
RUN = ("Put", "Claim", "Lost lease", "Rotation", "Recovery", "Request through the daemon")
WAYS = (*RUN, "Spark load")
STEPS_MIN, STEPS_MAX = 3, 12
CALLER = "the caller's thread"
THREADS = {
    "the keeper": "journal-keeper-",
    "the daemon's thread": "journal-daemon-",
    "a settle thread": "journal-settle-",
}
"""What the page calls a thread, and how its name begins."""

_NAME = re.compile(r"`(?P<file>[\w/]+\.py)(?::(?P<function>[\w.]+))?`")
_STEP = re.compile(r"^(?P<number>\d+)\. (?P<rest>.+(?:\n {3,}\S.*)*)", re.MULTILINE)
_FORM = re.compile(rf"(?P<name>{_NAME.pattern}) — (?:On (?P<thread>[^:,.;]+): )?(?P<what>[^.]+)\.")
_DRIVER = {"the driver"}  # of Spark, which is not run
Call = tuple[tuple[str, str], str]
"""File and function, and the name of the thread."""


class Step(NamedTuple):
    """A line of a way."""

    file: str
    function: str
    thread: str


# --- reading the page -------------------------------------------------------------------------------------------------


def parts_of(page: str, marks: str) -> dict[str, str]:
    """The sections of a page by their titles, which `marks` stands in front of."""
    titles = list(re.finditer(rf"^{marks} (.+)$", page, re.MULTILINE))
    ends = [*(title.start() for title in titles[1:]), len(page)]
    return {title[1]: page[title.end() : end] for title, end in zip(titles, ends, strict=True)}


def ways() -> dict[str, str]:
    """The text of each way."""
    return parts_of(parts_of(PAGE, "##")["The ways"], "###")


def steps_of(text: str) -> list[Step]:
    """The steps of a way; each has the thread that the page says."""
    found: list[Step] = []
    thread = CALLER
    for number, match in enumerate(_STEP.finditer(text), 1):
        assert int(match["number"]) == number
        form = _FORM.fullmatch(" ".join(match["rest"].split()))
        assert form is not None, f"step {number} is not of the form `file:function` — one sentence: {match['rest']}"
        assert form["function"], f"step {number} names no function: {match['rest']}"
        thread = form["thread"] or thread
        found.append(Step(form["file"], form["function"], thread))
    return found


@cache
def defined_in(file: str) -> frozenset[str]:
    """The functions, classes and methods of a file; nothing when there is no such file."""

    def names(body: list[ast.stmt], front: str) -> Iterator[str]:
        for node in body:
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                yield front + node.name
            if isinstance(node, ast.ClassDef):
                yield from names(node.body, f"{front}{node.name}.")

    path = ROOT / file
    return frozenset(names(ast.parse(path.read_text(encoding="utf-8")).body, "")) if path.is_file() else frozenset()


def test_every_name_exists() -> None:
    """A reader who looks for a function finds it in that file."""
    found = list(_NAME.finditer(PAGE))
    assert len(found) > len(WAYS) * STEPS_MIN
    missing = [name[0] for name in found if not (ROOT / name["file"]).is_file()]
    missing += [name[0] for name in found if name["function"] and name["function"] not in defined_in(name["file"])]
    assert missing == []


def test_every_path_has_a_function() -> None:
    """Whatever looks like a name on the page is one, so that no typing error keeps it from being checked."""
    assert [text for text in re.findall(r"`([^`\n]*\.py[^`\n]*)`", PAGE) if _NAME.fullmatch(f"`{text}`") is None] == []


def test_all_words_and_ways_are_there() -> None:
    """Eight words, each with its owner, and seven ways."""
    data = parts_of(PAGE, "##")["The data"]
    words = dict(re.findall(r"^- \*\*(.+?)\*\*: (.+(?:\n {2}\S.*)*)", data, re.MULTILINE))
    assert tuple(words) == DATA
    assert [word for word, rest in words.items() if _NAME.search(rest) is None] == []
    assert tuple(ways()) == WAYS


@pytest.mark.parametrize("way", WAYS)
def test_a_way_is_short(way: str) -> None:
    """Steps are numbered, few, of one form, and on threads that the page has introduced."""
    steps = steps_of(ways()[way])
    assert STEPS_MIN <= len(steps) <= STEPS_MAX
    assert len({step[:2] for step in steps}) == len(steps)
    assert {step.thread for step in steps} <= ({CALLER} | _DRIVER if way not in RUN else {CALLER, *THREADS})


def test_lines_are_short() -> None:
    """It reads well in a terminal."""
    assert [line for line in PAGE.splitlines() if len(line) > 100] == []


# --- the pictures -----------------------------------------------------------------------------------------------------


def test_the_primary_key_has_these_bytes() -> None:
    """The parts of the key, as long as the picture says, and where the code has them."""
    (line,) = re.findall(r"^primary key (.+)$", PAGE, re.MULTILINE)
    names, sizes = zip(*(part.rsplit(maxsplit=1) for part in line.replace(" B", "").split(" | ")), strict=True)
    assert names == ("priority", "process date", "turn", "murmur", "ordinal")
    widths = [int(size[1:]) // 8 if size.startswith("u") else int(size) for size in sizes]
    begins = [keys.DATE_AT, keys.TURN_AT, keys.SLOT_AT, keys.ORDINAL_AT, keys.PRIMARY_BYTES]
    assert list(accumulate(widths)) == begins


@pytest.mark.alone(reason="it looks at a journal's own files")
def test_the_files_are_these(store: journal.Store, pages: journal.Journal) -> None:
    """What the picture of a store shows is there when a journal was rotated and is followed."""
    pages.put("a")
    pages.rotate()
    pages.put("b")
    with pages.feed(consumer="audit", live=False) as feed:
        for event in feed:
            feed.ack(event)
    picture = parts_of(PAGE, "##")["The data"].split("```")[1]
    path: list[str] = []
    shown: list[str] = []
    for line in filter(None, picture.splitlines()):
        depth = (len(line) - len(line.lstrip())) // 2
        path[depth:] = [line.split()[0].rstrip("/")]
        shown.append("/".join(path[1:]))
    assert len(shown) > len(DATA)
    assert [name for name in shown if not (store.path / name).exists()] == []


# --- the ways ---------------------------------------------------------------------------------------------------------


class Calls:
    """The first call of each function of the page on each thread, in the order in which they came."""

    def __init__(self) -> None:
        self._names: set[tuple[str, str]] = set()
        self._known: dict[CodeType, tuple[str, str] | None] = {}
        self._seen: dict[Call, int] = {}
        self._is_on = False

    def note(self, frame: FrameType, event: str, _: Any) -> None:
        """The profile function."""
        if not self._is_on or event != "call":
            return
        code = frame.f_code
        if code not in self._known:
            file = Path(code.co_filename)
            name = file.relative_to(ROOT).as_posix() if file.is_relative_to(ROOT) else "", code.co_qualname
            self._known[code] = name if name in self._names else None
        found = self._known[code]
        if found is not None:
            self._seen.setdefault((found, threading.current_thread().name), len(self._seen))

    @contextmanager
    def of(self, way: str) -> Iterator[None]:
        """What is done in this block goes the way that the page shows."""
        steps = steps_of(ways()[way])
        self._names = {step[:2] for step in steps}
        self._known.clear()
        self._seen.clear()
        before = sys.getprofile()
        self._is_on = True
        sys.setprofile(self.note)
        try:
            yield
        finally:
            sys.setprofile(before)
            self._is_on = False
        seen = dict(self._seen)  # a thread that was about to note something may still do
        called = [name for (*_, name), _ in sorted(seen, key=lambda call: seen[call])]
        firsts = {step: _first(step, seen) for step in steps}
        missing = [step for step in steps if firsts[step] is None]
        assert missing == [], f"not called there; called were, in this order: {called}"
        ordered = sorted(steps, key=lambda step: firsts[step] or 0)
        assert steps == ordered, f"the real order is {called}"


def _first(step: Step, seen: dict[Call, int]) -> int | None:
    """When its function was first called on its thread."""
    front = threading.current_thread().name if step.thread == CALLER else THREADS[step.thread]
    return min(
        (at for (name, thread), at in seen.items() if name == step[:2] and thread.startswith(front)), default=None
    )


@pytest.fixture
def calls() -> Iterator[Calls]:
    """It must come before the store among a test's arguments: threads take the profile function when they start."""
    noted = Calls()
    before = threading.getprofile()
    threading.setprofile(noted.note)
    yield noted
    threading.setprofile(before)


alone = pytest.mark.alone(reason="the page shows a journal that has its files for itself")


@alone
def test_way_of_a_put(calls: Calls, store: journal.Store, pages: journal.Journal) -> None:
    """A new key, durable."""
    with calls.of("Put"):
        pages.put("a", {"x": 1})
    assert pages.get("a") is not None


@alone
def test_way_of_a_claim(calls: Calls, store: journal.Store, pages: journal.Journal) -> None:
    """An entry that LMDB has."""
    pages.put("a", {"x": 1})
    assert len(list(pages.scan())) == 1  # who looks has LMDB take all entries
    with calls.of("Claim"):
        lease = pages.claim(consumer="c")
    assert lease is not None and lease.key == "a"


@alone
def test_way_of_a_lost_lease(calls: Calls, store: journal.Store, pages: journal.Journal, clock: ManualClock) -> None:
    """The entry is taken back, and the late holder is refused."""
    pages.put("a")
    lease = pages.claim(consumer="c", lease="10s")
    assert lease is not None
    with calls.of("Lost lease"):
        clock.advance(20_000)
        with pytest.raises(journal.LeaseLost):
            lease.done()
    again = pages.claim(consumer="d")
    assert again is not None and again.key == "a"


@alone
def test_way_of_a_rotation(calls: Calls, store: journal.Store, pages: journal.Journal) -> None:
    """A second generation is the active one."""
    pages.put("a")
    with calls.of("Rotation"):
        assert pages.rotate().order == 2
    assert pages.get("a") is not None


@alone
def test_way_of_a_recovery(
    calls: Calls,
    store: journal.Store,
    pages: journal.Journal,
    crashed: Callable[[journal.Store], Path],
    clock: ManualClock,
) -> None:
    """What was acknowledged is there again."""
    pages.put("a")
    left = crashed(store)
    with calls.of("Recovery"):
        opened = journal.open(left, clock=clock)
        again = opened.journal("pages")
    with opened:
        assert again.get("a") is not None
        assert opened.check() == []


@alone
def test_way_of_a_request(calls: Calls, store: journal.Store, pages: journal.Journal) -> None:
    """A client's put, by a daemon that has the journal open and a client that is connected."""
    with store.serve(), journal.connect(store.path) as far:
        far_pages = far.journal("pages")
        far_pages.put("first")
        with calls.of("Request through the daemon"):
            far_pages.put("a", 1)
    assert pages.get("a") is not None


# --- the checks can fail ----------------------------------------------------------------------------------------------


@alone
@pytest.mark.parametrize("change", ["exchanged", "elsewhere", "not called"])
def test_a_wrong_page_is_noticed(
    change: str, calls: Calls, store: journal.Store, pages: journal.Journal, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two steps exchanged, a step on another thread, a function that exists and is not called: each fails."""
    first, second = (
        "`journal/engine/own_pipeline.py:OwnPipeline.append`",
        "`journal/engine/log/writer.py:LogWriter.append`",
    )
    put = ways()["Put"]
    wrong = {
        "exchanged": put.replace(first, "`-`").replace(second, first).replace("`-`", second),
        "elsewhere": put.replace(f"{second} — ", f"{second} — On the keeper: "),
        "not called": put.replace(second, "`journal/engine/log/writer.py:LogWriter.roll`"),
    }[change]
    assert wrong != put
    monkeypatch.setitem(globals(), "PAGE", PAGE.replace(put, wrong))
    told = "the real order" if change == "exchanged" else "not called there"
    with pytest.raises(AssertionError, match=told), calls.of("Put"):
        pages.put("a")
