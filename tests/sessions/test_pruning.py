"""Pruning in a live session: one number, one line of the log, and what recall, clients and a restart make of it."""

from __future__ import annotations

import asyncio
import json
from itertools import pairwise
from pathlib import Path

import pytest
from tests.sessions.stage import START, Stage, events, kinds, of_kind, prompt, said, until, words

from ullage.context.leaving import Named
from ullage.context.pruning import MARKER
from ullage.core.context import OmissionReason
from ullage.core.errors import BadInput
from ullage.core.events import CheckpointCommitted, ItemsOmitted, StepStarted, Stop
from ullage.core.omission import omission
from ullage.core.views import ShownOmission, ShownResult
from ullage.sessions.actor import SessionActor
from ullage.sessions.notices import Occupied, Updated
from ullage.testing.model import Line, ask, call, good_summary, overflow, say, stall

FILES = 24
WINDOW = 32_000
"""Input budget 24,000: half of it is 12,000, the handoff line 16,800."""


@pytest.fixture
def reading(stage: Stage, root: Path) -> Stage:
    """A stage whose workspace has files of 1,000 tokens."""
    stage.window = WINDOW
    for number in range(FILES):
        lines = [words(50, f"f{number}-{line}-") for line in range(18)]
        (root / f"f{number}.txt").write_text("\n".join([f"needle{number} first", *lines, ""]))
    return stage


def reads(count: int, first: int = 0) -> list[Line]:
    return [ask(call("read", path=f"f{number}.txt")) for number in range(first, first + count)]


async def pruned(stage: Stage, root: Path, *more: Line, summaries: list[Line] | None = None) -> SessionActor:
    """A session that read until it was pruned once."""
    stage.play([*reads(19), say("Read."), *more], summaries)
    actor = await stage.session(root)
    assert (await prompt(actor, "t1")).stop is Stop.DONE
    [_] = of_kind(actor, ItemsOmitted)
    return actor


async def test_the_number_after_pruning_is_shown_decided_and_logged(reading: Stage, root: Path) -> None:
    """W-P3: no reminder and no compaction; the step's number is that of the request that is sent."""
    actor = await pruned(reading, root)
    assert {"HandoffRecorded", "CheckpointCommitted"} & set(kinds(actor)) == set()
    logged = [event.occupancy for event in of_kind(actor, StepStarted)]
    shown = [notice.occupancy for notice in reading.told.of() if isinstance(notice, Occupied)]
    assert [each.used for each in logged] == [request.tokens for request in reading.model.requests]
    assert set(logged) <= set(shown) and max(each.used for each in logged) < 16_800
    fall = next(after for before, after in pairwise(logged) if after.used < before.used)
    assert fall.used <= 12_000


async def test_it_stands_in_one_line_with_its_step(reading: Stage, root: Path) -> None:
    """W-B8: recorded only when the step's outcome is; a crash between the two can't be."""
    actor = await pruned(reading, root)
    lines = actor.log.path.read_text().splitlines()
    [line] = [json.loads(line) for line in lines if "items_omitted" in line]
    assert [event["kind"] for event in line["events"]] == ["items_omitted", "step_started"]


async def test_the_request_has_one_marker_and_the_transcript_is_whole(reading: Stage, root: Path) -> None:
    actor = await pruned(reading, root)
    sent = said(reading.model.requests[-1])
    assert sent.count(MARKER) == 1 and "needle0 " not in sent and "needle18 " in sent
    results = [shown.what for shown in actor.history() if isinstance(shown.what, ShownResult)]
    assert len(results) == 19 and "needle0 " in str(results[0])
    [left] = [shown.what for shown in actor.history() if isinstance(shown.what, ShownOmission)]
    assert left.reason is OmissionReason.SNIP and left.tokens and len(left.seqs) % 2 == 0
    assert [n.shown.what for n in reading.told.of() if isinstance(n, Updated) and n.shown.what == left] == [left]


async def test_recall_finds_what_was_left_out(reading: Stage, root: Path) -> None:
    actor = await pruned(reading, root, ask(call("recall", query="needle0")), say("There."))
    await prompt(actor, "t2", "Where was it?")
    before, after = map(said, reading.model.requests[-2:])
    assert "needle0 " not in before and "needle0 " in after and "still in your context" not in after


async def test_it_survives_a_restart(reading: Stage, root: Path) -> None:
    """W-B7: the number does not jump, and the same is sent."""
    actor = await pruned(reading, root, say("On."))
    used, session = actor.occupancy.used, actor.session_id
    host = await reading.restart(root)
    again = await host.open_session(session, str(root))
    assert again.occupancy.used == used
    await prompt(again, "t2")
    assert "needle0 " not in said(reading.model.requests[-1])
    assert len(of_kind(again, ItemsOmitted)) == 1


async def test_a_cold_cache_after_a_restart(reading: Stage, root: Path) -> None:
    """W-B6: by the log's time of the last call, though another process made it; not before the lifetime is over."""
    reading.cache_ms = 300_000
    reading.play([*reads(13), say("Read."), say("Warm."), say("Cold.")])
    actor = await reading.session(root)
    await prompt(actor, "t1")
    reading.at += 299_000
    await prompt(actor, "t2")
    assert not of_kind(actor, ItemsOmitted)
    session = actor.session_id
    host = await reading.restart(root)
    reading.at += 301_000
    again = await host.open_session(session, str(root))
    await prompt(again, "t3")
    [event] = of_kind(again, ItemsOmitted)
    assert event.omission.reason is OmissionReason.MICRO and len(event.omission.units) == 3
    assert reading.at - START == 600_000


async def test_a_slow_tool_is_no_idle_cache(reading: Stage, root: Path) -> None:
    """W-B6: nobody stated a lifetime, so no time that passes means anything."""
    reading.play([*reads(13), say("Read."), say("On.")])
    actor = await reading.session(root)
    await prompt(actor, "t1")
    reading.at += 10**9
    await prompt(actor, "t2")
    assert not of_kind(actor, ItemsOmitted)


async def test_a_summary_is_asked_of_the_whole(reading: Stage, root: Path) -> None:
    """W-A10: behind the last request, byte for byte, stands what it went without."""
    actor = await pruned(reading, root, summaries=[good_summary("all read")])
    sent = reading.model.requests[-1]
    assert (await actor.compact("c1")).report is not None
    assert reading.summariser is not None
    [asked] = reading.summariser.requests
    assert asked.messages[: len(sent.messages)] == sent.messages
    assert "needle0 " in said(asked.messages[-1]) and "needle0 " not in said(sent)
    [committed] = of_kind(actor, CheckpointCommitted)
    assert "needle0 " not in said(committed.replacement.tail) and MARKER not in said(committed.replacement)
    assert omission(actor.state.items) is None


async def test_an_overflow_after_pruning_compacts_the_whole(reading: Stage, root: Path) -> None:
    """T077, W-A10: into the limit that the provider named; what was pruned is summarised, and its marker is gone."""
    script = [overflow(9_000), say("It fits.")]
    actor = await pruned(reading, root, *script, summaries=[good_summary("all read")])
    assert MARKER in said(reading.model.requests[-1]) and reading.model.requests[-1].tokens > 9_000
    assert (await prompt(actor, "t2")).stop is Stop.DONE
    assert reading.summariser is not None
    [asked] = reading.summariser.requests
    assert "needle0 " in said(asked)
    replayed = reading.model.requests[-1]
    assert replayed.tokens < 9_000 and MARKER not in said(replayed) and "needle0 " not in said(replayed)


async def test_a_compaction_without_a_model_knows_all_files(reading: Stage, root: Path) -> None:
    """W-A10: facts are of everything, also of what was pruned."""
    actor = await pruned(reading, root)
    await actor.compact("c1")
    [committed] = of_kind(actor, CheckpointCommitted)
    assert all(f"f{number}.txt" in committed.replacement.ledger for number in range(19))
    tail = said(committed.replacement.tail)
    assert "needle0 " not in tail and "needle18 " in tail


# --- asked ---


async def test_a_person_leaves_a_turn_out(reading: Stage, root: Path) -> None:
    """From the next request on, and from a summary too: they do not want the model to have it."""
    secret = "The password is hunter2."
    script = [say("Hello."), say("Noted."), *reads(6), say("Read."), say("On.")]
    reading.play(script, [good_summary("on")])
    actor = await reading.session(root)
    await prompt(actor, "t1")
    await prompt(actor, "t2", secret)
    await prompt(actor, "t3")
    await actor.leave_out(Named(["t2/u", "t2/1/a"]))
    await prompt(actor, "t4")
    assert secret not in said(reading.model.requests[-1]) and secret in said(reading.model.requests[-2])
    await actor.compact("c1")
    assert reading.summariser is not None
    assert all(secret not in said(request) for request in reading.summariser.requests)
    [committed] = of_kind(actor, CheckpointCommitted)
    assert secret not in said(committed.replacement)


async def test_what_can_not_be_left_out(reading: Stage, root: Path) -> None:
    reading.play([say("Yes."), stall("x"), say("On.")])
    actor = await reading.session(root)
    await prompt(actor, "t1")
    await actor.pin_message("t1/u")
    running = asyncio.ensure_future(prompt(actor, "t2"))
    await until(lambda: bool(actor.live()))
    for name, code in (("t1/u", "pinned"), ("t2/u", "active_task"), ("t9/u", "not_in_view")):
        before = events(actor)
        with pytest.raises(BadInput) as caught:
            await actor.leave_out(Named([name, "t1/1/a"]))
        assert (caught.value.report.code, bool(caught.value.report.hint)) == (code, True)
        assert events(actor) == before
    await actor.leave_out(Named(["t1/1/a"]))
    actor.cancel()
    await running
    assert len(of_kind(actor, ItemsOmitted)) == 1
