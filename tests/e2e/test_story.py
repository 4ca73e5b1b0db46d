"""The main job over stdio: a window that fills, a reminder nobody sees, a compaction, a fork, a crash, and back."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.e2e.editor import NEEDLES, Editor, check_forks, entries, handoffs, hidden_in, serving

from ullage.editors.methods import SESSION_UPDATE

pytestmark = pytest.mark.asyncio(loop_scope="session")

WINDOW = 16_000


def fill(workspace: Path) -> None:
    """Files of some 500 tokens each: more than the window holds, in steps that do not jump over the band."""
    for number in range(36):
        lines = "\n".join(f"def function_{number}_{line}(argument): return argument" for line in range(24))
        (workspace / f"module_{number:02}.py").write_text(f"# TODO: {number}\n{lines}\n", encoding="utf-8")


def frames(editor: Editor, session_id: str) -> dict[int, bytes]:
    """Durable updates, as bytes, by seq."""
    both = zip(editor.bodies, editor.messages, strict=True)
    told = [(body, message["params"]) for body, message in both if message.get("method") == SESSION_UPDATE]
    mine = [(body, params) for body, params in told if params["sessionId"] == session_id]
    return {params["seq"]: body for body, params in mine if params["seq"] is not None}


async def explore(home: Path) -> tuple[str, dict[int, bytes]]:
    """The explorer reads until its context was reminded and compacted; a fork goes on by itself."""
    async with serving(home, window=WINDOW) as editor:
        one = await editor.new(title="The story")
        ended = await editor.ask("session/prompt", one, text="Explore this folder and report.", turnId="t1")
        assert (ended["stop"], ended["error"]) == ("done", None)
        told = [each["update"] for each in editor.updates(one)]
        prompts = [each["usage"]["prompt"] for each in told if each["kind"] == "answer"]
        assert max(prompts) <= WINDOW
        assert "handoff_band" in editor.phases(one) and editor.compactions(one)[-1] == "committed"
        occupied = editor.told("ullage/context/occupancy", one)
        assert max(each["hidden"] for each in occupied) > 0, "the reminder is told as a figure"

        fork = (await editor.ask("session/fork", one))["sessionId"]
        assert (await editor.ask("session/prompt", fork, text="Go on from here.", turnId="f1"))["stop"] == "done"
        await editor.search_everything()
        return one, frames(editor, one)


async def crash(home: Path, one: str) -> dict[int, bytes]:
    """Turn t2 is being answered and t3 waits when the server is killed."""
    async with serving(home, [{"stall": "in the middle"}], window=WINDOW) as editor:
        await editor.ask("session/open", one)
        for turn in ("t2", "t3"):
            editor.start("ullage/session/prompt", {"sessionId": one, "text": f"Now {turn}.", "turnId": turn})
        await editor.update(one, "prompt", turnId="t3")
        await editor.update(one, "delta")
        await editor.kill()
        return frames(editor, one)


async def test_from_a_full_window_through_a_crash_and_back(home: Path) -> None:
    fill(home.parent / "workspace")
    one, explored = await explore(home)
    told = await crash(home, one)
    assert {seq: told[seq] for seq in explored} == explored, "another process tells the same bytes"

    async with serving(home, [{"say": "Here I am."}], window=WINDOW) as editor:
        cut = sorted(explored)[-3]
        opened = await editor.ask("session/open", one, fromSeq=cut)
        again = frames(editor, one)
        assert min(again) == cut
        assert {seq: body for seq, body in again.items() if seq in told} == {
            seq: body for seq, body in told.items() if seq >= cut
        }
        await editor.update(one, "turnEnded", turnId="t2", stop="interrupted")
        assert opened["held"] and opened["waitingTurns"] == ["t3"]
        await editor.ask("queue/resume", one)
        await editor.update(one, "turnEnded", turnId="t3", stop="done")

    assert handoffs(home), "the canary had something to find"
    logs = [path.read_bytes() for path in entries(home)]
    assert set(hidden_in(logs, home)) >= {each.message_id for each in handoffs(home)}


async def test_the_canary_sings(home: Path) -> None:
    """Each needle is found raw, in JSON, and in JSON within JSON."""
    for needle in NEEDLES:
        for text in (needle, json.dumps({"a": needle}), json.dumps(json.dumps([needle]))):
            assert needle in hidden_in([text.encode()], home)
    check_forks(home)
