"""State is the fold of the log: the law behind every opening, totality, and what each event does to the facts."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.core import strategies
from tests.core.walk import Walk, walk

from ullage.core import sequence
from ullage.core.checkpoint import VERSION
from ullage.core.context import Kept, Reason
from ullage.core.events import (
    AnswerReceived,
    CheckpointCommitted,
    CompactionFailed,
    Entry,
    Event,
    HandoffRecorded,
    LogRepaired,
    Parent,
    PromptEdited,
    PromptMode,
    PromptQueued,
    PromptRemoved,
    Purpose,
    QueueHeld,
    ResultReceived,
    SessionConfigured,
    SessionCreated,
    SessionForked,
    SessionRenamed,
    SteerEntered,
    StepStarted,
    Stop,
    TokensRecounted,
    TurnEnded,
    TurnStarted,
    Unknown,
    UsageBooked,
)
from ullage.core.limits import BOUNDS
from ullage.core.messages import (
    UNANSWERED,
    BlobRef,
    Message,
    Op,
    Opaque,
    Reasoning,
    Role,
    Text,
    ToolCall,
    ToolFacts,
    ToolResult,
    Usage,
)
from ullage.core.reduce import fold, reduce, resume
from ullage.core.sequence import AppendOnly
from ullage.core.state import Item, MessageItem, ReplacementItem, State, ended_how, seen_as
from ullage.core.views import fork_view
from ullage.testing import playbook as book

PROPERTY = settings(derandomize=True, max_examples=100, deadline=None)
FEW = settings(PROPERTY, max_examples=60)


# --- events in short ---


def said(turn_id: str, text: str = "do it") -> Message:
    return book.said(turn_id, text)


def queued(turn_id: str, mode: PromptMode = PromptMode.QUEUE, tokens: int = 4) -> PromptQueued:
    return PromptQueued(said(turn_id), mode, tokens, "test")


def started(turn_id: str = "t1") -> list[Event]:
    return [queued(turn_id), TurnStarted(turn_id)]


def step(number: int = 1, turn_id: str = "t1") -> StepStarted:
    return StepStarted(turn_id, number, book.occupancy())


def answer(
    number: int = 1,
    *calls: str,
    usage: Usage = Usage(100, 20),  # noqa: B008  # frozen
    stop: str = "end_turn",
    parts: tuple[Text | Reasoning, ...] = (Text("done"),),
    turn_id: str = "t1",
) -> AnswerReceived:
    asked = tuple(ToolCall(call_id, "bash", "{}") for call_id in calls)
    message = Message(f"{turn_id}/{number}/a", Role.ASSISTANT, (*parts, *asked), turn_id)
    return AnswerReceived(turn_id, number, message, 5, "test", usage, stop, "model")


def result(
    call_id: str, facts: ToolFacts | None = None, *, text: str = "out", is_error: bool = False, **more: object
) -> ResultReceived:
    given = ToolResult(call_id, text, is_error, facts or ToolFacts(Op.OTHER), **more)  # type: ignore[arg-type]
    turn_id = call_id.split("/")[0]
    return ResultReceived(turn_id, 1, Message(f"{call_id}/r", Role.TOOL, (given,), turn_id), 6, "test")


def ended(turn_id: str = "t1", stop: Stop = Stop.DONE) -> TurnEnded:
    return TurnEnded(turn_id, stop)


def entries(events: Iterable[Event]) -> list[Entry]:
    return [Entry(seq, 1_000 * seq, event) for seq, event in enumerate((book.CREATED, *events))]


def check_events(*events: Event) -> State:
    """Fold these after the session's creation; every one of them must be possible."""
    state = fold(entries(events))
    assert not state.facts.anomalies, [events[seq - 1] for seq in state.facts.anomalies]
    return state


def check_refused(before: State, event: Event) -> None:
    """Nothing changes but anomalies."""
    seq = before.facts.last_seq + 1
    after = reduce(before, Entry(seq, 5, event))
    assert after.items == before.items
    seen = (*before.facts.anomalies, seq)[-BOUNDS.anomalies_remembered :]
    assert after.facts == replace(before.facts, anomalies=seen, last_seq=seq, last_at=5)


def checkpoint(before: State, *tail: Kept, reason: Reason = Reason.MANUAL, after: int = 10) -> CheckpointCommitted:
    of = book.plan(before, reason)
    return book.checkpoint(before, of, replace(book.replacement(), tail=tail), book.report(of, after))


CALL = "t1/1/c0"
IN_TOOLS: list[Event] = [*started(), step(), answer(1, CALL)]


# --- totality and the law ---


def test_there_is_a_strategy_for_every_kind() -> None:
    assert set(strategies.BY_KIND) == strategies.KINDS


@PROPERTY
@given(strategies.logs())
def test_any_sequence_of_events_folds(log: list[Entry]) -> None:
    """Total: never raises, seq and time always move on, bounds hold, and a second fold is equal."""
    state = fold(log)
    assert state == fold(log)
    facts = state.facts
    if log:
        assert (facts.last_seq, facts.last_at) == (log[-1].seq, log[-1].at)
    assert len(facts.anomalies) <= BOUNDS.anomalies_remembered
    assert state.tokens == sum(item.tokens for item in state.items)
    assert [item.upto for item in state.items] == [
        sum(item.tokens for item in state.items[: end + 1]) for end in range(len(state.items))
    ]


ONCE = (
    SessionCreated,
    PromptQueued,
    PromptRemoved,
    TurnStarted,
    SteerEntered,
    StepStarted,
    AnswerReceived,
    ResultReceived,
    TurnEnded,
)


@PROPERTY
@given(strategies.logs(12), st.one_of(*(strategies.BY_KIND[kind] for kind in ONCE)))
def test_what_happens_once_changes_nothing_but_anomalies_the_second_time(log: list[Entry], event: Event) -> None:
    """Whatever came before, whether it fitted or was taken over a gap."""
    before = reduce(fold(log), Entry(len(log), 7, event))
    if isinstance(event, SessionCreated) and not before.facts.session_id:
        return  # drawn without a name
    check_refused(before, event)


def _check_law(log: list[Entry]) -> int:
    """`fold(all) == fold(facts, tail)` from every accepted checkpoint; answers how many there were."""
    n_checkpoints, state = 0, State()
    whole = fold(log)
    for index, entry in enumerate(log):
        state = reduce(state, entry)
        if isinstance(entry.event, CheckpointCommitted) and state.facts.epoch == entry.seq:
            n_checkpoints += 1
            assert resume(entry) == state
            assert fold(log[index + 1 :], resume(entry)) == whole
    return n_checkpoints


def test_the_law_holds_for_real_sessions() -> None:
    """R14: the whole log folds to what a checkpoint and its tail fold to, facts and items; every prefix folds."""
    n_checkpoints = sum(_check_law(walk(30_000 + seed).entries) for seed in range(80))
    assert n_checkpoints > 50


@FEW
@given(strategies.logs(15))
def test_the_law_holds_for_impossible_sessions(log: list[Entry]) -> None:
    """R14, with checkpoints made where the drawn log stands, whatever it did before."""
    state, lived = State(), list[Entry]()
    for entry in log:
        event = entry.event
        if isinstance(event, CheckpointCommitted):
            event = replace(event, version=VERSION, revision=state.facts.revision, facts=state.facts)
        lived.append(replace(entry, event=event))
        state = reduce(state, lived[-1])
    _check_law(lived)


def test_only_a_checkpoint_can_be_resumed_from() -> None:
    with pytest.raises(ValueError, match="only a checkpoint"):
        resume(Entry(0, 0, SessionRenamed("x")))


def test_a_fork_keeps_the_law_and_starts_without_anything_open() -> None:
    """What a fork copies, and its last event, fold like any log; queue, hold, open turn and handoffs are cleared."""
    for seed in range(60):
        parent = walk(40_000 + seed)
        copied = [entry for entry in parent.entries[: 10 + seed] if fork_view(entry.event)]
        last = copied[-1].seq + 1
        log = [*copied, Entry(last, 5, SessionForked(Parent("session", last - 1)))]
        _check_law(log)
        facts = fold(log).facts
        assert (facts.queue, facts.held, facts.open_turn, facts.sent, facts.handoffs) == ((), None, None, None, 0)
        assert facts.parent == Parent("session", last - 1)
        assert not facts.anomalies


# --- impossible events ---

ENDED: list[Event] = [*started(), step(), answer(1, CALL), result(CALL), ended()]
TWO_RESULTS = Message("m", Role.TOOL, (ToolResult(CALL, "a"), ToolResult("t1/1/c9", "b")), "t1")

IMPOSSIBLE: dict[str, tuple[list[Event], Event]] = {
    "a second creation": ([], SessionCreated("other", "/other", 1, 2)),
    "a prompt of a waiting turn": ([queued("t1")], queued("t1")),
    "a prompt of the running turn": (started(), queued("t1")),
    "a prompt of an ended turn": (ENDED, queued("t1")),
    "an edit of what runs": (started(), PromptEdited(said("t1"), 1, "test")),
    "an edit of an ended turn": (ENDED, PromptEdited(said("t1"), 1, "test")),
    "a removal of what runs": (started(), PromptRemoved("t1")),
    "a removal of an ended turn": (ENDED, PromptRemoved("t1")),
    "a second start": (started(), TurnStarted("t1")),
    "a start of an ended turn": (ENDED, TurnStarted("t1")),
    "a steer of the turn itself": (started(), SteerEntered("t1", "t1")),
    "a steer of a waiting turn into itself": ([queued("t1")], SteerEntered("t1", "t1")),
    "a steer of an ended turn": ([*ENDED, *started("t2")], SteerEntered("t2", "t1")),
    "a steer into an ended turn": ([*ENDED, queued("s1")], SteerEntered("t1", "s1")),
    "a step of an ended turn": (ENDED, step(2)),
    "a second start of a step": ([*started(), step()], step()),
    "a step of before": ([*started(), step(), answer(), step(2)], step()),
    "a second answer to one step": ([*started(), step(), answer()], answer()),
    "an answer to a step of before": ([*started(), step(), answer(), step(2)], answer(1)),
    "an answer to a step that gave way": ([*started(), step(), step(2)], answer(1)),
    "an answer of an ended turn": (ENDED, answer(2)),
    "a second result": ([*IN_TOOLS, result(CALL)], result(CALL)),
    "a second result of a step of before": ([*IN_TOOLS, result(CALL), step(2)], result(CALL)),
    "a result of an ended turn": (ENDED, result("t1/1/c1")),
    "two results in one message": (IN_TOOLS, ResultReceived("t1", 1, TWO_RESULTS, 1, "test")),
    "no result in a message": (IN_TOOLS, ResultReceived("t1", 1, said("t1"), 1, "test")),
    "a second end": (ENDED, ended()),
}


@pytest.mark.parametrize("name", IMPOSSIBLE)
def test_what_can_not_have_happened_changes_nothing(name: str) -> None:
    events, impossible = IMPOSSIBLE[name]
    check_refused(check_events(*events), impossible)


# --- what a provider measured (T001-T010) ---

BASELINE: dict[str, tuple[list[Event], int | None]] = {
    "T001 the largest valid total wins": ([answer(usage=Usage(100, 20, 150))], 150),
    "T001 parts that are no numbers are ignored": ([answer(usage=Usage(100, None, 150))], 150),
    "T001 and so are negative ones": ([answer(usage=Usage(-5, 20, 150))], 150),
    "the sum where no total is told": ([answer(usage=Usage(100, 20))], 120),
    "T002 no usage": ([answer(usage=Usage())], None),
    "W-P1 a prompt of zero tokens is no measurement": ([answer(usage=Usage(0, 20, 20))], None),
    "T006 a later answer without usage": ([answer(1, CALL), result(CALL), step(2), answer(2, usage=Usage())], None),
    "T006 a kept half answer": ([answer(usage=Usage(), stop="cancelled")], None),
    "T007 a message right after the request": (
        [HandoffRecorded("{}", 3), answer(usage=Usage(100, 20))],
        None,
    ),
    "reasoning that is not sent back is taken off": ([answer(usage=Usage(100, 20, reasoning=15))], 105),
    "signed reasoning is sent back": (
        [answer(usage=Usage(100, 20, reasoning=15), parts=(Reasoning("hm", Opaque("p", "m", "{}")),))],
        120,
    ),
}


@pytest.mark.parametrize("name", BASELINE)
def test_what_projection_may_build_on(name: str) -> None:
    events, total = BASELINE[name]
    baseline = check_events(*started(), step(), *events).facts.baseline
    assert (baseline and baseline.total) == total


def test_only_what_comes_after_the_answer_is_estimated() -> None:
    """T003, T004: the baseline ends with the answer itself; a result or a handoff comes on top."""
    state = check_events(*IN_TOOLS, result(CALL), HandoffRecorded("{}", 20))
    baseline = state.facts.baseline
    assert baseline is not None and baseline.length == 2
    assert state.tokens - state.items[baseline.length - 1].upto == 6 + 20


def test_the_fixed_part_of_the_request_is_kept() -> None:
    """T009, T010: growth of the fixed part is counted against what was sent."""
    baseline = check_events(*started(), step(), answer()).facts.baseline
    assert baseline is not None and baseline.fixed == book.occupancy().fixed


@pytest.mark.parametrize("change", [SessionConfigured(model="m2"), SessionConfigured(profile="blade")])
@pytest.mark.parametrize("when", ["before the answer", "after it"])
def test_a_switch_is_a_revision_that_the_baseline_is_not_of(change: Event, when: str) -> None:
    """T005, T008: the answer to a request of before the switch says nothing about requests of after it."""
    rest = [change, answer()] if when == "before the answer" else [answer(), change]
    facts = check_events(*started(), step(), *rest).facts
    assert facts.baseline is not None
    assert facts.baseline.revision == -1 != facts.revision


def test_other_settings_are_no_revision() -> None:
    facts = check_events(*started(), step(), answer(), SessionConfigured(permission_mode="auto", window=5)).facts
    assert facts.revision == -1


def test_a_checkpoint_is_a_revision_without_a_baseline() -> None:
    before = check_events(*started(), step(), answer(), HandoffRecorded("{}", 3))
    after = reduce(before, Entry(9, 0, checkpoint(before))).facts
    assert (after.revision, after.epoch, after.baseline, after.sent, after.handoffs) == (9, 9, None, None, 0)


# --- guards of recovery ---


def attempt(reason: Reason = Reason.THRESHOLD) -> CompactionFailed:
    return CompactionFailed(reason, book.error())


GUARDS: dict[str, tuple[list[Event], tuple[int, bool]]] = {
    "a failed attempt counts": ([step(), attempt()], (1, False)),
    "a recovery spends the guard": ([step(), attempt(Reason.OVERFLOW)], (1, True)),
    "a manual one is no attempt": ([step(), attempt(Reason.MANUAL)], (0, False)),
    "an answer releases": ([attempt(Reason.OVERFLOW), step(), answer()], (0, False)),
    "a half answer does not": ([attempt(Reason.OVERFLOW), step(), answer(stop="cancelled")], (1, True)),
    "nor does a failed one": ([attempt(Reason.OVERFLOW), step(), answer(stop="failed")], (1, True)),
    "nor does the turn's end": ([step(), attempt(Reason.OVERFLOW), ended()], (1, True)),
}


@pytest.mark.parametrize("name", GUARDS)
def test_only_a_whole_answer_releases_the_guards(name: str) -> None:
    events, guards = GUARDS[name]
    facts = check_events(*started(), *events).facts
    assert (facts.attempts, facts.overflow_spent) == guards


def test_a_committed_attempt_counts_with_its_size() -> None:
    before = check_events(*started())
    facts = reduce(before, Entry(9, 0, checkpoint(before, reason=Reason.OVERFLOW, after=777))).facts
    assert (facts.attempts, facts.attempt_size, facts.overflow_spent) == (1, 777, True)


# --- items ---


def test_a_checkpoint_replaces_what_the_model_sees() -> None:
    before = check_events(*started(), step(), answer(), ended())
    kept = before.items[1]
    assert isinstance(kept, MessageItem)
    event = checkpoint(before, Kept(kept.seq, kept.message, kept.tokens))
    after = reduce(before, Entry(9, 0, event))
    head, tail = after.items
    assert isinstance(head, ReplacementItem) and head.replacement == event.replacement
    assert isinstance(tail, MessageItem) and tail.message == kept.message
    assert after.tokens == event.replacement.tokens == 10 + kept.tokens


BAD_CHECKPOINTS = {
    "a version of the future": {"version": VERSION + 1},
    "another revision": {"revision": 5},
}


@pytest.mark.parametrize("name", BAD_CHECKPOINTS)
def test_a_checkpoint_that_is_not_acceptable_replaces_nothing(name: str) -> None:
    before = check_events(*started())
    bad = replace(checkpoint(before), **BAD_CHECKPOINTS[name])
    after = reduce(before, Entry(9, 0, bad))
    assert after.items == before.items and after.facts.anomalies == (9,) and after.facts.epoch == -1


def test_counts_are_made_once_more() -> None:
    """The rank table came late: counts change, sums follow, everything else stays."""
    before = check_events(*started(), step(), answer(), ended())
    after = reduce(before, Entry(9, 0, TokensRecounted("ranks", (("t1/u", 40), ("nobody", 1)))))
    assert [(i.tokens, i.upto) for i in after.items] == [(40, 40), (5, 45)]
    assert [getattr(i, "encoding", None) for i in after.items] == ["ranks", "test"]
    assert replace(after.facts, last_seq=0, last_at=0) == replace(before.facts, last_seq=0, last_at=0)


# --- facts ---


def test_the_first_prompt_gives_the_title_and_a_name_keeps_it() -> None:
    first = PromptQueued(said("t1", "\n  Mend the door\nsoon"), PromptMode.QUEUE, 1, "test")
    assert check_events(first, TurnStarted("t1")).facts.title == "Mend the door"
    assert check_events(SessionRenamed("Named"), first, TurnStarted("t1")).facts.title == "Named"


def test_files_commands_and_errors_are_learned_from_results() -> None:
    calls = [f"t1/1/c{n}" for n in range(5)]
    state = check_events(
        *started(),
        step(),
        answer(1, *calls),
        result(calls[0], ToolFacts(Op.WRITE, ("a.py",))),
        result(calls[1], ToolFacts(Op.READ, ("a.py", "b.py"))),
        result(calls[2], ToolFacts(Op.RUN, command="make", exit_code=2, detail="2 failed")),
        result(calls[3], ToolFacts(Op.READ, ("gone.py",)), is_error=True),
        result(calls[4], text=UNANSWERED, is_error=True),  # which says nothing about what went wrong
    )
    facts = state.facts
    assert [(f.path, f.written) for f in facts.files] == [("a.py", True), ("b.py", False)]
    assert [(c.command, c.exit_code, c.detail) for c in facts.commands] == [("make", 2, "2 failed")]
    assert facts.newest_error == "out"


HASHES = {
    "read": ([ToolFacts(Op.READ, ("a",), hashes=("1",))], "1"),
    "read in part": ([ToolFacts(Op.READ, ("a",), hashes=("1",)), ToolFacts(Op.READ, ("a",))], "1"),
    "searched": ([ToolFacts(Op.READ, ("a",), hashes=("1",)), ToolFacts(Op.SEARCH, ("a",))], "1"),
    "searched only": ([ToolFacts(Op.SEARCH, ("a",))], None),
    "read again": ([ToolFacts(Op.READ, ("a",), hashes=("1",)), ToolFacts(Op.READ, ("a",), hashes=("2",))], "2"),
    "written": ([ToolFacts(Op.READ, ("a",), hashes=("1",)), ToolFacts(Op.WRITE, ("a",), hashes=("2",))], "2"),
    "written unseen": ([ToolFacts(Op.READ, ("a",), hashes=("1",)), ToolFacts(Op.WRITE, ("a",))], None),
    "deleted": ([ToolFacts(Op.READ, ("a",), hashes=("1",)), ToolFacts(Op.WRITE, ("a",), hashes=("",))], None),
    "second of two": ([ToolFacts(Op.WRITE, ("b", "a"), hashes=("1", "2"))], "2"),
}


@pytest.mark.parametrize("row", HASHES)
def test_how_a_file_was_last_seen(row: str) -> None:
    """What a stale edit is told by: nothing but reading or writing all of a file says what it holds."""
    acts, seen = HASHES[row]
    calls = [f"t1/1/c{n}" for n in range(len(acts))]
    results = [result(call, facts) for call, facts in zip(calls, acts, strict=True)]
    assert seen_as(check_events(*started(), step(), answer(1, *calls), *results).facts, "a") == seen


def test_a_call_that_failed_in_the_middle_did_touch_files() -> None:
    facts = ToolFacts(Op.WRITE, ("a", "b"), hashes=("1",))
    events = (*started(), step(), answer(1, "t1/1/c0"), result("t1/1/c0", facts, is_error=True))
    assert [(file.path, file.written) for file in check_events(*events).facts.files] == [("a", True)]


def test_usage_is_booked_per_purpose() -> None:
    facts = check_events(
        *started(),
        step(),
        UsageBooked(Purpose.SUMMARY, Usage(7, 1), "m"),
        UsageBooked(Purpose.TURN, Usage(), "m"),
        answer(usage=Usage(100, 20, cache_read=50)),
    ).facts
    assert (facts.summary_totals.calls, facts.summary_totals.prompt, facts.summary_totals.unreported) == (1, 7, 0)
    assert (facts.turn_totals.calls, facts.turn_totals.prompt, facts.turn_totals.cache_read) == (2, 100, 50)
    assert facts.turn_totals.unreported == 1


def many_results(n: int) -> State:
    calls = [f"t1/1/c{number}" for number in range(n)]
    found = [
        result(
            call,
            ToolFacts(Op.WRITE if number == 0 else Op.READ, (f"f{number}.py",), f"make {number}", 0),
            full=BlobRef(f"{number:064}", 1),
        )
        for number, call in enumerate(calls)
    ]
    return check_events(*started(), step(), answer(1, *calls), *found)


def test_facts_are_bounded_and_the_oldest_go_first() -> None:
    n = BOUNDS.outputs_remembered + 5
    facts = many_results(n).facts
    assert [f.path for f in facts.files] == [
        "f0.py",  # the only one that was written outlives those that were read
        *(f"f{number}.py" for number in range(n - BOUNDS.files_remembered + 1, n)),
    ]
    assert [c.command for c in facts.commands] == [f"make {i}" for i in range(n - BOUNDS.commands_remembered, n)]
    assert [o.sha256 for o in facts.outputs] == [f"{i:064}" for i in range(5, n)]


def test_ended_turns_and_anomalies_are_bounded() -> None:
    n = BOUNDS.turns_remembered + 3
    turns = [event for number in range(n) for event in (*started(f"t{number}"), ended(f"t{number}"))]
    facts = check_events(*turns).facts
    assert len(facts.ended_turns) == BOUNDS.turns_remembered
    assert ended_how(facts, "t2") is None and ended_how(facts, "t3") is Stop.DONE
    lost = fold(entries([PromptRemoved("nobody")] * 40)).facts.anomalies
    assert lost == tuple(range(41 - BOUNDS.anomalies_remembered, 41))


def test_a_fork_clears_what_belongs_to_the_parent() -> None:
    events: list[Event] = [*IN_TOOLS, queued("t2"), QueueHeld("cancelled"), HandoffRecorded("{}", 3)]
    facts = check_events(*events, SessionForked(Parent("session", 8))).facts
    assert (facts.queue, facts.held, facts.open_turn, facts.sent, facts.handoffs) == ((), None, None, None, 0)


@pytest.mark.parametrize("critical", [False, True])
def test_an_event_of_the_future_is_kept_and_a_critical_one_closes_the_log(critical: bool) -> None:
    before = check_events(*started())
    after = reduce(before, Entry(9, 0, Unknown("vault_sealed", critical, '{"secret": 1}')))
    assert after.items == before.items and not after.facts.anomalies
    assert after.facts.read_only == ("written by a newer version: vault_sealed" if critical else None)


def test_a_repair_changes_nothing() -> None:
    assert check_events(LogRepaired(1, 2, "kept")).facts == replace(check_events().facts, last_seq=1, last_at=1_000)


# --- cost ---


class Counting(list[Item]):
    """The cells of a sequence that counts how often they are copied."""

    copied = 0

    def __getitem__(self, index):  # type: ignore[no-untyped-def]
        if isinstance(index, slice):
            Counting.copied += 1
            return Counting(super().__getitem__(index))
        return super().__getitem__(index)


def test_a_long_session_folds_without_copying_its_items() -> None:
    """5,000 events cost 5,000 appends: the newest value grows in place (no timing, the copies are counted)."""
    events = [
        event
        for number in range(1_000)
        for event in (*started(f"t{number}"), step(1, f"t{number}"), answer(turn_id=f"t{number}"), ended(f"t{number}"))
    ]
    start = AppendOnly[Item]()
    start._cells = Counting()
    Counting.copied = 0
    state = fold(entries(events), State(items=start))
    assert len(events) == 5_000 and len(state.items) == 2_000
    assert state.items._cells is start._cells and Counting.copied == 0
    older = State(state.facts, sequence.AppendOnly[Item].__new__(sequence.AppendOnly))
    older.items._cells, older.items._length = start._cells, 5
    older.items.append(state.items[0])
    assert Counting.copied == 1, "an older value copies once"


def test_the_walks_of_the_law_hold_what_they_claim() -> None:
    """The random logs have handoffs, tails and failures in them, or the law would say little."""
    kinds = {type(entry.event) for seed in range(120) for entry in walk(30_000 + seed).entries}
    missing = strategies.KINDS - kinds - {SessionForked, TokensRecounted}
    assert {kind.__name__ for kind in missing} <= {"DamageAccepted", "ImagesLeftOut", "ImagesMissing"}
    assert Walk(1).state == fold(Walk(1).entries)
