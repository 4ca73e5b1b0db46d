"""Pruning: what is left out, in which order, when that is worth it, and what a request looks like afterwards."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import replace

import pytest
from tests.context.histories import COUNTER, Log, live_log

from ullage.context.compaction import plan_step
from ullage.context.limits import PRUNING, Pruner, Pruning
from ullage.context.occupancy import FixedPart, budget, occupancy
from ullage.context.pruning import MARKER, Pruned, cache_expired, prune
from ullage.context.request import build, render
from ullage.core.context import (
    Budget,
    CompactFirst,
    HandoffFirst,
    Impossible,
    Omission,
    OmissionReason,
    Phase,
    Proceed,
    StepPlan,
)
from ullage.core.events import Entry, ItemsOmitted, SessionConfigured
from ullage.core.messages import Op, Text, ToolCall, ToolFacts
from ullage.core.omission import message_units, omission, whole_items
from ullage.core.ports import ModelCard
from ullage.core.reduce import fold, reduce
from ullage.core.requests import RequestMessage
from ullage.core.state import MessageItem, OmissionItem, State
from ullage.testing.validator import problems

FIXED = FixedPart(1_000, (("system prompt", 1_000),))
MEDIUM = budget(64_000, "test")
"""Input budget 55,808: handoff line 39,065, compaction line 44,646."""
UNKNOWN = budget(None, "nobody")

READ = ToolFacts(Op.READ, ("a.py",))
WRITE = ToolFacts(Op.WRITE, ("b.py",))
RUN = ToolFacts(Op.RUN, command="make test", exit_code=0, detail="300 passed, 0 failed")
FAILED_RUN = replace(RUN, exit_code=2)


def turn(log: Log, facts: ToolFacts = READ, size: int = 8_000, *, error: bool = False) -> int:
    """A tool turn of `size` characters; the seq of its answer."""
    call = f"c{len(log.entries)}"
    log.answer(ToolCall(call, "tool", "{}"))
    seq = log.state.facts.last_seq
    log.result(call, "x" * size, facts=facts, is_error=error)
    return seq


def long_log(turns: int, size: int = 8_000, budget: Budget = MEDIUM) -> Log:
    log = Log(budget).prompt("go")
    for _ in range(turns):
        turn(log, size=size)
    return log


def step(log: Log, **more: object) -> StepPlan:
    return plan_step(log.state, FIXED, log.budget, COUNTER, **more)  # type: ignore[arg-type]


def pruned(log: Log, policy: Pruning = PRUNING, *, cold: bool = False) -> Pruned:
    return prune(log.state, lambda state: occupancy(state, FIXED.tokens, log.budget), policy, COUNTER, cold=cold)


def gone(found: Pruned) -> list[int]:
    """Seqs of the answers whose turns were left out."""
    return [unit[0] for made in found.omissions for unit in made.units]


def markers(messages: list[RequestMessage]) -> int:
    return sum(isinstance(block, Text) and block.text == MARKER for each in messages for block in each.blocks)


# --- when ---


def test_below_the_line_nothing_is_left_out() -> None:
    """W-B1: 30 messages and eleven tool turns are no reason, at two per cent of a large window."""
    for log in (long_log(40, budget=budget(1_000_000, "test")), long_log(16)):
        assert step(log) == Proceed(occupancy(log.state, 1_000, log.budget))


def test_it_stops_when_enough_is_freed() -> None:
    """W-B1: down to half of the input budget, and no further."""
    made = step(long_log(20))
    assert isinstance(made, Proceed)
    half = MEDIUM.input_budget // 2
    [omission] = made.omissions
    assert half - 2_100 < made.occupancy.used <= half
    assert omission.reason is OmissionReason.SNIP and omission.tokens == 2_025 * len(omission.units)


def test_the_newest_turns_stay() -> None:
    log = Log(MEDIUM).prompt("go")
    seqs = [turn(log, size=16_000) for _ in range(11)]
    assert gone(pruned(log)) == []  # the one that may go is not worth a rewrite
    seqs += [turn(log, size=16_000) for _ in range(4)]
    assert gone(pruned(log)) == seqs[:5]


@pytest.mark.parametrize(("window", "least"), [(64_000, 5_580), (1_000_000, 20_000)])
def test_it_frees_much_or_nothing(window: int, least: int) -> None:
    """The smaller of 20k tokens and a tenth of the input budget: each rewrite pays for all that follows it."""
    for more, found in ((-100, 0), (100, 1)):
        log = Log(budget(window, "test"))
        log.prompt("p" * 4 * log.budget.handoff_line)
        turn(log, size=4 * (least + 63 + more))
        for _ in range(10):
            turn(log, size=8)
        assert len(pruned(log).omissions) == found


# --- in which order ---


def test_reads_go_first_then_writes_then_errors_oldest_first() -> None:
    """W-B4: the order decides what goes when not all of it must."""
    log = Log(MEDIUM).prompt("go")
    error, write, run = turn(log, error=True), turn(log, WRITE), turn(log, RUN)
    reads = [turn(log) for _ in range(4)]
    for _ in range(13):
        turn(log)
    order = [*reads, turn_seq(log, 7), turn_seq(log, 8), turn_seq(log, 9), write, run, error]
    for number in range(1, len(order) + 1):
        policy = replace(PRUNING, snip=Pruner(least=0, down_to_percent=percent_after(log, number)))
        assert sorted(gone(pruned(log, policy))) == sorted(order[: len(gone(pruned(log, policy)))])
    everything = replace(PRUNING, snip=Pruner(least=0, down_to_percent=None))
    assert sorted(gone(pruned(log, everything))) == sorted(order)


def turn_seq(log: Log, place: int) -> int:
    return [unit[0].seq for unit in message_units(log.state.items) if unit[0].message.calls][place]


def percent_after(log: Log, turns: int) -> int:
    """Percent of the input budget that is left when so many turns of 2,000 tokens went."""
    return (log.state.tokens + 1_063 - 2_023 * turns) * 100 // MEDIUM.input_budget + 1


ERRORS = {
    "the flag": (READ, "fine", True, True),
    "the exit code": (FAILED_RUN, "fine", False, True),
    "words alone": (RUN, "Error: 0 failed, ENOENT", False, False),
    "another language": (READ, "错误：找不到文件", True, True),
}


@pytest.mark.parametrize(("facts", "text", "flag", "late"), ERRORS.values(), ids=ERRORS.keys())
def test_an_error_is_known_by_its_flag(facts: ToolFacts, text: str, flag: bool, late: bool) -> None:
    """W-B5: what a log says is not what happened."""
    log = Log(MEDIUM).prompt("go")
    log.answer(ToolCall("odd", "tool", "{}"))
    odd = log.state.facts.last_seq
    log.result("odd", text + "x" * 8_000, facts=facts, is_error=flag)
    writes = [turn(log, WRITE) for _ in range(19)]
    found = gone(pruned(log))
    assert (odd in found) == (not late) and writes[0] in found


# --- cold caches ---


def cold_log() -> tuple[Log, list[int], list[int]]:
    log = Log(budget(200_000, "test")).prompt("go")
    reads = [turn(log) for _ in range(12)]
    writes = [turn(log, WRITE), turn(log, RUN), turn(log, FAILED_RUN)]
    for _ in range(10):
        turn(log)
    return log, reads, writes


def test_a_cold_cache_leaves_out_what_only_read() -> None:
    """W-B6: never what changed something and was not summarised; not even where it failed."""
    log, reads, _ = cold_log()
    found = pruned(log, cold=True)
    assert gone(found) == reads and found.omissions[0].reason is OmissionReason.MICRO
    assert pruned(log).omissions == ()


def test_a_cold_cache_needs_a_floor_too() -> None:
    log = long_log(15, budget=budget(200_000, "test"))
    assert pruned(log, cold=True).omissions == ()


EXPIRED = {
    "nobody says how long it lasts": (1_000_000, None, False),
    "within it": (9_000, 5_000, False),
    "at its end": (10_000, 5_000, False),
    "after it": (10_001, 5_000, True),
    "a clock that went back": (0, 5_000, False),
}


@pytest.mark.parametrize(("at", "lifetime", "expired"), EXPIRED.values(), ids=EXPIRED.keys())
def test_when_a_cache_has_expired(at: int, lifetime: int | None, expired: bool) -> None:
    """W-B6: by the log's time of the last call and by a lifetime that somebody stated."""
    log = Log().prompt("go").answer(Text("yes"))
    assert log.state.facts.last_call_at == 5_000 - 1_000
    facts = replace(log.state.facts, last_call_at=5_000)
    assert cache_expired(facts, at, lifetime) is expired
    assert not cache_expired(replace(facts, last_call_at=None), at, lifetime)


# --- unknown phase ---


@pytest.mark.parametrize(("turns", "left_out"), [(14, 0), (15, 5)])
def test_with_an_unknown_phase_blades_limits_hold(turns: int, left_out: int) -> None:
    """T091, T101, T102: thirty messages, the newest ten tool turns stay, nothing need be freed."""
    log = long_log(turns, size=8, budget=UNKNOWN)
    made = step(log)
    assert isinstance(made, Proceed) and made.occupancy.phase is Phase.UNKNOWN
    assert sum(len(each.units) for each in made.omissions) == left_out


@pytest.mark.parametrize("keep", [1, 2])
def test_how_many_turns_stay_is_the_policys(keep: int) -> None:
    """T101: removal counts with keep 2 and 1."""
    policy = replace(PRUNING, unknown=Pruner(keep_turns=keep, messages=10, least=0, down_to_percent=None))
    assert len(gone(pruned(long_log(8, size=400, budget=UNKNOWN), policy))) == 8 - keep


def test_micro_works_with_an_unknown_phase_too() -> None:
    """T091."""
    log = long_log(12, size=4_000, budget=UNKNOWN)
    assert len(gone(pruned(log, cold=True))) == 2


# --- the step ---


def commit(log: Log, made: StepPlan) -> None:
    assert isinstance(made, Proceed | HandoffFirst)
    for each in made.omissions:
        log.add(ItemsOmitted(each))


def test_the_decision_uses_the_figure_after_pruning() -> None:
    """W-P3: pruning spares the reminder in the band, and the compaction above it."""
    for turns in (19, 22):
        log = long_log(turns)
        assert occupancy(log.state, 1_000, MEDIUM).phase is not Phase.BELOW_HANDOFF
        made = step(log)
        assert isinstance(made, Proceed) and made.occupancy.phase is Phase.BELOW_HANDOFF
        commit(log, made)
        assert occupancy(log.state, 1_000, MEDIUM) == made.occupancy


def test_a_handoff_is_recorded_with_what_is_left_out() -> None:
    """What remains stands in the band still: one batch, and the second plan goes on from it."""
    log = Log(MEDIUM).prompt("p" * 4 * 17_000)
    for _ in range(14):
        turn(log, size=8_500)
    made = step(log)
    assert isinstance(made, HandoffFirst) and made.omissions and made.occupancy.phase is Phase.HANDOFF_BAND
    commit(log, made)
    assert occupancy(log.state, 1_000, MEDIUM) == made.occupancy
    assert step(log) == HandoffFirst(made.occupancy, made.tokens)


def test_where_a_compaction_comes_anyway_nothing_is_pruned() -> None:
    """W-B8, W-A10: its source is whole, and the number is that of what stands."""
    log = Log(MEDIUM).prompt("p" * 4 * 25_000)
    for _ in range(14):
        turn(log)
    assert isinstance(made := step(log), CompactFirst)
    assert made.occupancy == occupancy(log.state, 1_000, MEDIUM)
    log.add(SessionConfigured(auto_compaction=False))
    assert isinstance(made := step(log), Impossible)
    assert made.occupancy == occupancy(log.state, 1_000, MEDIUM)


def test_a_request_with_too_many_bytes_is_pruned() -> None:
    log = long_log(15, size=40)
    log.budget = BIG_BUDGET

    def too_large(state: State) -> bool:
        return sum(isinstance(item, MessageItem) for item in state.items) > 25

    assert isinstance(step(log, too_large=too_large, pruning=replace(PRUNING, snip=Pruner(least=0))), Proceed)
    assert isinstance(step(log, too_large=lambda state: True), CompactFirst)


BIG_BUDGET = budget(200_000, "test")


def test_the_same_state_gives_the_same_plan() -> None:
    log = long_log(30)
    assert step(log) == step(log) == step(replace_state(log))


def replace_state(log: Log) -> Log:
    """The same log, folded once more."""
    again = Log(log.budget)
    again.state = fold(log.entries)
    return again


# --- what is sent ---


def test_one_marker_of_the_users_at_the_first_place() -> None:
    """W-B2, W-B3: no system text, no pile; what comes before it stays byte for byte, also the next time."""
    log = long_log(20)
    requests = [render(log.state.items, "m")[0]]
    for _ in range(3):
        commit(log, step(log))
        requests.append(render(log.state.items, "m")[0])
        assert markers(requests[-1]) == 1
        for _ in range(9):
            turn(log)
    assert len(omissions := [e for e in log.entries if isinstance(e.event, ItemsOmitted)]) == 3, omissions
    assert MARKER in [block.text for block in requests[1][0].blocks if isinstance(block, Text)]


def test_what_was_recorded_survives_a_reload() -> None:
    """W-B7: memory and disk agree, because both are the fold of the log."""
    log = long_log(20)
    commit(log, step(log))
    again = fold(log.entries)
    assert again == log.state
    assert again.facts.revision == log.state.facts.last_seq and again.facts.baseline is None


# --- properties ---


def histories() -> Iterator[Log]:
    for seed in range(60):
        rng = random.Random(seed)
        window = rng.choice([8_000, 16_000, 32_000, None])
        yield live_log(rng, rng.randrange(2, 14), budget(window, "test"), size=rng.choice([200, 1_500, 4_000]))


def tight(log: Log) -> Pruning:
    """A policy that prunes whatever may go, down to the newest turn."""
    all_of_it = Pruner(keep_turns=1, least=0, down_to_percent=None)
    return Pruning(all_of_it, all_of_it, all_of_it)


def test_properties_of_pruned_histories() -> None:
    """Requests stay valid, units whole, the marker single, the figures as planned, the beginning the same."""
    seen = 0
    for log in histories():
        before, whole = log.state, log.state.items
        found = pruned(log, tight(log), cold=True)
        for made in found.omissions:
            seen += 1
            known, tokens = omission(log.state.items), log.state.tokens
            log.add(ItemsOmitted(made))
            assert log.state.tokens == tokens - made.tokens + (0 if known else made.marker)
        assert log.state.items == found.state.items
        check_valid(log)
        check_units(before, log.state)
        assert [item for item in whole_items(log.state.items) if isinstance(item, MessageItem)] == [
            replace(item, upto=again.upto)
            for item, again in zip(whole, whole_items(log.state.items), strict=True)
            if isinstance(item, MessageItem) and isinstance(again, MessageItem)
        ]
        check_prefix(before, log.state)
    assert seen > 30


def check_valid(log: Log) -> None:
    now = occupancy(log.state, FIXED.tokens, log.budget)
    request = build(log.state, "", (), ModelCard("m", None, "test"), 100, now).request
    assert problems(request) == []
    assert markers(list(request.messages)) == (omission(log.state.items) is not None)


def check_units(before: State, after: State) -> None:
    left = omission(after.items)
    seqs = {each.item.seq for each in left.left_out} if left else set()
    for unit in message_units(before.items):
        assert len({item.seq in seqs for item in unit}) == 1, "a unit was separated"
        assert not any(item.seq in seqs for item in unit if item.message.role == "user")


def check_prefix(before: State, after: State) -> None:
    """Everything up to the first unit that is left out is the same."""
    place = next((n for n, item in enumerate(after.items) if isinstance(item, OmissionItem)), None)
    if place is not None:
        assert list(before.items[:place]) == list(after.items[:place])
        shared = render(before.items[:place], "m")[0]
        for state in (before, after):
            messages = render(state.items, "m")[0]
            assert messages[: max(0, len(shared) - 1)] == shared[:-1]
            assert messages[len(shared) - 1].blocks[: len(shared[-1].blocks)] == shared[-1].blocks


@pytest.mark.parametrize("window", [None, 64_000])
def test_three_hundred_turns(window: int | None) -> None:
    """W-B2: the marker stays one, and rewriting what was sent stays rare."""
    log = Log(budget(window, "test"))
    prunes = 0
    for number in range(300):
        log.prompt(f"do thing {number}")
        made = step(log)
        if isinstance(made, Proceed | HandoffFirst):
            prunes += bool(made.omissions)
            commit(log, made)
        turn(log, size=3_000)
        log.answer(Text("done")).end()
        assert sum(isinstance(item, OmissionItem) for item in log.state.items) <= 1
    assert 10 <= prunes <= 45


# --- taken back, and what does not fit ---


def test_a_part_of_a_unit_is_never_left_out() -> None:
    """The reducer keeps to it, whatever an event says."""
    log = long_log(3)
    [first, *_] = [unit for unit in message_units(log.state.items) if unit[0].message.calls]
    for units in (((first[0].seq,),), ((first[1].seq,),), ((999,),), ()):
        event = ItemsOmitted(Omission(units, OmissionReason.SNIP, 1, 1))
        after = reduce(log.state, Entry(99, 0, event))
        assert after.items == log.state.items and after.facts.anomalies == (99,)


def test_a_call_that_still_waits_is_not_left_out() -> None:
    log = Log().prompt("go").answer(ToolCall("c", "read", "{}"))
    seq = log.state.facts.last_seq
    event = ItemsOmitted(Omission(((seq,),), OmissionReason.SNIP, 1, 1))
    assert reduce(log.state, Entry(99, 0, event)).items == log.state.items
