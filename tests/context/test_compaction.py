"""Planning, assembling and gating a compaction."""

from __future__ import annotations

import json
import random
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.context.histories import BIG, COUNTER, Log, bare, hard_messages, image, kept, live_log
from tests.context.test_handoff import VALID

from ullage.context.assembly import assemble
from ullage.context.compaction import Accepted, FixedPart, Rejected, gate, plan, plan_step
from ullage.context.digest import TODOS_TITLE, digest
from ullage.context.ledger import FACTS_LINE, HEADINGS, escape_headings, ledger_text, summary_of
from ullage.context.occupancy import budget, occupancy
from ullage.context.profiles.ullage import ULLAGE
from ullage.context.request import build, render
from ullage.context.summary import summary_request
from ullage.core.checkpoint import pairing_problem
from ullage.core.context import (
    Budget,
    CompactFirst,
    CompactionPlan,
    HandoffFirst,
    Impossible,
    Omission,
    OmissionReason,
    Proceed,
    Reason,
    Replacement,
    RestoredFile,
    Strategy,
    Word,
)
from ullage.core.errors import ErrorReport
from ullage.core.events import CompactionFailed, ItemsOmitted, SessionConfigured
from ullage.core.messages import (
    BlobRef,
    Op,
    Opaque,
    Reasoning,
    Role,
    Text,
    Todo,
    Todos,
    TodoStatus,
    ToolCall,
    ToolFacts,
    ToolResult,
    Usage,
)
from ullage.core.omission import message_units
from ullage.core.ports import ModelCard
from ullage.core.requests import Request
from ullage.testing.validator import problems

FIXED = FixedPart(1_000, (("system prompt", 800), ("tool read", 200)))


def planned(log: Log, reason: Reason = Reason.THRESHOLD, **options: object) -> CompactionPlan:
    made = plan_of(log, reason, **options)
    assert isinstance(made, CompactionPlan), made
    return made


def plan_of(log: Log, reason: Reason = Reason.THRESHOLD, **options: object) -> CompactionPlan | ErrorReport:
    now = occupancy(log.state, FIXED.tokens, log.budget)
    return plan(log.state, reason, now, FIXED, ULLAGE, COUNTER, **options)  # type: ignore[arg-type]


def check_code(made: CompactionPlan | ErrorReport, code: str) -> None:
    assert isinstance(made, ErrorReport)
    assert (made.code, bool(made.hint)) == (code, True)


def compact(
    log: Log, made: CompactionPlan, files: tuple[RestoredFile, ...] = (), summary: str | None = None
) -> Replacement:
    return assemble(made, log.state, COUNTER, ULLAGE, files, "fence", summary)


def check_compacts(log: Log, reason: Reason = Reason.THRESHOLD, files: tuple[RestoredFile, ...] = ()) -> Replacement:
    """Plan, assemble, gate, commit, and build the next request."""
    made = planned(log, reason)
    replacement = compact(log, made, files)
    passed = gate(made, log.state, replacement, FIXED.tokens, log.budget)
    assert isinstance(passed, Accepted), passed
    assert passed.after < made.before
    assert passed.after < log.budget.handoff_line
    log.checkpoint(replacement, made.source_seq, passed.after)
    now = occupancy(log.state, FIXED.tokens, log.budget)
    assert now.used == passed.after
    request = build(log.state, "", (), ModelCard("m", log.budget.window, "test"), 100, now).request
    assert problems(request, log.budget.window) == []
    return replacement


def tail_text(replacement: Replacement) -> str:
    return repr([part for kept in replacement.tail for part in kept.message.parts])


# --- a step ---


def due(window: int = 20_000, size: int = 60_000) -> Log:
    return Log(budget(window, "test")).prompt("x" * size)


BAND = 40_000
"""Characters that bring a window of 20,000 into its handoff band."""


@pytest.mark.parametrize(
    ("log", "expected"),
    [
        (due(size=100), Proceed),
        (due(size=BAND), HandoffFirst),
        (due(), CompactFirst),
        (Log(budget(None, "nobody")).prompt("x" * 900_000), Proceed),
        (due(size=BAND).handoff(VALID), Proceed),
        (due(size=BAND).handoff("{}"), Proceed),
        (due(size=BAND).add(SessionConfigured(handoff=False)), Proceed),
    ],
)
def test_step_plans(log: Log, expected: type) -> None:
    """Design 6.3: proceed, handoff in the band only, compaction at 80 %; an unknown phase proceeds."""
    made = plan_step(log.state, FIXED, log.budget, COUNTER)
    assert type(made) is expected
    assert made.occupancy == occupancy(log.state, FIXED.tokens, log.budget)


def test_a_handoff_never_makes_compaction_due() -> None:
    log = due(size=43_180)
    now = occupancy(log.state, FIXED.tokens, log.budget)
    assert now.phase == "handoff_band"
    assert now.used + 300 > log.budget.compaction_line
    assert isinstance(plan_step(log.state, FIXED, log.budget, COUNTER), Proceed)


def check_impossible(log: Log, code: str, fixed: FixedPart = FIXED, *, too_large: bool = False) -> None:
    made = plan_step(log.state, fixed, log.budget, COUNTER, too_large=lambda state: too_large)
    assert isinstance(made, Impossible)
    assert made.error.code == code


def test_a_fixed_part_that_fills_the_window() -> None:
    """W-P5, bugs row 1: no compaction can help, and the biggest parts are named."""
    parts = (("tool huge", 5_000), ("system prompt", 1_800), ("tool a", 150), ("tool b", 50))
    check_impossible(due(8_192, 4), "fixed_too_large", FixedPart(7_000, parts))
    now = occupancy(due().state, 12_000, budget(16_000, "test"))
    made = plan(due().state, Reason.MANUAL, now, FixedPart(12_000, parts), ULLAGE, COUNTER)
    check_code(made, "fixed_too_large")
    assert isinstance(made, ErrorReport)
    assert "tool huge 5,000, system prompt 1,800, tool a 150" in made.message


def test_automatic_compaction_can_be_off() -> None:
    log = due().add(SessionConfigured(auto_compaction=False))
    check_impossible(log, "compaction_off")
    check_impossible(due(size=8).add(SessionConfigured(auto_compaction=False)), "compaction_off", too_large=True)


def test_two_attempts_between_two_answers() -> None:
    """W-P6: failed attempts count too, and only an answer releases the guard."""
    failed = CompactionFailed(Reason.THRESHOLD, ErrorReport("x", "y"))
    log = due().add(failed)
    assert isinstance(plan_step(log.state, FIXED, log.budget, COUNTER), CompactFirst)
    log.add(failed)
    check_impossible(log, "compaction_no_progress")
    log.answer(Text("yes"))
    assert isinstance(plan_step(log.state, FIXED, log.budget, COUNTER), CompactFirst)


# --- the target ---


def reading(window: int | None, files: int, size: int = 4_000, task: str = "task") -> Log:
    log = Log(budget(window, "test")).prompt(task)
    for number in range(files):
        log.read(f"src/f{number}.py", size)
    return log


@pytest.mark.parametrize(
    ("window", "files", "size", "target"),
    [
        (1_000_000, 200, 4_000, 50_000),  # T071: the absolute cap
        (200_000, 40, 4_000, None),  # 80 % of the source
        (200_000, 3, 4_000, None),  # below 5,000 it must still be smaller than the source
        (24_000, 15, 4_000, 11_599),  # below the handoff line, fixed part included
        (None, 40, 4_000, None),
    ],
)
def test_targets(window: int | None, files: int, size: int, target: int | None) -> None:
    """Design 6.10, T060-T062, T071"""
    log = reading(window, files, size)
    made = planned(log, Reason.MANUAL)
    source = made.source_tokens
    assert made.target == (target or min(source - 1, max(5_000, source * 8 // 10)))
    check_replaces(log, made)


def check_replaces(log: Log, made: CompactionPlan) -> None:
    replacement = compact(log, made)
    assert isinstance(gate(made, log.state, replacement, FIXED.tokens, log.budget), Accepted)
    assert replacement.tokens <= made.target < made.source_tokens


def test_half_the_window() -> None:
    """T061: under the source ratio but over half the window."""
    log = reading(60_000, 60)
    log.budget = budget(60_000, "test", 1)
    assert planned(log, Reason.MANUAL).target == 30_000


def test_the_limit_that_a_provider_names() -> None:
    """W-R3: what is replayed is known to fit."""
    log = reading(200_000, 40)
    made = planned(log, Reason.OVERFLOW, limit=16_000)
    assert made.target + FIXED.tokens < 12_000 * 7 // 10
    assert isinstance(gate(made, log.state, compact(log, made), FIXED.tokens, log.budget), Accepted)


def test_the_second_attempt_is_a_fifth_smaller() -> None:
    """Bugs row 2"""
    log = reading(64_000, 60)
    first = planned(log)
    replacement = compact(log, first)
    after = FIXED.tokens + replacement.tokens
    log.checkpoint(replacement, after=after)
    assert log.state.facts.attempt_size == after
    second = planned(log)
    assert second.target + FIXED.tokens <= after * 8 // 10
    assert isinstance(gate(second, log.state, compact(log, second), FIXED.tokens, log.budget), Accepted)
    assert planned(log, Reason.MANUAL).target > second.target


def test_a_task_larger_than_the_target_raises_it() -> None:
    """T076, and it stays whole."""
    task = "do " * 80_000
    log = reading(200_000, 20, task=task)
    assert planned(log).target > 60_000
    assert check_compacts(log).task == (Word("t1/u", task),)


def test_a_task_that_leaves_no_room() -> None:
    """Design 6.10: the error names both."""
    log = reading(24_000, 8, task="do " * 20_000)
    check_code(plan_of(log), "mandatory_too_large")


def test_the_frontier_is_asked_for_when_the_band_was_jumped_over() -> None:
    """W-H1"""
    log = reading(64_000, 60)
    assert planned(log).ask_frontier
    assert not planned(log, Reason.MANUAL).ask_frontier
    assert not planned(log.handoff(VALID)).ask_frontier


# --- the gate ---


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"head_tokens": 40_000}, "insufficient_reduction"),  # T060
        ({"ledger": "x" * 17_000_000}, "checkpoint_refused"),  # W-C1
    ],
)
def test_what_the_gate_refuses(change: dict[str, object], reason: str) -> None:
    log = reading(64_000, 40)
    made = planned(log)
    good = compact(log, made)
    assert gate(made, log.state, replace(good, **change), 1_000, log.budget) == Rejected(reason)  # type: ignore[arg-type]


def test_one_token_above_the_target() -> None:
    """T060, T061: smaller than its source is not enough."""
    log = reading(64_000, 40)
    made = planned(log)
    exact = replace(bare(), head_tokens=made.target)
    assert isinstance(gate(made, log.state, exact, 0, log.budget), Accepted)
    above = replace(exact, head_tokens=made.target + 1)
    assert above.tokens < made.source_tokens
    assert gate(made, log.state, above, 0, log.budget) == Rejected("insufficient_reduction")


def test_the_gate_looks_at_the_next_request() -> None:
    log = reading(64_000, 40)
    made = planned(log)
    good = compact(log, made)
    assert gate(made, log.state, good, log.budget.handoff_line, log.budget) == Rejected("above_handoff_line")
    moved = log.add(SessionConfigured(model="other")).state
    assert gate(made, moved, good, 1_000, log.budget) == Rejected("context_changed")


def test_a_small_history_never_explodes() -> None:
    """T062"""
    log = reading(200_000, 4)
    made = planned(log)
    assert made.source_tokens < 5_000
    swollen = replace(bare(), head_tokens=made.source_tokens)
    assert gate(made, log.state, swollen, 0, log.budget) == Rejected("insufficient_reduction")


# --- the tail ---


def test_a_huge_single_message_keeps_head_and_tail() -> None:
    """T070"""
    log = Log(budget(24_000, "test")).prompt("HEAD" + "x" * 90_000 + "TAIL").end()
    replacement = check_compacts(log)
    told = repr(replacement)
    assert ("HEAD" in told, "TAIL" in told) == (True, True)


def test_the_newest_call_and_result_shrink_together() -> None:
    """T072, W-A13"""
    log = Log(budget(24_000, "test")).prompt("go")
    log.tool("write", json.dumps({"path": "a.py", "content": "A" * 50_000}), "R" * 50_000)
    (call, gave) = check_compacts(log).tail
    assert call.message.calls[0].call_id == gave.message.results[0].call_id
    arguments = json.loads(call.message.calls[0].arguments)
    assert arguments["path"] == "a.py"
    assert 1_000 < len(arguments["content"]) < 20_000
    assert 1_000 < len(gave.message.results[0].text) < 20_000


def test_one_huge_newest_unit_never_empties_the_tail() -> None:
    """W-F1: 300 KB of arguments become a digest, and older units are kept beside it."""
    log = reading(32_000, 10, 2_000)
    log.tool("write", json.dumps({"path": "big.txt", "content": "B" * 300_000}), "written")
    replacement = check_compacts(log)
    assert '"path": "big.txt"' in tail_text(replacement)
    assert "src/f9.py" in tail_text(replacement)
    assert len(replacement.tail) >= 4


@pytest.mark.parametrize(
    "arguments", ["{" * 300_000, "[" * 200_000, json.dumps(["x"] * 99_999), '{"a": NaN, "b": "' + "x" * 200_000 + '"}']
)
def test_odd_arguments_shrink_too(arguments: str) -> None:
    log = reading(32_000, 6, 2_000).tool("write", arguments, "no")
    call = check_compacts(log).tail[-2].message.calls[0]
    json.loads(call.arguments, parse_constant=pytest.fail)
    assert len(call.arguments) < 40_000


def test_a_unit_that_cannot_shrink_is_passed_over() -> None:
    log = reading(16_000, 5, 2_000)
    calls = [ToolCall(f"many{n}", "read", "{}") for n in range(1_500)]
    log.answer(*calls)
    for call in calls:
        log.result(call.call_id, "ok")
    replacement = check_compacts(log)
    assert "many0" not in tail_text(replacement)
    assert "src/f4.py" in tail_text(replacement)


def test_an_unanswered_call_is_dropped() -> None:
    """T073"""
    dead = kept(m for m in hard_messages(random.Random(0), sound=True) if m.role is Role.USER)
    log = Log().checkpoint(bare((*dead, *unanswered())))
    log.prompt("x" * 30_000).end()
    replacement = check_compacts(log, Reason.MANUAL)
    assert "nobody" not in tail_text(replacement)


def unanswered() -> tuple:  # type: ignore[type-arg]
    log = Log().prompt("hm").answer(ToolCall("nobody", "read", "{}"))
    item = log.state.items[-1]
    return kept([item.message])  # type: ignore[union-attr]


@pytest.mark.parametrize(("summary", "stays"), [(None, False), ("a ledger", True)])
def test_reasoning_and_images(summary: str | None, stays: bool) -> None:
    """T074, W-F8; with a model's summary the tail is kept as it is."""
    log = reading(200_000, 20).end().prompt("look", image(name="f"))
    log.answer(Reasoning("secret", Opaque("p", "m", '{"sig":"zzz"}')), Text("a cat"))
    made = planned(log, has_summariser=summary is not None)
    assert made.strategy is (Strategy.MODEL if summary else Strategy.DETERMINISTIC)
    replacement = compact(log.end(), made, summary=summary)
    assert ("zzz" in tail_text(replacement)) is stays
    assert ("ffff" in tail_text(replacement)) is stays
    assert "a cat" in tail_text(replacement)
    fallback = compact(log, replace(made, strategy=Strategy.MODEL))
    assert "zzz" not in tail_text(fallback)


def test_task_words_and_tail_are_disjoint() -> None:
    """T075, W-A12: also over two compactions, with steering."""
    log = Log(budget(64_000, "test"))
    for number in range(12):
        log.prompt(f"wish {number}.").read(f"a{number}.py", 9_000).answer(Text("done")).end()
    log.prompt("the task.").read("b.py", 9_000).steer("steering.").read("c.py", 40_000)
    for _ in range(2):
        replacement = check_compacts(log, Reason.MANUAL)
        told = repr((replacement.task, replacement.words, tail_text(replacement)))
        assert [told.count(f"wish {number}.") for number in range(12)] == [1] * 12
        assert (told.count("the task."), told.count("steering.")) == (1, 1)
        assert [word.text for word in replacement.task] == ["the task.", "steering."]
        log.read("d.py", 60_000)
    log.end().prompt("next.")
    log.read("e.py", 60_000)
    replacement = check_compacts(log, Reason.MANUAL)
    assert [word.text for word in replacement.task] == ["next."]
    assert {"the task.", "steering."} <= {word.text for word in replacement.words}


def test_what_was_pruned_does_not_come_back_into_a_tail() -> None:
    """W-A10: a summary tells of it; the tail has room for it and keeps its neighbours."""
    log = reading(200_000, 20)
    *_, gone, stays = [unit for unit in message_units(log.state.items) if unit[0].message.calls][:-3]
    left_out = Omission((tuple(item.seq for item in gone),), OmissionReason.SNIP, 1_000, 20)
    tail = tail_text(check_compacts(log.add(ItemsOmitted(left_out)), Reason.MANUAL))
    assert [unit[0].message.calls[0].call_id in tail for unit in (gone, stays)] == [False, True]


def test_the_task_stays_whatever_a_summary_forgot() -> None:
    """T055, W-K1: to the letter, and so does what was asked in earlier turns, though no tail reaches back to them."""
    log = Log(budget(64_000, "test")).prompt("the FIRST wish").answer(Text("done")).end().prompt("the TASK.")
    for number in range(20):
        log.read(f"a{number}.py", 9_000)
    made = planned(log, has_summariser=True)
    replacement = compact(log, made, summary="## Objective and constraints\n- nothing was asked")
    assert [word.text for word in replacement.task] == ["the TASK."]
    assert [word.text for word in replacement.words] == ["the FIRST wish"]
    assert "FIRST" not in tail_text(replacement) and "TASK" not in tail_text(replacement)


def test_words_within_their_share() -> None:
    """W-K2: Newest first; one that is too long keeps head, tail and its id."""
    log = Log(budget(64_000, "test"))
    log.prompt("old " + "o" * 200_000).end()
    for number in range(300):
        log.prompt(f"small {number} " + "s" * 300).end()
    log.prompt("LONG" + "l" * 60_000 + "GNOL").end()
    log.prompt("go").read("a.py", 60_000)
    made = planned(log, Reason.MANUAL)
    replacement = check_compacts(log, Reason.MANUAL)
    spent = sum(COUNTER.count(word.text) for word in replacement.words)
    assert spent <= made.target // 4
    newest = replacement.words[-1].text
    assert (newest[:4], newest[-4:]) == ("LONG", "GNOL")
    assert replacement.words[-1].message_id in newest
    assert not any(word.text.startswith("old") for word in replacement.words)


def test_what_came_after_the_source_is_carried_over() -> None:
    """Also the whole of a unit that reaches over the cut."""
    log = reading(64_000, 30)
    log.answer(ToolCall("open", "read", "{}"))
    made = planned(log, Reason.MANUAL)
    log.result("open", "late").read("after.py", 100_000)
    replacement = compact(log, made)
    assert pairing_problem([k.message for k in replacement.tail]) is None
    after = [item.message for item in log.state.items[-4:]]  # type: ignore[union-attr]
    assert [piece.message for piece in replacement.tail[-4:]] == after


def test_handoffs_end_with_their_epoch() -> None:
    """T043, T025, T042: stripped from replacement and summary request; the state is not touched."""
    log = reading(64_000, 30).handoff(VALID)
    before = list(log.state.items)
    made = planned(log)
    assert made.source_tokens == log.state.tokens - 300
    asked = summary_request(made, log.state, log.budget, "m", COUNTER)
    assert "handoff" not in repr((compact(log, made), asked))
    assert list(log.state.items) == before


def test_restored_files() -> None:
    """W-D1, bugs row 4: newest first, within their share, cut between lines (the door cut each to its size before)."""
    log = reading(200_000, 100, 6_000)
    files = (RestoredFile("m.py", "ok", False), RestoredFile("l.py", "line\n" * 9_000, False))
    (first, second) = compact(log, planned(log), files).files
    assert (first.text, first.cut) == ("ok", False)
    assert (second.text, second.cut) == ("line\n" * (len(second.text) // 5), True)
    assert compact(log, planned(log), (RestoredFile("f.js", "z" * 80_000, False),)).files == ()
    small = reading(24_000, 20)
    made = planned(small)
    restored = compact(small, made, tuple(RestoredFile(f"f{n}", "z y\n" * 190, False) for n in range(9))).files
    assert sum(COUNTER.count(file.text) for file in restored) <= made.target // 10
    assert [file.path for file in restored][:1] == ["f0"]


# --- digest and ledger ---


def test_the_digest_names_what_was_done() -> None:
    """W-F2, S9: paths, commands with exit codes, the newest error, the plan, the open turn; without a model."""
    log = Log().prompt("mend the tests")
    log.tool("write", "{}", "ok", facts=ToolFacts(Op.WRITE, ("src/new.py",)))
    log.read("README.md")
    log.tool("bash", "{}", "no", facts=ToolFacts(Op.RUN, (), "make test", 2, "3 failed, 9 passed"))
    log.answer(Text("I will mend test_a next."), ToolCall("c", "read", "{}"))
    text = digest(log.state, 3_000, COUNTER)
    assert [line[3:] for line in text.splitlines() if line.startswith("## ")] == list(HEADINGS)
    for told in (
        "- src/new.py",
        "- README.md",
        "`make test`: exit 2; 3 failed, 9 passed",
        "Newest error: 3 failed",
        "I will mend test_a next.",
        "Tool calls without a result: c",
        "mend the tests",
    ):
        assert told in text


@pytest.mark.parametrize("terse", [True, False])
def test_the_digest_has_the_list(terse: bool) -> None:
    """As last written, what is done last; one that was emptied is gone."""
    log = Log().prompt("go")
    todos = (Todo("looked", TodoStatus.DONE), Todo("mend\n## it", TodoStatus.ACTIVE), Todo("test", TodoStatus.PENDING))
    log.tool("todo", "{}", "ok", facts=ToolFacts(Op.OTHER, todos=Todos(todos)))
    log.tool("read", "{}", "ok", facts=ToolFacts(Op.READ, ("a.py",)))
    lines = digest(log.state, 3_000, COUNTER, terse=terse).splitlines()
    assert lines[(at := lines.index(TODOS_TITLE)) + 1 : at + 4] == ["- [>] mend ## it", "- [ ] test", "- [x] looked"]
    log.tool("todo", "{}", "ok", facts=ToolFacts(Op.OTHER, todos=Todos()))
    assert TODOS_TITLE not in digest(log.state, 3_000, COUNTER, terse=terse)


@pytest.mark.parametrize("most", [0, 100, 300, 1_000, 3_000])
def test_the_digest_keeps_to_its_cap(most: int) -> None:
    """All paths while they fit, then a count; written ones before read ones."""
    log = Log().prompt("go")
    for number in range(120):
        op = Op.WRITE if number % 2 else Op.READ
        log.tool("x", "{}", "ok", facts=ToolFacts(op, (f"src/{number}.py",)))
    text = digest(log.state, most, COUNTER)
    assert COUNTER.count(text) <= max(most, COUNTER.count(digest(log.state, 0, COUNTER)))
    told = [number for number in range(120) if f"src/{number}.py" in text]
    assert (len(told) == 120) is (most >= 1_000)
    assert ("more files" in text) is (most == 300)
    assert not any(number % 2 == 0 for number in told) or sum(number % 2 for number in told) == 60


def test_a_path_cannot_break_its_line() -> None:
    log = Log().prompt("go")
    log.tool("x", "{}", "ok", facts=ToolFacts(Op.WRITE, ("a\n## Exact next action\n- rm",)))
    assert digest(log.state, 3_000, COUNTER).count("\n## Exact next action") == 1


def test_a_models_ledger_outlives_a_compaction_without_one() -> None:
    log = reading(64_000, 40)
    made = planned(log, has_summariser=True)
    replacement = compact(log, made, summary="## Objective and constraints\n- mend it")
    assert summary_of(replacement.ledger) == "## Objective and constraints\n- mend it"
    log.checkpoint(replacement)
    for number in range(30):
        log.read(f"more{number}.py", 4_000)
    again = check_compacts(log)
    assert summary_of(again.ledger) == "## Objective and constraints\n- mend it"
    assert again.ledger.count(FACTS_LINE) == 1


def test_the_summary_request() -> None:
    """W-A1, W-A9, T046, T050: calls and arguments, heads and tails, each heading once, what the person asked."""
    log = reading(64_000, 30).tool("bash", '{"command": "make deploy ENV=stg"}', "S" * 9_000 + "exit 7")
    head = replace(bare(), ledger=ledger_text("## Exact next action\nold", "facts"), words=(Word("w", "my wish"),))
    log = Log(log.budget).checkpoint(head).prompt("go")
    log.tool("bash", '{"command": "make deploy ENV=stg"}', "S" * 90_000 + "exit 7").answer(Text("x"), image())
    made = replace(planned(log), instructions="mind the database")
    asked = summary_request(made, log.state, log.budget, "m", COUNTER)
    assert problems(asked, log.budget.window) == []
    text = asked.messages[0].blocks[0].text  # type: ignore[union-attr]
    for told in ("make deploy ENV=stg", "exit 7", "my wish", "mind the database", "frontier", "image/png image"):
        assert told in text
    assert [text.count(heading) for heading in HEADINGS] == [1] * 7
    assert escape_headings("Exact next action") in text


@pytest.mark.parametrize("window", [8_000, 16_000, 64_000])
def test_the_summary_request_fits(window: int) -> None:
    """Bugs row 3: a history larger than the window is cut at unit borders, the oldest first."""
    log = reading(200_000, 100, 4_000)
    made = planned(log)
    asked = summary_request(made, log.state, budget(window, "test"), "m", COUNTER)
    assert problems(asked, window) == []
    assert asked.tokens > window // 4
    assert ("src/f99.py" in repr(asked), "src/f0.py" in repr(asked)) == (True, False)


# --- properties ---


def check_survives(log: Log, cut: int) -> None:
    """Compact at a cut, add a late result where one is due, and build."""
    replay = Log(log.budget)
    for entry in log.entries[1:cut]:
        replay.add(entry.event)
    made = plan_of(replay, Reason.MANUAL)
    if isinstance(made, CompactionPlan):
        later = [entry.event for entry in log.entries[cut : cut + 2]]
        replacement = compact(replay, made)
        passed = gate(made, replay.state, replacement, FIXED.tokens, replay.budget)
        assert isinstance(passed, Accepted), passed
        replay.checkpoint(replacement)
        for event in later:
            replay.strict = False
            replay.add(event)
    messages, _ = render(replay.state.items, "m")
    assert problems(Request("m", "", (), tuple(messages), 1, 1)) == []


def test_a_cut_at_every_index() -> None:
    """Bugs row 31: 12 turns with parallel calls; also where the result comes after the compaction."""
    log = live_log(random.Random(12), 12, budget(64_000, "test"), 1_500)
    for cut in range(20, len(log.entries), 3):
        check_survives(log, cut)


def test_hard_histories_after_compaction() -> None:
    """B31: whatever stands in a checkpoint's tail, the next compaction and the next request are valid."""
    compacted = 0
    for seed in range(600):
        rng = random.Random(seed)
        tail = kept(hard_messages(rng, sound=True))
        log = Log(BIG).checkpoint(bare(tail))
        log.prompt("x" * 4_000).read("a.py", 4_000)
        made = plan_of(log, Reason.MANUAL)
        if isinstance(made, CompactionPlan):
            compacted += 1
            check_compacts(log, Reason.MANUAL)
        messages, _ = render(log.state.items, "m")
        assert problems(Request("m", "", (), tuple(messages), 1, 1)) == []
    assert compacted > 300


@settings(max_examples=120, derandomize=True, deadline=None)
@given(st.integers(0, 10**6), st.sampled_from([16_000, 32_000, 64_000, 200_000, None]))
def test_gate_and_progress(seed: int, window: int | None) -> None:
    """Never a replacement as large as its source; below the handoff line; the same inputs give the same result."""
    rng = random.Random(seed)
    divided: Budget = budget(window, "test")
    log = live_log(rng, rng.randrange(1, 10), divided, rng.choice((300, 3_000, 9_000)))
    made = plan_of(log, Reason.MANUAL)
    if isinstance(made, ErrorReport):
        assert made.code == "nothing_to_gain"
        return
    replacement = compact(log, made)
    assert replacement == compact(log, made)
    assert replacement.tokens <= made.target < made.source_tokens
    assert isinstance(gate(made, log.state, replacement, FIXED.tokens, divided), Accepted)
    used = {file.path for file in log.state.facts.files}
    if made.target * ULLAGE.shares.digest // 100 > 8 * len(used) + 300:
        assert [path for path in used if path not in replacement.ledger] == []


def test_a_compaction_never_raises_the_meter() -> None:
    """Bugs row 15: also where the provider measured less than we estimate."""
    log = reading(64_000, 40).answer(Text("x"), usage=Usage(prompt=30_000, completion=1))
    assert log.state.facts.baseline is not None
    check_compacts(log)
    assert log.state.facts.baseline is None


def test_results_keep_their_reference_when_shortened() -> None:
    log = reading(32_000, 4).answer(ToolCall("big", "bash", "{}"))
    log.result("big", "x" * 90_000, full=BlobRef("ab" * 32, 90_000))
    gave = check_compacts(log).tail[-1].message.parts[0]
    assert isinstance(gave, ToolResult)
    assert f"read_output {'ab' * 32} has all of it" in gave.text
