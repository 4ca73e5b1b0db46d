"""Instruction files in live sessions: told once, in trusted roots only, and whole after any number of compactions."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.sessions.stage import Stage, asking, big, kinds, next_request, of_kind, prompt, same, until, words

from ullage.context.assembly import cut_source
from ullage.context.instructions import TITLE
from ullage.core.commands import CompactionOutcome
from ullage.core.events import CheckpointCommitted, InstructionsAdded, StepStarted
from ullage.core.messages import Text
from ullage.core.requests import Request
from ullage.core.state import InstructionsItem
from ullage.core.views import ShownInstructions, ShownPrompt
from ullage.sessions.actor import SessionActor
from ullage.testing.model import Line, ask, call, good_summary, say

RULES = "Use tabs, never spaces: RULE-7f3a.\n\n- Say *please* before a test is skipped.\n"
NESTED = "In this folder, use spaces: RULE-91bc.\n"


def texts(request: Request) -> list[str]:
    """The user texts of a request, one for each block."""
    return [block.text for message in request.messages for block in message.blocks if isinstance(block, Text)]


def told(request: Request, text: str = RULES) -> int:
    """How often a request holds a file word for word."""
    return sum(block.startswith(TITLE) and block.endswith(text) for block in texts(request))


def asked(stage: Stage) -> list[Request]:
    return [request for request, _ in stage.asked]


def extends(later: Request, earlier: Request) -> bool:
    """Whether a request begins with all of an earlier one."""
    flat = [(m.role, block) for m in earlier.messages for block in m.blocks]
    return [(m.role, block) for m in later.messages for block in m.blocks][: len(flat)] == flat


async def session(stage: Stage, root: Path, *script: Line, rules: str | None = RULES, **config: object) -> SessionActor:
    if rules is not None:
        (root / "AGENTS.md").write_text(rules)
    stage.play(script or [say("Yes.")] * 20)
    return await stage.session(root, **config)


# --- once ---


async def test_the_model_is_told_once(stage: Stage, root: Path) -> None:
    actor = await session(stage, root)
    for number in range(3):
        await prompt(actor, f"t{number}")
    assert [told(request) for request in asked(stage)] == [1, 1, 1]
    assert kinds(actor).count("InstructionsAdded") == 1
    assert all(extends(*pair) for pair in zip(asked(stage)[1:], asked(stage), strict=False))


async def test_the_step_s_number_counts_it(stage: Stage, root: Path) -> None:
    """What is decided with and logged is taken after the model was told, not before."""
    actor = await session(stage, root, rules=words(500))
    await prompt(actor, "t1")
    [added], [started] = of_kind(actor, InstructionsAdded), of_kind(actor, StepStarted)
    assert added.tokens > 500 and started.occupancy.used > started.occupancy.fixed + added.tokens
    assert kinds(actor).index("InstructionsAdded") < kinds(actor).index("StepStarted")


async def test_a_changed_file_is_told_again_behind_the_old_one(stage: Stage, root: Path) -> None:
    actor = await session(stage, root)
    await prompt(actor, "t1")
    (root / "AGENTS.md").write_text(NESTED)
    await prompt(actor, "t2")
    (root / "AGENTS.md").unlink()
    await prompt(actor, "t3")
    first, second, third = asked(stage)
    assert (told(second), told(second, NESTED)) == (1, 1)
    assert texts(second).index(next(t for t in texts(second) if NESTED in t)) > texts(second).index(texts(first)[-1])
    assert texts(third)[-1].startswith(TITLE) and "no longer" in texts(third)[-1]
    assert extends(second, first) and extends(third, second)
    notes = [shown.what.note for shown in stage.told.shown() if isinstance(shown.what, ShownInstructions)]
    assert notes == [None, None, "gone"]


async def test_nested_files_come_when_their_folder_is_used(stage: Stage, root: Path) -> None:
    """They enter behind the result that touched the folder, so that the prefix holds; a search touches nothing."""
    for path, text in {"sub/dir/AGENTS.md": NESTED, "sub/dir/code.py": "x = 1\n", "sub/AGENTS.md": "MIDDLE.\n"}.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text)
    script = [ask(call("grep", pattern="x")), ask(call("read", path="sub/dir/code.py")), say("Read."), say("Yes.")]
    actor = await session(stage, root, *script)
    await prompt(actor, "t1")
    await prompt(actor, "t2")
    assert [told(request, NESTED) for request in asked(stage)] == [0, 0, 1, 1]
    assert [told(request, "MIDDLE.\n") for request in asked(stage)] == [0, 0, 1, 1]
    assert [told(request) for request in asked(stage)] == [1, 1, 1, 1]
    assert texts(asked(stage)[2])[-1].endswith(NESTED), "the nearest is the last word"
    assert "nearest" in texts(asked(stage)[2])[-1]
    assert all(extends(*pair) for pair in zip(asked(stage)[1:], asked(stage), strict=False))


# --- trust ---


async def test_of_a_root_that_is_not_trusted_nothing_is_told(stage: Stage, root: Path) -> None:
    """A canary in an untrusted workspace reaches no request, no log and no client."""
    (root / "AGENTS.md").write_text(RULES)
    stage.play([say("Yes.")] * 3)
    host = stage.host()
    host.add_root(str(root), trusted=False)
    actor = await host.new_session(str(root))
    await prompt(actor, "t1")
    assert "RULE-7f3a" not in repr(stage.asked)
    host.set_trust(str(root), True)
    await prompt(actor, "t2")
    assert told(asked(stage)[-1]) == 1
    host.set_trust(str(root), False)
    await prompt(actor, "t3")
    assert "no longer" in texts(asked(stage)[-1])[-1]


async def test_what_trust_was_taken_from_does_not_outlive_a_compaction(stage: Stage, root: Path) -> None:
    actor = await session(stage, root, *[big(3_000, letter) for letter in "ab"], say("Yes."), say("Yes."))
    await prompt(actor, "t1")
    await prompt(actor, "t2")
    stage.hosts[-1].set_trust(str(root), False)
    await prompt(actor, "t3")
    await actor.compact("c1")
    await prompt(actor, "t4")
    assert "RULE-7f3a" not in repr(asked(stage)[-1])


@pytest.mark.parametrize("target", ["CLAUDE.md", "../outside.md"])
async def test_a_link_is_named_and_not_followed(stage: Stage, root: Path, target: str) -> None:
    (root / target).write_text(RULES)
    (root / "AGENTS.md").symlink_to(target)
    actor = await session(stage, root, rules=None)
    await prompt(actor, "t1")
    await prompt(actor, "t2")
    assert "RULE-7f3a" not in repr(stage.asked)
    assert sum("links are not followed" in text for text in texts(asked(stage)[-1])) == 1


# --- compaction ---


@pytest.mark.parametrize("summaries", [None, [good_summary("So far so good.")] * 5], ids=["digest", "model"])
async def test_five_compactions_keep_it_whole(stage: Stage, root: Path, summaries: list[Line] | None) -> None:
    """I9: never summarised, never twice, word for word in every request; the gate counts it."""
    (root / "AGENTS.md").write_text(RULES)
    stage.play([big(3_000, letter) for letter in "abcdefghij"], summaries)
    actor = await stage.session(root)
    for number in range(5):
        await prompt(actor, f"t{2 * number}")
        await prompt(actor, f"t{2 * number + 1}")
        answer = await actor.compact(f"c{number}")
        assert answer.outcome is CompactionOutcome.COMMITTED
        assert told(next_request(actor)) == 1
    checkpoints = of_kind(actor, CheckpointCommitted)
    assert len(checkpoints) >= 5
    for event in checkpoints:
        [given] = event.replacement.instructions
        assert given.tokens > 0
        assert event.report.after >= event.replacement.tokens
        said = [event.replacement.ledger, *(word.text for word in event.replacement.words)]
        assert not any("RULE-7f3a" in text for text in said)
        assert not any(kept.message.origin for kept in event.replacement.tail)
    assert [told(request) for request in asked(stage)] == [1] * len(asked(stage))
    assert all("RULE-7f3a" in repr(request) for request in stage.summariser.requests) if stage.summariser else True
    assert kinds(actor).count("InstructionsAdded") == 1, "nothing was told again: it had never gone"


async def test_a_file_that_changed_before_a_compaction_is_new_behind_it(stage: Stage, root: Path) -> None:
    actor = await session(stage, root, *[big(3_000, letter) for letter in "ab"], say("Yes."))
    await prompt(actor, "t1")
    await prompt(actor, "t2")
    (root / "AGENTS.md").write_text(NESTED)
    await actor.compact("c1")
    await prompt(actor, "t3")
    assert told(asked(stage)[-1], NESTED) == 1
    assert texts(asked(stage)[-1])[-1].endswith(NESTED)


async def test_automatic_compactions_count_it(stage: Stage, root: Path) -> None:
    """It takes its share and no more: a session whose file would fill the window goes on."""
    rules = "".join(f"{number:04d}. {words(20, 'r')}\n" for number in range(400))
    actor = await session(stage, root, *[big(2_000, letter) for letter in "abcdefghijklmn"], rules=rules)
    for number in range(14):
        assert (await prompt(actor, f"t{number}")).error is None
    assert len(of_kind(actor, CheckpointCommitted)) >= 2
    for request in asked(stage):
        [given] = [text for text in texts(request) if text.startswith(TITLE)]
        assert "read the file" in given and "0010. " in given and len(given) < len(rules) // 3


# --- what outlives a process, and what people see ---


async def test_a_reload_shows_the_model_what_it_saw(stage: Stage, root: Path) -> None:
    actor = await session(stage, root, *[big(3_000, letter) for letter in "ab"], say("Yes."), say("Yes."))
    await prompt(actor, "t1")
    await prompt(actor, "t2")
    await actor.compact("c1")
    await prompt(actor, "t3")
    before, request = actor.state, next_request(actor)
    host = await stage.restart(root)
    again = await host.open_session(actor.session_id)
    assert same(again.state, before) and next_request(again) == request
    await prompt(again, "t4")
    assert told(asked(stage)[-1]) == 1
    assert kinds(again).count("InstructionsAdded") == 1


async def test_a_fork_carries_it(stage: Stage, root: Path) -> None:
    actor = await session(stage, root)
    await prompt(actor, "t1")
    child = await stage.hosts[-1].fork(actor.session_id)
    await prompt(child, "t2")
    assert told(asked(stage)[-1]) == 1
    assert kinds(child).count("InstructionsAdded") == 1


async def test_people_see_a_line_and_a_category(stage: Stage, root: Path) -> None:
    """W-C11: a line that names the file and its tokens, decided by type; it is no prompt, no title, and no text of it
    is told."""
    actor = await session(stage, root)
    await prompt(actor, "t1", "Do it.")
    [shown] = [one.what for one in stage.told.shown() if isinstance(one.what, ShownInstructions)]
    [item] = [item for item in actor.state.items if isinstance(item, InstructionsItem)]
    assert (shown.path, shown.tokens, shown.note) == ("AGENTS.md", item.tokens, None)
    assert dict(actor.inspect().categories)["instructions"] == item.tokens
    assert [one.what.message.text for one in stage.told.shown() if isinstance(one.what, ShownPrompt)] == ["Do it."]
    assert actor.state.facts.title == "Do it."
    assert "RULE-7f3a" not in repr(stage.told.of())
    exported = await stage.hosts[-1].export(actor.session_id)
    assert "*Instructions: AGENTS.md (" in exported and "RULE-7f3a" not in exported


async def test_an_aligned_summary_s_request_holds_it_once_and_what_is_flattened_does_not(
    stage: Stage, root: Path
) -> None:
    """I9: it is part of the prefix, and of no source that is to be summarised."""
    (root / "AGENTS.md").write_text(RULES)
    stage.play([big(3_000, letter) for letter in "ab"], [good_summary("Done.")])
    actor = await stage.session(root)
    await prompt(actor, "t1")
    await prompt(actor, "t2")
    await actor.compact("c1")
    assert stage.summariser is not None
    [request] = stage.summariser.requests
    assert told(request) == 1, "aligned: it is the last request with one message more"
    source = cut_source(actor.state, actor.state.facts.last_seq)
    assert source.messages
    assert not any("RULE-7f3a" in repr(kept) for kept in (*source.messages, *source.carried))


async def test_a_steer_does_not_tell_it_twice(stage: Stage, root: Path) -> None:
    actor = await session(stage, root)
    first = asking(actor, "t1")
    second = asking(actor, "t2")
    await first
    await second
    assert [told(request) for request in asked(stage)] == [1, 1]


async def test_the_log_holds_path_and_digest(stage: Stage, root: Path) -> None:
    import hashlib

    actor = await session(stage, root)
    await prompt(actor, "t1")
    await until(lambda: actor.synced_seq == actor.state.facts.last_seq)
    records = [json.loads(line) for line in actor.log.path.read_bytes().splitlines()]
    [event] = [e for record in records for e in record["events"] if e["kind"] == "instructions_added"]
    assert event["instructions"]["path"] == "AGENTS.md"
    assert event["instructions"]["sha256"] == hashlib.sha256(RULES.encode()).hexdigest()
