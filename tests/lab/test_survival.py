"""What a compaction keeps: the questions, and that ours answers all of them."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.context.histories import COUNTER
from tests.importers.recorded import FILES, counter, needs_data, session
from tests.importers.samples import ROOT, Claude, text, use

from ullage.context.assembly import assemble
from ullage.context.compaction import plan
from ullage.context.occupancy import FixedPart, budget, occupancy
from ullage.context.profiles.ullage import ULLAGE
from ullage.core.context import CompactionPlan, Reason, Replacement
from ullage.core.messages import Message
from ullage.core.ports import TokenCounter
from ullage.core.state import State
from ullage.importers.claude_code import read
from ullage.lab.script import script
from ullage.lab.survival import QUESTIONS, compactions, messages_of, survival
from ullage.lab.walk import walk

BARE = Replacement("", (), (), (), "", (), 0)


def sample(folder: str = "") -> State:
    """Twenty files edited, twenty read, twenty things said, an error."""
    made = Claude().user("Keep to tabs, please.")
    for n in range(20):
        made.answer(f"m{n}", use(f"r{n}", "Read", file_path=f"{ROOT}/{folder}lib/r{n}.py"))
        made.result(f"r{n}", f"line {n}\n" * 1_000)
        made.answer(f"w{n}", use(f"w{n}", "Write", file_path=f"{ROOT}/{folder}src/w{n}.py", content="x" * 900))
        made.result(f"w{n}", "ok").answer(f"d{n}", text(f"done {n}"), stop="end_turn").user(f"now number {n + 1}")
    made.answer("e", use("e", "Bash", command="make")).result("e", "Exit code 2\nError: no rule", is_error=True)
    return read(made.answer("z", text("It fails."), stop="end_turn").content, COUNTER).state


def compacted(state: State, most: int | None, counter: TokenCounter) -> Replacement:
    # A sample's answers report next to nothing, which would make any replacement look larger than what was there.
    now = replace(occupancy(state, 0, budget(200_000, "setting")), used=state.tokens)
    planned = plan(state, Reason.MANUAL, now, FixedPart(0, ()), ULLAGE, counter, most=most)
    assert isinstance(planned, CompactionPlan)
    return assemble(planned, state, counter, ULLAGE, (), "fence")


def lost(state: State, replacement: Replacement) -> dict[str, tuple[str, ...]]:
    return lost_of(messages_of(state), replacement)


def lost_of(source: tuple[Message, ...], replacement: Replacement) -> dict[str, tuple[str, ...]]:
    answers = dict(zip(QUESTIONS, survival(source, replacement), strict=True))
    return {question: held.lost for question, held in answers.items() if held.lost}


def test_the_questions() -> None:
    asked = [held.asked for held in survival(messages_of(sample()), BARE)]
    assert asked == [20, 20, 21, 1, 1] and len(lost(sample(), BARE)) == len(QUESTIONS)
    assert "lib/r3.py" not in lost(sample(), replace(BARE, ledger="- lib/r3.py"))["read files"]


@pytest.mark.parametrize(("most", "folder"), [(2_700, "package/core/"), (1_500, ""), (1_000, "")])
def test_nothing_is_lost_at_the_size_of_a_summary(most: int, folder: str) -> None:
    """What was touched and said, and the error, go before a tail where there is little room."""
    assert lost(sample(folder), compacted(sample(folder), most, COUNTER)) == {}


@needs_data
@pytest.mark.parametrize("name", FILES)
def test_nothing_is_lost_of_recorded_sessions(name: str) -> None:
    """Where the recording compacted, at the size of its summary; and at every compaction of ours in a small window."""
    for one in compactions(session(name).entries):
        assert lost_of(one.source, compacted(one.state, 2_700, counter())) == {}
    for one in compactions(walk(script(session(name).entries), 32_000, counter(), billing=1_250).entries):
        assert lost_of(one.source, one.replacement) == {}
