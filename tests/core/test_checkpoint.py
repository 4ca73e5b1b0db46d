"""A checkpoint is checked on write and on restore by the same function, exactly at its limits (W-C1, W-C4)."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ullage.core.checkpoint import VERSION, checkpoint_problem, pairing_problem, replacement_bytes
from ullage.core.context import Kept, Replacement, RestoredFile, Word
from ullage.core.events import CheckpointCommitted, Entry
from ullage.core.limits import BOUNDS
from ullage.core.messages import (
    BlobRef,
    Image,
    Message,
    Opaque,
    Part,
    Reasoning,
    Role,
    Text,
    ToolCall,
    ToolResult,
)
from ullage.core.reduce import reduce
from ullage.core.state import State
from ullage.testing import playbook as book


def message(role: Role, *parts: Part) -> Message:
    return Message("m", role, parts, "t")


def asks(*calls: str) -> Message:
    return message(Role.ASSISTANT, *(ToolCall(call, "bash", "{}") for call in calls))


def gives(*calls: str) -> Message:
    return message(Role.TOOL, *(ToolResult(call, "out") for call in calls))


def holding(*messages: Message, ledger: str = "") -> Replacement:
    return replace(book.replacement(ledger), tail=tuple(Kept(0, kept, 1) for kept in messages))


def check_checkpoint(replacement: Replacement, problem: str | None, *, version: int = VERSION) -> None:
    """The verdict on writing, and that restoring takes or leaves it accordingly."""
    before = book.Stage().state
    of = book.plan(before)
    event = replace(book.checkpoint(before, of, replacement, book.report(of)), version=version)
    found = checkpoint_problem(event)
    assert (found is None) if problem is None else (found is not None and problem in found), found
    after = reduce(before, Entry(1, 0, event))
    assert (after.facts.epoch == 1) == (problem is None)
    assert (after.facts.anomalies == (1,)) == (problem is not None)


@pytest.mark.parametrize("version", [VERSION - 1, VERSION + 1])
def test_only_its_own_version_is_restored(version: int) -> None:
    check_checkpoint(holding(), f"version {version}", version=version)


def test_the_number_of_messages_has_a_limit() -> None:
    said = message(Role.USER, Text(""))
    check_checkpoint(holding(*[said] * (BOUNDS.checkpoint_messages - 1)), None)
    check_checkpoint(holding(*[said] * BOUNDS.checkpoint_messages), f"{BOUNDS.checkpoint_messages + 1} messages")


@pytest.mark.parametrize("letter", ["a", "é", "😀"])
def test_the_size_in_bytes_has_a_limit(letter: str) -> None:
    """Bytes of UTF-8, not code points."""
    whole = letter * (BOUNDS.checkpoint_bytes // len(letter.encode()))
    assert len(whole.encode()) == BOUNDS.checkpoint_bytes
    check_checkpoint(holding(ledger=whole), None)
    check_checkpoint(holding(ledger=whole + "a"), f"{BOUNDS.checkpoint_bytes + 1} bytes")


ABC = Opaque("p", "m", "abc")
SIZES: dict[str, tuple[Replacement, int]] = {
    "ledger": (holding(ledger="abc"), 3),
    "task and words": (replace(holding(), task=(Word("m", "abc"),), words=(Word("m", "de"),)), 5),
    "files": (replace(holding(), files=(RestoredFile("a.py", "abc", False),)), 3),
    "text": (holding(message(Role.USER, Text("abc"), Text("de"))), 5),
    "a lone surrogate": (holding(ledger="\ud800"), 3),
    "reasoning": (holding(message(Role.ASSISTANT, Reasoning("abc"))), 3),
    "signed reasoning": (holding(message(Role.ASSISTANT, Reasoning("de", ABC))), 5),
    "an opaque part": (holding(message(Role.ASSISTANT, ABC)), 3),
    "arguments": (holding(message(Role.ASSISTANT, ToolCall("c", "bash", '{"a":1}'))), 7),
    "a result": (holding(message(Role.TOOL, ToolResult("c", "abc"))), 3),
    "an image": (holding(message(Role.USER, Image(BlobRef("0" * 64, 9_999), "image/png", 1, 1))), 0),
}


@pytest.mark.parametrize("name", SIZES)
def test_every_text_counts_towards_the_size(name: str) -> None:
    replacement, size = SIZES[name]
    assert replacement_bytes(replacement) == size


PAIRS: dict[str, tuple[list[Message], str | None]] = {
    "nothing": ([], None),
    "a call and its result": ([asks("a"), gives("a")], None),
    "results in any order": ([asks("a", "b"), gives("b"), gives("a")], None),
    "a call without a result is closed later": ([asks("a")], None),
    "a result without a call": ([gives("a")], "result a has no call"),
    "a result before its call": ([gives("a"), asks("a")], "result a has no call"),
    "a second result": ([asks("a"), gives("a"), gives("a")], "result a has no call"),
    "a second result in one message": ([asks("a"), gives("a", "a")], "result a has no call"),
    "a call of a person is none": ([message(Role.USER, ToolCall("a", "x", "{}")), gives("a")], "result a has no call"),
}


@pytest.mark.parametrize("name", PAIRS)
def test_calls_and_results_are_paired(name: str) -> None:
    messages, problem = PAIRS[name]
    assert (pairing_problem(messages) or "none").startswith(problem or "none")
    check_checkpoint(holding(*messages), problem)


def test_a_refused_checkpoint_leaves_the_old_context() -> None:
    stage = book.check_turn((book.prompt("t1"), "append prompt_queued turn_started; plan_step"))
    before: State = stage.state
    of = book.plan(before)
    bad: CheckpointCommitted = book.checkpoint(before, of, holding(gives("x")), book.report(of))
    after = reduce(before, Entry(9, 0, bad))
    assert after.items == before.items and after.facts.revision == before.facts.revision
