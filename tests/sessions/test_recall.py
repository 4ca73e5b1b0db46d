"""Searching from a live session: what was compacted away is found, and nothing that is hidden."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from tests.sessions.stage import Stage, big, code_of, filled, kinds, of_kind, prompt, said

from ullage.context.handoff import TAG
from ullage.core.errors import BadInput
from ullage.core.events import HandoffRecorded, ResultReceived
from ullage.sessions.actor import SessionActor
from ullage.sessions.searching import make_recall
from ullage.storage.ids import workspace_key
from ullage.storage.search import index_path
from ullage.testing.model import ask, call, say


def results(actor: SessionActor) -> list[str]:
    return [result.text for event in of_kind(actor, ResultReceived) for result in event.message.results]


async def test_a_fact_that_was_compacted_away(stage: Stage, root: Path) -> None:
    """Design 6.16: said early, gone from the request, and found by words; the replaced part tells of the tool."""
    stage.play(
        [
            say("The staging database listens on port 54329, the bigger one on xyzzy."),
            *(big(3_300, label) for label in "abc"),
            ask(call("recall", query="staging database port")),
            say("It is 54329."),
        ]
    )
    actor = await stage.session(root, handoff=False)
    for number in range(4):
        await prompt(actor, f"t{number}", f"Question {number}.")
    await prompt(actor, "t9", "Which port was it?")
    assert "CheckpointCommitted" in kinds(actor)
    before, after = map(said, stage.model.requests[-2:])
    assert "54329" not in before and "`recall`" in before
    assert "you said (message t0/1/a, seq" in after and "listens on port 54329" in after
    [found] = results(actor)
    assert found.splitlines()[0].startswith("1. you said (message t0/1/a, seq ")


async def test_what_the_model_sees_comes_last_and_recall_never_finds_itself(stage: Stage, root: Path) -> None:
    actor = await filled(stage, root, [ask(call("recall", query="constraint")), say("ok")] * 2)
    await prompt(actor, "t8", "A constraint in view, constraint by constraint.")
    assert (await actor.compact("c1")).report is not None
    await prompt(actor, "t9", "Another constraint.")
    first, second = results(actor)
    assert first.count("still in your context") == 2
    lines = [line for line in second.splitlines() if line[:1].isdigit()]
    assert ["t1/u" in lines[1], "t8/u" in lines[0], "t9/u" in lines[2]] == [True] * 3 and len(lines) == 3
    assert "still in your context" in lines[2] and "still in your context" not in lines[0] + lines[1]


async def test_a_shortened_result_is_found_whole(stage: Stage, root: Path) -> None:
    """The passage names where `read_output` goes on."""
    lines = [f"entry {number:05d} of a list" for number in range(4_000)]
    (root / "huge.txt").write_text("\n".join(lines))
    asked = [ask(call("read", path="huge.txt", lines=2_000)), ask(call("recall", query='"entry 01000"'))]
    stage.play([*asked, say("Found.")])
    actor = await stage.session(root)
    await prompt(actor, "t1")
    read, found = results(actor)
    assert "entry 01000" not in read and "entry 01000" in found
    assert "for more: read_output with " in found


async def test_no_handoff_is_found(stage: Stage, root: Path) -> None:
    """W-C11: not by its tag, its id, or any of its words; the canary of the stage looks at every notice too."""
    stage.play([*(big(3_300, label) for label in "ab"), big(1_000, "c"), say("On.")])
    actor = await stage.session(root)
    for number in range(4):
        await prompt(actor, f"t{number}")
    [handoff] = of_kind(actor, HandoffRecorded)
    record = json.loads(handoff.record)
    recall, host = make_recall(stage.ports(), lambda: actor.state), stage.hosts[0]
    for query in (
        TAG,
        record["messageId"],
        '"do not answer this notice by itself"',
        "notice compaction handoff budget",
    ):
        for _ in range(2):
            assert recall(query, 20, lambda: False).hits == ()
            assert (await host.search(str(root), query, 20)).sessions == ()
    assert recall("On.", 20, lambda: False).hits


async def test_sessions_of_a_workspace(stage: Stage, root: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    stage.play([say("the needle, once"), say("nothing"), say("the needle elsewhere"), say("another needle")])
    one = await stage.session(root)
    host = stage.hosts[0]
    host.add_root(str(other), trusted=True)
    two, foreign = await host.new_session(str(root), title="Needle work"), await host.new_session(str(other))
    for number, actor in enumerate((one, two, foreign)):
        await prompt(actor, f"t{number}", "Go.")
    fork = await host.fork(one.session_id)
    found = await host.search(str(root), "needle", 10)
    assert found.complete
    texts = {each.summary.session_id: [hit.passage.text for hit in each.hits] for each in found.sessions}
    assert texts == {
        one.session_id: ["the needle, once"],
        two.session_id: ["Needle work"],
        fork.session_id: ["the needle, once"],
    }
    assert len((await host.search(str(root), "needle", 2)).sessions) == 2
    assert (await host.search(str(root), "  ", 2)).sessions == ()
    elsewhere = await host.search(str(other), "needle", 10)
    assert [each.summary.session_id for each in elsewhere.sessions] == [foreign.session_id]
    with pytest.raises(BadInput) as error:
        await host.search("/nowhere", "needle", 10)
    assert code_of(error) == "unknown_root"


async def test_a_root_without_trust_has_no_recall(stage: Stage, root: Path) -> None:
    stage.play([ask(call("recall", query="Go")), say("ok")])
    actor = await stage.session(root)
    stage.hosts[0].set_trust(str(root), False)
    await prompt(actor, "t1", "Go.")
    assert not stage.model.requests[0].tools
    assert all("Go." not in text for text in results(actor))


async def test_no_index_on_a_disk_that_is_no_real_one(faulty: Stage, root: Path) -> None:
    faulty.play([say("the needle"), ask(call("recall", query="needle")), say("ok")])
    actor = await faulty.session(root)
    await prompt(actor, "t1")
    await prompt(actor, "t2")
    assert "the needle" in results(actor)[0]
    assert not os.path.exists(index_path(faulty.home, workspace_key(str(root))).parent)  # noqa: ASYNC240
