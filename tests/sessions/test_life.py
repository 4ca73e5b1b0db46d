"""A session's life: closed, opened again, forked, held by somebody else, in the wrong place, damaged."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.sessions.stage import (
    Stage,
    asking,
    code_of,
    of_kind,
    prompt,
    said,
    same,
    until,
)

from ullage.core.errors import SessionUnavailable
from ullage.core.events import (
    DamageAccepted,
    ResultReceived,
    Stop,
    TurnEnded,
)
from ullage.core.views import ShownAnswer
from ullage.sessions.host import Host
from ullage.testing.model import ask, call, say, stall

_READ = call("read", path="notes.txt")


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


async def test_configuration_and_title_survive(stage: Stage, root: Path) -> None:
    actor = await stage.session(root, window=32_000, permission_mode="plan")
    await actor.rename("A title")
    host = await stage.restart(root)
    again = await host.open_session(actor.session_id)
    assert again.state.facts.title == "A title"
    assert (again.state.facts.config.window, again.state.facts.config.permission_mode) == (32_000, "plan")
    assert again.occupancy.budget.window == 32_000


# --- forks ---


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
