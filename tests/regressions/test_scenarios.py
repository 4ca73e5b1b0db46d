"""Scenarios and weak points of context management (T and W numbers) that only a whole, live session shows."""

from __future__ import annotations

import asyncio
import errno
import logging
from dataclasses import replace
from pathlib import Path

import pytest
from tests.sessions.stage import WINDOW, Stage, asking, big, code_of, filled, kinds, of_kind, prompt, said, until, words

from ullage.context.handoff import TAG
from ullage.core.commands import CompactionOutcome
from ullage.core.context import Measured, Reason, Strategy
from ullage.core.errors import BadInput, SessionUnavailable
from ullage.core.events import (
    CheckpointCommitted,
    CompactionFailed,
    HandoffRecorded,
    PromptMode,
    Stop,
)
from ullage.core.messages import Image, Text, Usage
from ullage.core.turn_state import TurnState
from ullage.sessions.actor import SessionActor
from ullage.sessions.notices import Updated
from ullage.storage.blobs import BlobStore
from ullage.storage.files import DiskFiles
from ullage.storage.ids import workspace_key
from ullage.testing.model import Line, Reply, ask, call, fail, good_summary, overflow, say, stall


async def at_the_band(stage: Stage, root: Path, script: list[Line]) -> SessionActor:
    """The next prompt of 400 tokens stands in the handoff band."""
    stage.play([big(3_800, "a"), big(3_600, "b"), *script])
    actor = await stage.session(root)
    await prompt(actor, "t1")
    await prompt(actor, "t2")
    return actor


@pytest.mark.parametrize("first", [fail(500, "overloaded"), Reply(), say("No usage.", usage=Usage())])
async def test_a_step_that_gave_nothing_does_not_write_the_handoff_again(stage: Stage, root: Path, first: Line) -> None:
    """T035, T036: a failure before the stream, an answer without a piece, one without usage."""
    actor = await at_the_band(stage, root, [first, say("Now."), say("And on.")])
    for number in range(3):
        await prompt(actor, f"p{number}", words(400 if number == 0 else 10))
    assert len(of_kind(actor, HandoffRecorded)) == 1
    assert [said(request).count(TAG) for request in stage.model.requests[2:]] == [1, 1, 1]


async def test_prompts_that_race_in_the_band_write_one_handoff(stage: Stage, root: Path) -> None:
    """T026: one event and one identity, whoever was first."""
    actor = await at_the_band(stage, root, [say(f"Answer {number}.") for number in range(3)])
    asked = [asking(actor, f"p{number}", words(400 if number == 0 else 10)) for number in range(3)]
    assert [(await one).stop for one in asked] == [Stop.DONE] * 3
    assert len(of_kind(actor, HandoffRecorded)) == len(stage.records()) == 1


async def test_a_new_process_guards_its_first_request(stage: Stage, root: Path) -> None:
    """T100, W-P7: nothing was answered in this process yet; the number is there, and it compacts before it sends."""
    actor = await filled(stage, root, [])
    host = await stage.restart(root)
    stage.play([say("After.")])
    again = await host.open_session(actor.session_id)
    assert (await prompt(again, "t3", words(2_500))).stop is Stop.DONE
    assert kinds(again)[-4:] == ["CheckpointCommitted", "StepStarted", "AnswerReceived", "TurnEnded"]
    [request] = stage.model.requests
    assert request.tokens < again.occupancy.budget.handoff_line


async def test_a_recovery_whose_samples_fail_is_a_checkpoint_all_the_same(stage: Stage, root: Path) -> None:
    """T081: the fallback is durable before the request goes out again."""
    actor = await filled(stage, root, [overflow(7_000), say("It fits.")], [fail(500)] * 3)
    assert (await prompt(actor, "t3", "Go.")).stop is Stop.DONE
    [checkpoint] = of_kind(actor, CheckpointCommitted)
    assert (checkpoint.report.reason, checkpoint.report.strategy) == (Reason.OVERFLOW, Strategy.FALLBACK)


@pytest.mark.parametrize("limit", [900, None])
async def test_a_recovery_that_can_drop_nothing_replays_nothing(stage: Stage, root: Path, limit: int | None) -> None:
    """T084: the turn ends with an error; the request is not sent a second time as it was."""
    stage.play([overflow(limit), say("Never.")])
    actor = await stage.session(root)
    outcome = await prompt(actor, "t1", "Hi.")
    assert (outcome.stop, outcome.error and outcome.error.code) == (Stop.FAILED, "context_overflow")
    assert len(stage.model.requests) == 1 and not of_kind(actor, CheckpointCommitted)
    assert actor.turn.state is TurnState.IDLE


async def test_after_a_recovery_no_second_compaction_follows(stage: Stage, root: Path) -> None:
    """W-P8: what was measured before it is forgotten, however large it was."""
    huge = Usage(9_520, 10, 9_530)
    stage.play([big(3_300, "a"), replace(big(3_300, "b"), usage=huge), overflow(7_000), say("It fits."), say("On.")])
    actor = await stage.session(root, handoff=False)
    for number in range(2):
        await prompt(actor, f"t{number}")
    assert actor.occupancy.source is not Measured.ESTIMATE and actor.occupancy.used > 9_500
    for number in range(2, 4):
        assert (await prompt(actor, f"t{number}", "Go.")).stop is Stop.DONE
    assert len(of_kind(actor, CheckpointCommitted)) == 1
    assert stage.model.requests[3].tokens < 7_000


@pytest.mark.parametrize("summaries", [None, [good_summary()]])
async def test_people_see_everything_and_the_model_the_replacement(
    stage: Stage, root: Path, summaries: list[Line] | None
) -> None:
    """T115, T116, W-P9: history stays whole; the checkpoint says why, who, and both figures on one basis."""
    actor = await filled(stage, root, [say("Next.")], summaries)
    before, shown = actor.occupancy, list(actor.history())
    answer = await actor.compact("c1")
    [checkpoint] = of_kind(actor, CheckpointCommitted)
    report = checkpoint.report
    assert answer.report == report and checkpoint.version == 1
    assert (report.reason, report.strategy) == (
        Reason.MANUAL,
        Strategy.MODEL if summaries else Strategy.DETERMINISTIC,
    )
    assert (report.before, report.after) == (before.used, actor.occupancy.used)
    assert list(actor.history())[: len(shown)] == shown
    await prompt(actor, "t3")
    last = "a00500"
    assert last in said(list(actor.history())) and last not in said(stage.model.requests[-1])


async def test_pieces_have_no_numbers_and_are_never_logged(stage: Stage, root: Path) -> None:
    """T118, T108, T110, T039: what is logged is counted without a gap, over a restart too; hidden events leave gaps in
    what is told, and a piece takes none."""
    actor = await at_the_band(stage, root, [ask(call("list"), call("read", path="notes.txt")), say("In the band.")])
    await prompt(actor, "t3", words(400))
    host = await stage.restart(root)
    stage.play([say("One two three.")])
    actor = await host.open_session(actor.session_id)
    await prompt(actor, "t4")
    assert [entry.seq for entry in actor.log.entries()] == list(range(actor.log.next_seq))
    told = [notice.shown.seq for notice in stage.told.of() if isinstance(notice, Updated)]
    assert told == sorted(set(told)) and len(told) < actor.log.next_seq
    hidden = [entry.seq for entry in actor.log.entries() if isinstance(entry.event, HandoffRecorded)]
    assert len(hidden) == 1 and not set(hidden) & set(told)
    assert stage.told.deltas() and max(delta.after_seq for delta in stage.told.deltas()) < actor.log.next_seq
    assert not [kind for kind in kinds(actor) if "Delta" in kind]


async def test_bugs_row_11_a_refused_sample_changes_nothing(stage: Stage, root: Path) -> None:
    """gemini-cli#7784: the provider refuses the summary's output limit; the compaction goes on without the model, and
    what is asked for is a quarter of a small window, not the 8,000 of a large one."""
    actor = await filled(stage, root, [say("Next.")], [fail(400, "bad_request")])
    answer = await actor.compact("c1")
    assert answer.outcome is CompactionOutcome.COMMITTED and answer.report is not None
    assert (answer.report.strategy, answer.report.samples) == (Strategy.FALLBACK, 1)
    assert stage.summariser is not None
    assert [one.max_output for one in stage.summariser.requests] == [WINDOW // 4]
    assert not of_kind(actor, CompactionFailed)
    assert (await prompt(actor, "t3")).stop is Stop.DONE


async def test_bugs_row_36_images_are_stored_once(stage: Stage, root: Path) -> None:
    """codex#33493: ten images, twenty compactions: a checkpoint adds 64 KiB at most, and no image a second time."""
    stage.window = 60_000
    said_then = [*(say("Seen.") for _ in range(10)), *(big(2_500, f"x{number}") for number in range(20))]
    stage.play(said_then, [good_summary()] * 20)
    actor = await stage.session(root, handoff=False)
    blobs = BlobStore(stage.files, stage.home, workspace_key(actor.root))
    images = [Image(blobs.put(bytes([number]) * 200_000), "image/png", 64, 64) for number in range(10)]
    for number, image in enumerate(images):
        await actor.prompt(f"i{number}", [Text("Look."), image], PromptMode.QUEUE)
    stored = sorted((stage.home / "blobs").rglob("*"))
    grown = []
    for number in range(20):
        await prompt(actor, f"t{number}")
        size = actor.log.path.stat().st_size
        assert (await actor.compact(f"c{number}")).outcome is CompactionOutcome.COMMITTED
        grown.append(actor.log.path.stat().st_size - size)
    assert said(stage.model.requests[9]).count("image/png") == 10
    assert len(of_kind(actor, CheckpointCommitted)) == 20
    assert max(grown) <= 64 * 1024 and actor.log.path.stat().st_size < 20 * 64 * 1024
    assert sorted((stage.home / "blobs").rglob("*")) == stored and stored


async def test_forks_at_once_are_sessions_of_their_own(stage: Stage, root: Path) -> None:
    """T133, T127: concurrent forks get ids of their own, and the parent goes on."""
    stage.play([say("One."), stall("Two")])
    actor = await stage.session(root)
    await prompt(actor, "t1")
    running = asking(actor, "t2")
    await until(lambda: bool(actor.live()))
    host = stage.hosts[-1]
    forks = await asyncio.gather(*(host.fork(actor.session_id) for _ in range(3)))
    assert len({fork.session_id for fork in forks} | {actor.session_id}) == 4
    assert actor.turn.state is TurnState.CALLING
    actor.cancel()
    assert (await running).stop is Stop.CANCELLED


async def test_a_fork_after_a_crash_has_the_whole_lines_alone(stage: Stage, root: Path) -> None:
    """T134: the torn tail of the parent is no part of its fork."""
    stage.play([say("Kept.")])
    actor = await stage.session(root)
    await prompt(actor, "t1")
    await stage.restart(root)
    with actor.log.path.open("ab") as log:
        log.write(b'{"v":1,"at":1,"prev":0,"ckpt":0,"events":[{"seq":99,"kind":"turn_')
    host = await stage.restart(root)
    parent = await host.open_session(actor.session_id)
    child = await host.fork(parent.session_id)
    assert "Kept." in await host.export(child.session_id)
    assert child.read_only is None and "LogRepaired" not in kinds(child)


async def test_a_session_of_a_closed_folder_is_not_forked(stage: Stage, root: Path) -> None:
    """T129: a fork stays in its workspace, which must be open; where it is refused, nothing is left behind."""
    stage.play([say("Kept.")])
    actor = await stage.session(root)
    await prompt(actor, "t1")
    logs, host = stage.logs(), stage.hosts[-1]
    host.remove_root(str(root))
    with pytest.raises(BadInput) as refused:
        await host.fork(actor.session_id)
    assert code_of(refused) == "unknown_root" and stage.logs() == logs
    (elsewhere := root.parent / "elsewhere").mkdir()
    host = await stage.restart(elsewhere)
    for asked in (host.open_session(actor.session_id), host.fork(actor.session_id)):
        with pytest.raises(SessionUnavailable):
            await asked
    assert stage.logs() == logs


async def test_a_window_reached_while_generating_compacts_before_the_next_request(stage: Stage, root: Path) -> None:
    """W-R5: the cut answer is kept, nothing is replayed, and the next step makes room first."""
    cut_short = say("As far as it went.", stop="model_context_window_exceeded", usage=Usage(15_000, 600))
    actor = await filled(stage, root, [cut_short, say("On.")])
    assert (await prompt(actor, "t3", "Go.")).stop is Stop.LENGTH
    assert (await prompt(actor, "t4", "Go on.")).stop is Stop.DONE
    assert "As far as it went." in said(stage.model.requests[-1])
    assert kinds(actor).index("CheckpointCommitted") > kinds(actor).index("AnswerReceived")


class NoHandoffs(DiskFiles):
    """A disk that takes everything but a handoff, and has words of its own for it."""

    def write(self, handle: int, data: bytes | memoryview) -> int:
        if b'"handoff_recorded"' in bytes(data):
            raise OSError(errno.EIO, "CANARY of a device")
        return super().write(handle, data)


async def test_what_a_disk_says_is_told_to_nobody(tmp_path: Path, root: Path, caplog: pytest.LogCaptureFixture) -> None:
    """T032, T031: the turn ends before a request goes out, with our words for it, not with the system's."""
    caplog.set_level(logging.DEBUG)
    stage = Stage(tmp_path / "home", NoHandoffs())
    actor = await at_the_band(stage, root, [say("Never.")])
    outcome = await prompt(actor, "t3", words(400))
    assert (outcome.stop, outcome.error and outcome.error.code) == (Stop.FAILED, "storage_failed")
    assert len(stage.model.requests) == 2 and actor.read_only
    said_of_it = [caplog.text, repr(outcome), repr(stage.told.of()), actor.read_only, actor.log.path.read_text()]
    assert "CANARY" not in "".join(said_of_it)
    await stage.leave()


async def test_a_final_answer_and_the_end_of_its_turn_are_one_line(stage: Stage, root: Path) -> None:
    """T125: no crash comes between them, so no turn with a final answer is left to be completed."""
    stage.play([ask(call("list")), say("Listed."), say("Again.")])
    actor = await stage.session(root)
    for number in range(2):
        await prompt(actor, f"t{number}")
    lines = actor.log.path.read_bytes().splitlines()
    ends = [b'"turn_ended"' in line for line in lines if b'"answer_received"' in line]
    assert ends == [False, True, True]


async def test_what_was_sent_twice_has_everything_once(stage: Stage, root: Path) -> None:
    """W-R4: a reminder, a prompt and an instruction file, in a request that overflowed and in the one after it."""
    (root / "AGENTS.md").write_text("ALWAYS whistle.\n")
    actor = await at_the_band(stage, root, [overflow(8_000), say("It fits."), say("On.")])
    assert (await prompt(actor, "t3", "PLEASE " + words(400))).stop is Stop.DONE
    assert (await prompt(actor, "t4")).stop is Stop.DONE
    counts = [[said(one).count(text) for text in (TAG, "PLEASE", "ALWAYS")] for one in stage.model.requests[2:]]
    assert counts == [[1, 1, 1], [0, 1, 1], [0, 1, 1]]


async def test_the_output_of_earlier_answers_leaves_later_ones_their_room(stage: Stage, root: Path) -> None:
    """W-P10: together they said more than the window holds; each may say as much as the first."""
    stage.play([say("Long.", usage=Usage(2_000, 4_000, 6_000)) for _ in range(6)], None)
    actor = await stage.session(root, handoff=False)
    for number in range(6):
        assert (await prompt(actor, f"t{number}")).stop is Stop.DONE
    assert [request.max_output for request in stage.model.requests] == [actor.occupancy.budget.reserve] * 6
