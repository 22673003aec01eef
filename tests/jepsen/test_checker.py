"""The judge: good histories pass, and each broken promise is named."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from journal.errors import ConnectionLost, JournalError, StoreFailed, StoreFull, TimedOut
from tests.jepsen.checker import Verdict, judge
from tests.jepsen.history import NEVER, History, Note, Op, read_history


class Told:
    """Histories as a test tells them: each call takes 10, unless it is said otherwise."""

    def __init__(self) -> None:
        self.ops: list[Op] = []
        self.notes: list[Note] = []
        self.offset = 0
        self.at = 0

    def op(self, verb: str, asked: list[Any], *, client: str = "a", **more: Any) -> Op:
        self.at += 100
        op = Op(client, len(self.ops) + 1, verb, self.at, asked, **{"ended": self.at + 10, "outcome": "ok", **more})
        self.ops.append(op)
        return op

    def put(self, key: str, *, word: str = "inserted", verb: str = "put", **more: Any) -> Op:
        self.offset += 1
        return self.op(verb, [[key]], **{"answer": [[word, 1, self.offset]], **more})

    def claim(
        self, key: str, token: int, *, start: int = 0, version: int = 2, data: str | None = None, **more: Any
    ) -> Op:
        answer = [[key, token, version, start, start + 100, key if data is None else data]]
        return self.op("claim", [], **{"answer": answer, **more})

    def end(self, verb: str, key: str, token: int, **more: Any) -> Op:
        return self.op(verb, [[key, token]], **more)

    def death(self) -> None:
        self.at += 100
        self.notes.append(Note(self.at + 5, "kill", {"at": self.at}))

    def verdict(self, still_there: tuple[str, ...] = ()) -> Verdict:
        return judge(self.ops, self.notes, still_there)

    def broken(self, still_there: tuple[str, ...] = ()) -> list[str]:
        return sorted(self.verdict(still_there).violations)


def test_an_entry_that_is_put_claimed_and_done_is_as_promised() -> None:
    """The usual life breaks nothing."""
    told = Told()
    told.put("k")
    told.claim("k", 1)
    told.end("done", "k", 1)
    assert told.verdict().is_good
    assert not told.verdict().repeated


def test_an_acknowledged_put_that_nobody_finished_is_lost() -> None:
    """Q1: neither finished nor there; a done that was refused finishes nothing, one that is unknown may have."""
    told = Told()
    told.put("k")
    assert told.broken() == ["Q1"] and told.broken(("k",)) == []
    told.claim("k", 1)
    told.end("done", "k", 1, outcome="fail", error="LeaseLost: too late")
    assert told.broken() == ["Q1"]
    told.end("done", "k", 1, outcome="unknown", error="TimedOut: no answer")
    assert told.broken() == []


def test_an_unknown_put_may_come_out_or_not() -> None:
    """Q1 and Q2 ask nothing of it."""
    told = Told()
    told.put("k", outcome="unknown", error="TimedOut: no answer")
    told.put("l", outcome="unknown", error="ConnectionLost: nobody knows")
    told.claim("l", 1)
    told.end("done", "l", 1)
    assert told.broken() == []


def test_what_nobody_put_is_unexpected() -> None:
    """Q2: a key out of nowhere, one whose put was refused, one with other data, one before its put had begun."""
    for make in (
        lambda told: None,
        lambda told: told.put("k", outcome="fail", error="StoreFull: no room"),
    ):
        told = Told()
        make(told)
        told.claim("k", 1)
        told.end("done", "k", 1)
        assert told.broken() == ["Q2"]
    told = Told()
    told.put("k")
    told.claim("k", 1, data="l")
    told.end("done", "k", 1)
    assert told.broken() == ["Q2"]
    told = Told()
    told.claim("k", 1)
    told.end("done", "k", 1)
    told.put("k")
    assert told.broken() == ["Q2"]
    assert Told().broken(("k",)) == ["Q2"]


def test_a_key_has_one_holder_at_a_time() -> None:
    """Q3: the lease before must be over, by the daemon's clock, or given back."""
    told = Told()
    told.put("k")
    told.claim("k", 1, start=0)
    told.claim("k", 2, start=99, version=3, client="b")
    told.end("done", "k", 2, client="b")
    assert told.broken() == ["Q3"]
    told.ops[2].answer[0][3] = 100
    assert told.verdict().is_good and told.verdict().repeated == {"lost lease": 1}


def test_a_lease_that_was_extended_lasts_longer() -> None:
    """Q3: extensions count."""
    told = Told()
    told.put("k")
    told.claim("k", 1, start=0)
    told.end("extend", "k", 1, answer=[500])
    told.claim("k", 2, start=300, version=3)
    told.end("done", "k", 2)
    assert told.broken() == ["Q3"]


def test_what_was_given_back_is_given_to_others() -> None:
    """Q3: also when nobody knows whether it was given back."""
    for outcome in ("ok", "unknown"):
        told = Told()
        told.put("k")
        told.claim("k", 1, start=0)
        told.end("release", "k", 1, outcome=outcome)
        told.claim("k", 2, start=10, version=3)
        told.end("done", "k", 2)
        assert told.verdict().is_good and told.verdict().repeated == {"given back": 1}


def test_a_release_that_was_refused_gives_nothing_back() -> None:
    """Q3: a refusal changes nothing."""
    told = Told()
    told.put("k")
    told.claim("k", 1, start=0)
    told.end("release", "k", 1, outcome="fail", error="LeaseLost: too late")
    told.claim("k", 2, start=10, version=3)
    told.end("done", "k", 2)
    assert told.broken() == ["Q3"]


def test_nothing_is_finished_twice() -> None:
    """Q4: neither acknowledged twice, nor handed out afterwards, nor there at the end; repeating a done is fine."""
    told = Told()
    told.put("k")
    told.claim("k", 1, start=0)
    told.end("done", "k", 1)
    told.end("done", "k", 1)
    assert told.broken() == []
    assert told.broken(("k",)) == ["Q4"]
    told.claim("k", 2, start=200, version=3)
    assert told.broken() == ["Q4"]
    told.end("done", "k", 2)
    assert told.broken() == ["Q4"]


def test_a_put_that_a_restart_came_into_may_be_made_twice() -> None:
    """Q3, Q4 and Q5 allow for the client that asked again."""
    told = Told()
    put = told.put("k", word="merged")
    told.claim("k", 1, start=0)
    told.end("done", "k", 1)
    told.death()
    put.ended = told.at + 50
    told.claim("k", 2, start=50, version=2)
    told.end("done", "k", 2)
    assert told.verdict().is_good and told.verdict().repeated == {"unknown reply": 1}
    told.claim("k", 3, start=200, version=2)
    assert told.broken() == ["Q4"]


def test_a_put_that_was_answered_before_a_restart_is_made_once() -> None:
    """Q3, Q4 and Q6: a restart excuses only those who waited for an answer."""
    told = Told()
    told.put("k")
    told.claim("k", 1, start=0)
    told.end("done", "k", 1)
    told.death()
    told.claim("k", 2, start=50, version=2)
    told.end("done", "k", 2)
    assert told.broken() == ["Q3", "Q4", "Q6"]


def test_what_is_made_once_is_inserted() -> None:
    """Q5: a merge, or a key that exists, shows that a call was made twice."""
    told = Told()
    told.put("k", word="merged")
    assert told.broken(("k",)) == ["Q5"]
    told = Told()
    told.put("k", verb="create", outcome="fail", error="KeyExists: it is there")
    assert told.broken() == ["Q5"]
    told = Told()
    told.put("k", verb="create", outcome="unknown", error="TimedOut: no answer")
    told.put("k", verb="create", outcome="fail", error="KeyExists: it is there")
    assert told.broken(("k",)) == []


def test_tokens_and_cursors_only_grow() -> None:
    """Q6: of calls one after the other. Those side by side may come in any order."""
    told = Told()
    for key in "kl":
        told.put(key)
    told.claim("k", 5)
    told.claim("l", 4)
    for key, token in (("k", 5), ("l", 4)):
        told.end("done", key, token)
    assert told.broken() == ["Q6"]
    told.ops[2].ended = told.ops[3].ended
    assert told.broken() == []
    told.ops[1].answer[0][2] = 0
    assert told.broken() == ["Q6"]


def test_a_create_that_is_asked_again_tells_where_the_first_one_is() -> None:
    """Q6: the cursor of what exists is that of the call before, whose answer was lost; others have put since."""
    told = Told()
    told.put("k", verb="create", outcome="unknown", error="ConnectionLost: no answer")
    told.put("l")
    told.put("k", verb="create", word="exists", answer=[["exists", 1, 1]])
    assert told.broken(("k", "l")) == []
    told.ops[2].answer[0][0] = "inserted"
    assert told.broken(("k", "l")) == ["Q6"]


def test_a_token_is_one_clients() -> None:
    """Q6: the same lease may be asked about again by its holder, also after a restart under its name, and by nobody else."""
    for client, broken in (("a~1", []), ("b", ["Q6"])):
        told = Told()
        told.put("k")
        told.claim("k", 1, client="a~0")
        told.op("leases", [], client=client, answer=told.ops[1].answer)
        told.end("done", "k", 1)
        assert told.broken() == broken


def test_versions_only_grow() -> None:
    """Q6: each lease of an entry has a higher one."""
    told = Told()
    told.put("k")
    told.claim("k", 1, start=0, version=4)
    told.claim("k", 2, start=100, version=4)
    told.end("done", "k", 2)
    assert told.broken() == ["Q6"]


def test_an_answer_that_no_client_should_get() -> None:
    """Q7: an error of the daemon's own, also for one item of a group."""
    told = Told()
    told.put("k", outcome="unknown", error="RemoteError: the daemon failed (KeyError)")
    assert told.broken() == ["Q7"]
    told = Told()
    told.op("put_many", [["k"], ["l"]], answer=[["inserted", 1, 1], ["error", "FrameError: what", "unknown"]])
    assert told.broken(("k",)) == ["Q7"]


def test_items_of_a_group_count_for_themselves() -> None:
    """Q1: what was refused of a group is not missed, the rest is."""
    told = Told()
    told.op("put_many", [["k"], ["l"]], answer=[["inserted", 1, 1], ["error", "StoreFull: no room", "fail"]])
    assert told.broken() == ["Q1"] and told.broken(("k",)) == []
    told.op("claim_many", [], answer=[["k", 1, 2, 0, 100, "k"]])
    told.op("done_many", [["k", 1]], answer=["LeaseLost: too late"])
    assert told.broken() == ["Q1"]


def test_a_history_tells_what_was_asked_and_answered(tmp_path: Path) -> None:
    """Only a refusal is a failure; whatever else went wrong is unknown, and so is a call that never ended."""
    path = tmp_path / "a~0.jsonl"
    history = History(path)

    def fail(error: JournalError) -> Any:
        raise error

    assert history.call("put", [["k"]], lambda: 7, lambda result: [result]) == 7
    for error in (StoreFull("no room"), TimedOut("late"), StoreFailed("sync"), ConnectionLost("gone")):
        assert history.call("put", [["l"]], lambda error=error: fail(error), lambda result: []) is None  # type: ignore[misc]
    history.note("kill", at=3)
    history.close()
    with path.open("ab") as file:
        file.write(b'["invoke", 99, 6, "put", [["m"]]]\n["ok", 100, 6, [[')
    ops, notes = read_history(path)
    assert [op.outcome for op in ops] == ["ok", "fail", "unknown", "unknown", "unknown", "unknown"]
    assert ops[0].answer == [7] and ops[0].until == ops[0].ended
    assert ops[-1].ended == NEVER == ops[-1].until == ops[2].until and ops[2].ended < NEVER
    assert [(note.event, note.more) for note in notes] == [("kill", {"at": 3})]
