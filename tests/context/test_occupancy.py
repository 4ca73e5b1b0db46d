"""Occupancy, budget and phases: the one number and what it is compared with."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.context.histories import BIG, COUNTER, Log, bare, image, live_log

from ullage.context.occupancy import budget, count_message, fixed_part, occupancy, phase, request_tool, session_budget
from ullage.core.context import Measured, Phase
from ullage.core.events import SessionConfigured
from ullage.core.messages import Message, Opaque, Part, Reasoning, Role, Text, ToolCall, ToolResult, Usage
from ullage.core.ports import ModelCard, ToolSpec
from ullage.core.requests import RequestTool
from ullage.core.state import Config

MOST = 2**53 - 1


def check_used(log: Log, used: int, source: Measured, fixed: int = 1_000) -> None:
    now = occupancy(log.state, fixed, BIG)
    assert (now.used, now.source) == (used, source)
    assert now.estimated == (used if source is Measured.ESTIMATE else now.estimated)
    assert (now.estimated == 0) == (source is Measured.PROVIDER)


# --- projection ---


@pytest.mark.parametrize(
    ("usage", "total"),
    [
        (Usage(prompt=4_000, completion=100, total=4_500), 4_500),
        (Usage(prompt=4_000, completion=100, total=3_000), 4_100),
        (Usage(prompt=float("nan"), completion=100, total=4_500), 4_500),  # type: ignore[arg-type]
        (Usage(total=4_500), 4_500),
    ],
)
def test_largest_valid_provider_total(usage: Usage, total: int) -> None:
    """T001"""
    check_used(Log().prompt("hi").answer(Text("yes"), usage=usage), total, Measured.PROVIDER)


@pytest.mark.parametrize("usage", [Usage(), Usage(prompt=0, completion=0, total=0), Usage(prompt=0, total=50)])
def test_without_usage_all_is_estimated(usage: Usage) -> None:
    """T002, T006, W-P1: a missing or zero-prompt usage also ends what an earlier answer measured."""
    log = Log().prompt("hi").answer(Text("yes"), usage=Usage(prompt=9_000, completion=1)).end()
    log.prompt("more").answer(Text("yes"), usage=usage)
    check_used(log, 1_000 + log.state.tokens, Measured.ESTIMATE)


def test_only_messages_after_the_answer_are_added() -> None:
    """T003"""
    log = Log().prompt("hi").answer(ToolCall("c", "read", "{}"), usage=Usage(prompt=5_000, completion=50))
    before = log.state.tokens
    log.result("c", "x" * 400)
    check_used(log, 5_050 + log.state.tokens - before, Measured.PROVIDER_PLUS_ESTIMATE)


def test_a_pending_reminder_counts_once() -> None:
    """T004: a handoff that was sent is inside the provider's total; one that was not is added."""
    log = Log().prompt("hi").handoff(VALID, tokens=300)
    log.answer(Text("yes"), usage=Usage(prompt=5_000, completion=50))
    check_used(log, 5_050, Measured.PROVIDER)
    late = Log().prompt("hi").answer(Text("yes"), usage=Usage(prompt=5_000, completion=50)).handoff(VALID, tokens=300)
    check_used(late, 5_350, Measured.PROVIDER_PLUS_ESTIMATE)
    assert occupancy(late.state, 1_000, BIG).hidden == 300


VALID = (
    '{"version":1,"messageId":"handoff-message-1","observedPromptTokens":75000,"availableForInput":100000,'
    '"handoffThreshold":70000,"compactionThreshold":80000,"createdAt":"2026-02-03T04:05:06.007Z"}'
)


def test_a_suppressed_handoff_costs_nothing() -> None:
    log = Log().prompt("hi")
    before = occupancy(log.state, 1_000, BIG).used
    log.handoff("{}", tokens=300)
    assert (occupancy(log.state, 1_000, BIG).used, occupancy(log.state, 1_000, BIG).hidden) == (before, 0)


def test_a_rewrite_falls_back_to_the_estimate() -> None:
    """T005, T008 in its design form: checkpoint and model switch change the revision."""
    log = Log().prompt("hi").answer(Text("yes"), usage=Usage(prompt=5_000, completion=50))
    switched = log.add(SessionConfigured(model="other"))
    check_used(switched, 1_000 + log.state.tokens, Measured.ESTIMATE)
    log = Log().prompt("hi").answer(Text("yes"), usage=Usage(prompt=5_000, completion=50)).end()
    log.checkpoint(bare())
    check_used(log, 1_010, Measured.ESTIMATE)


def test_a_message_right_after_the_request_boundary() -> None:
    """T007: something came between request and answer, so the total does not cover what the state holds."""
    log = Log().prompt("hi").step().steer("wait").answered(Text("yes"), usage=Usage(prompt=5_000, completion=50))
    check_used(log, 1_000 + log.state.tokens, Measured.ESTIMATE)


@pytest.mark.parametrize(("fixed", "used"), [(1_000, 5_050), (1_400, 5_450), (600, 5_050)])
def test_growth_of_the_fixed_part(fixed: int, used: int) -> None:
    """T009, T010: growth is added, shrinkage is not believed."""
    log = Log().prompt("hi").answer(Text("yes"), usage=Usage(prompt=5_000, completion=50))
    source = Measured.PROVIDER_PLUS_ESTIMATE if used > 5_050 else Measured.PROVIDER
    check_used(log, used, source, fixed)


@pytest.mark.parametrize(("signed", "used"), [(False, 5_050), (True, 35_050)])
def test_reasoning_that_is_not_sent_back(signed: bool, used: int) -> None:
    """W-P2"""
    reasoning = Reasoning("hm", Opaque("p", "m", "{}") if signed else None)
    log = Log().prompt("hi")
    log.answer(reasoning, Text("yes"), usage=Usage(prompt=5_000, completion=30_050, reasoning=30_000))
    check_used(log, used, Measured.PROVIDER)


@settings(max_examples=100, derandomize=True, deadline=None)
@given(st.integers(0, 10**6))
def test_the_estimate_is_the_sum_of_its_messages(seed: int) -> None:
    state = live_log(random.Random(seed), 3).state
    counted = sum(count_message(item.message, COUNTER) for item in state.items)  # type: ignore[union-attr]
    assert state.tokens == counted


# --- counting ---


@pytest.mark.parametrize(
    ("part", "tokens"),
    [
        (Text("x" * 40), 10),
        (Reasoning("x" * 40), 0),
        (Reasoning("x" * 40, Opaque("p", "m", "y" * 80)), 10),
        (Reasoning("", Opaque("p", "m", "y" * 80)), 20),
        (Opaque("p", "m", "y" * 81), 21),
        (image(5_000_000), 1_600),
        (ToolCall("c" * 8, "read", "x" * 40), 4 + 1 + 10 + 2),
        (ToolResult("c" * 8, "x" * 40), 6 + 10),
        (ToolResult("c", "x" * 40, images=(image(),)), 6 + 1_610),
    ],
)
def test_framing(part: Part, tokens: int) -> None:
    """blade 2.2; W-A14: an image costs the same whatever its bytes."""
    assert count_message(Message("m", Role.USER, (part,), "t"), COUNTER) == 4 + 1 + tokens


def test_fixed_part_names_its_biggest() -> None:
    tools = [request_tool(ToolSpec("read", "d" * 40, {"b": 1, "a": 2})), RequestTool("grep", "g", "{}")]
    fixed = fixed_part("s" * 40, tools, COUNTER)
    assert tools[0].schema == '{"a":2,"b":1}'
    assert [name for name, _ in fixed.parts] == ["tool read", "tool grep", "system prompt"]
    assert fixed.tokens == sum(tokens for _, tokens in fixed.parts)
    assert fixed_part("", [], COUNTER).tokens == 0


# --- budget and phases ---


@pytest.mark.parametrize(
    ("used", "expected"),
    [
        (69_999, Phase.BELOW_HANDOFF),
        (70_000, Phase.HANDOFF_BAND),
        (79_999, Phase.HANDOFF_BAND),
        (80_000, Phase.COMPACTION_DUE),
        (-1, Phase.UNKNOWN),
        (True, Phase.UNKNOWN),
        (7.0, Phase.UNKNOWN),
        (float("nan"), Phase.UNKNOWN),
    ],
)
def test_phases(used: int, expected: Phase) -> None:
    """T011, T012"""
    assert phase(used, budget(110_000, "test", 10_000)) is expected


@pytest.mark.parametrize("window", [None, 0, -5, 1.5, float("inf"), float("nan"), True, 2**53, "8000"])
def test_invalid_windows_are_unknown(window: int) -> None:
    """T012"""
    divided = budget(window, "test")
    assert (divided.window, divided.input_budget, phase(10, divided)) == (None, 0, Phase.UNKNOWN)


@pytest.mark.parametrize("cap", [100_000, 100_001, -1, 1.5, True])
def test_invalid_reserves_are_unknown(cap: int) -> None:
    """T012"""
    assert phase(10, budget(100_000, "test", cap)) is Phase.UNKNOWN


def test_thresholds_are_exact() -> None:
    """T013: no floating point."""
    divided = budget(MOST, "test", 0)
    assert (divided.handoff_line, divided.compaction_line) == (MOST * 7 // 10, MOST * 8 // 10)


@pytest.mark.parametrize(
    ("window", "cap", "reserve"),
    [
        (8_192, None, 2_048),
        (16_000, None, 4_000),
        (32_000, None, 8_000),
        (32_768, None, 8_192),
        (100_000, None, 10_000),
        (200_000, None, 20_000),
        (1_000_000, None, 32_768),
        (200_000, 1, 1),
        (200_000, 150_000, 150_000),
    ],
)
def test_reserve(window: int, cap: int | None, reserve: int) -> None:
    """T014, W-P5: an explicit cap as it is, else clamped, and never more than a quarter."""
    divided = budget(window, "test", cap)
    assert (divided.reserve, divided.input_budget) == (reserve, window - reserve)
    assert phase(0, divided) is Phase.BELOW_HANDOFF


@pytest.mark.parametrize(
    ("config", "card", "expected"),
    [
        (Config(), ModelCard("m", 50_000, "table"), (50_000, "table", 8_192)),
        (Config(window=40_000), ModelCard("m", 50_000, "table"), (40_000, "setting", 8_192)),
        (Config(output_cap=7), ModelCard("m", 50_000, "table"), (50_000, "table", 7)),
        (Config(output_cap=7), ModelCard("m", 50_000, "table", 9), (50_000, "table", 9)),
        (Config(), ModelCard("m", None, "nobody"), (None, "nobody", 0)),
    ],
)
def test_precedence(config: Config, card: ModelCard, expected: tuple[object, ...]) -> None:
    """T014: the model's own cap before the configured one."""
    divided = session_budget(config, card)
    assert (divided.window, divided.window_source, divided.reserve) == expected
