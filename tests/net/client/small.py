"""The verbs of a journal over a dict, for a TinyDaemon: enough to see that a client asks and reads rightly."""

from __future__ import annotations

from typing import Any

from journal.core.settings import Settings, to_map
from journal.core.values import PutResult
from journal.errors import KeyExists, LeaseLost, NotFound
from journal.net.wire.events import Requested
from journal.net.wire.values import LentRow, error_to, result_to

NOW = 1_700_000_000_000


class Small:
    """One journal. Entries are claimed in the order of their keys."""

    def __init__(self) -> None:
        self.entries: dict[Any, dict[str, Any]] = {}
        self.leases: dict[int, Any] = {}
        self.done: set[int] = set()
        self.names = {"pages"}
        self.tokens = 0

    def __call__(self, asked: Requested) -> Any:
        name = asked.command.name
        if asked.journal and asked.journal not in self.names and name != "DECLARE":
            raise NotFound(f"there is no journal {asked.journal}")
        return getattr(self, f"do_{name.lower()}")(asked.journal, **asked.parameters)

    def do_ping(self, _: str, **__: Any) -> Any:
        return {"received": NOW, "answered": NOW}

    def do_settings(self, _: str) -> Any:
        return to_map(Settings())

    def do_declare(self, name: str, settings: dict[str, Any]) -> Any:
        self.names.add(name)
        return to_map(Settings(**settings))

    def do_put(self, _: str, *, key: Any, data: bytes, durability: str | None = None, **options: Any) -> Any:
        outcome = "merged" if key in self.entries else "inserted"
        self.entries[key] = {"data": data, **options}
        return result_to(self._result(outcome, key))

    def do_create(self, journal: str, *, key: Any, **options: Any) -> Any:
        if key in self.entries:
            raise KeyExists(f"there is an entry with the key {key!r}")
        return self.do_put(journal, key=key, **options)

    def do_put_many(self, journal: str, *, puts: list[dict[str, Any]], durability: str | None = None) -> Any:
        return [self.do_put(journal, **put) for put in puts]

    def _result(self, outcome: str, key: Any) -> PutResult:
        from journal.core.log.cursor import Cursor

        return PutResult(outcome, Cursor(1, len(self.entries)), 1, NOW, self.entries[key].get("priority", 100))

    def _lease(self, key: Any, consumer: str, lease: int = 30_000) -> list[Any]:
        self.tokens += 1
        self.leases[self.tokens] = key
        entry = self.entries[key]
        return list(
            LentRow(
                key, entry["data"], entry.get("priority", 100), NOW, NOW + lease, self.tokens, 0, 2, consumer, NOW,
                entry.get("owner"), NOW, 0,
            )
        )  # fmt: skip

    def do_claim(self, _: str, *, consumer: str, lease: int = 30_000, **options: Any) -> Any:
        free = [key for key in self.entries if key not in self.leases.values()]
        if not free:
            return {"lease": None, "next_due": None}
        return {"lease": self._lease(min(free), consumer, lease), "next_due": None}

    def do_claim_many(self, journal: str, *, n: int, consumer: str, **options: Any) -> Any:
        found = []
        while len(found) < n and (lease := self.do_claim(journal, consumer=consumer, **options)["lease"]) is not None:
            found.append(lease)
        return {"leases": found, "next_due": None}

    def _held(self, token: int) -> Any:
        if token not in self.leases:
            raise LeaseLost(f"there is no lease {token}")
        return self.leases[token]

    def do_done(self, _: str, *, token: int, durability: str | None = None) -> None:
        if token in self.done:
            return
        del self.entries[self._held(token)]
        del self.leases[token]
        self.done.add(token)

    def do_done_many(self, journal: str, *, tokens: list[int], durability: str | None = None) -> Any:
        results = []
        for token in tokens:
            try:
                self.do_done(journal, token=token)
                results.append(None)
            except LeaseLost as e:
                results.append(error_to(e))
        return results

    def do_extend(self, _: str, *, token: int, lease: int = 30_000) -> Any:
        self._held(token)
        return {"deadline": NOW + 1 + lease, "version": 3}

    def do_release(self, _: str, *, token: int, **options: Any) -> None:
        self._held(token)
        del self.leases[token]

    def do_bury(self, _: str, *, token: int, reason: str = "", durability: str | None = None) -> None:
        del self.entries[self._held(token)]
        del self.leases[token]

    def do_get(self, _: str, *, key: Any) -> Any:
        entry = self.entries.get(key)
        if entry is None:
            return None
        status = "P" if key in self.leases.values() else "W"
        return [key, entry["data"], entry.get("priority", 100), NOW, NOW, 0, status, 0, entry.get("owner"), 1, 0]
