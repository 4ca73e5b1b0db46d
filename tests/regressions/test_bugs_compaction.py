"""Public bugs of kinds 1, 2 and 14 (compaction, counting, prompts that meet a compaction), in a live session."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import replace
from itertools import repeat
from pathlib import Path

import pytest
from tests.sessions.stage import (
    Stage,
    asking,
    at_sample,
    big,
    events,
    filled,
    kinds,
    of_kind,
    prompt,
    said,
    until,
    words,
)

from ullage.core.commands import CompactionOutcome
from ullage.core.context import Measured
from ullage.core.events import (
    CheckpointCommitted,
    CompactionFailed,
    StepStarted,
    Stop,
    UsageBooked,
)
from ullage.core.messages import Usage
from ullage.core.requests import Request
from ullage.core.turn_state import TurnState
from ullage.providers.measure import request_tokens
from ullage.sessions.notices import Notice, Occupied
from ullage.testing.model import (
    Line,
    Reply,
    ask,
    call,
    fail,
    gated,
    good_summary,
    overflow,
    say,
    stall,
    think,
)


async def test_bugs_row_8_a_manual_compaction_starts_nothing(stage: Stage, root: Path) -> None:
    """opencode#4732: one model call at most, no tool call, no words put into a person's mouth."""
    actor = await filled(stage, root, [], [good_summary()])
    said_before = [event for event in events(actor) if type(event).__name__ == "PromptQueued"]
    asked = len(stage.model.requests)
    await actor.compact("c1", "Keep the names.")
    assert stage.summariser is not None and len(stage.summariser.requests) == 1
    assert len(stage.model.requests) == asked
    assert "Keep the names." in said(stage.summariser.requests[0])
    assert not [event for event in events(actor) if type(event).__name__ == "ResultReceived"]
    assert [event for event in events(actor) if type(event).__name__ == "PromptQueued"] == said_before
    assert actor.turn.state is TurnState.IDLE


async def test_bugs_row_16_nothing_to_gain_is_an_answer(stage: Stage, root: Path) -> None:
    """codex#40619: a session of a few words is not made bigger; nothing is written (rows 9, 15)."""
    stage.play([say("Hello.")], [])
    actor = await stage.session(root)
    await prompt(actor, "t1", "Hi.")
    before = actor.log.path.read_bytes()
    answer = await actor.compact("c1")
    assert (answer.outcome, answer.error and answer.error.code) == (CompactionOutcome.REFUSED, "nothing_to_gain")
    assert actor.dry_run().error == answer.error
    assert actor.log.path.read_bytes() == before
    assert stage.told.statuses() == ["skipped"]


async def test_bugs_row_6_off_means_off(stage: Stage, root: Path) -> None:
    """opencode#16882: with automatic compaction off, neither the line nor an overflow starts one; manual works, and a
    bigger model starts a plain turn."""
    stage.play([overflow(9_000), big(4_400, "a"), big(4_400, "b"), say("Plain.")])
    actor = await stage.session(root, auto_compaction=False)
    first = await prompt(actor, "t1")
    assert (first.stop, first.error and first.error.code) == (Stop.FAILED, "context_overflow")
    await prompt(actor, "t2")
    await prompt(actor, "t3")
    stopped = await prompt(actor, "t4")
    assert (stopped.stop, stopped.error and stopped.error.code) == (Stop.FAILED, "compaction_off")
    assert "CheckpointCommitted" not in kinds(actor) and not stage.told.compacted()
    stage.window = 64_000
    assert (await prompt(actor, "t5")).stop is Stop.DONE
    assert (await actor.compact("c1")).outcome is CompactionOutcome.COMMITTED


async def test_bugs_row_2_a_provider_that_always_overflows_stops_the_turn(stage: Stage, root: Path) -> None:
    """opencode#27924: at most two tries between two answers, a typed error, and a session that goes on."""
    actor = await filled(stage, root, list(repeat(overflow(6_000), 9)))
    outcome = await prompt(actor, "t3", "Go.")
    assert outcome.stop is Stop.FAILED and outcome.error is not None
    assert len(of_kind(actor, CheckpointCommitted)) + len(of_kind(actor, CompactionFailed)) <= 2
    assert len(stage.model.requests) - 2 <= 3
    assert actor.turn.state is TurnState.IDLE
    stage.play([say("Back again.")])
    assert (await prompt(actor, "t4")).stop is Stop.DONE


async def test_bugs_row_1_a_fixed_part_that_is_too_large_is_named(stage: Stage, root: Path) -> None:
    """claude-code#6004: no call and no compaction; the error names the biggest parts (W-P5, W-P6)."""
    stage.window = 1_300
    stage.play([], [])
    actor = await stage.session(root)
    outcome = await prompt(actor, "t1", "Hi.")
    assert outcome.error is not None and outcome.error.code == "fixed_too_large"
    assert "tool" in outcome.error.message and dict(outcome.error.data)["fixed"] == actor.occupancy.fixed
    assert not stage.model.requests and not stage.told.compacted()
    answer = await actor.compact("c1")
    assert (answer.outcome, answer.error and answer.error.code) == (CompactionOutcome.REFUSED, "fixed_too_large")


async def test_bugs_row_3_a_history_larger_than_the_window_can_be_compacted(stage: Stage, root: Path) -> None:
    """claude-code#26317: after a switch to a smaller model both compacting and sending work."""
    stage.window = 60_000
    stage.play([*(big(1_300, f"x{number}") for number in range(20)), say("Small.")], [good_summary()])
    actor = await stage.session(root, handoff=False)
    for number in range(20):
        await prompt(actor, f"t{number}")
    stage.window = 16_000
    assert actor.occupancy.used > 16_000
    answer = await actor.compact("c1")
    assert answer.outcome is CompactionOutcome.COMMITTED and answer.report is not None
    assert answer.report.after < actor.occupancy.budget.handoff_line
    assert stage.summariser is not None and stage.summariser.requests[0].tokens < 16_000
    assert (await prompt(actor, "last")).stop is Stop.DONE


async def test_bugs_row_15_the_number_after_a_compaction_is_a_fresh_estimate(stage: Stage, root: Path) -> None:
    """codex#9416: not a stale one, not zero, and marked as what it is."""
    actor = await filled(stage, root, [])
    answer = await actor.compact("c1")
    assert answer.report is not None
    last = stage.told.occupied()[-1].occupancy
    assert (last.used, last.source) == (answer.report.after, Measured.ESTIMATE)
    assert 0 < last.used < answer.report.before


async def test_bugs_row_7_usage_of_a_summary_never_feeds_the_projection(stage: Stage, root: Path) -> None:
    """opencode#13946: the summary call reports 0.99 of the window; the session goes on as if it had not."""
    huge = Usage(15_840, 100, 15_940)
    summary = replace(good_summary(), usage=huge)
    actor = await filled(stage, root, [say("Next.")], [summary])
    answer = await actor.compact("c1")
    assert answer.report is not None and actor.occupancy.used == answer.report.after
    assert actor.state.facts.summary_totals.prompt == 15_840
    assert (await prompt(actor, "t3")).stop is Stop.DONE
    assert kinds(actor).count("CheckpointCommitted") == 1
    assert [str(event.purpose) for event in of_kind(actor, UsageBooked)] == ["summary"]


@pytest.mark.parametrize("how", ["well", "badly", "by cancel"])
async def test_bugs_row_67_prompts_during_a_compaction_run_after_it(stage: Stage, root: Path, how: str) -> None:
    """pi#179: three sends while it runs are durable at once, and run in order, however it ends."""
    gate = asyncio.Event()
    samples = {"well": [gated(gate, good_summary())], "badly": [gated(gate, fail(500))] * 3, "by cancel": [stall()]}
    actor = await filled(stage, root, [say(f"Answer {number}.") for number in range(3)], samples[how])
    asked = asyncio.get_running_loop().create_task(actor.compact("c1"))
    await at_sample(stage)
    sent = [asking(actor, f"p{number}", f"Prompt {number}.") for number in range(3)]
    await until(lambda: stage.told.what().count("Prompt") == 5)
    assert len(actor.state.facts.queue) == 3 and actor.turn.state is TurnState.COMPACTING
    gate.set() if how != "by cancel" else actor.cancel("c1")
    outcomes = await asyncio.gather(*sent)
    assert [outcome.stop for outcome in outcomes] == [Stop.DONE] * 3
    await asked
    started = [event.turn_id for event in events(actor) if type(event).__name__ == "TurnStarted"]
    assert started == ["t1", "t2", "p0", "p1", "p2"]


def _turns(number: int) -> Iterator[Line]:
    """What the model says in one turn: tools, long answers, thinking, missing and zero usage, by turns."""
    match number % 8:
        case 0:
            yield ask(call("read", path="big.txt", first_line=number + 1, lines=120))
            yield say("Read.")
        case 1:
            yield big(700, f"n{number}")
        case 2:
            yield think("Let me think.", "Thought.")
        case 3:
            yield ask(call("grep", pattern="line 0"), call("list"))
            yield big(300, f"g{number}")
        case 4:
            yield replace(say("No usage."), usage=Usage())
        case 5:
            yield replace(say("Zero usage."), usage=Usage(0, 0, 0))
        case 6:
            yield _measured_high
        case _:
            yield say("Short.")


def _measured_high(request: Request) -> Reply:
    """A provider that counts a tenth more than we do."""
    prompt_tokens = request_tokens(request, lambda text: -(-len(text.encode()) // 4)) * 11 // 10
    return replace(say("Counted otherwise."), usage=Usage(prompt_tokens, 5, prompt_tokens + 5))


def _latest(notice: Notice, shown: list[int]) -> int:
    return notice.occupancy.used if isinstance(notice, Occupied) else (shown[-1] if shown else 0)


def _last_told(stage: Stage) -> object:
    return stage.told.occupied()[-1].occupancy


async def test_bugs_row_14_shown_decided_and_logged_are_one_number(faulty: Stage, root: Path) -> None:
    """codex#45074: over 200 turns with several compactions, in every step. No request stands at or above the compaction
    line, and each compaction leads below the handoff line (rows 4 and 10)."""
    faulty.play([line for number in range(200) for line in _turns(number)], [good_summary()] * 100)
    actor = await faulty.session(root)
    decided: list[int] = []
    plan_step = actor._engine.plan_step

    def noted(state: object) -> object:
        planned = plan_step(state)  # type: ignore[arg-type]
        decided.append(planned.occupancy.used)
        return planned

    actor._engine.plan_step = noted  # type: ignore[method-assign, assignment]
    shown: list[int] = []
    faulty.told.also = lambda notice: shown.append(_latest(notice, shown))
    for number in range(200):
        assert (await prompt(actor, f"t{number}", f"Prompt {number}. {words(number % 50)}")).stop is Stop.DONE
        assert actor.occupancy == _last_told(faulty)
    logged = [event.occupancy.used for event in of_kind(actor, StepStarted)]
    assert [request.tokens for request in faulty.model.requests] == logged
    assert set(logged) <= set(decided) and set(decided) <= set(shown)
    line, handoff = actor.occupancy.budget.compaction_line, actor.occupancy.budget.handoff_line
    assert max(logged) < line
    checkpoints = of_kind(actor, CheckpointCommitted)
    assert len(checkpoints) >= 5
    assert all(checkpoint.report.after < handoff <= line for checkpoint in checkpoints)
    assert actor.state.facts.compactions == len(checkpoints) == len(faulty.told.committed)
