"""Public bugs of other agents that our context engine must not have; row numbers of the bug list."""

from __future__ import annotations

import random

import pytest
from tests.context.histories import BIG, COUNTER, Log, bare, image, kept, live_log

from ullage.context.assembly import assemble
from ullage.context.compaction import Accepted, FixedPart, gate, plan, plan_step
from ullage.context.occupancy import budget, occupancy
from ullage.context.profiles.ullage import ULLAGE
from ullage.context.request import Built, Memo, build
from ullage.context.summary import LastRequest, summary_request
from ullage.core.context import CompactFirst, CompactionPlan, Impossible, Measured, Proceed, Reason
from ullage.core.errors import ErrorReport
from ullage.core.events import SessionConfigured, Stop, TurnEnded
from ullage.core.messages import BlobRef, Image, Message, Role, Text, ToolCall, ToolResult, Usage
from ullage.core.ports import ModelCard
from ullage.testing.validator import problems

FIXED = FixedPart(1_000, (("system prompt", 1_000),))


def plan_of(log: Log, reason: Reason = Reason.MANUAL) -> CompactionPlan | ErrorReport:
    now = occupancy(log.state, FIXED.tokens, log.budget)
    return plan(log.state, reason, now, FIXED, ULLAGE, COUNTER)


def compact(log: Log, reason: Reason = Reason.MANUAL) -> int:
    """One whole compaction; the occupancy it leads to."""
    made = plan_of(log, reason)
    assert isinstance(made, CompactionPlan), made
    replacement = assemble(made, log.state, COUNTER, ULLAGE, (), "fence")
    passed = gate(made, log.state, replacement, FIXED.tokens, log.budget)
    assert isinstance(passed, Accepted), passed
    log.checkpoint(replacement, after=passed.after)
    return passed.after


def check_sendable(log: Log) -> Built:
    now = occupancy(log.state, log.fixed, log.budget)
    built = build(log.state, "be brief", (), ModelCard("m", log.budget.window, "test"), 1_000, now)
    assert problems(built.request, log.budget.window) == []
    return built


def check_refused(made: CompactionPlan | ErrorReport, code: str) -> None:
    assert isinstance(made, ErrorReport)
    assert made.code == code


def test_row_1_a_fixed_part_that_is_always_due() -> None:
    """The fixed part reaches the line: one error names its parts, and no compaction is tried."""
    log = Log(budget(8_000, "test")).prompt("hi")
    fixed = FixedPart(7_000, (("system prompt", 6_000), ("tool read", 1_000)))
    made = plan_step(log.state, fixed, log.budget, COUNTER)
    assert isinstance(made, Impossible)
    assert made.error.code == "fixed_too_large"
    assert "system prompt 6,000" in made.error.message


def test_row_2_overflow_again_and_again() -> None:
    """At most two tries between two answers, each a fifth smaller; then an error, and the session stays usable."""
    log = Log(budget(64_000, "test")).prompt("go")
    for number in range(60):
        log.read(f"f{number}.py", 4_000)
    first = compact(log, Reason.OVERFLOW)
    second = compact(log, Reason.THRESHOLD)
    assert second <= first * 8 // 10
    log.steer("x" * 140_000)
    made = plan_step(log.state, FIXED, log.budget, COUNTER)
    assert isinstance(made, Impossible)
    assert made.error.code == "compaction_no_progress"
    compact(log)
    check_sendable(log)


def test_row_9_nothing_left_to_drop() -> None:
    """One user message and one pair, the window a quarter of what it was: an error before any call."""
    log = Log(budget(16_000, "test")).prompt("x" * 40_000).read("a.py", 40)
    check_refused(plan_of(log), "nothing_to_gain")


def test_row_10_no_compaction_on_a_stale_number() -> None:
    """After a compaction the decision uses the size of the request about to be sent."""
    log = Log(budget(32_000, "test")).prompt("go")
    for number in range(10):
        log.read(f"f{number}.py", 8_000)
    log.answer(ToolCall("c", "read", "{}"), usage=Usage(prompt=24_000, completion=10)).result("c")
    assert isinstance(plan_step(log.state, FIXED, log.budget, COUNTER), CompactFirst)
    compact(log)
    assert isinstance(plan_step(log.state, FIXED, log.budget, COUNTER), Proceed)
    log.answer(Text("on")).end().prompt("again")
    assert isinstance(plan_step(log.state, FIXED, log.budget, COUNTER), Proceed)


def test_row_14_the_shown_number_is_the_deciding_one() -> None:
    """In every step of 20 turns, plan, request and meter carry one value."""
    log = live_log(random.Random(14), 20, size=200)
    replay, memo = Log(BIG), Memo()
    for entry in log.entries[1:]:
        replay.add(entry.event)
        shown = occupancy(replay.state, FIXED.tokens, BIG)
        decided = plan_step(replay.state, FIXED, BIG, COUNTER).occupancy
        asked = build(replay.state, "", (), ModelCard("m", None, "test"), 1, shown, memo).request.tokens
        assert shown == decided
        assert asked == shown.used


def test_row_15_a_short_history_is_not_compacted() -> None:
    log = Log(BIG)
    for number in range(3):
        log.prompt(f"short {number}").answer(Text("yes")).end()
    check_refused(plan_of(log), "nothing_to_gain")


def test_row_16_six_hundred_tokens() -> None:
    log = Log(BIG).prompt("x" * 1_000).answer(Text("y" * 1_400)).end()
    assert 590 < log.state.tokens < 620
    check_refused(plan_of(log), "nothing_to_gain")


def test_row_29_interrupt_in_the_middle_of_a_tool() -> None:
    log = Log(BIG).prompt("run").answer(ToolCall("c", "bash", '{"command": "sleep 30"}'))
    log.result("c", "cancelled by user", is_error=True)
    log.add(TurnEnded(log.turn, Stop.CANCELLED)).prompt("go on")
    blocks = [block for message in check_sendable(log).request.messages for block in message.blocks]
    assert [block.text for block in blocks if isinstance(block, ToolResult)] == ["cancelled by user"]


def test_row_30_killed_between_call_and_result() -> None:
    """Ten times: every open call is closed with an unknown outcome, and nothing is left open."""
    left: list[Message] = []
    for number in range(10):
        log = Log(BIG).checkpoint(bare(kept(left))).prompt(f"again {number}")
        log.answer(ToolCall(f"c{number}", "bash", "{}"))
        built = check_sendable(log)
        closed = [b for m in built.request.messages for b in m.blocks if isinstance(b, ToolResult)]
        assert len(closed) == number + 1
        assert all("unknown" in block.text and block.is_error for block in closed)
        left = [item.message for item in log.state.items[1:]]  # type: ignore[union-attr]


def test_row_31_a_late_result_becomes_a_note() -> None:
    """Its call was compacted away while it ran; the note names it. (All cuts: tests/context/test_compaction.py.)"""
    log = Log(BIG).prompt("go")
    for number in range(10):
        log.read(f"f{number}.py", 4_000)
    log.answer(ToolCall("background", "bash", "{}")).checkpoint(bare()).result("background", "built at last")
    told = [b.text for b in check_sendable(log).request.messages[0].blocks if isinstance(b, Text)]
    assert any("background" in text and "built at last" in text for text in told)
    for number in range(3):
        log.read(f"g{number}.py", 4_000)
    compact(log)
    assert "built at last" in repr(check_sendable(log).request)


def test_row_32_an_unmatched_call_does_not_break_compaction() -> None:
    """A summary is asked for by the builder that sends: what can be sent can be compacted, before and after."""
    orphan = Message("a", Role.ASSISTANT, (ToolCall("lost", "bash", "{}"),), "t")
    log = Log(budget(32_000, "test")).checkpoint(bare(kept([orphan]))).prompt("go")
    for number in range(15):
        log.read(f"f{number}.py", 4_000)
    check_sendable(log)
    made, last = plan_of(log), LastRequest("be brief", (), occupancy(log.state, log.fixed, log.budget))
    assert isinstance(made, CompactionPlan)
    asked = summary_request(made, log.state, log.budget, "m", COUNTER, last=last)
    assert asked is not None and "lost" in repr(asked) and problems(asked, log.budget.window) == []
    compact(log)
    check_sendable(log)


@pytest.mark.parametrize("provider_id", ["", None, "same"])
def test_row_34_provider_ids_are_an_attribute(provider_id: str | None) -> None:
    """Empty, absent or repeated: calls are told apart by our ids."""
    log = Log(BIG).prompt("go")
    log.answer(*(ToolCall(f"t/1/c{n}", "read", "{}", provider_id) for n in range(2)))
    log.result("t/1/c1", "second").result("t/1/c0", "first")
    blocks = check_sendable(log).request.messages[2].blocks
    assert [block.text for block in blocks if isinstance(block, ToolResult)] == ["first", "second"]


@pytest.mark.parametrize(
    "bad",
    [Image(BlobRef("a" * 64, 6_000_000), "image/png", 10, 10), Image(BlobRef("a" * 64, 10), "image/png", 8_001, 1)],
)
def test_row_35_an_image_nobody_can_send(bad: Image) -> None:
    """It becomes a note, in a message and in a result, for this and every later request."""
    log = Log(BIG).prompt("look", bad).answer(ToolCall("c", "read", "{}")).result("c", "", images=(bad,))
    for _ in range(3):
        assert repr(check_sendable(log).request).count("image left out") == 2
        log.answer(Text("on")).end().prompt("more")
        log.answer(ToolCall(f"c{len(log.entries)}", "read", "{}"))
        log.result(log.state.facts.open_turn.pending[0])  # type: ignore[union-attr]


def test_row_38_bytes_are_a_budget_of_their_own() -> None:
    """Thirty images of 4 MB, far below the lines in tokens: the request stays below 24 MiB and says what it left."""
    log = Log(budget(1_000_000, "test"))
    for number in range(30):
        log.prompt(f"look {number}", image(4_000_000)).answer(Text("seen")).end()
    assert occupancy(log.state, 1_000, log.budget).phase == "below_handoff"
    built = check_sendable(log)
    assert built.size <= 24 * 1024 * 1024
    assert len(built.left_out) == 26


def test_row_38_text_above_the_byte_limit_is_due() -> None:
    """Either budget triggers."""
    log = Log(budget(None, "nobody")).prompt("x" * 26_000_000)
    built = build(log.state, "", (), ModelCard("m", None, "nobody"), 1, occupancy(log.state, 0, log.budget))
    assert built.too_large
    made = plan_step(log.state, FIXED, log.budget, COUNTER, too_large=lambda state: built.too_large)
    assert isinstance(made, CompactFirst)


def test_row_6_a_bigger_model_starts_a_plain_step() -> None:
    """After an overflow with compaction off; what the smaller model measured says nothing about the bigger one."""
    log = Log(budget(20_000, "test")).prompt("x" * 60_000).add(SessionConfigured(auto_compaction=False))
    log.answer(ToolCall("c", "read", "{}"), usage=Usage(prompt=19_000, completion=10)).result("c")
    assert isinstance(plan_step(log.state, FIXED, log.budget, COUNTER), Impossible)
    log.add(SessionConfigured(model="bigger"))
    made = plan_step(log.state, FIXED, BIG, COUNTER)
    assert isinstance(made, Proceed)
    assert made.occupancy.source is Measured.ESTIMATE
