"""Recorded sessions walked again through the engine: what must hold for every window."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.context.histories import COUNTER
from tests.importers.recorded import FILES, counter, needs_data, session
from tests.importers.samples import ROOT, Claude, claude_code, codex, lines, pi, text, use

from ullage.core.context import Occupancy, Phase
from ullage.core.events import AnswerReceived, CheckpointCommitted, CompactionFailed, Entry, SessionCreated, StepStarted
from ullage.core.ports import TokenCounter
from ullage.core.reduce import fold, resume
from ullage.core.requests import Request
from ullage.core.state import ReplacementItem, State
from ullage.importers.reading import READERS
from ullage.lab.projection import billing_of
from ullage.lab.script import Answered, Move, script
from ullage.lab.walk import Walk, walk
from ullage.storage.files import DiskFiles
from ullage.storage.log import SessionLog
from ullage.testing.validator import problems

WINDOWS = (32_000, 64_000, 128_000, 200_000, 1_000_000)


def check_walk(moves: list[Move], window: int, counter: TokenCounter, billing: int, tmp_path: Path) -> Walk:
    """Everything that must hold of a walk, whatever the recording and the window."""
    wrong: list[str] = []
    shown: list[int] = []

    def watch(request: Request, state: State, now: Occupancy) -> None:
        wrong.extend(f"request {len(shown)}: {problem}" for problem in problems(request, window))
        shown.append(now.used)
        if request.tokens != now.used:
            wrong.append(f"request {len(shown)} was decided with {request.tokens}, and {now.used} was shown")

    walked = walk(moves, window, counter, billing=billing, watch=watch)
    assert not wrong
    logged = [entry.event.occupancy for entry in walked.entries if isinstance(entry.event, StepStarted)]
    assert [now.used for now in logged] == shown == [step.occupancy.used for step in walked.steps]
    assert not [now for now in logged if now.phase is Phase.COMPACTION_DUE]
    check_compactions(walked)
    check_reload(walked, tmp_path)
    assert walked.state.facts.anomalies == ()
    return walked


def check_compactions(walked: Walk) -> None:
    """At most two attempts between two answers, and each that is committed ends below the handoff line."""
    attempts, line = 0, walked.steps[0].occupancy.budget.handoff_line
    for entry in walked.entries:
        match entry.event:
            case CheckpointCommitted(report=report):
                attempts += 1
                assert report.after < line and report.after < report.before
            case CompactionFailed():
                attempts += 1
            case AnswerReceived():
                attempts = 0
        assert attempts <= 2


def check_reload(walked: Walk, tmp_path: Path) -> None:
    """Live state = the log read again = facts of the newest checkpoint and the tail."""
    assert fold(walked.entries) == walked.state
    at = max((e.seq for e in walked.entries if isinstance(e.event, CheckpointCommitted)), default=None)
    if at is not None:
        assert fold(walked.entries[at + 1 :], resume(walked.entries[at])) == walked.state
    loaded = reloaded(walked.entries, tmp_path)
    assert loaded.items == walked.state.items and loaded.facts == walked.state.facts


def reloaded(entries: tuple[Entry, ...], tmp_path: Path) -> State:
    path = tmp_path / f"{len(list(tmp_path.iterdir()))}" / "walk.jsonl"
    created = entries[0].event
    assert isinstance(created, SessionCreated)
    log = SessionLog.create(DiskFiles(), path, created, entries[0].at)
    for entry in entries[1:]:
        assert log.append([entry.event], entry.at) == [entry]
    log.close()
    opened = SessionLog.open_readonly(DiskFiles(), path)
    opened.log.close()
    return opened.state


SAMPLES = {"claude_code": claude_code().content, "codex": lines(*codex()), "pi": lines(*pi())}


@pytest.mark.parametrize("name", SAMPLES)
def test_small_sessions_at_a_small_window(name: str, tmp_path: Path) -> None:
    moves = script(READERS[name](SAMPLES[name], COUNTER).entries)
    walked = check_walk(moves, 24_000, COUNTER, 1_250, tmp_path)
    assert len(walked.steps) == sum(isinstance(move, Answered) for move in moves)
    assert walked.failures == () and walked.skipped == 0


def test_a_long_turn_compacts_again_and_again(tmp_path: Path) -> None:
    """Sixty results of 2,500 tokens in a window of 32k: reminders, compactions, and less than half sent."""
    session = Claude().user("keep to tabs; mend everything")
    for number in range(60):
        session.answer(f"m{number}", use(f"c{number}", "Read", file_path=f"{ROOT}/f{number}.py"))
        session.result(f"c{number}", f"line {number} of it\n" * 500)
    moves = script(READERS["claude_code"](session.content, COUNTER).entries)
    walked = check_walk(moves, 32_000, COUNTER, 1_250, tmp_path)
    assert len(walked.reports) >= 2 and walked.handoffs >= 2 and walked.phases[Phase.HANDOFF_BAND] >= 2
    assert sum(step.prompt for step in walked.steps) < sum(step.endless for step in walked.steps) // 2
    [head] = [item for item in walked.state.items if isinstance(item, ReplacementItem)]
    assert "keep to tabs" in str(head.replacement.task)


def test_what_cannot_fit_ends_the_turn_and_the_walk_goes_on() -> None:
    session = Claude().user("x" * 80_000).answer("m1", use("c1", "Read")).result("c1", "y").answer("m2", text("z"))
    session.user("short").answer("m3", text("ok"), stop="end_turn")
    walked = walk(script(READERS["claude_code"](session.content, COUNTER).entries), 16_000, COUNTER)
    assert {failure.code for failure in walked.failures} and walked.skipped == 2


def _check_recorded(name: str, window: int, tmp_path: Path) -> None:
    found = session(name)
    model = next(entry.event.model for entry in found.entries if isinstance(entry.event, AnswerReceived))
    walked = check_walk(script(found.entries), window, counter(), billing_of(found.state, model), tmp_path)
    assert walked.failures == () and walked.skipped == 0
    assert len(walked.steps) == sum(isinstance(entry.event, AnswerReceived) for entry in found.entries)


@needs_data
@pytest.mark.parametrize("name", FILES)
def test_recorded_sessions_at_32k(name: str, tmp_path: Path) -> None:
    _check_recorded(name, WINDOWS[0], tmp_path)


@needs_data
@pytest.mark.slow
@pytest.mark.parametrize("window", WINDOWS[1:])
@pytest.mark.parametrize("name", FILES)
def test_recorded_sessions_at_larger_windows(name: str, window: int, tmp_path: Path) -> None:
    _check_recorded(name, window, tmp_path)


# --- prices ---


def test_the_cache_is_priced_by_what_stayed_the_same() -> None:
    """An answer and its result are new to the next request; everything before was sent already."""
    session = Claude().user("go").answer("m1", use("c1", "Read")).result("c1", "x" * 4_000)
    session.answer("m2", text("done"), stop="end_turn")
    first, second = walk(script(READERS["claude_code"](session.content, COUNTER).entries), 200_000, COUNTER).steps
    assert first.cached == 0 and first.prompt == first.endless
    assert 1_000 <= second.prompt - second.cached <= 1_050 and second.prompt - first.prompt >= 1_000
