"""What meets in one session is put in order: no late word of what was cancelled, no write between a checkpoint and its
swap, nobody who waits for ever."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from tests.sessions.disks import SlowDisk
from tests.sessions.hands import FakeTools
from tests.sessions.stage import SECONDS, Stage, asking, big, events, kinds, of_kind, prompt, said, until, words

from ullage.core.commands import CompactionOutcome
from ullage.core.errors import SessionUnavailable
from ullage.core.events import CheckpointCommitted, PromptMode, ResultReceived, Stop
from ullage.core.inputs import Allowed, PromptArrived
from ullage.core.messages import Message, Role, Text
from ullage.core.reduce import fold
from ullage.core.state import State
from ullage.core.turn_state import TurnState
from ullage.core.views import ShownTurnStart
from ullage.sessions.notices import Updated
from ullage.sessions.ports import Question
from ullage.storage.lines import Damage
from ullage.testing.model import ask, call, gated, good_summary, say, stall


@pytest.fixture
async def slow(tmp_path: Path) -> Iterator[Stage]:  # type: ignore[misc]
    disk = SlowDisk(Path("/"))
    made = Stage(Path("/home"), disk)
    yield made
    disk.release()
    await made.leave()
    assert not disk.wrong


def disk_of(stage: Stage) -> SlowDisk:
    assert isinstance(stage.files, SlowDisk)
    return stage.files


# --- late words ---


async def test_a_late_answer_of_a_cancelled_turn_is_not_taken_for_the_next_ones(stage: Stage, root: Path) -> None:
    """Cancel, the next prompt, and the old answer arrive in this order (kind 6: late events of a dead turn)."""
    gate = asyncio.Event()
    stage.play([gated(gate, ask(call("read", path="notes.txt"))), say("The answer to the second.")])
    actor = await stage.session(root)
    first = asking(actor, "t1")
    await until(lambda: stage.model.open_streams == 1)

    async def cancel_and_go_on() -> Stop | None:
        actor.cancel("t1")
        return (await actor.prompt("t2", [Text("Second.")], PromptMode.QUEUE)).stop

    second = asyncio.get_running_loop().create_task(cancel_and_go_on())
    gate.set()
    assert (await first).stop is Stop.CANCELLED
    assert await second is Stop.DONE
    answers = [event for event in events(actor) if type(event).__name__ == "AnswerReceived"]
    assert [answer.message.text for answer in answers] == ["The answer to the second."]


async def test_a_late_replacement_does_not_swallow_the_prompt_after_it(stage: Stage, root: Path) -> None:
    """A compaction is cancelled in the moment its replacement is ready, and a prompt that needs one itself follows.

    The late replacement was made before that prompt, so committing it would drop what the person just said.
    """
    stage.play([big(6_000), say("Second.")])
    actor = await stage.session(root)
    await prompt(actor, "t1")
    second = Message("t2/u", Role.USER, (Text(f"KEEP THIS {words(3_000)}"),), "t2")

    def as_the_replacement_is_ready() -> str:
        if not of_kind(actor, CheckpointCommitted) and actor.turn.compacting and actor.turn.compacting.asks:
            actor.cancel("c1")
            actor._inbox.put_nowait(PromptArrived(second, PromptMode.QUEUE))
        return "fence"

    actor._effects._ports = replace(actor._effects._ports, fence=as_the_replacement_is_ready)
    assert (await actor.compact("c1")).outcome is CompactionOutcome.CANCELLED
    await until(lambda: "TurnEnded" in kinds(actor)[-1])
    assert [str(event.report.reason) for event in of_kind(actor, CheckpointCommitted)] == ["threshold"]
    assert "KEEP THIS" in said(stage.model.requests[-1])


async def test_a_tool_that_finished_as_the_cancel_came_keeps_its_result(stage: Stage, root: Path) -> None:
    """It did run, so the log must not say that it did not finish (bugs row 44)."""
    tools = FakeTools("quick", "endless")
    stage.play([ask(call("quick"), call("endless"))])
    actor = await stage.session_with(root, tools)
    running = asking(actor, "t1")
    await until(lambda: tools.started == ["quick", "endless"])
    tools.when_done("quick", lambda: actor.cancel("t1"))
    tools.finish("quick")
    assert (await running).stop is Stop.CANCELLED
    results = [event.message.results[0].text for event in of_kind(actor, ResultReceived)]
    assert results == ["quick is done", "Cancelled by the user before it finished."]


# --- between a checkpoint and its swap ---


async def test_a_rename_while_a_checkpoint_is_synced_waits_for_the_swap(slow: Stage, root: Path) -> None:
    """State in memory is the fold of the log, in the log's order."""
    slow.play([big(3_000)])
    actor = await slow.session(root)
    await prompt(actor, "t1")
    disk_of(slow).hold()
    asked = asyncio.get_running_loop().create_task(actor.compact("c1"))
    await until(lambda: CheckpointCommitted.__name__ in kinds(actor))
    renaming = asyncio.get_running_loop().create_task(actor.rename("Other"))
    for _ in range(20):
        await asyncio.sleep(0)
    disk_of(slow).release()
    assert (await asked).outcome is CompactionOutcome.COMMITTED
    await renaming
    folded = fold(actor.log.entries(), State())
    assert actor.state.facts == folded.facts
    assert list(actor.state.items) == list(folded.items)
    assert actor.state.facts.title == "Other"


# --- nobody waits for ever ---


async def damaged(stage: Stage, root: Path) -> str:
    """A session with a waiting prompt and a hole in its log, closed."""
    stage.play([stall("I")])
    actor = await stage.session(root)
    running, waiting = asking(actor, "t1"), asking(actor, "q1")
    await until(lambda: len(actor.state.facts.queue) == 1)
    await stage.hosts[-1].close()
    await asyncio.gather(running, waiting)
    lines = actor.log.path.read_bytes().split(b"\n")
    lines[2] = b"\x00" * len(lines[2])
    actor.log.path.write_bytes(b"\n".join(lines))
    return actor.session_id


@pytest.mark.parametrize("read_only", [False, True])
async def test_a_cancel_where_nothing_may_be_written_does_nothing(stage: Stage, root: Path, read_only: bool) -> None:
    session_id = await damaged(stage, root)
    host = stage.host()
    host.add_root(str(root), trusted=True)
    actor = await host.open_session(session_id, read_only=read_only)
    actor.cancel("q1")
    actor.cancel(None)
    with pytest.raises(SessionUnavailable):
        await actor.prompt("t2", [Text("x")], PromptMode.QUEUE)
    async with asyncio.timeout(SECONDS):
        await host.close_session(session_id)


async def test_an_edit_that_meets_the_closing_is_answered(slow: Stage, root: Path) -> None:
    slow.play([stall("I")])
    actor = await slow.session(root)
    running, waiting = asking(actor, "t1"), asking(actor, "q1")
    await until(lambda: len(actor.state.facts.queue) == 1 and slow.model.open_streams == 1)
    disk_of(slow).hold()
    closing = asyncio.get_running_loop().create_task(slow.hosts[-1].close())
    await until(lambda: actor.turn.state is TurnState.CLOSED)
    editing = asyncio.get_running_loop().create_task(actor.edit_prompt("q1", [Text("new")]))
    await asyncio.sleep(0)
    disk_of(slow).release()
    async with asyncio.timeout(SECONDS):
        await closing
        with pytest.raises(SessionUnavailable) as refused:
            await editing
    assert refused.value.report.code in ("session_closed", "session_read_only")
    assert {(await running).stop, (await waiting).stop} == {Stop.CANCELLED, None}


async def test_closing_never_closes_a_log_under_a_sync(slow: Stage, root: Path) -> None:
    """The sync of the last batch runs in a thread as the log is let go of (checked by the disk)."""
    slow.play([stall("I")])
    actor = await slow.session(root)
    running = asking(actor, "t1")
    await until(lambda: slow.model.open_streams == 1 and actor.synced_seq == actor.state.facts.last_seq)
    disk_of(slow).hold()
    closing = asyncio.get_running_loop().create_task(slow.hosts[-1].close())
    await until(lambda: disk_of(slow).held > 0 and actor.turn.state is TurnState.CLOSED)
    for _ in range(20):
        await asyncio.sleep(0)
    disk_of(slow).release(one=True)
    await until(lambda: closing.done() or disk_of(slow).held > 0)
    for _ in range(20):
        await asyncio.sleep(0)
    disk_of(slow).release()
    async with asyncio.timeout(SECONDS):
        await closing
    assert (await running).stop is Stop.CANCELLED
    assert not disk_of(slow).wrong


async def test_two_who_ask_under_one_id_are_both_answered(stage: Stage, root: Path) -> None:
    gate = asyncio.Event()
    stage.play([big(3_000)], [gated(gate, good_summary())])
    actor = await stage.session(root)
    await prompt(actor, "t1")
    asked = [asyncio.get_running_loop().create_task(actor.compact("c1")) for _ in range(2)]
    await until(lambda: stage.summariser is not None and stage.summariser.model.open_streams == 1)
    gate.set()
    async with asyncio.timeout(SECONDS):
        answers = await asyncio.gather(*asked)
    assert answers[0].outcome is CompactionOutcome.COMMITTED


async def test_something_that_breaks_inside_ends_the_session_with_a_typed_error(stage: Stage, root: Path) -> None:
    """A bug of ours answers everybody instead of leaving them to wait."""
    stage.play([say("Never.")])
    actor = await stage.session(root)

    def broken() -> None:
        raise RuntimeError("broken")

    actor._engine._ports = replace(actor._engine._ports, counter=broken)
    async with asyncio.timeout(SECONDS):
        outcome = await actor.prompt("t1", [Text("x")], PromptMode.QUEUE)
    assert (outcome.stop, outcome.error and outcome.error.code) == (Stop.FAILED, "internal")
    async with asyncio.timeout(SECONDS):
        await stage.hosts[-1].close()


# --- what is told, and what blocks ---


async def test_no_piece_of_an_answer_comes_before_what_it_follows(slow: Stage, root: Path) -> None:
    """The prompt's update waits for the disk, so what the model says to it waits too."""
    slow.play([stall("Streamed at once.")])
    actor = await slow.session_with(root, FakeTools())
    await until(lambda: actor.synced_seq == actor.state.facts.last_seq)
    disk_of(slow).hold()
    running = asking(actor, "t1")
    await until(lambda: bool(actor.live()) and disk_of(slow).held == 1)
    assert not slow.told.deltas() and "TurnStart" not in slow.told.what()
    disk_of(slow).release()
    await until(lambda: bool(slow.told.deltas()))
    told = slow.told.of()
    before = told[: told.index(slow.told.deltas()[0])]
    assert any(isinstance(notice, Updated) and isinstance(notice.shown.what, ShownTurnStart) for notice in before)
    actor.cancel()
    await running


async def test_accepting_damage_does_not_hold_up_other_sessions(slow: Stage, root: Path) -> None:
    """Its sync runs in a thread; whatever else is asked of that session meanwhile comes after it, in order."""
    actor = await slow.session_with(root, FakeTools())
    await actor.rename("One")
    await actor.rename("Two")
    actor._journal.log.damage = (Damage(0, 1, "made up"),)
    disk_of(slow).hold()
    accepting = asyncio.get_running_loop().create_task(actor.accept_damage())
    await until(lambda: disk_of(slow).held == 1)
    actor._journal.log.damage = ()
    renaming = asyncio.get_running_loop().create_task(actor.rename("Three"))
    await asyncio.sleep(0)
    assert not accepting.done() and actor.state.facts.title == "Two"
    disk_of(slow).release()
    await asyncio.gather(accepting, renaming)
    assert kinds(actor)[-2:] == ["DamageAccepted", "SessionRenamed"]
    assert actor.state == fold(actor.log.entries())


@pytest.mark.parametrize("changes", [True, False])
async def test_only_a_tool_that_changes_something_waits_for_the_disk(slow: Stage, root: Path, changes: bool) -> None:
    """I1: a person allowed it already; its intent is not synced, so a power cut would not know that it ran."""
    tools = FakeTools("act", changing=["act"] if changes else [], free=True)
    slow.play([ask(call("act")), say("Done.")])
    actor = await slow.session_with(root, tools, allow)
    await until(lambda: actor.synced_seq == actor.state.facts.last_seq)
    disk_of(slow).hold()
    running = asking(actor, "t1")
    await until(lambda: actor.turn.state is TurnState.RUNNING_TOOLS and not actor.turn.waiting)
    for _ in range(100):
        await asyncio.sleep(0)
    assert tools.started == ([] if changes else ["act"])
    disk_of(slow).release()
    assert (await running).stop is Stop.DONE and tools.started == ["act"]


async def allow(question: Question) -> Allowed:
    return Allowed(question.call.call_id)
