"""Hypothesis strategies for every kind of event, for logs, and for what they are made of.

Ids come from small pools, so that events of a drawn sequence meet: some fit, most are impossible, none may raise.
"""

from __future__ import annotations

import json
from typing import Any, get_args

from hypothesis import strategies as st

from ullage.core import context, events, grants, messages, state
from ullage.core.errors import ErrorReport

TURNS = ("t1", "t2", "t3")
CALLS = tuple(f"{turn}/1/c{number}" for turn in TURNS for number in range(2))

text = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
"""Text as it stands behind `clean_text`: anything but lone surrogates."""
words = st.text("abc/ .\né😀", max_size=8)
counts = st.integers(0, 2**53 - 1)
tokens = st.integers(0, 10_000)
seqs = st.integers(-1, 50)
turn_ids = st.sampled_from(TURNS)
call_ids = st.sampled_from(CALLS)
maybe = st.none()

# --- messages ---

blobs = st.builds(messages.BlobRef, st.sampled_from(["0" * 64, "f" * 64]), counts)
images = st.builds(messages.Image, blobs, st.just("image/png"), st.integers(1, 8_000), st.integers(1, 8_000))
opaque = st.builds(messages.Opaque, words, words, words.map(json.dumps))
calls = st.builds(messages.ToolCall, call_ids, st.sampled_from(["read", "bash"]), text, maybe | words)
todos = st.builds(messages.Todo, words, st.sampled_from(messages.TodoStatus))
facts_of_tools = st.builds(
    messages.ToolFacts,
    st.sampled_from(messages.Op),
    st.lists(st.sampled_from(["a.py", "b/c.py"]), max_size=2).map(tuple),
    maybe | words,
    maybe | st.integers(-1, 255),
    maybe | words,
    st.lists(st.sampled_from(["", "0" * 64]), max_size=3).map(tuple),
    maybe | st.builds(messages.Todos, st.lists(todos, max_size=2).map(tuple)),
)
results = st.builds(
    messages.ToolResult,
    call_ids,
    text,
    st.booleans(),
    facts_of_tools,
    maybe | blobs,
    st.lists(images, max_size=1).map(tuple),
)
texts = st.builds(messages.Text, text)
reasonings = st.builds(messages.Reasoning, text, maybe | opaque)
usages = st.builds(messages.Usage, *[maybe | counts] * 6)


def _message(role: messages.Role, *parts: st.SearchStrategy[Any], least: int = 0) -> st.SearchStrategy[Any]:
    return turn_ids.flatmap(
        lambda turn: st.builds(
            messages.Message,
            st.sampled_from([f"{turn}/u", f"{turn}/1/a", f"{turn}/1/r0"]),
            st.just(role),
            st.lists(st.one_of(*parts), min_size=least, max_size=3).map(tuple),
            st.just(turn),
        )
    )


said = _message(messages.Role.USER, texts, images)
answers = _message(messages.Role.ASSISTANT, texts, reasonings, calls, opaque)
returns = _message(messages.Role.TOOL, results, least=1)
any_message = said | answers | returns

# --- the context engine's values ---

errors = st.builds(
    ErrorReport,
    st.sampled_from(["provider_error", "does_not_fit"]),
    words,
    words,
    st.lists(st.tuples(words, words | counts), max_size=2).map(tuple),
)
budgets = st.builds(context.Budget, maybe | tokens, words, *[tokens] * 4)
occupancies = st.builds(
    context.Occupancy,
    tokens,
    tokens,
    st.sampled_from(context.Measured),
    tokens,
    tokens,
    st.sampled_from(context.Phase),
    budgets,
)
pins = st.builds(
    context.Pin, st.sampled_from(["t1/u", "t1/1/a", "pin3"]), text, st.sampled_from(messages.Role), seqs, st.booleans()
)
instructions = st.builds(context.Instructions, words, said, maybe | words, maybe | words)
spoken = st.lists(st.builds(context.Word, words, text), max_size=2).map(tuple)
replacements = st.builds(
    context.Replacement,
    text,
    spoken,
    spoken,
    st.lists(st.builds(context.RestoredFile, words, text, st.booleans()), max_size=1).map(tuple),
    words,
    st.lists(st.builds(context.Kept, seqs, any_message, tokens), max_size=3).map(tuple),
    tokens,
    st.lists(st.builds(context.ExactRecord, words, text), max_size=2).map(tuple),
    st.lists(pins, max_size=2).map(tuple),
    st.lists(st.builds(context.KeptInstructions, seqs, instructions, tokens), max_size=1).map(tuple),
)
reports = st.builds(
    context.CompactionReport,
    st.sampled_from(context.Reason),
    st.sampled_from(context.Strategy),
    words,
    *[tokens] * 4,
    st.lists(words, max_size=1).map(tuple),
    st.integers(0, 3),
    maybe | words,
    tokens,
)

# --- the state's bounded half ---

parents = st.builds(events.Parent, words, seqs)
queue = st.builds(state.Queued, said, st.sampled_from(events.PromptMode), tokens, words, seqs)
totals = st.builds(state.Totals, *[tokens] * 9)
open_turns = st.builds(
    state.OpenTurn,
    turn_ids,
    st.integers(0, 2),
    st.lists(said, max_size=2).map(tuple),
    st.lists(call_ids, max_size=2, unique=True).map(tuple),
    before=totals,
)
facts = st.builds(
    state.Facts,
    last_seq=seqs,
    last_at=counts,
    session_id=words,
    parent=maybe | parents,
    title=words,
    config=st.builds(state.Config, maybe | words, maybe | words, maybe | words, maybe | tokens),
    queue=st.lists(queue, max_size=2).map(tuple),
    held=maybe | words,
    open_turn=maybe | open_turns,
    ended_turns=st.lists(st.tuples(turn_ids, st.sampled_from(events.Stop)), max_size=2).map(tuple),
    turn_totals=totals,
    sent=maybe | st.builds(state.Sent, tokens, tokens, st.integers(0, 2), turn_ids, seqs, tokens),
    baseline=maybe | st.builds(state.Baseline, tokens, tokens, tokens, seqs, words),
    revision=seqs,
    epoch=seqs,
    files=st.lists(st.builds(state.FileFact, words, st.booleans(), seqs, counts), max_size=2).map(tuple),
    commands=st.lists(st.builds(state.CommandFact, words, maybe | tokens, maybe | words, seqs), max_size=2).map(tuple),
    newest_error=maybe | text,
    todos=st.lists(todos, max_size=2).map(tuple),
    records=st.lists(st.builds(context.ExactRecord, words, text), max_size=2).map(tuple),
    pins=st.lists(pins, max_size=2).map(tuple),
    pins_untold=st.lists(st.builds(events.PinAdded, pins, tokens, words), max_size=1).map(tuple),
    grants=st.lists(st.builds(grants.PermissionGranted, st.sampled_from(messages.Op), words), max_size=2).map(tuple),
    breaker=st.builds(state.Breaker, st.integers(0, 4), counts, tokens),
    outputs=st.lists(blobs, max_size=2).map(tuple),
    redoable=seqs,
    anomalies=st.lists(seqs, max_size=2).map(tuple),
    read_only=maybe | words,
)

items = st.builds(state.MessageItem, seqs, any_message, tokens, words, tokens) | st.builds(
    state.ReplacementItem, seqs, replacements, tokens, tokens
)
several_items = st.lists(items, max_size=3).map(tuple)
several_turns = st.lists(turn_ids, max_size=2).map(tuple)

# --- events ---


def _unknown(kind: str, critical: bool, more: str) -> events.Unknown:
    return events.Unknown(kind, critical, json.dumps({"kind": kind, "critical": critical, "more": more}))


steps = st.integers(0, 2)
units = st.lists(st.lists(st.integers(0, 12), min_size=1, max_size=4).map(tuple), max_size=3).map(tuple)
BY_KIND: dict[type[Any], st.SearchStrategy[Any]] = {
    events.SessionCreated: st.builds(events.SessionCreated, words, words, counts, counts, maybe | parents),
    events.SessionForked: st.builds(events.SessionForked, parents),
    events.SessionRenamed: st.builds(events.SessionRenamed, text),
    events.SessionConfigured: st.builds(
        events.SessionConfigured,
        maybe | words,
        maybe | words,
        maybe | words,
        maybe | tokens,
        maybe | tokens,
        maybe | st.booleans(),
        maybe | st.booleans(),
    ),
    events.PromptQueued: st.builds(events.PromptQueued, said, st.sampled_from(events.PromptMode), tokens, words),
    events.PromptEdited: st.builds(events.PromptEdited, said, tokens, words),
    events.PromptRemoved: st.builds(events.PromptRemoved, turn_ids),
    events.QueueHeld: st.builds(events.QueueHeld, words),
    events.QueueReleased: st.builds(events.QueueReleased),
    events.TurnStarted: st.builds(events.TurnStarted, turn_ids),
    events.SteerEntered: st.builds(events.SteerEntered, turn_ids, turn_ids),
    events.ImagesLeftOut: st.builds(events.ImagesLeftOut, turn_ids, steps, st.lists(blobs, max_size=2).map(tuple)),
    events.ImagesMissing: st.builds(events.ImagesMissing, st.lists(blobs, max_size=2).map(tuple)),
    events.StepStarted: st.builds(events.StepStarted, turn_ids, steps, occupancies),
    events.AnswerReceived: st.builds(
        events.AnswerReceived,
        turn_ids,
        steps,
        answers,
        tokens,
        words,
        usages,
        st.sampled_from(["end_turn", "tool_use", "cancelled", "failed"]),
        words,
        maybe | tokens,
    ),
    events.ResultReceived: st.builds(events.ResultReceived, turn_ids, steps, returns, tokens, words),
    events.UsageBooked: st.builds(events.UsageBooked, st.sampled_from(events.Purpose), usages, words, maybe | tokens),
    events.TurnEnded: st.builds(events.TurnEnded, turn_ids, st.sampled_from(events.Stop), maybe | errors),
    events.TokensRecounted: st.builds(
        events.TokensRecounted,
        words,
        st.lists(st.tuples(st.sampled_from(["t1/u", "t1/1/a", "t2/u"]), tokens), max_size=3).map(tuple),
    ),
    events.HandoffRecorded: st.builds(events.HandoffRecorded, text, tokens),
    events.ItemsOmitted: st.builds(
        events.ItemsOmitted, st.builds(context.Omission, units, st.sampled_from(context.OmissionReason), tokens, tokens)
    ),
    events.ItemsRestored: st.builds(events.ItemsRestored, units),
    events.InstructionsAdded: st.builds(events.InstructionsAdded, instructions, tokens, words),
    events.CheckpointCommitted: st.builds(
        events.CheckpointCommitted, st.sampled_from([1, 1, 1, 2]), seqs, seqs, seqs, replacements, reports, facts
    ),
    events.CompactionFailed: st.builds(events.CompactionFailed, st.sampled_from(context.Reason), errors, maybe | words),
    events.PinAdded: st.builds(events.PinAdded, pins, tokens, words),
    events.PinRemoved: st.builds(events.PinRemoved, st.sampled_from(["t1/u", "t1/1/a", "pin3"])),
    events.SessionRewound: st.builds(events.SessionRewound, turn_ids, seqs, several_turns, seqs, facts, several_items),
    events.SessionRedone: st.builds(events.SessionRedone, seqs, several_turns, seqs, facts, several_items),
    grants.PermissionGranted: st.builds(grants.PermissionGranted, st.sampled_from(messages.Op), words),
    events.LogRepaired: st.builds(events.LogRepaired, counts, counts, words),
    events.DamageAccepted: st.builds(events.DamageAccepted, st.lists(st.tuples(counts, counts), max_size=2).map(tuple)),
    events.Unknown: st.builds(_unknown, st.sampled_from(["later_kind", "next_kind"]), st.booleans(), text),
}
"""A strategy for each kind of event; a test demands that none is missing."""

any_event: st.SearchStrategy[Any] = st.one_of(*BY_KIND.values())


def logs(max_size: int = 25) -> st.SearchStrategy[list[events.Entry]]:
    """Arbitrary events as entries, seq from 0."""
    return st.lists(any_event, max_size=max_size).map(
        lambda drawn: [events.Entry(seq, 1_000 * seq, event) for seq, event in enumerate(drawn)]
    )


KINDS: frozenset[type[Any]] = frozenset(get_args(events.Event))
