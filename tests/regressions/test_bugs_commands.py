"""Cancelling and long-running commands (kind 6) and huge output (kind 10), in a session with real processes."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from tests.sessions.stage import Stage, asking, of_kind, prompt, until
from tests.workspace.running import lives

from ullage.core.events import ResultReceived, Stop
from ullage.core.inputs import Allowed, Denied
from ullage.core.messages import ToolResult
from ullage.sessions.actor import SessionActor
from ullage.sessions.notices import DeltaKind
from ullage.sessions.ports import Question
from ullage.testing.model import ask, call, say, stall

FOR_EVER = "while :; do sleep 60; done"
CANCELLED_S = 3.0
"""Row 39's promise, from the cancel to the turn's end."""


async def allow(question: Question) -> Allowed | Denied:
    return Allowed(question.call.call_id)


async def session(stage: Stage, root: Path, *, name: str | None = None) -> SessionActor:
    """A session whose person allows everything; with a name, the one that was there before."""
    host = stage.host()
    host.ask = allow
    host.add_root(str(root), trusted=True)
    return await (host.new_session(str(root)) if name is None else host.open_session(name))


def results(actor: SessionActor) -> list[ToolResult]:
    return [result for event in of_kind(actor, ResultReceived) for result in event.message.results]


@pytest.mark.parametrize(
    "command", [f"trap '' TERM INT; echo $$ > pid; {FOR_EVER}", f"echo $$ > pid; {FOR_EVER} & wait"]
)
async def test_bugs_row_39_a_trapped_signal_keeps_no_turn_busy(stage: Stage, root: Path, command: str) -> None:
    stage.play([ask(call("bash", command=command)), say("On.")])
    actor = await session(stage, root)
    turn, pid = asking(actor, "t1"), root / "pid"
    await until(lambda: pid.exists() and pid.read_text().endswith("\n"))
    began = time.monotonic()
    actor.cancel("t1")
    assert (await turn).stop is Stop.CANCELLED
    assert time.monotonic() - began < CANCELLED_S and not lives(int(pid.read_text()))
    assert (await prompt(actor, "t2")).stop is Stop.DONE


async def test_bugs_row_40_the_limit_is_for_the_call_whatever_children_do(stage: Stage, root: Path) -> None:
    """`sleep 600 & echo up`: the call ends at once with what was printed; what is left is a listed job, which ends with
    the session."""
    stage.play([ask(call("bash", command=f"({FOR_EVER}) & echo up; echo $! > pid", timeout=60)), say("Done.")])
    actor = await session(stage, root)
    assert (await prompt(actor, "t1")).stop is Stop.DONE
    [result] = results(actor)
    pid = int((root / "pid").read_text())
    assert result.text.startswith("up\n[it left running as job-1") and str(pid) in result.text and lives(pid)
    await stage.hosts[-1].close()
    assert not lives(pid)


async def test_bugs_row_44_a_finished_command_is_never_run_again(stage: Stage, root: Path) -> None:
    stage.play([ask(call("bash", command="echo a >> f")), stall("thinking"), say("Done.")])
    actor = await session(stage, root)
    turn = asking(actor, "t1")
    await until(lambda: any(delta.kind is DeltaKind.TEXT for delta in stage.told.deltas()))
    actor.cancel("t1")
    assert (await turn).stop is Stop.CANCELLED
    await stage.hosts[-1].close()
    again = await session(stage, root, name=actor.session_id)
    assert (await prompt(again, "t2")).stop is Stop.DONE
    assert (root / "f").read_text() == "a\n"
    assert [result.facts.exit_code for result in results(again)] == [0]


async def test_bugs_row_44_a_command_that_fails_leaves_a_way_out(stage: Stage, root: Path) -> None:
    stage.play([ask(call("bash", command="no-such-program")), say("I see.")])
    actor = await session(stage, root)
    assert (await prompt(actor, "t1")).stop is Stop.DONE
    [result] = results(actor)
    assert (result.is_error, result.facts.exit_code) == (True, 127)


async def test_bugs_row_59_two_hundred_megabytes_of_output(stage: Stage, root: Path) -> None:
    """The model sees a bounded part that names what is stored, and nobody is told more than 64 KiB at once."""
    stage.play([ask(call("bash", command="head -c 200000000 /dev/zero | tr '\\0' a; exit 3")), say("Much.")])
    actor = await session(stage, root)
    assert (await prompt(actor, "t1")).stop is Stop.DONE
    [result] = results(actor)
    assert result.full is not None and result.full.size == 64 * 1024 * 1024
    assert result.full.sha256 in result.text and result.text.endswith("[exit code 3]") and len(result.text) < 64 * 1024
    assert all(len(delta.text) < 64 * 1024 for delta in stage.told.deltas())


async def test_what_a_command_prints_is_told_to_who_comes_later(stage: Stage, root: Path) -> None:
    """The newest of it, for the call; nothing once the result is there."""
    stage.play([ask(call("bash", command="echo one; until [ -e go ]; do sleep 0.01; done")), say("Done.")])
    actor = await session(stage, root)
    turn = asking(actor, "t1")
    await until(lambda: bool(actor.live()))
    [live] = actor.live()
    assert (live.message_id, live.call_id, live.kind) == ("t1/1/a", "t1/1/c0", DeltaKind.OUTPUT)
    assert (live.offset, live.text) == (0, "one\n")
    (root / "go").touch()
    assert (await turn).stop is Stop.DONE and actor.live() == ()
