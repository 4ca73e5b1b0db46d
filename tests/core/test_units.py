"""Units cover a history in order and never separate a call from its result, however hard the history is."""

from __future__ import annotations

import random

import pytest

from ullage.core.messages import Message, Part, Role, Text, ToolCall, ToolResult
from ullage.core.units import units


def said(text: str = "hi") -> Message:
    return Message("u", Role.USER, (Text(text),), "t")


def asks(*calls: str) -> Message:
    return Message("a", Role.ASSISTANT, tuple(ToolCall(call, "bash", "{}") for call in calls), "t")


def gives(*calls: str) -> Message:
    return Message("r", Role.TOOL, tuple(ToolResult(call, "out") for call in calls), "t")


def check_units(messages: list[Message], expected: list[tuple[int, int]]) -> None:
    assert [(unit.start, unit.end) for unit in units(messages)] == expected


def test_plain_messages_stand_alone() -> None:
    check_units([], [])
    check_units([said(), asks(), said()], [(0, 1), (1, 2), (2, 3)])


def test_a_call_and_its_result_are_one() -> None:
    check_units([said(), asks("a"), gives("a"), said()], [(0, 1), (1, 3), (3, 4)])


def test_parallel_results_in_any_order_are_one() -> None:
    check_units([asks("a", "b"), gives("b"), gives("a"), said()], [(0, 3), (3, 4)])


def test_steering_between_call_and_result_is_inside() -> None:
    check_units([asks("a"), said("wait"), gives("a"), said()], [(0, 3), (3, 4)])


def test_interleaved_steps_are_one() -> None:
    check_units([asks("a"), asks("b"), gives("a"), gives("b"), said()], [(0, 4), (4, 5)])
    check_units([asks("a"), asks("b"), gives("b"), gives("a"), said()], [(0, 4), (4, 5)])


def test_a_call_without_a_result_stands_alone() -> None:
    check_units([asks("a"), said(), asks("b"), gives("b")], [(0, 1), (1, 2), (2, 4)])


def test_a_result_without_a_call_stands_alone() -> None:
    check_units([gives("x"), said()], [(0, 1), (1, 2)])


def test_a_late_result_reaches_over_everything_between() -> None:
    check_units([asks("a"), said(), asks("b"), gives("b"), gives("a")], [(0, 5)])


def _hard_history(rng: random.Random) -> list[Message]:
    """Calls, results in any order and late, several in one message, steering between, some never answered."""
    history: list[Message] = []
    waiting: list[str] = []
    for number in range(rng.randint(0, 30)):
        roll = rng.random()
        if roll < 0.3:
            calls = [f"c{number}-{i}" for i in range(rng.randint(1, 4))]
            waiting += calls
            history.append(asks(*calls))
        elif roll < 0.7 and waiting:
            rng.shuffle(waiting)
            n_given = rng.randint(1, len(waiting))
            history.append(gives(*waiting[:n_given]))
            waiting = waiting[n_given:]
        elif roll < 0.75 and waiting:
            waiting.pop()  # never answered
        elif roll < 0.8:
            history.append(gives(f"orphan{number}"))
        else:
            history.append(said())
    return history


def _places(history: list[Message], kind: type[Part]) -> dict[str, int]:
    return {
        part.call_id: index
        for index, message in enumerate(history)
        for part in message.parts
        if isinstance(part, kind) and isinstance(part, ToolCall | ToolResult)
    }


@pytest.mark.parametrize("chunk", range(4))
def test_hard_histories_are_covered_in_order_and_never_separated(chunk: int) -> None:
    for seed in range(chunk * 250, chunk * 250 + 250):
        history = _hard_history(random.Random(seed))
        found = units(history)
        ends = [0, *(unit.end for unit in found)]
        assert [unit.start for unit in found] == ends[:-1] and ends[-1] == len(history), "covers, in order"
        assert all(unit.start < unit.end for unit in found)
        unit_of = {place: number for number, unit in enumerate(found) for place in range(unit.start, unit.end)}
        results = _places(history, ToolResult)
        for call_id, place in _places(history, ToolCall).items():
            if call_id in results:
                assert unit_of[place] == unit_of[results[call_id]], f"seed {seed} separates {call_id}"


def test_units_are_as_small_as_they_can_be() -> None:
    """A unit of several messages can't be cut anywhere: some call before the cut has its result behind it."""
    for seed in range(500):
        history = _hard_history(random.Random(seed))
        calls, results = _places(history, ToolCall), _places(history, ToolResult)
        spans = [(place, results[call_id]) for call_id, place in calls.items() if call_id in results]
        for unit in units(history):
            for cut in range(unit.start + 1, unit.end):
                assert any(start < cut <= end for start, end in spans), f"seed {seed}: {unit} could be cut at {cut}"
