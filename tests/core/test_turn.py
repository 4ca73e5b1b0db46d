"""What the turn machine orders, as a playbook; and its table, cell by cell."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import get_args

import pytest

from ullage.core import limits
from ullage.core.context import CompactionPlan, Reason, Strategy
from ullage.core.events import AnswerReceived, CompactionFailed, PromptMode, SessionConfigured, Stop, TurnEnded
from ullage.core.inputs import (
    CancelAsked,
    CheckpointDone,
    CheckpointFailed,
    CloseAsked,
    CommitFailed,
    CompactAsked,
    CompactionRefused,
    Denied,
    GateRejected,
    Input,
    OutputStarted,
    PromptArrived,
    PromptEditAsked,
    PromptRemoveAsked,
    ProviderFailed,
    QueueResumeAsked,
    SampleFailed,
    Stopped,
)
from ullage.core.messages import BlobRef, Image, Reasoning, Text, ToolCall
from ullage.core.turn import TABLE, Verdict
from ullage.core.turn_state import TurnState
from ullage.testing.playbook import (
    Row,
    Stage,
    allowed,
    answer,
    asks,
    check_turn,
    compact_first,
    decided,
    deny,
    error,
    finished,
    gated,
    handoff_first,
    impossible,
    overflow,
    permit,
    plan,
    planned,
    proceed,
    prompt,
    report,
    said,
    sampled,
    steer,
    waits,
)

START = "append prompt_queued turn_started; plan_step"
CALL = "append step_started; call_provider"
ASKED: list[Row] = [(prompt("t1"), START), (proceed(), f"{CALL} 1")]
"""A turn whose first call is under way."""


def in_tools(*names: str) -> list[Row]:
    """A turn whose first step asked for these tools, all undecided."""
    return [*ASKED, (asks(*names), f"append answer_received; decide_calls {' '.join(names)}")]


def running(*names: str) -> list[Row]:
    calls = [f"t1/1/c{number}" for number in range(len(names))]
    return [*in_tools(*names), (allowed(*calls), f"run_tools {' '.join(names)}")]


# --- the table ---

CELLS = {
    # one letter a state, in the order of TurnState: h handled, - ignored, R refused
    "PromptArrived": "hhhhhhR",
    "PromptEditAsked": "hhhhhhR",
    "PromptRemoveAsked": "hhhhhhR",
    "QueueResumeAsked": "hhhhhhR",
    "CompactAsked": "hhhhhhR",
    "RewindAsked": "hRRRRRR",
    "RedoAsked": "hRRRRRR",
    "CancelAsked": "hhhhhh-",
    "CloseAsked": "hhhhhhh",
    "StepPlanned": "-h-----",
    "OutputStarted": "-h-----",
    "AnswerArrived": "-h-----",
    "ProviderFailed": "-h-----",
    "CallsDecided": "--h----",
    "PermissionAnswered": "---h---",
    "ToolFinished": "--h--h-",
    "CompactionPlanned": "----h--",
    "CompactionRefused": "----h--",
    "SampleFinished": "----h--",
    "SampleFailed": "----h--",
    "GatePassed": "----h--",
    "GateRejected": "----h--",
    "CheckpointDone": "----h--",
    "CheckpointFailed": "----h--",
    "Stopped": "-----h-",
    "CommitFailed": "hhhhhhh",
}
LETTERS = {Verdict.IGNORED: "-", Verdict.REFUSED: "R"}


def test_every_input_is_decided_in_every_state() -> None:
    assert set(TABLE) == set(get_args(Input))
    assert all(list(cells) == list(TurnState) for cells in TABLE.values())


def test_what_is_ignored_and_refused_is_as_listed() -> None:
    found = {
        event.__name__: "".join(LETTERS.get(cell, "h") for cell in cells.values())  # type: ignore[call-overload]
        for event, cells in TABLE.items()
    }
    assert found == CELLS


# --- prompts ---


def test_a_turn_with_two_steps() -> None:
    stage = check_turn(
        *running("read", "grep"),
        (finished("t1/1/c1"), "append result_received"),
        (finished("t1/1/c0"), "append result_received; plan_step"),
        (proceed(), f"{CALL} 2"),
        (OutputStarted(), ""),
        (answer(), "append answer_received turn_ended; reply_turn t1 done"),
    )
    assert stage.turn.state is TurnState.IDLE
    assert stage.state.facts.ended_turns == (("t1", Stop.DONE),)


def test_ids_are_ours_whatever_the_provider_says() -> None:
    """Two calls with the same provider id stay two calls (bugs row 34)."""
    twice = answer(ToolCall("x", "read", "{}", "call_0"), ToolCall("x", "read", "{}", "call_0"), stop="tool_use")
    stage = check_turn(*ASKED, (twice, "append answer_received; decide_calls read read"))
    opened = stage.state.facts.open_turn
    assert opened is not None and opened.pending == ("t1/1/c0", "t1/1/c1")


def test_an_answer_that_reached_its_limit_ends_with_length() -> None:
    check_turn(*ASKED, (answer(stop="max_tokens"), "append answer_received turn_ended; reply_turn t1 length"))


def test_a_prompt_while_busy_waits_and_runs_afterwards() -> None:
    check_turn(
        *ASKED,
        (prompt("t2"), "append prompt_queued"),
        (answer(), "append answer_received turn_ended; reply_turn t1 done; append turn_started; plan_step"),
        (proceed(), f"{CALL} 1"),
        (answer(), "append answer_received turn_ended; reply_turn t2 done"),
    )


def test_a_steer_enters_at_the_next_step_and_is_answered_there() -> None:
    stage = check_turn(
        *running("read"),
        (steer("s1"), "append prompt_queued"),
        (finished("t1/1/c0"), "append result_received; append steer_entered; reply_turn s1 entered; plan_step"),
        (proceed(), f"{CALL} 2"),
        (steer("s2"), "append prompt_queued"),
        (answer(), "append answer_received; append steer_entered; reply_turn s2 entered; plan_step"),
    )
    opened = stage.state.facts.open_turn
    assert opened is not None and [m.turn_id for m in opened.task] == ["t1", "s1", "s2"]


def test_a_steer_enters_before_a_compaction_that_is_asked_for() -> None:
    """Else it could be taken back meanwhile, and the turn would go on without anything new."""
    check_turn(
        *ASKED,
        (CompactAsked("k1"), ""),
        (steer("s1"), "append prompt_queued"),
        (answer(), "append answer_received; append steer_entered; reply_turn s1 entered; plan_compaction manual"),
        (PromptRemoveAsked("s1"), ""),
    )


def test_a_held_steer_waits_and_a_new_one_enters() -> None:
    """What was held by a cancel waits for its person, whatever runs meanwhile."""
    check_turn(
        *ASKED,
        (steer("s1"), "append prompt_queued"),
        (CancelAsked("t1"), "stop_effects"),
        (Stopped(), "append turn_ended queue_held; reply_turn t1 cancelled"),
        (steer("t2"), START),
        (proceed(), f"{CALL} 1"),
        (steer("s2"), "append prompt_queued"),
        (answer(), "append answer_received; append steer_entered; reply_turn s2 entered; plan_step"),
        (proceed(), f"{CALL} 2"),
        (answer(), "append answer_received turn_ended; reply_turn t2 done"),
    )


def test_a_steer_to_an_idle_session_is_a_turn() -> None:
    check_turn((steer("t1"), START))


@pytest.mark.parametrize("mode", PromptMode)
def test_a_repeated_turn_id_is_the_same_turn(mode: PromptMode) -> None:
    again = prompt("t1", mode)
    check_turn(
        *ASKED,
        (again, ""),
        (prompt("t2"), "append prompt_queued"),
        (prompt("t2", mode), ""),
        (PromptRemoveAsked("t2"), "append prompt_removed; reply_turn t2 cancelled"),
        (prompt("t2", mode), "reply_turn t2 cancelled"),
        (answer(), "append answer_received turn_ended; reply_turn t1 done"),
        (again, "reply_turn t1 done"),
    )


def test_a_waiting_prompt_can_be_edited_and_removed() -> None:
    stage = check_turn(
        *ASKED,
        (prompt("t2"), "append prompt_queued"),
        (PromptEditAsked(said("t2", "something else")), "append prompt_edited"),
        (PromptEditAsked(said("t1", "too late")), ""),
        (PromptRemoveAsked("t1"), ""),
    )
    assert [q.message.text for q in stage.state.facts.queue] == ["something else"]


# --- cancel ---


def test_cancelling_a_call_keeps_what_was_said_and_holds_the_queue() -> None:
    """Unsigned reasoning and incomplete calls are dropped; the text stays, marked."""
    stage = check_turn(
        *ASKED,
        (prompt("t2"), "append prompt_queued"),
        (CancelAsked("t1"), "stop_effects"),
        (
            Stopped((Reasoning("hm"), Text("half"), ToolCall("", "bash", '{"comm')), "model"),
            "append answer_received turn_ended queue_held; reply_turn t1 cancelled",
        ),
        (CancelAsked("t1"), ""),
        (prompt("t3"), "append prompt_queued"),
        (QueueResumeAsked(), "append queue_released turn_started; plan_step"),
    )
    kept = next(entry.event for entry in stage.entries if isinstance(entry.event, AnswerReceived))
    assert kept.message.parts == (Text("half"),) and not kept.complete
    assert stage.state.facts.open_turn is not None and stage.state.facts.open_turn.turn_id == "t2"


def test_cancelling_nothing_said_keeps_nothing() -> None:
    check_turn(*ASKED, (CancelAsked(), "stop_effects"), (Stopped(), "append turn_ended; reply_turn t1 cancelled"))


def test_a_tool_that_ended_while_it_was_stopped_keeps_its_result() -> None:
    check_turn(
        *running("bash", "bash"),
        (CancelAsked(), "stop_effects"),
        (finished("t1/1/c1"), "append result_received"),
        (finished("t1/1/c1"), ""),
        (Stopped(), "append result_received turn_ended; reply_turn t1 cancelled"),
    )


def test_cancelling_a_waiting_prompt_removes_it() -> None:
    check_turn(
        *ASKED,
        (prompt("t2"), "append prompt_queued"),
        (CancelAsked("t2"), "append prompt_removed; reply_turn t2 cancelled"),
        (CancelAsked("nobody"), ""),
    )


def test_a_held_queue_that_becomes_empty_is_not_held_any_more() -> None:
    """Otherwise the next prompt's followers would wait for nothing."""
    stage = check_turn(
        *ASKED,
        (prompt("t2"), "append prompt_queued"),
        (CancelAsked("t1"), "stop_effects"),
        (Stopped(), "append turn_ended queue_held; reply_turn t1 cancelled"),
        (PromptRemoveAsked("t2"), "append prompt_removed queue_released; reply_turn t2 cancelled"),
    )
    assert stage.state.facts.held is None


def test_a_second_cancel_while_stopping_reaches_what_else_waits() -> None:
    check_turn(
        *ASKED,
        (CompactAsked("k1"), ""),
        (prompt("t2"), "append prompt_queued"),
        (CancelAsked("t1"), "stop_effects"),
        (CancelAsked("k1"), "compaction_ended cancelled k1"),
        (CancelAsked("t2"), "append prompt_removed; reply_turn t2 cancelled"),
        (Stopped(), "append turn_ended; reply_turn t1 cancelled"),
    )


MANUAL_INSIDE: list[Row] = [
    *running("read"),
    (CompactAsked("k1", "keep the plan"), ""),
    (finished("t1/1/c0"), "append result_received; plan_compaction manual keep the plan"),
]


def test_cancelling_a_manual_compaction_leaves_its_turn_running() -> None:
    check_turn(
        *MANUAL_INSIDE,
        (CancelAsked("k1"), "stop_effects"),
        (Stopped(), "compaction_ended cancelled k1; plan_step"),
    )


@pytest.mark.parametrize("target", ["t1", None])
def test_cancelling_the_turn_too_ends_it(target: str | None) -> None:
    check_turn(
        *MANUAL_INSIDE,
        (CancelAsked("k1"), "stop_effects"),
        (CancelAsked(target), ""),
        (Stopped(), "compaction_ended cancelled k1; append turn_ended; reply_turn t1 cancelled"),
    )


# --- tools ---


def test_no_tool_runs_before_all_are_decided() -> None:
    check_turn(
        *in_tools("read", "bash", "write"),
        (
            decided(waits("t1/1/c1"), Denied("t1/1/c2", "read only"), *allowed("t1/1/c0").decisions),
            "append result_received; ask_permission bash",
        ),
        (permit("t1/1/c0"), ""),
        (permit("t1/1/c1"), "run_tools read bash"),
        (permit("t1/1/c1"), ""),
        (deny("t1/1/c1"), ""),
    )


def test_where_nothing_may_run_the_model_is_told() -> None:
    check_turn(
        *in_tools("bash", "bash"),
        (decided(waits("t1/1/c0"), waits("t1/1/c1")), "ask_permission bash; ask_permission bash"),
        (deny("t1/1/c0"), "append result_received"),
        (deny("t1/1/c1"), "append result_received; plan_step"),
    )


def test_a_call_that_nobody_decided_is_denied() -> None:
    check_turn(*in_tools("bash", "read"), (allowed("t1/1/c1", "t9/1/c0"), "append result_received; run_tools read"))


def test_a_second_decision_runs_nothing_twice() -> None:
    """At most one effect (S4)."""
    check_turn(*running("bash"), (allowed("t1/1/c0"), ""), (finished("t9/1/c0"), ""))


def test_a_second_plan_or_a_second_answer_changes_nothing() -> None:
    check_turn(*ASKED, (proceed(), ""), (answer(), "append answer_received turn_ended; reply_turn t1 done"))
    check_turn((prompt("t1"), START), (answer(), ""))


# --- the step's plan ---


def test_a_handoff_is_recorded_before_the_call() -> None:
    """I4: durable before the model sees it (T029)."""
    stage = check_turn(
        (prompt("t1"), START),
        (handoff_first(), "record_handoff; plan_step"),
        (proceed(), f"{CALL} 1"),
    )
    assert stage.state.facts.handoffs == 1


def test_what_can_not_fit_ends_the_turn_before_any_call() -> None:
    check_turn((prompt("t1"), START), (impossible(), "append turn_ended; reply_turn t1 failed does_not_fit"))


def test_a_turn_has_a_last_step() -> None:
    rows: list[Row] = [(prompt("t1"), START)]
    for step in range(1, limits.LIMITS.steps_per_turn + 1):
        rows += [
            (proceed(), f"{CALL} {step}"),
            (asks("read"), "append answer_received; decide_calls read"),
            (allowed(f"t1/{step}/c0"), "run_tools read"),
            (finished(f"t1/{step}/c0"), "append result_received; plan_step"),
        ]
    check_turn(*rows, (proceed(), "append turn_ended; reply_turn t1 failed too_many_steps"))


# --- provider failures ---


def test_a_failed_call_keeps_what_it_said() -> None:
    failed = ProviderFailed(error(), partial=(Text("half"),), model="model")
    check_turn(*ASKED, (failed, "append answer_received turn_ended; reply_turn t1 failed provider_error"))


def test_an_overflow_is_recovered_from_once() -> None:
    """Only an answer releases the guard (blade 2.15)."""
    stage = check_turn(*ASKED, (overflow(50_000), "plan_compaction overflow 50000"))
    of = plan(stage.state, Reason.OVERFLOW)
    stage = check_turn(
        (planned(of), "assemble without_model"),
        (gated(of), "commit_checkpoint"),
        (CheckpointDone(report(of)), "compaction_ended committed; plan_step"),
        (proceed(), f"{CALL} 2"),
        (overflow(), "append turn_ended; reply_turn t1 failed overflow"),
        (prompt("t2"), START),
        (proceed(), f"{CALL} 1"),
        (overflow(), "append turn_ended; reply_turn t2 failed overflow"),
        (prompt("t3"), START),
        (proceed(), f"{CALL} 1"),
        (answer(), "append answer_received turn_ended; reply_turn t3 done"),
        (prompt("t4"), START),
        (proceed(), f"{CALL} 1"),
        (overflow(), "plan_compaction overflow"),
        stage=stage,
    )
    assert stage.turn.state is TurnState.COMPACTING


def test_after_the_first_output_nothing_is_replayed() -> None:
    """I2."""
    check_turn(*ASKED, (OutputStarted(), ""), (overflow(), "append turn_ended; reply_turn t1 failed overflow"))


def test_a_recovery_that_fails_tells_why_it_was_needed() -> None:
    check_turn(
        *ASKED,
        (overflow(), "plan_compaction overflow"),
        (
            CompactionRefused(error("nothing_to_gain")),
            "append compaction_failed turn_ended; compaction_ended failed; reply_turn t1 failed overflow",
        ),
    )


# --- compaction ---


def test_above_the_line_no_request_is_sent_before_the_checkpoint() -> None:
    """I1, I3: planned again after the commit, and only then called."""
    stage = check_turn((prompt("t1"), START), (compact_first(), "plan_compaction threshold"))
    of = plan(stage.state, strategy=Strategy.MODEL)
    check_turn(
        (planned(of), "summarise 1"),
        (sampled(of), "append usage_booked; assemble with_model"),
        (gated(of), "commit_checkpoint"),
        (CheckpointDone(report(of)), "compaction_ended committed; plan_step"),
        (proceed(), f"{CALL} 1"),
        stage=stage,
    )


@pytest.mark.parametrize("last", ["refused", "gate", "checkpoint"])
def test_an_automatic_compaction_that_fails_ends_its_turn(last: str) -> None:
    stage = check_turn((prompt("t1"), START), (compact_first(), "plan_compaction threshold"))
    of = plan(stage.state)
    ends = "append compaction_failed turn_ended; compaction_ended failed; reply_turn t1 failed why"
    rows: dict[str, list[Row]] = {
        "refused": [(CompactionRefused(error("why")), ends)],
        "gate": [(planned(of), "assemble without_model"), (GateRejected(of, error("why"), False), ends)],
        "checkpoint": [
            (planned(of), "assemble without_model"),
            (GateRejected(of, error("bad"), True), "assemble without_model bad"),
            (CheckpointFailed(error("why")), ends),
        ],
    }
    before = stage.state.items
    stage = check_turn(*rows[last], stage=stage)
    assert stage.state.items == before, "a failed compaction changes no item"
    assert sum(isinstance(entry.event, CompactionFailed) for entry in stage.entries) == 1


def test_samples_run_out_and_the_same_compaction_goes_on_without_the_model() -> None:
    stage = check_turn((prompt("t1"), START), (compact_first(), "plan_compaction threshold"))
    of = plan(stage.state, strategy=Strategy.MODEL)
    bad = SampleFailed(of, error("empty"))
    check_turn(
        (planned(of), "summarise 1"),
        (bad, "append usage_booked; summarise 2 after 375"),
        (bad, "append usage_booked; summarise 3 after 750"),
        (bad, "append usage_booked; assemble without_model empty"),
        stage=stage,
    )


def test_a_manual_compaction_of_an_idle_session() -> None:
    stage = check_turn((CompactAsked("k1", "keep the plan"), "plan_compaction manual keep the plan"))
    check_turn(
        (CompactAsked("k2"), ""),
        (CompactionRefused(error("nothing_to_gain")), "compaction_ended refused k1; plan_compaction manual"),
        (CompactionRefused(error("nothing_to_gain")), "compaction_ended refused k2"),
        stage=stage,
    )


def test_several_who_ask_are_answered_together() -> None:
    check_turn(
        *ASKED,
        (CompactAsked("k1", "keep the plan"), ""),
        (CompactAsked("k2", "and the tests"), ""),
        (CompactAsked("k3"), ""),
        (CancelAsked("k2"), "compaction_ended cancelled k2"),
        (answer(), "append answer_received turn_ended; reply_turn t1 done; plan_compaction manual keep the plan"),
        (CompactionRefused(error("nothing_to_gain")), "compaction_ended refused k1 k3"),
    )


def test_a_manual_compaction_that_fails_leaves_its_turn_running() -> None:
    stage = check_turn(*MANUAL_INSIDE)
    of = plan(stage.state, Reason.MANUAL)
    check_turn(
        (planned(of), "assemble without_model"),
        (GateRejected(of, error("gate"), False), "compaction_ended failed k1; append compaction_failed; plan_step"),
        stage=stage,
    )


# --- the end ---


def test_closing_cancels_what_runs_and_keeps_what_waits() -> None:
    stage = check_turn(
        *running("bash"),
        (prompt("t2"), "append prompt_queued"),
        (CompactAsked("k1"), ""),
        (CloseAsked(), "stop_effects"),
        (CloseAsked(), ""),
        (
            Stopped(),
            "append result_received turn_ended queue_held; reply_turn t1 cancelled; "
            "compaction_ended cancelled k1; finish",
        ),
    )
    assert [q.turn_id for q in stage.state.facts.queue] == ["t2"]
    check_turn(
        (prompt("t3"), "reply_turn t3 failed session_closed"),
        (CompactAsked("k2"), "compaction_ended refused k2"),
        (QueueResumeAsked(), ""),
        (CancelAsked(), ""),
        stage=stage,
    )


def test_closing_an_idle_session() -> None:
    check_turn((CloseAsked(), "finish"))


def test_closing_beats_a_cancelled_compaction() -> None:
    check_turn(
        *MANUAL_INSIDE,
        (CancelAsked("k1"), "stop_effects"),
        (CloseAsked(), ""),
        (Stopped(), "compaction_ended cancelled k1; append turn_ended; reply_turn t1 cancelled; finish"),
    )


class FullDisk(Stage):
    """A stage whose disk takes nothing more once `full` is set."""

    full = False

    def record(self, event: object) -> None:
        if self.full:
            raise OSError("no space")
        super().record(event)  # type: ignore[arg-type]


FULL = CommitFailed(error("disk_full"))


def test_a_full_disk_answers_everybody_who_waits() -> None:
    check_turn(
        *running("bash"),
        (prompt("t2"), "append prompt_queued"),
        (CompactAsked("k1"), ""),
        (
            FULL,
            "stop_effects; compaction_ended failed k1; reply_turn t1 failed disk_full; reply_turn t2 failed disk_full",
        ),
        (FULL, ""),
        (finished("t1/1/c0"), ""),
        (prompt("t3"), "reply_turn t3 failed session_closed"),
        (CloseAsked(), "finish"),
    )


def test_a_disk_that_fills_while_closing_still_closes() -> None:
    """The refused batch took the answers and the end with it; who closes waits for them."""
    stage = FullDisk()
    check_turn(*ASKED, (CompactAsked("k1"), ""), (CloseAsked(), "stop_effects"), stage=stage)
    stage.full = True
    with pytest.raises(OSError, match="no space"):
        stage.send(Stopped())
    check_turn(
        (FULL, "stop_effects; compaction_ended failed k1; reply_turn t1 failed disk_full; finish"),
        (FULL, ""),
        stage=stage,
    )


def test_a_disk_that_fills_before_the_stop_still_closes() -> None:
    check_turn(
        *ASKED,
        (CloseAsked(), "stop_effects"),
        (FULL, "stop_effects; reply_turn t1 failed disk_full; finish"),
    )


# --- what the machine is not told ---


def switched(stage: Stage) -> None:
    stage.record(SessionConfigured(model=f"other {len(stage.entries)}"))


MADE: dict[str, Callable[[CompactionPlan], tuple[Input, str]]] = {
    "a sample": lambda of: (sampled(of), "append usage_booked; "),
    "no sample": lambda of: (SampleFailed(of, error("empty")), "append usage_booked; "),
    "a replacement": lambda of: (gated(of), ""),
    "a rejected summary": lambda of: (GateRejected(of, error("context_changed"), True), ""),
    "a rejected replacement": lambda of: (GateRejected(of, error("context_changed"), False), ""),
}


@pytest.mark.parametrize("made", MADE)
def test_a_model_switch_under_an_automatic_compaction_plans_the_step_again(made: str) -> None:
    """Nothing failed and no attempt was spent; the other model may not need a compaction at all."""
    stage = check_turn((prompt("t1"), START), (compact_first(), "plan_compaction threshold"))
    of = plan(stage.state, strategy=Strategy.MODEL)
    check_turn((planned(of), "summarise 1"), stage=stage)
    event, booked = MADE[made](of)
    before = stage.state.items
    switched(stage)
    check_turn((event, f"{booked}compaction_ended cancelled; plan_step"), (proceed(), f"{CALL} 1"), stage=stage)
    assert stage.state.items == before and stage.state.facts.attempts == 0
    assert not any(isinstance(entry.event, CompactionFailed) for entry in stage.entries)


@pytest.mark.parametrize("made", MADE)
def test_a_model_switch_under_a_manual_compaction_plans_it_again(made: str) -> None:
    """Once for each switch; who asked is answered once, at the end."""
    stage = check_turn((CompactAsked("k1", "keep the plan"), "plan_compaction manual keep the plan"))
    for _ in range(2):
        of = replace(plan(stage.state, Reason.MANUAL, Strategy.MODEL), instructions="keep the plan")
        event, booked = MADE[made](of)
        check_turn((planned(of), "summarise 1"), stage=stage)
        switched(stage)
        check_turn((event, f"{booked}plan_compaction manual keep the plan"), stage=stage)
    of = plan(stage.state, Reason.MANUAL)
    check_turn(
        (planned(of), "assemble without_model"),
        (gated(of), "commit_checkpoint"),
        (CheckpointDone(report(of)), "compaction_ended committed k1"),
        stage=stage,
    )


def test_a_model_switch_under_a_recovery_asks_the_other_model() -> None:
    """Its window may be larger, and the guard is not spent."""
    stage = check_turn(*ASKED, (overflow(50_000), "plan_compaction overflow 50000"))
    of = plan(stage.state, Reason.OVERFLOW)
    check_turn((planned(of), "assemble without_model"), stage=stage)
    switched(stage)
    check_turn((gated(of), "compaction_ended cancelled; plan_step"), (proceed(), f"{CALL} 2"), stage=stage)
    assert not stage.state.facts.overflow_spent


def test_an_image_in_an_answer_is_no_reason_to_fail() -> None:
    picture = Image(BlobRef("0" * 64, 5), "image/png", 1, 1)
    stage = check_turn(*ASKED, (answer(picture), "append answer_received turn_ended; reply_turn t1 done"))
    assert isinstance(stage.entries[-1].event, TurnEnded)


def test_the_playbook_can_fail() -> None:
    with pytest.raises(AssertionError, match="row 1, PromptArrived"):
        check_turn((PromptArrived(replace(said("t1")), PromptMode.QUEUE), "plan_step"))
