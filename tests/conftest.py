"""Fixtures: a clock that tests move, a store on it that is checked after each test, and copies as a crash leaves them."""

from __future__ import annotations

import contextlib
import shutil
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

import journal
from journal.core.settings import SHARED
from journal.testing import ManualClock
from tests import top

settings.register_profile("journal", deadline=None)  # how long an example takes says nothing on a busy machine
settings.load_profile("journal")


def pytest_addoption(parser: pytest.Parser) -> None:
    """`--merged`: every journal that a test declares is a merged one."""
    parser.addoption("--merged", action="store_true", help="run with merged journals in place of others")


def pytest_configure(config: pytest.Config) -> None:
    """Tell those who look at files. A shell starts what runs beside others with SIGINT ignored: tests interrupt, so they need it."""
    top.is_merged = config.getoption("--merged")
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if config.getoption("numprocesses", None):
        config.pluginmanager.register(AtOnce(config), "at-once")


class AtOnce:
    """Failures are printed when they happen: a run that is ended from outside prints no summary."""

    def __init__(self, config: pytest.Config) -> None:
        self.config = config

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Of all workers; in one process pytest's own output is enough."""
        if report.failed:
            reporter = self.config.pluginmanager.getplugin("terminalreporter")
            reporter.write_line(f"\n{report.nodeid} ({report.when}):\n{report.longreprtext}")

    @pytest.hookimpl(optionalhook=True)
    def pytest_handlecrashitem(self, crashitem: str) -> None:
        """A worker that dies ends the run: xdist 3.8 gives its test to another, and waits for ever for the rest."""
        pytest.exit(f"a worker died in {crashitem}", returncode=1)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Tests of what merged journals do otherwise are left out."""
    if config.getoption("--merged"):
        for item in items:
            if reason := item.get_closest_marker("alone"):
                item.add_marker(pytest.mark.skip(reason=reason.kwargs["reason"]))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """With -n: one worker has all tests of Spark, which share a session. Not by xdist's groups: those of 3.8 do nothing with pytest 9."""
    from xdist.scheduler import LoadScopeScheduling

    class OneSession(LoadScopeScheduling):  # type: ignore[misc]
        def _split_scope(self, nodeid: str) -> str:
            return "tests/spark" if nodeid.startswith("tests/spark/") else nodeid

    return OneSession(config, log) if config.getvalue("dist") in ("load", "loadgroup") else None


@pytest.fixture(autouse=True)
def _merged(monkeypatch: pytest.MonkeyPatch) -> None:
    if not top.is_merged:
        return
    alone = journal.Store.journal

    def merged(store: journal.Store, name: str, **settings: Any) -> journal.Journal:
        if getattr(store._backend, "is_readonly", False) or "merged" in settings:
            return alone(store, name, **settings)
        is_new = name not in store.journals()
        if shared := {key: value for key, value in settings.items() if key in SHARED}:
            store.merged(**shared)
        own = {key: value for key, value in settings.items() if key not in SHARED}
        return alone(store, name, **own, **({"merged": True} if is_new else {}))

    monkeypatch.setattr(journal.Store, "journal", merged)


@pytest.fixture(autouse=True)
def _interrupts() -> None:
    """Every test begins with Python's own handler: a session of Spark leaves one of its own, in whatever process it was made."""
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture
def clock() -> ManualClock:
    """A clock that stands still."""
    return ManualClock(1_700_000_000_000)


@pytest.fixture
def store(tmp_path: Path, clock: ManualClock) -> Iterator[journal.Store]:
    """An open store; whatever the test did, every index and invariant must hold at its end."""
    with journal.open(tmp_path / "work.journal", clock=clock) as opened:
        yield opened
        assert opened.check() == []


@pytest.fixture
def pages(store: journal.Store) -> journal.Journal:
    """A journal with the default settings."""
    return store.journal("pages")


def copy_live(store: journal.Store, target: Path) -> None:
    """Copy an open store between two writes. A copy that saw a file come or go is no state that ever was: once more."""
    locks = {
        p.commit: p.lock for p in (pages.p for pages in store._backend.opened.values())
    }  # merged ones share theirs
    with contextlib.ExitStack() as held:
        for commit, lock in locks.items():
            held.enter_context(commit.io)
            held.enter_context(lock)
        while True:
            try:
                shutil.copytree(store.path, target, ignore=shutil.ignore_patterns("SOCKET"))
                return
            except shutil.Error:
                shutil.rmtree(target)


@pytest.fixture
def crashed(tmp_path: Path) -> Callable[[journal.Store], Path]:
    """Copies an open store as a kill -9 would leave it: what the OS has, and nothing of what the process held."""
    numbers = iter(range(1000))

    def copy(opened: journal.Store) -> Path:
        target = tmp_path / f"crashed-{next(numbers)}"
        copy_live(opened, target)
        return target

    return copy
