"""Rows of the context engine: counting, occupancy, planning, building a request."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from statistics import median

from floors.encode import encode
from history import AT, Session, entries_after, grown, texts_of
from report import Row, compare, cpu, timed

from ullage.context.assembly import assemble
from ullage.context.compaction import Accepted, gate, plan
from ullage.context.occupancy import FixedPart, budget, count_message, occupancy
from ullage.context.profiles.ullage import ULLAGE
from ullage.context.replacement import head_blocks
from ullage.context.request import Memo, build
from ullage.core.context import CompactionPlan, Reason
from ullage.core.events import Entry, Event, ResultReceived
from ullage.core.messages import Role
from ullage.core.ports import ModelCard
from ullage.core.reduce import fold, reduce
from ullage.core.state import MessageItem, State
from ullage.providers.tokens import TiktokenCounter, load_counter

SEED = 20
WINDOW = 1_200_000
BUDGET = budget(WINDOW, "table")
FIXED = FixedPart(3_000, (("system prompt", 3_000),))
CARD = ModelCard("scripted", WINDOW, "table")

APPENDS = 300
"""Messages appended for one row: each is measured once, since what is measured changes the state."""


def rows() -> Iterator[Row]:
    """Every row of this group."""
    counter = load_counter()
    assert isinstance(counter, TiktokenCounter)
    yield from (_append(messages, counter) for messages in (200, 2_000))
    batches = _session(counter).batches()
    quarter = grown(batches, 500)
    whole = grown(batches, 2_000, quarter)
    yield _from_scratch(whole, counter)
    yield from _planning(quarter, whole, counter)
    yield _lost(quarter, counter)
    yield _request(whole, batches)


def _session(counter: TiktokenCounter) -> Session:
    return Session(SEED, partial(count_message, counter=counter), counter.encoding)


# --- one appended message ---


def _append(messages: int, counter: TiktokenCounter) -> Row:
    """A result of 2,000 characters: counted, reduced, and the number taken."""
    session = _session(counter)
    batches = session.batches()
    state = grown(batches, messages)
    session.result_chars = 2_000
    taken: list[tuple[float, float]] = []
    while len(taken) < APPENDS:
        [event, *more] = next(batches)
        if isinstance(event, ResultReceived):
            taken.append(_timed_append(state, event, counter, ours_first=len(taken) % 2 == 0))
        state = fold(entries_after(state, [event, *more]), state)
    ours, floor = (1e6 * median(side) for side in zip(*taken, strict=True))
    what = f"occupancy after one appended message, {messages:,} messages"
    return Row(f"append.{messages}", what, "µs", ours, floor, 1.2, 200)


def _timed_append(
    state: State, event: ResultReceived, counter: TiktokenCounter, ours_first: bool
) -> tuple[float, float]:
    [result] = event.message.results
    if ours_first:
        ours = timed(lambda: _appended(state, event, counter), cpu)
    floor = timed(lambda: encode(counter.encode, [result.text]), cpu)
    if not ours_first:
        ours = timed(lambda: _appended(state, event, counter), cpu)
    return ours, floor


def _appended(state: State, event: ResultReceived, counter: TiktokenCounter) -> object:
    tokens = count_message(event.message, counter)
    counted = replace(event, tokens=tokens, encoding=counter.encoding)
    return occupancy(reduce(state, Entry(state.facts.last_seq + 1, AT, counted)), FIXED.tokens, BUDGET)


# --- a whole history ---


def _from_scratch(state: State, counter: TiktokenCounter) -> Row:
    """Every message counted again, as after a change of the encoding."""
    messages, texts = [item.message for item in state.items], texts_of(state)  # type: ignore[union-attr]
    ours, floor = compare(
        lambda: [count_message(message, counter) for message in messages],
        lambda: encode(counter.encode, texts),
        5,
        cpu,
    )
    what = f"counting {len(messages):,} messages, {state.tokens / 1e6:.2f}M tokens, from scratch"
    return Row("count", what, "ms", 1e3 * ours, 1e3 * floor, 1.1)


# --- compaction ---


def _planning(quarter: State, whole: State, counter: TiktokenCounter) -> Iterator[Row]:
    """Planned alone, and with all that a compaction without a model does before its commit.

    The floor of the whole one is the quarter's time, four times: the goal on it says that planning is linear.
    """
    small, large = compare(lambda: _plan(quarter, counter), lambda: _plan(whole, counter), 25, cpu)
    yield Row("plan", "planning a compaction of 1M tokens", "ms", 1e3 * large, 4e3 * small, LINEAR, 50)
    small, large = compare(lambda: _compact(quarter, counter), lambda: _compact(whole, counter), 9, cpu)
    what = "the same, replacement made and gated, no model"
    yield Row("plan.assembled", what, "ms", 1e3 * large, 4e3 * small, LINEAR, 50)


LINEAR = 1.2
"""Four times the messages may take so much more than four times as long; caches are finite."""


def _plan(state: State, counter: TiktokenCounter) -> CompactionPlan:
    now = occupancy(state, FIXED.tokens, BUDGET)
    planned = plan(state, Reason.THRESHOLD, now, FIXED, ULLAGE, counter)
    assert isinstance(planned, CompactionPlan), planned
    return planned


def _compact(state: State, counter: TiktokenCounter) -> None:
    planned = _plan(state, counter)
    replacement = assemble(planned, state, counter, ULLAGE, (), "fence")
    passed = gate(planned, state, replacement, FIXED.tokens, BUDGET)
    assert isinstance(passed, Accepted), passed


def _lost(state: State, counter: TiktokenCounter) -> Row:
    """Paths of touched files, people's words and the newest error that a compaction without a model leaves out."""
    replacement = assemble(_plan(state, counter), state, counter, ULLAGE, (), "fence")
    head = "".join(block.text for block in head_blocks(replacement))
    kept = head + "".join(kept.message.text for kept in replacement.tail)
    people = [item.message for item in state.items if isinstance(item, MessageItem) and item.message.role is Role.USER]
    wanted = [*(fact.path for fact in state.facts.files), *(message.text for message in people)]
    wanted += [state.facts.newest_error] if state.facts.newest_error else []
    lost = sum(said not in kept for said in wanted)
    what = f"paths, people's words and newest error not in a replacement, of {len(wanted)}"
    return Row("lost", what, "%", 100 * lost / len(wanted), most=0)


# --- the request ---


def _request(state: State, batches: Iterator[list[Event]]) -> Row:
    """Built again after one appended message, against building all of it."""
    memo = Memo()
    _build(state, memo)
    taken: list[float] = []
    fresh: list[float] = []
    while len(taken) < 25:
        state = fold(entries_after(state, next(batches)), state)
        taken.append(timed(lambda: _build(state, memo), cpu))  # noqa: B023  # called at once
        fresh += [timed(lambda: _build(state, Memo()), cpu)] if len(fresh) < 5 else []  # noqa: B023
    what = "request after one appended message, against all of it"
    return Row("request", what, "ms", 1e3 * median(taken), 1e3 * median(fresh))


def _build(state: State, memo: Memo) -> object:
    return build(state, "You are a coding agent.", (), CARD, 8_192, occupancy(state, FIXED.tokens, BUDGET), memo)
