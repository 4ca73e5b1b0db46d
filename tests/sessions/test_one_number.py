"""One number, one transcript: what is shown, what decides and what is logged are the same, however long it goes on."""

from __future__ import annotations

import asyncio
from pathlib import Path

from tests.sessions.stage import (
    Stage,
    asking,
    big,
    prompt,
    said,
    until,
)

from ullage.context.handoff import HandoffState
from ullage.core.events import HandoffRecorded
from ullage.core.requests import Request
from ullage.core.views import Shown, ShownAnswer
from ullage.sessions.actor import SessionActor
from ullage.sessions.notices import Delta, Notice, Occupied, Updated
from ullage.testing.model import Reply, ask, call, good_summary, say, stall


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
            if any(shown.seq <= notice.after_seq for shown in history[len(told) :]):
                wrong.append(f"{notice} came before what it follows")
            # Told once that was durable: by then more may have been streamed, or the whole answer written.
            streamed = _streamed(stage.told.deltas(), notice.message_id)
            if any(overlay.offset != 0 or not overlay.text.startswith(streamed) for overlay in actor.live()):
                wrong.append(f"overlay {actor.live()} does not begin with {streamed!r}")
            if notice.offset != len(streamed) - len(notice.text):
                wrong.append(f"a delta at {notice.offset} of {streamed!r}")

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


async def test_a_suppressed_handoff_is_told_to_who_looks(stage: Stage, root: Path) -> None:
    """W-H3: a bad record takes the reminder away until the next compaction; an inspection says so."""
    stage.play([say("One."), say("Two.")])
    actor = await stage.session(root)
    assert actor.inspect().handoff is HandoffState.NONE
    await prompt(actor, "t1")
    actor._append((HandoffRecorded('{"version":2,"messageId":"handoff-message-of-another-version"}', 10),))
    assert actor.inspect().handoff is HandoffState.SUPPRESSED
    await prompt(actor, "t2")
    assert "token-budget-handoff" not in said(stage.model.requests[-1])
