"""A session whose log lost a line goes on as any other (bugs rows 20, 21, 23, 27).

The model sees behind the gap what a person sees; prompting, compacting and forking work.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.sessions.stage import Stage, big, next_request, prompt, said

from ullage.core.commands import CompactionOutcome
from ullage.core.events import Stop
from ullage.core.state import MessageItem
from ullage.core.views import ShownAnswer, ShownPrompt, ShownResult
from ullage.sessions.actor import SessionActor
from ullage.sessions.host import Host
from ullage.testing.model import ask, call, say


async def a_life(stage: Stage, root: Path) -> SessionActor:
    """Three turns with tools, the last one behind a compaction."""
    read = ask(call("read", path="notes.txt"), call("list"))
    stage.play([read, big(2_000, "a"), read, big(2_000, "b"), read, say("The end.")])
    actor = await stage.session(root, handoff=False)
    await prompt(actor, "t1", "The first.")
    await prompt(actor, "t2", "The second.")
    await actor.compact("c1")
    await prompt(actor, "t3", "The third.")
    return actor


def without(log: bytes, *numbers: int) -> bytes:
    lines = log.split(b"\n")
    for number in numbers:
        lines[number] = b"\0" * len(lines[number])
    return b"\n".join(lines)


def shown_messages(actor: SessionActor, after: int) -> set[str]:
    return {
        shown.what.message.message_id
        for shown in actor.history()
        if isinstance(shown.what, ShownPrompt | ShownAnswer | ShownResult) and shown.seq > after
    }


@pytest.mark.parametrize("and_the_checkpoint", [False, True])
async def test_whatever_line_is_lost_the_session_goes_on(stage: Stage, root: Path, and_the_checkpoint: bool) -> None:
    """Any line but the header, alone or with the checkpoint after which the rest would heal."""
    actor = await a_life(stage, root)
    await stage.hosts[-1].close()
    path = actor.log.path
    whole = path.read_bytes()
    lines = whole.splitlines()
    [checkpoint] = [number for number, line in enumerate(lines) if b'"checkpoint_committed"' in line]
    stage.whole = False  # what stands behind a gap is noted
    for number in range(1, len(lines)):
        path.write_bytes(without(whole, number, *([checkpoint] if and_the_checkpoint else [])))
        host = await stage.restart(root)
        await check_goes_on(stage, host, await host.open_session(actor.session_id), number)
    assert len(lines) > 20


async def check_goes_on(stage: Stage, host: Host, actor: SessionActor, number: int) -> None:
    if actor.log.damage:
        await actor.accept_damage()
    facts = actor.state.facts
    assert facts.open_turn is None and actor.read_only is None
    there = {item.message.message_id for item in actor.state.items if isinstance(item, MessageItem)}
    there |= {waiting.message.message_id for waiting in facts.queue}
    assert shown_messages(actor, facts.epoch) <= there, f"line {number}"
    for waiting in facts.queue:
        await actor.remove_prompt(waiting.turn_id)
    stage.play([say("And on."), say("In the fork.")])
    assert (await prompt(actor, "t4", "The fourth.")).stop is Stop.DONE
    assert (await actor.compact("c2")).outcome is CompactionOutcome.COMMITTED, f"line {number}"
    fork = await host.fork(actor.session_id)
    assert "The fourth." in said(next_request(fork)), f"line {number}"
    assert (await prompt(fork, "f1")).stop is Stop.DONE
