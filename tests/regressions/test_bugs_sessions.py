"""Public bugs of kinds 4, 6, 7, 11 and 12 (calls, cancelling, opening, forking, roots), in a live session."""

from __future__ import annotations

import asyncio
import os
from itertools import repeat
from pathlib import Path

import pytest
from tests.sessions.stage import (
    Stage,
    asking,
    big,
    code_of,
    log_hash,
    next_request,
    of_kind,
    prompt,
    said,
    same,
    until,
    words,
)

from ullage.context.resuming import Resuming
from ullage.core.errors import BadInput, SessionUnavailable
from ullage.core.events import (
    AnswerReceived,
    PromptMode,
    QueueHeld,
    ResultReceived,
    SessionConfigured,
    Stop,
    TurnEnded,
)
from ullage.core.messages import Text, Usage
from ullage.core.money import Price
from ullage.core.turn_state import TurnState
from ullage.sessions.actor import SessionActor
from ullage.sessions.host import Host
from ullage.testing.model import ask, call, good_summary, raw_call, say, stall

_READ = call("read", path="notes.txt")


async def _killed_in_a_tool(stage: Stage, root: Path, actor: SessionActor, number: int) -> Host:
    """A new server after one that died with open calls and a waiting prompt."""
    running, waiting = asking(actor, f"t{number}"), asking(actor, f"q{number}")
    answers = len(of_kind(actor, AnswerReceived))
    await until(lambda: len(of_kind(actor, AnswerReceived)) > answers and bool(actor.state.facts.queue))
    host = await stage.restart(root)
    await asyncio.gather(running, waiting)
    _cut_after_last(actor.log.path, b'"answer_received"')
    return host


def _cut_after_last(path: Path, word: bytes) -> None:
    lines = path.read_bytes().splitlines(keepends=True)
    last = max(number for number, line in enumerate(lines) if word in line)
    path.write_bytes(b"".join(lines[: last + 1]))


async def test_bugs_row_30_an_interrupted_turn_is_closed_and_nothing_run_again(stage: Stage, root: Path) -> None:
    """opencode#10616, T121: ten times in a row, a process dies between a call and its result."""
    stage.play(repeat(ask(_READ, call("list"))))
    actor = await stage.session(root)
    for number in range(10):
        host = await _killed_in_a_tool(stage, root, actor, number)
        asked = len(stage.model.requests)
        actor = await host.open_session(actor.session_id)
        assert len(stage.model.requests) == asked
        assert actor.state.facts.open_turn is None
        ended = of_kind(actor, TurnEnded)[-1]
        assert (ended.turn_id, ended.stop) == (f"t{number}", Stop.INTERRUPTED)
        assert [r.message.results[0].text[:16] for r in of_kind(actor, ResultReceived)[-2:]] == ["Outcome unknown:"] * 2
        assert actor.state.facts.held and of_kind(actor, QueueHeld)
        await actor.remove_prompt(f"q{number}")
    stage.play([say("On we go.")])
    assert (await prompt(actor, "last")).stop is Stop.DONE


@pytest.mark.parametrize("compacted", [False, True])
async def test_bugs_rows_17_18_64_a_restart_changes_nothing(stage: Stage, root: Path, compacted: bool) -> None:
    """qwen#3107, gemini-cli#16430, claude-code#31458: facts, items, the number, and the next request, byte for byte
    (W-C13, W-C14; and half of row 65: a provider's cache is still good)."""
    script = [ask(_READ), big(3_300, "a"), big(3_900, "b"), say("In the band.")]
    stage.play(script, [good_summary()])
    actor = await stage.session(root)
    for number in range(2):
        await prompt(actor, f"t{number}")
    if compacted:
        await actor.compact("c1")
    await prompt(actor, "t2", words(500))
    before, number, request = actor.state, actor.occupancy, next_request(actor)
    host = await stage.restart(root)
    again = await host.open_session(actor.session_id)
    assert same(again.state, before)
    assert (again.occupancy, next_request(again)) == (number, request)
    if not compacted:
        assert before.facts.handoffs == 1
        assert (await again.compact("c2")).report is not None  # the estimate is there before the first call (row 18)


async def test_bugs_row_65_a_large_idle_session_says_what_it_takes_first(stage: Stage, root: Path) -> None:
    """claude-code#43599: 0.8 of the window, two hours old: size and price are told before the first call, and nothing
    is sent until then; the other half of the row is that a restart changes no byte."""
    stage.window, stage.prices = 200_000, {"scripted": Price(3_000_000, 15_000_000, 300_000, 3_750_000)}
    stage.play([say("Read.", usage=Usage(139_000, 1_000, 140_000)), say("Hey.")])
    actor = await stage.session(root)
    await prompt(actor, "t1")
    assert not actor.resuming().large_and_idle, "not while it is in use"
    stage.at += 2 * 3_600_000
    host = await stage.restart(root)
    again = await host.open_session(actor.session_id)
    begins = again.resuming()
    assert begins == Resuming(140_000, 525_000, 7_200_000, True)
    assert len(stage.model.requests) == 1 and begins.tokens == again.occupancy.used
    await prompt(again, "t2", "hey")
    assert not again.resuming().large_and_idle


async def test_bugs_row_49_forks_of_forks_have_their_histories(stage: Stage, root: Path) -> None:
    """claude-code#25085: three right histories after a restart, and not a byte of a parent changed; S6: no grants,
    queue or handoff come along."""
    stage.play([say("One."), stall("Two")])
    actor = await stage.session(root)
    host = stage.hosts[-1]
    await prompt(actor, "t1", "First prompt.")
    running, waiting = asking(actor, "t2", "Second prompt."), asking(actor, "q1", "Queued.")
    await until(lambda: bool(actor.live()) and len(actor.state.facts.queue) == 1)
    await until(lambda: actor.synced_seq == actor.state.facts.last_seq)
    parent = log_hash(actor)
    fork = await host.fork(actor.session_id)
    assert log_hash(actor) == parent
    facts = fork.state.facts
    assert (facts.queue, facts.open_turn, facts.handoffs, facts.held) == ((), None, 0, None)
    stage.play([say("Of the fork."), say("Of its fork.")])
    await prompt(fork, "f1", "To the fork.")
    child = log_hash(fork)
    second = await host.fork(fork.session_id)
    assert log_hash(fork) == child
    await prompt(second, "g1", "To the fork's fork.")
    actor.cancel()
    await running
    states = {each.session_id: each.state for each in (actor, fork, second)}
    host = await stage.restart(root)
    await waiting
    for session_id, state in states.items():
        again = await host.open_session(session_id)
        assert same(again.state, state)
    texts = said(next_request(host.actor(second.session_id)))
    assert all(text in texts for text in ("First prompt.", "To the fork.", "Of the fork.", "To the fork's fork."))
    assert "Queued." not in texts
    assert states[second.session_id].facts.parent is not None
    assert states[second.session_id].facts.parent.session_id == fork.session_id


async def test_bugs_row_61_a_second_server_is_told_who_holds_the_session(stage: Stage, root: Path) -> None:
    """claude-code#83719: `session_busy` with the owner's pid; it may watch, and fork."""
    stage.play([say("One."), say("Two.")])
    actor = await stage.session(root)
    await prompt(actor, "t1")
    other = stage.host()
    other.add_root(str(root), trusted=True)
    with pytest.raises(SessionUnavailable) as busy:
        await other.open_session(actor.session_id)
    assert code_of(busy) == "session_busy" and dict(busy.value.report.data)["pid"] == os.getpid()
    watching = await other.open_session(actor.session_id, read_only=True)
    assert watching.read_only and list(watching.history()) == list(actor.history())
    for refused in (watching.prompt("x", [Text("x")], PromptMode.QUEUE), watching.rename("x"), watching.compact("x")):
        with pytest.raises(SessionUnavailable):
            await refused
    assert watching.dry_run().error is not None
    before = log_hash(actor)
    await other.close_session(actor.session_id)
    assert log_hash(actor) == before
    assert (await prompt(actor, "t2")).stop is Stop.DONE


async def test_bugs_row_45_another_active_root_is_refused_with_both_names(stage: Stage, root: Path) -> None:
    """codex#4791: the root is the header's, whatever is active (P9, S6)."""
    stage.play([say("One.")])
    actor = await stage.session(root)
    await prompt(actor, "t1")
    await stage.hosts[-1].close()
    elsewhere = root.parent / "elsewhere"
    elsewhere.mkdir()
    host = stage.host()
    host.add_root(str(elsewhere), trusted=True)
    for asked in (None, str(elsewhere)):
        with pytest.raises(SessionUnavailable) as refused:
            await host.open_session(actor.session_id, asked)
        assert code_of(refused) == "wrong_root"
        assert str(root) in refused.value.report.message and str(elsewhere) in refused.value.report.message
    with pytest.raises(SessionUnavailable) as unknown:
        await host.open_session("00000000-0000-7000-8000-ffffffffffff")
    assert code_of(unknown) == "unknown_session"
    with pytest.raises(BadInput):
        await host.open_session("../../x")
    assert not list(elsewhere.iterdir())


async def test_bugs_row_50_a_session_stays_in_its_own_root(stage: Stage, root: Path) -> None:
    """cline#653: with two roots open, files of the other one appear nowhere, and after a compaction neither (P10)."""
    other = root.parent / "other"
    other.mkdir()
    (other / "notes.txt").write_text("OF THE OTHER\n")
    reads = ("notes.txt", "../other/notes.txt", str(other / "notes.txt"))
    stage.play([ask(*(call("read", path=path) for path in reads)), big(3_300), say("Next.")])
    actor = await stage.session(root)
    stage.hosts[-1].add_root(str(other), trusted=True)
    theirs = await stage.hosts[-1].new_session(str(other))
    await prompt(actor, "t1")
    answer = await actor.compact("c1")
    assert answer.report is not None and answer.report.restored_files == ("notes.txt",)
    await prompt(actor, "t2")
    assert "OF THE OTHER" not in said(stage.model.requests)
    assert theirs.root != actor.root and stage.hosts[-1].newest_active(str(other)) is theirs
    assert [s.session_id for s in stage.hosts[-1].list_sessions(str(root))] == [actor.session_id]


async def test_bugs_row_34_call_ids_are_ours(stage: Stage, root: Path) -> None:
    """zed#64519: an id that is empty, absent or there twice blocks nothing."""
    ids = ("", None, "x", "x")
    stage.play([ask(*(raw_call("list", "{}", provider_id) for provider_id in ids)), say("Listed."), say("On.")])
    actor = await stage.session(root)
    assert (await prompt(actor, "t1")).stop is Stop.DONE
    closed = [result.call_id for event in of_kind(actor, ResultReceived) for result in event.message.results]
    assert sorted(closed) == ["t1/1/c0", "t1/1/c1", "t1/1/c2", "t1/1/c3"]
    assert (await prompt(actor, "t2")).stop is Stop.DONE


async def test_bugs_row_51_permissions_are_never_wider_afterwards(stage: Stage, root: Path) -> None:
    """codex#23875, S6: after a compaction, a restart, a fork and a model switch the mode is the one that was set."""
    stage.play([big(3_300), say("Two.")])
    actor = await stage.session(root, permission_mode="plan")
    await prompt(actor, "t1")
    await actor.compact("c1")
    await actor.configure(SessionConfigured(model="another"))
    host = await stage.restart(root)
    again = await host.open_session(actor.session_id)
    fork = await host.fork(again.session_id)
    modes = {each.state.facts.config.permission_mode for each in (actor, again, fork)}
    assert modes == {"plan"}


async def test_bugs_row_42_sessions_do_not_wait_for_each_other(stage: Stage, root: Path) -> None:
    """zed#50434, J11: one streams on while another one works; its text is in its log."""
    stage.play([stall("The first"), say("The second.")])
    first = await stage.session(root)
    running = asking(first, "t1")
    await until(lambda: bool(first.live()))
    second = await stage.hosts[-1].new_session(str(root))
    assert (await prompt(second, "t1")).stop is Stop.DONE
    assert first.turn.state is TurnState.CALLING
    first.cancel()
    await running
    assert of_kind(first, AnswerReceived)[0].message.text.startswith("The")
