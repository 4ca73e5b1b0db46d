"""A session's life: closed, opened again, forked, held by somebody else, in the wrong place, damaged."""

from __future__ import annotations

import asyncio
import hashlib
import os
from itertools import repeat
from pathlib import Path

import pytest
from tests.sessions.stage import Stage, asking, big, of_kind, prompt, said, until, words

from ullage.core.errors import BadInput, SessionUnavailable, UllageError
from ullage.core.events import (
    AnswerReceived,
    DamageAccepted,
    PromptMode,
    QueueHeld,
    ResultReceived,
    Stop,
    TurnEnded,
)
from ullage.core.messages import Text
from ullage.core.requests import Request
from ullage.core.state import State
from ullage.core.views import ShownAnswer
from ullage.sessions.actor import SessionActor
from ullage.sessions.host import Host
from ullage.testing.model import ask, call, good_summary, say, stall

_READ = call("read", path="notes.txt")


def next_request(actor: SessionActor) -> Request:
    """What would be sent now."""
    return actor._engine.request(actor.state, actor.occupancy)


def same(after: State, before: State) -> bool:
    return after.facts == before.facts and list(after.items) == list(before.items)


def code_of(error: pytest.ExceptionInfo[UllageError]) -> str:
    return error.value.report.code


# --- closing and opening again ---


async def test_closing_ends_what_runs_and_says_so(stage: Stage, root: Path) -> None:
    """Bugs row 62: the turn is cancelled, its text kept, the queue held; nobody waits any more."""
    stage.play([stall("I had begun"), say("Later.")])
    actor = await stage.session(root)
    running, waiting = asking(actor, "t1"), asking(actor, "t2", "Then this.")
    await until(lambda: len(actor.state.facts.queue) == 1 and bool(actor.live()))
    host = await stage.restart(root)
    assert (await running).stop is Stop.CANCELLED
    gone = await waiting
    assert (gone.stop, gone.error and gone.error.code) == (None, "session_closed")
    again = await host.open_session(actor.session_id)
    assert same(again.state, actor.state)
    assert [q.turn_id for q in again.state.facts.queue] == ["t2"] and again.state.facts.held
    await again.resume_queue()
    await until(lambda: "t2" in [event.turn_id for event in of_kind(again, TurnEnded)])
    assert "Then this." in said(stage.model.requests[-1])


async def test_bugs_row_30_an_interrupted_turn_is_closed_and_nothing_run_again(stage: Stage, root: Path) -> None:
    """opencode#10616: ten times in a row, a process dies between a call and its result."""
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


@pytest.mark.parametrize("compacted", [False, True])
async def test_bugs_rows_17_18_64_a_restart_changes_nothing(stage: Stage, root: Path, compacted: bool) -> None:
    """qwen#3107, gemini-cli#16430, claude-code#31458: facts, items, the number, and the next request, byte for byte."""
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


async def test_configuration_and_title_survive(stage: Stage, root: Path) -> None:
    actor = await stage.session(root, window=32_000, permission_mode="plan")
    await actor.rename("A title")
    host = await stage.restart(root)
    again = await host.open_session(actor.session_id)
    assert again.state.facts.title == "A title"
    assert (again.state.facts.config.window, again.state.facts.config.permission_mode) == (32_000, "plan")
    assert again.occupancy.budget.window == 32_000


# --- forks ---


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
    parent = _hash(actor)
    fork = await host.fork(actor.session_id)
    assert _hash(actor) == parent
    facts = fork.state.facts
    assert (facts.queue, facts.open_turn, facts.handoffs, facts.held) == ((), None, 0, None)
    stage.play([say("Of the fork."), say("Of its fork.")])
    await prompt(fork, "f1", "To the fork.")
    child = _hash(fork)
    second = await host.fork(fork.session_id)
    assert _hash(fork) == child
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


def _hash(actor: SessionActor) -> str:
    return hashlib.sha256(actor.log.path.read_bytes()).hexdigest()


async def test_a_fork_inside_a_unit_snaps_to_its_start(stage: Stage, root: Path) -> None:
    stage.play([ask(_READ), say("Read."), say("Again.")])
    actor = await stage.session(root)
    await prompt(actor, "t1")
    entries = list(actor.log.entries())
    calls = next(entry.seq for entry in entries if type(entry.event).__name__ == "AnswerReceived")
    fork = await stage.hosts[-1].fork(actor.session_id, calls)
    assert not of_kind(fork, ResultReceived)
    assert (await prompt(fork, "f1")).stop is Stop.DONE


# --- who may open it ---


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
    before = _hash(actor)
    await other.close_session(actor.session_id)
    assert _hash(actor) == before
    assert (await prompt(actor, "t2")).stop is Stop.DONE


async def test_a_watched_session_can_be_opened_for_writing_later(stage: Stage, root: Path) -> None:
    stage.play([say("One."), say("Two.")])
    actor = await stage.session(root)
    await prompt(actor, "t1")
    other = stage.host()
    other.add_root(str(root), trusted=True)
    await other.open_session(actor.session_id, read_only=True)
    await stage.hosts[0].close()
    again = await other.open_session(actor.session_id)
    assert again.read_only is None
    assert (await prompt(again, "t2")).stop is Stop.DONE


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


async def test_an_open_session_is_not_of_another_root(stage: Stage, root: Path) -> None:
    actor = await stage.session(root)
    elsewhere = root.parent / "elsewhere"
    elsewhere.mkdir()
    stage.hosts[-1].add_root(str(elsewhere))
    with pytest.raises(SessionUnavailable) as refused:
        await stage.hosts[-1].open_session(actor.session_id, str(elsewhere))
    assert code_of(refused) == "wrong_root"


async def test_a_log_under_another_name_is_not_another_session(stage: Stage, root: Path) -> None:
    actor = await stage.session(root)
    await stage.hosts[-1].close()
    copied = "00000000-0000-7000-8000-00000000ffff"
    (actor.log.path.parent / f"{copied}.jsonl").write_bytes(actor.log.path.read_bytes())
    host = stage.host()
    host.add_root(str(root))
    with pytest.raises(SessionUnavailable) as refused:
        await host.open_session(copied)
    assert code_of(refused) == "wrong_identity"


# --- trust and roots ---


async def test_an_untrusted_root_has_no_tools_until_it_is_trusted(stage: Stage, root: Path) -> None:
    stage.play([ask(_READ), say("No."), ask(_READ), say("Yes."), ask(_READ), say("No more.")])
    host = stage.host()
    host.add_root(str(root))
    actor = await host.new_session(str(root))
    await prompt(actor, "t1")
    assert not stage.model.requests[0].tools and "not trusted" in said(stage.model.requests[1])
    host.set_trust(str(root), True)
    await prompt(actor, "t2")
    assert stage.model.requests[2].tools and "first line" in said(stage.model.requests[3])
    host.set_trust(str(root), False)
    await prompt(actor, "t3")
    assert not stage.model.requests[-1].tools
    assert [r.message.results[0].is_error for r in of_kind(actor, ResultReceived)] == [True, False, True]


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


async def test_a_workspace_that_is_gone_still_has_its_history(stage: Stage, root: Path) -> None:
    stage.play([say("One.")])
    actor = await stage.session(root)
    await prompt(actor, "t1", "Find me.")
    host: Host = await stage.restart(root)
    _rename(root, "moved")
    again = await host.open_session(actor.session_id)
    assert "Find me." in repr(list(again.history()))


def _rename(folder: Path, name: str) -> None:
    folder.rename(folder.parent / name)


# --- damage ---


async def test_damage_is_shown_and_accepted_before_anything_is_written(stage: Stage, root: Path) -> None:
    """Bugs row 20: what can be read is there; writing waits for a person."""
    stage.play([say("One."), say("Two."), say("Three.")])
    actor = await stage.session(root)
    await prompt(actor, "t1")
    await prompt(actor, "t2")
    await stage.hosts[-1].close()
    path = actor.log.path
    lines = path.read_bytes().split(b"\n")
    lines[2] = b"\0" * len(lines[2])
    path.write_bytes(b"\n".join(lines))
    before = path.read_bytes()
    host = stage.host()
    host.add_root(str(root), trusted=True)
    again = await host.open_session(actor.session_id)
    with pytest.raises(SessionUnavailable) as refused:
        await prompt(again, "t3")
    assert code_of(refused) == "session_damaged"
    assert path.read_bytes() == before
    answers = [shown.what.message.text for shown in again.history() if isinstance(shown.what, ShownAnswer)]
    assert answers == ["One.", "Two."]
    await again.accept_damage()
    assert len(of_kind(again, DamageAccepted)) == 1
    assert "Repair" in stage.told.what(actor.session_id)
    assert (await prompt(again, "t3")).stop is Stop.DONE
    assert path.read_bytes().startswith(before)
    stage.whole = False  # what was lost leaves events that do not follow


async def test_notes_of_a_session_are_not_told_under_another_id(stage: Stage, root: Path) -> None:
    stage.play([say("One.")])
    actor = await stage.session(root)
    await prompt(actor, "t1")
    assert {session_id for session_id, _ in stage.told.notices} == {actor.session_id}
