"""Compaction in a live session: when it runs, who writes the replacement, and what a failure leaves behind.

The window is 16,000: input budget 12,000, handoff line 8,400, compaction line 9,600. The fixed part takes about 870.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
from tests.sessions.stage import (
    SECONDS,
    Stage,
    asking,
    at_sample,
    big,
    decided,
    events,
    filled,
    kinds,
    of_kind,
    prompt,
    said,
    until,
    words,
)

from ullage.context.handoff import TAG
from ullage.core.commands import CompactionOutcome
from ullage.core.context import Strategy
from ullage.core.events import (
    CheckpointCommitted,
    CompactionFailed,
    HandoffRecorded,
    SessionConfigured,
    Stop,
)
from ullage.sessions.actor import SessionActor
from ullage.testing.model import (
    Line,
    Reply,
    ask,
    call,
    empty_summary,
    fail,
    gated,
    good_summary,
    inflated_summary,
    overflow,
    say,
    stall,
    truncated_summary,
)

# --- who writes it ---


@dataclass(frozen=True)
class Sampling:
    """What the summariser gives, and what the compaction makes of it."""

    summaries: tuple[Line, ...] | None
    strategy: Strategy
    samples: int
    failure: str | None = None
    note: str | None = None


NOTE = "The model wrote this."
SAMPLES = {
    "none there": Sampling(None, Strategy.DETERMINISTIC, 0),
    "good": Sampling((good_summary(NOTE),), Strategy.MODEL, 1, note=NOTE),
    "good at the third": Sampling((fail(500), empty_summary(), good_summary(NOTE)), Strategy.MODEL, 3, note=NOTE),
    "empty": Sampling((empty_summary(),) * 3, Strategy.FALLBACK, 3, "summary_unusable"),
    "blank": Sampling((say(" "),) * 3, Strategy.FALLBACK, 3, "summary_unusable"),
    "half a tag": Sampling((say(f"<summary>{NOTE}"),) * 3, Strategy.FALLBACK, 3, "summary_unusable"),
    "repeats the reminder": Sampling((good_summary(f"{TAG} and more"),) * 3, Strategy.FALLBACK, 3, "summary_unusable"),
    "truncated": Sampling((truncated_summary(),) * 3, Strategy.FALLBACK, 3, "summary_unusable"),
    "failing": Sampling((fail(500, "overloaded"),) * 3, Strategy.FALLBACK, 3, "overloaded"),
    "inflated": Sampling((inflated_summary(20_000),), Strategy.MODEL, 1),
}


@pytest.mark.parametrize("case", SAMPLES.values(), ids=SAMPLES)
async def test_a_summary_is_used_or_the_same_compaction_goes_on_without_it(
    stage: Stage, root: Path, case: Sampling
) -> None:
    """Exhausted samples and bad answers never fail a compaction, and their usage is booked (design 6.11)."""
    actor = await filled(stage, root, [say("Next.")], None if case.summaries is None else list(case.summaries))
    answer = await actor.compact("c1")
    report = answer.report
    assert answer.outcome is CompactionOutcome.COMMITTED and report is not None
    assert (report.strategy, report.samples, report.failure) == (case.strategy, case.samples, case.failure)
    assert actor.state.facts.summary_totals.calls == case.samples
    await prompt(actor, "t3")
    request = said(stage.model.requests[-1])
    assert "FIRST constraint" in request
    assert "<summary>" not in request and "<analysis>" not in request
    if case.note:
        assert case.note in request


async def test_a_slow_summary_is_waited_for_and_told_of(stage: Stage, root: Path) -> None:
    """T093: the start is told while the call is pending."""
    gate = asyncio.Event()
    actor = await filled(stage, root, [], [gated(gate, good_summary())])
    asked = asyncio.get_running_loop().create_task(actor.compact("c1"))
    await until(lambda: bool(stage.summariser and stage.summariser.requests))
    assert stage.told.statuses() == ["started", "summarising"]
    gate.set()
    await asked
    assert stage.told.statuses() == ["started", "summarising", "gated", "committed"]


# --- when it runs ---


async def test_a_crossing_compacts_before_the_request(stage: Stage, root: Path) -> None:
    """T095, I3: at the compaction line no request goes out before a committed checkpoint."""
    actor = await filled(stage, root, [big(3_300, "c"), say("After.")])
    await prompt(actor, "t3", words(2_000))
    outcome = await prompt(actor, "t4", "Now.")
    assert outcome.stop is Stop.DONE
    assert kinds(actor).count("CheckpointCommitted") == 1
    assert all(used < actor.occupancy.budget.compaction_line for used in decided(actor))
    [notice] = stage.told.committed
    assert notice.report is not None
    assert notice.report.after < actor.occupancy.budget.handoff_line
    assert notice.report.before >= actor.occupancy.budget.compaction_line


async def test_each_crossing_compacts(stage: Stage, root: Path) -> None:
    """T094: there is no cool-down; real growth brings a compaction back."""
    stage.play([big(3_000, f"x{number}") for number in range(9)])
    actor = await stage.session(root, handoff=False)
    for number in range(9):
        assert (await prompt(actor, f"t{number}")).stop is Stop.DONE
    assert len(of_kind(actor, CheckpointCommitted)) >= 2
    assert max(decided(actor)) < actor.occupancy.budget.compaction_line


async def test_a_manual_compaction_in_a_turn_goes_before_its_next_step(stage: Stage, root: Path) -> None:
    """W-F7: with tool protocol and the active task, as an automatic one; it can be cancelled like one."""
    gate = asyncio.Event()
    actor = await filled(stage, root, [gated(gate, ask(call("read", path="notes.txt"))), say("Done.")])
    running = asking(actor, "t3", "Read it.")
    await until(lambda: stage.model.open_streams == 1)
    asked = asyncio.get_running_loop().create_task(actor.compact("c1"))
    await asyncio.sleep(0)
    gate.set()
    assert (await asked).outcome is CompactionOutcome.COMMITTED
    assert (await running).stop is Stop.DONE
    log = kinds(actor)
    assert log.index("ResultReceived") < log.index("CheckpointCommitted") < len(log) - log[::-1].index("StepStarted")
    assert "Read it." in said(stage.model.requests[-1]) and "first line" in said(stage.model.requests[-1])


async def test_a_dry_run_writes_and_calls_nothing(stage: Stage, root: Path) -> None:
    actor = await filled(stage, root, [], [])
    before, asked = actor.log.path.read_bytes(), len(stage.model.requests)
    told = len(stage.told.notices)
    preview = actor.dry_run("Keep the names.")
    assert preview.error is None and preview.after < preview.before == actor.occupancy.used
    assert (actor.log.path.read_bytes(), len(stage.model.requests), len(stage.told.notices)) == (before, asked, told)


# --- off, guards, what can't fit ---


async def test_a_task_that_can_not_fit_is_refused_with_its_size(stage: Stage, root: Path) -> None:
    """T096: an error, and no request goes out."""
    stage.play([say("Never.")])
    actor = await stage.session(root)
    outcome = await prompt(actor, "t1", words(11_000))
    assert (outcome.stop, outcome.error and outcome.error.code) in {
        (Stop.FAILED, "mandatory_too_large"),
        (Stop.FAILED, "nothing_to_gain"),
    }
    assert not stage.model.requests
    assert (await prompt(actor, "t2", "Short.")).stop is not None


# --- cancelled, failed ---


async def at_retry(stage: Stage) -> None:
    await until(lambda: "retrying" in stage.told.statuses())


async def at_once(stage: Stage) -> None:
    await until(lambda: "started" in stage.told.statuses())


STAGES: dict[str, tuple[list[Line] | None, Callable[[Stage], object]]] = {
    "while sampling": ([stall("<summary>")], at_sample),
    "while sampling again": ([fail(500), stall()], at_retry),
    "while assembling": (None, at_once),
}


@pytest.mark.parametrize("target", ["c1", None])
@pytest.mark.parametrize(("summaries", "reached"), STAGES.values(), ids=STAGES)
async def test_a_cancelled_compaction_leaves_the_context_as_it_was(
    stage: Stage, root: Path, summaries: list[Line] | None, reached: Callable[[Stage], object], target: str | None
) -> None:
    """I6, bugs row 13: byte for byte; and a cancel is no failure."""
    actor = await filled(stage, root, [say("Next.")], summaries)
    before = list(actor.state.items)
    request = actor._engine.request(actor.state, actor.occupancy)
    asked = asyncio.get_running_loop().create_task(actor.compact("c1"))
    await reached(stage)  # type: ignore[misc]
    actor.cancel(target)
    async with asyncio.timeout(SECONDS):
        assert (await asked).outcome is CompactionOutcome.CANCELLED
    assert list(actor.state.items) == before
    assert actor._engine.request(actor.state, actor.occupancy) == request
    assert not {"CheckpointCommitted", "CompactionFailed"} & set(kinds(actor))
    assert stage.told.statuses()[-1] == "cancelled"
    assert (await prompt(actor, "t3")).stop is Stop.DONE


async def test_cancelling_a_turn_cancels_its_compaction(stage: Stage, root: Path) -> None:
    actor = await filled(stage, root, [], [stall()])
    running = asking(actor, "t3", words(2_500))
    await at_sample(stage)
    actor.cancel("t3")
    assert (await running).stop is Stop.CANCELLED
    assert stage.told.statuses()[-1] == "cancelled"
    assert "CheckpointCommitted" not in kinds(actor)


async def test_a_model_switch_under_a_compaction_plans_it_again(stage: Stage, root: Path) -> None:
    """The first plan was made for another revision: its summary is paid for and not used, and nobody is told no."""
    gate = asyncio.Event()
    actor = await filled(stage, root, [say("Next.")], [gated(gate, good_summary("STALE")), good_summary("FRESH")])
    asked = asyncio.get_running_loop().create_task(actor.compact("c1"))
    await at_sample(stage)
    await actor.configure(SessionConfigured(model="another"))
    gate.set()
    answer = await asked
    assert answer.outcome is CompactionOutcome.COMMITTED
    [checkpoint] = of_kind(actor, CheckpointCommitted)
    assert "FRESH" in checkpoint.replacement.ledger and "STALE" not in checkpoint.replacement.ledger
    assert not of_kind(actor, CompactionFailed) and actor.state.facts.summary_totals.calls == 2
    assert stage.told.statuses() == ["started", "summarising", "started", "summarising", "gated", "committed"]


async def test_a_switch_to_a_larger_model_needs_no_compaction_any_more(stage: Stage, root: Path) -> None:
    """An automatic one goes back to its step, and the turn goes on."""
    gate = asyncio.Event()
    actor = await filled(stage, root, [say("It fits now.")], [gated(gate, good_summary())])
    running = asking(actor, "t3", words(2_500))
    await at_sample(stage)
    await actor.configure(SessionConfigured(model="larger", window=64_000))
    gate.set()
    assert (await running).stop is Stop.DONE
    assert not {"CheckpointCommitted", "CompactionFailed"} & set(kinds(actor))
    assert actor.state.facts.attempts == 0
    assert stage.told.statuses() == ["started", "summarising", "cancelled"]


async def test_restored_files_are_of_the_workspace_and_no_secrets(stage: Stage, root: Path) -> None:
    """W-D2, W-D5, T056, T057: what was read comes back at a compaction, except secrets, links and what left the root;
    also when another process read it."""
    outside = root.parent / "outside.txt"
    outside.write_text("OUTSIDE\n")
    reads = ("notes.txt", ".env", "more.txt", "link.txt")
    (root / "link.txt").write_text("LINKED\n")
    (root / "more.txt").write_text("more\n")
    stage.play([ask(*(call("read", path=path) for path in reads)), big(3_300), big(2_000), say("Next.")])
    actor = await stage.session(root, handoff=False)
    await prompt(actor, "t1")
    (root / "link.txt").unlink()
    (root / "link.txt").symlink_to(outside)
    (root / "notes.txt").write_text("changed since\n")
    await prompt(actor, "t2")
    host = await stage.restart(root)
    actor = await host.open_session(actor.session_id)
    answer = await actor.compact("c1")
    assert answer.report is not None
    assert set(answer.report.restored_files) == {"notes.txt", "more.txt"}
    await prompt(actor, "t3")
    request = said(stage.model.requests[-1])
    assert "changed since" in request and "OUTSIDE" not in request


# --- recovery from an overflow ---


async def test_an_overflow_before_any_output_is_recovered_from_once(stage: Stage, root: Path) -> None:
    """T085, I2: the checkpoint is committed before the replay, which fits the limit that the provider named."""
    actor = await filled(stage, root, [overflow(5_000), say("It fits.")])
    outcome = await prompt(actor, "t3", "Go.")
    assert outcome.stop is Stop.DONE
    [checkpoint] = of_kind(actor, CheckpointCommitted)
    assert str(checkpoint.report.reason) == "overflow"
    assert stage.model.requests[-1].tokens < 5_000
    assert kinds(actor)[-5:] == ["StepStarted", "CheckpointCommitted", "StepStarted", "AnswerReceived", "TurnEnded"]


async def test_an_overflow_after_output_is_not_replayed(stage: Stage, root: Path) -> None:
    """T087: the turn ends, and what was said is kept."""
    actor = await filled(stage, root, [overflow(7_000, text="I began to"), say("Never.")])
    outcome = await prompt(actor, "t3", "Go.")
    assert (outcome.stop, outcome.error and outcome.error.code) == (Stop.FAILED, "context_overflow")
    assert "CheckpointCommitted" not in kinds(actor) and len(stage.model.requests) == 3
    answer = [event for event in events(actor) if type(event).__name__ == "AnswerReceived"][-1]
    assert (answer.message.text, answer.stop, answer.complete) == ("I began to", "failed", False)


async def test_an_overflow_again_is_no_loop(stage: Stage, root: Path) -> None:
    """T078, T079, W-R2, T086: the guard is released by an answer alone."""
    script = [overflow(None), overflow(None), big(2_000, "n"), overflow(None), say("It fits.")]
    actor = await filled(stage, root, script)
    failed = await prompt(actor, "t3", "Go.")
    assert (failed.stop, failed.error and failed.error.code) == (Stop.FAILED, "context_overflow")
    assert kinds(actor).count("CheckpointCommitted") == 1
    assert (await prompt(actor, "t4")).stop is Stop.DONE
    assert (await prompt(actor, "t5")).stop is Stop.DONE
    assert kinds(actor).count("CheckpointCommitted") == 2


# --- the handoff ---


async def in_band(stage: Stage, root: Path, script: list[Line], **config: object) -> SessionActor:
    """A session whose next request stands in the handoff band."""
    stage.play([big(3_800, "a"), big(3_600, "b"), *script])
    actor = await stage.session(root, **config)
    await prompt(actor, "t1")
    await prompt(actor, "t2")
    await prompt(actor, "t3", words(400))
    return actor


def seen(stage: Stage) -> list[int]:
    """How often the reminder stands in each request."""
    return [said(request).count(TAG) for request in stage.model.requests]


async def test_the_handoff_is_recorded_once_before_the_request_that_sees_it(stage: Stage, root: Path) -> None:
    """T029, I4."""
    actor = await in_band(stage, root, [say("In the band."), say("Still."), say("Again.")])
    assert seen(stage) == [0, 0, 1]
    log = kinds(actor)
    assert log.count("HandoffRecorded") == 1
    assert log[log.index("HandoffRecorded") + 1] == "StepStarted"
    await prompt(actor, "t4")
    assert kinds(actor).count("HandoffRecorded") == 1
    assert seen(stage)[-1] == 1
    assert stage.told.occupied()[-1].occupancy.hidden > 0


async def test_a_restart_does_not_write_the_handoff_again(stage: Stage, root: Path) -> None:
    """T030: the restored record is used."""
    actor = await in_band(stage, root, [say("In the band."), say("Still.")])
    host = await stage.restart(root)
    actor = await host.open_session(actor.session_id)
    await prompt(actor, "t4")
    assert kinds(actor).count("HandoffRecorded") == 1 and seen(stage)[-1] == 1


async def test_a_model_switch_does_not_write_the_handoff_again(stage: Stage, root: Path) -> None:
    """T034."""
    actor = await in_band(stage, root, [say("In the band."), say("Still.")])
    await actor.configure(SessionConfigured(model="another"))
    await prompt(actor, "t4")
    assert kinds(actor).count("HandoffRecorded") == 1 and seen(stage)[-1] == 1


async def test_a_fork_gets_a_handoff_of_its_own(stage: Stage, root: Path) -> None:
    """T038."""
    actor = await in_band(stage, root, [say("In the band."), say("The fork.")])
    fork = await stage.hosts[-1].fork(actor.session_id)
    assert fork.state.facts.handoffs == 0 and fork.occupancy.hidden == 0
    await prompt(fork, "t4")
    assert seen(stage)[-1] == 1
    assert [event for event in events(fork) if isinstance(event, HandoffRecorded)] != [
        event for event in events(actor) if isinstance(event, HandoffRecorded)
    ]


async def test_the_handoff_can_be_switched_off(stage: Stage, root: Path) -> None:
    actor = await in_band(stage, root, [say("In the band.")], handoff=False)
    assert "HandoffRecorded" not in kinds(actor) and sum(seen(stage)) == 0


async def test_a_jump_over_the_band_asks_the_summary_for_the_frontier(stage: Stage, root: Path) -> None:
    """W-H1: no handoff is written, and the summary request makes up for it."""
    stage.play([big(3_800, "a"), big(3_000, "b"), say("After.")], [good_summary()])
    actor = await stage.session(root)
    await prompt(actor, "t1")
    await prompt(actor, "t2")
    await prompt(actor, "t3", words(2_600))
    assert kinds(actor).count("CheckpointCommitted") == 1 and "HandoffRecorded" not in kinds(actor)
    assert stage.summariser is not None and "execution frontier" in said(stage.summariser.requests[0])


async def test_the_handoff_ends_with_its_epoch(stage: Stage, root: Path) -> None:
    """T042, S10: neither the summary's request nor the replacement holds a word of it."""
    actor = await in_band(stage, root, [say("In the band."), say("After.")])
    stage.play([say("After.")], [good_summary()])
    await actor.compact("c1")
    assert stage.summariser is not None and TAG not in said(stage.summariser.requests[0])
    await prompt(actor, "t4")
    assert sum(seen(stage)) == 0 and actor.occupancy.hidden == 0
    assert actor.state.facts.handoffs == 0


def test_the_canary_is_worth_its_name(stage_sync: Stage) -> None:
    """What every test of this folder searches for is found when it is told."""
    stage_sync.told.hear("s", Reply((TAG,)))  # type: ignore[arg-type]
    assert stage_sync.leaks() == [TAG]
