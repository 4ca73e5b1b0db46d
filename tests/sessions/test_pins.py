"""Pins in a live session: when the model is told, what a client hears, and what a restart and a fork keep."""

from __future__ import annotations

import asyncio
from itertools import pairwise
from pathlib import Path

import pytest
from tests.sessions.hands import FakeTools
from tests.sessions.stage import Stage, asking, big, kinds, of_kind, prompt, said, until, words

from ullage.core.errors import BadInput, SessionUnavailable
from ullage.core.events import PinAdded, StepStarted
from ullage.core.requests import Request
from ullage.sessions.actor import SessionActor
from ullage.testing.model import ask, call, gated, say, stall

PORT = say(f"The port is 54329. {words(1_500)}")
RULE = "Never touch the `prod` database."


def check_prefix(requests: list[Request]) -> None:
    """Each request begins with the whole one before it."""
    for before, after in pairwise(requests):
        sent = [(message.role, block) for message in before.messages for block in message.blocks]
        assert [(message.role, block) for message in after.messages for block in message.blocks][: len(sent)] == sent


async def test_a_text_reaches_the_next_request(stage: Stage, root: Path) -> None:
    """Told once, at the end of what is in view; the number that is shown counts it."""
    stage.play([say("Yes."), say("On."), say("On.")])
    actor = await stage.session(root)
    await prompt(actor, "t1")
    before = actor.occupancy.used
    pin_id = await actor.pin_text(RULE)
    assert actor.occupancy.used > before and stage.told.occupied()[-1].occupancy == actor.occupancy
    assert await actor.pin_text(RULE) == pin_id and len(of_kind(actor, PinAdded)) == 1
    await prompt(actor, "t2")
    await prompt(actor, "t3")
    assert [said(request).count(RULE) for request in stage.model.requests] == [0, 1, 1]
    check_prefix(stage.model.requests)


async def test_pinned_while_a_request_and_a_tool_are_under_way(stage: Stage, root: Path) -> None:
    """It waits for the answer and the result, and no measure of the provider is lost."""
    go, tools = asyncio.Event(), FakeTools("look")
    stage.play([ask(call("look")), gated(go, say("Half way.")), say("Done.")])
    actor = await stage.session_with(root, tools)
    turn = asking(actor, "t1")
    await until(lambda: bool(tools.started))
    await actor.pin_text(RULE)
    tools.finish("look")
    await until(lambda: len(stage.model.requests) == 2)
    await actor.pin_text("A second rule.")
    go.set()
    await turn
    await prompt(actor, "t2")
    first, second, third = stage.model.requests
    assert (said(first).count(RULE), said(second).count(RULE), said(second).count("second rule")) == (0, 1, 0)
    assert said(third).count("second rule") == 1
    check_prefix([first, second, third])


async def test_a_message_costs_nothing_until_it_is_compacted_away(stage: Stage, root: Path) -> None:
    stage.play([PORT, *[big(2_000, "f")] * 3, say("On."), say("On.")])
    actor = await stage.session(root, handoff=False)
    await prompt(actor, "t1")
    before = actor.occupancy.used
    assert await actor.pin_message("t1/1/a") == "t1/1/a"
    assert actor.occupancy.used == before
    for number in range(3):
        await prompt(actor, f"f{number}")
    await actor.compact("c1")
    await prompt(actor, "t5")
    shown = said(stage.model.requests[-1])
    assert (shown.count("54329"), shown.count("# Pinned output")) == (1, 1)
    await actor.unpin("t1/1/a")
    await actor.unpin("t1/1/a")
    assert kinds(actor).count("PinRemoved") == 1


async def test_a_message_from_before_a_compaction_is_told(stage: Stage, root: Path) -> None:
    """A client scrolls up and pins what the model no longer sees."""
    stage.play([PORT, *[big(2_000, "f")] * 3, say("On.")])
    actor = await stage.session(root, handoff=False)
    for turn in ("t1", "f1", "f2", "f3"):
        await prompt(actor, turn)
    await actor.compact("c1")
    await actor.pin_message("t1/1/a")
    await prompt(actor, "t5")
    [pin] = actor.state.facts.pins
    assert pin.text == "".join(PORT.deltas)  # whole, whatever the compaction kept of it
    shown = said(stage.model.requests[-1])
    assert "The person pinned this, to be kept in view, from an answer:" in shown and pin.text in shown


async def test_what_can_not_be_pinned(stage: Stage, root: Path) -> None:
    stage.play([say("Yes.")])
    actor = await stage.session(root)
    await prompt(actor, "t1")
    n_events = len(kinds(actor))
    for asked, code in ((actor.pin_message("t9/u"), "unknown_message"), (actor.pin_text(" "), "nothing_to_pin")):
        with pytest.raises(BadInput) as caught:
            await asked
        assert caught.value.report.code == code and caught.value.report.hint
    assert len(kinds(actor)) == n_events


async def test_clients_hear_and_restarts_and_forks_keep(stage: Stage, root: Path) -> None:
    """The updates are durable, so whoever opens later has them too; a fork from before the pin has it not."""
    stage.play([say("Yes."), say("On.")])
    actor = await stage.session(root)
    await prompt(actor, "t1")
    before = actor.state.facts.last_seq
    typed, message = await actor.pin_text(RULE), await actor.pin_message("t1/u")
    await actor.unpin(message)
    assert stage.told.what(actor.session_id)[-3:] == ["Pin", "Pin", "PinGone"]
    host = await stage.restart(root)
    actor = await host.open_session(actor.session_id)
    assert [type(shown.what).__name__ for shown in actor.history()][-3:] == ["ShownPin", "ShownPin", "ShownPinGone"]
    [(pin, tokens)] = actor.inspect().pins
    assert (pin.pin_id, pin.text, pin.typed) == (typed, RULE, True) and tokens > 0
    child = await host.fork(actor.session_id)
    assert child.state.facts.pins == actor.state.facts.pins
    await prompt(child, "t2")
    assert said(stage.model.requests[-1]).count(RULE) == 1
    assert (await host.fork(actor.session_id, before)).state.facts.pins == ()


async def test_a_pin_that_waits_outlives_a_restart(stage: Stage, root: Path) -> None:
    """Pinned in the middle of a request that never ended: told as soon as its turn is closed."""
    stage.play([stall("Half way."), say("On.")])
    actor = await stage.session(root)
    turn = asking(actor, "t1")
    await until(lambda: bool(actor.live()))
    await actor.pin_text(RULE)
    assert actor.state.facts.pins_untold
    host = await stage.restart(root)
    await turn
    actor = await host.open_session(actor.session_id)
    assert not actor.state.facts.pins_untold
    await actor.resume_queue()
    await prompt(actor, "t2")
    assert said(stage.model.requests[-1]).count(RULE) == 1


async def test_two_at_once_are_one(stage: Stage, root: Path) -> None:
    stage.play([say("Yes.")])
    actor = await stage.session(root)
    await prompt(actor, "t1")
    one, other = await asyncio.gather(actor.pin_text(RULE), actor.pin_text(RULE))
    assert one == other and len(actor.state.facts.pins) == 1


async def test_a_read_only_session_takes_none(stage: Stage, root: Path) -> None:
    actor = await stage.session(root)
    host = stage.host()
    host.add_root(str(root), trusted=True)
    watched: SessionActor = await host.open_session(actor.session_id, read_only=True)
    for asked in (watched.pin_text(RULE), watched.pin_message("t1/u"), watched.unpin("pin1")):
        with pytest.raises(SessionUnavailable):
            await asked
    assert not of_kind(watched, StepStarted)
