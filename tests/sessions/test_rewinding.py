"""Rewind and redo of a real session: over compactions, over a restart, and as its clients see it."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.sessions.stage import Stage, asking, code_of, filled, next_request, prompt, said, same, until

from ullage.core.errors import UllageError
from ullage.core.events import PromptMode, SessionRewound
from ullage.core.messages import Text
from ullage.core.reduce import fold
from ullage.core.rewinding import standing
from ullage.core.views import ShownRewind
from ullage.sessions.actor import SessionActor
from ullage.sessions.searching import make_recall
from ullage.testing.model import Reply, stall


async def rewind(actor: SessionActor, name: str) -> tuple[str, ...]:
    return (await actor.rewind("r", name)).turns


def check_view(stage: Stage, actor: SessionActor) -> None:
    """Live, told and stored are one."""
    assert same(actor.state, fold(actor.log.entries()))
    told = stage.told.shown(actor.session_id)
    assert told == list(actor.history(1)), "whoever reconnects gets what was told; nobody heard of the creation"


async def test_over_a_compaction_and_a_restart(stage: Stage, root: Path) -> None:
    """T114, T128: the context is the one of then; the money is spent; a second process has the same."""
    actor = await filled(stage, root, [Reply(("three",)), Reply(("four",)), Reply(("again",))])
    epoch, first = actor.state.facts.epoch, said(list(actor.state.items)[:2])
    spent = actor.state.facts.turn_totals
    await actor.compact("k")
    compacted = actor.state.facts.epoch
    assert compacted > epoch
    await prompt(actor, "t3", "Third question.")
    paid = actor.state.facts.turn_totals
    assert paid.calls == spent.calls + 1

    answer = await actor.rewind_preview("t2")
    assert (answer.seq, answer.turns, answer.before) == (None, ("t2", "t3"), actor.occupancy.used)
    assert await rewind(actor, "t2") == ("t2", "t3")
    assert said(list(actor.state.items)) == first, "of before the compaction, and nothing of what came later"
    assert "Third question." not in said(next_request(actor).messages)
    assert "Keep the FIRST constraint." in said(next_request(actor).messages)
    assert (actor.state.facts.epoch, actor.state.facts.turn_totals) == (epoch, paid)
    assert actor.occupancy.used == answer.after
    check_view(stage, actor)

    host = await stage.restart(root)
    again = await host.open_session(actor.session_id, str(root))
    assert same(again.state, actor.state)
    assert (await again.redo("u")).turns == ("t2", "t3")
    assert again.state.facts.epoch == compacted
    assert await rewind(again, "t3/u") == ("t3",)
    await prompt(again, "t4", "Fourth question.")
    request = said(next_request(again).messages)
    assert "Fourth question." in request and "Third question." not in request
    assert same(again.state, fold(again.log.entries()))


async def test_a_client_that_reconnects_anywhere_shows_the_same(stage: Stage, root: Path) -> None:
    stage.play([Reply((f"answer {number}",)) for number in range(6)])
    actor = await stage.session(root)
    for turn in ("t1", "t2", "t3"):
        await prompt(actor, turn)
    await rewind(actor, "t2")
    await prompt(actor, "t4")
    await rewind(actor, "t4")
    await actor.redo("u")
    whole = list(actor.history())
    for seq in range(actor.synced_seq + 2):
        known = [shown for shown in whole if shown.seq < seq]
        assert [*known, *actor.history(seq)] == whole
    texts = repr(list(standing(whole)))
    assert "answer 0" in texts and "answer 3" in texts and "answer 1" not in texts
    exported = await stage.hosts[-1].export(actor.session_id)
    assert "answer 3" in exported and "answer 1" not in exported
    check_view(stage, actor)


async def test_recall_finds_nothing_that_was_taken_back(stage: Stage, root: Path) -> None:
    stage.play([Reply(("the harbour is at 4711",)), Reply(("the harbour is at 4712",))])
    actor = await stage.session(root)
    await prompt(actor, "t1")
    await prompt(actor, "t2")
    recall = make_recall(stage.ports(), lambda: actor.state)

    def found() -> list[str]:
        return sorted(hit.passage.text for hit in recall("harbour", 9, lambda: False).hits)

    assert len(found()) == 2
    await rewind(actor, "t2")
    assert found() == ["the harbour is at 4711"]
    await actor.redo("u")
    assert len(found()) == 2


async def test_a_fork_follows(stage: Stage, root: Path) -> None:
    """Behind the rewind it has what stands; before it, what was taken back lives on."""
    stage.play([Reply((f"answer {number}",)) for number in range(3)])
    actor = await stage.session(root)
    await prompt(actor, "t1")
    await prompt(actor, "t2")
    before = actor.synced_seq
    await rewind(actor, "t2")
    host = stage.hosts[-1]
    after, old = await host.fork(actor.session_id), await host.fork(actor.session_id, before)
    assert "answer 1" not in said(next_request(after).messages)
    assert "answer 1" in said(next_request(old).messages)
    with pytest.raises(UllageError) as refused:
        await after.redo("u")
    assert code_of(refused) == "nothing_to_redo"
    for fork in (after, old):
        assert same(fork.state, fold(fork.log.entries()))


async def test_what_can_not_be_now_is_refused_and_writes_nothing(stage: Stage, root: Path) -> None:
    stage.play([Reply(("one",)), stall()])
    actor = await stage.session(root)
    await prompt(actor, "t1")
    seq = actor.synced_seq
    for name, code in (("nobody", "unknown_turn"), ("t1/1/a", "unknown_turn")):
        with pytest.raises(UllageError) as refused:
            await actor.rewind("r", name)
        assert code_of(refused) == code
    with pytest.raises(UllageError) as refused:
        await actor.redo("u")
    assert code_of(refused) == "nothing_to_redo"
    assert actor.synced_seq == seq
    running = asking(actor, "t2")
    await until(lambda: bool(stage.model.open_streams))
    for ask in (actor.rewind("r", "t1"), actor.redo("u")):
        with pytest.raises(UllageError) as refused:
            await ask
        assert code_of(refused) == "turn_running"
    actor.cancel()
    await running
    assert not any(isinstance(entry.event, SessionRewound) for entry in actor.log.entries())


async def test_it_is_told_once_it_is_durable_and_the_queue_stays_held(stage: Stage, root: Path) -> None:
    stage.play([Reply(("one",)), stall(), Reply(("waited",))])
    actor = await stage.session(root)
    await prompt(actor, "t1")
    running = asking(actor, "t2")
    await until(lambda: bool(stage.model.open_streams))
    waiting = asking(actor, "w1", "Wait for me.", PromptMode.QUEUE)
    await until(lambda: bool(actor.state.facts.queue))
    actor.cancel("t2")
    await running
    await rewind(actor, "t2")
    assert isinstance(stage.told.shown()[-1].what, ShownRewind)
    assert [queued.turn_id for queued in actor.state.facts.queue] == ["w1"]
    await actor.resume_queue()
    await waiting
    assert [item.message.parts for item in actor.state.items if hasattr(item, "message")][-1] == (Text("waited"),)
