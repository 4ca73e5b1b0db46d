"""`ullage compact`: a history on stdin comes back valid and within a budget, without a server and without a model.

Invariant: the result is always a valid history in the shape it came in. What does not fit at all is written as small as
it gets, said in the report, and told by the exit code.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Final

from ullage.context.conversation import Conversation, conversation_of
from ullage.context.counts import is_count
from ullage.context.occupancy import count_message
from ullage.context.request import render
from ullage.core.errors import BadInput, ContextFailed
from ullage.core.messages import Message
from ullage.core.ports import TokenCounter
from ullage.core.requests import RequestMessage
from ullage.providers.anthropic_shape import anthropic_messages, messages_from_anthropic
from ullage.providers.openai_shape import messages_from_openai, openai_messages, system_of_openai
from ullage.providers.shapes import ImageStore, checked, detect_shape

DONE: Final = 0
NOT_UNDERSTOOD: Final = 2
DOES_NOT_FIT: Final = 3
SHAPES: Final = ("anthropic", "openai")
_TRIES: Final = 4
"""How often the target is brought down by what rendering added to a replacement."""
_ASKED: Final = {"messages", "budget_tokens", "window", "model", "shape"}


@dataclass(frozen=True, slots=True)
class Asked:
    """What stands on stdin. `budget` and `window` in tokens."""

    messages: list[dict[str, Any]]
    budget: int
    window: int | None
    shape: str


@dataclass(slots=True)
class Report:
    """What was done. Tokens are of the messages alone, by `encoding`; `left_out` counts messages no longer there."""

    shape: str
    encoding: str
    budget_tokens: int
    before: int
    after: int
    compacted: bool
    fits: bool
    messages_before: int
    messages_after: int
    words_kept: int = 0
    notes: list[str] = field(default_factory=list)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """None: everything stands in the body."""
    parser.epilog = 'Reads {"messages": [...], "budget_tokens": N, "window": W, "model": null} on stdin.'


def run(args: argparse.Namespace) -> int:
    """0: done; 2: the body was not understood; 3: what must stay does not fit the budget."""
    from ullage.providers.tokens import load_counter

    try:
        asked = read_body(sys.stdin.buffer.read())
    except BadInput as error:
        print(f"ullage: {error.report.message}\n        {error.report.hint}", file=sys.stderr)
        return NOT_UNDERSTOOD
    messages, report = compact(asked, load_counter())
    json.dump({"messages": messages, "report": asdict(report)}, sys.stdout, ensure_ascii=True)
    print()
    return DONE if report.fits else DOES_NOT_FIT


def read_body(body: bytes) -> Asked:
    """What was asked.

    Raises:
        BadInput: it is no JSON, or a field is missing, unknown, or of another kind.
    """
    hint = 'Give {"messages": [...], "budget_tokens": N, "window": W, "model": null}.'
    try:
        given = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise BadInput(f"stdin is no JSON: {error}", hint=hint) from error
    if not isinstance(given, dict):
        raise BadInput("stdin is no JSON object.", hint=hint)
    if unknown := sorted(given.keys() - _ASKED):
        raise BadInput(f"Nobody knows the field `{unknown[0]}`.", hint=hint)
    budget, window = given.get("budget_tokens"), given.get("window")
    if not isinstance(budget, int) or not is_count(budget) or budget == 0:
        raise BadInput("`budget_tokens` must be a positive whole number.", hint=hint)
    if window is not None and (not is_count(window) or window == 0):
        raise BadInput("`window` must be a positive whole number of tokens, or null.", hint=hint)
    if given.get("model") is not None:
        raise BadInput("`model` must be null: no model is asked.", hint="Leave `model` out, or give null.")
    messages = checked(given.get("messages"))
    shape = given.get("shape") or detect_shape(messages)
    if shape not in SHAPES:
        raise BadInput(f"`shape` must be one of {', '.join(SHAPES)}.", hint="Leave it out to have it detected.")
    return Asked(messages, budget, window, shape)


def compact(asked: Asked, counter: TokenCounter) -> tuple[list[dict[str, Any]], Report]:
    """Valid messages in the shape they came in, within the budget where that is possible, and what was done."""
    images = ImageStore()
    if asked.shape == "openai":
        system, said = system_of_openai(asked.messages), messages_from_openai(asked.messages, images)
    else:
        system, said = [], messages_from_anthropic(asked.messages, images=images)
    beside = sum(count_message(each, counter) for each in messages_from_openai(system, system=True))
    talk = conversation_of(said, counter, window=asked.window)
    report = Report(asked.shape, counter.encoding, asked.budget, 0, 0, False, True, len(asked.messages), 0)
    shown = _shown(talk)
    report.before = report.after = beside + _tokens(shown, counter)
    if report.after > asked.budget:
        shown = _fit(talk, shown, asked.budget - beside, counter, report)
        report.after = beside + _tokens(shown, counter)
    if report.after > asked.budget:
        report.fits = False
        report.notes.append(f"What must stay takes {report.after:,} tokens: this is the smallest valid history.")
    write = openai_messages if asked.shape == "openai" else anthropic_messages
    written = [*system, *write(shown, images.load)]
    report.messages_after = len(written)
    return written, report


def _shown(talk: Conversation) -> list[RequestMessage]:
    return render(talk.state.items, "")[0] if talk.state.items else []


def _fit(
    talk: Conversation, whole: list[RequestMessage], room: int, counter: TokenCounter, report: Report
) -> list[RequestMessage]:
    """The history compacted into `room` tokens, or as near to that as it gets."""
    best, most, start = whole, max(1, room), talk.state
    for _ in range(_TRIES):
        talk.state = start
        try:
            done = talk.compact(most=most)
        except ContextFailed as error:
            report.notes.append(error.report.message)
            if error.report.code != "mandatory_too_large":
                break
            talk.forget_window()
            continue
        shown = _shown(talk)
        taken = _tokens(shown, counter)
        if taken < _tokens(best, counter):
            best, report.compacted, report.words_kept = shown, True, len(done.replacement.words)
        if taken <= room or most == 1:
            break
        most = max(1, most - (taken - room))
    return best


def _tokens(messages: Sequence[RequestMessage], counter: TokenCounter) -> int:
    return sum(count_message(Message("", each.role, each.blocks, ""), counter) for each in messages)
