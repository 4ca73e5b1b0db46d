"""The main job over stdio: a window that fills, a reminder nobody sees, a compaction, a fork, a crash, and back.

The session is begun in VS Code, its server is killed under Neovim, and Emacs goes on with it.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import pytest_asyncio
from tests.e2e.conftest import make_workspace
from tests.e2e.editor import NEEDLES, Editor, Params, check_forks, entries, handoffs, hidden_in, serving

from ullage.editors.methods import SESSION_UPDATE

pytestmark = pytest.mark.asyncio(loop_scope="session")

WINDOW = 16_000


def fill(workspace: Path) -> None:
    """Files of some 500 tokens each: more than the window holds, in steps that do not jump over the band."""
    for number in range(24):
        lines = "\n".join(f"def function_{number}_{line}(argument): return argument" for line in range(24))
        (workspace / f"module_{number:02}.py").write_text(f"# TODO: {number}\n{lines}\n", encoding="utf-8")


def frames(editor: Editor, session_id: str, after: int = 0) -> list[tuple[int, bytes]]:
    """Durable updates with their seqs, as bytes; `after` so many messages."""
    both = zip(editor.bodies[after:], editor.messages[after:], strict=True)
    told = [(message["params"], body) for body, message in both if message.get("method") == SESSION_UPDATE]
    return [
        (params["seq"], body)
        for params, body in told
        if params["sessionId"] == session_id and params["seq"] is not None
    ]


@dataclass(frozen=True)
class Story:
    """A session after all that; `before` and `at_kill` are what the first two editors had been told."""

    home: Path
    session_id: str
    editor: Editor
    reopened: Params
    before: list[tuple[int, bytes]]
    at_kill: list[tuple[int, bytes]]


async def explore(home: Path) -> tuple[str, list[tuple[int, bytes]]]:
    """The explorer reads until its context was reminded and compacted; a fork goes on by itself."""
    async with serving(home, window=WINDOW) as editor:
        one = await editor.new(title="The story")
        ended = await editor.ask("session/prompt", one, text="Explore this folder and report.", turnId="t1")
        assert (ended["stop"], ended["error"]) == ("done", None)
        answers = [each["update"] for each in editor.updates(one) if each["update"]["kind"] == "answer"]
        assert max(answer["usage"]["prompt"] for answer in answers) <= WINDOW
        assert "handoff_band" in editor.phases(one) and editor.compactions(one)[-1] == "committed"
        hidden = [each["hidden"] for each in editor.told("ullage/context/occupancy", one)]
        assert max(hidden) > 0, "the reminder is told as a figure"

        fork = (await editor.ask("session/fork", one))["sessionId"]
        assert (await editor.ask("session/prompt", fork, text="Go on from here.", turnId="f1"))["stop"] == "done"
        return one, frames(editor, one)


async def crash(home: Path, one: str) -> list[tuple[int, bytes]]:
    """Turn t2 is being answered and t3 waits when the server is killed."""
    async with serving(home, [{"stall": "in the middle"}], WINDOW, "neovim@v0.11.0") as editor:
        await editor.ask("session/open", one)
        for turn in ("t2", "t3"):
            editor.start("ullage/session/prompt", {"sessionId": one, "text": f"Now {turn}.", "turnId": turn})
        await editor.update(one, "prompt", turnId="t3")
        await editor.update(one, "delta")
        await editor.kill()
        return frames(editor, one)


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def story(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Story]:
    home = tmp_path_factory.mktemp("story") / "home"
    fill(make_workspace(home.parent))
    one, before = await explore(home)
    at_kill = await crash(home, one)
    async with serving(home, [{"say": "Here I am."}], WINDOW, "emacs@v29.1") as editor:
        reopened = await editor.ask("session/open", one)
        yield Story(home, one, editor, reopened, before, at_kill)


async def test_other_processes_tell_the_same_bytes(story: Story) -> None:
    """Nothing that was told is lost or told differently: not after a good end, not after SIGKILL."""
    assert story.at_kill[: len(story.before)] == story.before
    assert frames(story.editor, story.session_id)[: len(story.at_kill)] == story.at_kill


async def test_the_turn_that_was_killed_is_closed_and_the_queue_waits_for_a_person(story: Story) -> None:
    editor, one = story.editor, story.session_id
    await editor.update(one, "turnEnded", turnId="t2", stop="interrupted")
    assert story.reopened["held"] and story.reopened["waitingTurns"] == ["t3"]
    await editor.ask("queue/resume", one)
    await editor.update(one, "turnEnded", turnId="t3", stop="done")


async def test_from_every_cut_the_transcript_is_whole(story: Story) -> None:
    """J16, W-C10, T040: who comes back from any seq on has, byte for byte, what one had that was never away."""
    editor, one = story.editor, story.session_id
    exported = (await editor.ask("session/export", one, format="jsonl"))["text"].splitlines()
    whole = [(update["seq"], update) for update in map(json.loads, exported)]
    for cut in (*range(0, whole[-1][0] + 2, 3), 10_000):
        came = len(editor.bodies)
        await editor.ask("session/open", one, fromSeq=cut)
        missed = frames(editor, one, came)
        had = [(seq, body) for seq, body in story.at_kill if seq < cut]
        assert [seq for seq, _ in missed] == [seq for seq, _ in whole if seq >= cut]
        together = [json.loads(body)["params"] for _, body in (*had, *missed)]
        assert together == [update for seq, update in whole if seq >= cut or seq <= story.at_kill[-1][0]]
        assert {*missed} >= {(seq, body) for seq, body in story.at_kill if seq >= cut}


async def test_what_was_kept_from_every_frame_is_in_the_log(story: Story) -> None:
    """The canary had something to find, in a session that has a fork."""
    logs = [path.read_bytes() for path in entries(story.home)]
    assert len(logs) == 2 and handoffs(story.home)
    assert {*hidden_in(logs, story.home)} >= {each.message_id for each in handoffs(story.home)}
    check_forks(story.home)


@pytest.mark.parametrize("needle", NEEDLES)
async def test_the_canary_sees_through_json(home: Path, needle: str) -> None:
    """Raw, in JSON, and in JSON within JSON, as an export's lines are."""
    for text in (needle, json.dumps({"a": needle}), json.dumps(json.dumps([needle]))):
        assert needle in hidden_in([text.encode()], home)
