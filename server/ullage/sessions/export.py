"""A session as a document for people. It holds what a client may see, and nothing else."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator

from ullage.core.messages import Image, Message, Reasoning, Text, ToolCall, ToolResult
from ullage.core.views import (
    Shown,
    ShownAnswer,
    ShownCompaction,
    ShownInstructions,
    ShownPrompt,
    ShownResult,
    ShownSteer,
    ShownTurnEnd,
    ShownTurnStart,
)


def markdown(title: str, updates: Iterable[Shown]) -> str:
    """The transcript as Markdown: prompts, answers, tool calls with their results, compaction boundaries."""
    return document(title, (block for _, block in blocks(updates)))


def document(title: str, written: Iterable[str]) -> str:
    """Blocks of Markdown under a session's title."""
    return "\n\n".join([f"# {_one_line(title) or 'Session'}", *written]) + "\n"


def blocks(updates: Iterable[Shown]) -> Iterator[tuple[int, str]]:
    """The transcript's blocks, each with the seq it stands at, in ascending order."""
    waiting: dict[str, Message] = {}
    for update in updates:
        for block in _blocks(update, waiting):
            yield update.seq, block


def _blocks(update: Shown, waiting: dict[str, Message]) -> Iterator[str]:
    """A prompt is written where its turn began, not where it was queued."""
    match update.what:
        case ShownPrompt(message):
            waiting[message.turn_id] = message
        case ShownTurnStart(turn_id) | ShownSteer(_, turn_id):
            if turn_id in waiting:
                yield "## User"
                yield from _parts(waiting.pop(turn_id))
        case ShownAnswer(message):
            yield "## Assistant"
            yield from _parts(message)
        case ShownResult(message):
            yield from _parts(message)
        case ShownCompaction(report):
            sizes = f"{report.before:,} to {report.after:,} tokens"
            yield f"---\n\n*Context compacted ({report.strategy}): {sizes}.*\n\n---"
        case ShownInstructions(path, tokens, note):
            yield f"*Instructions: {_one_line(path)} ({note or f'{tokens:,} tokens'}).*"
        case ShownTurnEnd(_, stop, error):
            yield f"*Turn ended: {stop}{f' ({error.message})' if error else ''}.*"
        case _:
            pass


def _parts(message: Message) -> Iterator[str]:
    for part in message.parts:
        match part:
            case Text(text):
                yield text
            case Reasoning(text):
                if text:
                    yield "> " + text.replace("\n", "\n> ")
            case ToolCall():
                yield f"**{part.name}**\n\n{fenced(part.arguments, 'json')}"
            case ToolResult():
                yield fenced(part.text)
            case Image():
                yield f"*[image, {part.width} x {part.height}]*"
            case _:
                pass


def fenced(text: str, language: str = "") -> str:
    """A code block that the text can't end."""
    fence = "```"
    while fence in text:
        fence += "`"
    return f"{fence}{language}\n{text.rstrip()}\n{fence}"


def _one_line(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)[1:-1]
