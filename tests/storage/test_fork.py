"""Forking: the child stands alone, and the parent's bytes stay."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest
from tests.storage.histories import (
    AT,
    OCCUPANCY,
    SESSION,
    Writer,
    answer,
    fake_disk,
    place,
    prompt,
    result,
)

from ullage.core.errors import BadInput, StorageFailed
from ullage.core.events import (
    DamageAccepted,
    Entry,
    Event,
    HandoffRecorded,
    Parent,
    PromptQueued,
    QueueHeld,
    SessionForked,
    StepStarted,
    Stop,
    TurnEnded,
    TurnStarted,
    Unknown,
)
from ullage.core.reduce import fold
from ullage.storage.fork import fork, fork_point
from ullage.storage.ids import new_session_id
from ullage.storage.lines import Line
from ullage.storage.log import Opened, SessionLog
from ullage.testing.disk import FakeDisk

CHILD = "01890a5d-ac96-774b-bcce-b302099a8058"
GRANDCHILD = "01890a5d-ac96-774b-bcce-b302099a8059"


def forked(writer: Writer, at_seq: int | None, new_id: str = CHILD) -> tuple[Opened, int]:
    """Fork, open the child, and check what holds for every fork."""
    disk = writer.files
    assert isinstance(disk, FakeDisk)
    before = disk.content(writer.path)
    path, last = fork(disk, writer.log, at_seq, new_id, AT + 50)
    opened = SessionLog.open(disk, path, AT + 60)
    assert disk.content(writer.path) == before
    assert opened.log.verify() == opened.damage == ()
    entries = list(opened.log.entries())
    parent = {entry.seq: entry for entry in writer.log.entries()}
    assert all(parent[entry.seq] == entry for entry in entries[1:-1]), "seq, time and content are the parent's"
    assert isinstance(entries[-1].event, SessionForked)
    assert opened.state == fold(entries), "loading from a checkpoint gives what everything gives"
    facts = opened.state.facts
    assert (facts.session_id, facts.parent) == (new_id, Parent(writer.log.header.session_id, last))  # type: ignore[union-attr]
    assert (facts.queue, facts.held, facts.open_turn, facts.handoffs) == ((), None, None, 0)
    assert facts.anomalies == ()
    return opened, last


def session() -> Writer:
    """Two turns, a checkpoint, a turn; then a turn whose second of two results is missing, and a waiting prompt."""
    writer = Writer(fake_disk())
    writer.turns(2)
    writer.write(prompt("early"))
    writer.compact()
    writer.turns(1, first=2)
    writer.write(HandoffRecorded("{}", 3))
    writer.write(prompt("open"), TurnStarted("open"), StepStarted("open", 1, OCCUPANCY))
    writer.write(answer("open", 1, calls=["a", "b"]))
    writer.write(prompt("waiting"), QueueHeld("cancelled"))
    writer.write(result("open", 1, "a"))
    return writer


def test_fork_of_everything() -> None:
    """Handoffs, queue, open turn and half a unit stay behind; what the unit stood on is copied."""
    writer = session()
    opened, last = forked(writer, None)
    kinds = [type(entry.event) for entry in opened.log.entries()]
    assert HandoffRecorded not in kinds
    prompts = [e.event.message.turn_id for e in opened.log.entries() if isinstance(e.event, PromptQueued)]
    assert prompts == ["t0", "t1", "t2", "open"]
    assert isinstance(next(writer.log.entries(last)).event, StepStarted)
    lines = [line for line in opened.log.lines() if isinstance(line, Line)]
    assert lines[-1].ckpt in [line.offset for line in lines if line.has_checkpoint], "offsets are the child's own"
    opened.log.append([prompt("mine")], AT)


def test_fork_at_every_event() -> None:
    """A point inside a unit snaps to its start, whichever event is named; no call is parted from its result."""
    writer = session()
    for seq, new_id in ((seq, new_session_id(seq)) for seq in range(writer.log.next_seq + 1)):
        opened, last = forked(writer, seq, new_id)
        assert last <= seq
        entries = [entry.event for entry in opened.log.entries()]
        calls = [c.call_id for e in entries for m in [getattr(e, "message", None)] if m for c in m.calls]
        results = [r.call_id for e in entries for m in [getattr(e, "message", None)] if m for r in m.results]
        assert sorted(calls) == sorted(results)


def test_fork_of_a_fork() -> None:
    """Bugs row 49: three right histories after a restart, and no parent changed."""
    writer = session()
    writer.write(result("open", 1, "b"))
    child, _ = forked(writer, None)
    second = Writer.__new__(Writer)
    second.files, second.path, second.log, second.state, second.at = (
        writer.files,
        child.log.path,
        child.log,
        child.state,
        AT + 70,
    )
    second.turns(1, first=7)
    second.compact()
    second.turns(1, first=8)
    grandchild, _ = forked(second, None, GRANDCHILD)
    assert grandchild.state.facts.turns == child.state.facts.turns + 2
    third = second.state.items[-1].message.text  # type: ignore[union-attr]
    assert grandchild.state.items[-1].message.text == third  # type: ignore[union-attr]
    assert writer.log.next_seq == list(writer.log.entries())[-1].seq + 1


def test_raw_text_is_copied() -> None:
    """Unknown kinds and fields reach the child exactly as they were written."""
    writer = Writer(fake_disk())
    raw = '{"seq":1,"kind":"later","n":12345678901234567890123,"f":1.10}'
    writer.write(Unknown("later", False, '{"seq":1,"kind":"later","n":12345678901234567890123}'))
    lines = writer.files.content(writer.path)  # type: ignore[attr-defined]
    assert b"12345678901234567890123" in lines
    opened, _ = forked(writer, None)
    assert next(opened.log.entries(1)).event == Unknown("later", False, raw.replace(',"f":1.10', ""))


def test_consent_is_not_copied() -> None:
    writer = Writer(fake_disk())
    writer.turns(1)
    writer.write(DamageAccepted(((5, 9),)))
    opened, _ = forked(writer, None)
    assert not [entry for entry in opened.log.entries() if isinstance(entry.event, DamageAccepted)]


@pytest.mark.parametrize("new_id", [SESSION, "../../etc/passwd", "", "x" * 36])
def test_ids(new_id: str) -> None:
    """T130, T131: an existing id and a path are refused."""
    writer = session()
    with pytest.raises(BadInput):
        fork(writer.files, writer.log, None, new_id, AT)


def test_a_fork_is_whole_or_not_there() -> None:
    """Whichever call fails, no half child is ever listed or opened."""
    nth = 0
    while True:
        nth += 1
        writer = session()
        disk = writer.files
        assert isinstance(disk, FakeDisk)
        disk.fail(nth, errno.ENOSPC)
        try:
            fork(disk, writer.log, None, CHILD, AT)
        except StorageFailed:
            pass
        if not disk.has_failed:
            break
        for left in (disk, disk.lose_power(lambda n: 0), disk.lose_power(lambda n: n)):
            if left.exists(place(session_id=CHILD)):
                entries: list[Entry] = list(SessionLog.open(left, place(session_id=CHILD), AT).log.entries())
                assert isinstance(entries[-1].event, SessionForked)
    assert nth > 10


def test_path_is_beside_the_parent() -> None:
    writer = session()
    path, _ = fork(writer.files, writer.log, None, CHILD, AT)
    assert path == Path(str(writer.path).replace(SESSION, CHILD))


LOST_RESULTS: dict[str, tuple[list[Event], int]] = {
    "the turn ended": ([TurnEnded("t", Stop.CANCELLED)], 3),
    "another answer": ([answer("t", 2)], 3),
    "another step": ([StepStarted("t", 2, OCCUPANCY), answer("t", 2, calls=["t/2/c0"])], 3),
    "nothing more": ([], 1),
}


@pytest.mark.parametrize("name", LOST_RESULTS)
def test_results_that_a_damaged_line_took_do_not_hold_the_fork_back(name: str) -> None:
    """A unit is open only while its results may still come."""
    rest, last = LOST_RESULTS[name]
    events = [prompt("t"), TurnStarted("t"), answer("t", 1, calls=["t/1/c0"]), *rest]
    entries = [Entry(seq, AT, event) for seq, event in enumerate(events)]
    assert fork_point(iter(entries), None) == (last, frozenset())


def test_a_prompt_whose_start_was_lost_is_no_waiting_one() -> None:
    entries = [Entry(0, AT, prompt("t")), Entry(2, AT, StepStarted("t", 1, OCCUPANCY))]
    assert fork_point(iter(entries), None) == (2, frozenset())
