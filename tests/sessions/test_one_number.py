"""One number, one transcript: what is shown, what decides and what is logged are the same, however long it goes on."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from tests.sessions.stage import Stage, asking, big, of_kind, prompt, until, words

from ullage.core.events import CheckpointCommitted, StepStarted, Stop
from ullage.core.messages import Usage
from ullage.core.requests import Request
from ullage.core.views import Shown, ShownAnswer
from ullage.providers.measure import request_tokens
from ullage.sessions.actor import SessionActor
from ullage.sessions.notices import Delta, Notice, Occupied, Updated
from ullage.testing.model import Line, Reply, ask, call, good_summary, say, stall, think


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


def _latest(notice: Notice, shown: list[int]) -> int:
    return notice.occupancy.used if isinstance(notice, Occupied) else (shown[-1] if shown else 0)


def _last_told(stage: Stage) -> object:
    return stage.told.occupied()[-1].occupancy


async def test_each_answer_comes_after_the_number_its_step_was_decided_with(stage: Stage, root: Path) -> None:
    """Numbers are told in the order of the log."""
    newest: list[int] = []
    seen: list[int] = []

    def hear(notice: Notice) -> None:
        if isinstance(notice, Occupied):
            newest.append(notice.occupancy.used)
        elif isinstance(notice, Updated) and isinstance(notice.shown.what, ShownAnswer):
            seen.append(newest[-1])

    def line(request: Request) -> Reply:
        number = len(stage.model.requests)
        return big(1_500, f"x{number}") if number % 2 else ask(call("read", path="notes.txt"))

    stage.told.also = hear
    stage.play([line] * 60)
    actor = await stage.session(root)
    for number in range(12):
        await prompt(actor, f"t{number}")
    assert seen == [request.tokens for request in stage.model.requests]
    assert actor.state.facts.compactions > 0


# --- history and overlay (J16) ---


def _listened(stage: Stage, after: int = -1) -> list[Shown]:
    return [notice.shown for notice in stage.told.of() if isinstance(notice, Updated) and notice.shown.seq > after]


def _streamed(deltas: list[Delta], message_id: str) -> str:
    return "".join(delta.text for delta in deltas if delta.message_id == message_id)


async def test_whoever_comes_later_sees_what_an_uninterrupted_listener_saw(stage: Stage, root: Path) -> None:
    """J16, row 27: at every moment history from any seq and the overlay make up exactly what was told."""
    stage.play([ask(call("list")), say("One two three."), say("Four."), stall("Five six seven"), say("Eight.")])
    actor = await stage.session(root)
    first = len(list(actor.history()))
    wrong: list[str] = []

    def joins(notice: Notice) -> None:
        told = _listened(stage)
        history = list(actor.history())[first:]
        if history[: len(told)] != told:
            wrong.append(f"history {history} is not {told}")
        if isinstance(notice, Delta):
            [overlay] = actor.live()
            if overlay.offset != 0 or overlay.text != _streamed(stage.told.deltas(), notice.message_id):
                wrong.append(f"overlay {overlay} is not what was streamed")
            if notice.offset != len(overlay.text) - len(notice.text):
                wrong.append(f"a delta at {notice.offset} of {overlay.text!r}")

    stage.told.also = joins
    await prompt(actor, "t1")
    await prompt(actor, "t2")
    running = asking(actor, "t3")
    await until(lambda: bool(actor.live()) and actor.live()[0].text == "Five six seven")
    actor.cancel()
    await running
    assert not actor.live() and not wrong
    told = _listened(stage)
    for seq in range(told[-1].seq + 2):
        assert [shown for shown in actor.history(seq) if shown.seq >= told[0].seq] == [s for s in told if s.seq >= seq]
    host = await stage.restart(root)
    again: SessionActor = await host.open_session(actor.session_id)
    assert list(again.history())[first:] == told


async def test_a_listener_never_hears_a_seq_twice_or_out_of_order(stage: Stage, root: Path) -> None:
    stage.play([big(2_000, f"x{number}") for number in range(30)], [good_summary()] * 30)
    actor = await stage.session(root)
    asked = [asking(actor, f"t{number}") for number in range(20)]
    await asyncio.gather(*asked)
    seqs = [shown.seq for shown in _listened(stage)]
    assert seqs == sorted(set(seqs))
    assert [shown.seq for shown in actor.history()][-len(seqs) :] == seqs
